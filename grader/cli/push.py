"""`grade push`: points and comments, sent to Canvas, Moodle, or any LTI platform."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell
from grader.cli.results import DoubtfulZeros, open_book
from grader.errors import GraderError
from grader.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grader.exports.push.comparison import Options, Plan, Platform
    from grader.gradebook import Gradebook


@click.command(cls=Command)
@shared.results_argument
@click.option(
    "--canvas",
    metavar="URL",
    help="The assignment's address in Canvas, as your browser shows it. The token is in CANVAS_TOKEN.",
)
@click.option(
    "--moodle",
    metavar="URL",
    help="The assignment's address in Moodle, as your browser shows it. The token is in MOODLE_TOKEN.",
)
@click.option(
    "--lti",
    is_flag=True,
    help="Send to the LTI platform from which students launched `grade serve`; see docs/serve.md.",
)
@click.option(
    "--link",
    metavar="WORDS",
    help="With --lti, if there are several links: words of the platform, the course or the link.",
)
@shared.assignment_of_results_option
@click.option("--dry-run", is_flag=True, help="Show the changes, and send nothing.")
@click.option("--yes", is_flag=True, help="Send without asking.")
@click.option(
    "--overwrite",
    is_flag=True,
    help="Also replace points that a person entered or changed on the platform.",
)
@click.option(
    "--zeros",
    is_flag=True,
    help="Also send 0 points for students who handed in nothing and still have time.",
)
@click.option("--no-comments", is_flag=True, help="Send points only.")
@click.option(
    "--out-of",
    metavar="POINTS",
    type=shared.FiniteRange(0, 1_000_000, min_open=True),
    help="Scale the total to this many points.",
)
@shared.disclose_option
def push(
    results: Path,
    canvas: str | None,
    moodle: str | None,
    lti: bool,
    link: str | None,
    assignment: str | None,
    dry_run: bool,
    yes: bool,
    overwrite: bool,
    zeros: bool,
    no_comments: bool,
    out_of: float | None,
    disclose: str | None,
) -> None:
    """Send points and comments to an assignment in Canvas, Moodle, or any LTI platform.

    RESULTS is the folder that `grade batch` wrote. The command reads the platform, shows the
    differences, asks, and sends only these. Points count as everywhere: after the policy and corrections. Held
    points and open totals are not sent, nor 0 points for students who handed in nothing and still have time.
    Points that a person changed on the platform stay. Comments show no more of hidden tests than
    `grade export` shows students.

    Exits with 0, or with 3 if the platform refused something or could not be reached. Then run it again: it
    sends the rest, and nothing twice.

    \b
    Examples:
      grade push results --canvas https://canvas.example.edu/courses/12/assignments/34 --dry-run
      grade push results --moodle "https://moodle.example.edu/mod/assign/view.php?id=56"
      grade push results --lti --link "Deep Learning" --dry-run
    """
    if sum((canvas is not None, moodle is not None, lti)) != 1:
        raise click.UsageError("Name the assignment with --canvas, --moodle or --lti.")
    if link is not None and not lti:
        raise click.UsageError("--link goes with --lti.")
    if not (dry_run or yes or sys.stdin.isatty()):
        raise click.UsageError(
            "There is no terminal to ask on: --dry-run shows the changes, --yes sends them."
        )
    from grader.exports.push.comparison import Options

    with open_book(results, assignment) as book:
        options = Options(
            title=book.work_title,
            not_open=book.not_open,
            out_of=out_of,
            disclose=shared.disclosure(disclose),
            comments=not no_comments,
            overwrite=overwrite,
            policy=None if zeros else book.policy,
        )
        platform = _linked(book, link or "", assignment) if lti else _opened(canvas, moodle)
    failures = _pushed(results, assignment, platform, options, dry_run=dry_run, yes=yes)
    if failures:
        for failure in failures:
            tell(failure)
        changes = counted(len(failures), "student")
        raise GraderError(f"{platform.name} did not accept the changes of {changes}.")


def _linked(book: Gradebook, words: str, assignment: str | None) -> Platform:
    """Open the column of a link on its LTI platform."""
    from grader.exports.push.lti import Lti, work_of
    from grader.gradebook import platforms
    from grader.gradebook.tool_key import made_key

    platform, link = platforms.chosen_link(book, words, assignment or "")
    if link.assignment and link.assignment != (assignment or book.facts.assignment):
        raise click.UsageError(
            f"{platforms.described(platform, link)} is the link of one assignment: "
            f"give --assignment {link.assignment}, or name another --link."
        )
    users = platforms.users(book, platform.issuer, platform.client_id)
    work = work_of(book, assignment or "")
    return Lti(platform, link, made_key(book.folder), users, work, book.work_title)


def _opened(canvas: str | None, moodle: str | None) -> Platform:
    """Open the assignment on its platform."""
    if canvas is not None:
        from grader.exports.push.canvas import Canvas

        return Canvas(canvas, os.environ)
    from grader.exports.push.moodle import Moodle

    assert moodle is not None, "one of both was named"
    return Moodle(moodle, os.environ)


def _pushed(
    results: Path,
    assignment: str | None,
    platform: Platform,
    options: Options,
    *,
    dry_run: bool,
    yes: bool,
) -> list[str]:
    """Compare, show, ask and send; return a sentence for each student whose change failed."""
    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.progress import ProgressBar
    from grader.cli.terminal.push import show_plan
    from grader.exports.files import ClassSource
    from grader.exports.push import comparison
    from grader.gradebook import Gradebook
    from grader.gradebook.pushed import pushing, reading

    with (reading if dry_run else pushing)(results, platform.address) as memory:
        with Gradebook.open(results, assignment) as book:
            doubtful, names = DoubtfulZeros(book), book.names()
        entries = doubtful.over(ClassSource(results, assignment))
        plan = comparison.planned(entries, platform, memory.all(), options)
        for note in (*platform.notes, *plan.left, *_not_due(plan, options)):
            tell(note)
        doubtful.tell()
        show_plan(open_console(), plan, names)
        if dry_run:
            return []
        if plan.changes and not (yes or click.confirm(f"Send this to {platform.name}?")):
            click.echo("Nothing was sent.")
            return []
        with ProgressBar("students", timed=True) as bar:
            bar.start(platform.name, len(plan.changes))
            sent = comparison.send(plan, platform, memory, bar.advance)
        if plan.changes:
            click.echo(f"{counted(sent.arrived, 'student')} sent.")
        return sent.failures


def _not_due(plan: Plan, options: Options) -> Iterator[str]:
    """Yield a sentence on students who handed in nothing and still have time, if there are any."""
    from grader.exports.verdicts import not_due

    if plan.not_due and options.policy is not None:
        yield f"Left out: {not_due(plan.not_due, options.policy)}. --zeros sends 0 points for them."
