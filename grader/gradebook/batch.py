"""A class at once: read what was handed in, judge what is new, keep every verdict as it comes.

Nothing is judged twice: a verdict is found again by the digests of all that it depends on, whether it was
made a minute ago for another student's same file or before the power went. `batch` takes its attempts from a
download, `regrade` from the gradebook; the rest is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from grader.course.digest import exercise_digest
from grader.course.manifest import Course, Exercise
from grader.errors import SubmissionError
from grader.gradebook import Attempt, Gradebook, Keeper, Replaced
from grader.gradebook.review import (
    Attention,
    Reason,
    attention,
    most_pressing_first,
    nothing_found,
    suspicious_in,
)
from grader.gradebook.verdict_key import VerdictKey, verdict_key
from grader.grading import environment_of, settle, unjudged, version_of
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Completed, Pool, Task
from grader.results import Environment, ExerciseResult, Outcome, Status, StudentInfo
from grader.submissions import ClassDownload, ExerciseFile, read_attempt

_NOT_YET = "Not judged yet: the grading goes on, or was interrupted; run `grade batch` again."


class BatchProgress:
    """Events of a batch; every method does nothing unless overridden."""

    def begin(self, attempts: int) -> None:
        """The grading of so many attempts begins."""

    def judged(self, student: str, result: ExerciseResult) -> None:
        """A verdict is there and kept."""

    def done(self, attempt: Attempt) -> None:
        """All of an attempt's exercises have a verdict."""


class BatchSummary(msgspec.Struct, frozen=True):
    """The verdicts of a batch that were new and those that were there, and what to look at."""

    attempts: int
    judged: int
    settled: int
    known: int
    attention: tuple[Attention, ...]


class ScoreChange(msgspec.Struct, frozen=True):
    """An exercise of a student whose score or tests a regrading changed.

    `tests` are the names of those that end otherwise than before, each with both outcomes; one that was
    not there has None.
    """

    student: str
    attempt: int
    exercise: str
    before: float
    after: float
    tests: tuple[tuple[str, Outcome | None, Outcome | None], ...]


class _AttemptFiles(NamedTuple):
    """An attempt with its files, by exercise."""

    attempt: Attempt
    files: dict[str, ExerciseFile]


class _Question(NamedTuple):
    """A file that needs a verdict, and the key of that verdict."""

    attempt: Attempt
    exercise: Exercise
    file: ExerciseFile
    key: VerdictKey


def batch(
    download: ClassDownload,
    book: Keeper,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    all_attempts: bool = False,
    progress: BatchProgress | None = None,
) -> BatchSummary:
    """Grade a class's download: the newest attempt of each student, or all of them.

    Older attempts are kept in the gradebook in any case, without a verdict.

    Raises SubmissionError, before anything is written, where the gradebook is that of another course or
    knows most of these students under other ids.
    """
    refuse_other_course(book, course)
    refuse_other_ids(book, download)
    newest: dict[str, int] = {}
    for found in download.attempts:
        newest[found.student.id] = max(newest.get(found.student.id, found.attempt), found.attempt)
    with book.transaction():
        for student in download.missing:
            book.keep_student(student)

    def read() -> Iterator[_AttemptFiles]:
        for found in download.attempts:
            counted = found.attempt == newest[found.student.id]
            submission = read_attempt(found, course)
            attempt = book.register(found, submission, counted=counted)
            if counted or all_attempts:
                yield _AttemptFiles(attempt, submission.files)

    total = len(download.attempts) if all_attempts else len(newest)
    return _Batch(book, course, pool, options, progress or BatchProgress()).run(read(), total)


def regrade(
    book: Keeper,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    progress: BatchProgress | None = None,
) -> BatchSummary:
    """Grade again what is in the gradebook, as far as a suite or the grader changed.

    Raises SubmissionError where the gradebook is that of another course.
    """
    refuse_other_course(book, course)
    attempts = book.attempts()

    def read() -> Iterator[_AttemptFiles]:
        for attempt in attempts:
            sources, verdicts = book.sources_of(attempt.id), book.verdicts_of(attempt.id)
            files = {e.id: _stored_file(e, sources, verdicts) for e in course.exercises}
            yield _AttemptFiles(attempt, files)

    # No download is read again: a file that was unreadable still is, and one misnamed too.
    unreadable = [
        entry for entry in book.attention() if entry.kind in (Reason.UNREADABLE, Reason.MISNAMED)
    ]
    grading = _Batch(book, course, pool, options, progress or BatchProgress(), unreadable)
    return grading.run(read(), len(attempts))


