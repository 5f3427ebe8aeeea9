"""`grade verify`: the course proves itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click.core import ParameterSource

from grader.authoring.forgeries import forge
from grader.authoring.mutation import mutate
from grader.authoring.verify import verify as prove
from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.terminal.console import open_console
from grader.cli.terminal.progress import ProgressBar, VerifyDisplay
from grader.cli.terminal.proofs import show_mutants, show_proofs, show_words
from grader.errors import ExitCode
from grader.judge.assignment import Forgery
from grader.judge.pool import Judges


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
    help="The number of seeds under which a right answer must earn everything.",
)
@click.option(
    "--write",
    is_flag=True,
    help="First write the tests that catch each wrong answer into a file beside it.",
)
@click.option(
    "--told",
    is_flag=True,
    help="Also print the messages for each wrong answer; with --mutants, also list mutants that are caught "
    "without naming a mistake.",
)
@click.option(
    "--points",
    is_flag=True,
    help="Also print the share of the points that each wrong answer keeps, the least first.",
)
@click.option(
    "--worth",
    is_flag=True,
    help="Also print how much each test catches, how much only it catches, and its time.",
)
@click.option(
    "--words",
    is_flag=True,
    help="Print the share of points that depend on words of the sandbox instead of values.",
)
@click.option(
    "--mutants",
    metavar="[N]",
    is_flag=False,
    flag_value=sys.maxsize,
    type=click.IntRange(1),
    help="Make at most N mechanical mutants of each solution, and offer those with full marks as entries.",
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

    Every wrong answer must be caught by the tests and in the words that it names, and every test must catch
    one. Exits with 1 if there is a complaint. --write first writes the tests that catch each wrong answer under
    every seed into a file in tests/wrong. --told prints each wrong answer with the tests that fail and their
    messages, in the order in which its student reads them. --points prints the share of the points that each
    keeps, and marks those where a mistake that is not marked as central costs more than a third. --worth prints
    for each test how many wrong answers fail it, how many fail no other test, and its time in milliseconds. You
    may delete a test that catches nothing that others miss, and guards no sentence of the stub.

    --mutants changes each solution in many places, one at a time, and prints the changes
    that no test sees as entries of the mutants file, to which you add a sentence. Exits with 1 if any of them
    is not marked as equivalent. With --told, it also prints changes that are caught without naming a mistake,
    which takes longer.

    --words judges each solution with its answers under another seed. Tests that still pass rely on
    statements that a forger can fake: a mode, a count, a name. Exits with 1 if these are worth more than a
    tenth of an exercise's points.

    Without other options, --mutants and --words leave out the proof. Add --seeds to run all three with the same
    judges, in less time than three commands take.

    \b
    Examples:
      grade verify                 the whole course
      grade verify glu --seeds 1   one exercise, quickly
      grade verify glu --write     write the tests that catch each wrong answer
      grade verify glu --told      the messages for its wrong answers
      grade verify glu --points    the points that each wrong answer keeps
      grade verify glu --worth     how much each of its tests catches
      grade verify glu --words     the points that a forger could earn by words
      grade verify glu --mutants   changes that its suites do not see
      grade verify --seeds 2 --mutants 10 --words
    """
    context = click.get_current_context()
    has_seeds = context.get_parameter_source("seeds") is ParameterSource.COMMANDLINE
    of_proof = write or points or worth or has_seeds or (told and mutants is None)
    course = shared.open_course(course_path)
    selected = shared.known_exercises(course, exercises)
    console = open_console()
    holds = []
    with Judges.for_many(course, selected, jobs) as judges:
        if of_proof or (mutants is None and not words):
            with VerifyDisplay(course, seeds, write=write) as display:
                proofs = prove(
                    course,
                    selected,
                    seeds=seeds,
                    write=write,
                    shared=judges,
                    done=display.judged,
                )
                holds += [not show_proofs(console, proofs, told=told, points=points, worth=worth)]
        if mutants is not None:
            with ProgressBar("mutants", timed=True) as bar:
                reports = mutate(
                    course,
                    selected,
                    most=mutants,
                    jobs=jobs,
                    told=told,
                    shared=judges,
                    begin=bar.start,
                    done=bar.advance,
                )
                holds += [show_mutants(console, reports)]
        if words:
            with ProgressBar("exercises", timed=True) as bar:
                bar.start("", len(selected))
                forged = forge(course, selected, (Forgery.REPLAY,), shared=judges, done=bar.advance)
                holds += [show_words(console, forged)]
    context.exit(ExitCode.FULL_MARKS if all(holds) else ExitCode.BELOW)
