"""Owners of judges, and pools, which take tasks and yield them as soon as they are judged.

If a task cannot be judged, the pool yields it with the fault of the grader, and goes on with the others.
"""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, Self

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError, IsolationError, JudgeError, SandboxError
from grader.judge.assignment import (
    AS_HANDED_IN,
    AuthorOptions,
    GradingOptions,
    JudgeFault,
    Judgment,
)
from grader.judge.preloading import modules_of
from grader.judge.process import Judge, judge_source, judges
from grader.results import TestResult

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# After this many tasks in a row without a sandbox, each tried twice, the pool gives up.
_HOPELESS = 5


class CallOff:
    """Calls off one judgment from another thread, at any moment; a judgment that has not begun ends at once.

    As with `Judges.call_off`, a judge that is computing continues.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._judge: Judge | None = None
        self.is_asked = False

    def ask(self) -> None:
        """End the judgment with a JudgeError."""
        with self._lock:
            self.is_asked = True
            if self._judge is not None:
                self._judge.call_off()

    def begin(self, judge: Judge) -> None:
        """Called when a judge was given the task; before that, it would ignore a request."""
        with self._lock:
            self._judge = judge
            if self.is_asked:
                judge.call_off()

    def end(self) -> None:
        """Called before the judge is free for another task."""
        with self._lock:
            self._judge = None


class Judges:
    """Several judges behind one fork server, for as many threads; a context manager.

    The judges start with the first judgment, or by `start`. A judge that ended is replaced, and its exercise is
    tried once more. The new judge has its own fork server, since the shared one may have ended. With `learn`,
    the judges first list each exercise's late imports (`preloading`). Call these methods from threads that
    outlive the judges, such as `threads`: bubblewrap ends with the thread that started it.
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
        # These own the judges that started together, and each replacement by its place.
        self._shared = contextlib.ExitStack()
        self._replacements: dict[int, contextlib.ExitStack] = {}
        self._closed = False
        self._stops = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def for_many(course: Course, exercises: Iterable[Exercise], count: int) -> Judges:
        """Return judges for many sources of these exercises, which first list each exercise's late imports."""
        return Judges(count, preload=modules_of(course, exercises), learn=True)

    @staticmethod
    def shared_or_new(
        shared: Judges | None, course: Course, exercises: Iterable[Exercise], count: int
    ) -> contextlib.AbstractContextManager[Judges]:
        """Return `shared`, which stay open at the end of the block, or judges as of `for_many`."""
        if shared is not None:
            return contextlib.nullcontext(shared)
        return Judges.for_many(course, exercises, count)

    @functools.cached_property
    def threads(self) -> ThreadPoolExecutor:
        """A thread for each judge, until the judges are closed."""
        # Takes 10 ms, nearly as long as judging one submission; a caller with its own thread can do without.
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(self._count, thread_name_prefix="judge")

    def start(self, preload: Sequence[str] = ()) -> None:
        """Start the judges, unless they are started; their sandboxes import `preload` beforehand."""
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
        author: AuthorOptions = AS_HANDED_IN,
        call_off: CallOff | None = None,
    ) -> Judgment:
        """Judge a source as soon as a judge is free; raises GraderError for a fault of the grader."""
        off = call_off or CallOff()

        def ask(judge: Judge) -> Judgment:
            begun = functools.partial(off.begin, judge)
            try:
                return judge_source(
                    judge,
                    course,
                    exercise,
                    source,
                    options,
                    done,
                    author=author,
                    learn=self._learn,
                    begun=begun,
                )
            finally:
                off.end()

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
        """End every judgment with a JudgeError; the next judgment starts new judges."""
        with self._lock:
            self._stops += 1
            for judge in self._judges:
                judge.end()

    def call_off(self) -> None:
        """End every judgment with a JudgeError if its judge is waiting for the student's code."""
        with self._lock:
            for judge in self._judges:
                judge.call_off()

    def close(self) -> None:
        """End the judges, even in the middle of a judgment, and then the threads."""
        with self._lock:
            self._closed = True
            for own in self._replacements.values():
                own.close()
            self._shared.close()
        if "threads" in vars(self):
            self.threads.shutdown(cancel_futures=True)

    def _started(self, count: int) -> contextlib.AbstractContextManager[list[Judge]]:
        return judges(count, preload=self._preload, walls=self._walls)

    def _replaced(self, place: int, stops: int) -> Judge:
        """Start a new judge, unless there were more than `stops` stops; then raise JudgeError."""
        with self._lock:
            if self._closed or self._stops != stops:
                raise JudgeError("The judges were told to stop.")
            own = self._replacements.setdefault(place, contextlib.ExitStack())
            own.close()
            (self._judges[place],) = own.enter_context(self._started(1))
            return self._judges[place]


class Task(msgspec.Struct, frozen=True):
    """Judge the source of one exercise, with the options of the pool unless it has its own.

    The number is the caller's.
    """

    number: int
    exercise: str
    source: bytes
    options: GradingOptions | None = None


class Pool(Protocol):
    """Judges on this machine or on many."""

    def judged(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Judgment | JudgeFault]]:
        """Yield each task with its judgment, or with the fault of the grader that prevented one.

        Tasks are taken from the iterator as judges become free.
        """
        ...


class LocalPool(Judges):
    """Judges on this machine for tasks of one course, which are judged with the same options.

    If no task finds a sandbox, several times in a row, the machine is at fault, and the pool gives up.
    """

    def __init__(self, course: Course, count: int, options: GradingOptions) -> None:
        super().__init__(count, preload=modules_of(course, course.exercises), learn=True)
        self._course, self._options = course, options
        self._without_sandbox = 0

    def complete(
        self,
        task: Task,
        done: Callable[[TestResult], None] | None = None,
        call_off: CallOff | None = None,
    ) -> Judgment | JudgeFault:
        """Judge a task as soon as a judge is free; `done` is called with every test as it ends.

        Raises IsolationError if a required wall is missing, and SandboxError if nothing can be judged any more.
        """
        exercise = self._course.exercise(task.exercise)
        try:
            options = task.options or self._options
            judgment = self.judge(
                self._course, exercise, task.source, options, done, call_off=call_off
            )
        except IsolationError:
            raise
        except GraderError as error:
            self._without_sandbox += isinstance(error, SandboxError)
            if self._without_sandbox > _HOPELESS:
                raise
            return JudgeFault(str(error))
        self._without_sandbox = 0
        return judgment

    def judged(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Judgment | JudgeFault]]:
        """Yield tasks judged, as `Pool.judged` does."""
        from concurrent.futures import FIRST_COMPLETED, wait

        running: dict[Future[Judgment | JudgeFault], Task] = {}

        def next_one() -> tuple[Task, Judgment | JudgeFault]:
            ended = next(iter(wait(running, return_when=FIRST_COMPLETED).done))
            return running.pop(ended), ended.result()

        for task in tasks:
            # If the judges cannot start, raise one error, not a fault for each task.
            self.start()
            running[self.threads.submit(self.complete, task)] = task
            # More tasks than judges: a judge that becomes free finds the next task ready.
            while len(running) > 2 * self._count:
                yield next_one()
        while running:
            yield next_one()
