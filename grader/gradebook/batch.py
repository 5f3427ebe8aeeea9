"""A class at once: read what was handed in, judge what is new, keep every verdict as it comes.

Nothing is judged twice: a verdict is found again by the digests of all that it depends on, whether it was
made a minute ago for another student's same file or before the power went. `batch` takes its attempts from a
download, `regrade` from the gradebook; the rest is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.gradebook import Attempt, Gradebook, Keeper
from grader.gradebook.intake import Asking, ToJudge, refuse_other_course, refuse_other_ids
from grader.gradebook.policy_file import policy_of
from grader.gradebook.review import (
    Attention,
    Reason,
    attention,
    held,
    most_pressing_first,
    ordinary_in,
)
from grader.gradebook.standing import NOT_YET
from grader.gradebook.verdict_key import VerdictKey, verdict_key
from grader.grading import environment_of, nothing_handed_in, settle, unjudged, version_of
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Completed, Pool, Task
from grader.results import Entry, Environment, ExerciseResult, Outcome, Status
from grader.submissions import ClassDownload, ExerciseFile


class BatchProgress:
    """Events of a batch; every method does nothing unless overridden."""

    def begin(self, students: int) -> None:
        """The grading of what so many students handed in begins."""

    def judged(self, student: str, result: ExerciseResult) -> None:
        """A verdict is there and kept."""

    def done(self, student: str) -> None:
        """All of a student's exercises have a verdict."""


class BatchSummary(msgspec.Struct, frozen=True):
    """The verdicts of a batch that were new and those that were there, and what to look at.

    `undated` are students with several files for an exercise and an attempt without a time, so that the
    one found last counts; of the `older` ones the gradebook has a newer attempt than the download.
    """

    attempts: int
    judged: int
    settled: int
    known: int
    attention: tuple[Attention, ...]
    undated: tuple[str, ...] = ()
    older: tuple[str, ...] = ()


class ScoreChange(msgspec.Struct, frozen=True):
    """An exercise of a student that counts otherwise since a regrading.

    `attempt` is the one that counts now; points are by the policy and with what a person corrected. `tests` are
    the names of those that end otherwise than before, each with both outcomes; one that was not there has
    None.
    """

    student: str
    attempt: int
    exercise: str
    before: float
    after: float
    tests: tuple[tuple[str, Outcome | None, Outcome | None], ...]


class _Question(NamedTuple):
    """A file that needs a verdict, and the key of that verdict."""

    attempt: Attempt
    exercise: Exercise
    file: ExerciseFile
    key: VerdictKey


def batch(
    download: ClassDownload,
    keeper: Keeper,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    all_attempts: bool = False,
    progress: BatchProgress | None = None,
) -> BatchSummary:
    """Grade a class's download: of each student the attempts that may count, or all of them.

    All are kept in the gradebook in any case, with their files. Which one counts for an exercise, the policy
    and the times of the attempts decide, also those of earlier downloads.

    Raises SubmissionError, before anything is written, where the gradebook is that of another course or
    knows most of these students under other ids.
    """
    refuse_other_course(keeper.book, course)
    refuse_other_ids(keeper.book, download)
    grading = _Batch(keeper, course, pool, options, progress or BatchProgress())
    with keeper.transaction():
        for student in download.missing:
            keeper.keep_student(student)
    students = itertools.groupby(download.attempts, key=lambda attempt: attempt.student.id)

    def read() -> Iterator[ToJudge]:
        for _, attempts in students:
            yield grading.asking.handed_in(list(attempts), all_attempts=all_attempts)

    return grading.run(read(), len({attempt.student.id for attempt in download.attempts}))


def regrade(
    keeper: Keeper,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    progress: BatchProgress | None = None,
) -> BatchSummary:
    """Grade again what is in the gradebook, as far as a suite or the grader changed.

    What has no verdict and may count by the policy is judged, too.

    Raises SubmissionError where the gradebook is that of another course.
    """
    book = keeper.book
    refuse_other_course(book, course)
    # No download is read again: a file that was unreadable still is, and one misnamed too.
    unreadable = [
        entry for entry in book.attention() if entry.kind in (Reason.UNREADABLE, Reason.MISNAMED)
    ]
    grading = _Batch(keeper, course, pool, options, progress or BatchProgress(), unreadable)
    absent = {student.id for student in book.absent()}
    students = [student for student in book.students() if student.id not in absent]
    return grading.run(map(grading.asking.kept, students), len(students))


