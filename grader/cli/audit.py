"""`grade audit`: the attack catalogue against this installation."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from grader.cli.border import Command, ExitCode
from grader.errors import CourseError, GraderError


@click.command(cls=Command)
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
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A folder of attacks of your own, and the course that they attack. By default the grader's.",
)
@click.option(
    "--no-bubblewrap", is_flag=True, help="Leave bubblewrap out: the inner walls stand alone."
)
@click.option(
    "--no-walls", is_flag=True, help="Leave all walls out, to see what they are there for."
)
def audit(
    names: tuple[str, ...], catalogue: Path | None, no_bubblewrap: bool, no_walls: bool
) -> None:
    """Attack this installation, and say what stopped each attack.

    Hostile submissions that forge, read, escape, hang, exhaust and pollute are graded as any other.
    They aim at canaries alone: files, processes and texts that the audit made. Exits with 1 if one
    of them succeeded. Takes a minute.

    \b
    Examples:
      grade audit                            the whole catalogue
      grade audit --attack process_memory    one attack
      grade audit --no-bubblewrap            the inner walls alone
    """
    from grader.sandbox.walls.confinement import SYSTEM

    if SYSTEM.NAME != "Linux":
        raise GraderError("The attacks and the walls are Linux's: run the audit there.")
    from grader.audit.auditor import audit as run_audit
    from grader.audit.catalogue import CATALOGUE, read_catalogue

    folder = catalogue or CATALOGUE
    try:
        read_catalogue(folder, names)
    except CourseError as error:
        raise click.UsageError(str(error), click.get_current_context()) from error
    from grader.cli.terminal.audit import show_findings
    from grader.cli.terminal.console import open_console

    findings = run_audit(folder, names, walls=not no_walls, bubblewrap=not no_bubblewrap)
    missed = show_findings(open_console(sys.stdout), findings)
    click.get_current_context().exit(ExitCode.BELOW if missed else ExitCode.FULL_MARKS)
