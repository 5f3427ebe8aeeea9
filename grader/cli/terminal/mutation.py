"""The mutants of solutions that no test sees, each with its line and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import checked, print_lines
from grader.text import clean, counted

if TYPE_CHECKING:
    from grader.authoring.mutation import MutationReport

# A dropped loop is a long line; it is needed whole by an author who marks it.
_LONGEST = 5_000


def show_mutants(console: Console, reports: Iterable[MutationReport]) -> bool:
    """Print each report as it is made; whether nothing is left to do."""
    judged = caught = equivalent = survivors = complaints = exercises = 0
    for report in reports:
        print_lines(console, _report_lines(console, report))
        judged += report.judged
        caught += report.caught
        equivalent += report.equivalent
        survivors += len(report.survivors)
        complaints += len(report.complaints)
        exercises += 1
    ends = [
        f"{caught} of {counted(judged, 'mutant')} caught",
        f"{equivalent} marked equivalent",
        f"{survivors} unseen",
        *([counted(complaints, "complaint")] if complaints else []),
    ]
    summary = f"{', '.join(ends)}, in {counted(exercises, 'exercise')}."
    print_lines(console, iter([Text(summary, "bold")]))
    return not survivors and not complaints


def _report_lines(console: Console, report: MutationReport) -> Iterator[Text]:
    some = f"{report.judged} of " if report.judged < report.made else ""
    by_time = f" ({report.timed_out} by time)" if report.timed_out else ""
    ends = [
        f"{some}{counted(report.made, 'mutant')}",
        f"{report.caught} caught{by_time}",
        f"{report.equivalent} marked equivalent",
        f"{len(report.survivors)} unseen",
    ]
    holds = not report.survivors and not report.complaints
    rows = [("  - ", Text(clean(complaint, 2000))) for complaint in report.complaints]
    yield from checked(console, holds, f"{report.exercise}: {', '.join(ends)}", *rows)
    for mutant in report.survivors:
        inside = f", in {mutant.function}" if mutant.function else ""
        yield Text(f"  {report.solution}, line {mutant.number}{inside}")
        # Not wrapped: an author copies them into the mutants file.
        yield Text(f"    - {clean(mutant.line, _LONGEST)}", "red")
        yield Text(f"    + {clean(mutant.mutant, _LONGEST)}", "green")
