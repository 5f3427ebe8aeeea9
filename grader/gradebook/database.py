"""The file of a gradebook, `gradebook.sqlite`: opened, made, checked, locked, and brought up to date.

It can be read while a grading writes to it. `tables.py` has its tables.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

from grader.errors import GraderError, SubmissionError, UsageError
from grader.gradebook.facts import Facts, encoded
from grader.gradebook.tables import LATER_TABLES, ORIGINALS, TABLES, Tables, has_table
from grader.gradebook.work import DamagedValueError
from grader.submissions.source import code_digest
from grader.submissions.submission import digest_of_files

FORMAT_VERSION = 4
# Earlier formats, which `migration.py` brings up to date.
OLDER = (1, 2, 3)
FILE = "gradebook.sqlite"
LOG_FILES = (f"{FILE}-wal", f"{FILE}-shm")
_LOCK = "batch.lock"
_NOT_WRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL)
_NOT_READABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)


def no_gradebook(folder: Path) -> SubmissionError:
    """Return the error that a folder has no gradebook."""
    return SubmissionError(
        f"There is no gradebook in {folder}: name the folder that `grade batch -o` wrote."
    )


@contextlib.contextmanager
def opened(file: Path, *, create: bool) -> Iterator[Tables]:
    """Open the tables of a file to read, or with `create` to write, making the file if necessary.

    Raises SubmissionError if the file is to be read and is empty: its grading was killed before the tables were
    made, and the next one makes them. Raises GraderError if it is not a gradebook or is damaged, and for any
    error of SQLite within the block.
    """
    with (
        explaining_errors(file),
        contextlib.closing(_connected(file, create=create)) as connection,
    ):
        connection.execute("PRAGMA busy_timeout = 10000")
        # Look in this order, since another process may make the tables and set their version in between.
        is_new = not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if is_new and not create:
            raise no_gradebook(file.parent)
        if is_new:
            version = FORMAT_VERSION
        if version > FORMAT_VERSION:
            raise GraderError(
                f"The gradebook {file} has format {version}, this grader reads {FORMAT_VERSION}; a newer "
                "grader wrote it: install that one, or one that is newer still. Nothing was changed."
            )
        if version in OLDER:
            _bring_up_to_date(connection, file, is_locked=create)
        elif version != FORMAT_VERSION:
            raise GraderError(
                f"{file} has format {version}, which no gradebook has: move it away, or name "
                "another folder; `grade batch` makes a new gradebook."
            )
        if create:
            _prepare(connection, is_new=is_new)
        # SQLite may read a damaged table with fewer rows. This takes 0.1 s for a thousand students.
        _check(connection, file)
        if not create:
            connection.execute("PRAGMA query_only = ON")
        yield Tables(connection)


@contextlib.contextmanager
def opened_again(file: Path) -> Iterator[Tables]:
    """Open the tables to read beside a writer, which has checked the file."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("PRAGMA query_only = ON")
        yield Tables(connection)


@contextlib.contextmanager
def opened_to_add(file: Path) -> Iterator[Tables]:
    """Open the tables to write a few rows beside a writer, which has checked the file."""
    with explaining_errors(file), contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA busy_timeout = 10000")
        connection.execute("PRAGMA synchronous = FULL")
        yield Tables(connection)


@contextlib.contextmanager
def explaining_errors(file: Path) -> Iterator[None]:
    """Within the block, turn any error of SQLite into a GraderError with a remedy."""
    try:
        yield
    except (sqlite3.DatabaseError, DamagedValueError) as error:
        raise _unusable(file, error) from error


def _bring_up_to_date(connection: sqlite3.Connection, file: Path, *, is_locked: bool) -> None:
    """Bring a gradebook up to date, and keep a copy; raises GraderError if the folder is read-only."""
    from grader.gradebook.migration import migrate

    folder = file.parent
    if not os.access(folder, os.W_OK):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        raise GraderError(
            f"The gradebook {file} has the format {version} of an earlier grader and has to be brought up to "
            f"date, and you may not write there: copy {folder} to a folder in which you may, and name that."
        )
    with contextlib.nullcontext() if is_locked else only_writer(folder):
        # Another command may have done it in between.
        if connection.execute("PRAGMA user_version").fetchone() == (FORMAT_VERSION,):
            return
        _check(connection, file)
        migrate(connection, file, TABLES, FORMAT_VERSION)


def _connected(file: Path, *, create: bool) -> sqlite3.Connection:
    """Connect to the file, read-only if the folder is, such as a backup or another person's."""
    if create:
        # Only the owner may read points and names. SQLite gives its other files the same mode, and reports an
        # error that occurs here.
        with contextlib.suppress(OSError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL, 0o600))
    if create or os.access(file.parent, os.W_OK) or _has_log(file):
        return sqlite3.connect(file)
    return sqlite3.connect(f"{file.resolve().as_uri()}?immutable=1", uri=True)


