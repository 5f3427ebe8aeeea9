"""The desk: accepts submissions, gives them to judges, and keeps verdicts. It is the gradebook's only writer.

Its `staff` is the desk for changes by staff (`staff_desk.py`).

Theory of operation. A client gets its answer after the data is on the disk: one transaction keeps a submission,
its files and jobs, and SQLite syncs it. A verdict and the end of its job are one transaction, too, so a kill
at any moment leaves each job waiting, running or done. Running jobs wait again when the server starts.
The desk is not thread-safe: only one thread calls it (`threads.py`).
"""

from __future__ import annotations

import contextlib
import logging
import math
import secrets
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from grader import submissions
from grader.course.manifest import Course, Exercise
from grader.errors import GraderError, SubmissionError
from grader.gradebook import (
    Attempt,
    Gradebook,
    drafts,
    invitations,
    platforms,
    queue,
    sessions,
    tokens,
)
from grader.gradebook.corrections_file import CorrectionsError
from grader.gradebook.facts import ClockChange
from grader.gradebook.file_review import FileReview
from grader.gradebook.intake import Intake
from grader.gradebook.platforms import Link, LinkKey, Platform, TurnedOn
from grader.gradebook.policy import Policy
from grader.gradebook.policy_file import policy_of
from grader.gradebook.queue import Job, JobState
from grader.gradebook.refusals import refuse_other_course
from grader.gradebook.requests import ask
from grader.gradebook.review import Reason
from grader.gradebook.standing import needed
from grader.gradebook.times import moment
from grader.gradebook.tokens import Role
from grader.gradebook.verdict_key import source_digest
from grader.gradebook.verdicts import Kept, Question, Questions, Verdicts, WaitingFile
from grader.gradebook.work import SERVER, Work
from grader.grading import nothing_handed_in
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.results import TEAM, StudentInfo
from grader.serve import hand_in
from grader.serve.gate import Gate
from grader.serve.http import Refusal
from grader.serve.staff_desk import StaffDesk
from grader.serve.teams import Teams
from grader.submissions import ExerciseFile, Submission
from grader.text import counted, utc

log = logging.getLogger("grader.serve")

_DAY_SECONDS = 86_400.0
# For a retry of files that a limit refused, when the limit has passed.
_NOT_THEN = hand_in.NotNow("It was not accepted at the first try: hand it in again.")
# The grader tries a job this often before it gives up.
_TRIES = 3
# Smaller differences come from adjusting the clock little by little.
_CLOCK_SECONDS = 60.0
_MAX_CLOCK_CHANGES = 10


class Taken(msgspec.Struct, frozen=True):
    """A job taken from the queue, and the question about its file."""

    job: Job
    question: Question


class Accepted(NamedTuple):
    """A submission that was kept, and why files of some exercises were not accepted."""

    submission: queue.Submission
    refused: Mapping[str, hand_in.NotNow] = MappingProxyType({})


