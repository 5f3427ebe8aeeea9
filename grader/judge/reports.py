"""The one place that knows pytest-json-report, so that it could be replaced: its report as plain structs.

It is little maintained (beside pytest-metadata 3.1.1 its `environment` comes back empty), and all
that is taken from it is each test's outcome, its duration and what our plugin attached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from grader.errors import JudgeError
from grader.judge.plugin import PROPERTY, Report

__all__ = ["Recorder", "Reported"]


class Reported(msgspec.Struct, frozen=True):
    """One test as pytest saw it end."""

    file: str
    name: str
    outcome: str
    seconds: float
    said: Report | None


class Recorder:
    """A plugin that keeps pytest-json-report's report of one session."""

    options = (
        "-ppytest_jsonreport.plugin",
        "-ppytest_metadata.plugin",
        "--json-report",
        "--json-report-file=none",
        "--json-report-omit=collectors,keywords,log,streams,warnings",
    )

    def __init__(self) -> None:
        self._report: Any = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_json_modifyreport(self, json_report: Any) -> None:
        self._report = json_report

    def tests(self, root: Path) -> list[Reported]:
        """What ran, in the order in which it ran; a report that makes no sense is a JudgeError."""
        report = self._report
        try:
            if report["summary"]["total"] != len(report["tests"]):
                raise JudgeError("pytest's report is short of tests; nothing was scored.")
            return [_reported(test, root) for test in report["tests"]]
        except (KeyError, TypeError, ValueError) as error:
            raise JudgeError(f"pytest's report makes no sense ({error!r}).") from error


def _reported(test: dict[str, Any], root: Path) -> Reported:
    file, _, name = test["nodeid"].partition("::")
    stages = [test[stage] for stage in ("setup", "call", "teardown") if stage in test]
    properties = {
        key: value for each in test.get("user_properties", []) for key, value in each.items()
    }
    said = properties.get(PROPERTY)
    return Reported(
        file=str(root / file),
        name=name,
        outcome=test["outcome"],
        seconds=sum(stage["duration"] for stage in stages),
        said=msgspec.convert(said, Report) if said is not None else None,
    )
