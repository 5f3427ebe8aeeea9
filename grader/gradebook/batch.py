"""Grade a class: read its attempts, judge new files, and keep every verdict at once.

No file is judged twice: an existing verdict is found by its key, whether it was made a minute ago for another
student's equal file or before a power failure. `batch` takes its attempts from a download, `regrade` from the
gradebook; the rest is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from grader.course.manifest import Course
from grader.gradebook import Attempt, Gradebook
from grader.gradebook.file_review import FileReview
from grader.gradebook.intake import Intake, ToJudge
from grader.gradebook.policy_file import policy_of
from grader.gradebook.refusals import refuse_other_course, refuse_other_ids
from grader.gradebook.review import OF_DOWNLOADS, Attention, most_pressing_first
from grader.gradebook.standing import NOT_YET
from grader.gradebook.verdicts import Kept, Question, Questions, Verdicts
from grader.grading import nothing_handed_in, unjudged
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import Pool, Task
from grader.results import ExerciseResult, Outcome, Status
from grader.submissions import ClassDownload


class BatchProgress:
    """Events of a batch; every method does nothing unless overridden."""

    def begin(self, students: int) -> None:
        """Called at the beginning, with the number of students."""

    def judged(self, student: str, result: ExerciseResult) -> None:
        """Called after a verdict is kept."""

    def done(self, student: str) -> None:
        """Called when all of a student's exercises have a verdict."""


class BatchSummary(msgspec.Struct, frozen=True):
    """The numbers of new and known verdicts of a batch, and entries for a person to look at.

    `attempts` are those of these `students` that may count, from earlier downloads, too.
    `undated` are students with several files for an exercise and an attempt without a time, so that the last
    file found counts. `older` are students with a newer attempt in the gradebook than in the download.
    """

    attempts: int
    students: int
    judged: int
    settled: int
    known: int
    attention: tuple[Attention, ...]
    undated: tuple[str, ...] = ()
    older: tuple[str, ...] = ()


class ScoreChange(msgspec.Struct, frozen=True):
    """A change that a regrading made to a student's exercise.

    `attempt` counts now; points include the policy and corrections. `tests` has each test whose outcome
    changed, with its outcomes before and now; None if the test did not exist.
    """

    student: str
    attempt: int
    exercise: str
    before: float
    after: float
    tests: tuple[tuple[str, Outcome | None, Outcome | None], ...]


def batch(
    download: ClassDownload,
    book: Gradebook,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    all_attempts: bool = False,
    progress: BatchProgress | None = None,
) -> BatchSummary:
    """Grade a class's download: each student's attempts that may count, or all of them.

    The gradebook keeps all of them, with their files. The policy and the times of all attempts, including
    earlier downloads, decide which one counts for an exercise.

    Raises SubmissionError, before anything is written, if the gradebook is another course's, or has most of
    these students under other ids.
    """
    refuse_other_course(book, course)
    refuse_other_ids(book, download)
    grading = _Batch(book, course, pool, options, progress or BatchProgress())
    with book.transaction():
        for student in download.missing:
            book.keep_student(student)
    students = itertools.groupby(download.attempts, key=lambda attempt: attempt.student.id)

    def read() -> Iterator[ToJudge]:
        for _, attempts in students:
            yield grading.intake.take_in(list(attempts), all_attempts=all_attempts)

    count = len({attempt.student.id for attempt in download.attempts})
    return grading.run(read(), count, [str(path) for path in download.paths])


def regrade(
    book: Gradebook,
    course: Course,
    pool: Pool,
    options: GradingOptions,
    *,
    progress: BatchProgress | None = None,
) -> BatchSummary:
    """Grade the files of a gradebook again, if a suite or the grader changed.

    Files without a verdict are judged, too, if they may count by the policy.

    Raises SubmissionError if the gradebook is another course's.
    """
    refuse_other_course(book, course)
    # No download is read again: files that were unreadable or misnamed stay listed.
    listed = [entry for entry in book.attention() if entry.kind in OF_DOWNLOADS]
    grading = _Batch(book, course, pool, options, progress or BatchProgress(), listed)
    absent = {student.id for student in book.absent()}
    students = [student for student in book.students() if student.id not in absent]
    return grading.run(map(grading.intake.in_gradebook, students), len(students))