def _stored_file(
    exercise: Exercise, sources: dict[str, bytes], verdicts: dict[str, ExerciseResult]
) -> ExerciseFile:
    """A file as it was handed in; where there was none, the message about it."""
    if exercise.id in sources:
        return ExerciseFile(sources[exercise.id])
    if exercise.id in verdicts:
        return ExerciseFile(None, verdicts[exercise.id].message)
    return ExerciseFile(None, f"{exercise.file} is missing: hand it in under this name.")


class _Batch:
    """One grading on its way through the pool."""

    def __init__(
        self,
        book: Keeper,
        course: Course,
        pool: Pool,
        options: GradingOptions,
        progress: BatchProgress,
        unreadable: Iterable[Attention] | None = None,
    ) -> None:
        # None: the files come from a download, and those that are unreadable are found here.
        self._is_download = unreadable is None
        self._attention: list[Attention] = list(unreadable or ())
        self._book, self._course, self._pool = book, course, pool
        self._options, self._progress = options, progress
        self._digests = {e.id: exercise_digest(course, e) for e in course.exercises}
        self._in_stubs = {
            e.id: suspicious_in(course.stub(e).read_bytes()) for e in course.exercises
        }
        self._exercises = [e for e in course.exercises if set(options.suites) & {*course.suites(e)}]
        # By the number of the task; and how many tasks each attempt waits for.
        self._open: dict[int, _Question] = {}
        self._missing: dict[int, int] = {}
        self._students: set[str] = set()
        self._judged_now: set[str] = set()
        self._judged = self._settled = self._known = self._attempts = self._tasked = 0
        # What stands in the gradebook until the verdict is there.
        self._not_yet = {e.id: self._unjudged(e, _NOT_YET) for e in self._exercises}
        self._here, self._torch = environment_of("", ()), version_of("torch")

    def run(self, attempts: Iterator[_AttemptFiles], total: int) -> BatchSummary:
        self._book.begin(self._course)
        self._progress.begin(total)
        for verdict in self._pool.judged(self._tasks(attempts)):
            self._take(verdict)
        entries = most_pressing_first(self._attention)
        # Of students who are not in this download, what the gradebook knew still holds.
        others = [entry for entry in self._book.attention() if entry.student not in self._students]
        self._book.finish(most_pressing_first([*entries, *others]))
        return BatchSummary(self._attempts, self._judged, self._settled, self._known, entries)

    def _tasks(self, attempts: Iterator[_AttemptFiles]) -> Iterator[Task]:
        while True:
            # All verdicts that need no judge are synced to the disk together.
            with self._book.transaction():
                if (next_one := next(attempts, None)) is None:
                    return
                tasks = list(self._open_tasks(*next_one))
            self._attempts += 1
            self._missing[next_one.attempt.id] = len(tasks)
            if not tasks:
                self._complete(next_one.attempt)
            yield from tasks

    def _open_tasks(self, attempt: Attempt, files: dict[str, ExerciseFile]) -> Iterator[Task]:
        """The exercises of an attempt that have to be judged; the others are kept here."""
        self._students.add(attempt.student)
        if self._is_download:
            self._attention += nothing_found(attempt.student, self._exercises, files)
        for exercise in self._exercises:
            file = files[exercise.id]
            key = verdict_key(exercise, file, self._digests[exercise.id], self._options)
            question = _Question(attempt, exercise, file, key)
            if not self._is_answered(question):
                assert file.source is not None
                self._tasked += 1
                self._open[self._tasked] = question
                waiting, seed = self._not_yet[exercise.id], self._options.seed
                self._book.keep(
                    attempt, key, seed, file.source, waiting, self._here, waited_for=True
                )
                yield Task(self._tasked, exercise.id, file.source)

    def _is_answered(self, question: _Question) -> bool:
        """Whether the verdict is there, was made for another attempt, or needs no judge."""
        attempt, exercise, file, key = question
        verdict = self._book.verdict(key.key)
        # Time runs out on a busy machine, too: a time-out is not kept as the verdict for ever.
        if verdict is not None and (key.key in self._judged_now or not _timed_out(verdict[0])):
            self._known += 1
            if self._book.has(attempt, exercise.id, key.key):
                self._look_at(question, verdict[0])
            else:
                self._keep(question, *verdict)
            return True
        settled = settle(self._course, exercise, file, self._options)
        if settled is None:
            return False
        self._settled += 1
        self._keep(question, settled, self._here)
        return True

    def _take(self, verdict: Completed) -> None:
        question = self._open.pop(verdict.number)
        self._judged += 1
        result = verdict.result or self._unjudged(question.exercise, verdict.fault)
        self._judged_now.add(question.key.key)
        with self._book.transaction():
            self._keep(question, result, environment_of(self._torch, verdict.walls))
        self._missing[question.attempt.id] -= 1
        if not self._missing[question.attempt.id]:
            self._complete(question.attempt)

    def _keep(self, question: _Question, result: ExerciseResult, environment: Environment) -> None:
        attempt, _, file, key = question
        self._book.keep(attempt, key, self._options.seed, file.source, result, environment)
        self._look_at(question, result)

    def _look_at(self, question: _Question, result: ExerciseResult) -> None:
        attempt, exercise, file, _ = question
        in_stub = self._in_stubs[exercise.id]
        self._attention += attention(attempt.student, exercise, file, in_stub, result)
        self._progress.judged(attempt.student, result)

    def _complete(self, attempt: Attempt) -> None:
        del self._missing[attempt.id]
        self._book.write_result(attempt)
        self._progress.done(attempt)

    def _unjudged(self, exercise: Exercise, fault: str) -> ExerciseResult:
        """No verdict: a fault of ours, which the next batch tries to make good."""
        return unjudged(self._course, exercise, self._options, fault)


