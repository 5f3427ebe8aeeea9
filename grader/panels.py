"""The panel of a result: what was earned, what does not hold and where, and the one next step.

Whatever comes from a submission, its name and its paths included, is untrusted text: it is cleaned
and stays text, and nothing in it is markup.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.text import Text

from grader.console import (
    counted,
    hang,
    marks_for,
    number,
    outcome_mark,
    print_lines,
    shown_path,
    status_words,
)
from grader.course import Course
from grader.intake import State, file_of, read_submission
from grader.judge.wording import clean
from grader.results import ExerciseResult, Outcome, Place, Result, Status, TestResult, Visibility

__all__ = ["Advice", "show_result"]

# The first exercise that does not hold shows this many findings, each of the others one: one
# cause at a time, and the total still on the same screen.
FIRST_FINDINGS = 3
_LONGEST_LINE = 1000


class Advice(msgspec.Struct, frozen=True):
    """The options of the caller, to be repeated in the commands that the panel advises."""

    run: str = ""
    hint: str = ""

    def judge(self, exercise_id: str, more: str = "") -> str:
        """The command that judges an exercise again."""
        return f"`grade run {exercise_id}{self.run}{more}`"

    def help(self, exercise_id: str) -> str:
        """The command that shows an exercise's first hint."""
        return f"`grade hint {exercise_id}{self.hint}`"


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


def show_result(
    console: Console,
    result: Result,
    *,
    course: Course,
    submission: Path,
    advice: Advice | None = None,
    verbose: bool = False,
) -> None:
    """Print the panel; `submission` is where the files lie that the result is about."""
    panel = _Panel(console, result, course, submission, advice or Advice(), verbose)
    print_lines(console, panel.lines())


