"""How corrections change points: the order of their kinds, their bounds, and to whom they apply."""

from __future__ import annotations

import datetime
import itertools
import re
from typing import Any

import msgspec
import pytest

from grader.errors import SubmissionError
from grader.gradebook.corrections import (
    Correction,
    Kind,
    corrected,
    holding,
    of_tests,
    outdated,
    refuse_pointless,
    rejudged,
)
from grader.judge.scoring import rescored
from grader.results import ExerciseResult, Mark, Outcome, Status
from tests.grader import builders

# Three tests worth 2, 3 and 5 of 10 points. The last two passed.
RESULT = builders.exercise(
    builders.checked("test_a", Outcome.FAILED, 2),
    builders.checked("test_b", weight=3),
    builders.checked("test_c", weight=5),
    name="relu",
    worth=10.0,
)


def correction(kind: Kind, value: float | str = 0.0, **fields: Any) -> Correction:
    given = {"exercise": "relu", "student": "ann", "reason": "so", kind.value: value}
    time = datetime.datetime(2026, 10, 12, tzinfo=datetime.UTC)
    return Correction(author="ben", time=time, **{**given, **fields})


def for_all(kind: Kind, test: str) -> Correction:
    return correction(kind, test, student="")


@pytest.mark.parametrize(
    ("dropped", "given", "score"),
    [
        ((), (), 8),
        (["test_a"], (), 10),
        (["test_b"], (), 7.14),
        ((), ["test_a"], 10),
        (["test_c"], ["test_a"], 10),
        (["test_c"], (), 6),
        (["test_b", "test_c"], (), 0),
    ],
)
def test_points_without_some_tests_and_with_others_given(
    dropped: list[str], given: list[str], score: float
) -> None:
    after = rescored(RESULT, dropped, given)
    assert after.score == score
    assert after.tests == RESULT.tests, "the outcomes of the judge stay"
    full = score == 10
    assert after.status is (Status.PASSED if full else Status.PARTIAL if score else Status.FAILED)


def test_a_changed_test_is_named_by_its_title_if_it_changes_points() -> None:
    made = [
        for_all(Kind.GIVE, "test_a"),
        for_all(Kind.GIVE, "test_b"),
        for_all(Kind.DROP, "test_c"),
    ]
    assert of_tests(made, RESULT) == (
        "“The title of test_a” is given to all: so.",
        "“The title of test_c” is dropped and counts for no student: so.",
    )
    assert rejudged(RESULT, [for_all(Kind.DROP, "test_gone")]) is RESULT


@pytest.mark.parametrize(
    ("points", "made", "after"),
    [
        (5, [(Kind.ADD, 2)], 7),
        (5, [(Kind.ADD, 2), (Kind.ADD, -4)], 3),
        (5, [(Kind.ADD, 9)], 10),
        (5, [(Kind.ADD, -9)], 0),
        (5, [(Kind.POINTS, 8)], 8),
        (5, [(Kind.POINTS, 8), (Kind.POINTS, 6)], 6),
        (5, [(Kind.POINTS, 12)], 10),
    ],
)
def test_points_stay_between_0_and_the_worth_of_the_exercise(
    points: float, made: list[tuple[Kind, float]], after: float
) -> None:
    assert corrected(points, 10, [correction(*each) for each in made]).points == after


def test_set_points_are_final_in_any_order() -> None:
    made = [
        correction(Kind.ADD, 1),
        correction(Kind.POINTS, 4, comment="Well."),
        correction(Kind.ADD, 2),
    ]
    for order in itertools.permutations(made):
        after = corrected(9, 10, order)
        assert (after.points, after.final, after.comment) == (4, True, "Well.")
        assert after.reasons == ("Set to 4 points: so.",)


def test_a_comment_without_points_gives_no_reason() -> None:
    after = corrected(9, 10, [correction(Kind.COMMENT, "See me.", reason="")])
    assert (after.points, after.reasons, after.comment) == (9, (), "See me.")


@pytest.mark.parametrize(
    ("points", "added", "is_said"), [(10, 1, True), (9.5, 1, True), (9, 1, False)]
)
def test_a_reason_says_that_the_maximum_is_reached(
    points: float, added: float, is_said: bool
) -> None:
    after = corrected(points, 10, [correction(Kind.ADD, added)])
    assert after.points == 10
    assert ("The maximum of 10 points is reached." in after.reasons) is is_said


@pytest.mark.parametrize(
    ("points", "words"),
    [(1, "1 point added: so."), (-1, "1 point taken off: so."), (0.5, "0.5 points added: so.")],
)
def test_reasons_are_sentences(points: float, words: str) -> None:
    assert corrected(5, 10, [correction(Kind.ADD, points)]).reasons == (words,)
    ended = correction(Kind.ADD, points, reason="so!")
    assert corrected(5, 10, [ended]).reasons == (words.replace("so.", "so!"),)


@pytest.mark.parametrize(
    ("result", "kinds"),
    [
        (RESULT, {Kind.POINTS, Kind.GIVE}),
        (msgspec.structs.replace(RESULT, settled=True), {Kind.POINTS}),
        (msgspec.structs.replace(RESULT, status=Status.UNJUDGED), {Kind.POINTS}),
        (None, {Kind.POINTS}),
    ],
)
def test_corrections_for_all_apply_only_to_judged_students(
    result: ExerciseResult | None, kinds: set[Kind]
) -> None:
    made = [
        correction(Kind.POINTS, 3),
        correction(Kind.POINTS, 4, student="bob"),
        correction(Kind.POINTS, 5, exercise="glu"),
        for_all(Kind.GIVE, "test_a"),
    ]
    assert {each.kind for each in holding(made, "ann", "relu", result)} == kinds


def test_corrections_with_an_outdated_judged_score_are_found() -> None:
    marked = msgspec.structs.replace(RESULT, score=9.0, mark=Mark(judged=6.0))
    entry = builders.entry(marked, student="ann")
    made = [
        correction(Kind.POINTS, 9, judged=8.0),
        correction(Kind.POINTS, 9, judged=6.0),
        correction(Kind.POINTS, 9, judged=8.0, student="bob"),
        for_all(Kind.GIVE, "test_a"),
    ]
    assert outdated(made, [entry]) == [(made[0], 6.0)]


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (correction(Kind.POINTS, 10.5), "from 0 to 10"),
        (correction(Kind.POINTS, -1), "from 0 to 10"),
        (correction(Kind.ADD, -11), "must be from -10 to 10"),
        (correction(Kind.ADD, 1, student="bob"), "by number 3, which is final"),
        (for_all(Kind.GIVE, "test_d"), "Did you mean 'test_"),
        (for_all(Kind.GIVE, "test_a"), "already dropped by number 1"),
        (for_all(Kind.DROP, "test_c"), "the last test of relu that counts"),
    ],
)
def test_a_pointless_correction_is_refused(made: Correction, words: str) -> None:
    before = [
        for_all(Kind.DROP, "test_a"),
        for_all(Kind.DROP, "test_b"),
        correction(Kind.POINTS, 3, student="bob"),
    ]
    with pytest.raises(SubmissionError, match=re.escape(words)):
        refuse_pointless(made, RESULT, before)
    refuse_pointless(correction(Kind.ADD, 1), RESULT, before)
    refuse_pointless(for_all(Kind.GIVE, "test_c"), RESULT, before)
