"""Parts of a result that formats share: whether it is judged, its total, its status, its texts."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterator

import msgspec

from grader.gradebook.policy import Policy
from grader.gradebook.times import local
from grader.judge.scoring import Share, change, judged_points, scaled, shares, shares_that_count
from grader.results import (
    Entry,
    ExerciseResult,
    Outcome,
    Result,
    Status,
    TestResult,
    Visibility,
)
from grader.student.blocks import blocks_of, plain
from grader.text import counted, listed, number

# The name of the line for the effect of a policy and of a person on the points.
TOTAL_LINE = "points_that_count"
_FAULT = "Not judged: this is a fault of the grader and costs no points. Ask your instructor."
_WAITING = "Not judged yet: this costs no points. Ask your instructor when it will be judged."


def is_judged(exercise: ExerciseResult) -> bool:
    """Return whether there is a verdict; without one, the score means nothing."""
    return exercise.status is not Status.UNJUDGED


def not_judged(exercise: ExerciseResult) -> str:
    """Return a student's message for an exercise without a verdict: a fault of the grader, or none yet."""
    return _WAITING if exercise.waiting else _FAULT


def why_open(entry: Entry) -> str:
    """Return a sentence for staff on why a student has no total."""
    open_ones = [e for e in entry.result.exercises if not is_judged(e) and not e.practice]
    if faults := [e.name for e in open_ones if not e.waiting]:
        return f"{listed(faults)} could not be judged because of a fault of the grader."
    return " ".join(dict.fromkeys(exercise.message for exercise in open_ones))


def unjudged(result: Result) -> list[str]:
    """Return the exercises whose missing verdict leaves the total open: practice does not."""
    return [e.name for e in result.exercises if not is_judged(e) and not e.practice]


def public_only(result: Result) -> bool:
    """Return whether only public tests are in it: these points are not a mark if hidden tests count, too."""
    return all(
        test.visibility is Visibility.PUBLIC
        for exercise in result.exercises
        for test in exercise.tests
    )


def total(entry: Entry, out_of: float | None = None) -> float | None:
    """Return the total points, scaled to `out_of`; None if an exercise that counts has no verdict."""
    if unjudged(entry.result):
        return None
    result = entry.result
    return result.score if out_of is None else scaled(result.score, result.max_score, out_of)


def is_untouched(entry: Entry) -> bool:
    """Whether a student handed in no work that counts, and nobody gave points, or a 0, for it."""
    return not any(
        each.status is not Status.NOT_ATTEMPTED or each.score or _is_given(each)
        for each in entry.result.exercises
        if not each.practice
    )


def _is_given(exercise: ExerciseResult) -> bool:
    """Whether a person gave these points though there is no file, where a policy has no reasons."""
    mark = exercise.mark
    return mark is not None and not mark.attempt and bool(mark.reasons)


def time_left(entry: Entry, policy: Policy, now: datetime.datetime) -> datetime.datetime | None:
    """Return until when a student who handed in nothing may still do so; None if the points are final."""
    if not is_untouched(entry):
        return None
    names = (each.name for each in entry.result.exercises if not each.practice)
    until = policy.until(entry.student, names)
    return until if until is not None and until > now else None


def not_due(times: Collection[datetime.datetime], policy: Policy) -> str:
    """Say how many students handed in no work but still have time, and until which of these `times`."""
    first, last = (local(time, policy.zone) for time in (min(times), max(times)))
    until = first if first == last else f"{first} or later, the last one until {last}"
    return f"{counted(len(times), 'student')} who handed in no work and can do so until {until}"


def left_open(count: int) -> list[str]:
    """Return a note about students whose total is empty, if there are any."""
    if not count:
        return []
    who = counted(count, "student has", "students have")
    return [f"{who} no total: `grade batch` and `grade regrade` judge the rest or give the reason."]


def overall(result: Result) -> Status:
    """Return one status for all exercises: passed or partial by the points, else their common status."""
    if unjudged(result):
        return Status.UNJUDGED
    if result.max_score > 0 and result.score >= result.max_score:
        return Status.PASSED
    if result.score > 0:
        return Status.PARTIAL
    statuses = {exercise.status for exercise in result.exercises if not exercise.practice}
    # Passed tests may count for nothing, for example after a late submission.
    is_common = len(statuses) == 1 and not statuses & {Status.PASSED, Status.PARTIAL}
    return statuses.pop() if is_common else Status.FAILED


