"""`grade term`: the totals of a term."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell
from grader.exports import FORMATS
from grader.exports.files import ClassFormat, Options
from grader.exports.term import write_term, write_upload
from grader.gradebook.term import add_up, read_graded, summary
from grader.text import clean

_LONGEST_NOTE = 2000
# The formats that fill in a platform's file. Listed here, since asking each format would import all of them.
UPLOADS = ("canvas", "moodle")


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
