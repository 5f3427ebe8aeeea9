"""The results of files, for a batch and for a server: an equal file's verdict, or a new one.

`Question` is a file that needs a verdict, and `Verdicts` keeps its result: from the verdict on an equal file,
without a judge, or from a judge.
"""

from __future__ import annotations

import functools
from collections.abc import Container
from typing import NamedTuple

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.gradebook.book import Gradebook
from grader.gradebook.review import Attention, attention
from grader.gradebook.verdict_key import VerdictKey, verdict_key
from grader.gradebook.work import Attempt, Verdict
from grader.grading import environment_of, settle, unjudged, version_of, with_note
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import Environment, ExerciseResult, Outcome
from grader.submissions import ExerciseFile
from grader.submissions.odd_code import ordinary_in, reasons


class WaitingFile(NamedTuple):
    """A file that waits for a judge: the key of its verdict, and reasons to hold the points."""

    key: VerdictKey
    held: tuple[str, ...]


class Question:
    """A file that needs a verdict, and the key of the verdict; the slow rest is computed when first used.

    For a `waiting` file, an earlier question has computed it.
    """

    def __init__(
        self,
        questions: Questions,
        exercise: Exercise,
        file: ExerciseFile,
        waiting: WaitingFile | None = None,
    ) -> None:
        self._questions, self._waiting = questions, waiting
        self.exercise, self.file = exercise, file
        self.key = questions.key_of(exercise, file) if waiting is None else waiting.key

    @functools.cached_property
    def settled(self) -> ExerciseResult | None:
        """The result if the file needs no judge, being missing, untouched or unreadable; else None."""
        if self._waiting is not None:
            return None
        return self._questions.settled(self.exercise, self.file)

    @functools.cached_property
    def held(self) -> tuple[str, ...]:
        """The odd code in the source, as reasons to hold the points."""
        if self._waiting is not None:
            return self._waiting.held
        return self._questions.reasons_to_hold(self.exercise, self.file)

    def waiting(self) -> WaitingFile:
        """Return what to remember of the question while the file waits for a judge."""
        return WaitingFile(self.key, self.held)

    def prepare(self) -> None:
        """Compute what the result may need now, to spare the thread that keeps it."""
        if self.settled is None:
            _ = self.held

    def answered_by(self, result: ExerciseResult) -> ExerciseResult:
        """Return a new result as it is kept for this file. Odd code holds its points, except in a stub.

        Odd code is found in the source, or reported while it runs.
        """
        held = () if result.untouched else tuple(dict.fromkeys((*self.held, *result.held)))
        return with_note(msgspec.structs.replace(result, held=held), self.file)


class Questions:
    """Makes questions about a course's files, in any thread; `exercises` have a suite to run."""

    def __init__(self, course: Course, options: GradingOptions) -> None:
        self._course, self._options = course, options
        self._digests = {e.id: exercise_digest(course, e) for e in course.exercises}
        self._stubs = {e.id: course.stub(e).source for e in course.exercises}
        self._ordinary = {e.id: ordinary_in(e, self._stubs[e.id]) for e in course.exercises}
        self.exercises = [e for e in course.exercises if set(options.suites) & {*course.suites(e)}]

    def about(
        self, exercise: Exercise, file: ExerciseFile, waiting: WaitingFile | None = None
    ) -> Question:
        """Return a question about a file, without reading the suite or the gradebook.

        To save time, pass what an earlier question remembered of a `waiting` file.
        """
        return Question(self, exercise, file, waiting)

    def key_of(self, exercise: Exercise, file: ExerciseFile) -> VerdictKey:
        """Return the key of the verdict on a file."""
        return verdict_key(exercise, file, self._digests[exercise.id], self._options)

    def settled(self, exercise: Exercise, file: ExerciseFile) -> ExerciseResult | None:
        """Return the result of a file that needs no judge, else None."""
        return settle(self._course, exercise, file, self._options)

    def reasons_to_hold(self, exercise: Exercise, file: ExerciseFile) -> tuple[str, ...]:
        """Return the odd code in a file's source, as reasons to hold its points."""
        # Skip stubs, which most files are early in a course.
        if file.source is None or file.source == self._stubs[exercise.id]:
            return ()
        return reasons(file.source, self._ordinary[exercise.id])


