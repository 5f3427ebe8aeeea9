"""The desk of staff: changes of points, extensions, marks and answers to requests, each kept before it returns.

Staff change only what they have read: a change names the state that was `seen`, and is refused if it is another
now. It belongs to the `Desk`, and is called by the same thread.
"""

from __future__ import annotations

import contextlib
import datetime
import time
from collections.abc import Iterator, Sequence
from typing import Any

from grader.course.manifest import Exercise
from grader.errors import SubmissionError
from grader.gradebook import Gradebook, extending, marking, queue
from grader.gradebook.adjusting import (
    class_state_of,
    corrections_about,
    corrections_of,
    exercise_named,
    new_correction,
    released_mates,
    state_of,
    with_mates,
)
from grader.gradebook.anonymous import student_of
from grader.gradebook.corrections import Correction
from grader.gradebook.facts import Remarks
from grader.gradebook.queue import JobState
from grader.gradebook.requests import answer
from grader.gradebook.standing import needed, with_late_days
from grader.results import StudentInfo
from grader.serve.http import NO_REQUEST, NO_STUDENT, Refusal
from grader.serve.roles import Asker
from grader.text import clean


class StaffDesk:
    """Writes the changes of staff to the gradebook; `exercises` are those that are judged."""

    def __init__(self, book: Gradebook, exercises: Sequence[Exercise]) -> None:
        self._book, self._exercises = book, exercises

    def answer(self, number: int, text: str, asker: Asker) -> None:
        """Answer a regrade request; raises Refusal if there is none, or the answer is empty."""
        request = next((r for r in self._book.requests() if r.number == number), None)
        self._reached(asker, "" if request is None else request.student, NO_REQUEST)
        assert request is not None
        with _refusing():
            answer(self._book, request, text, asker.name)

    def adjust(
        self, asker: Asker, student: str, exercise: str, seen: str, **change: Any
    ) -> list[str]:
        """Change the points of a student, with the parameters of `new_correction`.

        A release counts for others of the team with this file, too, if the asker has access to them; returns
        their ids. The change is on the disk when this returns. Raises Refusal if a person or a judge changed
        something since the state that was `seen`, or if the change is not possible.
        """
        self._reached(asker, student, NO_STUDENT)
        with _refusing():
            blank = exercise_named(self._book, exercise)
            self._refuse_changed(student, exercise, seen)
            correction = new_correction(self._book, student, blank, author=asker.name, **change)
            mates = (
                released_mates(self._book, student, exercise, asker.sees)
                if correction.release
                else []
            )
            self._book.correct(*with_mates(self._book, correction, mates))
        return mates

    def take_back(self, asker: Asker, student: str, exercise: str, seen: str, number: int) -> None:
        """Remove the correction with this number, counted from 0 in the state that was `seen`.

        Raises Refusal as `adjust` does, and if the student has no correction with this number.
        """
        self._reached(asker, student, NO_STUDENT)
        self._refuse_changed(student, exercise, seen)
        found = corrections_about(self._book, student, exercise)[number : number + 1]
        # A correction for the class changes others' points, too.
        if not found or found[0][1].student != student:
            raise Refusal(422, "There is no such change of points.")
        with _refusing():
            self._book.correct(replacing=(found[0][0],))

    def adjust_class(self, asker: Asker, exercise: str, seen: str, **change: Any) -> Correction:
        """Change the points of the whole class, as `adjust` does for a student; return the correction."""
        with _refusing():
            blank = exercise_named(self._book, exercise)
            self._refuse_changed_class(exercise, seen)
            correction = new_correction(self._book, "", blank, author=asker.name, **change)
            self._book.correct(correction)
        return correction

    def take_back_of_class(self, exercise: str, seen: str, test: str) -> Correction:
        """Remove and return the newest correction of the class for an exercise, or the newest for its `test`.

        Raises Refusal as `adjust_class` does, and if there is no such correction.
        """
        with _refusing():
            exercise_named(self._book, exercise)
            self._refuse_changed_class(exercise, seen)
            if not (found := corrections_of(self._book, "", exercise, test)):
                about = f" about {clean(test, 200)}" if test else ""
                raise SubmissionError(
                    f"There is no correction of the whole class for {exercise}{about} to take back."
                )
            place, correction = found[-1]
            self._book.correct(replacing=(place,))
        return correction

    def _refuse_changed_class(self, exercise: str, seen: str) -> None:
        if class_state_of(self._book, exercise) != seen:
            raise Refusal(
                409, "Nothing was changed: somebody else corrected the class since you looked."
            )

    def extend(
        self,
        asker: Asker,
        student: str,
        name: str,
        seen: str,
        *,
        until: datetime.datetime,
        reason: str,
    ) -> None:
        """Give a student more time for an exercise or an assignment, or with an empty name for all exercises.

        The extension is on the disk when this returns. Raises Refusal if extensions or due times have changed
        since the state that was `seen`, or if the extension is not possible.
        """
        info = self._reached(asker, student, NO_STUDENT)
        with _refusing():
            exercises = extending.exercises_named(self._book, name)
            self._refuse_extended(info, seen)
            extension = extending.new_extension(
                self._book, info, exercises, until=until, reason=reason, author=asker.name
            )
            self._book.extend(extension)
        self._queue_unjudged(info)

    def take_extension_back(self, asker: Asker, student: str, seen: str, number: int) -> None:
        """Remove a student's extension with this number, counted from 0 in the state that was `seen`.

        Raises Refusal as `extend` does, and if there is no extension with this number.
        """
        info = self._reached(asker, student, NO_STUDENT)
        self._refuse_extended(info, seen)
        found = extending.extensions_of(self._book, student)[number : number + 1]
        if not found:
            raise Refusal(422, "There is no such extension.")
        with _refusing():
            self._book.extend(removing=(found[0][0],))
        self._queue_unjudged(info)

    def _refuse_extended(self, student: StudentInfo, seen: str) -> None:
        if extending.state_of(self._book, student) != seen:
            raise Refusal(
                409,
                "Nothing was changed: somebody else changed an extension, or the due times changed, since you "
                "looked.",
            )

    def _queue_unjudged(self, student: StudentInfo) -> None:
        """Queue files that count by the current due times, but were replaced before they were judged."""
        book, now = self._book, time.time()
        with book.transaction():
            work = book.work(student)
            rules = with_late_days(work, book.rules())
            for exercise in self._exercises:
                for attempt in needed(work, rules, exercise.id):
                    if work.judged_as(exercise.id, attempt.id) is None:
                        queue.queue_job(book, attempt.id, exercise.id, JobState.WAITING, now)

    def _refuse_changed(self, student: str, exercise: str, seen: str) -> None:
        if state_of(self._book, student, exercise) != seen:
            raise Refusal(
                409,
                "Nothing was changed: somebody else changed the points, or a newer verdict came in, since you "
                "looked.",
            )

    def keep_remarks(
        self, asker: Asker, exercise: str, name: str, seen: str, remarks: Remarks
    ) -> str:
        """Keep the remarks given so far about a file, synced when this returns; return the file's new state.

        The file is named by the pseudonym of its student. Raises Refusal if somebody else changed something
        since the state that was `seen`, or if there is no such file.
        """
        file = self._to_mark(asker, exercise, name)
        self._refuse_marked(file, seen)
        if remarks != marking.remarks_of(self._book, file):
            marking.keep_draft(self._book, file, remarks)
        return marking.state_of(self._book, file)

    def mark(
        self,
        asker: Asker,
        rubric: marking.Rubric,
        exercise: str,
        name: str,
        seen: str,
        remarks: Remarks,
    ) -> None:
        """Keep the mark of a file, as `grade mark` does; raises Refusal as `keep_remarks` does."""
        file = self._to_mark(asker, exercise, name)
        self._refuse_marked(file, seen)
        items = [item for item in rubric.item if item.key in remarks.keys]
        with _refusing():
            marking.keep_mark(
                self._book,
                file,
                items,
                remarks.comments,
                asker.name,
                beyond=rubric.beyond,
            )

    def _to_mark(self, asker: Asker, exercise: str, name: str) -> marking.FileToMark:
        student = student_of(self._book, name)
        info = self._reached(asker, "" if student is None else student.id, NO_STUDENT)
        file = marking.shared_file_of(self._book, info, exercise)
        if file is None:
            raise Refusal(404, "There is no file to mark any more: the stub counts now.")
        for member in file.students:
            self._reached(asker, member, NO_STUDENT)
        return file

    def _refuse_marked(self, file: marking.FileToMark, seen: str) -> None:
        if marking.state_of(self._book, file) != seen:
            raise Refusal(
                409,
                "Nothing was saved: somebody else worked on this file, or the student handed in another one, "
                "since you opened it.",
            )

    def _reached(self, asker: Asker, student: str, sentence: str) -> StudentInfo:
        """Return the student; raises Refusal if there is none, or if the asker may not see the student."""
        info = self._book.student(student)
        if info is None or not asker.sees(info):
            raise Refusal(404, sentence)
        return info


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Within the block, turn mistakes in a request or an answer into a Refusal."""
    try:
        yield
    except SubmissionError as error:
        raise Refusal(422, str(error)) from error
