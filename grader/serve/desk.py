"""The desk: takes submissions in, gives them to judges, and keeps verdicts, all in the gradebook's one writer.

Theory of operation. What a client is answered is on the disk: a submission is accepted in one transaction,
files, attempt and jobs together, and SQLite syncs it before the answer. A verdict and the end of its job are
one transaction, too, so that a kill at any moment leaves each job waiting, running or done; what was running
waits again when the server starts. Nothing here is safe for threads: one thread calls it (`threads.py`).
"""

from __future__ import annotations

import contextlib
import datetime
import logging
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from grader import submissions
from grader.course.manifest import Course, Exercise
from grader.errors import GraderError, SubmissionError
from grader.gradebook import Attempt, Keeper, queue
from grader.gradebook.intake import (
    Asking,
    Question,
    Questions,
    is_final,
    is_stub_after_work,
    refuse_other_course,
)
from grader.gradebook.policy import Policy
from grader.gradebook.policy_file import policy_of
from grader.gradebook.queue import Handed, Job, JobState
from grader.gradebook.requests import answer, ask, numbered
from grader.gradebook.review import attention, passed_over, stub_after_work
from grader.gradebook.standing import needed
from grader.gradebook.verdict_key import VerdictKey, source_digest
from grader.gradebook.work import SERVER
from grader.grading import environment_of, nothing_handed_in, unjudged, version_of
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import Environment, ExerciseResult, StudentInfo
from grader.serve.hand_in import HandedFile, HandIn
from grader.serve.http import Refusal
from grader.submissions import ExerciseFile, Submission
from grader.text import counted

log = logging.getLogger("grader.serve")

_DAY_SECONDS = 86_400.0
# Where the policy sets no number. Each verdict tells a little of the hidden tests (docs/security.md).
MOST_SUBMISSIONS = 50
# So often a job that the grader has a fault with is tried.
_TRIES = 3
# What is slower than this is a clock that is put right a little at a time.
_CLOCK_SECONDS = 60.0


class Taken(msgspec.Struct, frozen=True):
    """A job that is to be judged, and its file."""

    job: Job
    question: Question


