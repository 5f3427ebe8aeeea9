"""`grade similar`: find alike files in a class."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.results import open_book
from grader.cli.terminal.console import open_console
from grader.cli.terminal.groups import show_similarity
from grader.cli.terminal.progress import with_progress
from grader.gradebook import Gradebook
from grader.gradebook.anonymous import AnonymousBook
from grader.gradebook.similarity.corpus import find_in_corpus, read_corpus
from grader.gradebook.similarity.findings import write_files, write_similar
from grader.gradebook.similarity.survey import find_similar


@click.command(cls=Command)
@shared.results_argument
@shared.course_option
@click.option(
    "--threshold",
    metavar="PERCENT",
    type=shared.FiniteRange(1, 100),
    help="Report pairs with at least this share of common code.  [default: learned from the class]",
)
@click.option(
    "--most",
    metavar="N",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Keep at most N pairs of each exercise, the most alike.",
)
@click.option(
    "--files",
    metavar="FOLDER",
    type=shared.FOLDER,
    help="Also write the compared files into a new folder, for Dolos and JPlag.",
)
@click.option(
    "--corpus",
    metavar="FOLDER",
    type=shared.EXISTING_FOLDER,
    multiple=True,
    help="Also compare with files in FOLDER: RESULTS of former classes, published answers. May be repeated.",
)
@shared.assignment_of_results_option
@shared.anonymous_option
def similar(
    results: Path,
    course_path: Path,
    threshold: float | None,
    most: int,
    files: Path | None,
    corpus: tuple[Path, ...],
    assignment: str | None,
    anonymous: bool,
) -> None:
    """Find students whose files are alike: RESULTS is the folder that `grade batch` wrote.

    Ignores names, numbers, comments, layout and the order of functions. Code of the stub does not count, and
    code that many wrote counts little. Reports pairs that are more alike than is usual in the class, in one
    exercise or in several together. With fewer than ten files there is nothing to learn from, and pairs are
    reported from 60 percent. Writes groups and pairs to RESULTS/similar.json, which `grade report` shows side
    by side.

    With --corpus, also reports for each student's file the most alike file of the corpus, if it is
    unusually alike. Files of the corpus are named only by their digests.

    Alike files are not proof of copying: short exercises are alike by nature, and so is the work of
    people who learn together. Read the code before you draw a conclusion.

    \b
    Examples:
      grade similar results/
      grade similar results/ --threshold 80
      grade similar results/ --files compared/
      grade similar results/ --corpus last-year/results --corpus published/
    """
    course = shared.open_course(course_path)

    stubs = {e.id: course.stub(e).source for e in course.exercises}
    least = None if threshold is None else threshold / 100
    with open_book(results, assignment, course=course, anonymous=anonymous) as book:
        similarity = find_similar(
            with_progress(book, "Reading"),
            book.sources,
            stubs,
            threshold=least,
            most_pairs=most,
            of_teams=book.of_teams,
        )
        if corpus:
            graded = {name: stub for name, stub in stubs.items() if name in book.exercises}
            others = read_corpus(corpus, graded, results)
            matches, surveys = find_in_corpus(book.entries(), book.sources, graded, others, least)
            similarity = msgspec.structs.replace(
                similarity, corpus=tuple(matches), corpus_surveys=tuple(surveys)
            )
        names = book.names()
        # Write the file with real ids even if the output is anonymous: the report reads it.
        path = write_similar(results, similarity)
        shown: Gradebook | AnonymousBook = book
        if anonymous:
            shown = AnonymousBook(book)
            similarity, names = shown.similarity(similarity), {}
        if files is not None:
            write_files(files, shown.entries(), shown.sources, stubs)
    show_similarity(open_console(), similarity, path, names)
