"""Points in hundredths: shares add up, and a fault of the grader never lowers a total."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grader.exports.verdicts import overall, total, why_open
from grader.judge.scoring import hundredths, shares
from grader.results import Outcome, Status
from grader.text import number

from ..builders import checked, entry, exercise, unjudged

WEIGHTS = st.lists(
    st.tuples(st.sampled_from([0.0, 0.5, 1.0, 2.0, 7.0, 26.0]), st.booleans()), min_size=1
)


@given(WEIGHTS, st.sampled_from([0.01, 1.0, 2.5, 15.0, 100.0]))
def test_shares_add_up_to_the_points_of_the_exercise(
    tests: list[tuple[float, bool]], worth: float
) -> None:
    results = [
        checked(f"t{n}", Outcome.PASSED if passed else Outcome.FAILED, weight)
        for n, (weight, passed) in enumerate(tests)
    ]
    of = exercise(*results, worth=worth)
    dealt = shares(of)
    assert sum(share.score for share in dealt) == hundredths(of.score)
    assert sum(share.max_score for share in dealt) == hundredths(of.max_score)
    assert all(0 <= share.score <= share.max_score for share in dealt)
    if 0 < of.score < worth:
        for share, result in zip(dealt, results, strict=True):
            earned = share.score if result.outcome is Outcome.PASSED else share.max_score
            assert share.score in (0, earned)


def test_a_total_with_an_unjudged_exercise_is_none() -> None:
    judged = exercise(checked())
    assert total(entry(judged, unjudged())) is None
    assert total(entry(judged)) == 15
    assert total(entry(judged), 10) == 10


def test_a_total_is_final_without_a_verdict_on_practice() -> None:
    practice = exercise(name="gelu", practice=True, status=Status.UNJUDGED, score=0.0)
    found = entry(exercise(checked()), practice)
    assert total(found) == 15
    assert overall(found.result) is Status.PASSED
    # Practice does not hide that nothing was handed in.
    nothing = exercise(status=Status.NOT_ATTEMPTED, score=0.0)
    assert overall(entry(nothing, practice).result) is Status.NOT_ATTEMPTED
    # The reason for an open total comes from an exercise that counts.
    waiting = exercise(status=Status.UNJUDGED, waiting=True, message="Not judged yet.", score=0.0)
    assert why_open(entry(waiting, practice)) == "Not judged yet."


def test_scaling_rounds_nothing_to_full_marks_or_zero() -> None:
    nearly = exercise(checked(weight=999), checked("b", Outcome.FAILED, 1), worth=100)
    assert total(entry(nearly), 1) == 0.99
    hardly = exercise(checked(weight=1), checked("b", Outcome.FAILED, 9999), worth=100)
    assert total(entry(hardly), 1) == 0.01


@pytest.mark.parametrize(
    ("exercises", "status"),
    [
        ([exercise(checked())], Status.PASSED),
        ([exercise(checked()), unjudged()], Status.UNJUDGED),
        ([exercise(checked()), exercise(checked(outcome=Outcome.FAILED))], Status.PARTIAL),
        ([exercise(checked(outcome=Outcome.FAILED))], Status.FAILED),
        ([exercise(status=Status.NOT_ATTEMPTED, score=0.0)], Status.NOT_ATTEMPTED),
        (
            [
                exercise(status=Status.NOT_ATTEMPTED, score=0.0),
                exercise(status=Status.TIMEOUT, score=0.0),
            ],
            Status.FAILED,
        ),
    ],
)
def test_one_status_for_all_exercises(exercises: list[object], status: Status) -> None:
    assert overall(entry(*exercises).result) is status  # type: ignore[arg-type]  # made above


@pytest.mark.parametrize(
    ("value", "text"), [(15.0, "15"), (7.5, "7.5"), (0.0, "0"), (0.333, "0.33"), (100.0, "100")]
)
def test_points_as_a_person_writes_them(value: float, text: str) -> None:
    assert number(value) == text
