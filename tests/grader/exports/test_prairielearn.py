"""PrairieLearn's results.json: a score from 0 to 1, points that add up, and at most 1 MB."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grader.errors import GraderError
from grader.exports import FORMATS
from grader.results import Entry, Outcome, Status

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged


def prairielearn_reads(of: Entry) -> dict[str, Any]:
    raw = rendered(FORMATS["prairielearn"], of)
    assert len(raw) <= 1_000_000
    read: dict[str, Any] = json.loads(raw)
    if read["gradable"]:
        assert 0 <= read["score"] <= 1
        assert round(sum(test["points"] for test in read["tests"]), 2) == of.result.score
        assert round(sum(test["max_points"] for test in read["tests"]), 2) == of.result.max_score
    return read


def test_practice_without_a_verdict_has_no_tests_and_costs_nothing() -> None:
    tests = (checked(outcome=Outcome.SKIPPED),)
    waiting = exercise(*tests, name="gelu", practice=True, status=Status.UNJUDGED)
    read = prairielearn_reads(entry(exercise(checked()), waiting))
    assert (read["score"], len(read["tests"])) == (1, 1)


def test_score_points_and_output() -> None:
    read = prairielearn_reads(
        entry(exercise(checked(), checked("b", Outcome.FAILED, 2), output="printed"))
    )
    assert read["score"] == pytest.approx(1 / 3)
    assert [(test["points"], test["max_points"]) for test in read["tests"]] == [(5, 5), (0, 10)]
    assert read["output"] == "glu:\nprinted"
    assert read["message"] == "5 of 15 points."


def test_a_score_of_1_needs_full_marks() -> None:
    tests = (checked(weight=100_000), checked("b", Outcome.FAILED, 1))
    assert 0.999 < prairielearn_reads(entry(exercise(*tests)))["score"] < 1
    assert prairielearn_reads(entry(exercise(checked())))["score"] == 1


def test_an_unjudged_exercise_is_not_gradable() -> None:
    read = prairielearn_reads(entry(exercise(checked()), unjudged()))
    assert read["gradable"] is False
    assert "score" not in read
    assert "gelu" in read["format_errors"][0]


def test_texts_are_cut_until_the_result_fits() -> None:
    tests = [checked(f"t{n}", Outcome.FAILED, message="é" * 9000) for n in range(300)]
    read = prairielearn_reads(entry(exercise(*tests, output="y" * 100_000)))
    assert len(read["tests"]) == 300
    assert read["tests"][0]["message"].startswith("éé")
    assert read["tests"][0]["message"].endswith("[…]")


def test_results_that_cannot_fit_are_an_error() -> None:
    tests = [checked(f"t{n}", title="t" * 2000) for n in range(1000)]
    with pytest.raises(GraderError, match="1,000,000 bytes"):
        rendered(FORMATS["prairielearn"], entry(exercise(*tests)))


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text(text: str) -> None:
    assert "\x1b" not in json.dumps(prairielearn_reads(hostile_entry(text)), ensure_ascii=False)
