"""The panel of a result: what was earned, what does not hold and where, and the one next step.

Whatever comes from a submission, its name and its paths included, is untrusted text: it is cleaned
and stays text, and nothing in it is markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import (
    DIFFICULTY,
    bar,
    cut,
    hang,
    marks_for,
    outcome_mark,
    print_lines,
    status_words,
)
from grader.results import ExerciseResult, Outcome, Result, Status, TestResult, Visibility
from grader.student.advice import Finding, Guide, findings, is_untouched, shown_path
from grader.text import clean, counted, number

# The first exercise that does not hold shows this many findings, each of the others one: one
# cause at a time, and the total still on the same screen.
FIRST_FINDINGS = 3
_LONGEST_LINE = 1000


def show_result(console: Console, result: Result, guide: Guide, *, verbose: bool = False) -> None:
    """Print the panel; the guide knows where the files lie that the result is about."""
    about = ""
    if verbose:
        walls = ", ".join(result.environment.isolation) or "none"
        about = f"Seed {result.seed}, {result.duration_seconds:.2f} s. Walls: {walls}."
    print_lines(console, panel(console, result.exercises, guide, verbose=verbose, about=about))


def panel(
    console: Console,
    exercises: Sequence[ExerciseResult],
    guide: Guide,
    *,
    verbose: bool = False,
    about: str = "",
    shown: int = FIRST_FINDINGS,
) -> Iterator[Text]:
    """The lines of the panel of these exercises; `about` is said of the run as a whole.

    Of the first exercise that does not hold, `shown` findings are shown.
    """
    return _Panel(console, exercises, guide, verbose).lines(about, shown)


def show_complete(console: Console, guide: Guide) -> None:
    """Print that there is nothing left to do, and what to do if one wants to."""
    lines = [
        Text(guide.course.title, "bold"),
        Text(),
        _progress(console, guide),
        Text("Every exercise is done, as its file is now. Well done!", "bold"),
        Text(f"`grade --all{guide.hint_options}` judges them once more, together.", "dim"),
    ]
    print_lines(console, iter(lines))


def _progress(console: Console, guide: Guide) -> Text:
    """How many exercises of the student's own folder are done: `3 of 6 done`."""
    done, count = guide.done, len(guide.standings)
    return Text.assemble((f"{done} of {count} done", "bold"), bar(console, done, count))


