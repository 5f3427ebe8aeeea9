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
from grader.results import Environment, ExerciseResult, Outcome, Status, Student
from grader.submissions import ClassDownload, ExerciseFile, read_attempt

_NOT_YET = "Not judged yet: the grading goes on, or was interrupted; run `grade batch` again."


class BatchProgress:
    """What a batch tells whoever watches it; every method does nothing unless overridden."""

    def begin(self, attempts: int) -> None:
        """So many attempts are going to be looked at."""

    def judged(self, student: str, result: ExerciseResult) -> None:
        """A verdict is there and kept."""

    def done(self, attempt: Attempt) -> None:
        """All of an attempt's exercises have a verdict."""


class Summary(msgspec.Struct, frozen=True):
    """What a batch did: how many verdicts were new, how many were there, and what to look at."""

    attempts: int
    judged: int
    settled: int
    known: int
    attention: tuple[Attention, ...]


class Change(msgspec.Struct, frozen=True):
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


class _Handed(NamedTuple):
    """An attempt with its files, read."""

    attempt: Attempt
    files: dict[str, ExerciseFile]


class _Open(NamedTuple):
    """What a verdict is waited for."""

    attempt: Attempt
    exercise: Exercise
    handed: ExerciseFile
    key: VerdictKey


def batch(
    found: ClassDownload,
    book: Keeper,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    all_attempts: bool = False,
    progress: BatchProgress | None = None,
) -> Summary:
    """Grade what was found of a class; the newest attempt of each student, or all of them.

    Older attempts are kept in the gradebook in any case, without a verdict.

    Raises SubmissionError, before anything is written, where the gradebook is that of another course or
    knows most of these students under other ids.
    """
    check_course(book, course)
    check_students(book, found)
    newest = {each.student.id: each.attempt for each in found.attempts}
    for each in found.attempts:
        newest[each.student.id] = max(newest[each.student.id], each.attempt)
    with book.transaction():
        for student in found.missing:
            book.keep_student(student)

    def handed_in() -> Iterator[_Handed]:
        for each in found.attempts:
            counted = each.attempt == newest[each.student.id]
            submission = read_attempt(each, course)
            attempt = book.register(each, submission, counted=counted)
            if counted or all_attempts:
                yield _Handed(attempt, submission.files)

    total = len(found.attempts) if all_attempts else len(newest)
    return _Batch(book, course, pool, options, progress or BatchProgress()).run(handed_in(), total)


def regrade(
    book: Keeper,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    progress: BatchProgress | None = None,
) -> Summary:
    """Grade again what is in the gradebook, as far as a suite or the grader changed.

    Raises SubmissionError where the gradebook is that of another course.
    """
    check_course(book, course)
    attempts = book.attempts()

    def kept() -> Iterator[_Handed]:
        for attempt in attempts:
            sources, verdicts = book.sources_of(attempt.id), book.verdicts_of(attempt.id)
            yield _Handed(attempt, {e.id: _kept(e, sources, verdicts) for e in course.exercises})

    # Nothing is read again: what could not be read then still cannot.
    unreadable = [each for each in book.attention() if each.kind is Reason.UNREADABLE]
    return _Batch(book, course, pool, options, progress or BatchProgress(), unreadable).run(
        kept(), len(attempts)
    )


