"""A result as the formats need it: whether it is judged, its total, its status, its texts."""

from __future__ import annotations

from grader.judge.scoring import scaled
from grader.results import Entry, ExerciseResult, Result, Status, TestResult
from grader.student.blocks import explained, plain
from grader.text import counted

NOT_JUDGED = "Not judged: this is a fault of the grader and costs no points. Ask your instructor."


def is_judged(exercise: ExerciseResult) -> bool:
    """Whether there is a verdict; without one the score says nothing."""
    return exercise.status is not Status.UNJUDGED


def unjudged(result: Result) -> list[str]:
    """The exercises that a person has to look at."""
    return [exercise.name for exercise in result.exercises if not is_judged(exercise)]


def total(entry: Entry, out_of: float | None = None) -> float | None:
    """The points of everything, scaled to `out_of`; None where an exercise has no verdict."""
    if unjudged(entry.result):
        return None
    return entry.result.score if out_of is None else scaled(entry.result, out_of)


def left_open(count: int) -> list[str]:
    """A note about students whose total is empty, if there are any."""
    if not count:
        return []
    who = counted(count, "student has", "students have")
    return [f"{who} no total: something is not judged. Run `grade batch` again; it says why."]


def overall(result: Result) -> Status:
    """One status for all exercises: passed or partial by the points, else what they have in common."""
    if unjudged(result):
        return Status.UNJUDGED
    if result.max_score > 0 and result.score >= result.max_score:
        return Status.PASSED
    if result.score > 0:
        return Status.PARTIAL
    statuses = {exercise.status for exercise in result.exercises}
    # What passed its tests may count for nothing, as what came too late.
    is_common = len(statuses) == 1 and not statuses & {Status.PASSED, Status.PARTIAL}
    return statuses.pop() if is_common else Status.FAILED


def standing(entry: Entry) -> str:
    """One word for all exercises of a student; a word of its own where nothing was handed in."""
    return "nothing_handed_in" if entry.absent else overall(entry.result).value


def explanation(test: TestResult) -> str:
    """The explanation of a test for the student: the message, the place, and the hint."""
    return plain(explained(test))
