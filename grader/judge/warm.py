"""A judge in a thread of its own, which judges whatever was asked for last.

The newest order wins: what waits is replaced, and what is being judged is given a moment to end and then
ended, with the judge, so that an endless loop of before the save does not keep anybody waiting.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Judges
from grader.results import ExerciseResult, TestResult

# A new judge costs more than a second: what ends sooner may end.
_PATIENCE_SECONDS = 1.0
# The first verdict of a judge waits for its imports, too.
_COLD_SECONDS = 8.0


class Order(msgspec.Struct, frozen=True):
    """Judge this source of an exercise; `number` is the caller's, and comes back."""

    number: int
    exercise: Exercise
    source: bytes


class Answer(msgspec.Struct, frozen=True):
    """The result of an order, or the fault of ours for which there is none."""

    order: Order
    result: ExerciseResult | None
    fault: str = ""


class WarmJudge:
    """Judges in a thread of its own; `answer`, `test` and `crashed` are called from there.

    `test` gets the order and how many of its tests ended so far; `crashed` gets an exception that ended the
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
        self._overdue: float | None = None
        self._threads = [
            threading.Thread(target=target, daemon=True)
            for target in (self._run, self._stop_overdue_judge)
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, orders: Sequence[Order]) -> None:
        """Judge these, in this order, and nothing that was asked for before."""
        with self._changed:
            self._waiting = list(orders)
            if self._current is not None and orders:
                patience = _PATIENCE_SECONDS if self._warm else _COLD_SECONDS
                self._overdue = self._overdue or time.monotonic() + patience
            self._changed.notify_all()

    def close(self) -> None:
        """End the judge, also in the middle of something."""
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
            self._current = self._overdue = None
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return None
            self._current = self._waiting.pop(0)
            return self._current

    def _judged(self, order: Order) -> Answer:
        ended = 0

        def done(_: TestResult) -> None:
            nonlocal ended
            ended += 1
            self._test(order, ended)

        try:
            judgment = self._judges.judge(
                self._course, order.exercise, order.source, GradingOptions(), done
            )
        except GraderError as error:
            return Answer(order, None, str(error))
        self._warm = True
        return Answer(order, judgment.result)

    def _stop_overdue_judge(self) -> None:
        """Stop a judge that still works on an outdated save."""
        with self._changed:
            while not self._closed:
                left = None if self._overdue is None else self._overdue - time.monotonic()
                if left is None or left > 0:
                    self._changed.wait(left)
                else:
                    self._overdue = None
                    self._warm = False
                    self._judges.stop()