def _kept(
    exercise: Exercise, sources: dict[str, bytes], verdicts: dict[str, ExerciseResult]
) -> ExerciseFile:
    """A file as it was handed in; where there was none, what was said of it."""
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
        # None: what was handed in is read here, and what cannot be is found out.
        self._is_read = unreadable is None
        self._attention: list[Attention] = list(unreadable or ())
        self._book, self._course, self._pool = book, course, pool
        self._options, self._progress = options, progress
        self._digests = {e.id: exercise_digest(course, e) for e in course.exercises}
        self._in_stubs = {
            e.id: suspicious_in(course.stub(e).read_bytes()) for e in course.exercises
        }
        self._exercises = [e for e in course.exercises if set(options.suites) & {*course.suites(e)}]
        self._open: dict[int, _Open] = {}
        self._missing: dict[int, int] = {}
        self._students: set[str] = set()
        self._judged_now: set[str] = set()
        self._waiting: dict[str, ExerciseResult] = {}
        self._judged = self._settled = self._known = self._attempts = self._tasked = 0
        self._here, self._torch = environment_of("", ()), version_of("torch")

    def run(self, handed_in: Iterable[_Handed], attempts: int) -> Summary:
        self._book.begin(self._course)
        self._progress.begin(attempts)
        for verdict in self._pool.judged(self._tasks(handed_in)):
            self._take(verdict)
        found = most_pressing_first(self._attention)
        # Of students who are not in this download, what the gradebook knew still holds.
        others = [each for each in self._book.attention() if each.student not in self._students]
        self._book.finish(most_pressing_first([*found, *others]))
        return Summary(self._attempts, self._judged, self._settled, self._known, found)

    def _tasks(self, handed_in: Iterable[_Handed]) -> Iterator[Task]:
        attempts = iter(handed_in)
        while True:
            # What costs no judge is synced to the disk together.
            with self._book.transaction():
                if (handed := next(attempts, None)) is None:
                    return
                tasks = list(self._open_tasks(*handed))
            self._attempts += 1
            self._missing[handed.attempt.id] = len(tasks)
            if not tasks:
                self._complete(handed.attempt)
            yield from tasks

    def _open_tasks(self, attempt: Attempt, files: dict[str, ExerciseFile]) -> Iterator[Task]:
        """The exercises of an attempt that have to be judged; the others are kept here."""
        self._students.add(attempt.student)
        if self._is_read:
            self._attention += nothing_found(attempt.student, self._exercises, files)
        for exercise in self._exercises:
            handed = files[exercise.id]
            key = verdict_key(exercise, handed, self._digests[exercise.id], self._options)
            if not self._is_known(attempt, exercise, handed, key):
                assert handed.source is not None
                self._tasked += 1
                self._open[self._tasked] = _Open(attempt, exercise, handed, key)
                waiting = self._not_yet(exercise)
                self._book.wait_for(
                    attempt, key, self._options.seed, handed.source, waiting, self._here
                )
                yield Task(self._tasked, exercise.id, handed.source)

    def _is_known(
        self, attempt: Attempt, exercise: Exercise, handed: ExerciseFile, key: VerdictKey
    ) -> bool:
        """Whether the verdict is there, was made for another attempt, or needs no judge."""
        waited = _Open(attempt, exercise, handed, key)
        known = self._book.verdict(key.key)
        # Time runs out on a machine that is busy, too: that is not kept as the verdict for ever.
        if known is not None and (key.key in self._judged_now or not _timed_out(known[0])):
            self._known += 1
            if self._book.has(attempt, exercise.id, key.key):
                self._look_at(waited, known[0])
            else:
                self._keep(waited, *known)
            return True
        settled = settle(self._course, exercise, handed, self._options)
        if settled is None:
            return False
        self._settled += 1
        self._keep(waited, settled, self._here)
        return True

    def _take(self, verdict: Completed) -> None:
        waited = self._open.pop(verdict.number)
        self._judged += 1
        result = verdict.result or unjudged(
            self._course, waited.exercise, self._options, verdict.fault
        )
        self._judged_now.add(waited.key.key)
        with self._book.transaction():
            self._keep(waited, result, environment_of(self._torch, verdict.walls))
        self._missing[waited.attempt.id] -= 1
        if not self._missing[waited.attempt.id]:
            self._complete(waited.attempt)

    def _keep(self, waited: _Open, result: ExerciseResult, environment: Environment) -> None:
        source, seed = waited.handed.source, self._options.seed
        self._book.keep(waited.attempt, waited.key, seed, source, result, environment)
        self._look_at(waited, result)

    def _look_at(self, waited: _Open, result: ExerciseResult) -> None:
        attempt, exercise, handed, _ = waited
        in_stub = self._in_stubs[exercise.id]
        self._attention += attention(attempt.student, exercise, handed, in_stub, result)
        self._progress.judged(attempt.student, result)

    def _complete(self, attempt: Attempt) -> None:
        del self._missing[attempt.id]
        self._book.write_result(attempt)
        self._progress.done(attempt)

    def _not_yet(self, exercise: Exercise) -> ExerciseResult:
        """What stands in the gradebook until the verdict is there."""
        if exercise.id not in self._waiting:
            self._waiting[exercise.id] = unjudged(self._course, exercise, self._options, _NOT_YET)
        return self._waiting[exercise.id]


def _timed_out(result: ExerciseResult) -> bool:
    return any(test.outcome is Outcome.TIMEOUT for test in result.tests)


def changes(replaced: Iterable[Replaced]) -> Iterator[Change]:
    """Who gained, who lost, and by which test; exercises that end as before are left out.

    So are those that a fault of ours left unjudged: nobody lost anything by that.
    """
    for each in replaced:
        if each.after.status is Status.UNJUDGED:
            continue
        before = {test.name: test.outcome for test in each.before.tests}
        after = {test.name: test.outcome for test in each.after.tests}
        tests = tuple(
            (name, before.get(name), after.get(name))
            for name in dict.fromkeys((*after, *before))
            if before.get(name) is not after.get(name)
        )
        if tests or each.before.score != each.after.score:
            yield Change(
                each.student,
                each.attempt,
                each.after.name,
                each.before.score,
                each.after.score,
                tests,
            )


def check_course(book: Gradebook, course: Course) -> None:
    """Refuse the gradebook of another course: the points of both would be added up, for good.

    Raises SubmissionError.
    """
    if book.fact("course") and book.course.name != course.name:
        raise SubmissionError(
            f"{book.folder} is the gradebook of the course {book.course.name}, and this course is "
            f"{course.name}: name another folder, or the course with --course."
        )


def check_students(book: Gradebook, found: ClassDownload) -> None:
    """Refuse a class that is there under other ids, as with a roster that was left out this time.

    Everybody would be in the gradebook twice. A few who seem to be may be others, with a like number.

    Raises SubmissionError.
    """
    known = book.attempt_counts()
    students = {each.student.id: each.student for each in found.attempts}
    new = {name: student for name, student in students.items() if name not in known}
    if not known or 2 * len(new) <= len(students):
        return
    called = {name: s.id for s in book.students() if s.id in known for name in _names_of(s)}
    there = {name: called[name] for name in new if name in called}
    for name, student in new.items():
        for other in _names_of(student) & set(known):
            there[name] = other
    if 2 * len(there) > len(students):
        name, other = next(iter(there.items()))
        raise SubmissionError(
            f"{len(there)} of these {len(students)} students are in {book.folder} under another id, such "
            f"as {name} under {other}, and would be there twice: grade with the same --roster as before, "
            "or into a new folder."
        )


def _names_of(student: Student) -> set[str]:
    """What a student may be called by somebody who knows another id."""
    ids = {value for kind, value in student.ids.items() if kind != "section"}
    return {name for name in (*ids, student.email, student.name) if name}