class Kept(NamedTuple):
    """The result kept for a file, and entries about it; `is_known`: it is an equal file's verdict."""

    result: ExerciseResult
    attention: list[Attention]
    is_known: bool = False


class Verdicts:
    """The results of files, kept in a gradebook, for one grading or one server.

    Call the methods within a transaction if other writes belong to it.
    """

    def __init__(self, book: Gradebook, course: Course, options: GradingOptions) -> None:
        self._book, self._course, self._options = book, course, options
        self._here = environment_of("", ())
        self._torch = version_of("torch")

    def without_judge(
        self, attempt: Attempt, question: Question, judged_now: Container[str] = ()
    ) -> Kept | None:
        """Keep the result of a file if no judge is needed, and return it; None if a judge is needed.

        That is a final verdict with the same key, on any student's file, or the last one if its key is in
        `judged_now`; or else the result of a file that is settled without a judge.
        """
        if (own := self._own_final(attempt, question)) is not None:
            return _kept(attempt, question, own.result, is_known=True)
        if (known := self._known(question.key.key, judged_now)) is not None:
            return self._keep(attempt, question, known.result, known.environment, is_known=True)
        if question.settled is not None:
            result = question.answered_by(question.settled)
            return self._keep(attempt, question, result, self._here)
        return None

    def is_final(self, attempt: Attempt, question: Question) -> bool:
        """Whether the attempt has a final verdict with the key of the question: it is not judged again."""
        return self._own_final(attempt, question) is not None

    def _own_final(self, attempt: Attempt, question: Question) -> Verdict | None:
        """Return the attempt's verdict if it has the key of the question and is final, else None."""
        verdict = self._book.tables.verdict(attempt.id, question.exercise.id, question.key.key)
        return verdict if verdict is not None and _is_final(verdict) else None

    def _known(self, key: str, judged_now: Container[str]) -> Verdict | None:
        """Return the verdict with this key that another file gets, too; None if there is none."""
        verdicts = self._book.tables.verdicts
        final = next(filter(_is_final, verdicts(key)), None)
        if final is None and key in judged_now:
            # Of the timeouts, the one of this grading.
            return max(verdicts(key), key=lambda verdict: verdict.graded_at, default=None)
        return final

    def judged(self, attempt: Attempt, question: Question, judged: Judgment | JudgeFault) -> Kept:
        """Keep the verdict of a judge; after a fault, the file is unjudged until the next grading."""
        if isinstance(judged, Judgment):
            result, walls = judged.result, judged.walls
        else:
            fault = judged.message
            result, walls = unjudged(self._course, question.exercise, self._options, fault), ()
        here = environment_of(self._torch, walls)
        return self._keep(attempt, question, question.answered_by(result), here)

    def wait(self, attempt: Attempt, question: Question, not_yet: ExerciseResult) -> None:
        """Keep `not_yet` as the result while a judge works; an existing verdict stays."""
        key, seed = question.key, self._options.seed
        self._book.keep(attempt, key, seed, not_yet, self._here, waited_for=True)

    def _keep(
        self,
        attempt: Attempt,
        question: Question,
        result: ExerciseResult,
        environment: Environment,
        *,
        is_known: bool = False,
    ) -> Kept:
        """Keep a result for a file, and return it."""
        self._book.keep(attempt, question.key, self._options.seed, result, environment)
        return _kept(attempt, question, result, is_known=is_known)


def _kept(attempt: Attempt, question: Question, result: ExerciseResult, *, is_known: bool) -> Kept:
    """Return a result that the gradebook has, with the entries about it."""
    entries = attention(attempt.student, question.exercise, question.file, result)
    return Kept(result, entries, is_known)


def _is_final(verdict: Verdict) -> bool:
    """Whether equal files get this verdict. A timeout may be due to a busy machine, so it is tried again."""
    return all(test.outcome is not Outcome.TIMEOUT for test in verdict.result.tests)
