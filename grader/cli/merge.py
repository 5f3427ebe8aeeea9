"""`grade merge`: the gradebooks of several graders become one."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.border import Command
from grader.cli.options import results_argument

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command(cls=Command, short_help="Merge the gradebooks of several graders.")
@results_argument
@click.argument("others", metavar="OTHER...", nargs=-1, required=True, type=_FOLDER)
@click.option(
    "-o",
    "--output",
    "merged",
    metavar="MERGED",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of a gradebook of its own for all of them; without it, RESULTS gets the others.",
)
@click.option(
    "--prefer",
    metavar="FOLDER",
    type=_FOLDER,
    help="Whose verdicts are kept where two differ; by default the newer one is.",
)
def merge(
    results: Path, others: tuple[Path, ...], merged: Path | None, prefer: Path | None
) -> None:
    """Merge what several people graded of one course: RESULTS and OTHER are folders of `grade batch`.

    Students, attempts, files, verdicts and corrections of all of them are in one gradebook then. What two of
    them say otherwise of the same file is shown, with what is kept. The others are only read, and merging
    again changes nothing.

    \b
    Examples:
      grade merge results colleague/results
      grade merge anna ben chris -o class
      grade merge results colleague/results --prefer results
    """
    from grader.cli.terminal.class_summary import show_merged
    from grader.cli.terminal.console import open_console
    from grader.gradebook import Gradebook
    from grader.gradebook.merge import merge as merge_books

    if prefer is not None and prefer.resolve() not in {p.resolve() for p in (results, *others)}:
        raise click.UsageError("--prefer names one of the folders that are merged.")
    done = merge_books(results, others, merged, prefer)
    with Gradebook.open(merged or results) as book:
        show_merged(open_console(sys.stdout), done, merged or results, book.names())
