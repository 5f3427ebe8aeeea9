"""Points of a file with odd code are provisional in every output until staff have looked at the file."""

from __future__ import annotations

import csv
import io
import json
import subprocess

import pytest

from grader.gradebook import Gradebook
from tests.grader.command import grade as run_grade

from .conftest import RIGHT, School, run

pytestmark = pytest.mark.thorough

ODD = f"import ctypes\n{RIGHT}"
PROVISIONAL = "Provisional until a person has looked at the file: line 1 imports ctypes"


@pytest.fixture
def graded(school: School) -> School:
    for student in sorted(path.name for path in school.submissions.iterdir()):
        school.hand_in(student, RIGHT)
    school.hand_in("bob", ODD)
    assert school.batch().returncode == 0
    return school


def grade(school: School, *arguments: str) -> subprocess.CompletedProcess[str]:
    first, *rest = arguments
    return run_grade(first, school.results, *rest, cwd=school.course)


def held(school: School) -> dict[str, tuple[str, ...]]:
    entries = school.entries()
    return {
        student: exercise.held
        for student, entry in entries.items()
        for exercise in entry.result.exercises
        if exercise.held
    }


def test_every_output_says_that_points_are_provisional(graded: School) -> None:
    assert list(held(graded)) == ["bob"]
    assert PROVISIONAL in grade(graded, "show", "bob").stdout
    assert "Provisional" not in grade(graded, "show", "ann").stdout
    table = grade(graded, "export", "--format", "csv", "-o", "-")
    rows = {row["student"]: row for row in csv.DictReader(io.StringIO(table.stdout))}
    assert rows["bob"]["one/task"] == "10"
    assert PROVISIONAL in rows["bob"]["remarks"]
    assert rows["ann"]["remarks"] == ""
    assert "Points of bob are provisional" in table.stderr
    pages = graded.results.parent / "pages"
    for name in ("feedback", "gradescope", "junit"):
        done = grade(graded, "export", "--format", name, "-o", str(pages / name))
        assert done.returncode == 0, done.stderr
        texts = {path.name.partition(".")[0]: path.read_text() for path in (pages / name).iterdir()}
        assert PROVISIONAL in texts["bob"].replace("&#39;", "'").replace("&apos;", "'"), name
        assert "Provisional" not in texts["ann"]
    assert grade(graded, "report", "-o", str(pages / "report")).returncode == 0
    assert PROVISIONAL in (pages / "report" / "students" / "bob.html").read_text()


def test_the_batch_and_its_json_name_odd_code(graded: School) -> None:
    done = graded.batch()
    assert "imports ctypes" in done.stdout
    (exercise,) = json.loads((graded.results / "results" / "bob.json").read_text())["exercises"]
    assert exercise["held"] == ["line 1 imports ctypes, which reaches into the process's memory"]


def test_a_release_is_for_this_file_only(graded: School) -> None:
    done = grade(graded, "adjust", "bob", "task", "--release", "--reason", "measures memory")
    assert done.returncode == 0, done.stderr
    assert held(graded) == {}
    regraded = run(graded.command("regrade", str(graded.results)))
    assert regraded.returncode == 0, regraded.stderr
    assert held(graded) == {}
    assert "imports ctypes" not in regraded.stdout, "a person has looked at the file"
    assert "measures memory" in grade(graded, "adjust", "--list").stdout
    graded.hand_in("bob", f"import gc\ngc.get_objects()\n{RIGHT}")
    assert "odd code" in graded.batch().stdout
    assert list(held(graded)) == ["bob"]


def test_a_release_can_be_taken_back_and_needs_held_points(
    graded: School,
) -> None:
    grade(graded, "adjust", "bob", "task", "--release", "--reason", "so")
    again = grade(graded, "adjust", "bob", "task", "--release", "--reason", "so")
    assert again.returncode == 2
    assert "bob has no held points for task." in again.stderr
    assert grade(graded, "adjust", "bob", "task", "--undo").returncode == 0
    assert list(held(graded)) == ["bob"]
    alone = grade(graded, "adjust", "task", "--all", "--release", "--reason", "so")
    assert alone.returncode == 2
    assert "--release is for one student's file" in alone.stderr


def test_a_release_is_for_the_whole_team(graded: School) -> None:
    graded.hand_in("ann", ODD)
    graded.hand_in("cem", f"{ODD}# other\n")
    roster = graded.results.parent / "class.csv"
    roster.write_text("id,team\nann,red\nbob,red\ncem,red\n", encoding="utf-8")
    assert graded.batch("--roster", str(roster)).returncode == 0
    with Gradebook.open_to_write(graded.results) as book:
        book.change(teams=True)
    assert list(held(graded)) == ["ann", "bob", "cem"]
    done = grade(graded, "adjust", "bob", "task", "--release", "--reason", "so")
    assert done.stdout.splitlines()[0].endswith(", also for ann"), done.stdout
    assert list(held(graded)) == ["cem"], "another file of the team is not released"


def test_points_set_by_a_person_are_not_held(graded: School) -> None:
    grade(graded, "adjust", "bob", "task", "--points", "4", "--reason", "copied")
    assert held(graded) == {}


def test_a_stub_is_not_held(graded: School) -> None:
    stub = (graded.course / "exercises" / "one" / "task.py").read_text()
    graded.hand_in("bob", stub)
    graded.batch()
    assert held(graded) == {}
