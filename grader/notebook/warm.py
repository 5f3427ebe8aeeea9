"""One judge for all checks of a notebook: started with the first one, warm for every other."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib

from grader.course.manifest import Course, Exercise
from grader.errors import GraderError
from grader.judge.assignment import GradingOptions
from grader.judge.process import Judge, judge_source, judges, modules_of
from grader.results import ExerciseResult

_PATIENCE_SECONDS = 5.0


class NotebookJudge:
    """A judge and its fork server, kept until `close` or the end of the interpreter.

    They are started, and asked, by a thread that lives as long as this object: bubblewrap ends with the
    thread that started it, and a cell may run in a thread that ends with it.
    """

    def __init__(self) -> None:
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="grade")
        self._running = contextlib.ExitStack()
        self._judge: Judge | None = None
        atexit.register(self.close)

    def judge(
        self,
        course: Course,
        exercise: Exercise,
        source: bytes,
        options: GradingOptions,
    ) -> ExerciseResult:
        """Have the source of an exercise's file judged; raises GraderError for a fault of ours.

        An interrupt ends what is being judged, and the judge with it; the next check starts another.
        """
        asked = self._thread.submit(self._judged, course, exercise, source, options)
        try:
            return asked.result()
        except KeyboardInterrupt:
            if self._judge is not None:
                # What it is at ends with it, and so does the wait of the thread.
                self._judge.close()
            concurrent.futures.wait([asked], timeout=_PATIENCE_SECONDS)
            self._end()
            raise
        except GraderError:
            self._end()
            raise

    def close(self) -> None:
        """End the judge."""
        self._end()
        self._thread.shutdown()
        atexit.unregister(self.close)

    def _judged(
        self,
        course: Course,
        exercise: Exercise,
        source: bytes,
        options: GradingOptions,
    ) -> ExerciseResult:
        if self._judge is None or not self._judge.alive:
            self._end()
            (self._judge,) = self._running.enter_context(judges(preload=modules_of([exercise])))
        judge = self._judge
        return judge_source(judge, course, exercise, source, options).result

    def _end(self) -> None:
        self._judge = None
        self._running.close()
