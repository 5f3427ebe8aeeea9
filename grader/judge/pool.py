"""The owner of judges, and pools of them: tasks go in, and verdicts come out as they are ready.

A task that no judge can judge is a fault of the grader, reported in its verdict, and the others go on.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError, IsolationError, JudgeError, SandboxError
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.preloading import modules_of
from grader.judge.process import Judge, judge_source, judges
from grader.results import ExerciseResult, TestResult

# The machine is at fault after this many files in a row without a sandbox, each tried twice.
_HOPELESS = 5


class Judges:
    """Several judges behind one fork server, for as many threads; a context manager.

    They are started for the first judgment, or by `start`. A judge that ended is replaced by one with its own
    fork server, since the shared one may be gone, and its exercise is tried once more. For a large batch,
    `learn` lets them first learn which modules each exercise imports late (`preloading`). Threads that outlive
    all this do the starting, because bubblewrap ends with the thread that started it.
    """

    def __init__(
        self,
        count: int = 1,
        *,
        preload: Sequence[str] = (),
        walls: bool = True,
        learn: bool = False,
    ) -> None:
        self._count, self._preload, self._walls = count, tuple(preload), walls
        self._learn = learn
        self._lock = threading.Lock()
        self._judges: list[Judge] = []
        self._free: queue.SimpleQueue[int] = queue.SimpleQueue()
        # Holds the judges: those started together, and each replacement by its place.
        self._shared = contextlib.ExitStack()
        self._replacements: dict[int, contextlib.ExitStack] = {}
        self._closed = False
        self._stops = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self, preload: Sequence[str] = ()) -> None:
        """Start the judges, unless they run; `preload` names modules that their sandboxes need."""
        with self._lock:
            if self._closed:
                raise JudgeError("The judges were told to stop.")
            if not self._judges:
                self._preload = self._preload or tuple(preload)
                self._judges = list(self._shared.enter_context(self._started(self._count)))
                for place in range(self._count):
                    self._free.put(place)

    def judge(
        self,
        course: Course,
        exercise: Exercise,
        source: bytes,
        options: GradingOptions,
        done: Callable[[TestResult], None] | None = None,
    ) -> Judgment:
        """Have a source judged as soon as a judge is free; raises GraderError for a fault of the grader."""

        def ask(judge: Judge) -> Judgment:
            return judge_source(judge, course, exercise, source, options, done, learn=self._learn)

        stops = self._stops
        self.start(modules_of(course, [exercise]) if not self._judges else ())
        place = self._free.get()
        try:
            judge = self._judges[place]
            if not judge.alive:
                judge = self._replaced(place, stops)
            try:
                return ask(judge)
            except (JudgeError, SandboxError) as error:
                if isinstance(error, JudgeError) and judge.alive:
                    raise
                judge = self._replaced(place, stops)
                return ask(judge)
        finally:
            self._free.put(place)

    def stop(self) -> None:
        """End all current judgments with a JudgeError; the next judgment finds new judges."""
        with self._lock:
            self._stops += 1
            for judge in self._judges:
                judge.end()

    def call_off(self) -> None:
        """End current judgments with a JudgeError, if their judges are waiting for the student's code."""
        with self._lock:
            for judge in self._judges:
                judge.call_off()

    def close(self) -> None:
        """End the judges, even during a judgment."""
        with self._lock:
            self._closed = True
            for own in self._replacements.values():
                own.close()
            self._shared.close()

    def _started(self, count: int) -> contextlib.AbstractContextManager[list[Judge]]:
        return judges(count, preload=self._preload, walls=self._walls)

    def _replaced(self, place: int, stops: int) -> Judge:
        """Return a new judge; none if the judgment was called off, as the number of stops shows."""
        with self._lock:
            if self._closed or self._stops != stops:
                raise JudgeError("The judges were told to stop.")
            own = self._replacements.setdefault(place, contextlib.ExitStack())
            own.close()
            (self._judges[place],) = own.enter_context(self._started(1))
            return self._judges[place]


class Task(msgspec.Struct, frozen=True):
    """Judge the source of one exercise; its number identifies it for the caller."""

    number: int
    exercise: str
    source: bytes


class Completed(msgspec.Struct, frozen=True):
    """The result of a task and the active walls; or no result, and the fault."""

    number: int
    result: ExerciseResult | None
    walls: tuple[str, ...] = ()
    fault: str = ""


class Pool(Protocol):
    """A place to have tasks judged: this machine, or many."""

    def judged(self, tasks: Iterator[Task]) -> Iterator[Completed]:
        """Yield a verdict for each task; tasks are taken from the iterator as there is room for them."""
        ...


class TaskJudges(Judges):
    """The judges of a pool: their tasks are all of one course, and judged with the same options.

    If one task after another finds no sandbox, the machine is at fault, and going on is useless.
    """

    def __init__(self, course: Course, count: int, options: GradingOptions) -> None:
        super().__init__(count, preload=modules_of(course, course.exercises), learn=True)
        self._course, self._options = course, options
        self._without_sandbox = 0

    def complete(self, task: Task, done: Callable[[TestResult], None] | None = None) -> Completed:
        """Have a task judged as soon as a judge is free; `done` is called with every test as it ends.

        Raises IsolationError if required walls are missing, and SandboxError if nothing can be judged any more.
        """
        exercise = self._course.exercise(task.exercise)
        try:
            judgment = self.judge(self._course, exercise, task.source, self._options, done)
        except IsolationError:
            raise
        except GraderError as error:
            self._without_sandbox += isinstance(error, SandboxError)
            if self._without_sandbox > _HOPELESS:
                raise
            return Completed(task.number, None, fault=str(error))
        self._without_sandbox = 0
        return Completed(task.number, judgment.result, judgment.walls)


class LocalPool:
    """A pool of `jobs` judges on this machine, started for the first task; a context manager."""

    def __init__(self, course: Course, jobs: int, options: GradingOptions) -> None:
        self._jobs = jobs
        self._judges = TaskJudges(course, jobs, options)
        self._threads: list[threading.Thread] = []
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._verdicts: queue.SimpleQueue[Completed | GraderError] = queue.SimpleQueue()

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._judges.close()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def judged(self, tasks: Iterator[Task]) -> Iterator[Completed]:
        """Yield verdicts; see `Pool.judged`."""
        waiting = 0
        for task in tasks:
            if not self._threads:
                self._start()
            self._tasks.put(task)
            waiting += 1
            # More than the number of judges, so that the next task is ready when one becomes free.
            while waiting > 2 * self._jobs:
                yield self._next()
                waiting -= 1
        for _ in range(waiting):
            yield self._next()

    def _start(self) -> None:
        self._judges.start()
        for _ in range(self._jobs):
            thread = threading.Thread(target=self._serve, daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._verdicts.put(self._judges.complete(task))
            except GraderError as error:
                self._verdicts.put(error)

    def _next(self) -> Completed:
        verdict = self._verdicts.get()
        if isinstance(verdict, GraderError):
            raise verdict
        return verdict
