"""`grade login` and `grade submit`: hand in to a server, and see the verdict of the hidden tests here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.cli.border import Command
from grader.cli.options import (
    course_option,
    exercises_argument,
    known_exercises,
    open_course,
    open_workspace,
    repeated,
)
from grader.cli.run import exit_code, writable, write_json
from grader.errors import SubmissionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from grader.course.manifest import Course, Exercise
    from grader.student.server import Server, ServerAnswer
    from grader.student.workspace import Workspace

_STDOUT = Path("-")


@click.command(cls=Command, short_help="Sign in at the server of your course.")
@click.argument("address")
def login(address: str) -> None:
    """Keep the token for the server of your course, for `grade submit`.

    ADDRESS and the token are in your instructor's mail. The token is asked for, or read from stdin
    where that is no terminal; it is kept in your configuration folder, where only you can read it.

    \b
    Example:
      grade login https://grade.example.org
    """
    from grader.student.server import (
        Server,
        checked_address,
        is_unprotected,
        keep_server,
        standing,
    )
    from grader.text import clean

    checked = checked_address(address)
    if is_unprotected(checked):
        click.echo(
            "grade: this address is not https: others on the way can read the token.", err=True
        )
    if sys.stdin.isatty():
        token = click.prompt("Token", hide_input=True).strip()
    else:
        token = sys.stdin.readline().strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise click.UsageError("That is no token: copy it whole from the mail.")
    server = Server(checked, token)
    found = standing(server)
    keep_server(server)
    name = clean(str(found["name"] or found["student"]))
    click.echo(f"Signed in as {name}: {clean(str(found['title']))}.")


@click.command(cls=Command, short_help="Hand in to the server of your course.")
@exercises_argument
@click.option("--all", "everything", is_flag=True, help="Hand in every exercise of the course.")
@course_option
@click.option(
    "--server",
    "address",
    metavar="ADDRESS",
    help="Another server than that of `grade login`; in a workflow of GitHub, which needs no token.",
)
@click.option(
    "--json",
    "json_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    callback=writable,
    help="Write the result as JSON too; '-' writes it to stdout, and nothing else.",
)
@click.option(
    "--fail-under",
    metavar="PERCENT",
    type=click.FloatRange(0, 100),
    default=100.0,
    help="Exit with 0 from this percentage of the points on; by default 100.",
)
@click.option(
    "--status", is_flag=True, help="Hand in nothing: show the newest verdict, or wait for it."
)
@click.option("-v", "--verbose", is_flag=True, help="Show every test.")
def submit(
    exercises: tuple[str, ...],
    everything: bool,
    course_path: Path,
    address: str | None,
    json_file: Path | None,
    fail_under: float,
    status: bool,
    verbose: bool,
) -> None:
    """Hand in the exercises that you name, or all that you changed since you handed them in.

    Shows the place in the queue and then the verdict, as `grade run` shows it, but of all tests:
    those that you cannot see are with the server. What it says of them, the course decides.

    Exits as `grade run` does: 0 for full marks, 1 below, 2 where there is nothing to hand in, 3 where the
    server cannot be reached or did not judge. Then nothing is lost.

    \b
    Examples:
      grade submit                    all that is new
      grade submit glu                one exercise
      grade submit --all              the whole course, as it is
      grade submit --status           what became of the last one
      grade submit --json result.json the result for a program
    """
    if sum((bool(exercises), everything, status)) > 1:
        raise click.UsageError("Name exercises, or give --all or --status, only one of these.")
    course = open_course(course_path)
    chosen = known_exercises(course, exercises) if exercises or everything else ()
    workspace = open_workspace(course)
    import secrets

    from grader.student import server as remote

    server = _server(address)
    if status:
        handed = _newest(server)
    else:
        handed = remote.hand_in(server, _files(workspace, server, chosen), secrets.token_hex(16))
        for problem in handed.problems.values():
            _tell(problem)
    handed = remote.wait_for(server, handed, _Progress().told)
    if (result := handed.result) is None:
        raise SubmissionError(
            "A newer file took the place of this one before it was judged: `grade submit --status`."
        )
    if json_file is not None:
        write_json(json_file, result)
    if json_file != _STDOUT:
        from grader.cli.terminal.console import open_console
        from grader.cli.terminal.result import show_result
        from grader.student.advice import Guide

        options = repeated("course_path")
        standings = workspace.standings()
        guide = Guide(
            course, course.folder, options, options, standings=standings, by_all_tests=True
        )
        show_result(open_console(sys.stdout), result, guide, verbose=verbose)
    click.get_current_context().exit(exit_code(result, fail_under))


def _server(address: str | None) -> Server:
    from grader.student.server import checked_address, kept_server, server_of_workflow

    kept = kept_server()
    if address is None:
        if kept is None:
            raise click.UsageError("Sign in first: grade login ADDRESS.")
        return kept
    checked = checked_address(address)
    if kept is not None and kept.address == checked:
        return kept
    server: Server | None = server_of_workflow(checked)
    if server is None:
        raise click.UsageError(f"Sign in there first: grade login {checked}.")
    return server


def _files(workspace: Workspace, server: Server, chosen: Sequence[Exercise]) -> dict[str, bytes]:
    """The files to hand in: those that were named, or all that the server does not have."""
    course = workspace.course
    if not chosen:
        chosen = _changed(workspace, server)
        if not chosen:
            raise click.UsageError(
                "There is nothing new: name an exercise to hand it in all the same."
            )
    files = {}
    for exercise in chosen:
        file = workspace.handed(exercise)
        if file.source is None:
            raise SubmissionError(file.problem or f"{exercise.file} is missing.")
        files[exercise.file] = file.source
    _tell(f"Handing in {', '.join(each.id for each in chosen)} for {course.title}.")
    return files


def _changed(workspace: Workspace, server: Server) -> list[Exercise]:
    import hashlib

    from grader.student.server import standing
    from grader.submissions import State

    course: Course = workspace.course
    there = {each["name"]: each["file"] for each in standing(server)["exercises"]}
    changed = []
    for exercise in course.exercises:
        file = workspace.handed(exercise)
        if file.source is None or exercise.id not in there:
            continue
        begun = file.state(course.stub(exercise)) in (State.EDITED, State.INVALID)
        if begun and there[exercise.id] != hashlib.sha256(file.source).hexdigest():
            changed.append(exercise)
    return changed


def _newest(server: Server) -> ServerAnswer:
    from grader.student.server import standing, submission

    handed = standing(server)["submissions"]
    if not handed:
        raise click.UsageError("You have handed in nothing yet.")
    return submission(server, handed[0]["id"])


class _Progress:
    """Says on stderr where each exercise is; in a terminal, test by test in one line."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._said = ""

    def told(self, name: str, data: dict[str, Any]) -> None:
        """Take in an event of the server."""
        if name == "state":
            for exercise, state in data["exercises"].items():
                place = state.get("place")
                self._states[exercise] = f"place {place} in the queue" if place else state["state"]
        elif name == "place":
            self._states[data["exercise"]] = f"place {data['place']} in the queue"
        elif name == "test" and sys.stderr.isatty():
            self._states[data["exercise"]] = f"{data['ended']} of {data['of']} tests"
        text = ", ".join(f"{exercise}: {state}" for exercise, state in self._states.items())
        if text == self._said:
            return
        self._said = text
        if sys.stderr.isatty():
            is_over = name == "state" and data["state"] not in ("waiting", "running")
            click.echo(f"\r\x1b[K{'' if is_over else text}", err=True, nl=False)
        else:
            click.echo(text, err=True)


def _tell(text: str) -> None:
    from grader.text import clean

    click.echo(f"grade: {clean(text, 1000)}", err=True)
