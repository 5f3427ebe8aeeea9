"""The mails of `grade mail` as a table, and the first of them as text."""

from __future__ import annotations

import io
from collections.abc import Callable

from rich.console import Console

from grader.cli.terminal.mail import show_first, show_mails
from grader.exports.mail.class_mail import ClassPlan, Planned
from grader.exports.mail.letter import Letter


def letter(to: str) -> Letter:
    return Letter("id", to, "Deep \x1bLearning", "8 of 10 points\n\n\x1b[31mred\n")


def shown(show: Callable[..., None], *about: object) -> str:
    console = Console(file=io.StringIO(), width=100)
    show(console, *about)
    return str(console.file.getvalue())  # type: ignore[attr-defined]  # it is a StringIO


def test_each_row_has_an_address_and_a_reason_to_send_again() -> None:
    mails = [
        Planned("ada", letter("ada@example.org"), True),
        Planned("bob", letter("b@example.org"), False),
    ]
    assert shown(
        show_mails, ClassPlan(mails=mails, already_sent=3), {"ada": "Ada L"}
    ).splitlines() == [
        "  Student      Address",
        "  ada (Ada L)  ada@example.org",
        "  bob          b@example.org, again: the feedback or the address has changed",
        "2 mails to send, 3 have theirs already.",
    ]


def test_without_a_mail_there_is_no_table() -> None:
    assert shown(show_mails, ClassPlan(), {}) == "0 mails to send.\n"


def test_the_first_mail_is_shown_without_escapes() -> None:
    text = shown(show_first, letter("ada@example.org"))
    assert text.startswith("\nThe first one:\n\nTo: ada@example.org\nSubject: Deep ")
    assert "\n8 of 10 points\n" in text and "\x1b" not in text
