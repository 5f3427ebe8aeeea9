"""The panel of a result: what was earned, what does not hold and where, and the one next step.

All that comes from a submission, its name and its paths included, is untrusted text: it is cleaned
and stays text, and nothing in it is markup.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence

import msgspec
from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import (
    DIFFICULTY,
    SHORTEST_TITLE,
    bar,
    cut,
    hang,
    height_of,
    marks_for,
    outcome_mark,
    print_lines,
    status_words,
    whole_words,
)
from grader.judge.scoring import sum_of
from grader.results import ExerciseResult, Outcome, Place, Result, Status, Visibility
from grader.student import blocks
from grader.student.advice import Guide, shown_path
from grader.student.progress import progress_of
from grader.text import clean, counted, listed, number

# Lines that student code printed, of a test, and with -v.
_SHOWN_PRINTED, _MOST_PRINTED = 5, 100
LONGEST_LINE = 1000
_INDENT = "      "


def show_result(console: Console, result: Result, guide: Guide, *, verbose: bool = False) -> None:
    """Print the panel; the guide knows where the files lie that the result is about.

    In a terminal that is too low for all of it, fewer findings stand whole, and the rest is a count.
    """
    about = ""
    if verbose:
        walls = ", ".join(result.environment.isolation) or "none"
        about = f"Seed {result.seed}, {result.duration_seconds:.2f} s. Walls: {walls}."
    for shown in range(blocks.FIRST_FINDINGS, 0, -1):
        lines = [
            *panel(console, result.exercises, guide, verbose=verbose, about=about, shown=shown)
        ]
        # The command and the prompt take a row each.
        if not console.is_terminal or verbose or height_of(console, lines) <= console.height - 2:
            break
    print_lines(console, lines)


def panel(
    console: Console,
    exercises: Sequence[ExerciseResult],
    guide: Guide,
    *,
    verbose: bool = False,
    about: str = "",
    shown: int = blocks.FIRST_FINDINGS,
) -> Iterator[Text]:
    """The lines of the panel of these exercises; `about` is said of the run as a whole.

    Of the first exercise that does not hold, `shown` findings are shown.
    """
    return _Panel(console, exercises, guide, verbose).lines(about, shown)


def brief_panel(
    console: Console, exercises: Sequence[ExerciseResult], guide: Guide
) -> tuple[list[Text], list[Text]]:
    """What a small window has room for: the first cause and what it is of; then the next step."""
    return _Panel(console, exercises, guide, verbose=False).brief()


def show_complete(console: Console, guide: Guide) -> None:
    """Print that there is nothing left to do, and what to do if one wants to."""
    lines = [
        Text(guide.course.title, "bold"),
        Text(),
        _progress(console, guide),
        Text(f"{guide.all_done}, as its file is now. Well done!", "bold"),
        Text(f"`grade --all{guide.hint_options}` judges them once more, together.", "dim"),
    ]
    print_lines(console, lines)


def _progress(console: Console, guide: Guide) -> Text:
    """How many exercises of the student's own folder are done: `3 of 6 done`."""
    progress = progress_of(guide.standings.values(), guide.course, by_all_tests=guide.by_all_tests)
    return Text.assemble((progress.words, "bold"), bar(console, progress.done, progress.whole))


