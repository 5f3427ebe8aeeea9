"""`grade report` and `grade term`: a graded class as pages, and the totals of a term."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell
from grader.cli.results import open_book, tell_passed
from grader.cli.terminal.progress import with_progress
from grader.exports import FORMATS
from grader.exports.files import ClassFormat, Options
from grader.exports.report import write_report
from grader.exports.report.triage import FEWEST_TRIES
from grader.exports.term import write_term, write_upload
from grader.gradebook.anonymous import AnonymousBook
from grader.gradebook.similarity.findings import read_similar
from grader.gradebook.term import add_up, read_graded, summary
from grader.text import clean, counted

_LONGEST_NOTE = 2000
# The formats that fill in a platform's file. Listed here, since asking each format would import all of them.
UPLOADS = ("canvas", "moodle")


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
    with open_book(results, assignment) as whole:
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
        )
        tell_passed(whole)
    count = counted(written.students, "student")
    click.echo(f"{count}: {clean(str(written.index), 1000)}")
    students = clean(str(folder / "students"), 1000)
    click.echo(f"To send, each page only to its student: {students}")
    if show:
        click.launch(written.index.resolve().as_uri())


@click.command(cls=Command)
@click.argument(
    "results",
    nargs=-1,
    required=True,
    metavar="RESULTS...",
    type=shared.EXISTING_FOLDER,
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="FOLDER",
    required=True,
    type=shared.FOLDER,
    help="Where to write the totals: a new folder, or the folder of an earlier `grade term`.",
)
@shared.course_option
@click.option(
    "--format",
    "name",
    metavar="FORMAT",
    type=click.Choice(UPLOADS),
    help=f"Write the totals for a platform, too: {', '.join(UPLOADS)}. See docs/exports.md.",
)
@click.option(
    "--template",
    metavar="FILE",
    type=shared.EXISTING_FILE,
    help="The file that the platform exported, to be filled in.",
)
@click.option("--column", metavar="NAME", default="", help="The column of that file for the total.")
def term(
    results: tuple[Path, ...],
    folder: Path,
    course_path: Path,
    name: str | None,
    template: Path | None,
    column: str,
) -> None:
    """Compute the totals of a term, by the weights and rules of assignments.toml.

    RESULTS are the folders that `grade batch --assignment` wrote, one for each assignment. In a folder for the
    whole course, the assignments that are due count. Writes grades.csv, explained.txt with one line for each
    student, and index.html with the distribution into FOLDER. Nothing is judged. Students missing from a
    folder, ids that may be one person, and unjudged exercises are listed; their totals stay open.
    docs/reference.md explains the rules.

    \b
    Examples:
      grade term week1 week2 final -o term
      grade term results -o term
      grade term week1 week2 -o term --format canvas --template gradebook.csv --column "Term (7)"
    """
    if (template is not None or column) and name is None:
        raise click.UsageError("--template and --column need --format.")
    if template is not None and template.resolve() == (folder / f"{name}.csv").resolve():
        raise click.UsageError(f"The upload would overwrite {template}: name another folder.")
    course = shared.open_course(course_path)

    graded = [each for folder_of_one in results for each in read_graded(folder_of_one, course)]
    whole = add_up(graded, course)
    paths = write_term(whole, folder, course.title)
    notes = list(whole.notes)
    if name is not None:
        chosen, path = FORMATS[name], folder / f"{name}.csv"
        assert isinstance(chosen, ClassFormat), "a template is of a whole class"
        options = Options(template=template, column=column)
        notes += write_upload(whole, path, chosen, options, course.info())
        paths = (*paths, path)
    click.echo(f"{summary(whole)}: {clean(', '.join(map(str, paths)), _LONGEST_NOTE)}")
    for note in notes:
        tell(note)
