"""What `grade adjust` and a grading print of corrections: each of them, and their effect."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import called, hang, print_lines
from grader.gradebook import Gradebook
from grader.gradebook.corrections import (
    Correction,
    correction_words,
    of_gone_tests,
    outdated,
    unknown_names,
)
from grader.gradebook.times import local
from grader.judge.scoring import sum_of
from grader.results import Entry, Status
from grader.text import clean, counted, number

_LONGEST = 500
_SHOWN = 20


def correction_line(correction: Correction, zone: datetime.tzinfo | None) -> Text:
    """What a correction does, why, by whom and when."""
    words = correction_words(correction)
    if correction.reason:
        words += f": {correction.reason}"
    if correction.comment:
        words += f' (comment: "{correction.comment}")'
    by = f"  {correction.author}, {local(correction.time, zone)}"
    if correction.judged is not None:
        by += f", when {number(correction.judged)} was judged"
    return Text.assemble(clean(words, _LONGEST), (clean(by, _LONGEST), "dim"))


def show_corrections(
    console: Console,
    corrections: Sequence[Correction],
    names: Mapping[str, str],
    zone: datetime.tzinfo | None,
) -> None:
    """Print every correction with its number, which is its place in the file."""
    for place, each in enumerate(corrections, 1):
        who = called(each.student, names) if each.student else "all"
        prefix = Text.assemble((f"{place:>4}", "bold"), "  ")
        body = Text.assemble(clean(f"{who} {each.exercise}: ", 200), correction_line(each, zone))
        print_lines(console, hang(console, prefix, body))
    if not corrections:
        print_lines(console, iter([Text("No points were adjusted.")]))


class Points(NamedTuple):
    """The points of a student, of how many, and whether something is not judged."""

    score: float
    worth: float
    is_open: bool


class Effect(NamedTuple):
    """How many students gained, lost, and have something that is not judged."""

    gained: int
    lost: int
    waiting: int


def points_of(entries: Iterable[Entry], exercise: str = "") -> dict[str, Points]:
    """The points of each student, of one exercise or in all."""
    points = {}
    for entry in entries:
        about = [result for result in entry.result.exercises if exercise in ("", result.name)]
        is_open = any(result.status is Status.UNJUDGED for result in about)
        points[entry.student.id] = Points(*sum_of(about), is_open)
    return points


def show_effect(
    console: Console,
    before: Mapping[str, Points],
    after: Mapping[str, Points],
    names: Mapping[str, str],
) -> Effect:
    """Print whose points changed, those who lost first."""
    changed = [(after[name].score - was.score, name) for name, was in before.items()]
    changed = sorted((gain, name) for gain, name in changed if gain and not after[name].is_open)
    for gain, name in changed[:_SHOWN]:
        was, now = before[name], after[name]
        line = f"{called(name, names)}: {number(was.score)} to {number(now.score)} of {number(now.worth)}"
        prefix = Text.assemble("  ", (f"{gain:+7.2f}", "green" if gain > 0 else "red"), "  ")
        print_lines(console, hang(console, prefix, Text(line)))
    if (more := len(changed) - _SHOWN) > 0:
        print_lines(console, iter([Text(f"  and {counted(more, 'more student')}", "dim")]))
    gained = sum(gain > 0 for gain, _ in changed)
    waiting = sum(points.is_open for points in after.values())
    text = f"{gained} gained, {len(changed) - gained} lost, "
    text += f"{len(before) - len(changed) - waiting} as before"
    text += f", {waiting} not judged." if waiting else "."
    print_lines(console, iter([Text(text, "bold")]))
    return Effect(gained, len(changed) - gained, waiting)


def show_outdated(console: Console, book: Gradebook) -> None:
    """Print the corrections of what is judged otherwise by now, and those that change nothing."""
    corrections, names = book.corrections(), book.names()
    students = sorted({each.student for each in corrections if each.judged is not None})
    entries = [entry for entry in map(book.entry_of, students) if entry is not None]
    changed = [
        f"{called(correction.student, names)} {correction.exercise}: judged "
        f"{number(correction.judged or 0.0)} when it was adjusted ({correction_words(correction)}), "
        f"{number(judged)} now"
        for correction, judged in outdated(corrections, entries)
    ]
    gone = [
        f"{called(gone.student, names) if gone.student else 'the class'} {gone.exercise}: "
        f"{correction_words(gone)}"
        for gone in of_gone_tests(corrections, book.blank)
    ]
    ids = [student.id for student in book.students()]
    unknown = list(unknown_names(corrections, ids, book.exercises))
    _show_list(console, "Adjusted before, and judged otherwise by now:", changed)
    _show_list(console, "Adjusted before, of tests that are gone, so that nothing changes:", gone)
    _show_list(console, "Corrections that change nothing:", unknown)
    if changed or gone:
        text = "The corrections hold as they are; `grade adjust` with --undo takes one back."
        print_lines(console, hang(console, Text(), Text(text, "dim")))


def _show_list(console: Console, heading: str, lines: Sequence[str]) -> None:
    if lines:
        print_lines(console, iter([Text(""), Text(heading, "bold")]))
    for line in lines[:_SHOWN]:
        print_lines(console, hang(console, Text("  "), Text(clean(line, _LONGEST))))
    if (more := len(lines) - _SHOWN) > 0:
        print_lines(console, iter([Text(f"  and {more} more", "dim")]))
