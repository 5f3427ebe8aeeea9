"""Practice: judge a student's file with the public tests, at once if a judge is free, without keeping anything.

Theory of operation. Practice runs are not attempts. They have their own queue, in memory, which is lost when
the server ends. A judge takes a run when no hand-in waits. If a hand-in finds all judges busy, it calls off a
practice run, which goes back to the head of its queue. A run may be called off only after its turn: a second at
first, and twice as long after each call-off. Otherwise, a steady stream of hand-ins would call off every run
before its end and waste the work. Only one run at a time has a longer turn than a second, so the other judges
are soon free for hand-ins. A student has one run, the newest, waiting or running. Walls and time limits are the
same as for a hand-in. The seed is the one of `grade run`, since public tests print drawn values, which must not
reveal the seed of the hidden tests.

Threads of judges and the event loop call this.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque

import msgspec

from grader.course.manifest import Course, Exercise
from grader.gradebook.verdicts import Question, Questions
from grader.judge.assignment import GradingOptions
from grader.judge.pool import CallOff, Task
from grader.results import ExerciseResult, Visibility
from grader.serve.http import Refusal
from grader.serve.stuck import Stuck
from grader.serve.threads import Event, Hub
from grader.serve.turns import Rate
from grader.submissions import ExerciseFile
from grader.text import counted

# Per student, for all exercises together.
MAX_RUNS, RUNS_SECONDS = 60, 600
# The first turn of a run, doubled after each call-off, up to the longest.
TURN_SECONDS, LONGEST_TURN_SECONDS = 1.0, 8.0
# The last event of a stream.
ENDED = Event("ended")


class Run:
    """One practice run; `result` is None until it is judged.

    A run that is over without a result was `replaced` by a newer one, or met a fault of the grader.
    """

    def __init__(self, topic: int, student: str, question: Question) -> None:
        self.topic, self.student, self.question = topic, student, question
        self.result: ExerciseResult | None = question.settled
        self.replaced = self.is_over = False
        # The last place in the queue that was sent to the student.
        self.place = 0
        self.call_off = CallOff()
        self.begun_at, self.times_called_off = 0.0, 0


class Practice:
    """The waiting and running practice runs."""

    def __init__(self, course: Course, options: GradingOptions, hub: Hub) -> None:
        self._course, self._hub = course, hub
        self.options = msgspec.structs.replace(options, suites=(Visibility.PUBLIC,), seed=0)
        self._questions = Questions(course, self.options)
        self._lock = threading.Lock()
        self._waiting: deque[Run] = deque()
        self._running: list[Run] = []
        self._rate = Rate(MAX_RUNS, RUNS_SECONDS)
        self.stuck = Stuck()
        # Topics of the class and of attempts are not negative.
        self._topics = itertools.count(-1, -1)

    # --- the event loop -------------------------------------------------------------------------

    def admit(self, student: str, exercise: Exercise) -> None:
        """Count a run of a student; raises Refusal if there are too many, or no public test."""
        if Visibility.PUBLIC not in self._course.suites(exercise):
            raise Refusal(422, f"{exercise.id} has no public tests: hand it in.")
        if wait := self._rate.wait(student):
            raise Refusal(
                429,
                f"The limit is {MAX_RUNS} runs in {RUNS_SECONDS // 60} minutes. Wait "
                f"{counted(wait, 'second')}.",
                retry_after=wait,
            )
        self._rate.add(student)

    def run_of(self, student: str, exercise: Exercise, source: bytes) -> Run:
        """Return a run that is not queued; if it needs no judge, it has its result. For any thread."""
        question = self._questions.about(exercise, ExerciseFile(source))
        question.prepare()
        return Run(next(self._topics), student, question)

    def add(self, run: Run) -> None:
        """Queue a run, which replaces an earlier one of its student."""
        with self._lock:
            for other in (*self._waiting, *self._running):
                if other.student == run.student:
                    other.replaced = True
                    self._end(other)
            self._waiting.append(run)
        self.tell_places()

    def leave(self, run: Run) -> None:
        """Drop a run whose student no longer listens."""
        with self._lock:
            self._end(run)
        self.tell_places()

    # --- judges ---------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """The number of waiting runs."""
        return len(self._waiting)

    def take(self) -> Run | None:
        """Take the next run; None if there is none."""
        with self._lock:
            if not self._waiting:
                return None
            run = self._waiting.popleft()
            run.call_off, run.place, run.begun_at = CallOff(), 0, time.monotonic()
            self._running.append(run)
            return run

    def task(self, run: Run) -> Task:
        """Return the task of a run for a judge."""
        source = run.question.file.source
        assert source is not None, "a run has a file"
        return Task(0, run.question.exercise.id, source, self.options)

    def give_back(self, run: Run) -> None:
        """Put a run that was called off back at the head of the queue, unless it is over."""
        with self._lock:
            self._running = [other for other in self._running if other is not run]
            if not run.is_over:
                run.times_called_off += run.call_off.is_asked
                self._waiting.appendleft(run)
        self.tell_places()

    def finish(self, run: Run, result: ExerciseResult | None) -> None:
        """End a run with its result, or without one after a fault of the grader."""
        with self._lock:
            if not run.is_over:
                run.result = None if result is None else run.question.answered_by(result)
            self._end(run)

    def make_room(self, wanted: int) -> float | None:
        """Call off the newest runs whose turn is over, to free judges for `wanted` hand-ins.

        If this frees too few judges, return the seconds until the next turn ends; None if there is no such
        turn, or nothing more is wanted.
        """
        with self._lock:
            wanted -= sum(run.call_off.is_asked for run in self._running)
            now, turns = time.monotonic(), self._turns()
            for run, seconds in turns:
                if wanted > 0 and run.begun_at + seconds <= now:
                    run.call_off.ask()
                    wanted -= 1
            later = [run.begun_at + seconds - now for run, seconds in turns]
            return (
                min((seconds for seconds in later if seconds > 0), default=None)
                if wanted > 0
                else None
            )

    def _turns(self) -> list[tuple[Run, float]]:
        """Return the running runs with the seconds of their turns, newest first."""
        turns, is_longer_one = [], False
        for run in self._running:
            if run.call_off.is_asked:
                continue
            seconds = TURN_SECONDS
            if run.times_called_off and not is_longer_one:
                is_longer_one = True
                seconds = min(TURN_SECONDS * 2**run.times_called_off, LONGEST_TURN_SECONDS)
            turns.append((run, seconds))
        return turns[::-1]

    def _end(self, run: Run) -> None:
        """End a run, wherever it is, and tell its stream; call this with the lock held."""
        self._waiting = deque(other for other in self._waiting if other is not run)
        if any(other is run for other in self._running):
            self._running = [other for other in self._running if other is not run]
            run.call_off.ask()
        if not run.is_over:
            run.is_over = True
            self._hub.tell(run.topic, ENDED)

    def tell_places(self) -> None:
        """Tell students with a waiting run their new place, counted from 1, if it changed."""
        with self._lock:
            places = [(run, place) for place, run in enumerate(self._waiting, 1)]
            moved = [(run, place) for run, place in places if run.place != place]
            for run, place in moved:
                run.place = place
        for run, place in moved:
            self._hub.tell(run.topic, Event("place", {"place": place}))
