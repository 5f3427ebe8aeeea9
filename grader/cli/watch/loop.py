"""The loop of `grade watch`: each save, key, test and verdict changes the view."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from grader.cli.watch.orders import (
    Crashed,
    Event,
    Orders,
    Plotted,
    Pressed,
    Redraw,
    Saved,
    TestProgress,
)
from grader.cli.watch.screen import Face, Shows, View
from grader.course.manifest import Exercise
from grader.errors import GraderError
from grader.judge.warm import Answer
from grader.results import ExerciseResult, Status
from grader.student.progress import next_open
from grader.student.workspace import Workspace

_QUICK_SECONDS = 0.4
# Python handles a signal in this thread alone, and a wait without an end may not be interrupted by
# it: not by Ctrl-C on Windows, nor on Linux by what reached another thread first, as a SIGCONT does.
_WAIT_SECONDS = 0.2


class _Hint(NamedTuple):
    """A hint on show, and the number of the newest order when it was asked for."""

    number: int
    order: int


class WatchLoop:
    """The loop over the events, which any thread may put; `plot` plots and says where."""

    def __init__(
        self,
        workspace: Workspace,
        face: Face,
        events: queue.SimpleQueue[Event],
        plot: Callable[[Exercise], str],
    ) -> None:
        self._events = events
        self._workspace, self._face, self._plot = workspace, face, plot
        self._course = workspace.course
        self._orders = Orders(workspace, events.put)
        self._since, self._is_over = time.monotonic(), False
        self._view = View(self._course.exercises[0])
        # By exercise: the hint on show, which stays until the exercise passes.
        self._hints: dict[str, _Hint] = {}

    def run(self, exercise: Exercise) -> None:
        """Begin with an exercise, and go on until the key q; a KeyboardInterrupt ends it, too.

        Raises GraderError for what makes going on impossible.
        """
        try:
            self._turn_to(exercise)
            if not self._orders.open:
                self._orders.warm_up(exercise)
            while not self._is_over:
                self._react(self._next_event())
        finally:
            self._orders.close()

    def _next_event(self) -> Event:
        while True:
            try:
                return self._events.get(timeout=_WAIT_SECONDS)
            except queue.Empty:
                continue

    def _react(self, event: Event) -> None:
        """Do what an event asks for."""
        match event:
            case Pressed(key):
                if key in KEYS:
                    KEYS[key].action(self)
            case Saved(ids):
                self._save(ids)
            case Redraw():
                self._draw()
            case TestProgress(order, count):
                # A quick judging is not worth a flicker.
                if order in self._orders.open and self._seconds() > _QUICK_SECONDS:
                    total = self._orders.tests(order)
                    self._say(f"judging {order.exercise.id}: {count} of {total} tests")
            case Answer():
                self._answer(event)
            case Plotted(exercise, text):
                if exercise is self._view.exercise:
                    status = self._view.status if self._orders.open else _clock()
                    self._show(notes=text, status=status)
            case Crashed(error):
                raise error

    # --- saves and verdicts ---------------------------------------------------------------------

    def _save(self, ids: tuple[str, ...]) -> None:
        self._workspace.read_again()
        changed = [name for name in ids if self._orders.is_new(self._course.exercise(name))]
        if changed:
            here = self._view.exercise.id
            self._turn_to(self._course.exercise(here if here in changed else changed[-1]))
        elif not self._orders.open:
            if self._view.exercise.id not in ids:
                self._turn_to(self._course.exercise(ids[-1]))
            self._say("saved again, and nothing changed; r reruns it")

    def _turn_to(self, exercise: Exercise) -> None:
        """Show an exercise, with its verdict as its file is now."""
        same = exercise is self._view.exercise and self._view.shows is Shows.EXERCISE
        self._view = View(exercise, results=self._view.results if same else ())
        if self._orders.is_new(exercise) or self._orders.open:
            self._judge([exercise])
        else:
            self._show(results=self._results())

    def _judge(self, exercises: list[Exercise]) -> None:
        """Show the verdicts on these, or that they are being judged; what was asked before is off."""
        self._since = time.monotonic()
        self._orders.place(exercises)
        if not self._orders.open:
            self._show(results=self._results(), status=_clock())
        else:
            # The last results stay, as such, until there are newer ones.
            status = f"judging {self._orders.open[0].exercise.id}"
            self._show(notes=self._view.notes, status=status)

    def _answer(self, answer: Answer) -> None:
        if not self._orders.take(answer):
            return
        ended = not self._orders.open
        results = self._results() if ended else None
        if answer.result is None:
            status = "not judged: a fault of the grader; r tries again"
            self._show(results=results, notes=answer.fault, status=status)
            return
        if answer.result.status is Status.PASSED:
            self._drop_hint(answer)
        if ended:
            status = f"{_clock()}  judged in {self._seconds():.2f} s"
            # What a key brought meanwhile, the word of a picture, is still to be read.
            self._show(results=results, notes=self._view.notes, status=status)

    def _drop_hint(self, answer: Answer) -> None:
        """A hint has helped; one that was asked for while this was judged is still to be read."""
        hint = self._hints.get(answer.order.exercise.id)
        if hint is not None and hint.order < answer.order.number:
            del self._hints[answer.order.exercise.id]

    def _results(self) -> tuple[ExerciseResult, ...]:
        if self._view.shows is Shows.ALL:
            return self._orders.known(self._course.exercises)
        return self._orders.known([self._view.exercise])

    def _seconds(self) -> float:
        """The time since the judging began."""
        return time.monotonic() - self._since

    # --- keys -----------------------------------------------------------------------------------

    def _quit(self) -> None:
        self._is_over = True

    def _all(self) -> None:
        self._workspace.read_again()
        self._view = View(self._view.exercise, Shows.ALL)
        self._judge(list(self._course.exercises))

    def _rerun(self) -> None:
        self._workspace.read_again()
        self._view = View(self._view.exercise, results=self._view.results)
        self._judge([self._view.exercise])

    def _hint(self) -> None:
        exercise, logbook = self._view.exercise, self._workspace.logbook
        number = logbook.next_hint(exercise)
        logbook.see_hint(exercise, number)
        self._hints[exercise.id] = _Hint(number, self._orders.number)
        self._back()

    def _list(self) -> None:
        if self._view.shows is Shows.LIST:
            self._back()
        else:
            self._workspace.read_again()
            self._view = msgspec.structs.replace(self._view, shows=Shows.LIST, notes="")
            self._draw()

    def _back(self) -> None:
        """From a list to the exercise; what is being judged goes on."""
        self._view = View(self._view.exercise, status=self._view.status)
        self._show(results=self._results(), status=self._view.status)

    def _next(self) -> None:
        self._workspace.read_again()
        standings = self._workspace.standings()
        here = self._view.exercise.id
        following = next_open(self._course, standings, here, in_turn=True)
        if following is None:
            self._say("every other exercise is done")
        else:
            self._turn_to(following)

    def _printed(self) -> None:
        """All that the code printed, test by test."""
        tests = [test for result in self._view.results for test in result.tests if test.printed]
        text = "\n".join(f"{test.title}:\n{test.printed}" for test in tests)
        text = text or "\n".join(result.output for result in self._view.results).strip()
        self._show(notes=text or "Your code printed nothing.", status=self._view.status)

    def _begin_plot(self) -> None:
        exercise = self._view.exercise

        def work() -> None:
            try:
                text = self._plot(exercise)
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
        notes: str = "",
        status: str = "",
    ) -> None:
        shown = self._view.results if results is None else results
        self._view = msgspec.structs.replace(self._view, results=shown, notes=notes, status=status)
        self._draw()

    def _draw(self) -> None:
        """Draw the view, with the hint that is on show of its exercise."""
        hint = self._hints.get(self._view.exercise.id)
        number = hint.number if hint is not None and self._view.shows is Shows.EXERCISE else None
        stale = bool(self._orders.open)
        self._face.draw(msgspec.structs.replace(self._view, hint=number, stale=stale))

    def _say(self, status: str) -> None:
        self._view = msgspec.structs.replace(self._view, status=status)
        self._face.status(status)


class KeyBinding(NamedTuple):
    """A key: the word for it on the screen, what the help says, and what it does."""

    word: str
    help: str
    action: Callable[[WatchLoop], None]


# A new key is a line here, and a method above.
KEYS = {
    "h": KeyBinding("hint", "show the next hint", WatchLoop._hint),
    "n": KeyBinding("next", "turn to the next exercise that is not done", WatchLoop._next),
    "l": KeyBinding("list", "show how far you are, and back", WatchLoop._list),
    "a": KeyBinding("all", "judge every exercise", WatchLoop._all),
    "r": KeyBinding("rerun", "judge this one again", WatchLoop._rerun),
    "o": KeyBinding("output", "show all that your code printed", WatchLoop._printed),
    "p": KeyBinding("plot", "draw what your code does, as `grade plot`", WatchLoop._begin_plot),
    "q": KeyBinding("quit", "end the watching", WatchLoop._quit),
}


def _clock() -> str:
    return time.strftime("%H:%M:%S")
