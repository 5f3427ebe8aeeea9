"""A gradebook belongs to one course, and each student is in it once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from grader.gradebook import Gradebook

from .conftest import RIGHT, SUITE, School, run

pytestmark = pytest.mark.thorough

ROSTER = "id,name,username\n" + "".join(
    f"{number},{name.title()} Doe,{name}\n"
    for number, name in enumerate(("ann", "bob", "cem", "dee", "eva", "fay", "gus"), start=100)
)


def test_another_course_is_refused(
    school: School, tmp_path: Path, write_course: Callable[..., object]
) -> None:
    assert school.batch().returncode == 0
    before = school.rows()
    other = tmp_path / "other"
    write_course(other, SUITE)
    manifest = other / "exercises" / "course.toml"
    manifest.write_text(manifest.read_text().replace('name = "', 'name = "other_', 1))
    elsewhere = school._replace(course=other)
    for done in (
        elsewhere.batch(),
        run(elsewhere.command("regrade", str(school.results))),
        run(elsewhere.command("similar", str(school.results))),
    ):
        assert done.returncode == 2, done.stdout
        assert "is the gradebook of the course" in " ".join(done.stderr.split())
    assert school.rows() == before
    assert not (school.results / "similar.json").exists()


def test_leaving_out_the_roster_later_is_refused(school: School, tmp_path: Path) -> None:
    roster = tmp_path / "class.csv"
    roster.write_text(ROSTER)
    assert school.batch("--roster", str(roster)).returncode == 0
    done = school.batch()
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert "7 of these 7 students are in" in message and "such as ann under 100" in message
    with Gradebook.open(school.results) as book:
        assert set(book.attempt_counts()) == {str(number) for number in range(100, 107)}


def test_downloads_with_different_ids_for_the_same_students_are_refused(
    school: School, tmp_path: Path
) -> None:
    """One download has folders named after users, the other is a platform's with numbers and addresses."""
    other = tmp_path / "gradescope"
    metadata = "---\n"
    for number, name in enumerate(("ann", "bob", "cem")):
        task = other / f"submission_{number}" / "task.py"
        task.parent.mkdir(parents=True)
        task.write_text(RIGHT)
        metadata += (
            f"submission_{number}:\n  :submitters:\n  - :name: {name}\n    :sid: '{100 + number}'\n"
            f"    :email: {name}@uni.edu\n  :created_at: 2026-10-24 12:00:00 Z\n"
        )
    (other / "submission_metadata.yml").write_text(metadata)
    done = school.batch(str(other))
    assert done.returncode == 2
    message = " ".join(done.stderr.split())
    assert "3 of these 3 students are in another of these downloads under another id" in message
    assert not school.results.exists()


def test_adding_a_roster_with_other_ids_later_is_refused(school: School, tmp_path: Path) -> None:
    assert school.batch().returncode == 0
    roster = tmp_path / "class.csv"
    roster.write_text(ROSTER)
    done = school.batch("--roster", str(roster))
    assert done.returncode == 2
    assert "such as 100 under ann" in " ".join(done.stderr.split())
    with Gradebook.open(school.results) as book:
        assert "100" not in book.attempt_counts() and len(book.absent()) == 0
