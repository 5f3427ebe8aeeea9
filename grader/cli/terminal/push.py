"""What a platform gets from `grade push`, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import called, printed
from grader.exports.push.comparison import Plan
from grader.text import counted, number

_LONGEST_NAME = 44
_HEADER = ("Student", "There", "New", "Comment")


@printed
def show_plan(
    console: Console,  # noqa: ARG001  # as everything that is printed
    plan: Plan,
    names: Mapping[str, str],
) -> Iterator[Text]:
    """Print a row for each student whose points or comment change."""
    if not plan.changes:
        yield Text("Nothing to send.")
        return
    rows = [_HEADER]
    for change in plan.changes:
        there = "-" if change.there.points is None else number(change.there.points)
        new = number(change.mine.points) if change.new_points else "as it is"
        comment = "new" if change.new_comment else "as it is" if change.mine.comment else "none"
        rows.append((called(change.mine.student, names), there, new, comment))
    width = min(max(len(row[0]) for row in rows), _LONGEST_NAME)
    for name, there, new, comment in rows:
        yield Text(f"  {name:<{width}}  {there:>8}  {new:>8}  {comment}".rstrip(), no_wrap=True)
    absent = f", {plan.absent} of them without a submission" if plan.absent else ""
    yield Text(f"{counted(len(plan.changes), 'student')} to send{absent}.")