def standing(entry: Entry) -> str:
    """Return one word for all exercises of a student, with a special one if nothing was handed in."""
    return "nothing_handed_in" if entry.absent else overall(entry.result).value


def explanation(test: TestResult) -> str:
    """Return the explanation of a test for the student: the message, the place, and the hint."""
    text = plain(blocks_of(test))
    # A hidden test may show no text, but readers of other systems expect some words.
    return text or ("" if test.outcome is Outcome.PASSED else "This does not hold yet.")


class Line(msgspec.Struct, frozen=True):
    """A line in a table of points: a test, or the change of all points with its reason."""

    test: TestResult
    share: Share
    text: str


def lines(exercise: ExerciseResult) -> list[Line]:
    """Return the tests with the judge's points, then the change of the points, which may be negative.

    The shares are hundredths of points and add up to the score: a format that sums them agrees with the total.
    So the shares of practice are 0 of 0.
    """
    added = Share(change(exercise), 0)
    return _lines(exercise, shares(exercise), added)


def lines_that_count(exercise: ExerciseResult) -> list[Line]:
    """Return the tests and the change with the points that count, none of them negative.

    For formats without negative points: points taken off are a line that earned nothing of its worth, and the
    passed tests are worth that much less.
    """
    return _lines(exercise, *shares_that_count(exercise))


def lines_in_total(result: Result) -> Iterator[tuple[ExerciseResult, list[Line]]]:
    """Yield each judged exercise with its `lines_that_count`; their points add up to the result's.

    Full marks do not need extra credit: its lines are out of the points they earned, which are taken off the
    worth of lines that earned nothing. If more was earned than all others lost, the sum is out of the points
    earned.
    """
    needed = any(not exercise.extra_credit for exercise in result.exercises)
    found = [(e, lines_that_count(e)) for e in result.exercises if is_judged(e)]
    extra = [exercise.extra_credit and needed for exercise, _ in found]
    groups = [group for (_, group), is_extra in zip(found, extra, strict=True) if is_extra]
    earned = sum(line.share.score for group in groups for line in group)
    for (exercise, group), is_extra in zip(found, extra, strict=True):
        in_total = []
        for line in group:
            score, worth = line.share.score, line.share.max_score
            taken = worth - score if is_extra else min(worth - score, earned)
            earned -= 0 if is_extra else taken
            share = Share(score, worth - taken)
            in_total.append(msgspec.structs.replace(line, share=share) if taken else line)
        yield exercise, in_total


def called(exercise: ExerciseResult) -> str:
    """Return the name of an exercise where its tests are listed, marked if it is extra credit or practice."""
    return f"{exercise.name} ({exercise.aside})" if exercise.aside else exercise.name


def _lines(exercise: ExerciseResult, earned: list[Share], added: Share) -> list[Line]:
    if exercise.practice:
        earned, added = [Share(0, 0)] * len(earned), Share(0, 0)
    tests = zip(exercise.tests, earned, strict=True)
    lines = [Line(test, share, explanation(test)) for test, share in tests]
    if (marked := change_of_points(exercise)) is not None:
        lines.append(Line(marked, added, marked.message))
    return lines


def change_of_points(exercise: ExerciseResult) -> TestResult | None:
    """Return the effect of a policy and corrections on the points as a test; None if there is none."""
    mark = exercise.mark
    texts = (exercise.provisional, *mark.reasons, mark.comment) if mark else (exercise.provisional,)
    reasons = [text for text in texts if text]
    added = change(exercise) / 100
    if not (added or reasons):
        return None
    points = f"{number(exercise.score)} points count"
    return TestResult(
        name=TOTAL_LINE,
        title=f"{points}, not {number(judged_points(exercise))}" if added else points,
        visibility=Visibility.PUBLIC,
        outcome=Outcome.FAILED if added < 0 else Outcome.PASSED,
        score=added,
        max_score=max(added, 0.0),
        duration_seconds=0.0,
        message="\n".join(reasons),
        hint="",
    )
