"""A judge in its own thread, for `grade watch`, which judges the newest order.

A new order replaces waiting ones. A current judgment has a moment to end and is then called off, so that an
endless loop of an earlier save keeps nobody waiting. A judge that continues anyway is ended.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Judges
from grader.results import ExerciseResult, TestResult

# A judgment that is nearly done may end.
_MOMENT_SECONDS = 0.3
# A new judge costs more than a second, so a judgment may end within this time.
_PATIENCE_SECONDS = 1.5
# The first verdict of a judge also waits for its imports.
_COLD_SECONDS = 8.0
_OPTIONS = GradingOptions(recognize=True)


class Order(msgspec.Struct, frozen=True):
    """Judge this source of an exercise; `number` is the caller's, and is returned."""

    number: int
    exercise: Exercise
    source: bytes


class Answer(msgspec.Struct, frozen=True):
    """The result of an order, or the fault of the grader that prevented one."""

    order: Order
    result: ExerciseResult | None
    fault: str = ""


class WarmJudge:
    """Judges in its own thread, from which `answer`, `test` and `crashed` are called.

    `test` gets the order and the number of its finished tests; `crashed` gets an exception that ended the
    thread.
    """

    def __init__(
        self,
        course: Course,
        *,
        answer: Callable[[Answer], None],
        test: Callable[[Order, int], None],
        crashed: Callable[[Exception], None],
    ) -> None:
        self._course = course
        self._answer, self._test, self._crashed = answer, test, crashed
        self._judges = Judges()
        self._changed = threading.Condition()
        self._waiting: list[Order] = []
        self._current: Order | None = None
        self._warm = self._closed = False
        self._outdated: float | None = None
        self._overdue: float | None = None
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._run, self._stop_overdue_judge)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, orders: Sequence[Order]) -> None:
        """Judge these in this order, and nothing requested before."""
        with self._changed:
            self._waiting = list(orders)
            if self._current is not None and orders:
                patience = _PATIENCE_SECONDS if self._warm else _COLD_SECONDS
                self._overdue = self._overdue or time.monotonic() + patience
                self._outdated = self._outdated or time.monotonic() + _MOMENT_SECONDS
            self._changed.notify_all()

    def close(self) -> None:
        """End the judge, even during a judgment."""
        with self._changed:
            self._closed, self._waiting = True, []
            self._changed.notify_all()
        self._judges.close()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        try:
            while (order := self._next()) is not None:
                self._answer(self._judged(order))
        except Exception as error:  # noqa: BLE001 (the border of the thread: given to the caller)
            self._crashed(error)

    def _next(self) -> Order | None:
        with self._changed:
            self._current = self._overdue = self._outdated = None
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._current = self._waiting.pop(0)
            return self._current

    def _judged(self, order: Order) -> Answer:
        """Judge one order, and count its tests as they end."""
        ended = 0

        def done(_: TestResult) -> None:
            nonlocal ended
            ended += 1
            self._test(order, ended)

        try:
            judgment = self._judges.judge(
                self._course, order.exercise, order.source, _OPTIONS, done
            )
        except GraderError as error:
            return Answer(order, None, str(error))
        self._warm = True
        return Answer(order, judgment.result)

    def _stop_overdue_judge(self) -> None:
        """Call off the judgment of an outdated save, and stop a judge that continues with it."""
        with self._changed:
            while not self._closed:
                now = time.monotonic()
                if self._outdated is not None and self._outdated <= now:
                    # Only once: a second message would be about the next judgment.
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
