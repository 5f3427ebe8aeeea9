"""The table of points that `grade push` would send."""

from __future__ import annotations

import io

from rich.console import Console

from grader.cli.terminal.push import show_plan
from grader.exports.push.comparison import Change, Mine, Plan, There


def change(
    student: str,
    there: float | None,
    points: float,
    *,
    new_points: bool = True,
    new_comment: bool = False,
    comment: str = "",
) -> Change:
    mine = Mine(student=student, points=points, comment=comment, begins=())
    return Change(There(user="1", name="", cells={}, points=there), mine, new_points, new_comment)


def shown(plan: Plan, **names: str) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    show_plan(console, plan, names)
    return str(console.file.getvalue()).splitlines()  # type: ignore[attr-defined]  # it is a StringIO


def test_without_a_difference_there_is_no_table() -> None:
    assert shown(Plan()) == ["Nothing to send."]


def test_each_row_has_old_points_new_points_and_the_comment() -> None:
    changes = [
        change("ada", None, 8.5, new_comment=True, comment="Well done."),
        change("bob", 3, 4, comment="As before."),
        change("eve", 5, 5, new_points=False, new_comment=True, comment="Look again."),
        change("kim", 0, 2),
    ]
    assert shown(Plan(changes, absent=1), ada="Ada Lovelace") == [
        "  Student                There       New  Comment",
        "  ada (Ada Lovelace)         -       8.5  new",
        "  bob                        3         4  as it is",
        "  eve                        5  as it is  new",
        "  kim                        0         2  none",
        "4 students to send, 1 of them without a submission.",
    ]
    assert shown(Plan(changes[:1]))[-1] == "1 student to send."
