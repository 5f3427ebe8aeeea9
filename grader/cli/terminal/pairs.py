"""A class on a terminal: how far the work on it is, and its alike pairs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.text import Text

from grader.cli.terminal.console import called, hang, is_plain, open_console, print_lines
from grader.gradebook import Gradebook
from grader.gradebook.similarity import ExerciseSurvey, Similarity, SimilarPair
from grader.results import Entry
from grader.text import clean, counted

__all__ = ["each_entry", "show_similarity"]

# On the terminal; all that are kept are in the file and in the report.
_MOST_SHOWN = 20


def each_entry(book: Gradebook, what: str) -> Iterator[Entry]:
    """The entries of a gradebook; a terminal shows how far the work on them is, nothing else does."""
    console = open_console(sys.stderr)
    total = sum(attempt.counted for attempt in book.attempts())
    yield from track(
        book.entries(),
        what,
        total=total,
        console=console,
        transient=True,
        disable=is_plain(console),
    )


def show_similarity(
    console: Console, similarity: Similarity, path: Path, names: Mapping[str, str]
) -> None:
    """Print what was compared and the most alike pairs of each exercise; `names` are those of the ids."""
    for survey in similarity.exercises:
        pairs = [pair for pair in similarity.pairs if pair.exercise == survey.exercise]
        print_lines(console, _survey_lines(survey, pairs, names))
    advice = (
        "Alike is not copied: short exercises are alike by nature, and so is the work of people "
        "who learn together. Look at the code: `grade report` shows each pair side by side."
    )
    if similarity.pairs:
        print_lines(console, hang(console, Text(), Text(advice, "dim")))
    print_lines(console, iter([Text(clean(str(path), 1000), "dim")]))


def _survey_lines(
    survey: ExerciseSurvey, pairs: list[SimilarPair], names: Mapping[str, str]
) -> Iterator[Text]:
    words = [counted(survey.files, "file"), f"{counted(survey.alike, 'alike pair')}"]
    if survey.short:
        words.insert(1, f"{survey.short} with too little code to compare")
    yield Text.assemble((survey.exercise, "bold"), "  ", ", ".join(words))
    for pair in pairs[:_MOST_SHOWN]:
        left, right = called(pair.left, names), called(pair.right, names)
        # Rounded down: 100 % is for files that share everything.
        yield Text.assemble(f"  {int(100 * pair.similarity):3} %  ", f"{left}  {right}")
    if survey.alike > _MOST_SHOWN:
        yield Text(f"         and {survey.alike - _MOST_SHOWN} more", "dim")