class _Batch:
    """One grading on its way through the pool.

    The pool asks for a task when a judge is free. Only then are the next student's files read, so memory does
    not grow with the class. The verdict on each file is first looked up by its key. A file without one becomes
    a task, or joins the task of an equal file. When a student has all verdicts, the result is written.
    """

    def __init__(
        self,
        book: Gradebook,
        course: Course,
        pool: Pool,
        options: GradingOptions,
        progress: BatchProgress,
        listed: Iterable[Attention] = (),
    ) -> None:
        self._attention: list[Attention] = list(listed)
        self._book, self._course, self._pool = book, course, pool
        self._options, self._progress = options, progress
        self._questions = Questions(course, options)
        self.intake = Intake(book, course, self._questions.exercises)
        self._review = FileReview(book, course, self._questions.exercises)
        self._verdicts = Verdicts(book, course, options)
        # Files that wait for a verdict, by the verdict's key; and these keys by the numbers of their tasks.
        self._open: dict[str, list[tuple[Attempt, Question]]] = {}
        self._tasks_of: dict[int, str] = {}
        # The number of verdicts that each student waits for.
        self._missing: dict[str, int] = {}
        self._students: set[str] = set()
        self._attempts: set[int] = set()
        self._judged_now: set[str] = set()
        self._judged = self._settled = self._known = self._tasked = 0
        self._undated: list[str] = []
        self._older: list[str] = []
        # The results in the gradebook until the verdicts come.
        self._not_yet = {
            exercise.id: unjudged(course, exercise, options, NOT_YET, waiting=True)
            for exercise in self._questions.exercises
        }

    def run(
        self, students: Iterator[ToJudge], total: int, paths: Sequence[str] = ()
    ) -> BatchSummary:
        """Judge the students' files from the downloads at these `paths`, and end the grading.

        If the rules changed, write the results of all other students, too.
        """
        blank = nothing_handed_in(self._course, self._questions.exercises, self._options)
        policy = policy_of(self._course, self._book.facts.named_policy)
        is_other = self._book.begin(self._course, blank, policy, paths)
        self._progress.begin(total)
        for task, judged in self._pool.judged(self._tasks(students)):
            self._take(task, judged)
        entries = most_pressing_first(self._review.still_without_points(self._attention))
        # Keep entries about students who are not in this download.
        others = [
            entry for entry in self._book.facts.attention if entry.student not in self._students
        ]
        self._book.finish(most_pressing_first([*entries, *others]), paths)
        for student in self._book.students() if is_other else self._book.absent():
            if student.id not in self._students:
                self._book.write_result(student.id)
        self._book.mark_current()
        return BatchSummary(
            len(self._attempts),
            len(self._students),
            self._judged,
            self._settled,
            self._known,
            self._book.unanswered(entries),
            tuple(self._undated),
            tuple(self._older),
        )

    def _tasks(self, students: Iterator[ToJudge]) -> Iterator[Task]:
        """Yield tasks for the pool, student by student; keep the results that need no judge first."""
        while True:
            # One transaction: verdicts that need no judge are synced to the disk together.
            with self._book.transaction():
                if (asked := next(students, None)) is None:
                    return
                tasks = list(self._open_tasks(asked))
            if not self._missing[asked.student]:
                self._complete(asked.student)
            yield from tasks

    def _open_tasks(self, asked: ToJudge) -> Iterator[Task]:
        """Yield tasks for a student's files that need a judge, and keep the results of the others.

        If an equal file is being judged already, for example for the same team, the file waits for its verdict.
        """
        self._students.add(asked.student)
        self._missing[asked.student] = 0
        self._list(asked.student, asked.attention)
        self._undated += [asked.student] * asked.is_undated
        self._older += [asked.student] * asked.is_older
        for attempt, exercise, file in asked.files:
            self._attempts.add(attempt.id)
            question = self._questions.about(exercise, file)
            if (
                kept := self._verdicts.without_judge(attempt, question, self._judged_now)
            ) is not None:
                self._known += kept.is_known
                self._settled += not kept.is_known
                self._tell(attempt, kept)
                continue
            assert file.source is not None
            self._missing[asked.student] += 1
            self._verdicts.wait(attempt, question, self._not_yet[exercise.id])
            key = question.key.key
            if key in self._open:
                self._known += 1
                self._open[key].append((attempt, question))
                continue
            self._tasked += 1
            self._tasks_of[self._tasked] = key
            self._open[key] = [(attempt, question)]
            yield Task(self._tasked, exercise.id, file.source)

    def _take(self, task: Task, judged: Judgment | JudgeFault) -> None:
        """Keep a verdict for every file that waits for it; after a fault, the files are unjudged."""
        key = self._tasks_of.pop(task.number)
        waiting = self._open.pop(key)
        self._judged += 1
        self._judged_now.add(key)
        with self._book.transaction():
            for attempt, question in waiting:
                self._tell(attempt, self._verdicts.judged(attempt, question, judged))
        for attempt, _ in waiting:
            self._missing[attempt.student] -= 1
            if not self._missing[attempt.student]:
                self._complete(attempt.student)

    def _tell(self, attempt: Attempt, kept: Kept) -> None:
        if kept.attention:
            self._list(attempt.student, kept.attention)
        self._progress.judged(attempt.student, kept.result)

    def _list(self, student: str, entries: Iterable[Attention]) -> None:
        """List entries about a student, and keep them now, for a kill before the end of the grading."""
        self._attention += entries
        before = self._book.facts.attention
        own = [entry for entry in self._attention if entry.student == student]
        others = [entry for entry in before if entry.student != student]
        after = most_pressing_first([*others, *own])
        if after != before:
            self._book.change(attention=after)

    def _complete(self, student: str) -> None:
        del self._missing[student]
        self._book.write_result(student)
        self._progress.done(student)


def changes(book: Gradebook) -> Iterator[ScoreChange]:
    """Yield the changes that the last grading made, one for each student and exercise.

    Skips attempts that do not count, exercises that a fault of the grader left unjudged, and exercises without
    work, to which a change of the tests means nothing.
    """
    for student, group in itertools.groupby(book.replaced(), key=lambda verdict: verdict.student):
        verdicts = list(group)
        entries = book.entry_before(student, verdicts), book.entry_of(student)
        before, after = (
            {result.name: result for result in entry.result.exercises} if entry is not None else {}
            for entry in entries
        )
        for exercise in dict.fromkeys(verdict.after.name for verdict in verdicts):
            was, now = before.get(exercise), after.get(exercise)
            if was is None or now is None or now.status is Status.UNJUDGED:
                continue
            if was.score == now.score and not was.attempted and not now.attempted:
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
