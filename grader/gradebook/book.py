"""The gradebook: a SQLite file in which every verdict is kept the moment that it is there.

A row of `attempts` is one submission of one student, a row of `grades` one exercise of it with the
digests that the verdict depends on. What is written is on the disk (WAL, synced) before the next verdict is
taken, so that a grading may be killed at any moment. A verdict that is replaced moves to `replaced`.
"""

from __future__ import annotations

import contextlib
import datetime
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from grader.attention import Attention
from grader.course import Course
from grader.digests import VerdictKey
from grader.errors import GraderError, SubmissionError
from grader.gradebook.tables import FILE, connect, only_writer, unusable
from grader.intake import Found, Submission, safe_name
from grader.results import (
    CourseInfo,
    Entry,
    Environment,
    ExerciseResult,
    Result,
    Status,
    Student,
    SubmissionInfo,
    to_json,
)

__all__ = ["Attempt", "Gradebook", "Replaced"]

_from_json = msgspec.json.Decoder(ExerciseResult).decode
_decode_environment = msgspec.json.Decoder(Environment).decode


class Attempt(msgspec.Struct, frozen=True):
    """A submission as the gradebook knows it."""

    id: int
    student: str
    number: int
    counted: bool


class Replaced(msgspec.Struct, frozen=True):
    """A verdict that took the place of an earlier one."""

    student: str
    attempt: int
    before: ExerciseResult
    after: ExerciseResult


