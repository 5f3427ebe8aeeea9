"""Reading a gradebook: students, attempts and files, facts about the grading, and every verdict.

A row of `attempts` is one submission of one student, a row of `grades` one exercise of it with the
digests that the verdict depends on; a verdict that was replaced stands in `replaced`. It can be read while
a grading writes to it. How a verdict is kept is in `keeper.py`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.review import Attention
from grader.gradebook.tables import FILE, connected
from grader.judge.scoring import sum_of
from grader.results import (
    CourseInfo,
    Entry,
    Environment,
    ExerciseResult,
    Result,
    StudentInfo,
    SubmissionInfo,
)

T = TypeVar("T")


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
    def open(cls, folder: Path) -> Iterator[Self]:
        """Open the gradebook in a folder to read it.

        Raises SubmissionError where there is none, GraderError if it is damaged or was written by a
        newer grader.
        """
        file = folder / FILE
        if not file.is_file():
            raise SubmissionError(
                f"There is no gradebook in {folder}: name the folder that `grade batch -o` wrote."
            )
        with connected(file, create=False) as connection:
            yield cls(folder, connection)

    # --- the grading ----------------------------------------------------------------------------

    def fact(self, name: str, default: str = "") -> str:
        """A fact about the whole gradebook, such as `title`."""
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    @property
    def assigned(self) -> tuple[str, ...]:
        """The exercises that alone are graded; none where it is the whole course."""
        return tuple(filter(None, self.fact("assigned").split(",")))

    @property
    def course(self) -> CourseInfo:
        """The course of the last grading."""
        return _decoded(_course_of, self.fact("course"))

    @property
    def revision(self) -> int:
        """The number of the grading that goes on, or of the last one."""
        return int(self.fact("revision", "0"))

    @property
    def unfinished(self) -> str:
        """A warning while a grading goes on or after it was interrupted, else empty."""
        if self.fact("finished", "yes") == "yes":
            return ""
        return (
            f"The last grading of {self.folder} is not at its end: who was not reached yet has no score "
            "here, or is missing. Let it end, or run `grade batch` again."
        )

    def attention(self) -> tuple[Attention, ...]:
        """Entries of the last grading that a person should look at."""
        return _decoded(_attention_of, self.fact("attention", "[]"))

    # --- students and attempts ------------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        """Every attempt that has a verdict on an exercise of the course, by student."""
        rows = self._connection.execute(
            "SELECT id, student, number, counted FROM attempts WHERE EXISTS"
            " (SELECT 1 FROM standing WHERE attempt = attempts.id) ORDER BY student, number"
        )
        return [Attempt(row[0], row[1], row[2], bool(row[3])) for row in rows]

    def attempt_counts(self) -> dict[str, int]:
        """The number of attempts of each student."""
        rows = self._connection.execute("SELECT student, count(*) FROM attempts GROUP BY student")
        return dict(rows.fetchall())

    def students(self) -> list[StudentInfo]:
        """Every student, by id."""
        rows = self._connection.execute("SELECT id, name, email, ids FROM students ORDER BY id")
        return [read_student(row) for row in rows]

    def names(self) -> dict[str, str]:
        """The name of each student, by id; without those who have none, or no other."""
        rows = self._connection.execute("SELECT id, name FROM students WHERE name NOT IN ('', id)")
        return dict(rows.fetchall())

    def absent(self) -> list[StudentInfo]:
        """The students of the roster who handed in nothing."""
        rows = self._connection.execute(
            "SELECT id, name, email, ids FROM students"
            " WHERE id NOT IN (SELECT student FROM attempts) ORDER BY id"
        )
        return [read_student(row) for row in rows]

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
            "SELECT exercise, deflated FROM standing JOIN sources ON sources.digest = standing.source"
            " WHERE attempt = ?",
            (attempt,),
        )
        return {exercise: _decoded(zlib.decompress, deflated) for exercise, deflated in rows}

    # --- verdicts -------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        """The counted attempt of every student, by student id, one at a time."""
        for attempt in self.attempts():
            if attempt.counted:
                yield self.entry(attempt.id)

    def entry_of(self, student: str) -> Entry | None:
        """The counted attempt of a student; None where there is no verdict."""
        for attempt in self.attempts():
            if attempt.student == student and attempt.counted:
                return self.entry(attempt.id)
        return None

    def verdicts_of(self, attempt: int) -> dict[str, ExerciseResult]:
        """The verdicts on an attempt, by exercise."""
        rows = self._connection.execute(
            "SELECT exercise, result FROM grades WHERE attempt = ?", (attempt,)
        )
        return {exercise: read_result(result) for exercise, result in rows}

    def dropped(self) -> dict[str, int]:
        """The number of verdicts on each exercise that the course of the last grading has no more.

        They are kept, and count in no total.
        """
        rows = self._connection.execute(
            "SELECT exercise, count(*) FROM grades WHERE exercise NOT IN"
            " (SELECT exercise FROM standing) GROUP BY exercise"
        )
        return dict(rows.fetchall())

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
            yield Replaced(student, number, read_result(before), read_result(after))

    def entry(self, attempt: int) -> Entry:
        """An attempt that has a verdict, with its result."""
        row = self._connection.execute(
            "SELECT students.id, name, email, ids, number, submitted_at, late, origin, digest"
            " FROM attempts JOIN students ON students.id = student WHERE attempts.id = ?",
            (attempt,),
        ).fetchone()
        student = read_student(row)
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
            "SELECT result, graded_at, seed, environments.environment FROM standing"
            " JOIN environments ON environments.id = standing.environment WHERE attempt = ?",
            (attempt,),
        ).fetchall()
        order = {name: place for place, name in enumerate(self.fact("exercises").split(","))}
        exercises = sorted(
            (read_result(row[0]) for row in rows),
            key=lambda result: (order.get(result.name, len(order)), result.name),
        )
        score, max_score = sum_of(exercises)
        return Result(
            course=self.course,
            submission=submission,
            score=score,
            max_score=max_score,
            seed=max(row[2] for row in rows),
            exercises=tuple(exercises),
            started_at=min(row[1] for row in rows),
            duration_seconds=round(sum(result.duration_seconds for result in exercises), 3),
            environment=_common([read_environment(row[3]) for row in rows]),
        )


def _common(environments: list[Environment]) -> Environment:
    """The environment of the last one judged, with the walls that held around every one of them.

    One that was settled without being run names no torch, and no walls were needed.
    """
    judged = [environment for environment in environments if environment.torch]
    if not judged:
        return environments[0]
    common = set.intersection(*(set(environment.isolation) for environment in judged))
    walls = tuple(wall for wall in judged[-1].isolation if wall in common)
    return msgspec.structs.replace(judged[-1], isolation=walls)


_course_of = msgspec.json.Decoder(CourseInfo).decode
_attention_of = msgspec.json.Decoder(tuple[Attention, ...]).decode
_result_of = msgspec.json.Decoder(ExerciseResult).decode
_environment_of = msgspec.json.Decoder(Environment).decode
_ids_of = msgspec.json.Decoder(dict[str, str]).decode


def _decoded(decode: Callable[[Any], T], cell: Any) -> T:
    """The value of a cell; a damaged one is an error of the database, as `connected` tells it."""
    try:
        return decode(cell)
    except (zlib.error, msgspec.DecodeError, UnicodeError, TypeError) as error:
        raise sqlite3.DatabaseError(f"a value in it cannot be read ({error})") from error


def written_result(result: ExerciseResult) -> bytes:
    """A result as it stands in `grades.result` and `replaced.result`."""
    return zlib.compress(msgspec.json.encode(result))


def read_result(deflated: bytes) -> ExerciseResult:
    """The result that was written like this."""
    return _decoded(_result_of, _decoded(zlib.decompress, deflated))


def written_environment(environment: Environment) -> str:
    """An environment as it stands in `environments`."""
    return msgspec.json.encode(environment).decode()


def read_environment(text: str) -> Environment:
    """The environment that was written like this."""
    return _decoded(_environment_of, text)


def written_student(student: StudentInfo) -> tuple[str, str, str, str]:
    """A row of `students`: id, name, email, ids."""
    return student.id, student.name, student.email, msgspec.json.encode(student.ids).decode()


def read_student(row: tuple[Any, ...]) -> StudentInfo:
    """The student of a row that begins like one of `students`."""
    return StudentInfo(id=row[0], name=row[1], email=row[2], ids=_decoded(_ids_of, row[3]))