class Desk:
    """Writes submissions and verdicts to the gradebook; `open` it before anything else."""

    def __init__(
        self,
        book: Gradebook,
        course: Course,
        options: GradingOptions,
        questions: Questions,
        students: Sequence[StudentInfo],
    ) -> None:
        self._book, self._course, self._options = book, course, options
        self._questions, self._students = questions, students
        self._gate, self._teams = Gate(course), Teams(course, students)
        self._verdicts = Verdicts(book, course, options)
        self._review = FileReview(book, course, questions.exercises)
        self.staff = StaffDesk(book, questions.exercises)
        self._policy = Policy()
        self._unwritten: set[str] = set()
        self._ended: list[int] = []
        # The last reading of the clock, and the uptime of the machine then.
        self._read_at = 0.0, 0.0
        # Waiting files by attempt and exercise.
        self._waiting: dict[tuple[int, str], WaitingFile] = {}

    def open(self) -> int:
        """Prepare the gradebook for this course and roster; return the number of jobs that wait again.

        Raises SubmissionError for the gradebook of another course, PolicyError for a wrong policy.
        """
        book = self._book
        refuse_other_course(book, self._course)
        if self._course.assignment is not None:
            book.assign(self._course)
        again = queue.prepare(book, [exercise.id for exercise in self._questions.exercises])
        tokens.prepare(book)
        drafts.prepare(book)
        sessions.prepare(book)
        platforms.prepare(book)
        invitations.prepare(book)
        # In a list of teams, an empty cell means that a student has left a team.
        has_teams = any(student.team for student in self._students)
        with book.transaction():
            for student in self._students:
                # A wrong row may have let somebody else in.
                if book.student(student.id) not in (None, student):
                    sessions.end_sessions(book, Role.STUDENT, student.id, time.time())
                book.keep_student(student, forget=(TEAM,) if has_teams else ())
        self._begin()
        # A killed server may have kept a verdict without writing the result.
        for student in book.students():
            book.write_result(student.id)
        book.mark_current()
        self._policy = book.policy
        self._read_at = queue.last_time(book), math.inf
        return again

    def _begin(self) -> None:
        blank = nothing_handed_in(self._course, self._questions.exercises, self._options)
        rules = policy_of(self._course, self._book.facts.named_policy)
        self._book.begin(self._course, blank, rules)
        # Between submissions the gradebook is finished, for other commands that read it.
        self._book.finish(self._book.facts.attention)

    # --- handing in -----------------------------------------------------------------------------

    def accept(self, student: StudentInfo, read: hand_in.Submission, retry_key: str) -> Accepted:
        """Keep a submission, synced to the disk when this returns.

        A `retry_key` seen before returns the earlier submission. Files for exams that have ended and files over
        a limit are not accepted; raises Refusal if no other file is left.
        """
        book = self._book
        with book.transaction():
            now = self._clock()
            # Extensions are in a file that a person writes; a mistake in it must not refuse work.
            with contextlib.suppress(CorrectionsError):
                self._policy = book.policy
            names = [each.exercise.id for each in read.questions]
            ended = self._after_exam(student, names, now)
            open_ones = [name for name in names if name not in ended]
            refused = {**ended, **self._too_often(student, open_ones, now)}
            if (earlier := queue.tried_before(book, student.id, retry_key)) is not None:
                whole = {question.exercise.id: question.file for question in read.questions}
                kept = self._refuse_other_files(earlier, whole)
                left = {n: refused.get(n, _NOT_THEN) for n in names if n not in kept}
                return Accepted(earlier, left)
            questions = read.without(refused).questions
            handed_in = {question.exercise.id: question.file for question in questions}
            found = submissions.Attempt(
                student=student, submitted_at=utc(now), origin=SERVER, path=Path(SERVER)
            )
            attempt = book.register(found, Submission(student.id, handed_in), whole=False)
            handed = queue.add_submission(book, student.id, attempt.id, retry_key, now)
            waiting = self._queue(student, attempt, questions, now)
            for name, file in read.odd.items():
                if file.source is None:
                    work, exercise = book.work(student), self._course.exercise(name)
                    about = self._review.about(work, attempt, exercise, file)
                    book.replace_attention(student.id, name, about)
            shared = [each for each in questions if self._teams.hands_in(each.exercise.id)]
            mates = self._teams.mates(student.id) if shared else []
            for mate in mates:
                # The student may have an extension while the exam has ended for others of the team.
                over = self._after_exam(mate, [each.exercise.id for each in shared], now)
                if theirs := [each for each in shared if each.exercise.id not in over]:
                    self._share(attempt, msgspec.structs.replace(found, student=mate), theirs, now)
        # Remember these only now that everything is on the disk.
        self._waiting |= waiting
        if len(waiting) < len(questions):
            for member in (student, *mates):
                self._write_result(member.id)
        return Accepted(handed, refused)

    def _queue(
        self, student: StudentInfo, attempt: Attempt, questions: Sequence[Question], now: float
    ) -> dict[tuple[int, str], WaitingFile]:
        """Queue the files of an attempt in place of older ones; return the files that wait."""
        waiting, done = {}, []
        for question in questions:
            name, state = question.exercise.id, JobState.DONE
            kept = self._verdicts.without_judge(attempt, question)
            if kept is None:
                state = JobState.WAITING
                waiting[attempt.id, name] = question.waiting()
            else:
                done.append((question, kept))
            queue.queue_job(self._book, attempt.id, name, state, now)
        self._look_at(attempt, done)
        names = [question.exercise.id for question in questions]
        self._replace_older(student, attempt.id, names, now)
        return waiting

    def _share(
        self,
        handed_in: Attempt,
        found: submissions.Attempt,
        questions: Sequence[Question],
        now: float,
    ) -> None:
        """Keep an attempt for another member of the team; it waits for the same verdicts."""
        book, student = self._book, found.student
        files = {question.exercise.id: question.file for question in questions}
        attempt = book.register(found, Submission(student.id, files), whole=False)
        queue.share(book, attempt.id, handed_in.id)
        queue.add_submission(book, student.id, attempt.id, secrets.token_hex(16), now)
        self._queue(student, attempt, questions, now)

    def _clock(self) -> float:
        """Return the time; note for staff if the clock was set meanwhile. Call it within a transaction."""
        now, running = time.time(), _running_seconds()
        before, ran_before = self._read_at
        self._read_at = now, running
        # For the time when no server ran, only a clock that was set back can be noticed.
        passed = max(running - ran_before, 0.0)
        seconds = now - before - passed
        if abs(seconds) > _CLOCK_SECONDS and (seconds < 0 or ran_before < math.inf):
            log.warning("the clock was set", extra={"seconds": round(seconds)})
            change = ClockChange(utc(now), round(seconds))
            changes = (*self._book.facts.clock, change)[-_MAX_CLOCK_CHANGES:]
            self._book.change(clock=changes)
        return now

    def _refuse_other_files(
        self, known: queue.Submission, files: Mapping[str, ExerciseFile]
    ) -> Collection[str]:
        """Return the exercises of a submission; raises Refusal unless its files are among these."""
        kept = self._book.files_of(known.attempt)
        before = {
            name: source_digest(file) for name, file in kept.items() if file.source is not None
        }
        if not before.items() <= {n: source_digest(file) for n, file in files.items()}.items():
            raise Refusal(
                422, "Other files were handed in with this Idempotency-Key: use a new one."
            )
        return before

    def _after_exam(
        self, student: StudentInfo, exercises: Iterable[str], now: float
    ) -> dict[str, hand_in.NotNow]:
        """Return why files of exams that have ended are not accepted; an extension moves the end."""
        ended: dict[str, hand_in.NotNow] = {}
        for exercise in filter(self._gate.is_exam, exercises):
            deadline = self._policy.deadline(student, exercise)
            if deadline is not None and now > deadline.until.timestamp():
                end = moment(utc(deadline.until), self._policy.rules.timezone)
                ended[exercise] = hand_in.NotNow(f"The exam ended at {end}.")
        return ended

    def _too_often(
        self, student: StudentInfo, exercises: Iterable[str], now: float
    ) -> dict[str, hand_in.NotNow]:
        """Return why exercises cannot be handed in again yet.

        For an exercise of teams, the limits hold for each member; the longest wait decides.
        """
        mates = [mate.id for mate in self._teams.mates(student.id)]
        found: dict[str, hand_in.NotNow] = {}

        def keep(exercise: str, why: str, wait: int) -> None:
            if exercise not in found or wait > found[exercise].wait:
                found[exercise] = hand_in.NotNow(f"{exercise} was handed in {why}", wait)

        for member, exercise in (
            (member, name)
            for name in exercises
            for member in (student.id, *(mates if self._teams.hands_in(name) else ()))
        ):
            rules = self._policy.rules_of(exercise)
            most, pause = rules.most_in_a_day, rules.cool_down.total_seconds()
            # Times in the future are from before the clock was set back, and do not count.
            times = queue.times_of(self._book, member, exercise, now - _DAY_SECONDS, now)
            if times and now - times[-1] < pause:
                wait = math.ceil(times[-1] + pause - now)
                keep(exercise, f"a moment ago; wait {counted(wait, 'second')}.", wait)
            if len(times) >= most:
                wait = math.ceil(times[-most] + _DAY_SECONDS - now)
                often = counted(most, "time")
                keep(exercise, f"{often} within 24 hours, the limit.", max(wait, 1))
        return found

    def _replace_older(
        self, student: StudentInfo, attempt: int, exercises: Iterable[str], now: float
    ) -> None:
        """Replace older files that still wait, unless the policy needs their verdicts.

        While the file of corrections has a mistake, none is replaced.
        """
        work = None
        for exercise in exercises:
            older = {*queue.waiting_of(self._book, student.id, exercise)} - {attempt}
            if older:
                work = work or self._book.work(student)
                try:
                    rules = self._book.rules()
                except CorrectionsError:
                    return
                older -= {a.id for a in needed(work, rules, exercise)}
            for waiting in older:
                queue.replace_job(self._book, waiting, exercise, now)
                self._waiting.pop((waiting, exercise), None)

    def _look_at(self, attempt: Attempt, done: Sequence[tuple[Question, Kept]]) -> None:
        """List results for staff to look at, if there is a reason."""
        listed = [e for e in self._book.facts.attention if e.student == attempt.student]
        student = self._book.student(attempt.student)
        work: Work | None = None
        for question, kept in done:
            name, entries = question.exercise.id, list(kept.attention)
            before = [entry for entry in listed if name in entry.exercises]
            if student is not None and (before or not kept.result.score):
                work = work or self._book.work(student)
                newest = next((each for each, _ in reversed(work.sources(name))), attempt)
                is_newest = question.file.source is None or newest.id == attempt.id
                if not is_newest and newest.number > attempt.number:
                    # The entries of the newer file stay. That this one timed out costs nothing any more.
                    entries = [e for e in entries if e.kind not in (Reason.TIMEOUT, Reason.FAULT)]
                    entries += [
                        msgspec.structs.replace(entry, exercises=(name,))
                        for entry in before
                        if entry.kind is not Reason.NO_POINTS
                    ]
                elif odd := [entry for entry in before if entry.kind is Reason.ODD_CODE]:
                    held = self._held_in_others(work, attempt, name)
                    entries += [
                        msgspec.structs.replace(entry, exercises=(name,))
                        for entry in odd
                        if entry.what in held
                    ]
                if not kept.result.score or Reason.NO_POINTS in {entry.kind for entry in before}:
                    # A newer file may have had its verdict before this one.
                    of = attempt if is_newest else newest
                    file = question.file if is_newest else self._book.files_of(of.id)[name]
                    entries += self._review.about(work, of, question.exercise, file)
            self._book.replace_attention(attempt.student, name, dict.fromkeys(entries))

    def _held_in_others(self, work: Work, attempt: Attempt, exercise: str) -> set[str]:
        """Return the odd code in other attempts that may count, such as the best one."""
        try:
            others = needed(work, self._book.rules(), exercise)
        except CorrectionsError:
            others = list(work.attempts)
        verdicts = work.verdicts.get(exercise, {})
        ids = {other.id for other in others} & verdicts.keys() - {attempt.id}
        return {reason for id_ in ids for reason in verdicts[id_].result.held}

    # --- drafts ---------------------------------------------------------------------------------

    def save_draft(
        self, student: str, exercise: str, source: bytes, revision: int, *, keep: bool
    ) -> drafts.Draft:
        """Keep a draft based on this revision, synced to the disk when this returns.

        Raises Refusal if there is a newer draft with another text, for instance from another tab.
        """
        with self._book.transaction():
            before = drafts.draft_of(self._book, student, exercise)
            if before is not None and before.revision != revision and before.source != source:
                raise Refusal(409, "A newer draft was saved in another tab or on another machine.")
            now = time.time()
            return drafts.save_draft(self._book, student, exercise, source, now, keep=keep)

    # --- regrade requests -----------------------------------------------------------------------

    def ask(self, student: str, exercise: str, message: str) -> None:
        """Keep a regrade request; raises Refusal if it is unfit, or another is open."""
        earlier = self._book.tables.requests_of(student)
        if any(request.exercise == exercise and request.is_open for request in earlier):
            raise Refusal(429, f"Your last request about {exercise} has no answer yet.")
        try:
            ask(self._book, student, exercise, message, SERVER)
        except SubmissionError as error:
            raise Refusal(422, str(error)) from error

    # --- sessions and launches ------------------------------------------------------------------

    def start_session(self, role: Role, name: str, origin: str, seconds: float) -> str:
        """Start a session for a person who signed in at the `origin`; return its token."""
        now = time.time()
        with self._book.transaction():
            return sessions.start_session(self._book, role, name, origin, now, now + seconds)

    def keep_launch(self, link: Link, user: str, student: str) -> None:
        """Keep the link of a valid launch, and the student, if any, who is the platform's user."""
        with self._book.transaction():
            platforms.keep_launch(self._book, link, user, student)

    def use_invitation(self, secret: str) -> bool:
        """Use up the one-time address for a platform; return whether it was valid."""
        with self._book.transaction():
            return invitations.use(self._book, secret, time.time())

    def keep_waiting(self, platform: Platform) -> None:
        """Keep a platform that registered itself, until a person confirms it."""
        with self._book.transaction():
            invitations.keep_waiting(self._book, platform)

    def end_session(self, token: str) -> None:
        """End a session, if there is one with this token."""
        with self._book.transaction():
            sessions.end_session(self._book, token)

    # --- judging --------------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether judges get no jobs."""
        return self._book.facts.is_paused

    def take(self, *, regrades: bool = True) -> Taken | None:
        """Take the next job for a judge, None if there is none now; without `regrades`, only hand-ins."""
        book = self._book
        while True:
            with book.transaction():
                if self.is_paused:
                    return None
                job = queue.take_job(book, time.time(), regrades=regrades)
                if job is None:
                    return None
                question, attempt = self._question(job), self._book.attempt(job.attempt)
                # The same file may have been judged for another student since it was handed in.
                kept = self._verdicts.without_judge(attempt, question)
                if kept is None:
                    return Taken(job, question)
                ended = self._end(job, question)
            for each in ended:
                self._write_result(each.student)
            self._ended += [each.attempt for each in ended]

    def ended(self) -> list[int]:
        """Return the attempts with jobs that `take` ended by a known verdict since the last call."""
        ended, self._ended = self._ended, []
        return ended

    def _question(self, job: Job) -> Question:
        """Return the question about a job's file, handed in to this server or an earlier one."""
        file = self._book.files_of(job.attempt)[job.exercise]
        waiting = self._waiting.pop((job.attempt, job.exercise), None)
        return self._questions.about(self._course.exercise(job.exercise), file, waiting)

    def finish(self, taken: Taken, judged: Judgment | JudgeFault) -> list[int]:
        """Keep a verdict, for all members of a team; return the attempts whose job ended.

        Without a verdict, the job waits again, a few times.
        """
        job, question = taken.job, taken.question
        with self._book.transaction():
            if isinstance(judged, JudgeFault) and job.faults + 1 < _TRIES:
                queue.give_back(self._book, job, fault=True)
                return []
            ended = self._end(job, question, judged)
        for each in ended:
            self._write_result(each.student)
        return [each.attempt for each in ended]

    def _end(
        self, job: Job, question: Question, judged: Judgment | JudgeFault | None = None
    ) -> list[Job]:
        """Keep a verdict for a job and for the jobs that wait for it; without `judged`, the known verdict.

        Returns the jobs that ended.
        """
        waiting = queue.shared_jobs(self._book, job.attempt)
        ended = []
        for each in (job, *(other for other, _ in waiting if other.exercise == job.exercise)):
            attempt = self._book.attempt(each.attempt)
            if judged is None:
                kept = self._verdicts.without_judge(attempt, question)
            else:
                kept = self._verdicts.judged(attempt, question, judged)
            if kept is not None:
                self._look_at(attempt, [(question, kept)])
                queue.end_job(self._book, each, time.time())
                ended.append(each)
        return ended

    def _write_result(self, student: str) -> None:
        """Write a student's result file. On a full disk it is written later: the gradebook has the result."""
        self._unwritten.add(student)
        try:
            for name in sorted(self._unwritten):
                self._book.write_result(name)
                self._unwritten.discard(name)
        except GraderError as error:
            # The text of the error names the student.
            log.error("a result cannot be written", extra={"fault": str(error.__cause__)})

    def give_back(self, taken: Taken) -> None:
        """Let a job wait again, because this server ends before the verdict."""
        with self._book.transaction():
            queue.give_back(self._book, taken.job, fault=False)

    def urgent(self) -> int:
        """Return the number of waiting jobs from hand-ins."""
        counts = queue.counts(self._book)
        return counts.waiting - counts.regrades

    def places(self) -> dict[tuple[int, str], int]:
        """Return the places in the queue, from 1, by attempt and exercise."""
        places = {
            (job.attempt, job.exercise): place
            for place, job in enumerate(queue.in_order(self._book), 1)
        }
        for job, handed_in in queue.shared_jobs(self._book):
            if (place := places.get((handed_in, job.exercise))) is not None:
                places[job.attempt, job.exercise] = place
        return places

    # --- pausing and regrading ------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        """Pause or resume judging."""
        self._book.change(is_paused=paused)

    def pass_back(self, key: LinkKey, author: str, *, on: bool) -> None:
        """Turn pass-back on or off for a link of a platform."""
        with self._book.transaction():
            if on:
                platforms.turn_on(self._book, key, TurnedOn(author, utc()))
            else:
                platforms.turn_off(self._book, key)

    def begin_regrade(self) -> list[str]:
        """Begin a regrade; return the students who handed in something, for `regrade`."""
        self._begin()
        return self.students_with_work()

    def students_with_work(self) -> list[str]:
        """Return the students who handed in something, by id."""
        absent = {student.id for student in self._book.absent()}
        return [student.id for student in self._book.students() if student.id not in absent]

    def to_regrade(self, student: str, exercises: Sequence[Exercise]) -> list[tuple[int, str]]:
        """Return the attempt and exercise of each file to judge again, as in a batch.

        The suite or the grader changed since its verdict, or it timed out.
        """
        info = self._book.student(student)
        if info is None:
            return []
        kept = Intake(self._book, self._course, exercises).in_gradebook(info)
        return [
            (attempt.id, exercise.id)
            for attempt, exercise, file in kept.files
            if file.source is not None
            and not self._verdicts.is_final(attempt, self._questions.about(exercise, file))
        ]

    def regrade(self, student: str, exercises: Sequence[Exercise]) -> int:
        """Queue a student's files to judge again, behind all submissions; return their number."""
        found, now = self.to_regrade(student, exercises), time.time()
        with self._book.transaction():
            for attempt, exercise in found:
                queue.queue_job(self._book, attempt, exercise, JobState.WAITING, now, priority=1)
        return len(found)


def _running_seconds() -> float:
    """Return the uptime, which nobody can set; on Linux it includes sleep."""
    if sys.platform == "linux":
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
