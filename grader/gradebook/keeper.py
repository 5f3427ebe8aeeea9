"""Writing to a gradebook, which one grading may do at a time.

What is written is on the disk (WAL, synced) before the next verdict is taken, so that a grading may be
killed at any moment. A verdict that is replaced moves to `replaced`.
"""

from __future__ import annotations

import contextlib
import datetime
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from grader.course.manifest import Course
from grader.errors import GraderError
from grader.gradebook.book import (
    Attempt,
    Gradebook,
    read_environment,
    read_result,
    read_student,
    written_environment,
    written_result,
    written_student,
)
from grader.gradebook.review import Attention
from grader.gradebook.tables import FILE, connected, only_writer
from grader.gradebook.verdict_key import VerdictKey, source_digest
from grader.results import Environment, ExerciseResult, Status, StudentInfo, to_json
from grader.submissions import ClassAttempt, Submission, safe_name


class Keeper(Gradebook):
    """The gradebook of one RESULTS folder while a grading writes to it; open it with `Keeper.open`."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path) -> Iterator[Self]:
        """Open the gradebook in a folder to read and to write it; made where there is none.

        Raises GraderError if it is damaged, was written by a newer grader, another grading writes to
        it, or nothing can be written there.
        """
        with _writing(folder):
            (folder / "results").mkdir(parents=True, exist_ok=True)
        with only_writer(folder), connected(folder / FILE, create=True) as connection:
            yield cls(folder, connection)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All that is kept within is on the disk together when this ends, or nothing of it."""
        with self._connection:
            yield

    # --- the grading ----------------------------------------------------------------------------

    def begin(self, course: Course) -> None:
        """Begin a grading by this course; one that was interrupted goes on, with what it replaced."""
        self._set_fact("course", msgspec.json.encode(course.info()).decode())
        self._set_fact("title", course.title)
        self._set_fact("exercises", ",".join(exercise.id for exercise in course.exercises))
        if self.fact("finished", "yes") == "yes":
            self._set_fact("revision", str(self.revision + 1))
            self._set_fact("finished", "no")

    def assign(self, course: Course) -> None:
        """Grade these exercises of the course from now on, and no others."""
        self._set_fact("assigned", ",".join(exercise.id for exercise in course.exercises))

    def finish(self, attention: tuple[Attention, ...]) -> None:
        """The grading is at its end: what the next one replaces is compared with this one."""
        self._set_fact("attention", msgspec.json.encode(attention).decode())
        self._set_fact("finished", "yes")

    def _set_fact(self, name: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
        self._connection.commit()

    # --- students and attempts ------------------------------------------------------------------

    def keep_student(self, student: StudentInfo) -> None:
        """Know a student, also one who handed in nothing; within a transaction.

        What a roster said before stays where nothing is said now.
        """
        row = self._connection.execute(
            "SELECT id, name, email, ids FROM students WHERE id = ?", (student.id,)
        ).fetchone()
        if row is not None:
            before = read_student(row)
            student = StudentInfo(
                id=student.id,
                name=student.name or before.name,
                email=student.email or before.email,
                ids={**before.ids, **student.ids},
            )
        self._connection.execute(
            "INSERT OR REPLACE INTO students VALUES (?, ?, ?, ?)", written_student(student)
        )

    def register(self, found: ClassAttempt, submission: Submission, *, counted: bool) -> Attempt:
        """The row of an attempt, which is the one that the student's same files had before.

        The same files handed in again get no second verdict; but that attempt counts again. Within a
        transaction.
        """
        student, digest = found.student, submission.info().digest
        connection = self._connection
        self.keep_student(student)
        self._know_again(student.id, submission)
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

    def _know_again(self, student: str, submission: Submission) -> None:
        """Give an attempt its digest of today, if it is of these files and the course dropped exercises.

        A file for an exercise that is new in the course makes an attempt of its own.
        """
        digest = submission.info().digest
        digests = {exercise: source_digest(file) for exercise, file in submission.files.items()}
        attempts: dict[str, dict[str, str]] = {}
        for of_attempt, exercise, source in self._connection.execute(
            "SELECT digest, exercise, source FROM attempts JOIN grades ON attempt = attempts.id"
            " WHERE student = ? ORDER BY number DESC",
            (student,),
        ):
            attempts.setdefault(of_attempt, {})[exercise] = source
        if digest in attempts:
            return
        for before, sources in attempts.items():
            if all(sources.get(exercise, "") == source for exercise, source in digests.items()):
                self._connection.execute(
                    "UPDATE OR IGNORE attempts SET digest = ? WHERE student = ? AND digest = ?",
                    (digest, student, before),
                )
                return

    # --- verdicts -------------------------------------------------------------------------------

    def verdict(self, key: str) -> tuple[ExerciseResult, Environment] | None:
        """A verdict on the same file by the same suite and grader, of any student."""
        row = self._connection.execute(
            "SELECT result, environments.environment FROM grades"
            " JOIN environments ON environments.id = grades.environment"
            " WHERE key = ? AND status != ? LIMIT 1",
            (key, Status.UNJUDGED.value),
        ).fetchone()
        return None if row is None else (read_result(row[0]), read_environment(row[1]))

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
        *,
        waited_for: bool = False,
    ) -> None:
        """Keep a verdict with the file that it is about; within a transaction.

        `waited_for`: the result says that there is no verdict yet. A reader sees until then that it is not
        judged, and no total without it. A verdict that is there stays until the new one takes its place.
        """
        if not waited_for:
            self._set_aside(attempt, result.name)
        connection = self._connection
        if source is not None:
            connection.execute(
                "INSERT OR IGNORE INTO sources VALUES (?, ?)",
                (key.source, zlib.compress(source)),
            )
        insert = "INSERT OR IGNORE" if waited_for else "INSERT OR REPLACE"
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
                "environment": self._environment(environment),
                "result": written_result(result),
            },
        )

    def _environment(self, environment: Environment) -> int:
        """The number of an environment, which most verdicts share."""
        text, connection = written_environment(environment), self._connection
        connection.execute("INSERT OR IGNORE INTO environments (environment) VALUES (?)", (text,))
        row = connection.execute("SELECT id FROM environments WHERE environment = ?", (text,))
        return int(row.fetchone()[0])

    def _set_aside(self, attempt: Attempt, exercise: str) -> None:
        """Keep what is about to be replaced; within a revision the first verdict is the one to compare.

        Where a fault of ours had taken its place, it is the last verdict before that.
        """
        self._connection.execute(
            "INSERT OR IGNORE INTO replaced (revision, attempt, exercise, graded_at, result)"
            " SELECT ?, attempt, exercise, graded_at, result FROM grades"
            " WHERE attempt = ? AND exercise = ? AND status != ?",
            (self.revision, attempt.id, exercise, Status.UNJUDGED.value),
        )
        self._connection.execute(
            "INSERT OR IGNORE INTO replaced (revision, attempt, exercise, graded_at, result)"
            " SELECT :revision, last.attempt, last.exercise, last.graded_at, last.result"
            " FROM replaced AS last JOIN grades USING (attempt, exercise)"
            " WHERE last.attempt = :attempt AND last.exercise = :exercise AND status = :unjudged"
            " ORDER BY revision DESC LIMIT 1",
            {
                "revision": self.revision,
                "attempt": attempt.id,
                "exercise": exercise,
                "unjudged": Status.UNJUDGED.value,
            },
        )

    def write_result(self, attempt: Attempt) -> None:
        """Write the result of an attempt that counts as JSON, whole or not at all."""
        if not attempt.counted:
            return
        entry = self.entry(attempt.id)
        path = self.folder / "results" / f"{safe_name(attempt.student)}.json"
        text = to_json(entry.result)
        if path.is_file() and path.read_bytes() == text:
            return
        draft = path.with_suffix(".part")
        with _writing(path):
            draft.write_bytes(text)
            draft.replace(path)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise GraderError(
            f"{path} cannot be written: {error.strerror}. What was judged so far is kept; when there "
            "is room, and you may write there, run this again."
        ) from error


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
