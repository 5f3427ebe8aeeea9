"""Corrections by staff: their fields, and when the page on which they were decided is out of date."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.adjusting import (
    corrections_about,
    exercise_named,
    new_correction,
    state_of,
)
from grader.gradebook.corrections import Correction, Kind
from grader.results import ExerciseResult, Outcome
from tests.grader.builders import checked, exercise
from tests.grader.builders import result as whole

from .conftest import School

TESTS = (checked("test_a"), checked("test_b", Outcome.FAILED))


@pytest.fixture
def book(school: School) -> Iterator[Gradebook]:
    """Ada has 4 of 10 points, ben is not judged, and cy handed in nothing."""
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course, whole(exercise(*TESTS, name="task", worth=10)))
        school.keep(book, school.hand_in(book, "ada", b"x = 1\n"), 4)
        school.fault(book, school.hand_in(book, "ben", b"x = 2\n"), b"x = 2\n")
        book.finish(())
        yield book


@pytest.fixture
def task(book: Gradebook) -> ExerciseResult:
    return exercise_named(book, "task")


def adjusted(book: Gradebook, student: str, **fields: object) -> Correction:
    given = {"author": "kim", "reason": "shown in the lab"}
    return new_correction(book, student, exercise_named(book, "task"), **{**given, **fields})  # type: ignore[arg-type]


def test_an_exercise_is_found_with_its_tests(task: ExerciseResult, book: Gradebook) -> None:
    assert [test.name for test in task.tests] == ["test_a", "test_b"]
    with pytest.raises(SubmissionError, match=r"'tsk' was not graded here\. Did you mean 'task'"):
        exercise_named(book, "tsk")


def test_a_correction_keeps_author_time_reason_and_judged_points(book: Gradebook) -> None:
    made = adjusted(book, "ada", points=8.0, reason=" shown\nin the\tlab ", comment="See\x1b me.")
    assert (made.student, made.exercise, made.points, made.author) == ("ada", "task", 8, "kim")
    assert (made.reason, made.comment) == ("shown in the lab", "See\\x1b me.")
    assert made.judged == 4
    assert made.time.microsecond == 0 and made.time.tzinfo is not None
    assert book.corrections() == (), "the caller keeps it"


def test_without_a_verdict_no_judged_points_are_kept(book: Gradebook) -> None:
    assert adjusted(book, "ben", points=8.0).judged is None
    assert adjusted(book, "", give="test_b").judged is None


def test_earlier_corrections_do_not_change_the_judged_points(book: Gradebook) -> None:
    book.correct(adjusted(book, "ada", add=2.0))
    assert adjusted(book, "ada", add=1.0).judged == 4


@pytest.mark.parametrize(
    ("student", "fields", "message"),
    [
        ("ada", {}, "Nothing would change: give points, or write a comment."),
        ("ada", {"comment": " \n"}, "Nothing would change"),
        ("ada", {"points": 8.0, "reason": " \t"}, "Give a reason: the student reads it"),
        ("ada", {"release": True}, "ada has no held points for task."),
        ("cy", {"release": True}, "cy has no held points for task."),
        ("", {"give": "test_c"}, "test_c"),
    ],
)
def test_a_correction_without_effect_is_refused(
    book: Gradebook, student: str, fields: dict[str, object], message: str
) -> None:
    with pytest.raises(SubmissionError, match=message):
        adjusted(book, student, **fields)


def test_a_comment_needs_no_reason(book: Gradebook) -> None:
    assert adjusted(book, "ada", comment="See me.", reason="").kind is Kind.COMMENT


def test_corrections_for_the_class_are_listed_for_each_student(book: Gradebook) -> None:
    for student, fields in (
        ("ben", {"points": 1.0}),
        ("", {"give": "test_b"}),
        ("ada", {"add": 1.0}),
    ):
        book.correct(adjusted(book, student, **fields))
    assert [(at, each.student) for at, each in corrections_about(book, "ada", "task")] == [
        (1, ""),
        (2, "ada"),
    ]
    assert corrections_about(book, "ada", "other") == []


def test_the_state_changes_with_everything_a_decision_depends_on(
    book: Gradebook, school: School
) -> None:
    states = [state_of(book, "ada", "task")]
    assert states == [state_of(book, "ada", "task")]
    book.correct(adjusted(book, "ada", add=1.0))
    states.append(state_of(book, "ada", "task"))
    book.correct(adjusted(book, "", give="test_b"))
    states.append(state_of(book, "ada", "task"))
    school.keep(book, school.hand_in(book, "ada", b"x = 3\n"), 6, b"x = 3\n")
    states.append(state_of(book, "ada", "task"))
    assert len(set(states)) == 4
    assert all(len(state) == 32 for state in states)


def test_the_state_stays_the_same_when_another_student_changes(
    book: Gradebook, school: School
) -> None:
    book.correct(adjusted(book, "ada", add=1.0))
    before = state_of(book, "ada", "task")
    book.correct(adjusted(book, "ben", points=1.0), replacing=())
    school.keep(book, school.hand_in(book, "ben", b"x = 3\n"), 6, b"x = 3\n")
    assert state_of(book, "ada", "task") == before
    assert state_of(book, "nobody", "task") == ""
