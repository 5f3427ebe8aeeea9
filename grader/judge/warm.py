"""A judge in a thread of its own, for `grade watch`: it judges the newest tasks.

The newest tasks win. Tasks that wait are replaced. A judgment gets a moment to end and is then called off, so
an endless loop in the last save keeps nobody waiting. If the judge continues, it is ended.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

from grader.course.manifest import Course
from grader.errors import GraderError
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import Judges, Task
from grader.results import TestResult

# A judgment that is nearly done may end.
_MOMENT_SECONDS = 0.3
# A new judge costs more than a second, so a judgment may end within this time.
_PATIENCE_SECONDS = 1.5
# The first verdict of a judge also waits for its imports.
_COLD_SECONDS = 8.0
_OPTIONS = GradingOptions(recognize=True)


class WarmJudge:
    """Judges in its own thread, from which `answer`, `test` and `crashed` are called.

    `answer` gets a task with its judgment, or with the fault of the grader that prevented one. `test` gets the
    task and how many of its tests ended so far. `crashed` gets an exception that ended the thread.
    """

    def __init__(
        self,
        course: Course,
        *,
        answer: Callable[[Task, Judgment | JudgeFault], None],
        test: Callable[[Task, int], None],
        crashed: Callable[[Exception], None],
    ) -> None:
        self._course = course
        self._answer, self._test, self._crashed = answer, test, crashed
        self._judges = Judges()
        self._changed = threading.Condition()
        self._waiting: list[Task] = []
        self._current: Task | None = None
        self._warm = self._closed = False
        self._outdated: float | None = None
        self._overdue: float | None = None
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._run, self._stop_overdue_judge)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, tasks: Sequence[Task]) -> None:
        """Judge these tasks one after the other, and drop earlier ones."""
        with self._changed:
            self._waiting = list(tasks)
            if self._current is not None and tasks:
                patience = _PATIENCE_SECONDS if self._warm else _COLD_SECONDS
                self._overdue = self._overdue or time.monotonic() + patience
                self._outdated = self._outdated or time.monotonic() + _MOMENT_SECONDS
            self._changed.notify_all()

    def close(self) -> None:
        """End the judge, even in the middle of a judgment."""
        with self._changed:
            self._closed, self._waiting = True, []
            self._changed.notify_all()
        self._judges.close()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            while (task := self._next()) is not None:
                self._answer(task, self._judged(task))
        except Exception as error:  # noqa: BLE001 (the border of the thread: given to the caller)
            self._crashed(error)

    def _next(self) -> Task | None:
        with self._changed:
            self._current = self._overdue = self._outdated = None
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._current = self._waiting.pop(0)
            return self._current

    def _judged(self, task: Task) -> Judgment | JudgeFault:
        """Judge one task, and count its tests as they end."""
        ended = 0

        def done(_: TestResult) -> None:
            nonlocal ended
            ended += 1
            self._test(task, ended)

        try:
            exercise = self._course.exercise(task.exercise)
            judgment = self._judges.judge(self._course, exercise, task.source, _OPTIONS, done)
        except GraderError as error:
            return JudgeFault(str(error))
        self._warm = True
        return judgment

    def _stop_overdue_judge(self) -> None:
        """Call off the judgment of an outdated save, and stop a judge that continues with it."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                if self._outdated is not None and self._outdated <= now:
                    # Only once: a second call could end the next judgment.
                    self._outdated = math.inf
                    self._judges.call_off()
                elif self._overdue is not None and self._overdue <= now:
                    self._overdue = None
                    self._warm = False
                    self._judges.stop()
                else:
                    times = [at for at in (self._outdated, self._overdue) if at is not None]
                    left = min(times, default=math.inf) - now
                    self._changed.wait(left if left < math.inf else None)