class _Panel:
    """The lines of one result, from the header down to the next step."""

    def __init__(
        self,
        console: Console,
        result: Result,
        course: Course,
        submission: Path,
        advice: Advice,
        verbose: bool,
    ) -> None:
        self._console, self._marks = console, marks_for(console)
        self._result, self._course, self._submission = result, course, submission
        self._advice, self._verbose = advice, verbose
        self._table = _Table(console, result)

    def lines(self) -> Iterator[Text]:
        """Every line, in order."""
        yield Text(self._course.title, "bold")
        yield Text(clean(shown_path(self._submission), _LONGEST_LINE), "dim")
        yield Text()
        shown, details = FIRST_FINDINGS, [Text()]
        for exercise in self._result.exercises:
            yield self._table.line(exercise)
            if details := list(self._details(exercise, shown)):
                shown = 1
                details.append(Text())
            yield from details
        yield from () if details else (Text(),)
        yield from self._total()
        yield Text(self._next_step(), "bold")

    # --- one exercise ---------------------------------------------------------------------------

    def _details(self, exercise: ExerciseResult, shown: int) -> Iterator[Text]:
        settled = exercise.status is Status.NOT_ATTEMPTED and exercise.message
        if exercise.message and not settled:
            # The file itself is at fault, and every test says so: once is enough.
            yield from self._explanation(exercise, exercise.tests[0])
        elif self._verbose:
            yield from self._every_test(exercise)
        elif not settled:
            yield from self._findings(exercise, shown)
        if self._verbose and exercise.output.strip():
            yield Text("    What your code printed:", "dim")
            yield from self._message(exercise.output, "      | ", "dim")

    def _findings(self, exercise: ExerciseResult, shown: int) -> Iterator[Text]:
        found = findings(exercise)
        for finding in found[:shown]:
            yield from self._title(finding.first)
            yield from self._explanation(exercise, finding.first)
            if more := len(finding.tests) - 1:
                yield Text(f"      The same in {counted(more, 'more test')}.", "dim")
        if rest := self._rest(exercise, found, shown):
            yield from hang(self._console, Text("    "), Text(rest, "dim"))

    def _rest(self, exercise: ExerciseResult, found: list[Finding], shown: int) -> str:
        """How many tests do not show, and how to see them."""
        parts = []
        if more := sum(len(finding.tests) for finding in found[shown:]):
            alone = len(self._result.exercises) == 1
            command = self._advice.judge(exercise.name, " -v" if alone else "")
            parts.append(f"{counted(more, 'more test')} failed: {command} shows them.")
        if waiting := sum(test.outcome is Outcome.SKIPPED for test in exercise.tests):
            which = "this one" if len(found) == 1 else "these"
            parts.append(f"{waiting} more {'waits' if waiting == 1 else 'wait'} for {which}.")
        return " ".join(parts)

    def _every_test(self, exercise: ExerciseResult) -> Iterator[Text]:
        explained = {id(finding.first) for finding in findings(exercise)}
        for test in exercise.tests:
            yield from self._title(test)
            if id(test) in explained:
                yield from self._explanation(exercise, test)
            elif test.outcome is Outcome.SKIPPED:
                yield from self._message(test.message, "      ", "dim")
            elif test.outcome is not Outcome.PASSED:
                yield Text("      The same as above.", "dim")

    def _title(self, test: TestResult) -> Iterator[Text]:
        prefix = Text.assemble("    ", outcome_mark(test.outcome, self._marks), " ")
        title = Text(clean(test.title, _LONGEST_LINE))
        if self._verbose:
            title.append(f"  {test.visibility.value}, {test.duration_seconds:.2f} s", "dim")
        yield from hang(self._console, prefix, title)

    def _explanation(self, exercise: ExerciseResult, test: TestResult) -> Iterator[Text]:
        """The finding, its details, the place and the hint."""
        finding, _, details = test.message.partition("\n")
        yield from self._message(finding, "      ", "bold")
        if details:
            yield from self._message(details, "      ", "")
        if test.place is not None:
            function = clean(test.place.function)
            yield Text.assemble(
                "      ",
                (self._where(exercise.name, test.place), "cyan"),
                (f"  in {function}" if function else "", "dim"),
            )
        if test.hint and not exercise.message:
            prefix = Text(f"      {self._marks.arrow} ")
            yield from hang(self._console, prefix, Text(clean(test.hint, _LONGEST_LINE), "italic"))

    def _message(self, text: str, prefix: str, style: str) -> Iterator[Text]:
        for line in text.splitlines():
            shown = Text(clean(line.expandtabs(4), _LONGEST_LINE), style)
            yield from hang(self._console, Text(prefix), shown)

    def _where(self, exercise_id: str, place: Place | None = None) -> str:
        """The file of an exercise as one clicks it: `exercises/modules/glu.py:31`."""
        path = file_of(self._submission, self._course.exercise(exercise_id))
        line = f":{place.line}" if place is not None else ""
        return clean(shown_path(path), _LONGEST_LINE) + line

    # --- the end --------------------------------------------------------------------------------

    def _total(self) -> Iterator[Text]:
        result = self._result
        points = f"{number(result.score)} of {number(result.max_score)} points"
        line = Text.assemble("Total: ", (points, "bold"), self._bar())
        tests = [test for exercise in result.exercises for test in exercise.tests]
        if all(test.visibility is Visibility.PUBLIC for test in tests):
            line.append("  by the public tests alone", "dim")
        yield line
        if self._verbose:
            walls = ", ".join(result.environment.isolation) or "none"
            about = f"Seed {result.seed}, {result.duration_seconds:.2f} s. Walls: {walls}."
            yield from hang(self._console, Text(), Text(about, "dim"))

    def _bar(self) -> Text:
        """The share of the points; full only if it is, and empty only if it is."""
        cells, score, worth = 20, self._result.score, self._result.max_score
        done = round(cells * score / worth) if worth else 0
        if 0 < score < worth:
            done = min(max(done, 1), cells - 1)
        bar = (self._marks.full * done, "green"), (self._marks.empty * (cells - done), "dim")
        return Text.assemble("  ", *bar) if self._marks.full else Text()

    def _next_step(self) -> str:
        """The one thing to do now: mend what was begun before something new is started."""
        results = self._result.exercises
        for exercise in results:
            if exercise.status is not Status.PASSED and not _untouched(exercise):
                return self._mend(exercise)
        for exercise in results:
            if exercise.status is not Status.PASSED:
                first = all(_untouched(each) for each in results)
                return self._start(exercise.name, "Start" if first else "Next: start")
        if (further := self._further()) is not None:
            return self._start(further, "Done. Next: start")
        if len(results) < len(self._course.exercises):
            return "Done: everything that was judged passes. `grade` alone judges the whole course."
        return "Full marks: every test of every exercise passes. Well done!"

    def _mend(self, exercise: ExerciseResult) -> str:
        first = next((each.first for each in findings(exercise)), None)
        place = first.place if first is not None else None
        where, again = self._where(exercise.name, place), self._advice.judge(exercise.name)
        if not os.path.lexists(file_of(self._submission, self._course.exercise(exercise.name))):
            return f"Next: put your file at {where}, then run {again}."
        unwritten = first is not None and first.outcome is Outcome.NOT_IMPLEMENTED
        return f"Next: {'finish' if unwritten else 'fix'} {where}, then run {again}."

    def _start(self, exercise_id: str, how: str) -> str:
        return f"{how} with {self._where(exercise_id)}; {self._advice.help(exercise_id)} helps."

    def _further(self) -> str | None:
        """The first exercise of the course that was not judged and is still a stub."""
        judged = {exercise.name for exercise in self._result.exercises}
        files = read_submission(self._submission, self._course).files
        for exercise in self._course.exercises:
            if exercise.id in files and exercise.id not in judged:
                stub = self._course.stub(exercise).read_bytes()
                if files[exercise.id].state(stub) is State.UNTOUCHED:
                    return exercise.id
        return None


def _untouched(exercise: ExerciseResult) -> bool:
    # One that was judged has no message of its own: something is written in it.
    return exercise.status is Status.NOT_ATTEMPTED and bool(exercise.message)


class _Table:
    """One line an exercise, in columns that fit: a narrow terminal goes without the ids."""

    def __init__(self, console: Console, result: Result) -> None:
        self._marks = marks_for(console)
        rows = result.exercises
        self._points = max(len(_points(row)) for row in rows)
        self._id = max(len(row.name) for row in rows)
        self._title = max(Text(row.title).cell_len for row in rows)
        left = console.width - self._points - len("  + ") - len("  partly passed  ")
        if self._id + 2 + self._title > left:
            self._id = 0
            self._title = min(self._title, max(left, 10))

    def line(self, row: ExerciseResult) -> Text:
        """Mark, id, title, points and status of one exercise."""
        mark, words = status_words(row.status, self._marks)
        title = Text(row.title)
        title.truncate(self._title, overflow="ellipsis", pad=True)
        name = Text(f"{row.name:<{self._id}}  " if self._id else "", "dim")
        points = f"  {_points(row):>{self._points}}  "
        return Text.assemble("  ", mark, " ", name, title, points, words)


def _points(row: ExerciseResult) -> str:
    return f"{number(row.score)} / {number(row.max_score)}"
