"""Output of our commands among submissions is recognized by its contents, not by its name."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader.authoring import gradescope_package
from grader.course.manifest import Course
from grader.errors import SubmissionError
from grader.exports import FORMATS, term
from grader.exports.files import StudentFormat
from grader.exports.formats.feedback import markdown_feedback
from grader.exports.report import site
from grader.gradebook import database
from grader.results import StudentInfo
from grader.submissions import Roster, find_class, ours
from tests.grader.builders import entry

if TYPE_CHECKING:
    from tests.grader.submissions.conftest import Files, Pack

CLASS = {"alice/glu.py": b"", "ben/glu.py": b""}
PAGE = markdown_feedback(entry(student="alice")).encode()
REPORT = {
    "README.txt": site._README_TEXT.encode(),
    "staff/index.html": b"",
    "students/alice.html": b"",
}
TERM = {"grades.csv": b"", "explained.txt": b"", "index.html": b""}


def within(folder: str, files: Files) -> Files:
    return {f"{folder}/{name}": data for name, data in files.items()}


@pytest.fixture
def gradebook(tmp_path: Path) -> bytes:
    with sqlite3.connect(tmp_path / "book") as book:
        book.execute("CREATE TABLE students (id)")
    return (tmp_path / "book").read_bytes()


@pytest.fixture
def among(gradebook: bytes, zipped: Pack) -> Files:
    """Return the files of a class with output of our commands beside it."""
    return {
        **CLASS,
        **within("results", {"gradebook.sqlite": gradebook, "results/alice.json": b"{}"}),
        **within("old", {"gradebook.sqlite": gradebook}),
        **within("r", REPORT),
        **within("end", TERM),
        **within("pages", {"alice.md": PAGE, "ben.md": PAGE}),
        **within("up", {"alice.json": b"{}", "ben.json": b"{}"}),
        "feedback.zip": zipped({"alice.md": PAGE}),
        "moodle.zip": zipped({"Alice A_501_assignsubmission_file_/feedback.md": PAGE}),
        "autograder.zip": zipped({"setup.sh": b"", "run_autograder": b""}),
    }


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_output_of_grade_is_not_a_submission(
    course: Course,
    tmp_path: Path,
    lay: Callable[[Path, Files], Path],
    zipped: Pack,
    among: Files,
    *,
    known: bool,
    packed: bool,
) -> None:
    path = tmp_path / "class"
    if packed:
        path.write_bytes(zipped(among))
    else:
        lay(path, among)
    roster = Roster([StudentInfo(id="alice"), StudentInfo(id="ben")]) if known else None
    found = find_class(path, course, roster)
    assert [each.student.id for each in found.attempts] == ["alice", "ben"]
    (note,) = found.notes
    assert note.startswith("Ignored, since `grade` wrote it: autograder.zip (the package")
    assert "and 4 more" in note


def test_a_class_of_one_beside_its_results_is_found(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path], gradebook: bytes
) -> None:
    files = {"alice/my_glu.py": b"", "results/gradebook.sqlite": gradebook, "up/alice.json": b"{}"}
    found = find_class(lay(tmp_path / "class", files), course)
    assert [each.student.id for each in found.attempts] == ["alice"]


@pytest.mark.parametrize(
    "files",
    [
        {"glu.py": b""},
        {"README.txt": b"Mine.", "staff/glu.py": b"", "students/x": b""},
        {"gradebook.sqlite": b"no database", "glu.py": b""},
        {"alice.md": b"# Notes\n"},
        {"alice.md": b"", "ben.md": b"", "glu.py": b""},
        {"index.html": b"", "grades.csv": b""},
        {},
    ],
)
def test_a_student_may_be_named_results(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path], files: Files
) -> None:
    folder = lay(tmp_path / "class", {**CLASS, **within("results", files)})
    (folder / "results").mkdir(exist_ok=True)
    assert [each.student.id for each in find_class(folder, course).attempts][-1] == "results"


def test_a_submission_of_a_known_student_is_never_ignored(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path]
) -> None:
    folder = lay(tmp_path / "class", {**CLASS, **within("cai", REPORT)})
    roster = Roster([StudentInfo(id=name) for name in ("alice", "ben", "cai")])
    assert [each.student.id for each in find_class(folder, course, roster).attempts][-1] == "cai"


def test_a_results_folder_is_not_a_class(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path], gradebook: bytes
) -> None:
    folder = lay(tmp_path / "results", {"gradebook.sqlite": gradebook, "results/a.json": b"{}"})
    with pytest.raises(SubmissionError, match="is a gradebook that `grade` wrote"):
        find_class(folder, course)


def test_files_given_to_the_command_are_not_noted(
    course: Course, tmp_path: Path, lay: Callable[[Path, Files], Path]
) -> None:
    folder = lay(tmp_path / "class", {**CLASS, "class.csv": b"", "policy.toml": b"", "x.pdf": b""})
    (folder / "results").mkdir()
    given = [folder / name for name in ("class.csv", "policy.toml", "results", "alice")]
    found = find_class(folder, course, given=given)
    assert [each.student.id for each in found.attempts] == ["alice", "ben"]
    assert found.notes == ("Ignored: x.pdf.",)


def test_the_recognized_names_are_those_that_commands_write() -> None:
    assert ours.GRADEBOOK == (database.FILE,)
    assert site._FIRST_LINE.encode() == ours.REPORT_BEGINS
    assert {*ours.REPORT} == {*site._PARTS}
    assert {*ours.TERM} == {term.GRADES, term.EXPLAINED, term.PAGE}
    assert {*ours.PACKAGE} == {*gradescope_package._PROGRAMS}
    formats = list(FORMATS.values())
    assert {f.suffix for f in formats if isinstance(f, StudentFormat)} <= ours.SUFFIXES
