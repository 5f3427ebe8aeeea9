"""`grade report`: a graded class as pages."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import open_book, tell_passed
from grader.cli.terminal.progress import with_progress
from grader.exports.report import write_report
from grader.exports.report.triage import FEWEST_TRIES
from grader.gradebook.anonymous import AnonymousBook
from grader.gradebook.similarity.findings import read_similar
from grader.text import clean, counted


@click.command(cls=Command)
@shared.results_argument
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="FOLDER",
    required=True,
    type=click.Path(path_type=Path),
    help="Where to write the pages: a new folder, or the folder of an earlier report.",
)
@shared.assignment_of_results_option
@shared.disclose_option
@shared.anonymous_option
@click.option("--open", "show", is_flag=True, help="Open the report in your browser.")
def report(
    results: Path,
    folder: Path,
    assignment: str | None,
    disclose: str | None,
    anonymous: bool,
    show: bool,
) -> None:
    """Write the report of a class: RESULTS is the folder that `grade batch` wrote.

    FOLDER/staff has everything: the class at a glance, exercises and tests, a page for each
    student, alike pairs if `grade similar` was run. FOLDER/students has a page to send to each student:
    one file that names no other student, and shows of hidden tests only as much as students may
    read. No page loads anything from a network.

    \b
    Examples:
      grade report results/ -o report/
      grade report results/ -o report/ --open
    """
    with open_book(results, assignment, anonymous=anonymous) as whole:
        similarity = read_similar(results)
        hidden = AnonymousBook(whole) if anonymous else None
        if similarity is not None:
            similarity = similarity.only(whole.exercises)
            similarity = similarity if hidden is None else hidden.similarity(similarity)
        book = hidden or whole
        written = write_report(
            with_progress(book, "Writing"),
            folder,
            sources=book.sources,
            similarity=similarity,
            title=whole.title,
            attempts=book.attempt_counts(),
            attention=book.attention(),
            history=lambda entry: book.history(entry.student, FEWEST_TRIES),
            before=book.totals_before(),
            disclose=shared.disclosure(disclose),
            unfinished=book.unfinished,
        )
        tell_passed(whole)
    count = counted(written.students, "student")
    click.echo(f"{count}: {clean(str(written.index), 1000)}")
    students = clean(str(folder / "students"), 1000)
    click.echo(f"To send, each page only to its student: {students}")
    if show:
        click.launch(written.index.resolve().as_uri())