class _Panel:
    """The lines of one result, from the header down to the next step."""

    def __init__(
        self, console: Console, exercises: Sequence[ExerciseResult], guide: Guide, verbose: bool
    ) -> None:
        self._console, self._marks = console, marks_for(console)
        self._exercises, self._guide, self._verbose = exercises, guide, verbose
        self._table = _Table(console, exercises)
        # One exercise of one's own is shown beside the progress; all else beside the points.
        self._alone = len(exercises) == 1 and bool(guide.standings)

    def lines(self, about: str, shown: int) -> Iterator[Text]:
        """Every line, in order."""
        yield Text(self._guide.course.title, "bold")
        if not self._alone:
            yield Text(shown_path(self._guide.submission), "dim")
        yield Text()
        details = [Text()]
        for exercise in self._exercises:
            yield self._table.line(exercise)
            if details := list(self._details(exercise, shown)):
                shown = 1
                details.append(Text())
            yield from details
        yield from () if details else (Text(),)
        yield self._total()
        if about:
            yield from hang(self._console, Text(), Text(about, "dim"))
        yield from self._elsewhere()
        yield Text(self._guide.next_step(self._exercises), "bold")

    def _elsewhere(self) -> Iterator[Text]:
        """What was begun out of order: the next step must not hide it."""
        if self._alone and self._exercises[0].status is Status.NOT_ATTEMPTED:
            begun = self._guide.begun_elsewhere(self._exercises[0].name)
            if begun:
                names = ", ".join(begun)
                command = self._guide.judge(begun[0])
                how = "" if self._guide.asked.by_saving else f" ({command})"
                text = f"Begun and not done: {names}{how}."
                yield from hang(self._console, Text(), Text(text, "dim"))

    # --- one exercise ---------------------------------------------------------------------------

    def _details(self, exercise: ExerciseResult, shown: int) -> Iterator[Text]:
        untouched = is_untouched(exercise)
        if untouched and self._alone:
            yield from self._introduction(exercise)
        if exercise.message and not untouched:
            # The file itself is at fault, and every test says so: once is enough.
            fault = msgspec.structs.replace(
                exercise.tests[0], message=self._guide.fault(exercise), hint=""
            )
            yield from self._explanation(exercise, fault)
        elif self._verbose:
            yield from self._every_test(exercise)
        elif not untouched:
            yield from self._findings(exercise, shown)
        if self._verbose and exercise.output.strip():
            yield Text("    What your code printed:", "dim")
            yield from self._message(exercise.output, "      | ", "dim")

    def _introduction(self, exercise: ExerciseResult) -> Iterator[Text]:
        """What one is going to learn, before anything is written."""
        entry = self._guide.course.exercise(exercise.name)
        yield from hang(self._console, Text("    "), Text(entry.teaches))
        how = f"About {entry.minutes} minutes, {DIFFICULTY[entry.difficulty]}."
        yield from hang(self._console, Text("    "), Text(how, "dim"))

    def _findings(self, exercise: ExerciseResult, shown: int) -> Iterator[Text]:
        found = findings(exercise)
        for finding in found[:shown]:
            if finding.first.outcome is Outcome.NOT_IMPLEMENTED:
                yield from self._unwritten(exercise, finding)
            else:
                yield from self._failed(exercise, finding)
        if rest := self._rest(exercise, found, shown):
            yield from hang(self._console, Text("    "), Text(rest, "dim"))

    def _failed(self, exercise: ExerciseResult, finding: Finding) -> Iterator[Text]:
        yield from self._title(finding.first)
        yield from self._explanation(exercise, finding.first)
        if more := len(finding.tests) - 1:
            yield Text(f"      The same in {counted(more, 'more test')}.", "dim")

    def _unwritten(self, exercise: ExerciseResult, finding: Finding) -> Iterator[Text]:
        """A part still to be written: its own words say more than the tests that meet it."""
        test = finding.first
        prefix = Text.assemble("    ", outcome_mark(test.outcome, self._marks), " ")
        yield from hang(self._console, prefix, Text(clean(test.message, _LONGEST_LINE), "bold"))
        yield from self._place(exercise, test)
        count = len(finding.tests)
        needs = f"{counted(count, 'test')} {'needs' if count == 1 else 'need'} it."
        yield Text.assemble("      ", (needs, "dim"))

    def _rest(self, exercise: ExerciseResult, found: list[Finding], shown: int) -> str:
        """How many tests do not show, and how to see them."""
        parts = []
        if more := sum(len(finding.tests) for finding in found[shown:]):
            alone = len(self._exercises) == 1
            command = self._guide.judge(exercise.name, " -v" if alone else "")
            do_not = f"{'does' if more == 1 else 'do'} not hold yet"
            parts.append(f"{counted(more, 'more test')} {do_not}: {command} shows all.")
        if waiting := sum(test.outcome is Outcome.SKIPPED for test in exercise.tests):
            which = "this one" if len(found) == 1 else "these"
            tests = counted(waiting, "more test")
            parts.append(f"{tests} {'waits' if waiting == 1 else 'wait'} for {which}.")
        return " ".join(parts)

    def _every_test(self, exercise: ExerciseResult) -> Iterator[Text]:
        explained = {id(finding.first) for finding in findings(exercise)}
        for test in exercise.tests:
            yield from self._title(test)
            if is_untouched(exercise):
                continue
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
            title.append(f"  {test.visibility.value} {test.duration_seconds:.2f}s", "dim")
        yield from hang(self._console, prefix, title)

    def _explanation(self, exercise: ExerciseResult, test: TestResult) -> Iterator[Text]:
        """The finding, its details, the place and the hint."""
        finding, _, details = test.message.partition("\n")
        yield from self._message(finding, "      ", "bold")
        if details:
            yield from self._message(details, "      ", "")
        yield from self._place(exercise, test)
        # A hint is for the mistake that the test looks for, not for a crash or a lack of time.
        looked_for = test.outcome in (Outcome.FAILED, Outcome.NOT_IMPLEMENTED)
        if test.hint and looked_for:
            prefix = Text(f"      {self._marks.arrow} ")
            yield from hang(self._console, prefix, Text(clean(test.hint, _LONGEST_LINE), "italic"))

    def _place(self, exercise: ExerciseResult, test: TestResult) -> Iterator[Text]:
        if test.place is not None:
            where = self._guide.where(exercise.name, test.place)
            place = Text.assemble("      ", (where, "cyan"))
            function = Text(
                f"in {clean(test.place.function)}" if test.place.function else "", "dim"
            )
            fits = place.cell_len + 2 + function.cell_len <= self._console.width
            if not function or fits or not self._console.is_terminal:
                yield Text.assemble(place, "  " if function else "", function)
            else:
                # A path stays in one piece, to be clicked; what stands beside it need not.
                yield from (place, Text.assemble("      ", function))

    def _message(self, text: str, prefix: str, style: str) -> Iterator[Text]:
        for line in text.splitlines():
            shown = Text(clean(line.expandtabs(4), _LONGEST_LINE), style)
            yield from hang(self._console, Text(prefix), shown)

    # --- the end --------------------------------------------------------------------------------

    def _total(self) -> Text:
        if self._alone:
            line = _progress(self._console, self._guide)
        else:
            score = round(sum(each.score for each in self._exercises), 2)
            worth = round(sum(each.max_score for each in self._exercises), 2)
            points = f"{number(score)} of {number(worth)} points"
            line = Text.assemble("Total: ", (points, "bold"), bar(self._console, score, worth))
        tests = [test for exercise in self._exercises for test in exercise.tests]
        if all(test.visibility is Visibility.PUBLIC for test in tests):
            line.append("  by the public tests alone", "dim")
        return line


class _Table:
    """One line an exercise, in columns that fit: a narrow terminal goes without the ids."""

    def __init__(self, console: Console, rows: Sequence[ExerciseResult]) -> None:
        self._marks = marks_for(console)
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
        title = cut(row.title, self._title, self._marks)
        title.pad_right(self._title - title.cell_len)
        name = Text(f"{row.name:<{self._id}}  " if self._id else "", "dim")
        points = f"  {_points(row):>{self._points}}  "
        return Text.assemble("  ", mark, " ", name, title, points, words)


def _points(row: ExerciseResult) -> str:
    return f"{number(row.score)} / {number(row.max_score)}"
