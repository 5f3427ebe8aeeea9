"""What moves while a command works: progress on stderr, if that is a terminal, gone when it ends.

Nothing of rich is imported before there is something to show: by then the judges are on their way,
and what is imported here costs nobody a wait.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Self

from grader.grading import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    import rich.progress

    from grader.course.manifest import Course, Exercise
    from grader.results import TestResult


class _Bar:
    """One line of progress that leaves no trace; nothing at all where stderr is no terminal."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._progress: rich.progress.Progress | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def start(self, what: str, total: int) -> None:
        """Begin to count anew up to `total`."""
        if not sys.stderr.isatty():
            return
        if self._progress is None:
            self._progress = _new_progress(self._unit)
            if self._progress is None:
                return
            self._progress.start()
        for task in self._progress.task_ids:
            self._progress.remove_task(task)
        self._progress.add_task(what, total=total)

    def advance(self) -> None:
        """One more is done."""
        if self._progress is not None:
            for task in self._progress.task_ids:
                self._progress.advance(task)


def _new_progress(unit: str) -> rich.progress.Progress | None:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn

    from grader.cli.terminal.console import is_plain, open_console

    console = open_console(sys.stderr)
    if is_plain(console):
        return None
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn(unit, markup=False),
        console=console,
        transient=True,
    )


class RunDisplay(_Bar, Progress):
    """Which exercise is judged, and how many of its tests are done."""

    def __init__(self, exercises: Sequence[Exercise]) -> None:
        super().__init__("tests")
        self._exercises = exercises

    def begin(self, exercise: Exercise, tests: int) -> None:
        """Show the exercise; and load what shows the result while the judge loads torch."""
        import grader.cli.terminal.result  # noqa: F401  # only loaded here, used by whoever shows the result

        place = self._exercises.index(exercise) + 1
        self.start(f"{exercise.id} ({place} of {len(self._exercises)})", tests)

    def test(self, exercise: Exercise, result: TestResult) -> None:  # noqa: ARG002  # as inherited
        """One more test is done."""
        self.advance()


class VerifyDisplay(_Bar):
    """Which exercise is proved, and how many of its modules have been judged."""

    def __init__(self, course: Course, seeds: int) -> None:
        super().__init__("modules")
        self._lock = threading.Lock()
        self._course, self._seeds = course, seeds
        self._exercise: Exercise | None = None

    def judged(self, exercise: Exercise, module: str) -> None:  # noqa: ARG002  # as verify calls it
        """One more module is judged, by one of several threads."""
        with self._lock:
            if exercise is not self._exercise:
                self._exercise = exercise
                self.start(exercise.id, self._modules(exercise))
            self.advance()

    def _modules(self, exercise: Exercise) -> int:
        """The stub once, the solution and the right answers under each seed, the wrong ones."""
        from grader.authoring.mutants import wrong_answers

        rights = len(self._course.rights(exercise))
        return 1 + rights * self._seeds + len(wrong_answers(self._course, exercise).answers)