class Desk:
    """Writes to the gradebook what is handed in and judged; `open` it before anything else."""

    def __init__(
        self,
        keeper: Keeper,
        course: Course,
        options: GradingOptions,
        questions: Questions,
        students: Sequence[StudentInfo],
    ) -> None:
        self._keeper, self._book, self._store = keeper, keeper.book, keeper.book.store
        self._course, self._options = course, options
        self._questions, self._students = questions, students
        self._here, self._torch = environment_of("", ()), version_of("torch")
        self._policy = Policy()
        self._unwritten: set[str] = set()
        # What the clock said last, and how long the machine had been running.
        self._read_at = 0.0, 0.0
        # What was found out of a file when it was handed in, which takes longer than to keep it.
        self._known: dict[tuple[int, str], tuple[VerdictKey, tuple[str, ...]]] = {}

    def open(self) -> int:
        """Make the gradebook that of this course and roster; returns how many jobs wait again.

        Raises SubmissionError for the gradebook of another course, PolicyError for a wrong policy.
        """
        keeper = self._keeper
        refuse_other_course(self._book, self._course)
        if self._course.assignment is not None:
            keeper.assign(self._course)
        again = queue.prepare(self._store, [exercise.id for exercise in self._questions.exercises])
        with keeper.transaction():
            for student in self._students:
                keeper.keep_student(student)
        self._begin()
        # One that was killed may have kept a verdict and not written the result.
        for student in self._book.students():
            keeper.write_result(student.id)
        keeper.settled()
        self._policy = self._book.policy
        self._read_at = queue.last_time(self._store), math.inf
        return again

    def _begin(self) -> None:
        blank = nothing_handed_in(self._course, self._questions.exercises, self._options)
        text = policy_of(self._course, self._book.named_policy)
        self._keeper.begin(self._course, blank, text)
        # Between two submissions it is at its end, for other commands that read it.
        self._keeper.finish(self._book.noted())

    # --- what is handed in ----------------------------------------------------------------------

    def accept(self, student: StudentInfo, read: HandIn, retry_key: str) -> Handed:
        """Keep a submission, synced to the disk when this returns.

        With the key of an earlier one it is that one. Raises Refusal for one too many.
        """
        keeper, store, files = self._keeper, self._store, read.files
        handed_in = {file.question.exercise.id: file.question.file for file in files}
        with keeper.transaction():
            if (earlier := queue.tried_before(store, student.id, retry_key)) is not None:
                self._refuse_other_files(earlier, handed_in)
                return earlier
            now = self._clock()
            self._refuse_too_often(student, handed_in, now)
            found = submissions.Attempt(
                student=student, submitted_at=iso(now), origin=SERVER, path=Path(SERVER)
            )
            attempt = keeper.register(found, Submission(student.id, handed_in), whole=False)
            handed = queue.add_submission(store, student.id, attempt.id, retry_key, now)
            waiting = {}
            for question, settled in files:
                name, state = question.exercise.id, JobState.DONE
                if not self._is_answered(attempt, question, settled):
                    state = JobState.WAITING
                    waiting[attempt.id, name] = question.key, question.held
                queue.queue_job(store, attempt.id, name, state, now)
            self._replace_older(student, attempt.id, handed_in, now)
            for name, file in read.odd.items():
                if file.source is None:
                    has_earlier = any(store.digests_of(student.id).get(name, {}).values())
                    about = student.id, self._course.exercise(name), file
                    keeper.look_at(student.id, name, passed_over(*about, earlier=has_earlier))
            work = self._book.work(student)
            for question, settled in files:
                exercise = question.exercise
                if settled is not None and is_stub_after_work(
                    self._course, exercise, question.file, work, self._book.rules
                ):
                    entry = stub_after_work(student.id, exercise)
                    keeper.look_at(student.id, exercise.id, [entry])
        # In memory alone, and not before all of it is on the disk.
        self._known |= waiting
        if len(waiting) < len(files):
            self._write_result(student.id)
        return handed

    def _clock(self) -> float:
        """Read the clock; where it was set meanwhile, staff is told. Within a transaction."""
        now, running = time.time(), _running_seconds()
        before, ran_before = self._read_at
        self._read_at = now, running
        # Of the time before this server started only a clock that was set back is known.
        passed = max(running - ran_before, 0.0)
        seconds = now - before - passed
        if abs(seconds) > _CLOCK_SECONDS and (seconds < 0 or ran_before < math.inf):
            log.warning("the clock was set", extra={"seconds": round(seconds)})
            queue.keep_clock_change(self._store, queue.ClockChange(iso(now), round(seconds)))
        return now

    def _refuse_other_files(self, known: Handed, files: Mapping[str, ExerciseFile]) -> None:
        kept = self._store.files_of(known.attempt)
        before = {
            name: source_digest(file) for name, file in kept.items() if file.source is not None
        }
        if before != {name: source_digest(file) for name, file in files.items()}:
            raise Refusal(
                422, "Other files were handed in with this Idempotency-Key: take a new one."
            )

    def _refuse_too_often(self, student: StudentInfo, exercises: Iterable[str], now: float) -> None:
        """Raise Refusal for an exercise that was handed in a moment ago, or too often within 24 hours."""
        rules = self._policy.rules
        most, pause = rules.most_submissions or MOST_SUBMISSIONS, rules.cool_down.total_seconds()
        for exercise in exercises:
            # One from the future was accepted before the clock was set back, and does not count.
            times = queue.times_of(self._store, student.id, exercise, now - _DAY_SECONDS, now)
            if times and now - times[-1] < pause:
                wait = math.ceil(times[-1] + pause - now)
                sentence = f"{exercise} was handed in a moment ago; wait {counted(wait, 'second')}."
                raise Refusal(429, sentence, retry_after=wait)
            if len(times) >= most:
                wait = math.ceil(times[-most] + _DAY_SECONDS - now)
                often = counted(most, "time")
                sentence = f"{exercise} was handed in {often} within 24 hours, which is the most."
                raise Refusal(429, sentence, retry_after=max(wait, 1))

    def _replace_older(
        self, student: StudentInfo, attempt: int, exercises: Iterable[str], now: float
    ) -> None:
        """What still waits is not judged any more, unless the policy needs it to tell what counts."""
        work = None
        for exercise in exercises:
            older = {*queue.waiting_of(self._store, student.id, exercise)} - {attempt}
            if older:
                work = work or self._book.work(student)
                older -= {a.id for a in needed(work, self._book.rules, exercise)}
            for waiting in older:
                queue.replace_job(self._store, waiting, exercise, now)
                self._known.pop((waiting, exercise), None)

    def _is_answered(
        self, attempt: Attempt, question: Question, settled: ExerciseResult | None
    ) -> bool:
        """Whether the verdict was made for another attempt, or needs no judge; then it is kept."""
        verdict = self._store.verdict(question.key.key)
        if verdict is not None and is_final(verdict):
            self._keep(attempt, question, verdict.result, verdict.environment)
        elif settled is not None:
            self._keep(attempt, question, settled, self._here)
        else:
            return False
        return True

    def _keep(
        self,
        attempt: Attempt,
        question: Question,
        result: ExerciseResult,
        environment: Environment,
    ) -> None:
        result, seed = question.answered_by(result), self._options.seed
        self._keeper.keep(attempt, question.key, seed, result, environment)
        exercise = question.exercise
        entries = attention(attempt.student, exercise, question.file, result)
        self._keeper.look_at(attempt.student, exercise.id, entries)

    # --- what is asked --------------------------------------------------------------------------

    def ask(self, student: str, exercise: str, message: str) -> None:
        """Keep a regrade request; raises Refusal for one that cannot be taken, and while one is open."""
        of_student = self._store.requests_of(student)
        if any(request.exercise == exercise and request.is_open for request in of_student):
            raise Refusal(429, f"Your last request about {exercise} has no answer yet.")
        with _refusing():
            ask(self._keeper, student, exercise, message, SERVER)

    def answer(self, number: int, text: str, author: str) -> None:
        """Answer a regrade request; raises Refusal where there is none, or the answer is empty."""
        with _refusing():
            answer(self._keeper, numbered(self._book.requests(), number), text, author)

    # --- what is judged -------------------------------------------------------------------------

    def take(self) -> Taken | None:
        """The next job for a judge; None where there is none now."""
        keeper, store = self._keeper, self._store
        while True:
            with keeper.transaction():
                if queue.is_paused(store):
                    return None
                if (job := queue.take_job(store, time.time())) is None:
                    return None
                question, settled = self._handed(job)
                # The same file may have been judged for another student since it was handed in.
                if not self._is_answered(_attempt_of(job), question, settled):
                    return Taken(job, question)
                queue.end_job(store, job, time.time())
            self._write_result(job.student)

    def _handed(self, job: Job) -> HandedFile:
        """The file of a job, as it was handed in to this server or an earlier one."""
        exercise = self._course.exercise(job.exercise)
        file = self._store.files_of(job.attempt)[job.exercise]
        if (known := self._known.pop((job.attempt, job.exercise), None)) is not None:
            return HandedFile(Question(exercise, file, *known), None)
        question = self._questions.about(exercise, file)
        return HandedFile(question, self._questions.settled(question))

    def finish(self, taken: Taken, judged: Judgment | JudgeFault) -> bool:
        """Keep the verdict of a job; return False if a fault lets the job wait again."""
        job, question, store = taken.job, taken.question, self._store
        with self._keeper.transaction():
            if isinstance(judged, Judgment):
                result, walls = judged.result, judged.walls
            elif job.faults + 1 < _TRIES:
                queue.give_back(store, job, fault=True)
                return False
            else:
                fault = judged.message
                result, walls = unjudged(self._course, question.exercise, self._options, fault), ()
            self._keep(_attempt_of(job), question, result, environment_of(self._torch, walls))
            queue.end_job(store, job, time.time())
        self._write_result(job.student)
        return True

    def _write_result(self, student: str) -> None:
        """Write what counts of a student as a file, or later, where there is no room: the gradebook has it."""
        self._unwritten.add(student)
        try:
            for name in sorted(self._unwritten):
                self._keeper.write_result(name)
                self._unwritten.discard(name)
        except GraderError as error:
            # Its text names the student.
            log.error("a result cannot be written", extra={"fault": str(error.__cause__)})

    def give_back(self, taken: Taken) -> None:
        """The server ends before the verdict: the job waits for the next one."""
        with self._keeper.transaction():
            queue.give_back(self._store, taken.job, fault=False)

    def places(self) -> dict[tuple[int, str], int]:
        """The place in the queue, from 1, of each exercise of an attempt that waits."""
        return {
            (job.attempt, job.exercise): place
            for place, job in enumerate(queue.in_order(self._store), 1)
        }

    # --- what staff asks for --------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        """Give no more jobs to judges, or go on."""
        with self._keeper.transaction():
            queue.pause(self._store, paused=paused)

    def begin_regrade(self) -> list[str]:
        """Begin a regrading; returns the students to ask about, who handed in something."""
        self._begin()
        absent = {student.id for student in self._book.absent()}
        return [student.id for student in self._book.students() if student.id not in absent]

    def regrade(self, student: str, exercises: Sequence[Exercise]) -> int:
        """Queue what a changed suite may judge otherwise, behind all that students wait for: how many."""
        keeper, now, count = self._keeper, time.time(), 0
        info = self._store.student(student)
        if info is None:
            return 0
        asked = Asking(keeper, self._course, exercises).kept(info)
        with keeper.transaction():
            for attempt, exercise, file in asked.files:
                key = self._questions.about(exercise, file).key.key
                if file.source is None or self._store.has_verdict(attempt.id, exercise.id, key):
                    continue
                queue.queue_job(
                    self._store, attempt.id, exercise.id, JobState.WAITING, now, priority=1
                )
                count += 1
        return count


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """Tell the client what is wrong with a request or an answer."""
    try:
        yield
    except SubmissionError as error:
        raise Refusal(422, str(error)) from error


def _running_seconds() -> float:
    """How long the machine has been running, which nobody can set; on Linux with the time that it slept."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def _attempt_of(job: Job) -> Attempt:
    """The attempt of a job, as far as it has to be known to keep a verdict on it."""
    return Attempt(job.attempt, job.student, 0)


def iso(seconds: float) -> str:
    """A time in ISO 8601, in UTC."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