class _Panel:
    """The lines of one result, from the header down to the next step."""

    def __init__(
        self, console: Console, exercises: Sequence[ExerciseResult], guide: Guide, verbose: bool
    ) -> None:
        self._console, self._marks = console, marks_for(console)
        self._exercises, self._guide, self._verbose = exercises, guide, verbose
        self._table = _Table(console, exercises, in_tests=guide.is_public)
        # One exercise of one's own is shown beside the progress; all else beside the points.
        self._alone = len(exercises) == 1 and bool(guide.standings)
        self._most_printed = _MOST_PRINTED if verbose else _SHOWN_PRINTED

    def lines(self, about: str, shown: int) -> Iterator[Text]:
        """Every line, in order."""
        yield from whole_words(self._console, self._guide.course.title, "bold")
        if not self._alone:
            yield Text(shown_path(self._guide.submission), "dim")
        yield Text()
        details = [Text()]
        for exercise in self._exercises:
            yield from self._table.lines(exercise)
            if details := list(self._details(exercise, shown)):
                shown = 1
                details.append(Text())
            yield from details
        yield from () if details else (Text(),)
        yield self._total()
        if about:
            yield from hang(self._console, "", about, "dim")
        yield from self._elsewhere()
        yield from self._next_step()

    def brief(self) -> tuple[list[Text], list[Text]]:
        """The first exercise that has a finding, with one alone; then the lines of the next step."""
        for exercise in self._exercises:
            if details := list(self._details(exercise, 1, brief=True)):
                lines = [*self._table.lines(exercise), *details]
                if others := len(self._exercises) - 1:
                    more = f"  ({counted(others, 'more exercise')} in a taller window)"
                    lines.append(Text(more, "dim"))
                break
        else:
            lines = [line for e in self._exercises for line in self._table.lines(e)]
        return [*lines, *([] if self._alone else [self._total()])], list(self._next_step())

    def _next_step(self) -> Iterator[Text]:
        return whole_words(self._console, self._guide.next_step(self._exercises), "bold")

    def _elsewhere(self) -> Iterator[Text]:
        """The exercises begun out of order: the next step must not hide them."""
        if self._alone and self._exercises[0].status is Status.NOT_ATTEMPTED:
            begun = self._guide.begun_elsewhere(self._exercises[0].name)
            if begun:
                names = ", ".join(begun)
                command = self._guide.judge(begun[0])
                how = "" if self._guide.asked.by_saving else f" ({command})"
                text = f"Begun and not done: {names}{how}."
                yield from hang(self._console, "", text, "dim")

    # --- one exercise ---------------------------------------------------------------------------

    def _details(
        self, exercise: ExerciseResult, shown: int, *, brief: bool = False
    ) -> Iterator[Text]:
        if exercise.untouched:
            if self._alone:
                yield from self._introduction(exercise)
        elif exercise.message and exercise.status is not Status.UNJUDGED:
            message = self._guide.fault(exercise)
            exercise = msgspec.structs.replace(exercise, message=message)
        if self._verbose:
            for section in blocks.in_full(exercise):
                yield from self._section(exercise, section)
        else:
            summary = blocks.summarized(exercise, shown, printed=True)
            for section in summary.sections:
                yield from self._section(exercise, section)
            if not brief and (rest := self._rest(exercise, summary)):
                yield from hang(self._console, "    ", rest, "dim")
        # What was printed outside of all tests, as the file was imported.
        alone = exercise.message or not any(test.printed for test in exercise.tests)
        if alone and exercise.output.strip():
            yield from printed_lines(self._console, exercise.output, self._most_printed)

    def _section(self, exercise: ExerciseResult, section: blocks.Section) -> Iterator[Text]:
        test, about = section.test, ""
        if self._verbose and test is not None:
            about = f"  {test.visibility.value} {test.duration_seconds:.2f}s"
        where = functools.partial(self._guide.where, exercise.name)
        most = self._most_printed
        return section_lines(self._console, section, where, about=about, printed=most)

    def _introduction(self, exercise: ExerciseResult) -> Iterator[Text]:
        """The aim of the exercise, before anything is written."""
        entry = self._guide.course.exercise(exercise.name)
        yield from hang(self._console, "    ", entry.teaches)
        how = f"About {entry.minutes} minutes, {DIFFICULTY[entry.difficulty]}."
        yield from hang(self._console, "    ", how, "dim")

    def _rest(self, exercise: ExerciseResult, summary: blocks.Summary) -> str:
        """The number of tests that are not shown, and the command that shows them."""
        parts = []
        if more := summary.more:
            command = self._guide.show_all(exercise.name, alone=len(self._exercises) == 1)
            do_not = f"{'does' if more == 1 else 'do'} not hold yet"
            parts.append(f"{counted(more, 'more test')} {do_not}: {command} shows all.")
        return " ".join([*parts, *filter(None, [summary.waiting])])

    # --- the end --------------------------------------------------------------------------------

    def _total(self) -> Text:
        if self._alone:
            return _progress(self._console, self._guide)
        if self._guide.is_public:
            passed, count = map(sum, zip(*map(_tests, self._exercises), strict=True))
            what = f"{passed} of {count} public tests"
            line = Text.assemble("Total: ", (what, "bold"), bar(self._console, passed, count))
            line.append("  marks depend on others", "dim")
            return line
        score, worth = sum_of(self._exercises)
        points = f"{number(score)} of {number(worth)} points"
        line = Text.assemble("Total: ", (points, "bold"), bar(self._console, score, worth))
        tests = [test for exercise in self._exercises for test in exercise.tests]
        if all(test.visibility is Visibility.PUBLIC for test in tests):
            line.append("  by the public tests alone", "dim")
        extra = [exercise.name for exercise in self._exercises if exercise.extra_credit]
        if extra and len(extra) < len(self._exercises):
            line.append(f"  {listed(extra)} for extra credit", "dim")
        return line


