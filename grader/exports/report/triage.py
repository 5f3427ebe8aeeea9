"""Where to begin with a class: students who need help, common mistakes, sections, uninformative tests.

Every reason is a sentence with its numbers. None is a verdict on a person: the lists only suggest students to
talk to first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from grader.exports.report.overview import ExerciseView, TestView, mean, median, quantile
from grader.exports.report.tally import Mistake, Row, Tally
from grader.results import ExerciseResult, Outcome, TestResult
from grader.submissions.roster import sections as sections_in
from grader.submissions.roster import whole_sections
from grader.text import counted, number

# Low means below this share of the points, and in the lowest quarter of the class.
LOW = 0.5
# Falling means losing this much of the points, relative to the class, from the first half of the exercises to
# the second.
_FALL = 0.25
_FEWEST_EXERCISES = 4
# A student is stuck if this many different files in a row fail the same test.
FEWEST_TRIES = 3
# Below it, passing a test says nothing about the other points; below zero, the test contradicts them.
WEAK = 0.1
_MAX_MISTAKES = 10


class Stuck(msgspec.Struct, frozen=True):
    """A test that the last `tries` different files of a student all failed."""

    exercise: str
    title: str
    tries: int


class Worry(msgspec.Struct, frozen=True):
    """A student who may need help, and the reasons, the weightiest first."""

    row: Row
    reasons: tuple[str, ...]


class SectionView(msgspec.Struct, frozen=True):
    """A section of the roster; `mean` and `median` are shares of final scores, None if there are none.

    Students who handed in nothing are in neither.
    """

    name: str
    students: int
    mean: float | None
    median: float | None
    untouched: int


class ClassMistake(msgspec.Struct, frozen=True):
    """A mistake and the exercise in which it was made."""

    exercise: ExerciseView
    mistake: Mistake


class WeakTest(msgspec.Struct, frozen=True):
    """A test that does not discriminate, and why."""

    exercise: ExerciseView
    test: TestView
    why: str


def stuck_at(history: Mapping[str, Sequence[ExerciseResult]]) -> tuple[Stuck, ...]:
    """Return the tests that a student's last files failed again and again, from the verdicts, oldest first.

    For each exercise, only the test that failed longest is returned. Unwritten parts are not failures.
    """
    failures = []
    for exercise, verdicts in history.items():
        runs = [
            Stuck(exercise, test.title, _tries(test, verdicts))
            for test in verdicts[-1].tests
            if _failed(test)
        ]
        longest = max(runs, key=lambda stuck: stuck.tries, default=None)
        if longest is not None and longest.tries >= FEWEST_TRIES:
            failures.append(longest)
    return tuple(failures)


def _tries(test: TestResult, verdicts: Sequence[ExerciseResult]) -> int:
    """Return how many of the last verdicts in a row failed this test."""
    tries = 0
    for verdict in reversed(verdicts):
        same = [t for t in verdict.tests if (t.visibility, t.name) == (test.visibility, test.name)]
        if not any(map(_failed, same)):
            break
        tries += 1
    return tries


def _failed(test: TestResult) -> bool:
    return test.outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.TIMEOUT)


def worries(
    tally: Tally, stuck: Mapping[str, Sequence[Stuck]], before: Mapping[str, float]
) -> list[Worry]:
    """Return the students who may need help: those with the most reasons first, then by points.

    `stuck` and `before`, the totals of the last grading, are keyed by the student's id.
    """
    begun = [row for row in tally.final if not row.idle]
    lowest = quantile([row.share for row in begun], 0.25) or 0.0
    means = {}
    for name in tally.exercises:
        shares = [row.cells[name].share for row in tally.rows if name in row.cells]
        means[name] = mean([share for share in shares if share is not None])
    worried = []
    for row in tally.rows:
        reasons = [*_standing(row, lowest), *_fall(row, means)]
        if row.id in before and not row.unjudged and row.score < before[row.id]:
            lost = number(before[row.id] - row.score)
            reasons.append(f"lost {lost} points since the last grading")
        for failure in stuck.get(row.id, ()):
            tries = counted(failure.tries, "try", "tries")
            reasons.append(f"stuck in {failure.exercise}: {tries} failed: {failure.title}")
        if reasons:
            worried.append(Worry(row, tuple(reasons)))
    return sorted(worried, key=lambda worry: (-len(worry.reasons), worry.row.share, worry.row.id))


def _standing(row: Row, lowest: float) -> Iterable[str]:
    if row.absent:
        yield "handed in nothing"
    elif row.unusable:
        yield "no usable file"
    elif row.untouched:
        yield "has not begun"
    elif not row.unjudged and row.share < LOW and row.share <= lowest:
        yield f"low: {number(row.score)} of {number(row.max_score)} points"


def _fall(row: Row, means: Mapping[str, float | None]) -> Iterable[str]:
    """Yield the reason if a student falls relative to the class: later exercises may be harder for all."""
    above = []
    for name, cell in row.cells.items():
        of_class, share = means.get(name), cell.share
        if of_class and share is not None:
            above.append(share - of_class)
    if row.absent or row.idle or len(above) < _FEWEST_EXERCISES:
        return
    half = len(above) // 2
    fall = sum(above[:half]) / half - sum(above[half:]) / (len(above) - half)
    if fall > _FALL:
        yield f"falling: {round(100 * fall)} % lower in the later exercises, relative to the class"


def sections_of(rows: Iterable[Row]) -> dict[str, tuple[str, ...]]:
    """Return the sections of each student, by id: several if the roster's cell names several."""
    students = [row.student for row in rows]
    whole = whole_sections(students)
    return {student.id: sections_in(student, whole) for student in students}


def sections(tally: Tally) -> list[SectionView]:
    """Return the sections of the roster by name; none if the whole class is one.

    A student in several sections counts in each.
    """
    members: dict[str, list[Row]] = {}
    by_student = sections_of(tally.rows)
    for row in tally.rows:
        for name in by_student[row.id] or ("",):
            members.setdefault(name, []).append(row)
    if len(members) < 2:
        return []
    views = []
    for name, rows in sorted(members.items()):
        shares = [row.share for row in rows if not row.unjudged and not row.absent]
        untouched = sum(row.untouched for row in rows)
        views.append(SectionView(name, len(rows), mean(shares), median(shares), untouched))
    return views


def class_mistakes(exercises: Iterable[ExerciseView]) -> list[ClassMistake]:
    """Return the commonest mistakes of all exercises, the most frequent first."""
    mistakes = [ClassMistake(view, mistake) for view in exercises for mistake in view.mistakes]
    mistakes.sort(key=lambda mistake: -len(mistake.mistake.rows))
    return mistakes[:_MAX_MISTAKES]


def weak_tests(exercises: Iterable[ExerciseView]) -> list[WeakTest]:
    """Return the tests that do not discriminate; tests that contradict all other points come first."""
    weak_ones = []
    for view in exercises:
        for test in view.tests:
            if test.discrimination is not None and test.discrimination < WEAK:
                is_odd = test.discrimination < -WEAK
                why = "passing it says nothing about the rest"
                why = "students who are good at the rest fail it" if is_odd else why
                weak_ones.append((test.discrimination, WeakTest(view, test, why)))
    return [weak for _, weak in sorted(weak_ones, key=lambda pair: pair[0])]
