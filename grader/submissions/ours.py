"""Output of our own commands that a person left among the submissions, and that is never judged.

It is recognized by its contents, not by its name: a student may be called `results`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import BinaryIO

from grader.submissions.archive import Format, format_of, looks_like_code, looks_packed
from grader.submissions.folder import (
    EntryKind,
    Unreadable,
    entries,
    entry_kind,
    is_junk,
    open_regular,
)
from grader.submissions.member import MemberReader
from grader.submissions.zip import ZipArchive

# Files of each kind, and the beginning of the first one.
GRADEBOOK = ("gradebook.sqlite",)
REPORT = ("README.txt", "staff", "students")
TERM = ("explained.txt", "grades.csv", "index.html")
PACKAGE = ("run_autograder", "setup.sh")
REPORT_BEGINS = b"A report of Lab Bench."
_SQLITE = b"SQLite format 3\0"
# The suffixes of the files for each student that `grade export` writes.
SUFFIXES = frozenset((".md", ".json", ".xml", ".txt", ".env"))
_FEEDBACK = re.compile(rb"# .*: (not judged as a whole|[\d.]+ of [\d.]+ points)")
_OF_STUDENTS = "files for students"
_MAX_LISTED = 5000
_MAX_TABLE_BYTES = 1 << 20
_BEGIN = 4096


def kind_of_folder(folder: Path, students: Collection[str] = ()) -> str:
    """Return the kind of our output in a folder, in a word or two, empty if it is not ours.

    `students` are the file names of the class's students; files for them are recognized by these.
    """
    if _begins(folder / GRADEBOOK[0], _SQLITE):
        return "a gradebook"
    if _begins(folder / REPORT[0], REPORT_BEGINS) and (folder / "staff").is_dir():
        return "a report"
    if all((folder / name).is_file() for name in TERM):
        return "the totals of a term"
    names = []
    with contextlib.suppress(Unreadable):
        for entry in entries(folder):
            if is_junk(entry.name):
                continue
            if entry_kind(entry) is not EntryKind.FILE or not _may_be_for_a_student(entry.name):
                return ""
            names.append(entry.name)
            if len(names) > _MAX_LISTED:
                return ""
    is_feedback = bool(names) and all(_is_feedback(folder / name) for name in names[:3])
    return _OF_STUDENTS if is_feedback or are_for_students(names, students) else ""


def kind_of_names(names: Collection[str], students: Collection[str]) -> str:
    """Return the kind of our output, by the names at the top level of a folder in an archive."""
    if set(GRADEBOOK) <= set(names):
        return "a gradebook"
    if set(REPORT) <= set(names):
        return "a report"
    if set(TERM) <= set(names):
        return "the totals of a term"
    if set(PACKAGE) <= set(names):
        return "the package of an autograder"
    is_plain = all(map(_may_be_for_a_student, names))
    return _OF_STUDENTS if is_plain and are_for_students(names, students) else ""


def kind_of_archive(file: BinaryIO, students: Collection[str] = ()) -> str:
    """Return the kind of our output in an open zip, maybe below one folder; raises Unreadable."""
    if format_of(file) is not Format.ZIP:
        return ""
    archive = ZipArchive(file, max_entries=_MAX_LISTED, max_table_bytes=_MAX_TABLE_BYTES)
    files = [member for member in archive.members() if member.kind is EntryKind.FILE]
    if files and all(member.path.endswith(".md") for member in files):
        return _OF_STUDENTS if _FEEDBACK.match(MemberReader(files[0]).read(_BEGIN)) else ""
    paths = [member.path.split("/") for member in files]
    if len({path[0] for path in paths}) == 1:
        paths = [path[1:] for path in paths]
    return kind_of_names({path[0] for path in paths if path}, students)


def are_for_students(names: Iterable[str], students: Collection[str]) -> bool:
    """Whether files are named after students; a single text file does not count, since it may be work."""
    parts = [name.rpartition(".") for name in names]
    stems, suffixes = {stem for stem, _, _ in parts}, {suffix for _, _, suffix in parts}
    is_told = len(stems) > 1 or suffixes <= {"json", "xml", "env"}
    return bool(stems) and is_told and stems <= set(students)


def _may_be_for_a_student(name: str) -> bool:
    is_work = looks_like_code(name) or looks_packed(name)
    return not is_work and Path(name).suffix in SUFFIXES


def _begins(path: Path, mark: bytes) -> bool:
    try:
        with open_regular(path, path.name) as file:
            return file.read(len(mark)) == mark
    except Unreadable:
        return False


def _is_feedback(path: Path) -> bool:
    try:
        with open_regular(path, path.name) as file:
            return _FEEDBACK.match(file.read(_BEGIN)) is not None
    except Unreadable:
        return False
