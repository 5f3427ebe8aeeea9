"""What `grade mistakes` prints: each group of failures without a sentence, its tests, and its code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import hang, print_lines
from grader.gradebook.mistakes import UnnamedGroup
from grader.text import clean, counted

_SHOWN_STUDENTS, _SHOWN_TESTS, _SHOWN_LINES = 6, 3, 40
_STYLES = {"+": "green", "-": "red", "@": "dim"}


def show_groups(
    console: Console,
    groups: Sequence[UnnamedGroup],
    shown: Sequence[tuple[UnnamedGroup, Sequence[str]]],
) -> None:
    """Print these groups, each with its difference to a right answer, and how many there are in all."""
    if not groups:
        print_lines(console, iter([Text("Every failure has a sentence that explains it.")]))
        return
    for group, difference in shown:
        print_lines(console, _group(console, group, difference))
    students = len({student for group in groups for student in group.students})
    total = f"{counted(len(groups), 'group')} of {counted(students, 'student')}"
    more = (
        f", {len(groups) - len(shown)} of them not shown (--most)" if groups[len(shown) :] else ""
    )
    print_lines(console, iter([Text(f"{total}{more}.")]))
    advice = (
        f'Name one: `grade mistakes RESULTS --name {groups[0].id} "What is wrong, and what to do."`'
    )
    print_lines(console, hang(console, Text(), Text(advice, "dim")))


def _group(console: Console, group: UnnamedGroup, difference: Sequence[str]) -> Iterator[Text]:
    where = f"{group.exercise}, {group.function}" if group.function else group.exercise
    students = ", ".join(clean(student, 40) for student in group.students[:_SHOWN_STUDENTS])
    if (more := len(group.students) - _SHOWN_STUDENTS) > 0:
        students += f" and {more} more"
    head = Text.assemble(
        (group.id, "bold"), f"  {counted(len(group.students), 'student')}: {students}"
    )
    yield from hang(console, Text(), head)
    yield from hang(console, Text("  "), Text(clean(where, 200), "dim"))
    for test in group.tests[:_SHOWN_TESTS]:
        yield from hang(console, Text("  x "), Text(clean(test.title, 300)))
        yield from hang(console, Text("    "), Text(clean(test.message.partition("\n")[0], 300)))
    if (more := len(group.tests) - _SHOWN_TESTS) > 0:
        yield Text(f"    and {counted(more, 'more test')}", "dim")
    for line in difference[:_SHOWN_LINES]:
        yield Text(f"    {clean(line, 200)}", _STYLES.get(line[:1], ""))
    if (more := len(difference) - _SHOWN_LINES) > 0:
        yield Text(f"    and {counted(more, 'more line')}", "dim")
    yield Text("")
