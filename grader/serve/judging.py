"""The judges of a server: a thread for each takes jobs from the desk and brings verdicts back.

Theory of operation. Each thread asks the desk for the next job, has it judged, and asks the desk to keep the
verdict. In between, it holds no lock and no transaction. An idle thread waits for `wake`, which the routes call
after they queue a job, and also checks every few seconds. Hand-ins come first, then practice runs, then
regrades. If a hand-in comes and no thread is idle, `make_room` calls off a practice run, at once or when its
turn ends; an additional thread waits for the end of the turn.

There are two kinds of faults. If nothing can be judged (no sandbox, no worker of a cluster), the job goes back
to the queue. If nothing can be written (a full disk), the thread keeps the verdict and tries until there is
room. Both are reported in `fault`, for staff and health checks, and neither costs a student a point.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from grader.course.manifest import Course
from grader.course.suites import tests_of
from grader.errors import GraderError
from grader.exports.disclosure import may_be_timed
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import LocalPool, Task
from grader.results import TestResult
from grader.serve.desk import Desk, Taken
from grader.serve.practice import Practice, Run
from grader.serve.threads import CHANGED, CLASS, BookThread, Event, Hub
from grader.text import counted

if TYPE_CHECKING:
    # Dask is a separate extra.
    from grader.gradebook.cluster import ClusterJudges

log = logging.getLogger("grader.serve")
T = TypeVar("T")

# Idle threads look this often for jobs that another process queued, such as an earlier server.
_IDLE_SECONDS = 5.0
# The pause before another try on a full disk, or on a machine without sandboxes.
_AGAIN_SECONDS = 2.0


class Order(NamedTuple):
    """What a thread does next: judge `taken`, or else a practice run if it may, or nothing.

    `places` has the places of waiting jobs. `ended` has the attempts that got a known verdict meanwhile.
    """

    taken: Taken | None
    places: Mapping[tuple[int, str], int]
    may_practice: bool
    ended: list[int]


class Judging:
    """The threads that judge the jobs of the queue, from `start` until `close`."""

    def __init__(
        self,
        course: Course,
        options: GradingOptions,
        completer: LocalPool | ClusterJudges,
        judges: int,
        desk: BookThread[Desk],
        hub: Hub,
        practice: Practice,
        ended: Callable[[str, float], None],
    ) -> None:
        """Prepare `judges` threads, which give their tasks to the `completer`.

        `ended` is called with the exercise and the seconds of every judgment, from any thread.
        """
        self._course, self._options, self._desk, self._hub = course, options, desk, hub
        self._ended, self._practice = ended, practice
        self._judges = completer
        # For each exercise, the number of tests whose ends students see immediately.
        self._told = {
            exercise.id: sum(
                may_be_timed(test.visibility, course.disclose)
                for test in tests_of(course, exercise, options.suites)
            )
            for exercise in course.exercises
        }
        self._changed, self._version, self._idle = threading.Condition(), 0, 0
        # When the next turn of a practice run ends, if a hand-in waits for it.
        self._room_at = math.inf
        self._closing = threading.Event()
        self._count = judges
        self._threads = [
            threading.Thread(target=self._work, name=f"judge-{number}", daemon=True)
            for number in range(judges)
        ]
        self._room = threading.Thread(target=self._look_again, name="room", daemon=True)
        self._fault_of_judges = self._fault_of_disk = ""

    @property
    def fault(self) -> str:
        """The reason why jobs cannot be judged or kept now; empty if there is none."""
        lost = self._count - self.alive
        of_threads = (
            f"{counted(lost, 'judge')} ended by a fault, which is in the log." if lost else ""
        )
        return self._fault_of_disk or self._fault_of_judges or of_threads

    def start(self) -> None:
        """Start the threads."""
        for thread in (*self._threads, self._room):
            thread.start()

    @property
    def alive(self) -> int:
        """The number of running threads."""
        return sum(thread.is_alive() for thread in self._threads)

    def wake(self) -> None:
        """Wake idle threads, when a job was queued or judging may go on."""
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def make_room(self, urgent: int) -> None:
        """Wake the threads, and call off practice runs if too few are idle for `urgent` waiting hand-ins."""
        with self._changed:
            self._version += 1
            seconds = self._practice.make_room(urgent - self._idle)
            if seconds is not None:
                self._room_at = min(self._room_at, time.monotonic() + seconds)
            self._changed.notify_all()

    def _look_again(self) -> None:
        """Make room when a turn ends, if a hand-in still waits; the body of a thread."""

        def seconds() -> float:
            return self._room_at - time.monotonic()

        def is_due() -> bool:
            return seconds() <= 0 or self._closing.is_set()

        while True:
            with self._changed:
                while not is_due():
                    self._changed.wait(min(seconds(), threading.TIMEOUT_MAX))
                self._room_at = math.inf
            if self._closing.is_set() or (urgent := self._kept_trying(Desk.urgent)) is None:
                return
            self.make_room(urgent)

    def close(self, seconds: float) -> None:
        """Take no more jobs; let running ones end within `seconds`, and return others to the queue."""
        self._closing.set()
        self.wake()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        self._judges.close()
        for thread in (*self._threads, self._room):
            thread.join()

    def _work(self) -> None:
        """Take jobs until the server ends; the body of a thread."""
        try:
            # Start now, so that no student has to wait for it.
            self._judges.start()
        except GraderError as error:
            self._fault_of_judges = str(error)
            log.error("nothing can be judged", extra={"fault": str(error)})
        while not self._closing.is_set():
            version = self._version
            order = self._kept_trying(self._next)
            if order is None:
                return
            for attempt in order.ended:
                self._hub.tell(attempt, CHANGED)
            if self._closing.is_set():
                if order.taken is not None:
                    self._give_back(order.taken)
                return
            self._hub.tell_places(order.places)
            if order.taken is not None:
                self._judge(order.taken)
            elif order.may_practice:
                self._practice_if(version)
            else:
                self._rest(version)

    def _next(self, desk: Desk) -> Order:
        """Take the next job. Regrades wait for practice runs, and practice runs wait for hand-ins."""
        is_practice = bool(self._practice.waiting)
        return Order(
            taken=desk.take(regrades=not is_practice),
            places=desk.places(),
            may_practice=is_practice and not desk.is_paused,
            ended=desk.ended(),
        )

    def _practice_if(self, version: int) -> None:
        """Judge a practice run, unless something has changed since this version: it may be a hand-in."""
        with self._changed:
            # From here on `make_room` finds the run.
            run = self._practice.take() if self._version == version else None
        if run is not None:
            self._practice.tell_places()
            self._practice_with(run)

    def _practice_with(self, run: Run) -> None:
        """Judge a practice run; if it is called off, it waits again or is over."""
        try:
            judged = self._judges.complete(
                self._practice.task(run), self._progress_of(run), run.call_off
            )
        except GraderError as error:
            self._fault_of_judges = str(error)
            log.error("nothing can be judged", extra={"fault": str(error)})
            self._practice.give_back(run)
            self._closing.wait(_AGAIN_SECONDS)
            return
        self._fault_of_judges = ""
        if isinstance(judged, Judgment):
            self._practice.finish(run, judged.result)
        elif run.call_off.is_asked:
            self._practice.give_back(run)
        else:
            exercise = run.question.exercise.id
            log.warning("no verdict", extra={"exercise": exercise, "fault": judged.message})
            self._practice.finish(run, None)

    def _progress_of(self, run: Run) -> Callable[[TestResult], None]:
        """Return a function that reports the end of each test to the run's stream."""
        ended = 0

        def done(_: TestResult) -> None:
            nonlocal ended
            ended += 1
            self._hub.tell(run.topic, Event("test", {"ended": ended}))

        return done

    def _rest(self, version: int) -> None:
        """Wait a few seconds at most for a newer version."""

        def is_over() -> bool:
            return self._version != version or self._closing.is_set()

        with self._changed:
            self._idle += 1
            self._changed.wait_for(is_over, _IDLE_SECONDS)
            self._idle -= 1

    def _judge(self, taken: Taken) -> None:
        """Judge a job, and keep its verdict or put it back into the queue."""
        job, source, began = taken.job, taken.question.file.source, time.monotonic()
        assert source is not None, "a job has a file"
        self._hub.tell(job.attempt, CHANGED)
        try:
            judged = self._judges.complete(Task(0, job.exercise, source), self._progress(taken))
        except GraderError as error:
            # Nothing can be judged now, so this job waits with the others.
            self._fault_of_judges = str(error)
            log.error("nothing can be judged", extra={"fault": str(error)})
            self._give_back(taken)
            self._closing.wait(_AGAIN_SECONDS)
            return
        self._fault_of_judges = ""
        if isinstance(judged, JudgeFault):
            log.warning("no verdict", extra={"exercise": job.exercise, "fault": judged.message})
            if self._closing.is_set():
                self._give_back(taken)
                return
        if ended := self._kept_trying(lambda desk: desk.finish(taken, judged)):
            for attempt in ended:
                self._hub.tell(attempt, CHANGED)
            self._hub.tell(CLASS, CHANGED)
        self._ended(job.exercise, time.monotonic() - began)

    def _give_back(self, taken: Taken) -> None:
        self._kept_trying(lambda desk: desk.give_back(taken))
        self._hub.tell(taken.job.attempt, CHANGED)

    def _progress(self, taken: Taken) -> Callable[[TestResult], None]:
        """Return a function that reports the end of each test to the submission's stream."""
        exercise, ended = taken.job.exercise, 0

        def done(test: TestResult) -> None:
            nonlocal ended
            # The times when hidden tests end would reveal inputs on which the code is slow.
            if not may_be_timed(test.visibility, self._course.disclose):
                return
            ended += 1
            # Send only the number of ended tests; outcomes come with the verdict.
            progress: dict[str, str | int] = {"exercise": exercise, "ended": ended}
            progress["of"] = self._told[exercise]
            self._hub.tell(taken.job.attempt, Event("test", progress))

        return done

    def _kept_trying(self, question: Callable[[Desk], T]) -> T | None:
        """Ask the desk, and try again while the disk is full; return None if the server ends first."""
        while True:
            try:
                answer = self._desk.ask(question).result()
            except (sqlite3.Error, OSError, GraderError) as error:
                self._fault_of_disk = f"The gradebook cannot be written: {error}"
                log.error("the gradebook cannot be written", extra={"fault": str(error)})
            else:
                self._fault_of_disk = ""
                return answer
            if self._closing.wait(_AGAIN_SECONDS):
                return None
