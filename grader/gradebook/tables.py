"""The file of a gradebook: its tables, how it is opened, and that one grading writes at a time."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from grader.errors import GraderError

FORMAT_VERSION = 2
FILE = "gradebook.sqlite"
_LOCK = "batch.lock"
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL)
_NOT_READABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)

TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE students (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, ids TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    student TEXT NOT NULL REFERENCES students (id),
    number INTEGER NOT NULL,        -- from 1, in the order in which they were found
    digest TEXT NOT NULL,           -- of the submission
    submitted_at TEXT NOT NULL,     -- in UTC, empty where it is not known
    late INTEGER NOT NULL,          -- as the platform says
    origin TEXT NOT NULL,
    UNIQUE (student, number),
    UNIQUE (student, digest, submitted_at)
);
CREATE TABLE sources (digest TEXT PRIMARY KEY, deflated BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE files (                -- what was handed in, judged or not
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    exercise TEXT NOT NULL,
    source TEXT NOT NULL,           -- digest of the file, empty if there is none
    problem TEXT NOT NULL,          -- why there is none
    PRIMARY KEY (attempt, exercise)
) WITHOUT ROWID;
CREATE TABLE environments (id INTEGER PRIMARY KEY, environment TEXT NOT NULL UNIQUE);
CREATE TABLE grades (
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    exercise TEXT NOT NULL,
    key TEXT NOT NULL,              -- of all that the verdict depends on
    source TEXT NOT NULL,           -- digest of the student's file, empty if there is none
    course TEXT NOT NULL,           -- digest of the exercise's part of the course
    grader TEXT NOT NULL,           -- digest of the code that judges
    seed INTEGER NOT NULL,
    status TEXT NOT NULL,
    score REAL NOT NULL,
    max_score REAL NOT NULL,
    graded_at TEXT NOT NULL,
    environment INTEGER NOT NULL REFERENCES environments (id),
    result BLOB NOT NULL,           -- the ExerciseResult as JSON, deflated
    PRIMARY KEY (attempt, exercise)
) WITHOUT ROWID;
CREATE INDEX grades_by_key ON grades (key);
CREATE TABLE replaced (
    revision INTEGER NOT NULL,
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    exercise TEXT NOT NULL,
    graded_at TEXT NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (revision, attempt, exercise)
) WITHOUT ROWID;
CREATE TABLE corrections (          -- what a person changed; it stays when it is undone
    id INTEGER PRIMARY KEY,
    student TEXT NOT NULL,          -- empty for the whole class
    exercise TEXT NOT NULL,
    test TEXT NOT NULL,             -- empty for the whole exercise
    kind TEXT NOT NULL,
    points REAL NOT NULL,
    reason TEXT NOT NULL,
    comment TEXT NOT NULL,
    author TEXT NOT NULL,
    made_at TEXT NOT NULL,
    judged REAL,                    -- what the judge gave then, for one student
    undone_at TEXT NOT NULL,        -- empty while it holds
    undone_by TEXT NOT NULL
);
"""


@contextlib.contextmanager
def connected(file: Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """The open file, made anew where `create` is set and there is none.

    Raises GraderError if it is no gradebook or damaged, and for whatever SQLite cannot do while it is open.
    """
    with contextlib.closing(_connect(file, create=create)) as connection:
        try:
            # 0.1 s for a thousand students; SQLite may show a damaged table with fewer rows.
            _check(connection, file)
            yield connection
        except sqlite3.DatabaseError as error:
            raise _unusable(file, error) from error


def _check(connection: sqlite3.Connection, file: Path) -> None:
    """Raise sqlite3.DatabaseError for a damaged page, a missing end, or a row that points to none."""
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    # SQLite takes what is missing of the last page for zeros, unless the log has that page.
    if file.stat().st_size % page_bytes and not _has_log(file):
        raise sqlite3.DatabaseError("its end is missing")
    (first,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if first != "ok":
        raise sqlite3.DatabaseError(first)
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise sqlite3.DatabaseError("a row is missing")


def _connect(file: Path, *, create: bool) -> sqlite3.Connection:
    connection = None
    try:
        connection = _opened(file, create=create)
        connection.execute("PRAGMA busy_timeout = 10000")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        is_new = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        if create and (is_new or version == FORMAT_VERSION):
            connection.execute("PRAGMA journal_mode = WAL")
            # A verdict that was told stays, also when the power goes.
            connection.execute("PRAGMA synchronous = FULL")
            if is_new:
                connection.executescript(
                    f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT_VERSION}; COMMIT;"
                )
                version = FORMAT_VERSION
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise _unusable(file, error) from error
        raise
    if version != FORMAT_VERSION:
        connection.close()
        raise GraderError(
            f"The gradebook {file} has format {version}, this grader reads {FORMAT_VERSION}; "
            "use the grader that wrote it."
        )
    return connection


def _opened(file: Path, *, create: bool) -> sqlite3.Connection:
    """A connection; where nothing can be written (a backup, another's folder), one that writes nothing."""
    if create or os.access(file.parent, os.W_OK) or _has_log(file):
        return sqlite3.connect(file)
    return sqlite3.connect(f"{file.resolve().as_uri()}?immutable=1", uri=True)


def _has_log(file: Path) -> bool:
    """Whether something is in the write-ahead log alone."""
    log = file.with_name(f"{file.name}-wal")
    return log.is_file() and log.stat().st_size > 0


def _unusable(file: Path, error: sqlite3.DatabaseError) -> GraderError:
    """The message for an error of SQLite, with the way out."""
    code = getattr(error, "sqlite_errorcode", 0)
    # Beyond a quota, and on a network's disk, a full disk is an input/output error.
    unwritten = _code(error) == sqlite3.SQLITE_IOERR and code not in _NOT_READABLE
    if unwritten or _code(error) in _NOT_WRITABLE:
        return GraderError(
            f"Nothing can be written to {file.parent} ({error}): make room, or name a folder in which "
            "you may write. What was judged so far is kept; run this again."
        )
    return GraderError(
        f"The gradebook {file} cannot be opened: {error}. If it is damaged, move it away; "
        "`grade batch` makes a new one."
    )


def _code(error: sqlite3.DatabaseError) -> int:
    """The primary result code; what Python raises by itself has none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, which the system lets go of whatever happens to this process."""
    connection = sqlite3.connect(folder / _LOCK, timeout=0, isolation_level=None)
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY:
                raise _unusable(folder / _LOCK, error) from error
            raise GraderError(
                f"Another grading writes to {folder}; wait until it has ended, or stop it."
            ) from error
        yield
    finally:
        connection.close()