class _Table:
    """One line an exercise, in columns that fit; where it is narrow the ids stay, which commands take.

    The title of a single exercise goes below its line then, those of several are cut or left out.
    The earned is points, or tests where public ones alone are there: what those are worth, others decide.
    """

    def __init__(self, console: Console, rows: Sequence[ExerciseResult], *, in_tests: bool) -> None:
        self._console, self._marks = console, marks_for(console)
        self._earned = _passed_tests if in_tests else _points
        self._width = max(len(self._earned(row)) for row in rows)
        self._id = max(len(row.name) for row in rows)
        self._title = max(Text(row.title).cell_len for row in rows)
        left = console.width - self._width - len("  + ") - len("  partly passed  ")
        room = left - self._id - 2
        self._is_apart = len(rows) == 1 and self._title > room
        if self._title > room:
            self._title = room if room >= SHORTEST_TITLE and not self._is_apart else 0

    def lines(self, row: ExerciseResult) -> Iterator[Text]:
        """Mark, id, title, points and status of one exercise, as many of them as fit."""
        mark, words = status_words(row.status, self._marks)
        name = Text(f"{row.name:<{self._id}}", "dim")
        if self._title:
            title = cut(row.title, self._title, self._marks)
            title.pad_right(self._title - title.cell_len)
            name = Text.assemble(name, "  ", title)
        earned = f"{self._earned(row):>{self._width}}"
        line = Text.assemble("  ", mark, " ", name, "  ", earned, "  ", words)
        if line.cell_len <= self._console.width or self._title:
            yield line
        elif self._is_apart:
            yield Text.assemble("  ", mark, " ", name)
            yield Text.assemble("    ", earned.strip(), "  ", words)
        else:
            # The total says the points.
            yield Text.assemble("  ", mark, " ", name, "  ", words)
        if self._is_apart:
            yield from hang(self._console, "    ", row.title)


def _points(row: ExerciseResult) -> str:
    return f"{number(row.score)} / {number(row.max_score)}"


def _passed_tests(row: ExerciseResult) -> str:
    passed, count = _tests(row)
    return f"{passed} of {count} tests"


def _tests(row: ExerciseResult) -> tuple[int, int]:
    """The tests that passed, and all of them."""
    return sum(test.outcome is Outcome.PASSED for test in row.tests), len(row.tests)


# --- the blocks of a section --------------------------------------------------------------------------


def section_lines(
    console: Console,
    section: blocks.Section,
    where: Callable[[Place], str],
    *,
    prefix: Text | None = None,
    about: str = "",
    printed: int = _SHOWN_PRINTED,
) -> Iterator[Text]:
    """A title behind its mark, and its blocks below; `about` stands dim beside the title.

    `where` writes a place as the reader finds it; `prefix` replaces the indented mark. Of what student code
    printed so many lines are shown.
    """
    test = section.test
    if test is not None:
        mark = outcome_mark(test.outcome, marks_for(console))
        prefix = prefix if prefix is not None else Text.assemble("    ", mark, " ")
        title = Text(clean(section.title, LONGEST_LINE), "bold" if section.is_part else "")
        yield from hang(console, prefix, Text.assemble(title, (about, "dim")))
    is_quiet = test is not None and test.outcome is Outcome.SKIPPED
    for block in section.blocks:
        if isinstance(block, blocks.Printed):
            yield from printed_lines(console, block.text, printed)
        else:
            yield from _block_lines(console, block, where, is_quiet=is_quiet)


def _block_lines(
    console: Console, block: blocks.Block, where: Callable[[Place], str], *, is_quiet: bool
) -> Iterator[Text]:
    match block:
        case blocks.Message(text):
            first, _, details = text.partition("\n")
            yield from text_lines(console, first, _INDENT, "dim" if is_quiet else "bold")
            yield from text_lines(console, details, _INDENT, "dim" if is_quiet else "")
        case blocks.Where(place):
            yield from _place_lines(console, where(place), place.function)
        case blocks.Hint(text):
            prefix = Text(f"{_INDENT}{marks_for(console).arrow} ")
            yield from hang(console, prefix, clean(text, LONGEST_LINE), "italic")
        case blocks.Note(text):
            yield from hang(console, _INDENT, clean(text, LONGEST_LINE), "dim")


def printed_lines(console: Console, text: str, most: int) -> Iterator[Text]:
    """What student code printed: how many lines, at most so many of them, and how many more."""
    lines = text.splitlines()
    # What is left of one line is shown.
    shown = lines if len(lines) <= most + 1 else lines[:most]
    yield Text(f"{_INDENT}{counted(len(lines), 'line')} printed:", "dim")
    yield from text_lines(console, "\n".join(shown), f"{_INDENT}| ", "dim")
    if more := len(lines) - len(shown):
        yield Text(f"{_INDENT}and {counted(more, 'line')} more", "dim")


def _place_lines(console: Console, where: str, function: str) -> Iterator[Text]:
    place = Text.assemble(_INDENT, (where, "cyan"))
    inside = Text(f"in {clean(function)}" if function else "", "dim")
    fits = place.cell_len + 2 + inside.cell_len <= console.width
    if not inside or fits or not console.is_terminal:
        yield Text.assemble(place, "  " if inside else "", inside)
    else:
        # A path stays in one piece, to be clicked; what stands beside it need not.
        yield from (place, Text.assemble(_INDENT, inside))


def text_lines(console: Console, text: str, prefix: str, style: str) -> Iterator[Text]:
    """Each line of a text behind the prefix."""
    for line in text.splitlines():
        shown = Text(clean(line.expandtabs(4), LONGEST_LINE), style)
        yield from hang(console, prefix, shown)
