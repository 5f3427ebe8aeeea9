"""What `grade audit` prints: a few lines for each attack as it ends, then the walls that held."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import checked, hang, print_lines
from grader.text import counted

if TYPE_CHECKING:
    from grader.audit.auditor import AttackResult
    from grader.authoring.forgeries import ForgeryReport

# What an attack met can be a traceback's worth of words.
_LONGEST = 300


def show_findings(
    console: Console, results: Iterable[tuple[AttackResult, tuple[str, ...]]]
) -> list[AttackResult]:
    """Print each result when it is there; returns those of attacks that were not stopped."""
    total, kind = 0, ""
    held: tuple[str, ...] = ()
    missed: list[AttackResult] = []
    for result, walls in results:
        held = walls or held
        if result.attack.kind != kind:
            kind = result.attack.kind
            print_lines(console, iter([Text(f"\n{kind}", "bold")]))
        print_lines(console, _lines(console, result))
        total += 1
        missed += [] if result.stopped else [result]
    print_lines(console, _ending(console, total, missed, held))
    return missed


def show_forgeries(console: Console, reports: Iterable[ForgeryReport]) -> bool:
    """Print what the forgeries earn in each exercise, the best one first; whether none earns too much."""
    above = exercises = 0
    for _, group in itertools.groupby(reports, lambda report: report.exercise):
        best, *others = sorted(group, key=lambda report: -report.share)
        text = f"{best.exercise}: at most {best.share:.1%} of the points"
        rows = [
            ("  ", Text(f"{report.forgery.value}: {report.share:.1%}", "dim"))
            for report in (best, *others)
            if report.share
        ]
        print_lines(console, checked(console, best.holds, text, *rows))
        above += not best.holds
        exercises += 1
    few = "In none of them a forgery earns" if not above else f"In {above} a forgery earns"
    summary = f"{counted(exercises, 'exercise')}. {few} more than a tenth."
    print_lines(console, iter([Text(summary, "bold")]))
    return not above


def _lines(console: Console, result: AttackResult) -> Iterator[Text]:
    rows = [
        ("  ", Text(f"NOT STOPPED, {trace.proof.value}: {trace.detail[:_LONGEST]}", "red"))
        for trace in result.evidence
    ]
    if result.stopped:
        rows = [("  ", Text(f"stopped: {result.by[:_LONGEST]}", "dim"))]
    name = result.attack.name.replace("_", " ")
    return checked(console, result.stopped, f"{name}: {result.attack.tries}", *rows)


def _ending(
    console: Console, total: int, missed: list[AttackResult], walls: tuple[str, ...]
) -> Iterator[Text]:
    held = ", ".join(walls) or "none"
    yield Text()
    yield from hang(console, Text("The walls that held: "), Text(held))
    stopped = f"{total - len(missed)} of {counted(total, 'attack')} stopped."
    names = ", ".join(result.attack.name for result in missed)
    yield Text(stopped + (f" Not stopped: {names}." if missed else ""), "bold")
