"""What pytest saw of the tests that ran, beside and independent of what we make of their ends.

Not by pytest-json-report: it builds its report when a session ends, and ours do not end with a submission;
it calls a test passed of which nothing was reported but its name; and it takes as long as pytest itself.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import msgspec
import pytest

from grader.errors import JudgeError
from grader.judge.plugin import Report

__all__ = ["Reported", "Witness"]


class Reported(msgspec.Struct, frozen=True):
    """A test that ran: what we said of it, and whether pytest saw its function return."""

    file: Path
    name: str
    passed: bool
    seconds: float
    said: Report


class Witness:
    """A plugin that stands where pytest calls a test's function, and where it collects."""

    def __init__(self) -> None:
        self.collection_errors: list[str] = []
        self._returned: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.collection_errors.append(report.longreprtext)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> Generator[None, object, object]:
        result = yield
        # Only here if nothing was raised.
        self._returned.append(pyfuncitem.nodeid)
        return result

    def saw_return(self, item: pytest.Item) -> bool:
        """Whether the test's function returned since this was last asked; and no other one did."""
        returned, self._returned = self._returned, []
        if returned not in ([], [item.nodeid]):
            raise JudgeError(
                f"pytest called other tests than {item.nodeid}: {', '.join(returned)}."
            )
        return bool(returned)
