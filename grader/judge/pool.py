"""Many files to judge, a few judges: tasks go in, verdicts come out in whatever order they are ready.

What no judge can judge is a fault of ours, told in its verdict, and the others go on.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol

import msgspec

from grader.course.manifest import Course
from grader.errors import GraderError, IsolationError, JudgeError, SandboxError
from grader.judge.assignment import GradingOptions
from grader.judge.process import Judge, judge_source, judges, modules_of
from grader.results import ExerciseResult

# So many files in a row without a sandbox, each tried twice.
_HOPELESS = 5


class Task(msgspec.Struct, frozen=True):
    """Judge the source of one exercise; whoever asks knows it again by its number."""

    number: int
    exercise: str
    source: bytes


class Completed(msgspec.Struct, frozen=True):
    """The result of a task and the walls that held; or no result, and what fault of ours is in the way."""

    number: int
    result: ExerciseResult | None
    walls: tuple[str, ...] = ()
    fault: str = ""


class Pool(Protocol):
    """Somewhere to have tasks judged: this machine, or many."""

    def judged(self, tasks: Iterator[Task]) -> Iterator[Completed]:
        """A verdict for each task; tasks are taken from the iterator as there is room for them."""
        ...


class Judges:
    """So many judges behind one fork server, for as many threads; close it when all is judged.

    A judge that ended is replaced, by one with a fork server of its own, since the shared one may be what is
    gone; and the file that it was at is tried once more. Where one file after the other finds no
    sandbox, it is the machine that is at fault, and there is no use in going on.
    """

    def __init__(self, course: Course, count: int, options: GradingOptions) -> None:
        self._course, self._options = course, options
        self._preload = modules_of(course.exercises)
        self._shared = contextlib.ExitStack()
        started = self._shared.enter_context(judges(count, preload=self._preload))
        self._free: queue.SimpleQueue[tuple[int, Judge]] = queue.SimpleQueue()
        for place, judge in enumerate(started):
            self._free.put((place, judge))
        # What holds the replacement of a judge, by the place of the judge that it replaces.
        self._replacements: dict[int, contextlib.ExitStack] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._without_sandbox = 0

    def close(self) -> None:
        """Hang up; a judge in the middle of something is not waited for."""
        with self._lock:
            self._closed = True
            for own in self._replacements.values():
                own.close()
        self._shared.close()

    def verdict(self, task: Task) -> Completed:
        """Have a task judged as soon as a judge is free.

        Raises IsolationError where the walls that were asked for do not stand, SandboxError where
        nothing can be judged any more.
        """
        place, judge = self._free.get()
        try:
            return self._judge(judge, task)
        except IsolationError:
            raise
        except GraderError as error:
            if isinstance(error, SandboxError) or not judge.alive:
                judge = self._replaced(place)
            return self._second_try(judge, task)
        finally:
            self._free.put((place, judge))

    def _replaced(self, place: int) -> Judge:
        with self._lock:
            if self._closed:
                raise JudgeError("The judges were told to stop.")
            own = self._replacements.setdefault(place, contextlib.ExitStack())
            own.close()
            return own.enter_context(judges(1, preload=self._preload))[0]

    def _second_try(self, judge: Judge, task: Task) -> Completed:
        try:
            return self._judge(judge, task)
        except SandboxError as error:
            self._without_sandbox += 1
            if self._without_sandbox > _HOPELESS:
                raise
            return Completed(task.number, None, fault=str(error))
        except GraderError as error:
            return Completed(task.number, None, fault=str(error))

    def _judge(self, judge: Judge, task: Task) -> Completed:
        try:
            judged = judge_source(
                judge,
                self._course,
                self._course.exercise(task.exercise),
                task.source,
                self._options,
            )
        except ValueError as error:
            # The pipes of a judge that another thread hung up on are closed files.
            if self._closed:
                raise JudgeError("The judges were told to stop.") from error
            raise
        self._without_sandbox = 0
        return Completed(task.number, judged.result, judged.walls)


class LocalPool:
    """As many judges on this machine as `jobs` says, started for the first task; a context manager."""

    def __init__(self, course: Course, jobs: int, options: GradingOptions) -> None:
        self._course, self._jobs, self._options = course, jobs, options
        self._judges: Judges | None = None
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
        if self._judges is not None:
            self._judges.close()
        for _ in self._threads:
            self._tasks.put(None)
        for thread in self._threads:
            thread.join()

    def judged(self, tasks: Iterator[Task]) -> Iterator[Completed]:
        """As `Pool.judged`."""
        waiting = 0
        for task in tasks:
            if self._judges is None:
                self._start()
            self._tasks.put(task)
            waiting += 1
            # More than there are judges: the next task is there when one becomes free.
            while waiting > 2 * self._jobs:
                yield self._next()
                waiting -= 1
        for _ in range(waiting):
            yield self._next()

    def _start(self) -> None:
        self._judges = Judges(self._course, self._jobs, self._options)
        for _ in range(self._jobs):
            # Threads end with the pool: bubblewrap takes its processes along with the thread that
            # started it.
            thread = threading.Thread(target=self._serve, args=(self._judges,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, judges: Judges) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                self._verdicts.put(judges.verdict(task))
            except GraderError as error:
                self._verdicts.put(error)

    def _next(self) -> Completed:
        verdict = self._verdicts.get()
        if isinstance(verdict, GraderError):
            raise verdict
        return verdict
