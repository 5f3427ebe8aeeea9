"""The files of a student that need a verdict: of each exercise those that may count, and no others.

What was handed in is kept in the gradebook first, all of it; then the policy says which attempts it needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from grader.course.manifest import Course, Exercise
from grader.gradebook.keeper import Keeper
from grader.gradebook.requests import keep_requests
from grader.gradebook.review import Attention, nothing_found, passed_over
from grader.gradebook.standing import needed
from grader.gradebook.work import Attempt, Work
from grader.results import StudentInfo
from grader.submissions import ClassAttempt, ExerciseFile, read_attempt

# How a request came that was handed in beside the work.
_FILE = "a file"


class ToJudge(NamedTuple):
    """The files of one student that need a verdict, and what to look at of those that can have none.

    `is_undated` where one of several files counts for being found last, for want of a time; `is_older` where
    the gradebook has a newer attempt than the download.
    """

    student: str
    files: list[tuple[Attempt, Exercise, ExerciseFile]]
    attention: tuple[Attention, ...] = ()
    is_undated: bool = False
    is_older: bool = False


class Asking:
    """What to ask about each student of a class, by the exercises that are graded."""

    def __init__(self, keeper: Keeper, course: Course, exercises: Sequence[Exercise]) -> None:
        self._keeper, self._book = keeper, keeper.book
        self._course, self._exercises = course, exercises

    def handed_in(self, found: Sequence[ClassAttempt], *, all_attempts: bool) -> ToJudge:
        """Keep what one student handed in, and ask what may count of it and of what was there before.

        Within a transaction.
        """
        student = found[0].student
        without: dict[int, dict[str, ExerciseFile]] = {}
        asking: set[int] = set()
        for each in found:
            submission = read_attempt(each, self._course)
            # The sources are in the gradebook from here on.
            attempt = self._keeper.register(each, submission).id
            without[attempt] = {
                name: file for name, file in submission.files.items() if file.source is None
            }
            asking |= {attempt} if submission.requests else set()
            asked, at = submission.requests, each.submitted_at
            keep_requests(self._keeper.book.store, student.id, asked, at, _FILE)
        work = self._book.work(student)
        wanted = without.keys() if all_attempts else ()
        files = self._files(work, {each.id: wanted for each in self._exercises}, without)
        newest = next(each for each in reversed(work.attempts) if each.id in without)
        return ToJudge(
            student.id,
            files,
            self._attention(
                student.id, newest, files, without[newest.id], asks=newest.id in asking
            ),
            is_undated=work.has_versions and not work.is_dated,
            is_older=newest != work.attempts[-1],
        )

    def kept(self, student: StudentInfo) -> ToJudge:
        """Ask again what the gradebook has of a student: what was judged, and what may count."""
        work = self._book.work(student)
        judged = {each.id: work.verdicts.get(each.id, {}).keys() for each in self._exercises}
        return ToJudge(student.id, self._files(work, judged, {}))

    def _files(
        self,
        work: Work,
        wanted: Mapping[str, Collection[int]],
        without: Mapping[int, Mapping[str, ExerciseFile]],
    ) -> list[tuple[Attempt, Exercise, ExerciseFile]]:
        """The files of the wanted attempts and of those that may count; where there is none, the newest."""
        pairs: list[tuple[Attempt, Exercise]] = []
        for exercise in self._exercises:
            asked = {each.id for each in needed(work, self._book.rules, exercise.id)}
            asked.update(wanted[exercise.id])
            with_file = [each for each, _ in work.sources(exercise.id) if each.id in asked]
            pairs += [(attempt, exercise) for attempt in with_file or [work.attempts[-1]]]
        kept = {attempt.id: self._book.files_of(attempt.id) for attempt, _ in pairs}
        # The file that was read just now knows more of why there is none.
        kept = {attempt: {**files, **without.get(attempt, {})} for attempt, files in kept.items()}
        return [
            (attempt, exercise, kept[attempt.id].get(exercise.id) or _missing(exercise))
            for attempt, exercise in sorted(pairs, key=lambda pair: pair[0].number)
        ]

    def _attention(
        self,
        student: str,
        newest: Attempt,
        asked: Sequence[tuple[Attempt, Exercise, ExerciseFile]],
        without: Mapping[str, ExerciseFile],
        *,
        asks: bool,
    ) -> tuple[Attention, ...]:
        """What to look at of the newest attempt here, `without` files for these exercises.

        One that only `asks` for a regrade needs none.
        """
        entries: list[Attention] = []
        if len(without) == len(self._course.exercises) and not asks:
            entries += nothing_found(student, self._exercises, without)
        answered = {exercise.id for attempt, exercise, _ in asked if attempt.id == newest.id}
        for exercise in self._exercises:
            if exercise.id in without and exercise.id not in answered:
                entries += passed_over(student, exercise, without[exercise.id])
        return tuple(entries)


def _missing(exercise: Exercise) -> ExerciseFile:
    return ExerciseFile(None, f"{exercise.file} is missing: hand it in under this name.")
