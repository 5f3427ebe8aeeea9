"""`grade audit`: attack this installation."""

from __future__ import annotations

import os
from pathlib import Path

import click

from grader.authoring.forgeries import forge as forged
from grader.authoring.forgeries import judge_forged
from grader.cli import options as shared
from grader.cli.border import Command
from grader.cli.terminal.console import open_console
from grader.cli.terminal.progress import ProgressBar
from grader.cli.terminal.proofs import show_findings, show_forged, show_forgeries
from grader.errors import ExitCode, GraderError
from grader.judge.assignment import Forgery
from grader.sandbox.walls.confinement import SYSTEM


@click.command(cls=Command)
@shared.exercises_argument
@shared.course_option
@click.option(
    "--forge",
    is_flag=True,
    help="Forge the replies of the course's sandboxes instead, and print the points earned.",
)
@click.option(
    "--attack",
    "names",
    metavar="NAME",
    multiple=True,
    help="Only this attack; may be repeated. By default all.",
)
@click.option(
    "--catalogue",
    metavar="PATH",
    type=shared.EXISTING_FOLDER,
    help="A folder of your own attacks, and the course that they attack. By default the grader's.",
)
@click.option("--no-bubblewrap", is_flag=True, help="Without bubblewrap: only the inner walls.")
@click.option("--no-walls", is_flag=True, help="Without any wall, to see their purpose.")
def audit(
    exercises: tuple[str, ...],
    course_path: Path,
    forge: bool,
    names: tuple[str, ...],
    catalogue: Path | None,
    no_bubblewrap: bool,
    no_walls: bool,
) -> None:
    """Attack this installation, and show the wall that stopped each attack.

    Grades hostile submissions that try to forge, read, escape, hang, exhaust and pollute. Their only
    targets are canaries: files, processes and texts made by the audit. Takes a minute. Exits with 1 if an
    attack succeeded.

    With --forge no attack runs. The exercises of a course are judged with forged replies instead of a
    submission's: the solution's answers under another seed or to the public tests only, a constant, the first
    argument, an error that names every argument. Then the submissions in the course's tests/forged, which earn
    points without doing the work, are judged. Prints the points of each forgery, and exits with 1 if one earns
    more than a tenth of an exercise's points and is not held.

    \b
    Examples:
      grade audit                            the whole catalogue
      grade audit --attack process_memory    one attack
      grade audit --no-bubblewrap            only the inner walls
      grade audit --forge                    forged replies in the course here
      grade audit --forge hooks memory       in two of its exercises
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
