"""The panel of a result: points, problems with their places, and the next step.

Everything that comes from a submission, even its name and paths, is untrusted: it is cleaned, and never read as
markup.
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
from grader.results import EXTRA_CREDIT, ExerciseResult, Outcome, Place, Result, Status, Visibility
from grader.student import blocks
from grader.student.next_step import Guide, shown_path
from grader.student.progress import progress_of
from grader.text import clean, counted, listed, number

# The most lines of printed output to show: of a test, and with -v.
_EXTRA = f"  {EXTRA_CREDIT}"
_SHOWN_PRINTED, _MAX_PRINTED = 5, 100
LONGEST_LINE = 1000
_INDENT = "      "


def show_result(console: Console, result: Result, guide: Guide, *, verbose: bool = False) -> None:
    """Print the panel; the guide knows where the result's files are.

    If a terminal is too low for all of it, fewer findings are shown in full, and the rest are counted.
    """
    about = ""
    if verbose:
        walls = ", ".join(result.environment.isolation) or "none"
        about = f"Seed {result.seed}, {result.duration_seconds:.2f} s. Walls: {walls}."
    panel = Panel(console, result.exercises, guide, verbose=verbose)
    for shown in range(blocks.FIRST_FINDINGS, 0, -1):
        lines = list(panel.lines(about, shown))
        # The command and the prompt take a row each.
        if not console.is_terminal or verbose or height_of(console, lines) <= console.height - 2:
            break
    print_lines(console, lines)


def show_complete(console: Console, guide: Guide) -> None:
    """Print that everything is done, and how to go on."""
    lines = [
        Text(guide.course.title, "bold"),
        Text(),
        _progress(console, guide),
        Text(f"{guide.all_done}, as its file is now. Well done!", "bold"),
        Text(f"`grade --all{guide.hint_options}` judges them once more, together.", "dim"),
    ]
    print_lines(console, lines)


def _progress(console: Console, guide: Guide) -> Text:
    """Return how many exercises of the student's own folder are done: `3 of 6 done`."""
    progress = progress_of(guide.standings.values(), guide.course, by_all_tests=guide.by_all_tests)
    return Text.assemble((progress.words, "bold"), bar(console, progress.done, progress.whole))


class Panel:
    """The lines of one result, from the header to the next step.

    An exercise is a line with mark, id, title, status, and points, or a count of tests if there are only public
    ones. In a narrow window titles are shortened or left out in favor of ids, which commands take; the title of
    a single exercise goes below its line.
    """

    def __init__(
        self,
        console: Console,
        exercises: Sequence[ExerciseResult],
        guide: Guide,
        *,
        verbose: bool = False,
    ) -> None:
        self._console, self._marks = console, marks_for(console)
        self._exercises, self._guide, self._verbose = exercises, guide, verbose
        # The student's own single exercise is shown beside the progress; anything else beside the points.
        self._alone = len(exercises) == 1 and bool(guide.standings)
        self._most_printed = _MAX_PRINTED if verbose else _SHOWN_PRINTED
        self._earned = {
            e.name: "{} of {} tests".format(*_tests(e))
            if guide.is_public
            else f"{number(e.score)} / {number(e.max_score)}"
            for e in exercises
        }
        self._widths = max(map(len, self._earned)), max(map(len, self._earned.values()))
        title = max(Text(exercise.title).cell_len for exercise in exercises)
        room = console.width - sum(self._widths) - len("  +   partly passed    ")
        if any(exercise.extra_credit for exercise in exercises):
            room -= len(_EXTRA)
        self._is_apart = len(exercises) == 1 and title > room
        self._title = title
        if title > room:
            self._title = room if room >= SHORTEST_TITLE and not self._is_apart else 0

    def lines(self, about: str = "", shown: int = blocks.FIRST_FINDINGS) -> Iterator[Text]:
        """Yield every line in order, with `shown` findings for the first exercise that has problems.

        `about` is a note on the run as a whole.
        """
        yield from whole_words(self._console, self._guide.course.title, "bold")
        if not self._alone:
            yield Text(shown_path(self._guide.submission), "dim")
        yield Text()
        details = [Text()]
        for exercise in self._exercises:
            yield from self._row(exercise)
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
        """Return the lines for a small window: one finding of the first exercise with any; the next step."""
        lines: list[Text] = []
        for exercise in self._exercises:
            if details := list(self._details(exercise, 1, brief=True)):
                lines = [*self._row(exercise), *details]
                if others := len(self._exercises) - 1:
                    more = f"  ({counted(others, 'more exercise')} below)"
                    lines.append(Text(more, "dim"))
                break
            lines += self._row(exercise)
        return [*lines, *([] if self._alone else [self._total()])], list(self._next_step())

    def _row(self, exercise: ExerciseResult) -> Iterator[Text]:
        """Yield the line of an exercise, with its title below if it does not fit."""
        mark, words = status_words(exercise.status, self._marks)
        wide, earned_wide = self._widths
        line = Text.assemble("  ", mark, " ", (f"{exercise.name:<{wide}}", "dim"))
        if self._title:
            title = cut(exercise.title, self._title, self._marks)
            title.pad_right(self._title - title.cell_len)
            line = Text.assemble(line, "  ", title)
        extra = (_EXTRA if exercise.extra_credit else "", "dim")
        yield Text.assemble(line, f"  {self._earned[exercise.name]:>{earned_wide}}  ", words, extra)
        if self._is_apart:
            yield from hang(self._console, "    ", exercise.title)

    def _next_step(self) -> Iterator[Text]:
        return whole_words(self._console, self._guide.next_step(self._exercises), "bold")

    def _elsewhere(self) -> Iterator[Text]:
        """List the exercises begun out of order, which the next step should not hide."""
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
        """Yield the lines below an exercise: findings, a count of the rest, printed output."""
        if exercise.untouched:
            if self._alone:
                # The aim of the exercise, before anything is written.
                entry = self._guide.course.exercise(exercise.name)
                yield from hang(self._console, "    ", entry.teaches)
                how = f"About {entry.minutes} minutes, {DIFFICULTY[entry.difficulty]}."
                yield from hang(self._console, "    ", how, "dim")
        elif exercise.message and exercise.status is not Status.UNJUDGED:
            message = self._guide.fault(exercise)
            exercise = msgspec.structs.replace(exercise, message=message)
        summary = blocks.summarized(exercise, shown, printed=True)
        where = functools.partial(self._guide.where, exercise.name)
        for section in blocks.in_full(exercise) if self._verbose else summary.sections:
            test, about = section.test, ""
            if self._verbose and test is not None:
                about = f"  {test.visibility.value} {test.duration_seconds:.2f}s"
            most = self._most_printed
            yield from section_lines(self._console, section, where, about=about, printed=most)
        if not (self._verbose or brief):
            yield from self._rest(exercise, summary)
        # Output printed outside of all tests, when the file was imported.
        alone = exercise.message or not any(test.printed for test in exercise.tests)
        if alone and exercise.output.strip():
            yield from _printed_lines(self._console, exercise.output, self._most_printed)

    def _rest(self, exercise: ExerciseResult, summary: blocks.Summary) -> Iterator[Text]:
        """Count the tests that are not shown, and name the command that shows them."""
        text = summary.waiting
        if more := summary.more:
            command = self._guide.show_all(exercise.name, alone=len(self._exercises) == 1)
            do_not = f"{'does' if more == 1 else 'do'} not hold yet"
            text = f"{counted(more, 'more test')} {do_not}: {command} shows all. {text}"
        if text:
            yield from hang(self._console, "    ", text.rstrip(), "dim")

    # --- the end --------------------------------------------------------------------------------

    def _total(self) -> Text:
        """Return the progress in one's own folder, else the points or public tests of all exercises."""
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


