"""Gradescope's results.json: its fields and their values, and no score without a verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grader.exports import FORMATS
from grader.exports.files import NoVerdict
from grader.results import Entry, Outcome, Status, Visibility

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged

TOP = {
    "score",
    "execution_time",
    "output",
    "output_format",
    "test_output_format",
    "test_name_format",
}
TOP |= {"visibility", "stdout_visibility", "extra_data", "tests", "leaderboard"}
TEST = {"score", "max_score", "status", "name", "name_format", "number", "output", "output_format"}
TEST |= {"tags", "visibility", "extra_data"}
FORMATS_OF_TEXT = {"text", "html", "simple_format", "md", "ansi"}
VISIBILITIES = {"hidden", "after_due_date", "after_published", "visible"}


def gradescope_reads(of: Entry) -> dict[str, Any]:
    raw = rendered(FORMATS["gradescope"], of)
    result: dict[str, Any] = json.loads(raw)
    assert set(result) <= TOP
    for key in ("output_format", "test_output_format", "test_name_format"):
        assert result[key] in FORMATS_OF_TEXT
    assert {result["visibility"], result["stdout_visibility"]} <= VISIBILITIES
    assert isinstance(result["score"], int | float)
    assert isinstance(result["execution_time"], int | float)
    for test in result["tests"]:
        assert set(test) <= TEST
        assert test["status"] in ("passed", "failed")
        assert test["visibility"] in VISIBILITIES
        assert 0 <= test["score"] <= test["max_score"]
        assert isinstance(test["number"], str)
    assert round(sum(test["score"] for test in result["tests"]), 2) == result["score"]
    return result


def test_results_have_points_statuses_and_output() -> None:
    tests = (
        checked(),
        checked("b", Outcome.FAILED, 2),
        checked("c", Outcome.SKIPPED, message="wait"),
    )
    read = gradescope_reads(entry(exercise(*tests), exercise(checked(), name="gelu", worth=2.5)))
    assert (read["score"], read["execution_time"]) == (6.25, 1.25)
    assert [test["number"] for test in read["tests"]] == ["1.1", "1.2", "1.3", "2.1"]
    assert [test["status"] for test in read["tests"]] == ["passed", "failed", "failed", "passed"]
    assert [test["score"] for test in read["tests"]] == [3.75, 0, 0, 2.5]
    assert read["tests"][1]["output"] == "It does not hold.\nmodules/glu.py:7\nHint: Look again."
    assert read["output"].splitlines() == ["glu: 3.75 of 15 points", "gelu: 2.5 of 2.5 points"]


def test_practice_is_listed_and_worth_nothing() -> None:
    tests = (checked(), checked("b", Outcome.FAILED))
    practice = exercise(*tests, name="gelu", practice=True)
    read = gradescope_reads(entry(exercise(*tests, worth=20), practice))
    assert (read["score"], sum(test["max_score"] for test in read["tests"])) == (10, 20)
    assert [test["status"] for test in read["tests"]] == ["passed", "failed"] * 2
    assert read["tests"][2]["name"].startswith("gelu (practice): ")
    assert read["output"].splitlines()[1] == "gelu (practice): 7.5 of 15 points"
    waiting = exercise(
        checked(outcome=Outcome.SKIPPED), name="gelu", practice=True, status=Status.UNJUDGED
    )
    read = gradescope_reads(entry(exercise(*tests, worth=20), waiting))
    assert len(read["tests"]) == 2 and "gelu (practice): Not judged" in read["output"]


def test_hidden_tests_are_shown_when_grades_are_published() -> None:
    tests = (checked(), checked("b", Outcome.FAILED, visibility=Visibility.HIDDEN))
    read = gradescope_reads(entry(exercise(*tests)))
    assert [test["visibility"] for test in read["tests"]] == ["visible", "after_published"]
    assert read["stdout_visibility"] == "hidden"
    assert read["output"] == "glu: 1 of 1 public test passed"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_stays_text(text: str) -> None:
    read = gradescope_reads(hostile_entry(text))
    # Gradescope must treat nothing as HTML or Markdown.
    assert {read["output_format"], read["test_output_format"], read["test_name_format"]} == {"text"}
    assert "\x1b" not in json.dumps(read, ensure_ascii=False)


def test_without_a_verdict_there_is_no_file() -> None:
    with pytest.raises(NoVerdict, match="gelu could not be judged") as error:
        rendered(FORMATS["gradescope"], entry(exercise(checked()), unjudged()))
    assert error.value.exit_code == 3
