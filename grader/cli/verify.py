"""`grade verify`: the course proves itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.authoring.forgeries import forge
from grader.authoring.mutation import mutate
from grader.authoring.verify import verify as prove
from grader.cli import options as shared
from grader.cli.border import Command, ExitCode
from grader.cli.terminal.console import open_console
from grader.cli.terminal.progress import ProgressBar, VerifyDisplay
from grader.cli.terminal.proofs import show_mutants, show_proofs, show_words
from grader.judge.assignment import Forgery


class _VerifyCommand(Command):
    """A command whose option --mutants may come without a number before the name of an exercise."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; only a number after --mutants belongs to it."""
        for place, argument in enumerate(args[1:], 1):
            if args[place - 1] == "--mutants" and not argument.lstrip("-").isdecimal():
                args = [*args[: place - 1], f"--mutants={sys.maxsize}", *args[place:]]
        return super().parse_args(ctx, args)


@click.command(cls=_VerifyCommand)
@shared.exercises_argument
@shared.course_option
@shared.jobs_option
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Under how many seeds a right answer must earn everything.",
)
@click.option(
    "--write",
    is_flag=True,
    help="Write which tests catch each wrong answer beside it first.",
)
@click.option(
    "--told",
    is_flag=True,
    help="Print what the student of each wrong answer would read, too; with --mutants, list those also whose "
    "student would read of no mistake.",
)
@click.option(
    "--points",
    is_flag=True,
    help="Print what part of the points each wrong answer keeps, too, the least first.",
)
@click.option(
    "--worth",
    is_flag=True,
    help="Print what each test catches, what only it catches, and what it costs, too.",
)
@click.option(
    "--words",
    is_flag=True,
    help="Print the share of points that hang on words of the sandbox, and not on values.",
)
@click.option(
    "--mutants",
    metavar="[N]",
    is_flag=False,
    flag_value=sys.maxsize,
    type=click.IntRange(1),
    help="Make mechanical mutants of each solution, at most N, and offer those with full marks as entries.",
)
def verify(
    exercises: tuple[str, ...],
    course_path: Path,
    jobs: int,
    seeds: int,
    write: bool,
    told: bool,
    points: bool,
    worth: bool,
    words: bool,
    mutants: int | None,
) -> None:
    """Prove a course, as its author: stubs earn nothing, right answers everything.

    Every wrong answer must be caught, by the tests and in the words that it names; and every test
    must catch one. Exits with 1 if there is a complaint. With --write the tests that catch each wrong answer
    under every seed are written first, into a file of their own in tests/wrong. With --told it prints each
    wrong answer with the tests that fail and their messages, in the order in which its student reads them.
    With --points it prints what each one keeps of the points, and marks those where one mistake that is not
    marked as central costs more than a third. With --worth it prints of each test how many wrong answers fail
    it, how many of them fail no other, and what it costs, in milliseconds: one that catches nothing of its own
    and guards no sentence of the stub may go.

    With --mutants it proves nothing of this, but changes each solution in many places, one at a time, and
    prints those that no test sees as entries of the mutants file, to which a sentence is to be added. Exits
    with 1 if there is one that is not marked as equivalent. With --told it prints those as well that tests
    catch without naming a mistake; it takes longer.

    With --words it judges each solution with what it answered under another seed. Tests that pass then
    believe words, which a forger can say too: a mode, a count, a name. Exits with 1 where these are
    worth more than a tenth of an exercise's points.

    \b
    Examples:
      grade verify                 the whole course
      grade verify glu --seeds 1   one exercise, quickly
      grade verify glu --write     write which tests catch each of its wrong answers
      grade verify glu --told      what the students of its wrong answers read
      grade verify glu --points    what each wrong answer keeps of the points
      grade verify glu --worth     which of its tests catch something that no other does
      grade verify glu --words     which of its points a forger could earn by words
      grade verify glu --mutants   what its suites do not see
    """
    of_proof = write or points or worth or (told and mutants is None)
    if [mutants is not None, words, of_proof].count(True) > 1:
        raise click.UsageError(
            "--mutants (with or without --told), --words, and the proof with --write, --told, --points or "
            "--worth are a run each: give one of them at a time."
        )
    course = shared.open_course(course_path)
    selected = shared.known_exercises(course, exercises)
    if mutants is not None:
        with ProgressBar("mutants", timed=True) as bar:
            reports = mutate(
                course,
                selected,
                most=mutants,
                jobs=jobs,
                told=told,
                begin=bar.start,
                done=bar.advance,
            )
            holds = show_mutants(open_console(), reports)
    elif words:
        with ProgressBar("exercises", timed=True) as bar:
            bar.start("", len(selected))
            forged = forge(course, selected, (Forgery.REPLAY,), jobs=jobs, done=bar.advance)
            holds = show_words(open_console(), forged)
    else:
        with VerifyDisplay(course, seeds, write=write) as display:
            proofs = prove(
                course, selected, jobs=jobs, seeds=seeds, write=write, done=display.judged
            )
            holds = not show_proofs(open_console(), proofs, told=told, points=points, worth=worth)
    click.get_current_context().exit(ExitCode.FULL_MARKS if holds else ExitCode.BELOW)
