"""Things to look at in a student's files that no result shows, since they depend on the other attempts.

A file without work is listed if an earlier one has work, and an unreadable file until a newer one has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from grader.course.manifest import Course, Exercise
from grader.gradebook.book import Gradebook
from grader.gradebook.corrections_file import CorrectionsError
from grader.gradebook.policy import CountedAttempt
from grader.gradebook.review import (
    OF_DOWNLOADS,
    Attention,
    Reason,
    attention,
    nothing_found,
    passed_over,
    stub_after_work,
    without_code,
)
from grader.gradebook.standing import handed_in, needed
from grader.gradebook.work import Attempt, Work
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.submissions import ExerciseFile, State
from grader.submissions.source import code_digest


class JustRead(NamedTuple):
    """A student's attempts that were read and kept: the files of each, by the attempt's id in the gradebook.

    Attempts in `own` are the student's submissions, those in `of_team` have only files for the team, and those
    `with_request` have a regrade request. `every` also has attempts that are one in the gradebook, because they
    differ only in files that are not judged.
    """

    files: dict[int, Mapping[str, ExerciseFile]]
    every: list[tuple[int, Mapping[str, ExerciseFile]]]
    own: set[int]
    of_team: set[int]
    with_request: set[int]


class FileReview:
    """Lists what a person should look at in students' files, for these exercises."""

    def __init__(self, book: Gradebook, course: Course, exercises: Sequence[Exercise]) -> None:
        self._book, self._course, self._exercises = book, course, exercises
        self._stubs = {e.id: code_digest(course.stub(e).source) for e in course.exercises}

    def listed(
        self, work: Work, read: JustRead, before: Iterable[Attention]
    ) -> Iterator[Attention]:
        """Yield entries on the attempts just read, and those from before on exercises without work since."""
        before = [entry for entry in before if entry.kind in OF_DOWNLOADS]
        worked = {e.id: self._newest_work(work, read, e) for e in self._exercises}
        yield from self._on_attempts(work, read, worked)
        again = {e for entry in before if entry.kind is Reason.NO_POINTS for e in entry.exercises}
        yield from self._on_newest_files(work, read, again)
        graded = {exercise.id for exercise in self._exercises}
        now = {e for e, at in worked.items() if at >= 0 and work.attempts[at].id in read.files}
        for entry in before:
            # Files without points were just looked at again.
            over = graded if entry.kind is Reason.NO_POINTS else now
            if names := tuple(name for name in entry.exercises if name not in over):
                yield msgspec.structs.replace(entry, exercises=names)

    def _on_attempts(
        self, work: Work, read: JustRead, worked: Mapping[str, int]
    ) -> Iterator[Attention]:
        """Yield entries on unreadable and misnamed files; `worked` has the places of the newest work.

        An attempt has none on exercises with work since, unless it is the student's newest one, or the newest
        one with files for the team.
        """
        newest = {work.newest(ids).id for ids in (read.own, read.of_team) if ids}
        places = {attempt.id: place for place, attempt in enumerate(work.attempts)}
        for id_, files in read.every:
            attempt = work.attempts[places[id_]]
            open_ones = [e for e in self._exercises if id_ in newest or places[id_] > worked[e.id]]
            without = [file for file in files.values() if file.source is None]
            is_empty = len(without) == len(self._course.exercises)
            # A request needs no files.
            if is_empty and id_ not in read.with_request:
                yield from nothing_found(attempt.student, open_ones, files)
            for exercise in open_ones:
                file = files.get(exercise.id)
                if file is not None and file.source is None:
                    yield from self.about(work, attempt, exercise, file)
                elif file is not None and file.seems_misnamed and places[id_] > worked[exercise.id]:
                    # Only the file that counts gets a verdict, and with it the entries on it.
                    result = settle(self._course, exercise, file, GradingOptions())
                    if result is not None:
                        yield from attention(attempt.student, exercise, file, result)

    def _on_newest_files(
        self, work: Work, read: JustRead, again: Container[str]
    ) -> Iterator[Attention]:
        """Yield entries on the newest file of each exercise, if it was just read, or is looked at `again`."""
        for exercise in self._exercises:
            if not (sources := work.sources(exercise.id)):
                continue
            newest, _ = sources[-1]
            files = read.files.get(newest.id)
            if files is None and exercise.id in again:
                files = self._book.files_of(newest.id)
            if files is not None and exercise.id in files:
                yield from self.about(work, newest, exercise, files[exercise.id])

    def _newest_work(self, work: Work, read: JustRead, exercise: Exercise) -> int:
        """Return the place of the newest attempt with work for an exercise; -1 if there is none."""
        stub = self._course.stub(exercise)
        for place, attempt in reversed([*enumerate(work.attempts)]):
            file = read.files.get(attempt.id, {}).get(exercise.id)
            if (
                self._has_work(work, exercise, attempt)
                if file is None
                else file.state(stub).is_work
            ):
                return place
        return -1

    def about(
        self, work: Work, attempt: Attempt, exercise: Exercise, file: ExerciseFile
    ) -> list[Attention]:
        """Return the entries on a file that its result does not give.

        It is unreadable, or it is the newest file of the exercise and has nothing that could earn points: the
        stub after work, an empty file, comments, or code that is not valid Python. An untouched stub alone has
        none.
        """
        sources = [each for each, _ in work.sources(exercise.id)]
        earlier = (each for each in sources if each.id != attempt.id)
        has_earlier = any(self._has_work(work, exercise, each) for each in earlier)
        if file.source is None:
            return [*passed_over(attempt.student, exercise, file, earlier=has_earlier)]
        if not sources or sources[-1].id != attempt.id:
            return []
        stub = self._course.stub(exercise)
        if has_earlier and file.state(stub) in (State.UNTOUCHED, State.EMPTY):
            # In a team, the earlier work still counts.
            is_shared = exercise.id in self._book.of_teams and work.student.team
            return [] if is_shared else [stub_after_work(attempt.student, exercise)]
        entry = without_code(attempt.student, exercise, file, stub)
        return [entry] if entry is not None and not self._has_points(work, exercise) else []

    def _has_work(self, work: Work, exercise: Exercise, attempt: Attempt) -> bool:
        """Whether an attempt in the gradebook seems to have work for an exercise; its file is not read."""
        source = work.files.get(exercise.id, {}).get(attempt.id)
        is_stub = source in (None, self._stubs[exercise.id])
        return not is_stub and not work.is_untouched(exercise.id, attempt.id)

    def _has_points(self, work: Work, exercise: Exercise) -> bool:
        """Whether a file that may count has points, so that a newer one without any costs none.

        In an average, each file without points costs some. With a mistake in the file of corrections, it is not
        known which file counts: then none has points, and the newer one is listed.
        """
        try:
            rules = self._book.rules()
        except CorrectionsError:
            return False
        if rules.policy.rules_of(exercise.id).attempts is CountedAttempt.AVERAGE:
            return False
        may_count = {attempt.number for attempt in needed(work, rules, exercise.id)}
        files = handed_in(work, rules, exercise.id)
        return any(file.judged for file in files if file.attempt in may_count)

    def still_without_points(self, entries: Iterable[Attention]) -> Iterator[Attention]:
        """Yield the entries, without files that turned out to cost no points when all verdicts were there."""
        for entry in entries:
            if entry.kind is Reason.NO_POINTS:
                names = tuple(name for name in entry.exercises if self._costs_points(entry, name))
                entry = msgspec.structs.replace(entry, exercises=names)
            if entry.exercises:
                yield entry

    def _costs_points(self, entry: Attention, name: str) -> bool:
        """Whether an entry still holds for this exercise; also true if its file cannot be found."""
        student = self._book.student(entry.student)
        exercise = next((each for each in self._exercises if each.id == name), None)
        if student is None or exercise is None:
            return True
        work = self._book.work(student)
        if not (sources := work.sources(name)):
            return True
        attempt, _ = sources[-1]
        file = self._book.files_of(attempt.id)[name]
        return entry.what in {each.what for each in self.about(work, attempt, exercise, file)}
