"""The output of an audit: a few lines for each attack as it is over, then the walls that held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import checked, hang, print_lines
from grader.text import counted

if TYPE_CHECKING:
    from grader.audit.auditor import AttackResult

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