class Gradebook:
    """The gradebook of one RESULTS folder; open it with `Gradebook.open`."""

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._connection = connection

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path, *, create: bool = False) -> Iterator[Gradebook]:
        """Open the gradebook in a folder to read it, or to write where `create` is set.

        Raises SubmissionError where there is none, GraderError if it is damaged, was written by a newer
        grader, or another grading writes to it.
        """
        file = folder / FILE
        if not create and not file.is_file():
            raise SubmissionError(
                f"There is no gradebook in {folder}: name the folder that `grade batch -o` wrote."
            )
        if create:
            with _writing(folder):
                (folder / "results").mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            if create:
                stack.enter_context(only_writer(folder))
            connection = stack.enter_context(contextlib.closing(connect(file, create=create)))
            try:
                yield cls(folder, connection)
            except sqlite3.DatabaseError as error:
                raise unusable(file, error) from error

    # --- facts ----------------------------------------------------------------------------------

    def fact(self, name: str, default: str = "") -> str:
        """A fact about the whole gradebook, such as `title`."""
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_fact(self, name: str, value: str) -> None:
        """Keep a fact."""
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
        self._connection.commit()

    @property
    def course(self) -> CourseInfo:
        """The course of the last grading."""
        return msgspec.json.decode(self.fact("course"), type=CourseInfo)

    # --- writing --------------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is kept within is on the disk together when this ends, or nothing of it."""
        with self._connection:
            yield

    def register(self, found: Found, submission: Submission, *, counted: bool) -> Attempt:
        """The row of an attempt, which is the one that the student's same files had before.

        Within a transaction.

        Whoever hands in the same files again gets no second verdict; but that attempt counts again.
        """
        student, digest = found.student, submission.info().digest
        connection = self._connection
        _keep_student(connection, student)
        if counted:
            connection.execute(
                "UPDATE attempts SET counted = 0 WHERE student = ? AND digest != ?",
                (student.id, digest),
            )
        connection.execute(
            "INSERT INTO attempts (student, number, digest, counted, submitted_at, late, origin)"
            " SELECT :student, coalesce(max(number), 0) + 1, :digest, :counted, :submitted_at,"
            " :late, :origin FROM attempts WHERE student = :student"
            " ON CONFLICT (student, digest) DO UPDATE SET"
            " counted = max(counted, excluded.counted), submitted_at = excluded.submitted_at,"
            " late = excluded.late, origin = excluded.origin",
            {
                "student": student.id,
                "digest": digest,
                "counted": counted,
                "submitted_at": found.submitted_at,
                "late": found.late,
                "origin": found.origin,
            },
        )
        row = connection.execute(
            "SELECT id, student, number, counted FROM attempts WHERE student = ? AND digest = ?",
            (student.id, digest),
        ).fetchone()
        return Attempt(row[0], row[1], row[2], bool(row[3]))

    def keep_student(self, student: Student) -> None:
        """Know a student, also one who handed in nothing; within a transaction."""
        _keep_student(self._connection, student)

    def verdict(self, key: str) -> tuple[ExerciseResult, Environment] | None:
        """A verdict on the same file by the same suite and grader, whoever handed it in."""
        row = self._connection.execute(
            "SELECT result, environments.environment FROM grades"
            " JOIN environments ON environments.id = grades.environment"
            " WHERE key = ? AND status != ? LIMIT 1",
            (key, Status.UNJUDGED.value),
        ).fetchone()
        return None if row is None else (_decode_exercise(row[0]), _decode_environment(row[1]))

    def has(self, attempt: Attempt, exercise: str, key: str) -> bool:
        """Whether this very verdict is there already."""
        row = self._connection.execute(
            "SELECT 1 FROM grades WHERE attempt = ? AND exercise = ? AND key = ? AND status != ?",
            (attempt.id, exercise, key, Status.UNJUDGED.value),
        ).fetchone()
        return row is not None

    def keep(
        self,
        attempt: Attempt,
        key: VerdictKey,
        seed: int,
        source: bytes | None,
        result: ExerciseResult,
        environment: Environment,
    ) -> None:
        """Keep a verdict with the file that it is about; within a transaction."""
        self._set_aside(self._connection, attempt, result)
        self._write("INSERT OR REPLACE", attempt, key, seed, source, result, environment)

    def wait_for(
        self,
        attempt: Attempt,
        key: VerdictKey,
        seed: int,
        source: bytes,
        result: ExerciseResult,
        environment: Environment,
    ) -> None:
        """Keep a file whose verdict is waited for, with a result that says so; within a transaction.

        Whoever reads the gradebook before it is judged sees that it is not, and no total without it. A
        verdict that is there stays until the new one takes its place.
        """
        assert result.status is Status.UNJUDGED
        self._write("INSERT OR IGNORE", attempt, key, seed, source, result, environment)

    def _write(
        self,
        insert: str,
        attempt: Attempt,
        key: VerdictKey,
        seed: int,
        source: bytes | None,
        result: ExerciseResult,
        environment: Environment,
    ) -> None:
        connection = self._connection
        if source is not None:
            connection.execute(
                "INSERT OR IGNORE INTO sources VALUES (?, ?)",
                (key.source, zlib.compress(source)),
            )
        connection.execute(
            f"{insert} INTO grades VALUES (:attempt, :exercise, :key, :source, :course,"
            " :grader, :seed, :status, :score, :max_score, :graded_at, :environment, :result)",
            {
                **msgspec.structs.asdict(key),
                "attempt": attempt.id,
                "exercise": result.name,
                "seed": seed,
                "status": result.status.value,
                "score": result.score,
                "max_score": result.max_score,
                "graded_at": _now(),
                "environment": _environment(connection, environment),
                "result": zlib.compress(msgspec.json.encode(result)),
            },
        )

    def _set_aside(
        self, connection: sqlite3.Connection, attempt: Attempt, result: ExerciseResult
    ) -> None:
        """Keep what is about to be replaced; within a revision the first verdict is the one to compare.

        Where a fault of ours had taken its place, it is the last verdict before that.
        """
        connection.execute(
            "INSERT OR IGNORE INTO replaced (revision, attempt, exercise, graded_at, result)"
            " SELECT ?, attempt, exercise, graded_at, result FROM grades"
            " WHERE attempt = ? AND exercise = ? AND status != ?",
            (self.revision, attempt.id, result.name, Status.UNJUDGED.value),
        )
        connection.execute(
            "INSERT OR IGNORE INTO replaced (revision, attempt, exercise, graded_at, result)"
            " SELECT :revision, last.attempt, last.exercise, last.graded_at, last.result"
            " FROM replaced AS last JOIN grades USING (attempt, exercise)"
            " WHERE last.attempt = :attempt AND last.exercise = :exercise AND status = :unjudged"
            " ORDER BY revision DESC LIMIT 1",
            {
                "revision": self.revision,
                "attempt": attempt.id,
                "exercise": result.name,
                "unjudged": Status.UNJUDGED.value,
            },
        )

    @property
    def revision(self) -> int:
        """The number of the grading that goes on, or of the last one."""
        return int(self.fact("revision", "0"))

    def begin(self, course: Course) -> None:
        """Begin a grading by this course; one that was interrupted goes on, with what it replaced."""
        self.set_fact("course", msgspec.json.encode(course.info()).decode())
        self.set_fact("title", course.title)
        self.set_fact("exercises", ",".join(exercise.id for exercise in course.exercises))
        if self.fact("finished", "yes") == "yes":
            self.set_fact("revision", str(self.revision + 1))
            self.set_fact("finished", "no")

    def finish(self, attention: tuple[Attention, ...]) -> None:
        """The grading is at its end: what the next one replaces is compared with this one."""
        self.set_fact("attention", msgspec.json.encode(attention).decode())
        self.set_fact("finished", "yes")

    @property
    def unfinished(self) -> str:
        """What to know before the gradebook is used while a grading goes on or was interrupted, or nothing."""
        if self.fact("finished", "yes") == "yes":
            return ""
        return (
            f"The last grading of {self.folder} is not at its end: who was not reached yet has no score "
            "here, or is missing. Let it end, or run `grade batch` again."
        )

    def attention(self) -> tuple[Attention, ...]:
        """What a person should look at, as the last grading said."""
        return msgspec.json.decode(self.fact("attention", "[]"), type=tuple[Attention, ...])

    def write_result(self, attempt: Attempt) -> None:
        """Write the result of an attempt that counts as JSON, whole or not at all."""
        if not attempt.counted:
            return
        entry = self._entry(attempt.id)
        path = self.folder / "results" / f"{safe_name(attempt.student)}.json"
        text = to_json(entry.result)
        if path.is_file() and path.read_bytes() == text:
            return
        draft = path.with_suffix(".part")
        with _writing(path):
            draft.write_bytes(text)
            draft.replace(path)

    # --- reading --------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """The counted attempt of every student, by student id, one at a time."""
        rows = self._connection.execute(
            "SELECT id FROM attempts WHERE counted = 1 ORDER BY student"
        ).fetchall()
        for (attempt,) in rows:
            if self._connection.execute(
                "SELECT 1 FROM grades WHERE attempt = ? LIMIT 1", (attempt,)
            ).fetchone():
                yield self._entry(attempt)

    def attempts(self) -> list[Attempt]:
        """Every attempt that has a verdict, by student."""
        rows = self._connection.execute(
            "SELECT id, student, number, counted FROM attempts WHERE EXISTS"
            " (SELECT 1 FROM grades WHERE attempt = attempts.id) ORDER BY student, number"
        )
        return [Attempt(row[0], row[1], row[2], bool(row[3])) for row in rows]

    def attempt_counts(self) -> dict[str, int]:
        """How many attempts each student made."""
        rows = self._connection.execute("SELECT student, count(*) FROM attempts GROUP BY student")
        return dict(rows.fetchall())

    def absent(self) -> list[Student]:
        """The students of the roster who handed in nothing."""
        rows = self._connection.execute(
            "SELECT id, name, email, ids FROM students"
            " WHERE id NOT IN (SELECT student FROM attempts) ORDER BY id"
        )
        return [_student(row) for row in rows]

    def sources(self, entry: Entry) -> dict[str, bytes]:
        """The files that an entry was graded from, by exercise."""
        row = self._connection.execute(
            "SELECT id FROM attempts WHERE student = ? AND number = ?",
            (entry.student.id, entry.attempt),
        ).fetchone()
        return self.sources_of(row[0]) if row else {}

    def sources_of(self, attempt: int) -> dict[str, bytes]:
        """The files of an attempt, by exercise."""
        rows = self._connection.execute(
            "SELECT exercise, deflated FROM grades JOIN sources ON sources.digest = grades.source"
            " WHERE attempt = ?",
            (attempt,),
        )
        return {exercise: zlib.decompress(deflated) for exercise, deflated in rows}

    def verdicts_of(self, attempt: int) -> dict[str, ExerciseResult]:
        """The verdicts on an attempt, by exercise."""
        rows = self._connection.execute(
            "SELECT exercise, result FROM grades WHERE attempt = ?", (attempt,)
        )
        return {exercise: _decode_exercise(result) for exercise, result in rows}

    def replaced(self) -> Iterator[Replaced]:
        """The verdicts of the present revision that differ from those before it, by student."""
        rows = self._connection.execute(
            "SELECT student, number, replaced.result, grades.result FROM replaced"
            " JOIN attempts ON attempts.id = replaced.attempt"
            " JOIN grades ON grades.attempt = replaced.attempt"
            " AND grades.exercise = replaced.exercise WHERE revision = ? ORDER BY student, number",
            (self.revision,),
        )
        for student, number, before, after in rows:
            yield Replaced(student, number, _decode_exercise(before), _decode_exercise(after))

    def _entry(self, attempt: int) -> Entry:
        row = self._connection.execute(
            "SELECT students.id, name, email, ids, number, submitted_at, late, origin, digest"
            " FROM attempts JOIN students ON students.id = student WHERE attempts.id = ?",
            (attempt,),
        ).fetchone()
        student = _student(row)
        return Entry(
            student=student,
            attempt=row[4],
            submitted_at=row[5],
            late=bool(row[6]),
            origin=row[7],
            result=self._result(attempt, SubmissionInfo(student.id, row[8])),
        )

    def _result(self, attempt: int, submission: SubmissionInfo) -> Result:
        rows = self._connection.execute(
            "SELECT result, graded_at, seed, environments.environment FROM grades"
            " JOIN environments ON environments.id = grades.environment WHERE attempt = ?",
            (attempt,),
        ).fetchall()
        order = {name: place for place, name in enumerate(self.fact("exercises").split(","))}
        exercises = sorted(
            (_decode_exercise(row[0]) for row in rows),
            key=lambda each: (order.get(each.name, len(order)), each.name),
        )
        return Result(
            course=self.course,
            submission=submission,
            score=round(sum(each.score for each in exercises), 2),
            max_score=round(sum(each.max_score for each in exercises), 2),
            seed=max(row[2] for row in rows),
            exercises=tuple(exercises),
            started_at=min(row[1] for row in rows),
            duration_seconds=round(sum(each.duration_seconds for each in exercises), 3),
            environment=_common([_decode_environment(row[3]) for row in rows]),
        )


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GraderError(
            f"{path} cannot be written: {error.strerror}. What was judged so far is kept; when there "
            "is room, and you may write there, run this again."
        ) from error


