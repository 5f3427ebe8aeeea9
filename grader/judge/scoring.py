"""Compute the points of an exercise from its tests' outcomes; no other module computes a score."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from grader.course.manifest import Exercise
from grader.course.suite import SuiteTest
from grader.results import EXTRA_CREDIT, ExerciseResult, Outcome, Place, Result, Status, TestResult
from grader.text import number, rounded


def weighed(exercise: Exercise, tests: Sequence[SuiteTest]) -> list[SuiteTest]:
    """Return the tests with points that divide those of the exercise.

    Each share of the exercise is divided by its tests' own points. A share without tests here, for example for
    students who have only the public suite, is left out.
    """
    if not exercise.shares:
        return list(tests)
    worth = dict.fromkeys(exercise.shares, 0.0)
    for test in tests:
        worth[test.share] += test.points
    return [
        msgspec.structs.replace(
            test, points=exercise.shares[test.share] * test.points / worth[test.share]
        )
        for test in tests
    ]


def score_test(
    test: SuiteTest, outcome: Outcome, message: str, place: Place | None = None, seconds: float = 0
) -> TestResult:
    """Return one test, weighed: its points if it passed, else nothing."""
    passed = outcome is Outcome.PASSED
    return TestResult(
        name=test.name,
        title=test.title,
        visibility=test.visibility,
        outcome=outcome,
        score=test.points if passed else 0.0,
        max_score=test.points,
        duration_seconds=round(seconds, 4),
        message=message if message or passed else "This does not hold yet.",
        hint="" if passed else test.hint,
        place=place,
    )


# The part of a function's values that must be right before words about it count, rounded like `kept`.
_FOUNDED = round(1 / 3, 9)


def without_unfounded(
    tests: Sequence[SuiteTest], results: Sequence[TestResult]
) -> list[TestResult]:
    """Return the results, without points for mere words about a function whose values are mostly wrong.

    Any code in the sandbox can claim that it raised, or left a mode unchanged, and public examples can be
    answered from a table. So the points of such tests move to a failed test of values if less than a third of
    the points of the function's hidden tests of values were earned. If the function has no such tests, its
    words count.
    """
    values: dict[str, list[TestResult]] = {}
    for test, result in zip(tests, results, strict=True):
        if test.is_value:
            values.setdefault(test.subject, []).append(result)
    unfounded: dict[str, list[TestResult]] = {}
    for test, result in zip(tests, results, strict=True):
        passed = result.outcome is Outcome.PASSED and not test.is_value
        if passed and kept(values.get(test.subject, [result])) < _FOUNDED:
            unfounded.setdefault(test.subject, []).append(result)
    moved = {id(result) for some in unfounded.values() for result in some}
    opened = {id(_open_one(values[subject])): some for subject, some in unfounded.items()}
    return [
        msgspec.structs.replace(result, score=0.0, max_score=0.0)
        if id(result) in moved
        else _with_points_of(result, opened[id(result)])
        if id(result) in opened
        else result
        for result in results
    ]


def _open_one(values: Sequence[TestResult]) -> TestResult:
    """Return the first test that did not pass, preferably one that was judged."""
    failed = [value for value in values if value.outcome is not Outcome.PASSED]
    return next((value for value in failed if value.outcome is not Outcome.SKIPPED), failed[0])


def _with_points_of(result: TestResult, unfounded: Sequence[TestResult]) -> TestResult:
    """Return the failed test with the points of passed tests that do not count added to its worth."""
    worth = result.max_score + sum(test.max_score for test in unfounded)
    return msgspec.structs.replace(result, max_score=worth, carries=len(unfounded))


def score_alike(
    exercise: Exercise,
    tests: Sequence[SuiteTest],
    outcome: Outcome,
    message: str,
    place: Place | None = None,
    *,
    settled: bool = False,
) -> ExerciseResult:
    """Return the result of an exercise whose tests all have the same outcome and message."""
    results = [score_test(test, outcome, message, place) for test in weighed(exercise, tests)]
    return score_exercise(exercise, results, message=message, settled=settled)


def worth_of(exercise: Exercise) -> float:
    """Return the points that can be earned for an exercise here, without omitted shares."""
    if not exercise.unmet:
        return exercise.points
    part = sum(exercise.open_shares.values()) / sum(exercise.shares.values())
    return max(rounded(exercise.points * part), 0.01)


def score_exercise(
    exercise: Exercise,
    tests: list[TestResult],
    *,
    message: str = "",
    output: str = "",
    seconds: float = 0,
    settled: bool = False,
) -> ExerciseResult:
    """Return an exercise's result: its points times the earned share of its tests' weights."""
    worth = worth_of(exercise)
    return ExerciseResult(
        name=exercise.id,
        title=exercise.title,
        chapter=exercise.chapter,
        status=_status(tests),
        score=_earned(tests, worth),
        max_score=worth,
        duration_seconds=round(seconds, 4),
        message=message,
        tests=tuple(tests),
        output=output,
        settled=settled,
        left_out=" ".join(need.remark for need in exercise.unmet),
    )


def points(earned: float, total: float, worth: float) -> float:
    """Return the share `earned / total` of `worth` points, rounded to hundredths.

    Full marks only if everything was earned, and zero only for nothing: rounding never makes a score perfect or
    empty.
    """
    if total <= 0 or earned <= 0:
        return 0.0
    if earned >= total:
        return worth
    return min(max(rounded(worth * earned / total), 0.01), rounded(worth - 0.01))


def kept(tests: Iterable[TestResult]) -> float:
    """Return the part of the points of these tests that was earned, 0 to 1."""
    results = tuple(tests)
    part = sum(test.score for test in results) / sum(test.max_score for test in results)
    # Otherwise, half of the points might be more than one half in the last bit.
    return round(part, 9)


def lessened(score: float, percent: float) -> float:
    """Reduce `score` by `percent`, without rounding: equal scores stay equal to the last bit."""
    if percent <= 0:
        return score
    return hundredths(score) * (10_000 - hundredths(min(percent, 100))) / 1_000_000


def rescored(
    result: ExerciseResult, dropped: Collection[str], given: Collection[str]
) -> ExerciseResult:
    """Return the points and the status as if the dropped tests did not exist and the given ones had passed.

    The tests themselves stay as the judge ended them.
    """
    tests = [
        msgspec.structs.replace(test, outcome=Outcome.PASSED, score=test.max_score)
        if test.name in given
        else test
        for test in result.tests
        if test.name not in dropped
    ]
    score, status = _earned(tests, result.max_score), _status(tests)
    return msgspec.structs.replace(result, score=score, status=status)


def _earned(tests: Sequence[TestResult], worth: float) -> float:
    earned, total = sum(test.score for test in tests), sum(test.max_score for test in tests)
    return points(earned, total, worth)


def _status(tests: Sequence[TestResult]) -> Status:
    """Return passed or partial by the points earned; if none, the gravest reason counts."""
    outcomes = [test.outcome for test in tests]
    if outcomes and outcomes.count(Outcome.PASSED) == len(outcomes):
        return Status.PASSED
    if any(test.outcome is Outcome.PASSED and test.score for test in tests):
        return Status.PARTIAL
    for outcome, status in (
        (Outcome.TIMEOUT, Status.TIMEOUT),
        (Outcome.FAILED, Status.FAILED),
        (Outcome.ERROR, Status.ERROR),
    ):
        if outcome in outcomes:
            return status
    return Status.NOT_ATTEMPTED


def sum_of(exercises: Iterable[ExerciseResult]) -> tuple[float, float]:
    """Return the points earned in these exercises, without practice, and their maximum without extra credit.

    If all of them are extra credit, the maximum is the sum of all.
    """
    results = tuple(result for result in exercises if not result.practice)
    earned = sum(result.score for result in results)
    needed = [result for result in results if not result.extra_credit] or results
    return rounded(earned), rounded(sum(result.max_score for result in needed))


def extra_credit_of(exercises: Iterable[ExerciseResult]) -> float:
    """Return how many points of the total of these exercises are extra credit; 0 if all of them would be."""
    results = [result for result in exercises if not result.practice]
    if all(result.extra_credit for result in results):
        return 0.0
    return rounded(sum(result.score for result in results if result.extra_credit))


def is_provisional(exercises: Iterable[ExerciseResult]) -> bool:
    """Whether points of these exercises are held until a person has looked at a file."""
    return any(result.provisional for result in exercises)


def extra_words(exercises: Iterable[ExerciseResult]) -> str:
    """Return the words after a total of these exercises: `, with 15 of extra credit`, empty for none."""
    return extra_credit_words(extra_credit_of(exercises))


def total_words(result: Result) -> str:
    """Return the total of a result: `75 of 60 points, with 15 of extra credit`."""
    points = f"{number(result.score)} of {number(result.max_score)} points"
    return f"{points}{extra_words(result.exercises)}"


def extra_credit_words(points: float) -> str:
    """Return the words after a total with these points of extra credit, empty for 0."""
    return f", with {number(points)} of {EXTRA_CREDIT}" if points else ""


def with_extra_credit(
    results: Iterable[ExerciseResult], extra_credit: Collection[str]
) -> tuple[ExerciseResult, ...]:
    """Return the results, marked if their exercise is extra credit."""
    return tuple(
        msgspec.structs.replace(result, extra_credit=result.name in extra_credit)
        if result.extra_credit != (result.name in extra_credit)
        else result
        for result in results
    )


def reaches(result: Result, percent: float) -> bool:
    """Return whether a result has at least this percentage of its points."""
    # Rounded to hundredths, as points are, so that no score misses its limit by a last bit.
    return result.score >= rounded(result.max_score * percent / 100)


def scaled(score: float, worth: float, out_of: float) -> float:
    """Scale a total of `worth` points to `out_of`; with extra credit it may be more."""
    if score > worth > 0:
        return rounded(out_of * score / worth)
    return points(score, worth, out_of)


class Share(msgspec.Struct, frozen=True):
    """The points earned for a test and its worth, in hundredths."""

    score: int
    max_score: int

    @property
    def missed(self) -> float:
        """The points that were not earned."""
        return (self.max_score - self.score) / 100


def shares(exercise: ExerciseResult) -> list[Share]:
    """Return the points of each test of a judged exercise: they add up to the judge's score.

    Hundredths are dealt out as integers, so that they add up exactly, whichever test is rounded up.
    """
    score, worth = hundredths(judged_points(exercise)), hundredths(exercise.max_score)
    return _shared(exercise, score, worth - score)


def change(exercise: ExerciseResult) -> int:
    """Return the points that a policy and corrections added or took off, in hundredths."""
    return hundredths(exercise.score) - hundredths(judged_points(exercise))


def shares_that_count(exercise: ExerciseResult) -> tuple[list[Share], Share]:
    """Return the tests' shares and the share of the change in points, without negative shares.

    Together they add up to the points that count. Deducted points are a share that earned nothing of its worth,
    and each passed test is worth that much less. Added points are a share that earned everything.
    """
    score, worth, added = (
        hundredths(exercise.score),
        hundredths(exercise.max_score),
        change(exercise),
    )
    if added > 0:
        return _shared(exercise, score - added, worth - score), Share(added, added)
    return _shared(exercise, score, worth - score + added), Share(0, -added)


def judged_points(exercise: ExerciseResult) -> float:
    """Return the judge's points, before a policy or a person changed them."""
    return exercise.score if exercise.mark is None else exercise.mark.judged


def _shared(exercise: ExerciseResult, score: int, lost: int) -> list[Share]:
    earned = _dealt(score, [test.score for test in exercise.tests])
    missed = _dealt(lost, [test.max_score - test.score for test in exercise.tests])
    return [Share(got, got + lacks) for got, lacks in zip(earned, missed, strict=True)]


def _dealt(amount: int, weights: list[float]) -> list[int]:
    """Divide the amount into whole parts by weight, by the method of the largest remainder."""
    if not weights:
        return []
    # Imported here, since it is slow to load and a judge does not need it.
    from fractions import Fraction

    exact = [Fraction(max(weight, 0)) for weight in weights]
    whole = sum(exact)
    if not whole:
        exact, whole = [Fraction(1)] * len(weights), Fraction(len(weights))
    parts = [amount * weight / whole for weight in exact]
    dealt = [int(part) for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda at: dealt[at] - parts[at])
    for at in by_remainder[: amount - sum(dealt)]:
        dealt[at] += 1
    return dealt


def hundredths(value: float) -> int:
    """Return points as an integer number of hundredths."""
    return round(value * 100)