class _Batch:
    """One grading on its way through the pool."""

    def __init__(
        self,
        keeper: Keeper,
        course: Course,
        pool: Pool,
        options: GradingOptions,
        progress: BatchProgress,
        unreadable: Iterable[Attention] = (),
    ) -> None:
        self._attention: list[Attention] = list(unreadable)
        self._keeper, self._book = keeper, keeper.book
        self._course, self._pool = course, pool
        self._options, self._progress = options, progress
        self._policy = policy_of(course, self._book.fact("policy_file"))
        self._digests = {e.id: exercise_digest(course, e) for e in course.exercises}
        self._ordinary = {e.id: ordinary_in(e, course.stub(e).source) for e in course.exercises}
        self._exercises = [e for e in course.exercises if set(options.suites) & {*course.suites(e)}]
        self.asking = Asking(keeper, course, self._exercises)
        # By the number of the task, which is that of a key; and how many verdicts each student waits for.
        self._open: dict[int, list[_Question]] = {}
        self._asked: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._students: set[str] = set()
        self._attempts: set[int] = set()
        self._judged_now: set[str] = set()
        self._judged = self._settled = self._known = self._tasked = 0
        self._undated: list[str] = []
        self._older: list[str] = []
        # What stands in the gradebook until the verdict is there.
        self._not_yet = {e.id: self._unjudged(e, NOT_YET) for e in self._exercises}
        self._here, self._torch = environment_of("", ()), version_of("torch")

    def run(self, students: Iterator[ToJudge], total: int) -> BatchSummary:
        blank = nothing_handed_in(self._course, self._exercises, self._options)
        is_other = self._keeper.begin(self._course, blank, self._policy)
        self._progress.begin(total)
        for verdict in self._pool.judged(self._tasks(students)):
            self._take(verdict)
        entries = most_pressing_first(self._attention)
        # Of students who are not in this download, what the gradebook knew still holds.
        others = [entry for entry in self._book.attention() if entry.student not in self._students]
        self._keeper.finish(most_pressing_first([*entries, *others]))
        for student in self._book.students() if is_other else self._book.absent():
            if student.id not in self._students:
                self._keeper.write_result(student.id)
        self._keeper.settled()
        return BatchSummary(
            len(self._attempts),
            self._judged,
            self._settled,
            self._known,
            entries,
            tuple(self._undated),
            tuple(self._older),
        )

    def _tasks(self, students: Iterator[ToJudge]) -> Iterator[Task]:
        while True:
            # All verdicts that need no judge are synced to the disk together.
            with self._keeper.transaction():
                if (asked := next(students, None)) is None:
                    return
                tasks = list(self._open_tasks(asked))
            if not self._missing[asked.student]:
                self._complete(asked.student)
            yield from tasks

    def _open_tasks(self, asked: ToJudge) -> Iterator[Task]:
        """The files of a student that have to be judged; the others' verdicts are kept here.

        A file that is being judged for another student, as one of the same team, waits for that verdict.
        """
        self._students.add(asked.student)
        self._missing[asked.student] = 0
        self._attention += asked.attention
        self._undated += [asked.student] * asked.is_undated
        self._older += [asked.student] * asked.is_older
        for attempt, exercise, file in asked.files:
            self._attempts.add(attempt.id)
            key = verdict_key(exercise, file, self._digests[exercise.id], self._options)
            question = _Question(attempt, exercise, file, key)
            if not self._is_answered(question):
                assert file.source is not None
                self._missing[asked.student] += 1
                waiting, seed = self._not_yet[exercise.id], self._options.seed
                self._keeper.keep(attempt, key, seed, waiting, self._here, waited_for=True)
                if (asked_before := self._asked.get(key.key)) is not None:
                    self._known += 1
                    self._open[asked_before].append(question)
                    continue
                self._tasked += 1
                self._asked[key.key] = self._tasked
                self._open[self._tasked] = [question]
                yield Task(self._tasked, exercise.id, file.source)

    def _is_answered(self, question: _Question) -> bool:
        """Whether the verdict is there, was made for another attempt, or needs no judge."""
        attempt, exercise, file, key = question
        verdict = self._keeper.verdict(key.key)
        # Time runs out on a busy machine, too: a time-out is not kept as the verdict for ever.
        result = verdict.result if verdict is not None else None
        is_fresh = key.key in self._judged_now
        if verdict and result and (is_fresh or not _timed_out(result)):
            self._known += 1
            # What is odd may be known only since then.
            held = self._held(question, result)
            if result.held == held and self._keeper.has(attempt, exercise.id, key.key):
                self._look_at(question, result)
            else:
                self._keep(question, result, verdict.environment)
            return True
        settled = settle(self._course, exercise, file, self._options)
        if settled is None:
            return False
        self._settled += 1
        self._keep(question, settled, self._here)
        return True

    def _take(self, verdict: Completed) -> None:
        questions = self._open.pop(verdict.number)
        first = questions[0]
        del self._asked[first.key.key]
        self._judged += 1
        result = verdict.result or self._unjudged(first.exercise, verdict.fault)
        self._judged_now.add(first.key.key)
        with self._keeper.transaction():
            for question in questions:
                self._keep(question, result, environment_of(self._torch, verdict.walls))
            self._keeper.keep_observations(verdict.observations)
        for question in questions:
            student = question.attempt.student
            self._missing[student] -= 1
            if not self._missing[student]:
                self._complete(student)

    def _keep(self, question: _Question, result: ExerciseResult, environment: Environment) -> None:
        attempt, _, _, key = question
        result = msgspec.structs.replace(result, held=self._held(question, result))
        self._keeper.keep(attempt, key, self._options.seed, result, environment)
        self._look_at(question, result)

    def _held(self, question: _Question, result: ExerciseResult) -> tuple[str, ...]:
        """Why a person looks at the file before its points count."""
        source = question.file.source
        if source is None or result.untouched:
            return ()
        return held(source, self._ordinary[question.exercise.id])

    def _look_at(self, question: _Question, result: ExerciseResult) -> None:
        attempt, exercise, file, _ = question
        self._attention += attention(attempt.student, exercise, file, result)
        self._progress.judged(attempt.student, result)

    def _complete(self, student: str) -> None:
        del self._missing[student]
        self._keeper.write_result(student)
        self._progress.done(student)

    def _unjudged(self, exercise: Exercise, fault: str) -> ExerciseResult:
        """No verdict: a fault of the grader, which the next batch tries to make good."""
        return unjudged(self._course, exercise, self._options, fault)


