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
    HandInProgress,
    NotServed,
    Orders,
    Plotted,
    Pressed,
    Redraw,
    Saved,
    Served,
    TestProgress,
)
from grader.cli.watch.screen import Face, Shows, View
from grader.course.manifest import Exercise
from grader.errors import GraderError
from grader.judge.warm import Answer
from grader.results import ExerciseResult, Status
from grader.student.progress import Standing, digest_of, next_open
from grader.student.workspace import Workspace
from grader.text import number

_QUICK_SECONDS = 0.4
# Python handles a signal in this thread alone, and a wait without an end may not be interrupted by
# it: not by Ctrl-C on Windows, nor on Linux by what reached another thread first, as a SIGCONT does.
_WAIT_SECONDS = 0.2
# Hands in a source: tells where it is in the queue, and returns the verdict. Raises GraderError.
Submit = Callable[[Exercise, bytes, Callable[[str], None]], ExerciseResult]


class _Hint(NamedTuple):
    """A hint on show, and the number of the newest order when it was asked for."""

    number: int
    order: int


class WatchLoop:
    """The loop over the events, which any thread may put; `plot` plots and says where, `submit` hands in."""

    def __init__(
        self,
        workspace: Workspace,
        face: Face,
        events: queue.SimpleQueue[Event],
        plot: Callable[[Exercise], str],
        submit: Submit | None = None,
    ) -> None:
        self._events = events
        self._workspace, self._face, self._plot, self._submit = workspace, face, plot, submit
        self._course = workspace.course
        self._orders = Orders(workspace, events.put)
        self._since, self._is_over = time.monotonic(), False
        self._view = View(self._course.exercises[0])
        # By exercise: the hint on show, which stays until the exercise passes.
        self._hints: dict[str, _Hint] = {}
        # By exercise: the source that is with the server, and the server's newest verdict.
        self._sent: dict[str, bytes] = {}
        self._served: dict[str, Served] = {}

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
                    self._show(notes=text, status=self._status())
            case HandInProgress(text):
                if not self._orders.open:
                    self._say(text)
            case Served():
                self._take_verdict(event)
            case NotServed(exercise, source, fault):
                if self._sent.get(exercise.id) == source:
                    del self._sent[exercise.id]
                    self._show(notes=f"{exercise.id}: {fault}", status=self._status())
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
        exercise = self._view.exercise
        served = self._served.get(exercise.id)
        if served is not None and served.source == self._workspace.handed(exercise).source:
            return (served.result,)
        return self._orders.known([exercise])

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
        if self._served.pop(self._view.exercise.id, None) is not None:
            # What is here is shown again, and may be handed in again.
            del self._sent[self._view.exercise.id]
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
        full, standings = Standing.FULL_MARKS, self._workspace.standings()
        by_server = self._submit is not None
        done = {e for e, s in standings.items() if s is full or (s.is_done and not by_server)}
        following = next_open(self._course, done, self._view.exercise.id, in_turn=True)
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

    def _begin_submit(self) -> None:
        submit, exercise = self._submit, self._view.exercise
        if submit is None:
            self._say("`grade watch --submit` hands in to the server of your course")
            return
        self._workspace.read_again()
        handed = self._workspace.handed(exercise)
        source = handed.source
        if source is None:
            self._show(notes=handed.problem, status=_clock())
        elif source == self._sent.get(exercise.id):
            self._say(f"{exercise.id} is handed in already, as it is now")
        else:
            self._sent[exercise.id] = source
            self._hand_in(submit, exercise, source)

    def _hand_in(self, submit: Submit, exercise: Exercise, source: bytes) -> None:
        put = self._events.put

        def work() -> None:
            try:
                result = submit(exercise, source, lambda text: put(HandInProgress(text)))
                put(Served(exercise, source, result))
            except (GraderError, OSError) as error:
                put(NotServed(exercise, source, str(error)))

        threading.Thread(target=work, daemon=True).start()
        self._say(f"handing in {exercise.id}")

    def _take_verdict(self, served: Served) -> None:
        """Show a verdict of the server where its file is on show as it is now; else say it."""
        exercise, result = served.exercise, served.result
        if self._sent.get(exercise.id) != served.source:
            return  # a newer file is with the server
        self._served[exercise.id] = served
        self._workspace.logbook.record_served(exercise, digest_of(served.source), result)
        words = f"{number(result.score)} of {number(result.max_score)} points from the server"
        is_shown = exercise is self._view.exercise and self._view.shows is Shows.EXERCISE
        if is_shown and not self._orders.open and self._results() == (result,):
            self._show(results=(result,), status=f"{_clock()}  {exercise.id}: {words}")
        else:
            notes = f"{exercise.id}, as you handed it in: {words}."
            self._show(notes=notes, status=self._status())

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
        handed = self._served.get(self._view.exercise.id)
        served = handed is not None and self._view.results == (handed.result,)
        self._face.draw(
            msgspec.structs.replace(self._view, hint=number, stale=stale, served=served)
        )

    def _status(self) -> str:
        """The status beside what came while something may be judged."""
        return self._view.status if self._orders.open else _clock()

    def _say(self, status: str) -> None:
        self._view = msgspec.structs.replace(self._view, status=status)
        self._face.status(status)


class KeyBinding(NamedTuple):
    """A key: the word for it on the screen, what the help says, and what it does."""

    word: str
    help: str
    action: Callable[[WatchLoop], None]
    needs_server: bool = False


# A new key is a line here, and a method above.
KEYS = {
    "h": KeyBinding("hint", "show the next hint", WatchLoop._hint),
    "n": KeyBinding("next", "turn to the next exercise that is not done", WatchLoop._next),
    "l": KeyBinding("list", "show how far you are, and back", WatchLoop._list),
    "a": KeyBinding("all", "judge every exercise", WatchLoop._all),
    "r": KeyBinding("rerun", "judge this one again", WatchLoop._rerun),
    "o": KeyBinding("output", "show all that your code printed", WatchLoop._printed),
    "p": KeyBinding("plot", "draw what your code does, as `grade plot`", WatchLoop._begin_plot),
    "s": KeyBinding(
        "submit",
        "hand in this exercise, with --submit",
        WatchLoop._begin_submit,
        needs_server=True,
    ),
    "q": KeyBinding("quit", "end the watching", WatchLoop._quit),
}


def _clock() -> str:
    return time.strftime("%H:%M:%S")
