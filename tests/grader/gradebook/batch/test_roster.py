"""`grade batch` with a class list: files beside the submissions, lists with unknown ids, and strangers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.gradebook import Gradebook

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
POLICY = """
timezone = "Europe/Warsaw"
[late]
per_day = 10
[[due]]
at = 2026-10-12T23:59:00
[[extension]]
students = ["{}", "{}"]
by = "2 days"
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Return a course, with a class beside it that handed in stubs, so that nothing needs a judge."""
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("ada", "bne"):
        shutil.copytree(PLAIN / "exercises" / "text", tmp_path / "class" / name / "text")
    (tmp_path / "class" / "class.csv").write_text("id,name\nada,Ada\nben,Ben\n", encoding="utf-8")
    return tmp_path / "course"


def batch(course: Path, *options: str) -> Result:
    folder = course.parent / "class"
    arguments = ["batch", str(folder), "-o", str(folder / "results"), "--course", str(course)]
    return CliRunner().invoke(main, [*arguments, "--jobs", "1", *options])


def students(course: Path) -> set[str]:
    with Gradebook.open(course.parent / "class" / "results") as book:
        return {student.id for student in book.students()}


def test_a_class_without_a_student_of_the_roster_is_refused_before_it_is_judged(
    course: Path,
) -> None:
    roster = course.parent / "class" / "class.csv"
    roster.write_text("id\n1001\n1002\n", encoding="utf-8")
    done = batch(course, "--roster", str(roster))
    assert done.exit_code == 2, done.output
    assert "are of ada, bne, and the roster has 1001, 1002." in " ".join(done.stderr.split())


def test_a_stranger_and_a_missing_student_are_each_named_once(course: Path) -> None:
    roster = ("--roster", str(course.parent / "class" / "class.csv"))
    done = batch(course, *roster)
    assert done.exit_code == 0, done.output
    notes = " ".join(done.stderr.split())
    assert "Not in the roster, graded under their own ids: bne." in notes
    assert "Somebody outside the roster may be a student of the roster" in notes
    assert done.stderr.count("bne") == 1
    assert "In the roster, but handed in nothing: Ben" in done.stdout
    assert "Ignored" not in done.stderr
    # The gradebook within the class is ignored the next time.
    done = batch(course, *roster)
    assert done.exit_code == 0, done.output
    assert "since `grade` wrote it: results (a gradebook)." in done.stderr
    assert students(course) == {"ada", "ben", "bne"}


def test_lists_with_only_unknown_ids_are_refused_before_anything_is_written(course: Path) -> None:
    times, policy = course.parent / "times.csv", course.parent / "policy.toml"
    times.write_text("id,submitted_at\n17,2026-10-12T10:00:00Z\n", encoding="utf-8")
    policy.write_text(POLICY.format("17", "18"), encoding="utf-8")
    for option, file, words in (
        ("--times", times, "It has the ids 17, and this class has ada, bne"),
        ("--policy", policy, "They name 17 and 18, and ids here are ada and bne"),
    ):
        done = batch(course, option, str(file))
        assert done.exit_code == 2
        assert words in " ".join(done.stderr.split())
    assert not (course.parent / "class" / "results").exists()
    times.write_text("id,submitted_at\n17,2026-10-12T10:00Z\nada,2026-10-12T10:00Z\n", "utf-8")
    policy.write_text(POLICY.format("17", "ada"), encoding="utf-8")
    done = batch(course, "--times", str(times), "--policy", str(policy))
    assert done.exit_code == 0, done.output
    assert "names students who are not here: 17." in done.stderr
    assert "names '17', and no student here has that id." in done.stderr
