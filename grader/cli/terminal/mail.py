"""The mails of `grade mail`, as a table, and one of them as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rich.console import Console
from rich.text import Text

from grader.cli.terminal.console import called, printed
from grader.exports.mail.class_mail import ClassPlan
from grader.exports.mail.letter import Letter
from grader.text import clean, counted

_LONGEST_NAME = 44
_HEADER = ("Student", "Address")


@printed
def show_mails(
    console: Console,  # noqa: ARG001  # as everything that is printed
    plan: ClassPlan,
    names: Mapping[str, str],
) -> Iterator[Text]:
    """Print a row for each student who gets a mail."""
    rows = [_HEADER]
    for mail in plan.mails:
        again = "" if mail.first else ", again: the feedback or the address has changed"
        rows.append((called(mail.student, names), f"{mail.letter.to}{again}"))
    width = min(max(len(name) for name, _ in rows), _LONGEST_NAME)
    for name, address in rows if plan.mails else ():
        yield Text(f"  {name:<{width}}  {address}", no_wrap=True)
    others = f", {plan.already_sent} have theirs already" if plan.already_sent else ""
    yield Text(f"{counted(len(plan.mails), 'mail')} to send{others}.")


@printed
def show_first(
    console: Console,  # noqa: ARG001  # as everything that is printed
    letter: Letter,
) -> Iterator[Text]:
    """Print a mail as text."""
    yield Text(f"\nThe first one:\n\nTo: {letter.to}\nSubject: {clean(letter.subject)}\n")
    for line in letter.text.splitlines():
        yield Text(clean(line, 1000))
