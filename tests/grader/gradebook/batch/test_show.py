"""`grade show`: one student's result from the gradebook, with the cost of each test."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.grader.command import grade

from .conftest import School, new_school


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, write_course: Callable[..., object]) -> School:
    folder = tmp_path_factory.mktemp("show")
    school, roster = new_school(folder, write_course), folder / "roster.csv"
    roster.write_text(
        "id,name,email\nann,Ann Lee,ann@example.org\nbob,Bob Lee,b@example.org\nzed,Zed,\n"
    )
    assert school.batch("--roster", str(roster)).returncode == 0
    return school


def show(school: School, *arguments: str) -> subprocess.CompletedProcess[str]:
    return grade("show", school.results, *arguments, cwd=school.course)


def test_what_each_test_cost_is_told(graded: School) -> None:
    done = show(graded, "bob")
    assert done.returncode == 0, done.stderr
    first, *lines = done.stdout.splitlines()
    assert first == "bob  Bob Lee  attempt 1"
    assert "~ task  7.5 / 10  partly passed" in lines
    (cost,) = (line for line in lines if "-2.50" in line)
    assert "The double is twice the number" in cost and "test_double" in done.stdout
    assert "is 6, expected 4" in done.stdout
    assert "The double of nothing" not in done.stdout, "it passed"
    assert lines[-1] == "Total: 7.5 of 10 points"


def test_a_file_that_is_at_fault_is_told_once(graded: School) -> None:
    assert show(graded, "dee").stdout.count("line 1") == 1


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("Ann L", "ann  Ann Lee"),
        ("b@example", "bob  Bob Lee"),
        ("lee", "'lee' may be 2 students: ann, bob. Name the id."),
        ("nobody", "No student here has 'nobody' in the id, the name or the email."),
        ("zed", "Nothing was handed in."),
    ],
)
def test_a_student_is_found_by_what_is_known(graded: School, wanted: str, told: str) -> None:
    done = show(graded, wanted)
    assert told in done.stdout + done.stderr
    assert done.returncode == (0 if told in done.stdout else 2)


def test_an_exercise_that_was_not_graded_is_told(graded: School) -> None:
    done = show(graded, "ann", "tusk")
    assert done.returncode == 2
    assert "tusk was not graded here. Graded exercises: task." in done.stderr
