"""`grade show` and `grade requests`: the student or request that they name, and the cost of each test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

from grader.cli.requests import _number_in
from grader.course.manifest import Course
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import pseudonyms_of
from grader.grading import nothing_handed_in
from grader.judge.assignment import GradingOptions
from grader.results import Outcome, Status, StudentInfo
from tests.grader.builders import checked, exercise
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import HERE, SUITE, School, key_of

SERVER = ("--server", "https://grade.example.org")
HALF = exercise(
    checked("test_double", Outcome.FAILED, message="It is 6, expected 4."),
    checked("test_zero", weight=3),
    name="task",
    worth=10,
)
BROKEN = exercise(
    checked("test_double", Outcome.ERROR),
    checked("test_zero", Outcome.ERROR, 3),
    name="task",
    worth=10,
    status=Status.ERROR,
    message="The file is not valid Python: line 1: invalid syntax.",
)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, write_course: Callable[..., Course]) -> School:
    """Bob has some of the points, dee's file is broken, and zed handed in nothing."""
    folder = tmp_path_factory.mktemp("show")
    school = School(course := write_course(folder / "course", SUITE), folder / "results")
    with Gradebook.open_to_write(school.results) as book:
        book.begin(course, nothing_handed_in(course, course.exercises, GradingOptions()))
        for student, verdict in (("bob", HALF), ("dee", BROKEN)):
            source = student.encode()
            attempt = school.hand_in(book, student, source)
            book.keep(attempt, key_of(source), 0, verdict, HERE)
        for student, name in (("bob", "Bob Lee"), ("dee", "Dee Lee"), ("zed", "Zed")):
            book.keep_student(StudentInfo(id=student, name=name, email=f"{student}@example.org"))
        book.finish(())
    return school


def show(school: School, *words: str) -> Result:
    return invoke("show", school.results, *words, cwd=school.course.root)


def test_the_cost_of_each_test_is_shown(graded: School) -> None:
    done = show(graded, "bob")
    first, *lines = done.stdout.splitlines()
    assert (done.exit_code, first) == (0, "bob  Bob Lee  attempt 1")
    assert "~ task  7.5 / 10  partly passed" in lines
    (cost,) = (line for line in lines if "-2.50" in line)
    assert "The title of test_double" in cost and "test_double" in done.stdout
    assert "It is 6, expected 4." in done.stdout
    assert "test_zero" not in done.stdout, "it passed"
    assert lines[-1] == "Total: 7.5 of 10 points"


def test_the_error_of_a_broken_file_is_shown_once(graded: School) -> None:
    assert show(graded, "dee").stdout.count("line 1") == 1


def test_a_student_is_found_by_a_part_of_the_name(graded: School) -> None:
    assert show(graded, "b Le").stdout.startswith("bob  Bob Lee")
    assert "Nothing was handed in." in show(graded, "zed").stdout
    done = show(graded, "lee")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "'lee' may be 2 students: bob, dee. Name the id." in done.stderr


def test_a_pseudonym_leads_back_to_its_student(graded: School) -> None:
    with Gradebook.open(graded.results) as book:
        pseudonym = pseudonyms_of(book)("bob")
    assert show(graded, pseudonym).stdout.startswith("bob  Bob Lee")


def test_only_named_exercises_are_shown_and_ungraded_ones_are_refused(graded: School) -> None:
    assert "-2.50" in show(graded, "bob", "task").stdout
    done = show(graded, "bob", "task", "tusk")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "tusk was not graded here. Graded exercises: task." in done.stderr


def test_a_class_without_a_grading_has_nothing_to_show(school: School) -> None:
    with Gradebook.open_to_write(school.results) as book:
        book.keep_student(StudentInfo(id="bob"))
    done = show(school, "bob")
    assert done.exit_code == 2 and "Nothing is graded here yet" in done.stderr


@pytest.mark.parametrize(
    ("words", "number"), [((), None), (("3",), 3), (("12",), 12), (("007",), 7)]
)
def test_a_request_is_named_by_its_number(words: tuple[str, ...], number: int | None) -> None:
    assert _number_in(words) == number


@pytest.mark.parametrize("words", [("0",), ("-1",), ("x",), ("²",), ("",), ("1", "2")])
def test_other_words_are_not_numbers(words: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError, match="NUMBER"):
        _number_in(words)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name RESULTS"),
        ((".", "--answer", "x"), "Give the NUMBER"),
        ((*SERVER, "--answer", "x"), "Give the NUMBER"),
        ((".", "1", "--ask", "bob", "task", "x"), "--ask adds a request"),
        ((".", "--all", "--ask", "bob", "task", "x"), "--ask adds a request"),
        ((".", "--anonymous", "--ask", "bob", "task", "x"), "--ask adds a request"),
        ((*SERVER, "--ask", "bob", "task", "x"), "do not go with --server"),
        ((*SERVER, "--anonymous"), "do not go with --server"),
        ((*SERVER, "1", "--answer", "x", "--author", "ben"), "do not go with --server"),
        (("nowhere",), "does not exist"),
    ],
)
def test_conflicting_options_of_requests_are_refused(
    tmp_path: Path, words: tuple[str, ...], told: str
) -> None:
    done = invoke("requests", *words, cwd=tmp_path)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
