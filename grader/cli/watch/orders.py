"""The newest results of a student's files, and the orders to a warm judge about them.

A file is judged only if its content changed, and the newest content wins: new orders call off the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence

from grader.course.manifest import Exercise
from grader.errors import CourseError
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.judge.warm import Answer, Order, WarmJudge
from grader.results import ExerciseResult
from grader.student.workspace import Workspace

_OPTIONS = GradingOptions()


class Orders:
    """What a warm judge was asked, and what it answered: `open` are the orders that wait for an answer."""

    def __init__(self, workspace: Workspace, judge: WarmJudge) -> None:
        self._workspace, self._course, self._judge = workspace, workspace.course, judge
        # By exercise: the source that was judged last, and its result.
        self._known: dict[str, tuple[bytes | None, ExerciseResult]] = {}
        self._number = 0
        self.open: list[Order] = []

    def warm_up(self, exercise: Exercise) -> None:
        """Have the stub judged, unseen, so that a first save finds the judge warm."""
        self._judge.ask([Order(-1, exercise, self._course.stub(exercise).source)])

    def is_new(self, exercise: Exercise) -> bool:
        """Whether the file is neither what was judged last nor what is being judged."""
        source = self._workspace.handed(exercise).source
        asked = [order.source for order in self.open if order.exercise is exercise]
        if asked:
            return source != asked[0]
        return exercise.id not in self._known or source != self._known[exercise.id][0]

    def known(self, exercises: Sequence[Exercise]) -> tuple[ExerciseResult, ...]:
        """The newest results of these exercises, of those that have one."""
        return tuple(self._known[e.id][1] for e in exercises if e.id in self._known)

    def place(self, exercises: Sequence[Exercise]) -> None:
        """Settle what needs no judge, and have the rest judged; what was asked before is off.

        Raises CourseError for an exercise without a suite.
        """
        self._number += 1
        self.open = []
        for exercise in exercises:
            if not self._course.suites(exercise):
                raise CourseError(
                    f"The exercise {exercise.id!r} has no suite: nothing can be judged."
                )
            handed = self._workspace.handed(exercise)
            result = settle(self._course, exercise, handed, _OPTIONS)
            if result is not None:
                self._known[exercise.id] = (handed.source, result)
            elif handed.source is not None:
                self.open.append(Order(self._number, exercise, handed.source))
        self._judge.ask(self.open)

    def take(self, answer: Answer) -> bool:
        """Keep an answer of the judge; return False if its order was called off."""
        order, result = answer.order, answer.result
        if result is not None:
            # Also an answer that is no longer waited for is a verdict on that source.
            self._workspace.logbook.record(order.exercise, order.source, result)
        if order not in self.open:
            return False
        self.open.remove(order)
        if result is not None:
            self._known[order.exercise.id] = (order.source, result)
        return True
