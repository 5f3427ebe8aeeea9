"""`grade term`: the totals of a term, from the gradebooks of its assignments."""

from __future__ import annotations

from pathlib import Path

import click

from grader.cli.border import Command
from grader.cli.options import course_option, open_course
from grader.exports import FORMATS
from grader.exports.files import ClassFormat, Options
from grader.exports.term import write_term, write_upload
from grader.gradebook.term import add_up, read_graded, summary
from grader.text import clean

_LONGEST_NOTE = 2000
# The formats that fill in a file of a platform; to ask each format would import all of them.
UPLOADS = ("canvas", "moodle")


@click.command(cls=Command)
@click.argument(
    "results",
    nargs=-1,
    required=True,
    metavar="RESULTS...",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="FOLDER",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to write the totals; made if it is not there.",
)
@course_option
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
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
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
    """Add up the assignments of a term, by the weights and rules of assignments.toml.

    RESULTS are the folders that `grade batch --assignment` wrote, one of each assignment. FOLDER gets
    grades.csv, explained.txt with one line for each student, and index.html with the distribution. Nothing is
    judged. Students who are missing from a folder, ids that may be one person, and what is not judged are
    told; their totals stay open. docs/instructors.md explains the rules.

    \b
    Examples:
      grade term week1 week2 final -o term
      grade term week1 week2 -o term --format canvas --template gradebook.csv --column "Term (7)"
    """
    if (template is not None or column) and name is None:
        raise click.UsageError("--template and --column need --format.")
    course = open_course(course_path)

    whole = add_up([read_graded(each, course) for each in results], course)
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
        click.echo(clean(note, _LONGEST_NOTE), err=True)
