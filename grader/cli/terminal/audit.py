"""What an audit prints: a few lines for each attack as it is over, then the walls that held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import hang, marks_for, print_lines
from grader.text import counted

if TYPE_CHECKING:
    from grader.audit.auditor import AttackResult

# What an attack met can be a traceback's worth of words.
_LONGEST = 300


def show_findings(
    console: Console, findings: Iterable[tuple[AttackResult, tuple[str, ...]]]
) -> list[AttackResult]:
    """Print each finding when it is there; returns those that were not stopped."""
    total, kind = 0, ""
    held: tuple[str, ...] = ()
    missed: list[AttackResult] = []
    for finding, walls in findings:
        held = walls or held
        if finding.attack.kind != kind:
            kind = finding.attack.kind
            print_lines(console, iter([Text(f"\n{kind}", "bold")]))
        print_lines(console, _lines(console, finding))
        total += 1
        missed += [] if finding.stopped else [finding]
    print_lines(console, _ending(console, total, missed, held))
    return missed


def _lines(console: Console, finding: AttackResult) -> Iterator[Text]:
    marks = marks_for(console)
    good = finding.stopped
    mark = Text(marks.good if good else marks.bad, "green" if good else "red")
    name = finding.attack.name.replace("_", " ")
    yield from hang(console, Text.assemble(mark, " "), Text(f"{name}: {finding.attack.tries}"))
    by = finding.by[:_LONGEST]
    if good:
        yield from hang(console, Text("  "), Text(f"stopped: {by}", "dim"))
        return
    for each in finding.evidence:
        seen = Text(f"NOT STOPPED, {each.proof.value}: {each.seen[:_LONGEST]}", "red")
        yield from hang(console, Text("  "), seen)


def _ending(
    console: Console, total: int, missed: list[AttackResult], walls: tuple[str, ...]
) -> Iterator[Text]:
    held = ", ".join(walls) or "none"
    yield Text()
    yield from hang(console, Text("The walls that held: "), Text(held))
    stopped = f"{total - len(missed)} of {counted(total, 'attack')} stopped."
    names = ", ".join(finding.attack.name for finding in missed)
    yield Text(stopped + (f" Not stopped: {names}." if missed else ""), "bold")