def _timed_out(result: ExerciseResult) -> bool:
    return any(test.outcome is Outcome.TIMEOUT for test in result.tests)


def changes(replaced: Iterable[Replaced]) -> Iterator[ScoreChange]:
    """Gains and losses with the tests that made them; exercises that end as before are left out.

    So are those that a fault of ours left unjudged: that is no loss.
    """
    for student, attempt, was, now in map(msgspec.structs.astuple, replaced):
        if now.status is Status.UNJUDGED:
            continue
        before = {test.name: test.outcome for test in was.tests}
        after = {test.name: test.outcome for test in now.tests}
        tests = tuple(
            (name, before.get(name), after.get(name))
            for name in dict.fromkeys((*after, *before))
            if before.get(name) is not after.get(name)
        )
        if tests or was.score != now.score:
            yield ScoreChange(student, attempt, now.name, was.score, now.score, tests)


def refuse_other_course(book: Gradebook, course: Course) -> None:
    """Raise SubmissionError for the gradebook of another course: the points of both would be added up."""
    if book.fact("course") and book.course.name != course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {book.course.name}, and this course is "
            f"{course.name}: name another folder, or the course with --course."
        )


def refuse_other_ids(book: Gradebook, download: ClassDownload) -> None:
    """Raise SubmissionError where most of a class are there under other ids, as without the roster of before.

    They would be in the gradebook twice. A few who seem to be may be others, with a like number.
    """
    counts = book.attempt_counts()
    students = {found.student.id: found.student for found in download.attempts}
    new = {name: student for name, student in students.items() if name not in counts}
    if not counts or 2 * len(new) <= len(students):
        return
    ids = {name: s.id for s in book.students() if s.id in counts for name in _names_of(s)}
    other_ids = {name: ids[name] for name in new if name in ids}
    for name, student in new.items():
        for other in _names_of(student) & set(counts):
            other_ids[name] = other
    if 2 * len(other_ids) > len(students):
        name, other = next(iter(other_ids.items()))
        raise SubmissionError(
            f"{len(other_ids)} of these {len(students)} students are in {book.folder} under another id, such "
            f"as {name} under {other}, and would be there twice: grade with the same --roster as before, "
            "or into a new folder."
        )


def _names_of(student: StudentInfo) -> set[str]:
    """Names under which another list may have a student."""
    ids = {value for kind, value in student.ids.items() if kind != "section"}
    return {name for name in (*ids, student.email, student.name) if name}
