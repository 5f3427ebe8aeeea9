"""What a result means for the student: the findings worth reading, and the one next step."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from grader.course import Course
from grader.intake import State, file_of, read_submission
from grader.judge.wording import clean
from grader.results import ExerciseResult, Outcome, Place, Result, Status, TestResult

__all__ = ["Finding", "Guide", "findings", "is_untouched", "shown_path"]

_LONGEST_PATH = 1000


class Finding(msgspec.Struct, frozen=True):
    """Tests that end alike at the same place; the first of them speaks for all."""

    tests: tuple[TestResult, ...]

    @property
    def first(self) -> TestResult:
        """The test to show."""
        return self.tests[0]


def findings(exercise: ExerciseResult) -> list[Finding]:
    """What does not hold, in the order of the tests; parts still to be written come last."""
    alike: dict[tuple[Outcome, str, Place | None], list[TestResult]] = {}
    for test in exercise.tests:
        if test.outcome not in (Outcome.PASSED, Outcome.SKIPPED):
            alike.setdefault((test.outcome, test.message, test.place), []).append(test)
    found = [Finding(tuple(tests)) for tests in alike.values()]
    return sorted(found, key=lambda each: each.first.outcome is Outcome.NOT_IMPLEMENTED)


def is_untouched(exercise: ExerciseResult) -> bool:
    """Whether nothing at all is written yet."""
    # One that was judged has no message of its own: something is written in it.
    return exercise.status is Status.NOT_ATTEMPTED and bool(exercise.message)


def shown_path(path: Path) -> str:
    """A path as it can be clicked and pasted: from the current folder where that is shorter."""
    absolute = os.path.abspath(path)  # noqa: PTH100  # resolve() would follow the student's links
    try:
        shown = min(os.path.relpath(absolute), absolute, key=len)
    except ValueError:  # another drive
        shown = absolute
    return clean(shown, _LONGEST_PATH)


def _command(text: str) -> str:
    return f"`{clean(text, _LONGEST_PATH)}`"


class Guide(msgspec.Struct, frozen=True):
    """Knows where the files lie, and the commands with the options that the caller gave."""

    course: Course
    submission: Path
    run_options: str = ""
    hint_options: str = ""

    def where(self, exercise_id: str, place: Place | None = None) -> str:
        """The file of an exercise as one clicks it: `exercises/modules/glu.py:31`."""
        line = f":{place.line}" if place is not None else ""
        return shown_path(self._file(exercise_id)) + line

    def judge(self, exercise_id: str, more: str = "") -> str:
        """The command that judges an exercise again."""
        return _command(f"grade run {exercise_id}{self.run_options}{more}")

    def next_step(self, result: Result) -> str:
        """The one thing to do now: mend what was begun before something new is started."""
        unfinished = [each for each in result.exercises if each.status is not Status.PASSED]
        for exercise in unfinished:
            if not is_untouched(exercise):
                return self._mend(exercise)
        if unfinished:
            first = len(unfinished) == len(result.exercises)
            return self._start(unfinished[0].name, "Start" if first else "Next: start")
        if (further := self._further(result)) is not None:
            return self._start(further, "Done. Next: start")
        if len(result.exercises) < len(self.course.exercises):
            return "Done: everything that was judged passes. `grade` alone judges the whole course."
        return "Full marks: every test of every exercise passes. Well done!"

    def _mend(self, exercise: ExerciseResult) -> str:
        first = next((each.first for each in findings(exercise)), None)
        where = self.where(exercise.name, first.place if first is not None else None)
        again = self.judge(exercise.name)
        if not os.path.lexists(self._file(exercise.name)):
            return f"Next: put your file at {where}, then run {again}."
        unwritten = first is not None and first.outcome is Outcome.NOT_IMPLEMENTED
        return f"Next: {'finish' if unwritten else 'fix'} {where}, then run {again}."

    def _start(self, exercise_id: str, how: str) -> str:
        hint = _command(f"grade hint {exercise_id}{self.hint_options}")
        return f"{how} with {self.where(exercise_id)}; {hint} helps."

    def _further(self, result: Result) -> str | None:
        """The first exercise of the course that was not judged and is still a stub."""
        judged = {exercise.name for exercise in result.exercises}
        files = read_submission(self.submission, self.course).files
        for exercise in self.course.exercises:
            if exercise.id in files and exercise.id not in judged:
                state = files[exercise.id].state(self.course.stub(exercise))
                if state is State.UNTOUCHED:
                    return exercise.id
        return None

    def _file(self, exercise_id: str) -> Path:
        return file_of(self.submission, self.course.exercise(exercise_id))
