"""Drafts: a student's code for each exercise in the editor of the server, and its last versions.

A draft is not an attempt: it is not judged, and no score depends on it. Earlier graders ignore the tables, so
the format of the gradebook is the same. Only this module has their SQL. Call functions that write within
`Gradebook.transaction`.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from grader.gradebook.book import Gradebook

# For each student and exercise.
MAX_VERSIONS = 10
# A version is kept at most this often, and whenever a draft is replaced as a whole.
VERSION_SECONDS = 300.0

_TABLES = """
CREATE TABLE IF NOT EXISTS drafts (
    student TEXT NOT NULL REFERENCES students (id),
    exercise TEXT NOT NULL,
    revision INTEGER NOT NULL,          -- from 1, one more with each change
    deflated BLOB NOT NULL,
    saved_at REAL NOT NULL,             -- seconds since 1970
    PRIMARY KEY (student, exercise)
);
CREATE TABLE IF NOT EXISTS draft_versions (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    student TEXT NOT NULL REFERENCES students (id),
    exercise TEXT NOT NULL,
    deflated BLOB NOT NULL,
    saved_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS draft_versions_by_student ON draft_versions (student, exercise);
"""


class Draft(NamedTuple):
    """A student's latest draft of an exercise; `revision` is 0 before the first save."""

    revision: int
    source: bytes
    saved_at: float


class Version(NamedTuple):
    """An earlier draft, by its number."""

    number: int
    saved_at: float


def prepare(book: Gradebook) -> None:
    """Make the tables if there are none."""
    book.tables.connection.executescript(_TABLES)


def draft_of(book: Gradebook, student: str, exercise: str) -> Draft | None:
    """Return the draft of a student; None before the first save."""
    row = book.tables.connection.execute(
        "SELECT revision, deflated, saved_at FROM drafts WHERE student = ? AND exercise = ?",
        (student, exercise),
    ).fetchone()
    return None if row is None else Draft(row[0], zlib.decompress(row[1]), row[2])


def drafts_of(book: Gradebook, student: str) -> dict[str, Draft]:
    """Return the drafts of a student by exercise."""
    rows = book.tables.connection.execute(
        "SELECT exercise, revision, deflated, saved_at FROM drafts WHERE student = ?", (student,)
    )
    return {exercise: Draft(at, zlib.decompress(text), saved) for exercise, at, text, saved in rows}


def never_handed_in(book: Gradebook) -> list[tuple[str, str]]:
    """Return the student and exercise of each draft whose student handed in no file for it, sorted."""
    return book.tables.connection.execute(
        "SELECT student, exercise FROM drafts WHERE NOT EXISTS"
        " (SELECT 1 FROM attempts JOIN files ON files.attempt = attempts.id WHERE source != ''"
        " AND attempts.student = drafts.student AND files.exercise = drafts.exercise)"
        " ORDER BY student, exercise"
    ).fetchall()


def save_draft(
    book: Gradebook, student: str, exercise: str, source: bytes, now: float, *, keep: bool = False
) -> Draft:
    """Replace the draft of a student, and return the new one.

    The old draft becomes a version if `keep` is true, or the newest version is VERSION_SECONDS old.
    """
    before = draft_of(book, student, exercise)
    if before is not None and before.source == source:
        return before
    if before is not None:
        versions = versions_of(book, student, exercise)
        newest = versions[0].saved_at if versions else 0.0
        # Also keep a version after the clock was set back.
        if keep or not 0 <= now - newest < VERSION_SECONDS:
            _keep_version(book, student, exercise, before)
    draft = Draft(1 if before is None else before.revision + 1, source, now)
    book.tables.connection.execute(
        "INSERT OR REPLACE INTO drafts VALUES (?, ?, ?, ?, ?)",
        (student, exercise, draft.revision, zlib.compress(source), now),
    )
    return draft


def _keep_version(book: Gradebook, student: str, exercise: str, draft: Draft) -> None:
    connection = book.tables.connection
    connection.execute(
        "INSERT INTO draft_versions (student, exercise, deflated, saved_at) VALUES (?, ?, ?, ?)",
        (student, exercise, zlib.compress(draft.source), draft.saved_at),
    )
    connection.execute(
        "DELETE FROM draft_versions WHERE student = ? AND exercise = ? AND number NOT IN"
        " (SELECT number FROM draft_versions WHERE student = ? AND exercise = ?"
        " ORDER BY number DESC LIMIT ?)",
        (student, exercise, student, exercise, MAX_VERSIONS),
    )


def versions_of(book: Gradebook, student: str, exercise: str) -> list[Version]:
    """Return the versions of a student's draft, the newest first."""
    rows = book.tables.connection.execute(
        "SELECT number, saved_at FROM draft_versions WHERE student = ? AND exercise = ?"
        " ORDER BY number DESC",
        (student, exercise),
    )
    return [Version(*row) for row in rows]


def version_of(book: Gradebook, student: str, exercise: str, number: int) -> bytes | None:
    """Return the source of a version of a student's draft; None if there is no such number."""
    row = book.tables.connection.execute(
        "SELECT deflated FROM draft_versions WHERE student = ? AND exercise = ? AND number = ?",
        (student, exercise, number),
    ).fetchone()
    return None if row is None else zlib.decompress(row[0])
