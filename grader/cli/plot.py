"""`grade plot`: draw your code at work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli import options as shared
from grader.cli.border import Command
from grader.errors import ExitCode, GraderError, SubmissionError

if TYPE_CHECKING:
    from grader.course.manifest import Course, Exercise
    from grader.student.plots.process import Drawn


_LONGEST_NOTE = 500
_LONGEST_MESSAGE = 1500


def _png(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse a file that cannot be created, before the experiment instead of after it."""
    if path is not None and path.suffix.lower() != ".png":
        raise click.BadParameter(
            f"It is a PNG: name it {path.with_suffix('.png').name}.", context, parameter
        )
    return shared.writable(context, parameter, path)


@click.command(cls=Command)
@click.argument("exercise")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=shared.FILE,
    callback=_png,
    help="The PNG to write. By default .grade/plots/EXERCISE.png beside your exercises; with "
    "--submission, EXERCISE.png here.",
)
@click.option(
    "--submission",
    metavar="PATH",
    type=shared.EXISTING,
    help="Somebody else's folder, or the file of the exercise. By default the course's own exercises.",
)
@click.option("--give-up", is_flag=True, help="Also show the reference before you have passed.")
@shared.course_option
def plot(
    exercise: str, output: Path | None, submission: Path | None, give_up: bool, course_path: Path
) -> None:
    """Draw your code at work, in an experiment of the course.

    Your code runs behind the same walls as in `grade run`, and its time is limited. Once you have
    passed, the reference's picture is beside yours, if the course has solutions.

    \b
    Examples:
      grade plot glu                         writes a PNG and prints its path
      grade plot grad_norms -o norms.png     to this file
    """
    course = shared.open_course(course_path)
    (chosen,) = shared.known_exercises(course, [exercise])
    if not course.plot(chosen).is_file():
        others = ", ".join(e.id for e in course.exercises if course.plot(e).is_file())
        there_is = (
            f"There are plots for: {others}." if others else "No exercise of this course has one."
        )
        raise SubmissionError(f"There is no plot for {chosen.id}. {there_is}")
    own = submission is None or submission.samefile(course.folder)
    submission = submission or course.folder
    reference = _reference(course, chosen, own=own, give_up=give_up)
    drawn = _draw(course, chosen, submission, reference)
    if drawn is None:
        click.get_current_context().exit(ExitCode.BELOW)
    from grader.student.next_step import shown_path
    from grader.student.plots.plot import keep
    from grader.text import clean

    path = output or _place(course, chosen, own=own)
    for picture in keep(drawn, path, beside=reference is not None):
        click.echo(f"{shown_path(picture.path)}  {picture.shows}")
    if drawn.note:
        click.echo(clean(drawn.note, _LONGEST_NOTE))


def _reference(course: Course, exercise: Exercise, *, own: bool, give_up: bool) -> bytes | None:
    """Return the source of the solution, if there is one and it may be shown."""
    solution = course.solution_source(exercise)
    if give_up and solution is None:
        raise SubmissionError("This copy of the course has no solutions to draw.")
    if give_up:
        return solution
    if solution is None or not own:
        return None
    from grader.student.progress import Logbook

    return solution if Logbook(course).page(exercise).passed is not None else None


def _draw(
    course: Course, exercise: Exercise, submission: Path, reference: bytes | None
) -> Drawn | None:
    """Draw the picture; if there is none, print the reason and return None."""
    from grader.grading import settle
    from grader.judge.assignment import GradingOptions
    from grader.results import Outcome, Status
    from grader.student.next_step import Guide
    from grader.student.plots.plot import draw
    from grader.student.plots.process import NotDrawn
    from grader.submissions import read_submission
    from grader.text import clean, clean_lines

    read = read_submission(submission, course)
    if (handed := read.files.get(exercise.id)) is None:
        raise SubmissionError(f"{read.name} is a single file, not the one of {exercise.id!r}.")
    if (settled := settle(course, exercise, handed, GradingOptions())) is not None:
        message, place = settled.message, settled.tests[0].place if settled.tests else None
        unwritten = settled.status is Status.NOT_ATTEMPTED
    else:
        drawn = draw(course, exercise, handed.source or b"", reference=reference)
        if not isinstance(drawn, NotDrawn):
            return drawn
        message, place = drawn.message, drawn.place
        unwritten = drawn.outcome is Outcome.NOT_IMPLEMENTED
    _say(f"No picture yet. {clean_lines(message, _LONGEST_MESSAGE)}")
    function = f"  in {clean(place.function)}" if place is not None and place.function else ""
    click.echo(f"{Guide(course, submission).where(exercise.id, place)}{function}")
    if unwritten:
        hint = f"grade hint {exercise.id}{shared.repeated('course_path')}"
        _say(f"Write that first; `{clean(hint, _LONGEST_NOTE)}` helps.")
    else:
        judge = f"grade run {exercise.id}{shared.repeated('submission', 'course_path')}"
        _say(f"Correct that first; `{clean(judge, _LONGEST_NOTE)}` says more.")
    return None


def _say(text: str) -> None:
    """Print sentences, wrapped between words on a terminal; a pipe gets each as one line."""
    from grader.cli.terminal.console import open_console, print_lines, whole_words

    console = open_console(sys.stdout)
    for line in text.splitlines():
        print_lines(console, whole_words(console, line, ""))


def _place(course: Course, exercise: Exercise, *, own: bool) -> Path:
    """Return the default file for a picture, and make its folder."""
    name = f"{exercise.id}.png"
    if not own or course.unpacked is not None:
        return Path(name)
    from grader.student.progress import FOLDER, make_folder

    folder = course.root / FOLDER
    try:
        make_folder(folder)
        (folder / "plots").mkdir(exist_ok=True)
    except OSError as error:
        raise GraderError(
            f"{folder} cannot be made: {error.strerror}. Name a file for the picture with -o."
        ) from error
    return folder / "plots" / name
