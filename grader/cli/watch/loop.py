"""The loop of `grade watch`: each save, key, test and verdict changes the view.

A file is judged only if its content changed. The newest content wins: new tasks for the judge call off the old
ones.
"""

from __future__ import annotations

import functools
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, ParamSpec, TypeVar

import msgspec

from grader.cli.watch.screen import Face, Shows, View
from grader.course.manifest import Exercise
from grader.course.suites import tests_of
from grader.errors import CourseError, GraderError
from grader.grading import settle
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import Task
from grader.judge.warm import WarmJudge
from grader.results import ExerciseResult, Status
from grader.student.progress import Standing, digest_of, next_open
from grader.student.workspace import Workspace
from grader.text import number

P = ParamSpec("P")
T = TypeVar("T")

_OPTIONS = GradingOptions()
_QUICK_SECONDS = 0.4
# Python handles signals only in this thread, and an endless wait might not be interrupted: not by Ctrl-C on
# Windows, nor on Linux by a signal that reached another thread first, as SIGCONT may.
_WAIT_SECONDS = 0.2
# Hands in a source, reports its place in the queue, and returns the verdict. Raises GraderError.
Submit = Callable[[Exercise, bytes, Callable[[str], None]], ExerciseResult]


class Tasks:
    """The tasks of a warm judge and its judgments; `open` are the tasks that are not judged yet."""

    def __init__(self, workspace: Workspace, judge: WarmJudge) -> None:
        self._workspace, self._course, self._judge = workspace, workspace.course, judge
        # By exercise: the last judged source and its result.
        self._known: dict[str, tuple[bytes | None, ExerciseResult]] = {}
        self._number = 0
        self.open: list[Task] = []

    def warm_up(self, exercise: Exercise) -> None:
        """Have the stub judged, unseen, so that a first save finds the judge warm."""
        self._judge.ask([Task(-1, exercise.id, self._course.stub(exercise).source)])

    def is_new(self, exercise: Exercise) -> bool:
        """Return whether the file differs from the one judged last and from the one being judged."""
        source = self._workspace.handed(exercise).source
        asked = [task.source for task in self.open if task.exercise == exercise.id]
        if asked:
            return source != asked[0]
        return exercise.id not in self._known or source != self._known[exercise.id][0]

    def known(self, exercises: Sequence[Exercise]) -> tuple[ExerciseResult, ...]:
        """Return the newest results of these exercises, as far as they have one."""
        return tuple(self._known[e.id][1] for e in exercises if e.id in self._known)

    def place(self, exercises: Sequence[Exercise]) -> None:
        """Settle cases that need no judge, and have the rest judged; earlier tasks are called off.

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
                self.open.append(Task(self._number, exercise.id, handed.source))
        self._judge.ask(self.open)

    def take(self, task: Task, judged: Judgment | JudgeFault) -> bool:
        """Keep the judgment of a task; return False if the task was called off."""
        if isinstance(judged, Judgment):
            # Keep it even if the task was called off: it is a verdict on that source.
            exercise = self._course.exercise(task.exercise)
            self._workspace.logbook.record(exercise, task.source, judged.result)
        if task not in self.open:
            return False
        self.open.remove(task)
        if isinstance(judged, Judgment):
            self._known[task.exercise] = (task.source, judged.result)
        return True


class WatchLoop:
    """Changes the view one call after another; other threads and signals make their calls through `later`.

    `plot` plots an exercise and returns a note about it; `submit` hands in.
    """

    def __init__(
        self,
        workspace: Workspace,
        face: Face,
        plot: Callable[[Exercise], str],
        submit: Submit | None = None,
    ) -> None:
        self._workspace, self._face, self._plot, self._submit = workspace, face, plot, submit
        self._course = workspace.course
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._judge = WarmJudge(
            self._course,
            answer=self.later(self._answer),
            test=self.later(self._tested),
            crashed=self.later(self.crashed),
        )
        self._tasks = Tasks(workspace, self._judge)
        self._since, self._is_over = time.monotonic(), False
        self._view = View(self._course.exercises[0])
        # By exercise: the current hint. It stays until the exercise passes; one requested during judging stays
        # longer, because the student has yet to read it.
        self._hints: dict[str, int] = {}
        self._new_hints: set[str] = set()
        # By exercise: the source that the server is judging, and the server's newest verdict with its source.
        self._sent: dict[str, bytes] = {}
        self._served: dict[str, tuple[bytes, ExerciseResult]] = {}

    def run(self, exercise: Exercise) -> None:
        """Begin with an exercise, and run until the key q or a KeyboardInterrupt.

        Raises GraderError if it cannot go on.
        """
        try:
            self._turn_to(exercise)
            if not self._tasks.open:
                self._tasks.warm_up(exercise)
            while not self._is_over:
                try:
                    call = self._calls.get(timeout=_WAIT_SECONDS)
                except queue.Empty:
                    continue
                call()
        finally:
            self._judge.close()

    def later(self, call: Callable[P, None]) -> Callable[P, None]:
        """Wrap a method so that another thread or a signal may call it: the loop makes the call in turn."""

        def hand_in(*args: P.args, **kwargs: P.kwargs) -> None:
            self._calls.put(functools.partial(call, *args, **kwargs))

        return hand_in

    def press(self, key: str) -> None:
        """Perform the action of a key."""
        if key in KEYS:
            KEYS[key].action(self)

    def save(self, ids: tuple[str, ...]) -> None:
        """Answer a save of these exercises, the last one saved last."""
        self._workspace.read_again()
        changed = [name for name in ids if self._tasks.is_new(self._course.exercise(name))]
        if changed:
            here = self._view.exercise.id
            self._turn_to(self._course.exercise(here if here in changed else changed[-1]))
        elif not self._tasks.open:
            if self._view.exercise.id not in ids:
                self._turn_to(self._course.exercise(ids[-1]))
            self._say("saved without a change; r reruns it")

    def crashed(self, error: Exception) -> None:
        """End the loop with an exception that ended another thread."""
        raise error

    def draw(self) -> None:
        """Draw the view, with the exercise's current hint."""
        exercise, shows = self._view.exercise.id, self._view.shows
        _, verdict = self._served.get(exercise, (None, None))
        self._view = msgspec.structs.replace(
            self._view,
            hint=self._hints.get(exercise) if shows is Shows.EXERCISE else None,
            judging=bool(self._tasks.open),
            served=verdict is not None and self._view.results == (verdict,),
        )
        self._face.draw(self._view)

    # --- judging --------------------------------------------------------------------------------

    def _turn_to(self, exercise: Exercise) -> None:
        """Show an exercise, with the verdict on its current file."""
        same = exercise is self._view.exercise and self._view.shows is Shows.EXERCISE
        self._view = View(exercise, results=self._view.results if same else ())
        if self._tasks.is_new(exercise) or self._tasks.open:
            self._begin_judging([exercise])
        else:
            self._show(results=self._results())

    def _begin_judging(self, exercises: list[Exercise]) -> None:
        """Show the verdicts on these, or that they are being judged; earlier tasks are called off."""
        self._since = time.monotonic()
        self._new_hints.clear()
        self._tasks.place(exercises)
        if self._tasks.open:
            # Until there are newer results, the last ones stay, marked as such.
            status = f"judging {self._tasks.open[0].exercise}"
            self._show(notes=self._view.notes, status=status)
        else:
            self._show(results=self._results(), status=_clock())

    def _tested(self, task: Task, count: int) -> None:
        """Show how many tests of a task have ended, unless judging is too quick to notice."""
        if task in self._tasks.open and self._seconds() > _QUICK_SECONDS:
            exercise = self._course.exercise(task.exercise)
            total = len(tests_of(self._course, exercise, _OPTIONS.suites))
            self._say(f"judging {exercise.id}: {count} of {total} tests")

    def _answer(self, task: Task, judged: Judgment | JudgeFault) -> None:
        """Show the results once the last of several tasks is judged."""
        if not self._tasks.take(task, judged):
            return
        results = None if self._tasks.open else self._results()
        if isinstance(judged, JudgeFault):
            status = "not judged: a fault of the grader; r tries again"
            self._show(results=results, notes=judged.message, status=status)
            return
        if judged.result.status is Status.PASSED and task.exercise not in self._new_hints:
            self._hints.pop(task.exercise, None)
        if results is not None:
            status = f"{_clock()}  judged in {self._seconds():.2f} s"
            # Keep a note that a key has added meanwhile, such as a picture's.
            self._show(results=results, notes=self._view.notes, status=status)

    def _results(self) -> tuple[ExerciseResult, ...]:
        """Return the newest results on show: the server's, if it judged the current file."""
        if self._view.shows is Shows.ALL:
            return self._tasks.known(self._course.exercises)
        exercise = self._view.exercise
        source, verdict = self._served.get(exercise.id, (None, None))
        if verdict is not None and source == self._workspace.handed(exercise).source:
            return (verdict,)
        return self._tasks.known([exercise])

    def _seconds(self) -> float:
        """Return the time since judging began."""
        return time.monotonic() - self._since

    # --- keys -----------------------------------------------------------------------------------

    def _quit(self) -> None:
        self._is_over = True

    def _all(self) -> None:
        self._workspace.read_again()
        self._view = View(self._view.exercise, Shows.ALL)
        self._begin_judging(list(self._course.exercises))

    def _rerun(self) -> None:
        self._workspace.read_again()
        if self._served.pop(self._view.exercise.id, None) is not None:
            # Local results are shown again, and the file may be handed in again.
            del self._sent[self._view.exercise.id]
        self._view = View(self._view.exercise, results=self._view.results)
        self._begin_judging([self._view.exercise])

    def _hint(self) -> None:
        exercise, logbook = self._view.exercise, self._workspace.logbook
        self._hints[exercise.id] = logbook.next_hint(exercise)
        logbook.see_hint(exercise, self._hints[exercise.id])
        self._new_hints.add(exercise.id)
        self._back()

    def _list(self) -> None:
        if self._view.shows is Shows.LIST:
            self._back()
        else:
            self._workspace.read_again()
            self._view = msgspec.structs.replace(self._view, shows=Shows.LIST, notes="", top=0)
            self.draw()

    def _back(self) -> None:
        """Go from a list to the exercise; judging goes on."""
        self._view = View(self._view.exercise, status=self._view.status)
        self._show(results=self._results(), status=self._view.status)

    def _next(self) -> None:
        """Turn to the next exercise that is not done or, with a server, lacks full marks."""
        self._workspace.read_again()
        full, standings = Standing.FULL_MARKS, self._workspace.standings()
        by_server = self._submit is not None
        done = {e for e, s in standings.items() if s is full or (s.is_done and not by_server)}
        following = next_open(self._course, done, self._view.exercise.id, in_turn=True)
        if following is None:
            self._say("every other exercise is done")
        else:
            self._turn_to(following)

    def _down(self) -> None:
        self._scroll(1)

    def _up(self) -> None:
        self._scroll(-1)

    def _scroll(self, pages: int) -> None:
        """Scroll in a small window."""
        top = self._face.scrolled(self._view, pages)
        if top != self._view.top:
            self._view = msgspec.structs.replace(self._view, top=top)
            self.draw()

    def _printed(self) -> None:
        """Show all printed output, test by test."""
        tests = [test for result in self._view.results for test in result.tests if test.printed]
        text = "\n".join(f"{test.title}:\n{test.printed}" for test in tests)
        text = text or "\n".join(result.output for result in self._view.results).strip()
        self._show(notes=text or "Your code printed nothing.", status=self._view.status)

    def _begin_plot(self) -> None:
        exercise = self._view.exercise

        def plotted(text: str) -> None:
            if exercise is self._view.exercise:
                self._show(notes=text, status=self._status())

        self._beside(lambda: self._plot(exercise), plotted, plotted)
        self._say(f"plotting {exercise.id}")

    def _begin_submit(self) -> None:
        """Hand in the current exercise, unless the server has this file already."""
        submit, exercise = self._submit, self._view.exercise
        if submit is None:
            self._say("`grade watch --submit` hands in to the server of your course")
            return
        self._workspace.read_again()
        handed = self._workspace.handed(exercise)
        if handed.source is None:
            self._show(notes=handed.problem, status=_clock())
        elif handed.source == self._sent.get(exercise.id):
            self._say(f"{exercise.id} is already handed in unchanged")
        else:
            self._sent[exercise.id] = handed.source
            self._hand_in(submit, exercise, handed.source)

    def _hand_in(self, submit: Submit, exercise: Exercise, source: bytes) -> None:
        """Hand in while the loop goes on, and show the place in the queue and then the verdict."""

        def waiting(text: str) -> None:
            if not self._tasks.open:
                self._say(text)

        def served(result: ExerciseResult) -> None:
            # Otherwise, a newer file has been handed in since.
            if self._sent.get(exercise.id) == source:
                self._take_verdict(exercise, source, result)

        def refused(fault: str) -> None:
            if self._sent.get(exercise.id) == source:
                del self._sent[exercise.id]
                self._show(notes=f"{exercise.id}: {fault}", status=self._status())

        self._beside(lambda: submit(exercise, source, self.later(waiting)), served, refused)
        self._say(f"handing in {exercise.id}")

    def _take_verdict(self, exercise: Exercise, source: bytes, result: ExerciseResult) -> None:
        """Show a verdict of the server if its file is current; else only mention it."""
        self._served[exercise.id] = (source, result)
        self._workspace.logbook.record_served(exercise, digest_of(source), result)
        words = f"{number(result.score)} of {number(result.max_score)} points from the server"
        is_shown = exercise is self._view.exercise and self._view.shows is Shows.EXERCISE
        if is_shown and not self._tasks.open and self._results() == (result,):
            self._show(results=(result,), status=f"{_clock()}  {exercise.id}: {words}")
        else:
            notes = f"{exercise.id}, as you handed it in: {words}."
            self._show(notes=notes, status=self._status())

    def _beside(
        self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[str], None]
    ) -> None:
        """Do long work in a thread, and pass its result to the loop."""

        def run() -> None:
            try:
                outcome = work()
            except (GraderError, OSError) as error:
                self.later(failed)(str(error))
            else:
                self.later(done)(outcome)

        threading.Thread(target=run, daemon=True).start()

    # --- showing --------------------------------------------------------------------------------

    def _show(
        self,
        *,
        results: tuple[ExerciseResult, ...] | None = None,
        notes: str = "",
        status: str = "",
    ) -> None:
        shown = self._view.results if results is None else results
        # Show new content from its top; the same content stays scrolled.
        same = shown == self._view.results and notes == self._view.notes
        self._view = msgspec.structs.replace(
            self._view,
            results=shown,
            notes=notes,
            status=status,
            top=self._view.top if same else 0,
        )
        self.draw()

    def _status(self) -> str:
        """Return the status, with a note that came while something may be judged."""
        return self._view.status if self._tasks.open else _clock()

    def _say(self, status: str) -> None:
        self._view = msgspec.structs.replace(self._view, status=status)
        self._face.status(status)