def _tests(row: ExerciseResult) -> tuple[int, int]:
    """Return the number of tests that passed, and of all."""
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
    """Yield a title after its mark, and its blocks below; `about` is dim beside the title.

    `where` writes a place for the reader; `prefix` replaces the indented mark. At most `printed` lines of
    student output are shown.
    """
    test, marks = section.test, marks_for(console)
    if test is not None:
        prefix = prefix or Text.assemble("    ", outcome_mark(test.outcome, marks), " ")
        title = Text(clean(section.title, LONGEST_LINE), "bold" if section.is_part else "")
        yield from hang(console, prefix, Text.assemble(title, (about, "dim")))
    quiet = "dim" if test is not None and test.outcome is Outcome.SKIPPED else ""
    for block in section.blocks:
        match block:
            case blocks.Message(text, details):
                yield from _text_lines(console, text, _INDENT, quiet or "bold")
                for line in details:
                    yield from _text_lines(console, line, _INDENT, quiet)
            case blocks.Where(place):
                inside = f"  in {clean(place.function)}" if place.function else ""
                yield Text.assemble(_INDENT, (where(place), "cyan"), (inside, "dim"))
            case blocks.Hint(text):
                prefix = Text(f"{_INDENT}{marks.arrow} ")
                yield from hang(console, prefix, clean(text, LONGEST_LINE), "italic")
            case blocks.Note(text):
                yield from hang(console, _INDENT, clean(text, LONGEST_LINE), "dim")
            case blocks.Printed(text):
                yield from _printed_lines(console, text, printed)


def _printed_lines(console: Console, text: str, most: int) -> Iterator[Text]:
    """Yield student output: the number of lines, at most `most` of them, and the number left."""
    lines = text.splitlines()
    # A single line left over is shown, too.
    shown = lines if len(lines) <= most + 1 else lines[:most]
    yield Text(f"{_INDENT}{counted(len(lines), 'line')} printed:", "dim")
    yield from _text_lines(console, "\n".join(shown), f"{_INDENT}| ", "dim")
    if more := len(lines) - len(shown):
        yield Text(f"{_INDENT}and {counted(more, 'line')} more", "dim")


def _text_lines(console: Console, text: str, prefix: str, style: str) -> Iterator[Text]:
    """Yield each line of a text after the prefix."""
    for line in text.splitlines():
        yield from hang(console, prefix, clean(line.expandtabs(4), LONGEST_LINE), style)
