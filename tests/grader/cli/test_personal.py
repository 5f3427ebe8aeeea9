"""`grade erase` and `grade personal-data`: which student they mean, and the question before erasing."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from click.testing import Result

from grader.cli.personal import _named
from grader.gradebook import Gradebook
from grader.gradebook.backup import Backup, make_backup
from grader.gradebook.policy import Rules
from grader.results import StudentInfo
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import School

NOW = datetime.datetime(2026, 11, 30, 2, 10, tzinfo=datetime.UTC)


@pytest.fixture
def kept(school: School) -> School:
    """A gradebook that is kept for a year. Ann and Bob handed in today."""
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course, policy=Rules(keep="1 year", timezone="UTC"))
        now = datetime.datetime.now(datetime.UTC)
        for student in ("ann", "bob"):
            attempt = school.hand_in(book, student, student.encode(), f"{now:%Y-%m-%dT%H:%M:%SZ}")
            school.keep(book, attempt, 8, student.encode())
        book.keep_student(StudentInfo(id="ann", name="Ann Lee"))
        book.finish(())
    return school


def students(results: Path) -> list[str]:
    with Gradebook.open(results) as book:
        return [student.id for student in book.students()]


def erase(place: Path, *words: str) -> Result:
    return invoke("erase", place, *words, cwd=place.parent)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "Name a STUDENT, or --expired"),
        (("ann", "--expired"), "Name a STUDENT, or --expired"),
        (("ann", "--dry-run"), "Name a STUDENT, or --expired"),
        (("Ann", "--yes"), "Name the whole id: ann."),
        (("an", "--yes"), "Name the whole id: ann."),
        (("zoe", "--yes"), "No student here has 'zoe'"),
        (("--expired", "--yes"), "is kept for 1 year after the last submission"),
        (("--expired", "--dry-run"), "nothing was erased."),
    ],
)
def test_a_slip_erases_nobody(kept: School, words: tuple[str, ...], told: str) -> None:
    done = erase(kept.results, *words)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert students(kept.results) == ["ann", "bob"]


def test_a_class_without_a_retention_time_does_not_expire(kept: School) -> None:
    with Gradebook.open_to_write(kept.results) as book:
        book.set_policy(Rules(), None)
    done = erase(kept.results, "--expired", "--yes")
    assert done.exit_code == 2 and "It is not set how long" in done.stderr
    assert students(kept.results) == ["ann", "bob"]


def test_a_student_is_erased_after_a_yes(kept: School) -> None:
    # Without an answer, as at the end of a pipe.
    assert erase(kept.results, "ann").exit_code == 1
    assert students(kept.results) == ["ann", "bob"]
    (kept.results / "report").mkdir()
    done = erase(kept.results, "ann", "--yes")
    assert done.exit_code == 0 and done.stdout.startswith("Erased ann: rows of ")
    assert "Not searched: report. Delete the data about the student there." in done.stdout
    assert students(kept.results) == ["bob"]


def test_only_backups_with_the_student_are_changed(kept: School, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    first = make_backup(kept.results, folder, NOW).path
    erase(kept.results, "bob", "--yes")
    second = make_backup(kept.results, folder, NOW + datetime.timedelta(days=1)).path
    assert erase(folder, "bob").exit_code == 1, "it asks"
    done = erase(folder, "bob", "--yes")
    assert f"Erased bob: {first}" in done.stdout and str(second) not in done.stdout
    assert students(first) == students(second) == ["ann"]
    done = erase(folder, "bob", "--yes")
    assert done.exit_code == 2 and "No student in the 2 backups there has the id" in done.stderr


def test_backups_are_named_by_the_first_and_the_last() -> None:
    first, last = (Backup(Path(f"/backups/{name}"), NOW, "") for name in ("a", "b"))
    assert _named([first]) == "1 backup in /backups (a)"
    assert _named([first, last]) == "2 backups in /backups (a to b)"


def test_personal_data_accepts_a_part_of_a_name(kept: School, tmp_path: Path) -> None:
    done = invoke("personal-data", kept.results, "Lee", "-o", tmp_path / "x.zip", cwd=tmp_path)
    assert done.exit_code == 0 and "files about ann: " in done.stdout
    done = invoke("personal-data", kept.results, "zoe", "-o", tmp_path / "y.zip", cwd=tmp_path)
    assert done.exit_code == 2 and not (tmp_path / "y.zip").exists()
