"""`grade mail`: feedback by mail, to each student of a class."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell, tell_unfinished
from grader.cli.results import find_student
from grader.errors import GraderError
from grader.text import clean, counted, listed

if TYPE_CHECKING:
    from grader.exports.mail.class_mail import ClassPlan, Sent
    from grader.exports.mail.mail_file import MailServer
    from grader.gradebook import Gradebook


@click.command(cls=Command)
@shared.results_argument
@click.argument("students", nargs=-1, metavar="[STUDENT]...")
@click.option(
    "--mail",
    "mail_file",
    metavar="FILE",
    required=True,
    type=shared.EXISTING_FILE,
    help="The mail server and the sender, as a TOML file. See docs/serve.md.",
)
@shared.assignment_of_results_option
@click.option("--absent", is_flag=True, help="Also mail students who handed in nothing.")
@click.option(
    "--dry-run", is_flag=True, help="Show who would get mail, and the first mail; send nothing."
)
@click.option("--yes", is_flag=True, help="Send without asking.")
@click.option(
    "--test",
    "test_address",
    metavar="ADDRESS",
    help="Try the mail server: send this address one mail without results, and nothing else.",
)
@shared.disclose_option
def mail(
    results: Path,
    students: tuple[str, ...],
    mail_file: Path,
    assignment: str | None,
    absent: bool,
    dry_run: bool,
    yes: bool,
    test_address: str | None,
    disclose: str | None,
) -> None:
    """Mail each student their feedback.

    RESULTS is the folder that `grade batch` wrote. Mails have the same feedback as `grade export`, and show no
    more of hidden tests than students may read. RESULTS remembers what was sent: after a regrade or a
    correction, run the command again to mail only students whose feedback changed. Students with an unjudged
    exercise get no mail yet.

    STUDENT is an id, or a unique part of an id, name or email; without one, the whole class gets mail. Exits
    with 0, or with 3 if a mail was refused or the mail server could not be reached; run the command again to
    send the rest.

    \b
    Examples:
      grade mail results --mail mail.toml --test me@example.org
      grade mail results --mail mail.toml --dry-run
      grade mail results --mail mail.toml
      grade mail results --mail mail.toml ada bob --yes
    """
    if not (dry_run or yes or test_address or sys.stdin.isatty()):
        raise click.UsageError(
            "There is no terminal to ask on: --dry-run shows what would be sent, --yes sends it."
        )
    from grader.exports.mail.mail_file import read_mail_file
    from grader.gradebook import Gradebook, outbox

    server = read_mail_file(mail_file)
    if test_address is not None:
        _test(server, test_address)
        return
    opened = Gradebook.open if dry_run else outbox.mailing
    with Gradebook.open(results, assignment) as known:
        tell_unfinished(known)
        names = {find_student(known.students(), each).id for each in students}
    with opened(results, assignment) as book:
        from grader.exports.mail.class_mail import planned

        work = assignment or book.facts.assignment
        level = shared.disclosure(disclose)
        plan = planned(book, server.file, work, students=names, absent=absent, disclose=level)
        _show(plan, book.names(), with_first=dry_run)
        if dry_run or not plan.mails:
            return
        what = f"Send {counted(len(plan.mails), 'mail')} through {server.name}?"
        if not (yes or click.confirm(what)):
            click.echo("Nothing was sent.")
            return
        sent = _sent(plan, book, server, work)
    click.echo(f"{counted(sent.arrived, 'mail')} sent.")
    if sent.failures:
        for failure in sent.failures:
            tell(clean(failure, 1000))
        who = counted(len(sent.failures), "student")
        raise GraderError(f"{server.name} did not accept the mail to {who}.")


def _sent(plan: ClassPlan, book: Gradebook, server: MailServer, work: str) -> Sent:
    from grader.cli.terminal.progress import ProgressBar
    from grader.exports.mail.class_mail import send

    with ProgressBar("students", timed=True) as bar:
        bar.start(server.name, len(plan.mails))
        return send(plan, book, server, work, bar.advance)


def _show(plan: ClassPlan, names: dict[str, str], *, with_first: bool) -> None:
    """Print who gets mail, and on stderr who gets none."""
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.mail import show_first, show_mails

    for note in plan.left:
        tell(clean(note, 1000))
    if plan.without:
        who = counted(len(plan.without), "student has", "students have")
        tell(f"{who} no usable address: {clean(listed(plan.without), 1000)}.")
    if plan.absent:
        tell(f"{counted(plan.absent, 'student')} handed in nothing: --absent mails them, too.")
    console = open_console()
    show_mails(console, plan, names)
    if with_first and plan.mails:
        show_first(console, plan.mails[0].letter)


def _test(server: MailServer, address: str) -> None:
    """Send one mail without any result."""
    import secrets

    from grader.exports.mail import post
    from grader.exports.mail.letter import Letter, closing, email_of
    from grader.exports.mail.mail_file import is_address
    from grader.exports.mail.post import NotTaken

    if not is_address(address):
        raise click.UsageError(f"--test {clean(address)} is not an address.")
    text = f"This mail shows that Lab Bench can send mail.\n\n{closing(server.file)}"
    letter = Letter(secrets.token_hex(16), address, "A test of mail", text)
    with post.opened(server) as connection:
        try:
            connection.send(email_of(letter, server.file))
        except NotTaken as error:
            raise GraderError(
                f"{server.name} does not accept mail to {address}: {error.said}"
            ) from error
    click.echo(f"{server.name} accepted a mail to {address}. Check that it arrives.")
