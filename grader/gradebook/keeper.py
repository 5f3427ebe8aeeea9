"""Writing to a gradebook, which one grading may do at a time.

What is written is on the disk (WAL, synced) before the next verdict is taken, so that a grading may be
killed at any moment. A verdict that is replaced moves to `replaced`.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from grader.course.manifest import Course
from grader.errors import GraderError
from grader.gradebook.book import Gradebook
from grader.gradebook.cells import (
    read_environment,
    read_result,
    read_student,
    written_environment,
    written_result,
    written_source,
    written_student,
)
from grader.gradebook.corrections import Correction
from grader.gradebook.policy_file import read_policy
from grader.gradebook.review import Attention
from grader.gradebook.tables import FILE, connected, only_writer
from grader.gradebook.verdict_key import VerdictKey, source_digest
from grader.gradebook.work import Attempt
from grader.results import Environment, ExerciseResult, Result, Status, StudentInfo, to_json
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

    def begin(self, course: Course, blank: Result | None = None, policy: str | None = None) -> bool:
        """Begin a grading by this course; one that was interrupted goes on, with what it replaced.

        `blank` is the result of who handed in nothing; a `policy` takes the place of the one there was.
        Returns whether the results of all students may be others now, those whom this grading does not
        come to included.
        """
        facts = {
            "course": msgspec.json.encode(course.info()).decode(),
            "title": course.title,
            "exercises": ",".join(exercise.id for exercise in course.exercises),
            "stubs": msgspec.json.encode(
                {
                    e.id: hashlib.sha256(course.stub(e).read_bytes()).hexdigest()
                    for e in course.exercises
                }
            ).decode(),
        }
        if blank is not None and not _alike(blank, self.blank):
            facts["blank"] = msgspec.json.encode(blank).decode()
        if policy is not None:
            facts["policy"] = policy
        is_other = any(self.fact(name) != value for name, value in facts.items())
        is_other = is_other or self.fact("finished") != "yes" or bool(self.fact("stale"))
        with self.transaction():
            for name, value in facts.items():
                self._set_fact(name, value)
            if self.fact("finished", "yes") == "yes":
                self._set_fact("revision", str(self.revision + 1))
                self._set_fact("totals before", self.fact("totals", "{}"))
                self._set_fact("finished", "no")
        return is_other

    def assign(self, course: Course) -> None:
        """Grade these exercises of the course from now on, and no others, as its assignment if it has one."""
        given = course.assignment
        with self.transaction():
            self._set_fact("assigned", ",".join(exercise.id for exercise in course.exercises))
            self._set_fact("assignment", given.id if given is not None else "")

    def finish(self, attention: tuple[Attention, ...]) -> None:
        """The grading is at its end: what the next one replaces is compared with this one."""
        totals = {each.id: self.standing.total(self.work(each)) for each in self.students()}
        final = {student: points for student, points in totals.items() if points is not None}
        with self.transaction():
            self._set_fact("totals", msgspec.json.encode(final).decode())
            self._set_fact("attention", msgspec.json.encode(attention).decode())
            self._set_fact("finished", "yes")

    def _set_fact(self, name: str, value: str) -> None:
        self._standing = None
        self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))

    # --- rules ----------------------------------------------------------------------------------

    def set_policy(self, text: str, file: str = "") -> None:
        """Count by this policy from now on, a TOML text; an empty one has no rules. No judge is asked.

        It comes from `file`, which stands against a policy beside the course from now on. The result of every
        student is written anew. Raises what `read_policy` raises, before anything is
        written.
        """
        read_policy(text)
        with self._changed_for(""):
            self._set_fact("policy", text)
            self._set_fact("policy_file", file)

    def correct(self, correction: Correction) -> Correction:
        """Keep a correction, which is returned with its number and, if it had none, the time of now.

        The results that it changes are written anew.
        """
        row = msgspec.to_builtins(correction) | {
            "id": None,
            "made_at": correction.made_at or _now(),
        }
        with self._changed_for(correction.student):
            cursor = self._connection.execute(
                "INSERT INTO corrections VALUES (:id, :student, :exercise, :test, :kind, :points,"
                " :reason, :comment, :author, :made_at, :judged, :undone_at, :undone_by)",
                row,
            )
        return msgspec.structs.replace(correction, id=cursor.lastrowid, made_at=row["made_at"])

    def undo(self, correction: Correction, author: str = "") -> None:
        """A correction holds no more; it stays, with who undid it and when."""
        with self._changed_for(correction.student):
            self._connection.execute(
                "UPDATE corrections SET undone_at = ?, undone_by = ? WHERE id = ? AND undone_at = ''",
                (_now(), author, correction.id),
            )

    @contextlib.contextmanager
    def _changed_for(self, student: str) -> Iterator[None]:
        """Change a rule for a student, or for all if none is named, and then the results that it changes.

        Killed in between, the next grading writes them.
        """
        with self.transaction():
            yield
            self._set_fact("stale", "yes")
        for each in [student] if student else [each.id for each in self.students()]:
            self.write_result(each)
        self.settled()

    def settled(self) -> None:
        """The results on the disk are what counts."""
        with self.transaction():
            self._set_fact("stale", "")

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

    def register(self, found: ClassAttempt, submission: Submission) -> Attempt:
        """The row of an attempt, which is the one that the same files of that time had before.

        Found again it is no other attempt, and gets no second verdict; a time that was not known is kept.
        Within a transaction.
        """
        student, digest = found.student.id, submission.info().digest
        self.keep_student(found.student)
        self._know_again(student, submission)
        times = {
            submitted_at: id_
            for id_, submitted_at in self._connection.execute(
                "SELECT id, submitted_at FROM attempts WHERE student = ? AND digest = ?"
                " ORDER BY submitted_at",
                (student, digest),
            )
        }
        known = times.get(found.submitted_at, times.get(""))
        if known is None and not found.submitted_at:
            known = next(reversed(times.values()), None)
        id_ = self._new_attempt(found, digest) if known is None else known
        if known is not None and (found.submitted_at or "" in times):
            self._connection.execute(
                "UPDATE attempts SET submitted_at = ?, late = ?, origin = ? WHERE id = ?",
                (found.submitted_at, found.late, found.origin, known),
            )
        self._keep_files(id_, submission)
        return next(each for each in self.work(found.student).attempts if each.id == id_)

    def _new_attempt(self, found: ClassAttempt, digest: str) -> int:
        cursor = self._connection.execute(
            "INSERT INTO attempts (student, number, digest, submitted_at, late, origin)"
            " SELECT :student, coalesce(max(number), 0) + 1, :digest, :submitted_at, :late, :origin"
            " FROM attempts WHERE student = :student",
            {
                "student": found.student.id,
                "digest": digest,
                "submitted_at": found.submitted_at,
                "late": found.late,
                "origin": found.origin,
            },
        )
        return int(cursor.lastrowid or 0)

    def _keep_files(self, attempt: int, submission: Submission) -> None:
        for exercise, file in submission.files.items():
            source = source_digest(file)
            cursor = self._connection.execute(
                "INSERT INTO files VALUES (:attempt, :exercise, :source, :problem)"
                " ON CONFLICT (attempt, exercise) DO UPDATE SET source = :source, problem = :problem"
                " WHERE source != :source OR problem != :problem",
                {
                    "attempt": attempt,
                    "exercise": exercise,
                    "source": source,
                    "problem": file.problem,
                },
            )
            if cursor.rowcount and file.source is not None and not self._has_source(source):
                self._connection.execute(
                    "INSERT INTO sources VALUES (?, ?)", (source, written_source(file.source))
                )

    def _has_source(self, digest: str) -> bool:
        row = self._connection.execute("SELECT 1 FROM sources WHERE digest = ?", (digest,))
        return row.fetchone() is not None

    def _know_again(self, student: str, submission: Submission) -> None:
        """Give an attempt its digest of today, if it is of these files and the course dropped exercises.

        A file for an exercise that is new in the course makes an attempt of its own.
        """
        digest = submission.info().digest
        digests = {exercise: source_digest(file) for exercise, file in submission.files.items()}
        attempts: dict[str, dict[str, str]] = {}
        for of_attempt, exercise, source in self._connection.execute(
            "SELECT digest, exercise, source FROM attempts JOIN files ON attempt = attempts.id"
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
        result: ExerciseResult,
        environment: Environment,
        *,
        waited_for: bool = False,
    ) -> None:
        """Keep a verdict on a file of an attempt; within a transaction.

        `waited_for`: the result says that there is no verdict yet. A reader sees until then that it is not
        judged, and no total without it. A verdict that is there stays until the new one takes its place.
        """
        if not waited_for:
            self._set_aside(attempt, result.name)
        insert = "INSERT OR IGNORE" if waited_for else "INSERT OR REPLACE"
        self._connection.execute(
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

    def reword(self, attempt: int, result: ExerciseResult) -> None:
        """Replace the words of a verdict, whose outcomes and points stay; within a transaction."""
        self._standing = None
        self._connection.execute(
            "UPDATE grades SET result = ? WHERE attempt = ? AND exercise = ?",
            (written_result(result), attempt, result.name),
        )

    def _environment(self, environment: Environment) -> int:
        """The number of an environment, which most verdicts share."""
        text, connection = written_environment(environment), self._connection
        connection.execute("INSERT OR IGNORE INTO environments (environment) VALUES (?)", (text,))
        row = connection.execute("SELECT id FROM environments WHERE environment = ?", (text,))
        return int(row.fetchone()[0])

    def _set_aside(self, attempt: Attempt, exercise: str) -> None:
        """Keep what is about to be replaced; within a revision the first verdict is the one to compare.

        Where a fault of the grader had taken its place, it is the last verdict before that.
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

    def write_result(self, student: str) -> None:
        """Write the result that counts of a student as JSON, whole or not at all."""
        if (entry := self.entry_of(student)) is None:
            return
        path = self.folder / "results" / f"{safe_name(student)}.json"
        text = to_json(entry.result)
        if path.is_file() and path.read_bytes() == text:
            return
        draft = path.with_suffix(".part")
        with _writing(path):
            draft.write_bytes(text)
            draft.replace(path)


def _alike(blank: Result, before: Result | None) -> bool:
    """Whether two blank results are equal except for the start time."""
    return before is not None and blank == msgspec.structs.replace(
        before, started_at=blank.started_at
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


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