class KeyBinding(NamedTuple):
    """A key: its word on the screen, its help, and its action."""

    word: str
    help: str
    action: Callable[[WatchLoop], None]
    needs_server: bool = False


# A new key is a line here, a method above, and a row in docs/students.md, in this order.
KEYS = {
    "h": KeyBinding("hint", "show the next hint", WatchLoop._hint),
    "n": KeyBinding("next", "turn to the next exercise that is not done", WatchLoop._next),
    "l": KeyBinding("list", "show your progress, and back", WatchLoop._list),
    "a": KeyBinding("all", "judge every exercise", WatchLoop._all),
    "r": KeyBinding("rerun", "judge this one again", WatchLoop._rerun),
    "o": KeyBinding("output", "show everything that your code printed", WatchLoop._printed),
    "j": KeyBinding("down", "scroll down if the window is small", WatchLoop._down),
    "k": KeyBinding("up", "scroll up again", WatchLoop._up),
    "p": KeyBinding("plot", "plot your code at work, as `grade plot`", WatchLoop._begin_plot),
    "s": KeyBinding(
        "submit",
        "hand in this exercise, with --submit",
        WatchLoop._begin_submit,
        needs_server=True,
    ),
    "q": KeyBinding("quit", "quit", WatchLoop._quit),
}


def _clock() -> str:
    return time.strftime("%H:%M:%S")
