"""What a person is told to look at, where the file is not what was asked for."""

from __future__ import annotations

from pathlib import Path

from grader.course.manifest import Course, load_course
from grader.gradebook.review import Attention, Reason, attention
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.submissions import ExerciseFile

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


def looked_at(course: Course, handed: ExerciseFile) -> list[Attention]:
    exercise = course.exercises[0]
    result = settle(course, exercise, handed, GradingOptions())
    assert result is not None
    return list(attention("ada", exercise, handed, frozenset(), result))


def test_a_wrong_name_is_looked_at_and_a_missing_file_is_not() -> None:
    course = load_course(PLAIN)
    assert looked_at(course, ExerciseFile(None, "It is missing.")) == []
    (found,) = looked_at(course, ExerciseFile(None, "It is missing.", seems_misnamed=True))
    assert (found.kind, found.student, found.what) == (Reason.UNREADABLE, "ada", "It is missing.")


def test_a_file_that_is_no_utf_8_is_looked_at() -> None:
    (found,) = looked_at(load_course(PLAIN), ExerciseFile("x = 1\n".encode("utf-16")))
    assert found.kind is Reason.UNREADABLE
    assert "saved as UTF-16" in found.what
