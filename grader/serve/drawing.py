"""Plots of the code in the editor, as `grade plot` draws them.

Theory of operation. One picture is drawn at a time, in processes of its own, which end with it. The code runs
in sandboxes, and matplotlib is imported by the drawing process, not by the server. Meanwhile, the judges have
one processor less. So students may draw only a few pictures, few pictures may wait, and none is begun while
hand-ins wait. With a cluster, there are no plots, since students' code must not run on the server's machine.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.judge.process import Judge, judges
from grader.serve.http import Refusal
from grader.serve.turns import Rate
from grader.student.plots.plot import PROGRAM, drawn_by
from grader.student.plots.process import Drawn, Request
from grader.submissions import ExerciseFile
from grader.text import clean_lines, counted

# Per student, for all exercises together.
MAX_PLOTS, PLOTS_SECONDS = 10, 600
# For all students together, since a plot takes a few seconds.
MAX_WAITING = 5
_AGAIN_SECONDS = 30
_LONGEST_MESSAGE = 1500


class Drawing:
    """Draws one picture at a time, from the first `draw` until `close`; for the event loop."""

    def __init__(self, course: Course, options: GradingOptions, *, is_here: bool) -> None:
        self._course, self._options, self._is_here = course, options, is_here
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="plot")
        self._rate = Rate(MAX_PLOTS, PLOTS_SECONDS)
        self._waiting = 0
        self._judge: Judge | None = None
        self._closed = False

    def has_plot(self, exercise: Exercise) -> bool:
        """Whether this server draws a plot of the exercise."""
        return self._is_here and self._course.plot(exercise).is_file()

    async def draw(self, student: str, exercise: Exercise, source: bytes, urgent: int) -> bytes:
        """Return the plot of a student's code as a PNG; `urgent` is the number of waiting hand-ins.

        Raises Refusal if there is no picture, or hand-ins wait; a 422 explains the problem with the code.
        """
        if not self.has_plot(exercise):
            raise Refusal(404, f"{exercise.id} has no plot here.")
        if wait := self._rate.wait(student):
            often = f"The limit is {counted(MAX_PLOTS, 'plot')} in {PLOTS_SECONDS // 60} minutes."
            raise Refusal(429, f"{often} Wait {counted(wait, 'second')}.", retry_after=wait)
        if urgent or self._waiting >= MAX_WAITING:
            raise Refusal(
                503, "The judges are busy: plot it in a moment.", retry_after=_AGAIN_SECONDS
            )
        self._rate.add(student)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, self._drawn, exercise, source
            )
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Stop drawing."""
        self._closed = True
        if (judge := self._judge) is not None:
            judge.end()
        self._thread.shutdown(cancel_futures=True)

    def _drawn(self, exercise: Exercise, source: bytes) -> bytes:
        """Draw a picture, in the thread for that; raises Refusal."""
        settled = settle(self._course, exercise, ExerciseFile(source), self._options)
        if settled is not None:
            raise Refusal(422, f"No picture yet. {clean_lines(settled.message, _LONGEST_MESSAGE)}")
        request = Request(
            str(self._course.folder / "course.toml"),
            exercise.id,
            source,
            required_walls=self._options.required_walls,
        )
        try:
            with judges(preload=exercise.preload, program=PROGRAM) as (judge,):
                self._judge = judge
                if self._closed:
                    raise Refusal(503, "The server is shutting down.", retry_after=_AGAIN_SECONDS)
                drawn = drawn_by(judge, request)
        except GraderError as error:
            raise Refusal(500, "This is a fault of the grader, and costs you nothing.") from error
        finally:
            self._judge = None
        if isinstance(drawn, Drawn):
            return drawn.picture
        raise Refusal(422, f"No picture yet. {clean_lines(drawn.message, _LONGEST_MESSAGE)}")
