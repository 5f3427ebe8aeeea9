"""Watching a student work: a save is answered by the result of the exercise saved, a key by its meaning.

Theory of operation. One thread tells of saves (`grader.saves`), one of keys (`grader.keys`), one judges
(`grader.warm`); all of them put events into one queue, and the loop here takes them out, so that nothing
but this loop knows the state and draws. A file is judged only if its content changed; the newest content
wins. Nothing ever moves on to another exercise but a save of its file, or a key.
"""

from __future__ import annotations

import enum
import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

import msgspec

from grader.course import Exercise
from grader.errors import CourseError, GraderError
from grader.grading import settle
from grader.results import ExerciseResult, Visibility
from grader.state import Standing
from grader.suite import tests_of
from grader.warm import Answer, Order, WarmJudge
from grader.workspace import Workspace

__all__ = [
    "KEYS",
    "Crashed",
    "Event",
    "Face",
    "Pressed",
    "Redraw",
    "Saved",
    "Shows",
    "View",
    "Watch",
]

# What a key means; `p` is offered only where there is something that plots.
KEYS = {
    "h": "hint",
    "n": "next",
    "l": "list",
    "a": "all",
    "r": "rerun",
    "p": "plot",
    "q": "quit",
}
_EVERY = tuple(Visibility)
_QUICK_SECONDS = 0.4
# Python handles a signal in this thread alone, and a wait without an end may not be interrupted by
# it: not by Ctrl-C on Windows, nor on Linux by what reached another thread first, as a SIGCONT does.
_WAIT_SECONDS = 0.2


class Shows(enum.Enum):
    """What is on the screen."""

    EXERCISE = "exercise"
    LIST = "list"
    ALL = "all"


class View(msgspec.Struct, frozen=True):
    """What there is to see: results of one exercise or of all, a hint by its number, notes, a status."""

    exercise: Exercise
    shows: Shows = Shows.EXERCISE
    results: tuple[ExerciseResult, ...] = ()
    hint: int | None = None
    notes: str = ""
    status: str = ""


class Face(Protocol):
    """What shows a view."""

    def draw(self, view: View) -> None:
        """Show all of it."""

    def status(self, text: str) -> None:
        """Show that the status is this now; all else stays."""


class Saved(msgspec.Struct, frozen=True):
    """The files of these exercises changed; the last one last."""

    ids: tuple[str, ...]


class Pressed(msgspec.Struct, frozen=True):
    """A key."""

    key: str


class Redraw(msgspec.Struct, frozen=True):
    """The terminal has another size."""


class TestEnded(msgspec.Struct, frozen=True):
    """So many tests of an order ended."""

    __test__ = False

    order: Order
    count: int


class Plotted(msgspec.Struct, frozen=True):
    """What the plotting of an exercise said."""

    exercise: Exercise
    text: str


class Crashed(msgspec.Struct, frozen=True):
    """A thread of ours ended."""

    error: Exception


Event = Saved | Pressed | Redraw | TestEnded | Answer | Plotted | Crashed


