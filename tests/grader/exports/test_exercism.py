"""exercism's version 3: what its interface demands, test by test."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grader.exports import FORMATS
from grader.results import Entry, Outcome, Status

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged


def exercism_reads(of: Entry) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(rendered(FORMATS["exercism"], of))
    assert read["version"] == 3
    assert read["status"] in ("pass", "fail", "error")
    assert bool(read["message"]) == (read["status"] == "error")
    for test in read["tests"]:
        assert set(test) <= {"name", "status", "message", "output", "test_code", "task_id"}
        assert test["status"] in ("pass", "fail", "error")
        assert test["name"]
        assert len(test.get("output", "")) <= 500
        assert isinstance(test["task_id"], int)
    if read["status"] == "pass":
        assert all(test["status"] == "pass" for test in read["tests"])
    if read["status"] == "error":
        assert read["tests"] == []
    return read


def test_all_passed() -> None:
    read = exercism_reads(entry(exercise(checked(), checked("b"))))
    assert (read["status"], len(read["tests"])) == ("pass", 2)


def test_file_order_output_and_messages() -> None:
    tests = (
        checked("a"),
        checked("b", Outcome.FAILED),
        checked("c", Outcome.TIMEOUT),
        checked("d"),
    )
    read = exercism_reads(entry(exercise(*tests, output="printed\n" * 100)))
    assert read["status"] == "fail"
    assert [test["name"][-1] for test in read["tests"]] == ["a", "b", "c", "d"]
    assert [test["status"] for test in read["tests"]] == ["pass", "fail", "error", "pass"]
    assert ["output" in test for test in read["tests"]] == [False, True, False, False]
    assert read["tests"][1]["output"].endswith("[…]")
    assert "It does not hold." in read["tests"][1]["message"]


def test_an_error_only_where_nothing_ran() -> None:
    missing = exercise(
        checked(outcome=Outcome.ERROR, message="x"),
        status=Status.ERROR,
        message="glu.py is missing.",
    )
    read = exercism_reads(entry(missing))
    assert (read["status"], read["message"]) == ("error", "glu.py is missing.")
    other = exercise(checked(), name="gelu")
    assert exercism_reads(entry(missing, other))["status"] == "fail"
    assert exercism_reads(entry(unjudged()))["status"] == "error"


def test_what_nobody_judged_is_neither_passed_nor_silent() -> None:
    read = exercism_reads(entry(exercise(checked()), unjudged()))
    assert read["status"] == "fail"
    assert [test["status"] for test in read["tests"]] == ["pass", "error"]
    assert "costs no points" in read["tests"][1]["message"]


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text(text: str) -> None:
    assert exercism_reads(hostile_entry(text))["status"] == "fail"