def _timed_out(result: ExerciseResult) -> bool:
    return any(test.outcome is Outcome.TIMEOUT for test in result.tests)


def changes(book: Gradebook) -> Iterator[ScoreChange]:
    """What counts otherwise for a student since the last grading, once for each exercise, with the tests.

    Left out is an attempt that does not count, and what a fault of the grader left unjudged: that is no loss.
    """
    replaced = itertools.groupby(book.replaced(), key=lambda verdict: verdict.student)
    for student, group in replaced:
        verdicts = list(group)
        before, after = (
            _counting(book.entry_before(student, verdicts)),
            _counting(book.entry_of(student)),
        )
        for exercise in dict.fromkeys(verdict.after.name for verdict in verdicts):
            was, now = before.get(exercise), after.get(exercise)
            if was is None or now is None or now.status is Status.UNJUDGED:
                continue
            ends = {test.name: test.outcome for test in was.tests}
            ends_now = {test.name: test.outcome for test in now.tests}
            tests = tuple(
                (name, ends.get(name), ends_now.get(name))
                for name in dict.fromkeys((*ends_now, *ends))
                if ends.get(name) is not ends_now.get(name)
            )
            if tests or was.score != now.score:
                newest = [v.attempt for v in verdicts if v.after.name == exercise][-1]
                attempt = now.mark.attempt if now.mark is not None and now.mark.attempt else newest
                yield ScoreChange(student, attempt, exercise, was.score, now.score, tests)


def _counting(entry: Entry | None) -> dict[str, ExerciseResult]:
    return {result.name: result for result in entry.result.exercises} if entry is not None else {}
