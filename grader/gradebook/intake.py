"""Intake of submissions into a gradebook: keep attempts, and choose the files to judge.

All attempts are kept, and the policy decides which of them are judged.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from grader import submissions
from grader.course.manifest import Course, Exercise
from grader.gradebook.book import Gradebook
from grader.gradebook.file_review import FileReview, JustRead
from grader.gradebook.requests import keep_requests
from grader.gradebook.review import Attention
from grader.gradebook.standing import needed, with_late_days
from grader.gradebook.verdict_key import source_digest
from grader.gradebook.work import SERVER, Attempt, Work
from grader.results import StudentInfo
from grader.submissions import ExerciseFile, State, read_attempt

# The origin of a request in a file beside the work.
_FILE = "a file"


class ToJudge(NamedTuple):
    """The files of one student that need a verdict, and notes on files that cannot get one.

    `is_undated`: a file counts only because it was found last, as times are unknown. `is_older`: the gradebook
    has a newer attempt than the download.
    """

    student: str
    files: list[tuple[Attempt, Exercise, ExerciseFile]]
    attention: tuple[Attention, ...] = ()
    is_undated: bool = False
    is_older: bool = False


class Intake:
    """Keeps attempts, and chooses the files of each student that need a verdict, for these exercises."""

    def __init__(self, book: Gradebook, course: Course, exercises: Sequence[Exercise]) -> None:
        self._book, self._course, self._exercises = book, course, exercises
        self._review = FileReview(book, course, exercises)

    def take_in(self, attempts: Sequence[submissions.Attempt], *, all_attempts: bool) -> ToJudge:
        """Keep a student's attempts, and return the files that may count, including earlier ones.

        Other members of the team may have handed some of them in. Call this within a transaction.
        """
        student = attempts[0].student
        read = self._register(attempts)
        before = [e for e in self._book.facts.attention if e.student == student.id]
        if not read.files:
            # Teammates handed in no file for an exercise of teams.
            self._book.keep_student(student)
            return ToJudge(student.id, [], tuple(before))
        work = self._book.work(student)
        wanted: dict[str, Collection[int]] = {
            e.id: read.files if all_attempts or self._is_idle(student, e, read.files) else ()
            for e in self._exercises
        }
        return ToJudge(
            student.id,
            self._chosen(work, wanted, read.files),
            tuple(self._review.listed(work, read, before)),
            is_undated=work.has_versions and not work.is_ordered,
            is_older=work.newest(read.files) != work.attempts[-1],
        )

    def in_gradebook(self, student: StudentInfo) -> ToJudge:
        """Return a student's files in the gradebook that have been judged or may count."""
        work = self._book.work(student)
        judged = {e.id: work.verdicts.get(e.id, {}).keys() for e in self._exercises}
        return ToJudge(student.id, self._chosen(work, judged, {}))

    def _register(self, attempts: Sequence[submissions.Attempt]) -> JustRead:
        """Read a student's attempts, and keep them with their regrade requests."""
        read = JustRead({}, [], set(), set(), set())
        for attempt in attempts:
            submission = read_attempt(attempt, self._course)
            is_whole = attempt.only is None
            if not (is_whole or submission.files):
                continue
            id_ = self._book.register(attempt, submission, whole=is_whole).id
            read.every.append((id_, submission.files))
            # The same files at the same time are one attempt; the student's own copy says more about them.
            if is_whole or (attempt.of_team and id_ not in read.own) or id_ not in read.files:
                read.files[id_] = submission.files
            if is_whole:
                read.own.add(id_)
            elif attempt.of_team:
                read.of_team.add(id_)
            if submission.requests:
                read.with_request.add(id_)
            at, requests = attempt.submitted_at, submission.requests
            keep_requests(self._book, attempt.student.id, requests, at, _FILE)
        return read

    def _chosen(
        self,
        work: Work,
        wanted: Mapping[str, Collection[int]],
        read: Mapping[int, Mapping[str, ExerciseFile]],
    ) -> list[tuple[Attempt, Exercise, ExerciseFile]]:
        """Return the files of wanted attempts and of attempts that may count; if there is none, the newest."""
        pairs: list[tuple[Attempt, Exercise]] = []
        # Compute the rules once for all exercises, which share the late days.
        rules = with_late_days(work, self._book.rules())
        rows = self._book.tables.digests_of(work.student.id)
        for exercise in self._exercises:
            ids = {attempt.id for attempt in needed(work, rules, exercise.id)}
            ids.update(wanted[exercise.id])
            with_file = [attempt for attempt, _ in work.sources(exercise.id) if attempt.id in ids]
            # A file that another member of the team shared says nothing about other exercises.
            has_row = rows.get(exercise.id, {})
            whole = [attempt for attempt in work.attempts if attempt.id in has_row]
            newest = (whole or work.attempts)[-1]
            # On a server, nobody hands in every exercise at once, so an exercise without a file is not missing.
            instead = [] if newest.origin == SERVER else [newest]
            pairs += [(attempt, exercise) for attempt in with_file or instead]
        # A file just read knows more about a missing source.
        files_of = {
            id_: {**self._book.files_of(id_), **read.get(id_, {})}
            for id_ in {attempt.id for attempt, _ in pairs}
        }
        return [
            (attempt, exercise, files_of[attempt.id].get(exercise.id) or _missing(exercise))
            for attempt, exercise in sorted(pairs, key=lambda pair: pair[0].number)
        ]

    def _is_idle(
        self,
        student: StudentInfo,
        exercise: Exercise,
        read: Mapping[int, Mapping[str, ExerciseFile]],
    ) -> bool:
        """Whether a file handed in for the team has no work, though it differs from the stub.

        Only its verdict shows that it has no work. Then an earlier file counts, which needs a verdict, too.
        """
        rules = self._book.rules()
        files = [files[exercise.id] for files in read.values() if exercise.id in files]
        stub = self._course.stub(exercise)
        return rules.is_shared(student, exercise.id) and any(
            source_digest(file) != rules.stubs.get(exercise.id)
            and file.state(stub) in (State.UNTOUCHED, State.EMPTY)
            for file in files
        )


def _missing(exercise: Exercise) -> ExerciseFile:
    return ExerciseFile(None, f"{exercise.file} is missing: hand it in under this name.")
