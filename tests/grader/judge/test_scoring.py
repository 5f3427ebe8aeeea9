"""The points of an exercise, computed from the outcomes of its tests."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from grader.course.manifest import Exercise, PackageNeed
from grader.course.suite import SuiteTest
from grader.judge.scoring import (
    Share,
    change,
    extra_words,
    kept,
    lessened,
    points,
    reaches,
    rescored,
    scaled,
    score_alike,
    score_exercise,
    score_test,
    shares,
    shares_that_count,
    sum_of,
    weighed,
    with_extra_credit,
    without_unfounded,
    worth_of,
)
from grader.results import Mark, Outcome, Place, Status, TestResult, Visibility

from ..builders import checked, exercise, result

MISSING = PackageNeed(packages=("no_such_package",), share="forward")


def an_exercise(**keys: Any) -> Exercise:
    """Return an exercise worth 10 points."""
    given = {
        "id": "glu",
        "chapter": "modules",
        "title": "A gate",
        "points": 10.0,
        "seconds": 5.0,
        "difficulty": 1,
        "minutes": 5,
        "teaches": "Gates.",
        "hints": ("a", "b", "c"),
    }
    return msgspec.convert({**given, **keys}, Exercise)


def declared(name: str, *, word: str = "", **fields: Any) -> SuiteTest:
    """Return a hidden test of `forward`."""
    given = {"title": name, "visibility": Visibility.HIDDEN, "place": "forward"}
    return SuiteTest(name, **{**given, **fields}, word=word)


# --- one test -------------------------------------------------------------------------------------


def test_a_passed_test_has_all_of_its_points_and_no_hint() -> None:
    test = declared("a", points=3, hint="Look at the axis.", title="The axis")
    scored = score_test(test, Outcome.PASSED, "", seconds=0.123456)
    assert scored == TestResult(
        "a", "The axis", Visibility.HIDDEN, Outcome.PASSED, 3, 3, 0.1235, "", ""
    )


@pytest.mark.parametrize("outcome", [o for o in Outcome if o is not Outcome.PASSED])
def test_any_other_outcome_earns_nothing_and_shows_the_hint(outcome: Outcome) -> None:
    place = Place("modules/glu.py", 7, "forward")
    scored = score_test(declared("a", points=3, hint="Look."), outcome, "It is 2.", place)
    assert (scored.score, scored.max_score, scored.hint) == (0, 3, "Look.")
    assert (scored.outcome, scored.message, scored.place) == (outcome, "It is 2.", place)


def test_a_failed_test_always_has_a_message() -> None:
    assert score_test(declared("a"), Outcome.FAILED, "").message == "This does not hold yet."


# --- shares of the exercise -----------------------------------------------------------------------


def test_without_shares_the_tests_have_their_own_points() -> None:
    tests = [declared("a", points=3), declared("b")]
    assert weighed(an_exercise(), tests) == tests


def test_each_share_is_divided_by_the_points_of_its_tests() -> None:
    of = an_exercise(shares={"forward": 60, "flow": 40})
    tests = [
        declared("a", share="forward", points=1),
        declared("b", share="forward", points=3),
        declared("c", share="flow", points=9),
    ]
    assert [test.points for test in weighed(of, tests)] == [15, 45, 40]
    assert [test.points for test in weighed(of, tests[:2])] == [15, 45]


def test_a_share_with_a_missing_package_reduces_the_worth() -> None:
    three = {"forward": 1, "flow": 2}
    assert worth_of(an_exercise(shares=three)) == 10
    assert worth_of(an_exercise(shares=three, needs=(MISSING,))) == 6.67
    hardly = {"forward": 1e6, "flow": 0.001}
    assert worth_of(an_exercise(shares=hardly, needs=(MISSING,))) == 0.01


# --- an exercise ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earned", "total", "worth", "score"),
    [
        (0, 3, 10, 0),
        (3, 3, 10, 10),
        (1, 3, 10, 3.33),
        (2, 3, 10, 6.67),
        (1, 8, 0.2, 0.03),  # half a hundredth is rounded up
        (99_999, 100_000, 10, 9.99),
        (1, 100_000, 10, 0.01),
        (4, 3, 10, 10),
        (-1, 3, 10, 0),
        (0, 0, 10, 0),
        (1, 0, 10, 0),
    ],
)
def test_rounding_makes_no_score_perfect_or_empty(
    earned: float, total: float, worth: float, score: float
) -> None:
    assert points(earned, total, worth) == score


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([Outcome.PASSED, Outcome.PASSED], Status.PASSED),
        ([Outcome.PASSED, Outcome.TIMEOUT], Status.PARTIAL),
        ([Outcome.FAILED, Outcome.TIMEOUT, Outcome.ERROR], Status.TIMEOUT),
        ([Outcome.ERROR, Outcome.FAILED, Outcome.SKIPPED], Status.FAILED),
        ([Outcome.NOT_IMPLEMENTED, Outcome.ERROR], Status.ERROR),
        ([Outcome.NOT_IMPLEMENTED, Outcome.SKIPPED], Status.NOT_ATTEMPTED),
        ([], Status.NOT_ATTEMPTED),
    ],
)
def test_the_status_follows_the_points_or_the_gravest_outcome(
    outcomes: list[Outcome], status: Status
) -> None:
    tests = [checked(f"t{at}", outcome) for at, outcome in enumerate(outcomes)]
    assert score_exercise(an_exercise(), tests).status is status


def test_passed_tests_without_points_are_not_a_partial_success() -> None:
    tests = [checked("word", weight=0), checked("value", Outcome.FAILED)]
    assert score_exercise(an_exercise(), tests).status is Status.FAILED


def test_the_score_is_the_share_of_points_of_judged_tests() -> None:
    tests = [checked("a", weight=3), checked("b", Outcome.FAILED, 1)]
    of = an_exercise(shares={"forward": 1, "flow": 3}, needs=(MISSING,))
    scored = score_exercise(
        of, tests, message="so", output="printed", seconds=1.23456, settled=True
    )
    assert (scored.score, scored.max_score) == (5.63, 7.5)
    assert (scored.name, scored.title, scored.chapter) == ("glu", "A gate", "modules")
    assert (scored.message, scored.output, scored.tests) == ("so", "printed", tuple(tests))
    assert (scored.duration_seconds, scored.settled) == (1.2346, True)
    assert scored.left_out.startswith("forward is not judged here, and its points do not count")


def test_tests_with_a_common_outcome_keep_the_weights_of_shares() -> None:
    of = an_exercise(shares={"forward": 60, "flow": 40})
    tests = [declared("a", share="forward", points=2), declared("b", share="flow")]
    place = Place("modules/glu.py", 7, "forward")
    alike = score_alike(of, tests, Outcome.ERROR, "It is not Python.", place, settled=True)
    assert (alike.status, alike.score, alike.max_score) == (Status.ERROR, 0, 10)
    assert alike.settled
    assert alike.message == "It is not Python."
    assert [test.max_score for test in alike.tests] == [60, 40]
    assert {(test.message, test.place) for test in alike.tests} == {("It is not Python.", place)}


# --- words about wrong values ---------------------------------------------------------------------

VALUES = [declared("v1", points=2), declared("v2", points=2), declared("v3", points=2)]
WORDS = [declared("w1", points=3, word="it raised"), declared("w2", word="it left the mode")]


def settled(outcomes: str, tests: list[SuiteTest]) -> list[TestResult]:
    """Score tests by letters: p passed, f failed, s skipped."""
    names = {"p": Outcome.PASSED, "f": Outcome.FAILED, "s": Outcome.SKIPPED}
    ended = [score_test(t, names[o], "") for o, t in zip(outcomes, tests, strict=True)]
    return without_unfounded(tests, ended)


def worths(results: list[TestResult]) -> list[tuple[float, float, int]]:
    return [(test.score, test.max_score, test.carries) for test in results]


def test_tests_of_words_count_if_a_third_of_the_values_is_right() -> None:
    tests = VALUES + WORDS
    assert worths(settled("pffpp", tests)) == [
        (2, 2, 0),
        (0, 2, 0),
        (0, 2, 0),
        (3, 3, 0),
        (1, 1, 0),
    ]


def test_otherwise_their_points_go_to_the_first_failed_test_of_values() -> None:
    tests = VALUES + WORDS
    assert worths(settled("fffpp", tests)) == [
        (0, 6, 2),
        (0, 2, 0),
        (0, 2, 0),
        (0, 0, 0),
        (0, 0, 0),
    ]


def test_three_tenths_of_the_values_are_too_few() -> None:
    tests = [declared("v1", points=3), declared("v2", points=7), WORDS[1]]
    assert worths(settled("pfp", tests)) == [(3, 3, 0), (0, 8, 1), (0, 0, 0)]


def test_a_judged_test_carries_those_points_before_a_skipped_one() -> None:
    assert worths(settled("sfspp", VALUES + WORDS))[:3] == [(0, 2, 0), (0, 6, 2), (0, 2, 0)]
    assert worths(settled("ssspf", VALUES + WORDS)) == [
        (0, 5, 1),
        (0, 2, 0),
        (0, 2, 0),
        (0, 0, 0),
        (0, 1, 0),
    ]


def test_public_examples_are_treated_like_tests_of_words() -> None:
    public = declared("seen", visibility=Visibility.PUBLIC)
    assert worths(settled("fp", [VALUES[0], public])) == [(0, 3, 1), (0, 0, 0)]


def test_tests_of_words_count_for_a_function_without_tests_of_values() -> None:
    other = declared("other", place="flow", word="it raised")
    assert worths(settled("fp", [VALUES[0], other])) == [(0, 2, 0), (1, 1, 0)]


def test_the_kept_part_is_rounded() -> None:
    tenths = [checked(f"t{at}", weight=0.1) for at in range(3)]
    rest = [checked(f"r{at}", Outcome.FAILED, 0.1) for at in range(6)]
    assert kept(tenths + rest) == round(1 / 3, 9)
    assert kept([*tenths, checked("r", Outcome.FAILED, 0.3)]) == 0.5


# --- changes by a policy or by staff --------------------------------------------------------------


@pytest.mark.parametrize(
    ("score", "percent", "left"),
    [
        (10, 0, 10),
        (10, -5, 10),
        (10, 20, 8),
        (6.67, 50, 3.335),
        (10, 100, 0),
        (10, 250, 0),
        (3, 33.33, 2.0001),
        (0, 20, 0),
        (10, 0.5, 9.95),
    ],
)
def test_percent_are_taken_off(score: float, percent: float, left: float) -> None:
    assert lessened(score, percent) == left


def test_corrections_drop_or_give_tests() -> None:
    of = exercise(checked("a", Outcome.FAILED, 2), checked("b", weight=3), worth=10)
    assert (rescored(of, (), ()).score, rescored(of, (), ()).status) == (6, Status.PARTIAL)
    assert (rescored(of, ("a",), ()).score, rescored(of, ("a",), ()).status) == (10, Status.PASSED)
    given = rescored(of, (), ("a",))
    assert (given.score, given.status, given.tests) == (10, Status.PASSED, of.tests)
    nothing = rescored(of, ("a", "b"), ())
    assert (nothing.score, nothing.status) == (0, Status.NOT_ATTEMPTED)


def test_full_marks_do_not_need_extra_credit() -> None:
    plain, extra = exercise(checked(), worth=10), exercise(checked(), name="more", worth=4)
    marked = with_extra_credit([plain, extra], {"more"})
    assert [each.extra_credit for each in marked] == [False, True]
    assert sum_of(iter(marked)) == (14, 10)
    assert sum_of(marked[1:]) == (4, 4), "only extra credit"
    assert extra_words(marked) == ", with 4 of extra credit"
    assert extra_words(marked[1:]) == "", "extra credit makes up the maximum"
    assert sum_of([]) == (0, 0)
    again = with_extra_credit(marked, ())
    assert [each.extra_credit for each in again] == [False, False]


def test_a_sum_of_points_is_rounded_to_hundredths() -> None:
    tenths = [exercise(checked(), name=f"e{at}", worth=0.1) for at in range(3)]
    assert sum_of(tenths) == (0.3, 0.3)


@pytest.mark.parametrize(
    ("earned", "percent", "does"),
    [(5, 50, True), (4.99, 50, False), (0, 0, True), (3.33, 33.3, True)],
)
def test_a_result_reaches_a_limit_in_percent(earned: float, percent: float, does: bool) -> None:
    of = exercise(checked(), worth=10, score=earned)
    assert reaches(result(of), percent) is does


@pytest.mark.parametrize(
    ("score", "worth", "out_of", "shown"),
    [
        (5, 10, 20, 10),
        (12, 10, 20, 24),
        (9.999, 10, 1, 0.99),
        (0, 10, 20, 0),
        (3, 0, 20, 0),
        (0.6, 0.5, 1, 1.2),
    ],
)
def test_a_total_is_scaled(score: float, worth: float, out_of: float, shown: float) -> None:
    assert scaled(score, worth, out_of) == shown


# --- hundredths -----------------------------------------------------------------------------------


def test_the_largest_remainders_get_the_remaining_hundredths() -> None:
    three = [checked(f"t{at}") for at in range(3)]
    assert shares(exercise(*three, worth=0.2)) == [Share(7, 7), Share(7, 7), Share(6, 6)]
    weights = exercise(checked("a", weight=1), checked("b", weight=5), worth=0.1)
    assert shares(weights) == [Share(2, 2), Share(8, 8)]
    assert shares(exercise(worth=10)) == []


def test_shares_use_judged_points_even_if_fewer_count() -> None:
    tests = checked("a", weight=3), checked("b", Outcome.FAILED, 1)
    late = exercise(*tests, worth=10, score=6.0, mark=Mark(judged=7.5))
    assert change(late) == -150
    assert shares(late) == [Share(750, 750), Share(0, 250)]
    assert shares(late)[1].missed == 2.5
    assert shares_that_count(late) == ([Share(600, 600), Share(0, 250)], Share(0, 150))


def test_added_points_form_a_full_share() -> None:
    tests = checked("a", weight=3), checked("b", Outcome.FAILED, 1)
    raised = exercise(*tests, worth=10, score=9.0, mark=Mark(judged=7.5))
    assert change(raised) == 150
    assert shares_that_count(raised) == ([Share(750, 750), Share(0, 100)], Share(150, 150))


def test_points_without_a_passed_test_are_divided_evenly() -> None:
    failed = checked("a", Outcome.FAILED), checked("b", Outcome.FAILED, 3)
    given = exercise(*failed, worth=10, score=5.0)
    assert [share.score for share in shares(given)] == [250, 250]