def _decode_exercise(deflated: bytes) -> ExerciseResult:
    return _from_json(zlib.decompress(deflated))


def _keep_student(connection: sqlite3.Connection, student: Student) -> None:
    connection.execute(
        "INSERT OR REPLACE INTO students VALUES (?, ?, ?, ?)",
        (student.id, student.name, student.email, msgspec.json.encode(student.ids).decode()),
    )


def _student(row: tuple[str, ...]) -> Student:
    ids = msgspec.json.decode(row[3], type=dict[str, str])
    return Student(id=row[0], name=row[1], email=row[2], ids=ids)


def _environment(connection: sqlite3.Connection, environment: Environment) -> int:
    text = msgspec.json.encode(environment).decode()
    connection.execute("INSERT OR IGNORE INTO environments (environment) VALUES (?)", (text,))
    row = connection.execute("SELECT id FROM environments WHERE environment = ?", (text,))
    return int(row.fetchone()[0])


def _common(environments: list[Environment]) -> Environment:
    """The environment of the last one judged, with the walls that held around every one of them.

    One that was settled without being run names no torch, and no walls were needed.
    """
    judged = [each for each in environments if each.torch]
    if not judged:
        return environments[0]
    walls = [w for w in judged[-1].isolation if all(w in each.isolation for each in judged)]
    return msgspec.structs.replace(judged[-1], isolation=tuple(walls))


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