class Watch:
    """The loop over the events, which any thread may put; `plot`, if given, plots and says where."""

    def __init__(
        self,
        workspace: Workspace,
        face: Face,
        events: queue.SimpleQueue[Event],
        plot: Callable[[Exercise], str] | None = None,
    ) -> None:
        self._events = events
        self._workspace, self._face, self._plot = workspace, face, plot
        self._course = workspace.course
        # By exercise: the source that was judged last, and its result.
        self._known: dict[str, tuple[bytes | None, ExerciseResult]] = {}
        self._number = 0
        self._open: list[Order] = []
        self._since = time.monotonic()
        self._judge: WarmJudge | None = None
        self._view = View(self._course.exercises[0])

    def run(self, exercise: Exercise) -> None:
        """Begin with an exercise, and go on until the key q; a KeyboardInterrupt ends it, too.

        Raises GraderError for what makes going on impossible.
        """
        self._judge = WarmJudge(
            self._course,
            answer=self._events.put,
            test=lambda order, count: self._events.put(TestEnded(order, count)),
            crashed=lambda error: self._events.put(Crashed(error)),
        )
        try:
            self._turn_to(exercise)
            if not self._open:
                # There is nothing to judge yet: the stub is, unseen, so that a first save finds it warm.
                stub = self._course.stub(exercise).read_bytes()
                self._judge.ask([Order(-1, exercise, stub)])
            while self._react(self._next_event()):
                pass
        finally:
            self._judge.close()

    def _next_event(self) -> Event:
        while True:
            try:
                return self._events.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                continue

    def _react(self, event: Event) -> bool:
        """Do what an event asks for; False ends the loop."""
        match event:
            case Pressed("q"):
                return False
            case Pressed(key):
                self._press(key)
            case Saved(ids):
                self._save(ids)
            case Redraw():
                self._face.draw(self._view)
            case TestEnded(order, count):
                # What is quick is not worth a flicker.
                if order in self._open and time.monotonic() - self._since > _QUICK_SECONDS:
                    total = len(tests_of(self._course, order.exercise, _EVERY))
                    self._say(f"judging {order.exercise.id}: {count} of {total} tests")
            case Answer():
                self._answer(event)
            case Plotted(exercise, text):
                if exercise is self._view.exercise:
                    status = self._view.status if self._open else _clock()
                    self._show(hint=self._view.hint, notes=text, status=status)
            case Crashed(error):
                raise error
        return True

    # --- saves and verdicts ---------------------------------------------------------------------

    def _save(self, ids: tuple[str, ...]) -> None:
        self._since = time.monotonic()
        self._workspace.read_again()
        changed = [each for each in ids if self._is_new(self._course.exercise(each))]
        if changed:
            here = self._view.exercise.id
            self._turn_to(self._course.exercise(here if here in changed else changed[-1]))
        elif not self._open:
            if self._view.exercise.id not in ids:
                self._turn_to(self._course.exercise(ids[-1]))
            self._say("saved again, and nothing changed; r reruns it")

    def _is_new(self, exercise: Exercise) -> bool:
        source = self._workspace.handed(exercise).source
        asked = [order.source for order in self._open if order.exercise is exercise]
        if asked:
            return source != asked[0]
        return exercise.id not in self._known or source != self._known[exercise.id][0]

    def _turn_to(self, exercise: Exercise) -> None:
        """Show an exercise, with its verdict as its file is now."""
        same = exercise is self._view.exercise and self._view.shows is Shows.EXERCISE
        self._view = View(exercise, results=self._view.results if same else ())
        if self._is_new(exercise) or self._open:
            self._judge_these([exercise])
        else:
            self._show(results=(self._known[exercise.id][1],))

    def _judge_these(self, exercises: list[Exercise]) -> None:
        """Settle what needs no judge, and have the rest judged; what was asked before is off."""
        self._number += 1
        self._open = []
        for exercise in exercises:
            if not self._course.suites(exercise):
                raise CourseError(
                    f"The exercise {exercise.id!r} has no suite: nothing can be judged."
                )
            handed = self._workspace.handed(exercise)
            result = settle(self._course, exercise, handed, _EVERY)
            if result is not None:
                self._known[exercise.id] = (handed.source, result)
            elif handed.source is not None:
                self._open.append(Order(self._number, exercise, handed.source))
        assert self._judge is not None
        self._judge.ask(self._open)
        if not self._open:
            self._show(results=self._results(), status=_clock())
        elif self._view.results:
            # What is known stays until there is something newer.
            self._say(f"judging {self._open[0].exercise.id}")
        else:
            self._show(status=f"judging {self._open[0].exercise.id}")

    def _answer(self, answer: Answer) -> None:
        order, result = answer.order, answer.result
        if result is not None:
            # Also what nobody waits for anymore is a verdict on that source.
            self._workspace.logbook.record(order.exercise, order.source, result)
        if order not in self._open:
            return
        self._open.remove(order)
        if result is None:
            self._show(
                notes=answer.fault, status="not judged: a fault of the grader; r tries again"
            )
            return
        self._known[order.exercise.id] = (order.source, result)
        if not self._open:
            took = time.monotonic() - self._since
            status = f"{_clock()}  judged in {took:.2f} s"
            # What a key brought meanwhile, a hint or the word of a picture, is still to be read.
            self._show(
                results=self._results(),
                hint=self._view.hint,
                notes=self._view.notes,
                status=status,
            )

    def _results(self) -> tuple[ExerciseResult, ...]:
        if self._view.shows is Shows.ALL:
            return tuple(self._known[each.id][1] for each in self._course.exercises)
        return (self._known[self._view.exercise.id][1],)

    # --- keys -----------------------------------------------------------------------------------

    def _press(self, key: str) -> None:
        self._since = time.monotonic()
        match key:
            case "h":
                self._hint()
            case "n":
                self._next()
            case "l":
                self._list()
            case "a":
                self._workspace.read_again()
                self._view = View(self._view.exercise, Shows.ALL)
                self._judge_these(list(self._course.exercises))
            case "r":
                self._workspace.read_again()
                self._view = View(self._view.exercise, results=self._view.results)
                self._judge_these([self._view.exercise])
            case "p" if self._plot is not None:
                self._begin_plot(self._plot)

    def _hint(self) -> None:
        exercise, shown = self._view.exercise, self._view.hint
        logbook = self._workspace.logbook
        following = (shown or 0) % len(exercise.hints) + 1
        number = logbook.next_hint(exercise) or following
        logbook.see_hint(exercise, number)
        self._back(hint=number)

    def _list(self) -> None:
        if self._view.shows is Shows.LIST:
            self._back()
        else:
            self._workspace.read_again()
            self._view = msgspec.structs.replace(self._view, shows=Shows.LIST, hint=None, notes="")
            self._face.draw(self._view)

    def _back(self, hint: int | None = None) -> None:
        """From a list to the exercise; what is being judged goes on."""
        known = self._known.get(self._view.exercise.id)
        results = (known[1],) if known is not None else ()
        self._view = View(self._view.exercise, status=self._view.status)
        self._show(results=results, hint=hint, status=self._view.status)

    def _next(self) -> None:
        self._workspace.read_again()
        standings = self._workspace.standings()
        ids = list(standings)
        here = ids.index(self._view.exercise.id)
        for each in (*ids[here + 1 :], *ids[:here]):
            if standings[each] is not Standing.DONE:
                self._turn_to(self._course.exercise(each))
                return
        self._say("every other exercise is done")

    def _begin_plot(self, plot: Callable[[Exercise], str]) -> None:
        exercise = self._view.exercise

        def work() -> None:
            try:
                text = plot(exercise)
            except (GraderError, OSError) as error:
                text = str(error)
            self._events.put(Plotted(exercise, text))

        threading.Thread(target=work, daemon=True).start()
        self._say(f"plotting {exercise.id}")

    # --- showing --------------------------------------------------------------------------------

    def _show(
        self,
        *,
        results: tuple[ExerciseResult, ...] | None = None,
        hint: int | None = None,
        notes: str = "",
        status: str = "",
    ) -> None:
        shown = self._view.results if results is None else results
        self._view = msgspec.structs.replace(
            self._view, results=shown, hint=hint, notes=notes, status=status
        )
        self._face.draw(self._view)

    def _say(self, status: str) -> None:
        self._view = msgspec.structs.replace(self._view, status=status)
        self._face.status(status)


def _clock() -> str:
    return time.strftime("%H:%M:%S")