def _prepare(connection: sqlite3.Connection, *, is_new: bool) -> None:
    """Make missing tables, and sync every transaction to the disk."""
    connection.execute("PRAGMA journal_mode = WAL")
    # A confirmed verdict must survive a power failure.
    connection.execute("PRAGMA synchronous = FULL")
    if is_new:
        connection.executescript(f"BEGIN; {TABLES} PRAGMA user_version = {FORMAT_VERSION};")
        facts = Facts(secret=secrets.token_hex(16))
        connection.execute("INSERT INTO facts VALUES (1, ?)", (encoded(facts),))
        connection.commit()
    connection.executescript(LATER_TABLES)
    if not has_table(connection, "originals"):
        with connection:
            connection.execute("BEGIN")
            connection.execute(ORIGINALS)
            _compare_code(connection)


def _compare_code(connection: sqlite3.Connection) -> None:
    """Give files and attempts of an earlier grader their present digests."""
    attempts: set[int] = set()
    for original, deflated in connection.execute("SELECT digest, deflated FROM sources").fetchall():
        try:
            digest = code_digest(zlib.decompress(deflated))
        except (zlib.error, TypeError):
            continue  # reading the file raises the error
        if digest == original:
            continue
        files = "SELECT attempt, exercise, source FROM files WHERE source = ?"
        attempts |= {row[0] for row in connection.execute(files, (original,))}
        connection.execute(f"INSERT INTO originals {files}", (original,))
        of_both = digest, original
        connection.execute("UPDATE files SET source = ? WHERE source = ?", of_both)
        connection.execute("UPDATE grades SET source = ? WHERE source = ?", of_both)
    for attempt in attempts:
        files = "SELECT exercise, source FROM files WHERE attempt = ?"
        sources = dict(connection.execute(files, (attempt,)).fetchall())
        # IGNORE: if an attempt with these files and time exists, that one is found from now on.
        change = "UPDATE OR IGNORE attempts SET digest = ? WHERE id = ?"
        connection.execute(change, (digest_of_files(sources), attempt))


@contextlib.contextmanager
def only_writer(
    folder: Path, name: str = _LOCK, busy: str = "Another grading writes to"
) -> Iterator[None]:
    """Hold a lock of the folder, which the OS releases even if this process is killed.

    Raises GraderError, which begins with `busy`, if another process holds it.
    """
    connection = sqlite3.connect(folder / name, timeout=0, isolation_level=None)
    try:
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY:
                raise _unusable(folder / name, error) from error
            raise GraderError(
                f"{busy} {folder}; wait until it has ended, or stop it. A running `grade serve` counts as one: "
                "`grade adjust`, `mark`, `requests` and `regrade` reach it with --server ADDRESS."
            ) from error
        yield
    finally:
        connection.close()


def _check(connection: sqlite3.Connection, file: Path) -> None:
    """Raise sqlite3.DatabaseError for a damaged page, a missing end, or a dangling reference."""
    page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
    # SQLite reads missing bytes of the last page as zeros, unless the log has the page.
    if file.stat().st_size % page_bytes and not _has_log(file):
        raise sqlite3.DatabaseError("its end is missing")
    (first,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    if first != "ok":
        raise sqlite3.DatabaseError(first)
    if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise sqlite3.DatabaseError("a row is missing")


def _has_log(file: Path) -> bool:
    """Whether the write-ahead log may have changes that the file lacks."""
    log = file.with_name(f"{file.name}-wal")
    return log.is_file() and log.stat().st_size > 0


def end_log(file: Path) -> None:
    """Write the log into its gradebook and remove it, before another file takes the gradebook's place.

    The log of a damaged gradebook is only removed. Raises UsageError if others have the gradebook open; nothing
    is changed then.
    """
    try:
        with contextlib.closing(sqlite3.connect(file, timeout=2)) as connection:
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        if _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise UsageError(
                f"Another command reads {file.parent}: wait until it has ended. Nothing was changed."
            ) from error
    for name in LOG_FILES:
        file.with_name(name).unlink(missing_ok=True)


def _unusable(file: Path, error: sqlite3.DatabaseError | DamagedValueError) -> GraderError:
    """Return the message for an error of SQLite or an unreadable value, with the way out."""
    code = getattr(error, "sqlite_errorcode", 0)
    # Over a quota or on a network disk, a full disk is an input/output error.
    unwritten = _code(error) == sqlite3.SQLITE_IOERR and code not in _NOT_READABLE
    if unwritten or _code(error) in _NOT_WRITABLE:
        return GraderError(
            f"Nothing can be written to {file.parent} ({error}): make room, or name a folder in which "
            "you may write. Verdicts so far are kept; run this again."
        )
    problem = f"a value in it cannot be read ({error})" if isinstance(error, ValueError) else error
    return GraderError(
        f"The gradebook {file} cannot be opened: {problem}. If it is damaged, restore a backup with "
        "`grade restore`, or move it away; `grade batch` makes a new one."
    )


def _code(error: Exception) -> int:
    """Return the primary result code; 0 for an error that Python raises itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
