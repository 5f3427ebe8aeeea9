"""The tables of a gradebook.

Rows are read and written as structs, which `book.py` interprets. Other modules with SQL are `database`, which
opens the file, `queue`, `drafts`, `sessions`, `platforms`, `pushed`, `outbox`, `personal` and `migration`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from grader.gradebook.facts import Facts, decoded, encoded
from grader.gradebook.verdict_key import VerdictKey
from grader.gradebook.work import (
    Answer,
    Attempt,
    DamagedValueError,
    Replaced,
    Request,
    Verdict,
    packed,
    unpacked,
)
from grader.results import Environment, ExerciseResult, Status, StudentInfo
from grader.submissions import ExerciseFile

_BACKUP_PAGES = 1024

TABLES = """
CREATE TABLE facts (                -- one row: the struct Facts as JSON
    id INTEGER PRIMARY KEY CHECK (id = 1),
    facts TEXT NOT NULL
);
CREATE TABLE students (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, ids TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY,
    student TEXT NOT NULL REFERENCES students (id),
    number INTEGER NOT NULL,        -- from 1, in the order in which they were found
    digest TEXT NOT NULL,           -- of the submission
    submitted_at TEXT NOT NULL,     -- in UTC, empty if it is not known
    late INTEGER NOT NULL,          -- as the platform says
    origin TEXT NOT NULL,
    UNIQUE (student, number),
    UNIQUE (student, digest, submitted_at)
);
CREATE TABLE sources (digest TEXT PRIMARY KEY, deflated BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE files (                -- what was handed in, judged or not
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    exercise TEXT NOT NULL,
    source TEXT NOT NULL,           -- digest of its canonical source, empty if there is none
    problem TEXT NOT NULL,          -- why there is none, or what has to be said of it
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
CREATE TABLE replaced (             -- verdicts that were replaced in a revision
    revision INTEGER NOT NULL,
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    exercise TEXT NOT NULL,
    graded_at TEXT NOT NULL,
    result BLOB NOT NULL,
    PRIMARY KEY (revision, attempt, exercise)
) WITHOUT ROWID;
"""
# Tables that the first gradebooks of this format lack; made when a gradebook is opened to write.
LATER_TABLES = """
CREATE TABLE IF NOT EXISTS requests (   -- of students, to look at an exercise again
    number INTEGER PRIMARY KEY,
    student TEXT NOT NULL REFERENCES students (id),
    exercise TEXT NOT NULL,
    message TEXT NOT NULL,
    asked_at TEXT NOT NULL,             -- in UTC
    origin TEXT NOT NULL,
    UNIQUE (student, exercise, message)
);
CREATE TABLE IF NOT EXISTS answers (    -- to requests; the last one holds
    request INTEGER NOT NULL REFERENCES requests (number),
    number INTEGER NOT NULL,            -- from 1
    text TEXT NOT NULL,
    author TEXT NOT NULL,
    answered_at TEXT NOT NULL,          -- in UTC
    PRIMARY KEY (request, number)
) WITHOUT ROWID;
"""
# When this table is made, older rows of `files` get their present digests.
ORIGINALS = """
CREATE TABLE originals (            -- of files that came with other line ends than the canonical ones
    attempt INTEGER NOT NULL REFERENCES attempts (id),
    exercise TEXT NOT NULL,
    source TEXT NOT NULL,           -- digest of the bytes as they came
    PRIMARY KEY (attempt, exercise)
) WITHOUT ROWID
"""
_FILES = (
    "SELECT exercise, deflated, problem FROM files"
    " LEFT JOIN sources ON sources.digest = files.source WHERE attempt = ?"
)
_FILES_AS_THEY_CAME = (
    "SELECT files.exercise, deflated, problem FROM files LEFT JOIN originals USING (attempt, exercise)"
    " LEFT JOIN sources ON sources.digest = coalesce(originals.source, files.source)"
    " WHERE files.attempt = ?"
)
_VERDICT = "SELECT status, score, max_score, result, graded_at, seed, environment FROM grades"
_REQUEST = "SELECT number, student, exercise, message, asked_at, origin FROM requests"
_STUDENT = "SELECT id, name, email, ids FROM students"
_ATTEMPT = "SELECT id, student, number, submitted_at, late, origin, digest FROM attempts"

T = TypeVar("T")


class Tables:
    """The tables of one gradebook, over one connection, for `Gradebook` and other modules with SQL.

    Call methods that write within a transaction. All methods may raise DamagedValueError or
    sqlite3.DatabaseError, which `database.opened` turns into a GraderError.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._facts: tuple[int, Facts] | None = None
        self._is_writing = False
        self._has_requests = self._has_originals = False
        self._environments: dict[int, Environment] = {}

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything within the block to the disk when it ends, or nothing if it raises.

        An inner transaction is part of the outer one.
        """
        if self._is_writing:
            yield
            return
        self._is_writing = True
        try:
            with self.connection:
                yield
        except BaseException:
            self._facts = None
            raise
        finally:
            self._is_writing = False

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Read everything within the block as of one moment, whatever others write meanwhile."""
        self.connection.execute("BEGIN")
        try:
            self.sizes()
            yield
        finally:
            self.connection.rollback()

    def sizes(self) -> tuple[int, ...]:
        """Return the numbers of students, attempts, files and verdicts."""
        tables = ("students", "attempts", "files", "grades")
        counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)  # noqa: S608
        sizes: tuple[int, ...] = self.connection.execute(f"SELECT {counts}").fetchone()
        return sizes

    def back_up(self, target: Path, pause: Callable[[], None] = lambda: None) -> None:
        """Copy the gradebook to a new file while others write to it (SQLite's online backup).

        `pause` is called after every 4 MiB; its exceptions end the copy. Only its owner can read the copy.
        Raises FileExistsError, or another OSError.
        """
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o600))
        # Outside of a transaction, the copy would begin anew after each write of another connection.
        is_reading = self.connection.in_transaction
        with (
            contextlib.nullcontext() if is_reading else self.reading(),
            contextlib.closing(sqlite3.connect(target)) as copy,
        ):
            self.connection.backup(copy, pages=_BACKUP_PAGES, progress=lambda *_: pause())
            # Make it a single file, which can also be read in a folder without permission to write.
            copy.execute("PRAGMA journal_mode = DELETE")

    # --- facts ----------------------------------------------------------------------------------

    @property
    def facts(self) -> Facts:
        """The facts about the whole gradebook; the same object until one of them changes."""
        # The version changes when another process writes.
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        if self._facts is None or self._facts[0] != version:
            (text,) = self.connection.execute("SELECT facts FROM facts").fetchone()
            facts = _read(lambda: decoded(text))
            if self._facts is None or self._facts[1] != facts:
                self._facts = version, facts
            else:
                self._facts = version, self._facts[1]
        return self._facts[1]

    def put_facts(self, facts: Facts) -> None:
        """Replace the facts."""
        (version,) = self.connection.execute("PRAGMA data_version").fetchone()
        self.connection.execute("UPDATE facts SET facts = ?", (encoded(facts),))
        self._facts = version, facts

    # --- students -------------------------------------------------------------------------------

    def students(self) -> list[StudentInfo]:
        """Return every student by id, including those who handed in nothing."""
        return [_student(row) for row in self.connection.execute(f"{_STUDENT} ORDER BY id")]

    def student(self, id_: str) -> StudentInfo | None:
        """Return the student with this id, if there is one."""
        row = self.connection.execute(f"{_STUDENT} WHERE id = ?", (id_,)).fetchone()
        return None if row is None else _student(row)

    def put_student(self, student: StudentInfo) -> None:
        """Insert a student, or replace the one with the same id."""
        ids = msgspec.json.encode(student.ids).decode()
        self.connection.execute(
            "INSERT OR REPLACE INTO students VALUES (?, ?, ?, ?)",
            (student.id, student.name, student.email, ids),
        )

    # --- attempts and files ---------------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        """Return every attempt, by student and number."""
        rows = self.connection.execute(f"{_ATTEMPT} ORDER BY student, number")
        return [_attempt(row) for row in rows]

    def attempt(self, id_: int) -> Attempt:
        """Return the attempt with this id."""
        return _attempt(self.connection.execute(f"{_ATTEMPT} WHERE id = ?", (id_,)).fetchone())

    def attempts_of(self, student: str) -> list[Attempt]:
        """Return the attempts of a student, by number."""
        rows = self.connection.execute(f"{_ATTEMPT} WHERE student = ? ORDER BY number", (student,))
        return [_attempt(row) for row in rows]

    def attempt_counts(self) -> dict[str, int]:
        """Return the number of attempts of each student who handed in something."""
        rows = self.connection.execute("SELECT student, count(*) FROM attempts GROUP BY student")
        return dict(rows.fetchall())

    def last_submission(self) -> str:
        """Return the time of the last submission, empty before the first one.

        An attempt without a time has the time of its first verdict, since a regrade is not a submission; only
        the one found last is considered.
        """
        (dated,) = self.connection.execute("SELECT max(submitted_at) FROM attempts").fetchone()
        row = self.connection.execute(
            "SELECT id FROM attempts WHERE submitted_at = ''"
            " AND EXISTS (SELECT 1 FROM grades WHERE attempt = id) ORDER BY id DESC LIMIT 1"
        ).fetchone()
        return max(dated or "", "" if row is None else self._first_verdict(row[0]))

    def _first_verdict(self, attempt: int) -> str:
        """Return the time of the first verdict on an attempt."""
        # Rows of a revision are found by its number; without it, all of `replaced` would be read.
        query = """
            WITH RECURSIVE revisions (revision) AS (
                SELECT 0 UNION ALL SELECT revision + 1 FROM revisions WHERE revision < :last
            )
            SELECT min(graded_at) FROM (
                SELECT graded_at FROM grades WHERE attempt = :attempt
                UNION ALL
                SELECT graded_at FROM revisions CROSS JOIN replaced USING (revision) WHERE attempt = :attempt
            )
        """
        values = {"last": self.facts.revision, "attempt": attempt}
        (time,) = self.connection.execute(query, values).fetchone()
        return str(time)

    def add_attempt(self, attempt: Attempt) -> Attempt:
        """Insert an attempt, and return it with its id."""
        cursor = self.connection.execute(
            "INSERT INTO attempts VALUES (NULL, :student, :number, :digest, :submitted_at, :late, :origin)",
            msgspec.structs.asdict(attempt),
        )
        return msgspec.structs.replace(attempt, id=int(cursor.lastrowid or 0))

    def update_attempt(self, attempt: Attempt) -> None:
        """Change the time, the origin and the digest of an attempt."""
        self.connection.execute(
            "UPDATE attempts SET submitted_at = :submitted_at, late = :late, origin = :origin,"
            " digest = :digest WHERE id = :id",
            msgspec.structs.asdict(attempt),
        )

    def digests_of(self, student: str) -> dict[str, dict[int, str]]:
        """Return the digests of a student's files, by exercise and attempt; a missing file has an empty one."""
        digests: dict[str, dict[int, str]] = {}
        for exercise, attempt, source in self.connection.execute(
            "SELECT exercise, attempt, source FROM attempts JOIN files ON attempt = id"
            " WHERE student = ? ORDER BY number",
            (student,),
        ):
            digests.setdefault(exercise, {})[attempt] = source
        return digests

    def files_of(self, attempt: int) -> dict[str, ExerciseFile]:
        """Return the files of an attempt as handed in, by exercise, or the problem with a missing one."""
        self._find_originals()
        query = _FILES_AS_THEY_CAME if self._has_originals else _FILES
        rows = self.connection.execute(query, (attempt,))
        return {
            exercise: ExerciseFile(None if deflated is None else _inflated(deflated), problem)
            for exercise, deflated, problem in rows
        }

    def originals(self) -> dict[str, str]:
        """Map digests of files as handed in to the digests that are compared, where they differ."""
        self._find_originals()
        find = "SELECT originals.source, files.source FROM originals JOIN files USING (attempt, exercise)"
        return dict(self.connection.execute(find).fetchall()) if self._has_originals else {}

    def _find_originals(self) -> None:
        """Look for the table `originals`, which appears when a later grader first writes to the gradebook."""
        if not self._has_originals:
            self._has_originals = has_table(self.connection, "originals")

    def put_file(self, attempt: int, exercise: str, file: ExerciseFile, digest: str) -> None:
        """Keep a file of an attempt; equal contents are stored once.

        A file with the same digest does not replace the file that came first.
        """
        place = attempt, exercise
        find = "SELECT source, problem FROM files WHERE attempt = ? AND exercise = ?"
        before = self.connection.execute(find, place).fetchone()
        if before == (digest, file.problem):
            return
        insert = "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)"
        self.connection.execute(insert, (*place, digest, file.problem))
        if before is not None and before[0] == digest:
            return
        forget = "DELETE FROM originals WHERE attempt = ? AND exercise = ?"
        self.connection.execute(forget, place)
        if file.source is None:
            return
        original = hashlib.sha256(file.source).hexdigest()
        if original != digest:
            self.connection.execute("INSERT INTO originals VALUES (?, ?, ?)", (*place, original))
        known = "SELECT 1 FROM sources WHERE digest = ?"
        if self.connection.execute(known, (original,)).fetchone() is None:
            deflated = zlib.compress(file.source)
            self.connection.execute("INSERT INTO sources VALUES (?, ?)", (original, deflated))

    # --- regrade requests -----------------------------------------------------------------------

    def requests(self) -> list[Request]:
        """Return every request of the class with its answers, oldest first."""
        return self._requests(f"{_REQUEST} ORDER BY number", ())

    def requests_of(self, student: str) -> list[Request]:
        """Return the requests of a student with their answers, oldest first."""
        return self._requests(f"{_REQUEST} WHERE student = ? ORDER BY number", (student,))

    def _requests(self, query: str, values: Sequence[str]) -> list[Request]:
        """Return the requests that a query finds, each with its answers."""
        if not self._has_requests:
            # Early gradebooks lack the table.
            self._has_requests = has_table(self.connection, "answers")
        rows = self.connection.execute(query, values).fetchall() if self._has_requests else []
        return [
            Request(
                number=number,
                student=student,
                exercise=exercise,
                message=message,
                asked_at=asked_at,
                origin=origin,
                answers=self._answers(number),
            )
            for number, student, exercise, message, asked_at, origin in rows
        ]

    def _answers(self, request: int) -> tuple[Answer, ...]:
        rows = self.connection.execute(
            "SELECT text, author, answered_at FROM answers WHERE request = ? ORDER BY number",
            (request,),
        )
        return tuple(Answer(*row) for row in rows)

    def add_request(
        self, student: str, exercise: str, message: str, asked_at: str, origin: str
    ) -> bool:
        """Keep a request, unless the student has sent the same message before; return whether it is new."""
        cursor = self.connection.execute(
            "INSERT OR IGNORE INTO requests (student, exercise, message, asked_at, origin)"
            " VALUES (?, ?, ?, ?, ?)",
            (student, exercise, message, asked_at, origin),
        )
        return cursor.rowcount > 0

    def add_answer(self, request: int, answer: Answer) -> None:
        """Add an answer to a request, after earlier answers."""
        self.connection.execute(
            "INSERT INTO answers SELECT :request, count(*) + 1, :text, :author, :answered_at"
            " FROM answers WHERE request = :request",
            {"request": request, **msgspec.structs.asdict(answer)},
        )

    # --- verdicts -------------------------------------------------------------------------------

    def verdicts_of(self, student: str) -> dict[str, dict[int, Verdict]]:
        """Return the verdicts on a student's attempts, by exercise and attempt."""
        verdicts: dict[str, dict[int, Verdict]] = {}
        for exercise, attempt, *row in self.connection.execute(
            "SELECT exercise, attempt, status, score, max_score, result, graded_at, seed, environment"
            " FROM attempts JOIN grades ON attempt = id WHERE student = ? ORDER BY number",
            (student,),
        ):
            verdicts.setdefault(exercise, {})[attempt] = self._verdict(row)
        return verdicts

    def verdicts(self, key: str) -> Iterator[Verdict]:
        """Yield the verdicts with this key, on files of any student."""
        find = f"{_VERDICT} WHERE key = ? AND status != ?"
        for row in self.connection.execute(find, (key, Status.UNJUDGED.value)):
            yield self._verdict(row)

    def verdict(self, attempt: int, exercise: str, key: str) -> Verdict | None:
        """Return the verdict on an attempt's file if it has this key, else None."""
        row = self.connection.execute(
            f"{_VERDICT} WHERE attempt = ? AND exercise = ? AND key = ? AND status != ?",
            (attempt, exercise, key, Status.UNJUDGED.value),
        ).fetchone()
        return None if row is None else self._verdict(row)

    def put_verdict(
        self, attempt: int, exercise: str, key: VerdictKey, verdict: Verdict, *, replace: bool
    ) -> None:
        """Keep a verdict; an existing one stays, unless `replace`."""
        insert = "INSERT OR REPLACE" if replace else "INSERT OR IGNORE"
        self.connection.execute(
            f"{insert} INTO grades VALUES (:attempt, :exercise, :key, :source, :course, :grader,"
            " :seed, :status, :score, :max_score, :graded_at, :environment, :packed)",
            {
                **msgspec.structs.asdict(key),
                **msgspec.structs.asdict(verdict),
                "attempt": attempt,
                "exercise": exercise,
                "status": verdict.status.value,
                "environment": self._put_environment(verdict.environment),
            },
        )

    def reword(self, attempt: int, result: ExerciseResult) -> None:
        """Replace the messages of a verdict; outcomes and points stay."""
        self.connection.execute(
            "UPDATE grades SET result = ? WHERE attempt = ? AND exercise = ?",
            (packed(result), attempt, result.name),
        )

    def set_aside(self, revision: int, attempt: int, exercise: str) -> None:
        """Keep a verdict that is about to be replaced; only the first one of a revision.

        A revision is one grading, even if it is interrupted: `grade regrade` compares its end with its
        beginning. If the present verdict is a fault of the grader, keep the last verdict before the fault.
        """
        row = {
            "revision": revision,
            "attempt": attempt,
            "exercise": exercise,
            "unjudged": Status.UNJUDGED.value,
        }
        self.connection.execute(
            "INSERT OR IGNORE INTO replaced SELECT :revision, attempt, exercise, graded_at, result"
            " FROM grades WHERE attempt = :attempt AND exercise = :exercise AND status != :unjudged",
            row,
        )
        self.connection.execute(
            "INSERT OR IGNORE INTO replaced"
            " SELECT :revision, last.attempt, last.exercise, last.graded_at, last.result"
            " FROM replaced AS last JOIN grades USING (attempt, exercise)"
            " WHERE last.attempt = :attempt AND last.exercise = :exercise AND status = :unjudged"
            " ORDER BY revision DESC LIMIT 1",
            row,
        )

    def replaced(self, revision: int) -> Iterator[Replaced]:
        """Yield the verdicts that were replaced in a revision, by student and attempt."""
        rows = self.connection.execute(
            "SELECT student, number, replaced.result, grades.result FROM replaced"
            " JOIN attempts ON attempts.id = replaced.attempt"
            " JOIN grades ON grades.attempt = replaced.attempt"
            " AND grades.exercise = replaced.exercise WHERE revision = ? ORDER BY student, number",
            (revision,),
        )
        for student, number, before, after in rows:
            yield Replaced(student, number, unpacked(before), unpacked(after))

    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of the verdicts, the newest verdict's first."""
        rows = self.connection.execute(
            "SELECT seed FROM grades GROUP BY seed ORDER BY MAX(graded_at) DESC"
        )
        return tuple(int(seed) for (seed,) in rows)

    def verdict_counts(self) -> dict[str, int]:
        """Return the number of verdicts on each exercise."""
        rows = self.connection.execute("SELECT exercise, count(*) FROM grades GROUP BY exercise")
        return dict(rows.fetchall())

    def _verdict(self, row: Any) -> Verdict:
        """Return a row of `grades` as a verdict; its result stays packed."""
        status, score, max_score, result, graded_at, seed, environment = row
        return Verdict(
            status=_read(lambda: Status(status)),
            score=score,
            max_score=max_score,
            packed=result,
            graded_at=graded_at,
            seed=seed,
            environment=self._environment(environment),
        )

    def _environment(self, number: int) -> Environment:
        """Return the environment with this number; most verdicts share one."""
        if number not in self._environments:
            (text,) = self.connection.execute(
                "SELECT environment FROM environments WHERE id = ?", (number,)
            ).fetchone()
            self._environments[number] = _decoded(Environment, text)
        return self._environments[number]

    def _put_environment(self, environment: Environment) -> int:
        text = msgspec.json.encode(environment).decode()
        insert = "INSERT OR IGNORE INTO environments (environment) VALUES (?)"
        self.connection.execute(insert, (text,))
        find = "SELECT id FROM environments WHERE environment = ?"
        return int(self.connection.execute(find, (text,)).fetchone()[0])


# --- values -------------------------------------------------------------------------------------------


def _student(row: Any) -> StudentInfo:
    return StudentInfo(id=row[0], name=row[1], email=row[2], ids=_decoded(dict[str, str], row[3]))


def _attempt(row: Any) -> Attempt:
    id_, student, number, submitted_at, late, origin, digest = row
    return Attempt(id_, student, number, submitted_at, bool(late), origin, digest)


def _decoded(kind: type[T], text: str) -> T:
    return _read(lambda: msgspec.json.decode(text, type=kind))


def _inflated(data: bytes) -> bytes:
    return _read(lambda: zlib.decompress(data))


def _read(decode: Callable[[], T]) -> T:
    try:
        return decode()
    except (zlib.error, msgspec.DecodeError, ValueError, TypeError) as error:
        raise DamagedValueError(str(error)) from error


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Whether a gradebook has this table."""
    known = "SELECT 1 FROM sqlite_master WHERE name = ?"
    return connection.execute(known, (name,)).fetchone() is not None
