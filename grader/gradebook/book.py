"""Reading a gradebook: students, attempts and files, facts about the grading, and every verdict.

A row of `attempts` is one submission of one student, a row of `files` one file of it, a row of `grades` the
verdict on that file with the digests that it depends on; one that was replaced stands in `replaced`. Which of
them counts is computed when it is read (`standing.py`). It can be read while a grading writes to it. How a
verdict is kept is in `keeper.py`.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import msgspec

from grader.errors import SubmissionError
from grader.gradebook.cells import (
    read_attention,
    read_blank,
    read_correction,
    read_course,
    read_result,
    read_source,
    read_student,
    read_totals,
)
from grader.gradebook.corrections import Correction
from grader.gradebook.policy import Policy
from grader.gradebook.policy_file import read_policy
from grader.gradebook.review import Attention
from grader.gradebook.standing import ClassStanding
from grader.gradebook.tables import FILE, connected
from grader.gradebook.work import Attempt, Verdict, Work
from grader.results import CourseInfo, Entry, ExerciseResult, Result, Status, StudentInfo
from grader.submissions import ExerciseFile


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
        self._standing: tuple[int, ClassStanding] | None = None

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

    def seeds(self) -> tuple[int, ...]:
        """The seeds of the verdicts that are there, that of the newest one first."""
        rows = self._connection.execute(
            "SELECT seed FROM grades GROUP BY seed ORDER BY MAX(graded_at) DESC"
        )
        return tuple(int(seed) for (seed,) in rows)

    @property
    def assigned(self) -> tuple[str, ...]:
        """The exercises that alone are graded; none where it is the whole course."""
        return tuple(filter(None, self.fact("assigned").split(",")))

    @property
    def course(self) -> CourseInfo:
        """The course of the last grading."""
        return read_course(self.fact("course"))

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
        return read_attention(self.fact("attention", "[]"))

    # --- rules ----------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """The policy of the class, which may have no rules."""
        if not (text := self.fact("policy")):
            return Policy()
        return read_policy(text, self.chapters)

    @property
    def chapters(self) -> dict[str, str]:
        """The chapter of each exercise that was graded."""
        blank = self.blank
        exercises = blank.exercises if blank is not None else ()
        return {exercise.name: exercise.chapter for exercise in exercises}

    @property
    def blank(self) -> Result | None:
        """The result of a student who handed in nothing; None before the first grading."""
        text = self.fact("blank")
        return read_blank(text) if text else None

    def corrections(self) -> list[Correction]:
        """Every correction in the order in which they were made, also those that were undone."""
        rows = self._connection.execute("SELECT * FROM corrections ORDER BY id")
        return [read_correction(row) for row in rows]

    # --- students and attempts ------------------------------------------------------------------

    def attempts(self) -> list[Attempt]:
        """Every attempt, by student and number."""
        rows = self._connection.execute(
            "SELECT id, student, number, submitted_at, late, origin, digest FROM attempts"
            " ORDER BY student, number"
        )
        return [_attempt(row) for row in rows]

    def attempt_counts(self) -> dict[str, int]:
        """The number of attempts of each student."""
        rows = self._connection.execute("SELECT student, count(*) FROM attempts GROUP BY student")
        return dict(rows.fetchall())

    def students(self) -> list[StudentInfo]:
        """Every student, by id, also those who handed in nothing."""
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

    def work(self, student: StudentInfo) -> Work:
        """All that a student handed in, oldest first, with the points of every verdict."""
        rows = self._connection.execute(
            "SELECT id, student, number, submitted_at, late, origin, digest FROM attempts"
            " WHERE student = ? ORDER BY number",
            (student.id,),
        )
        attempts = [_attempt(row) for row in rows]
        if all(attempt.submitted_at for attempt in attempts):
            attempts.sort(key=lambda attempt: (attempt.submitted_at, attempt.number))
        files: dict[str, dict[int, str]] = {}
        verdicts: dict[str, dict[int, Verdict]] = {}
        for attempt in attempts:
            for exercise, source in self._connection.execute(
                "SELECT exercise, source FROM files WHERE attempt = ? AND source != ''",
                (attempt.id,),
            ):
                files.setdefault(exercise, {})[attempt.id] = source
            for exercise, status, score, worth in self._connection.execute(
                "SELECT exercise, status, score, max_score FROM grades WHERE attempt = ?",
                (attempt.id,),
            ):
                judged = None if status == Status.UNJUDGED.value else score
                verdicts.setdefault(exercise, {})[attempt.id] = Verdict(
                    judged, worth, status == Status.NOT_ATTEMPTED.value
                )
        return Work(student, tuple(attempts), files, verdicts)

    def files_of(self, attempt: int) -> dict[str, ExerciseFile]:
        """The files of an attempt, by exercise, or why there is none."""
        rows = self._connection.execute(
            "SELECT exercise, deflated, problem FROM files"
            " LEFT JOIN sources ON sources.digest = files.source WHERE attempt = ?",
            (attempt,),
        )
        return {
            exercise: ExerciseFile(None if deflated is None else read_source(deflated), problem)
            for exercise, deflated, problem in rows
        }

    def sources(self, entry: Entry) -> dict[str, bytes]:
        """The files that an entry was graded from, by exercise."""
        choices = self.standing.choices(self.work(entry.student))
        files = {id_: self.files_of(id_) for id_ in {each.attempt.id for each in choices.values()}}
        return {
            name: source
            for name, choice in choices.items()
            if choice.source and (source := files[choice.attempt.id][name].source) is not None
        }

    # --- verdicts -------------------------------------------------------------------------------

    @property
    def standing(self) -> ClassStanding:
        """What counts by the rules of this moment."""
        # It changes when another process wrote to the file; we ourselves forget it when it is time.
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if self._standing is None or self._standing[0] != version:
            self._standing = version, ClassStanding(self, self._connection)
        return self._standing[1]

    def entries(self) -> Iterator[Entry]:
        """What counts of every student, by student id, one at a time; also of who handed in nothing."""
        for student in self.students():
            if (entry := self.standing.entry(self.work(student))) is not None:
                yield entry

    def entry_of(self, student: str) -> Entry | None:
        """What counts of a student; None where there is no such one."""
        row = self._connection.execute(
            "SELECT id, name, email, ids FROM students WHERE id = ?", (student,)
        ).fetchone()
        return None if row is None else self.standing.entry(self.work(read_student(row)))

    def entry_before(self, student: str, replaced: Sequence[Replaced]) -> Entry | None:
        """What counted of a student before these verdicts of theirs were replaced, by the rules of today."""
        info = next((each for each in self.students() if each.id == student), None)
        if info is None:
            return None
        work = self.work(info)
        numbered = {attempt.number: attempt.id for attempt in work.attempts}
        instead = {}
        for each in replaced:
            was, attempt = each.before, numbered[each.attempt]
            instead[attempt, was.name] = was
            judged = None if was.status is Status.UNJUDGED else was.score
            is_untouched = was.status is Status.NOT_ATTEMPTED
            work.verdicts[was.name][attempt] = Verdict(judged, was.max_score, is_untouched)
        return ClassStanding(self, self._connection, instead).entry(work)

    def verdicts_of(self, attempt: int) -> dict[str, ExerciseResult]:
        """The verdicts on an attempt, by exercise."""
        rows = self._connection.execute(
            "SELECT exercise, result FROM grades WHERE attempt = ?", (attempt,)
        )
        return {exercise: read_result(result) for exercise, result in rows}

    def history(self, student: StudentInfo, least: int) -> dict[str, list[ExerciseResult]]:
        """The verdicts on a student's different files for an exercise, oldest first.

        Of those exercises alone of which there are `least` or more.
        """
        work, found = self.work(student), {}
        for exercise in work.files:
            first: dict[str, int] = {}
            for attempt, source in work.sources(exercise):
                first.setdefault(source, attempt.id)
            judged = [work.judged_as(exercise, each) for each in first.values()]
            verdicts = [self._verdict(each, exercise) for each in judged if each is not None]
            if len(verdicts) >= least:
                found[exercise] = [each for each in verdicts if each.status is not Status.UNJUDGED]
        return {name: verdicts for name, verdicts in found.items() if len(verdicts) >= least}

    def _verdict(self, attempt: int, exercise: str) -> ExerciseResult:
        (result,) = self._connection.execute(
            "SELECT result FROM grades WHERE attempt = ? AND exercise = ?", (attempt, exercise)
        ).fetchone()
        return read_result(result)

    def totals_before(self) -> dict[str, float]:
        """The points of the grading before the last one, by student; without those that were not final."""
        return read_totals(self.fact("totals before", "{}"))

    def dropped(self) -> dict[str, int]:
        """The number of verdicts on each exercise that the course of the last grading has no more.

        They are kept, and count in no total.
        """
        exercises = self.fact("exercises").split(",")
        rows = self._connection.execute("SELECT exercise, count(*) FROM grades GROUP BY exercise")
        return {exercise: count for exercise, count in rows if exercise not in exercises}

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


def _attempt(row: tuple[Any, ...]) -> Attempt:
    return Attempt(row[0], row[1], row[2], row[3], bool(row[4]), row[5], row[6])
