"""`grade doctor` and `grade audit`: list the walls of this machine, and attack them."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.authoring.forgeries import forge as forged
from grader.authoring.forgeries import judge_forged
from grader.cli import options as shared
from grader.cli.border import Command, ExitCode
from grader.cli.terminal.console import open_console
from grader.cli.terminal.course import show_walls
from grader.cli.terminal.progress import ProgressBar
from grader.cli.terminal.proofs import show_findings, show_forged, show_forgeries
from grader.errors import GraderError
from grader.judge.assignment import Forgery
from grader.sandbox.walls.confinement import SYSTEM
from grader.sandbox.walls.survey import missing, reached, survey
from grader.sandbox.walls.wall import Level


@click.command(cls=Command)
@shared.exercises_argument
@shared.course_option
@click.option(
    "--forge",
    is_flag=True,
    help="Forge the replies of the course's sandboxes instead, and print what that earns.",
)
@click.option(
    "--attack",
    "names",
    metavar="NAME",
    multiple=True,
    help="Only this attack; may be given several times. By default all of them.",
)
@click.option(
    "--catalogue",
    metavar="PATH",
    type=shared.EXISTING_FOLDER,
    help="A folder of attacks of your own, and the course that they attack. By default the grader's.",
)
@click.option(
    "--no-bubblewrap", is_flag=True, help="Leave bubblewrap out: the inner walls stand alone."
)
@click.option(
    "--no-walls", is_flag=True, help="Leave all walls out, to see what they are there for."
)
def audit(
    exercises: tuple[str, ...],
    course_path: Path,
    forge: bool,
    names: tuple[str, ...],
    catalogue: Path | None,
    no_bubblewrap: bool,
    no_walls: bool,
) -> None:
    """Attack this installation, and say what stopped each attack.

    Hostile submissions that forge, read, escape, hang, exhaust and pollute are graded as any other.
    They aim at canaries alone: files, processes and texts that the audit made. Exits with 1 if one
    of them succeeded. Takes a minute.

    With --forge no attack runs. Each exercise of a course, or those that you name, is judged with forged
    replies in the place of a submission's: what the solution answered under another seed or to the public
    tests alone, one constant for all, the first argument, an error that names every argument. Then the
    submissions in the course's tests/forged are judged, which earn points without doing the work. It prints
    the points that each forgery earns, and exits with 1 where one earns more than a tenth of an exercise's
    and is not held.

    \b
    Examples:
      grade audit                            the whole catalogue
      grade audit --attack process_memory    one attack
      grade audit --no-bubblewrap            the inner walls alone
      grade audit --forge                    what forged replies earn in the course that is here
      grade audit --forge hooks memory       in two exercises of it
    """
    if forge:
        course = shared.open_course(course_path)
        chosen = shared.known_exercises(course, exercises)
        with ProgressBar("judgments", timed=True) as bar:
            answers = sum(len(course.variants(exercise, "forged")) for exercise in chosen)
            bar.start("", len(chosen) * len(Forgery) + answers)
            jobs, console = os.cpu_count() or 1, open_console()
            holds = show_forgeries(console, forged(course, chosen, jobs=jobs, done=bar.advance))
            submissions = judge_forged(course, chosen, jobs=jobs, done=bar.advance)
            holds &= show_forged(console, submissions)
        click.get_current_context().exit(ExitCode.FULL_MARKS if holds else ExitCode.BELOW)
    if exercises:
        raise click.UsageError("An exercise is for --forge; an attack is named by --attack.")

    if SYSTEM.NAME != "Linux":
        raise GraderError("The attacks and the walls are Linux's: run the audit there.")
    from grader.audit.auditor import audit as run_audit
    from grader.audit.catalogue import CATALOGUE, read_catalogue

    folder = catalogue or CATALOGUE
    with shared.usage_errors():
        read_catalogue(folder, names)

    findings = run_audit(folder, names, walls=not no_walls, bubblewrap=not no_bubblewrap)
    missed = show_findings(open_console(), findings)
    click.get_current_context().exit(ExitCode.BELOW if missed else ExitCode.FULL_MARKS)


@click.command(cls=Command)
@click.option(
    "--require-isolation",
    "level",
    metavar="LEVEL",
    type=click.Choice(shared.LEVELS),
    default="none",
    help="Exit with 1 below this level: " + ", ".join(shared.LEVELS) + ".",
)
def doctor(level: str) -> None:
    """Say which walls stand between student code and this machine.

    Each wall is raised for a trial, around nothing. For one that does not stand you read why, and
    what to do about it. `grade run --require-isolation LEVEL` refuses to judge behind less.

    \b
    Example:
      grade doctor
    """
    walls = survey()
    standing = [wall.name for wall in walls if wall.stands]
    show_walls(open_console(), walls, reached(standing))
    lacking = missing(Level(level), standing)
    click.get_current_context().exit(ExitCode.BELOW if lacking else ExitCode.FULL_MARKS)
