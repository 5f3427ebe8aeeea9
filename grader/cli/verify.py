"""`grade verify`: the course proves itself."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from grader.cli.border import Command, ExitCode
from grader.cli.options import course_option, exercises_argument, known_exercises, open_course

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Command, short_help="Prove that the suites judge rightly.")
@exercises_argument
@course_option
@click.option(
    "--jobs",
    metavar="N",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="How many modules to judge at a time; by default as many as there are processors.",
)
@click.option(
    "--seeds",
    metavar="N",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Under how many seeds a right answer must earn everything.",
)
@click.option(
    "--told", is_flag=True, help="Print what the student of each wrong answer would read, too."
)
def verify(
    exercises: tuple[str, ...], course_path: Path, jobs: int, seeds: int, told: bool
) -> None:
    """Prove a course, as its author: stubs earn nothing, right answers everything.

    Every wrong answer must be caught, by the tests and in the words that it names; and every test
    must catch one. Exits with 1 if there is a complaint. With --told it prints each wrong answer
    with the tests that fail and their messages, in the order in which its student reads them.

    \b
    Examples:
      grade verify                 the whole course
      grade verify glu --seeds 1   one exercise, quickly
      grade verify glu --told      what the students of its wrong answers read
    """
    course = open_course(course_path)
    selected = known_exercises(course, exercises)
    from grader.authoring.verify import verify as prove
    from grader.cli.terminal.progress import VerifyDisplay

    with VerifyDisplay(course, seeds) as display:
        proofs = prove(course, selected, jobs=jobs, seeds=seeds, done=display.judged)
        from grader.cli.terminal.console import open_console
        from grader.cli.terminal.course import show_proofs

        complaints = show_proofs(open_console(sys.stdout), proofs, told=told)
    click.get_current_context().exit(ExitCode.BELOW if complaints else ExitCode.FULL_MARKS)
