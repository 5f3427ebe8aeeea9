"""`grade login` and `grade submit`: hand in to a server, and see its verdict of all tests."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.cli import options as shared
from grader.cli.border import Command, tell
from grader.cli.run import exit_code, write_json
from grader.errors import SubmissionError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from grader.course.manifest import Course, Exercise
    from grader.student.client import Server, ServerAnswer
    from grader.student.workspace import Workspace


@click.command(cls=Command)
@click.argument("address")
def login(address: str) -> None:
    """Keep the token for the server of your course, for `grade submit` and staff's commands with `--server`.

    ADDRESS and the token are in your instructor's mail. The command asks for the token, or reads it from
    stdin if that is not a terminal, and keeps it in your configuration folder, where only you can read it.

    \b
    Example:
      grade login https://grade.example.org
    """
    from grader.student.client import (
        Server,
        checked_address,
        holder,
        is_unprotected,
        keep_server,
    )
    from grader.text import clean

    checked = checked_address(address)
    if is_unprotected(checked):
        click.echo(
            "grade: this address is not https, so others on the way can read the token.", err=True
        )
    if sys.stdin.isatty():
        token = click.prompt("Token", hide_input=True).strip()
    else:
        token = sys.stdin.readline().strip()
    if not token.isascii() or not token.isprintable() or not token:
        raise click.UsageError("This is not a token: copy all of it from the mail.")
    server = Server(checked, token)
    name, title = holder(server)
    keep_server(server)
    click.echo(f"Signed in as {clean(name)}: {clean(title)}.")


@click.command(cls=Command)
@shared.exercises_argument
@click.option("--all", "everything", is_flag=True, help="Hand in every exercise of the course.")
@shared.course_option
@click.option(
    "--server",
    "address",
    metavar="ADDRESS",
    help="Use this server instead of the one of `grade login`; a GitHub workflow needs no token for it.",
)
@shared.json_option
@shared.fail_under_option
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
    """Hand in the exercises that you name, or all that you changed since the last time.

    Shows your place in the queue and then the verdict, as `grade run` does, but of all tests: the server
    also has the hidden ones. The course decides how much of them you read.

    Exits with 0 for full marks, 1 for less, 2 if there is nothing to hand in or the server refuses it, and 3 if
    the server cannot be reached, did not judge, or asks you to try again later. Then nothing is lost.

    \b
    Examples:
      grade submit                    everything that changed
      grade submit glu                one exercise
      grade submit --all              the whole course
      grade submit --status           the verdict on the last one, and the points of the others
      grade submit --json result.json the result for a program
    """
    if sum((bool(exercises), everything, status)) > 1:
        raise click.UsageError("Give only one of exercises, --all and --status.")
    course = shared.open_course(course_path)
    chosen = shared.known_exercises(course, exercises) if exercises or everything else ()
    workspace = shared.open_workspace(course)
    from grader.student import client as remote
    from grader.student.progress import digest_of

    server = signed_in_server(address)
    own: dict[str, Any] = {}
    if status:
        own = remote.standing(server)
        handed, digests = _newest(server, own)
    else:
        files = _files(workspace, server, chosen)
        sources = {exercise.file: source for exercise, source in files}
        handed = remote.hand_in(server, sources, lambda said: tell(f"grade: {said}"))
        digests = {exercise.id: digest_of(source) for exercise, source in files}
        for name, about in handed.about.items():
            tell(f"grade: {name}: {about}.")
        for problem in handed.problems.values():
            tell(f"grade: {problem}")
    with _status_line() as show:
        result = remote.wait_for(server, handed, show)
    workspace.record_served(result, digests)
    shared.tell_notices(workspace)
    if json_file is not None:
        write_json(json_file, result)
    here = {exercise.id for exercise in course.exercises}
    if elsewhere := [exercise.name for exercise in result.exercises if exercise.name not in here]:
        tell(f"grade: Handed in from elsewhere, but not in this folder: {', '.join(elsewhere)}.")
    if earlier := _earlier(own, {exercise.name for exercise in result.exercises}):
        tell(f"grade: Handed in earlier: {', '.join(earlier)}. Your page has these verdicts.")
    if json_file != shared.STDOUT and len(elsewhere) < len(result.exercises):
        import msgspec

        from grader.cli.terminal.console import open_console
        from grader.cli.terminal.result import show_result
        from grader.student.next_step import Guide

        options = shared.repeated("course_path")
        standings = workspace.standings()
        guide = Guide(
            course, course.folder, options, options, standings=standings, by_all_tests=True
        )
        results_here = tuple(exercise for exercise in result.exercises if exercise.name in here)
        shown = msgspec.structs.replace(result, exercises=results_here)
        show_result(open_console(sys.stdout), shown, guide, verbose=verbose)
    click.get_current_context().exit(exit_code(result, fail_under))


def signed_in_server(address: str | None = None) -> Server:
    """Return the server at an address, or the one of `grade login`; raises UsageError without a token."""
    from grader.student.client import checked_address, kept_server, server_of_workflow

    signed_in = kept_server()
    if address is None:
        if signed_in is None:
            raise UsageError("Sign in first: grade login ADDRESS.")
        return signed_in
    checked = checked_address(address)
    if signed_in is not None and signed_in.address == checked:
        return signed_in
    if (server := server_of_workflow(checked)) is None:
        raise UsageError(f"Sign in there first: grade login {checked}.")
    return server


def _files(
    workspace: Workspace, server: Server, chosen: Sequence[Exercise]
) -> list[tuple[Exercise, bytes]]:
    """Return the files to hand in: the named ones, or all that the server does not have."""
    if not chosen:
        chosen, left_out = _changed(workspace, server)
        if not chosen:
            nothing = "Nothing else changed" if left_out else "Nothing changed"
            raise UsageError(
                " ".join((*left_out, f"{nothing}: name an exercise to hand it in anyway."))
            )
        for sentence in left_out:
            tell(f"grade: {sentence}")
    files = []
    for exercise in chosen:
        file = workspace.handed(exercise)
        if file.source is None:
            raise SubmissionError(file.problem or f"{exercise.file} is missing.")
        files.append((exercise, file.source))
    names = ", ".join(exercise.id for exercise in chosen)
    tell(f"grade: Handing in {names} for {workspace.course.title}.")
    return files


def _changed(workspace: Workspace, server: Server) -> tuple[list[Exercise], list[str]]:
    """Return the exercises that were begun and whose file the server does not have.

    Sentences name the begun exercises that the server does not accept yet.
    """
    from grader.student.client import standing
    from grader.student.progress import digest_of

    course, own = workspace.course, standing(server)
    there = {exercise["name"]: exercise["file"] for exercise in own["exercises"]}
    changed, absent = [], []
    for exercise in course.exercises:
        file = workspace.handed(exercise)
        if not file.state(course.stub(exercise)).is_work:
            continue
        if exercise.id not in there:
            absent.append(exercise.id)
        elif there[exercise.id] != digest_of(file.source):
            changed.append(exercise)
    return changed, _left_out(course, own, absent)


def _left_out(course: Course, own: dict[str, Any], absent: Sequence[str]) -> list[str]:
    """Say which exercises the server does not have, and when it opens their assignments."""
    from grader.text import clean

    upcoming = {a["id"]: a for a in own.get("assignments", ()) if a["state"] == "upcoming"}
    by_assignment: dict[str, list[str]] = {}
    for name in absent:
        given = course.assignment_of.get(name)
        by_assignment.setdefault("" if given is None else given.id, []).append(name)
    sentences, unknown = [], list[str]()
    for id_, names in by_assignment.items():
        if (later := upcoming.get(id_)) is None:
            unknown += names
            continue
        when = _moment(later["opens"], own.get("timezone", ""))
        sentences.append(
            clean(f"Not handed in: {', '.join(names)}. {later['title']} opens at {when}.", 1000)
        )
    if unknown:
        why = f"`grade submit {unknown[0]}` asks why"
        sentences.append(f"The server does not accept {', '.join(unknown)} now: {why}.")
    return sentences


def _moment(time: str, timezone: str) -> str:
    """Return a time of the server in the time zone of the class, UTC if it has none that is known here."""
    import datetime
    import zoneinfo

    zone: datetime.tzinfo = datetime.UTC
    with contextlib.suppress(zoneinfo.ZoneInfoNotFoundError, ValueError):
        zone = zoneinfo.ZoneInfo(timezone) if timezone else zone
    return f"{datetime.datetime.fromisoformat(time).astimezone(zone):%Y-%m-%d %H:%M %Z}"


def _newest(server: Server, own: dict[str, Any]) -> tuple[ServerAnswer, dict[str, str]]:
    """Return the newest submission, and for each exercise the SHA-256 of the newest file on the server."""
    from grader.student.client import submission

    if not own["submissions"]:
        raise UsageError("You have handed in nothing yet.")
    digests = {exercise["name"]: exercise["file"] for exercise in own["exercises"]}
    return submission(server, own["submissions"][0]["id"]), digests


def _earlier(own: dict[str, Any], shown: Collection[str]) -> list[str]:
    """Return the other exercises of a standing with a file on the server, each with its points."""
    from grader.text import number

    def points(exercise: dict[str, Any]) -> str:
        if exercise["open"] or exercise["status"] == "unjudged":
            return "not judged yet"
        return f"{number(exercise['score'])} / {number(exercise['max_score'])}"

    handed = (e for e in own.get("exercises", ()) if e["file"] and e["name"] not in shown)
    return [f"{exercise['name']} {points(exercise)}" for exercise in handed]


@contextlib.contextmanager
def _status_line() -> Iterator[Callable[[str, str], None]]:
    """Show the state of a submission on stderr; on a terminal test by test, in a line that is erased."""
    in_place, last = sys.stderr.isatty(), ""

    def tell(event: str, text: str) -> None:
        nonlocal last
        if text == last or (event == "test" and not in_place):
            return
        last = text
        click.echo(f"\r\x1b[K{text}" if in_place else text, err=True, nl=not in_place)

    try:
        yield tell
    finally:
        if in_place:
            click.echo("\r\x1b[K", err=True, nl=False)
