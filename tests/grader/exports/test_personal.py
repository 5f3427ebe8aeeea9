"""A student's own data: every file and row that is kept, and only the readable part of verdicts."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from grader.errors import GraderError
from grader.exports.personal import write_personal_data
from grader.gradebook import Gradebook, drafts
from grader.results import StudentInfo
from tests.grader.exports.classroom_of_push import FILE, FIRST, SECOND, SECRET, School, info_of
from tests.grader.exports.conftest import school

__all__ = ["school"]

ADA = info_of(FIRST)


@pytest.fixture
def kept(school: School) -> School:
    """Two students. The first has two attempts, a correction and a draft with an earlier version."""
    school.grade({FIRST: 4.0, SECOND: 8.0})
    school.grade({FIRST: 6.0})
    school.correct(FIRST, add=1.0)
    school.correct(SECOND, add=1.0, comment="told by the second")
    with Gradebook.open_to_write(school.results) as book, book.transaction():
        drafts.prepare(book)
        for who in (ADA.id, f"s{SECOND}"):
            drafts.save_draft(book, who, "task", f"# first of {who}\n".encode(), 1.0)
            drafts.save_draft(book, who, "task", f"# second of {who}\n".encode(), 2.0, keep=True)
    return school


def zipped(school: School, path: Path, student: StudentInfo = ADA) -> dict[str, bytes]:
    with Gradebook.open(school.results) as book:
        count = write_personal_data(book, student, path)
    with zipfile.ZipFile(path) as archive:
        assert len(archive.namelist()) == count
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_archive_has_all_data_of_one_student_and_no_other(kept: School, tmp_path: Path) -> None:
    files = zipped(kept, tmp_path / "ada.zip")
    version = "drafts/task-version-1.py"
    assert {*files} == {
        "README.txt",
        "records.json",
        "result.json",
        "attempts/0001/task.py",
        "attempts/0001/verdict.json",
        "attempts/0002/task.py",
        "attempts/0002/verdict.json",
        "drafts/task.py",
        version,
    }
    assert files["attempts/0001/task.py"] == FILE + f"# {FIRST} 4.0\n".encode()
    assert files["drafts/task.py"] == f"# second of {ADA.id}\n".encode()
    assert files[version] == f"# first of {ADA.id}\n".encode()
    assert f"Data about {ADA.id} in".encode() in files["README.txt"]
    records = json.loads(files["records.json"])
    assert [made["reason"] for made in records["corrections"]] == ["shown in the lab"]
    assert len(records["tables"]["attempts"]) == 2
    assert f"s{SECOND}".encode() not in b"".join(files.values())


def test_a_verdict_has_the_points_and_no_value_of_a_hidden_test(
    kept: School, tmp_path: Path
) -> None:
    files = zipped(kept, tmp_path / "ada.zip")

    def verdict(name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(files[name])
        return found

    assert [verdict(f"attempts/000{n}/verdict.json")["score"] for n in (1, 2)] == [4, 6]
    assert verdict("result.json")["score"] == 7, "with the correction"
    assert SECRET.encode() not in b"".join(files.values())


def test_a_student_without_work_gets_only_records(kept: School, tmp_path: Path) -> None:
    nobody = StudentInfo(id="zed", name="Zed")
    with Gradebook.open_to_write(kept.results) as book:
        book.keep_student(nobody)
    files = zipped(kept, tmp_path / "zed.zip", nobody)
    assert {*files} == {"README.txt", "records.json"}
    assert json.loads(files["records.json"])["corrections"] == []


def test_an_unwritable_path_is_an_error(kept: School, tmp_path: Path) -> None:
    with pytest.raises(GraderError):
        zipped(kept, tmp_path / "no" / "ada.zip")
