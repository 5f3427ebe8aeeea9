"""`grade watch`: an answer to every save."""

from __future__ import annotations

import contextlib
import signal
import sys
from typing import TYPE_CHECKING

import click

from grader.cli import options as shared
from grader.cli.border import Command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from grader.cli.watch.loop import Submit, WatchLoop
    from grader.cli.watch.screen import Face
    from grader.course.manifest import Course, Exercise
    from grader.results import ExerciseResult


def _keys() -> tuple[str, list[tuple[str, str]]]:
    from grader.cli.watch.loop import KEYS

    return "Keys", [(letter, key.help) for letter, key in KEYS.items()]


@click.command(cls=Command, listing=_keys)
@click.argument("exercise", required=False)
@click.option(
    "--poll",
    is_flag=True,
    help="Look at the files all the time, for systems that do not report saves.",
)
@click.option(
    "--errors",
    "as_errors",
    is_flag=True,
    help="For an editor: print problems as `grade run --errors` does, between a line that begins with "
    "`grade: judging` and one with `grade: judged`; no keys.",
)
@click.option(
    "--submit",
    "submits",
    is_flag=True,
    help="Let the key s hand in to your course's server, and show its verdict of all tests.",
)
@shared.course_option
def watch(
    exercise: str | None, poll: bool, as_errors: bool, submits: bool, course_path: Path
) -> None:
    """Answer every save with the result of the exercise that you saved.

    Begins with the exercise that you name, or with the first one that is not done, and stays
    there until you save another one or press n.

    Network drives and the like do not report saves: there, an answer takes up to half a second longer,
    unless you use --poll.

    \b
    Examples:
      grade watch            begin with the first that is not done
      grade watch gelu       begin with this one
      grade watch --submit   see the server's verdict here, after `grade login`
      grade watch --errors   for a task that an editor runs in the background
    """
    if submits and as_errors:
        raise click.UsageError("--submit needs a key, and --errors has no keys.")
    course = shared.open_course(course_path)
    first = shared.known_exercises(course, [exercise])[0] if exercise is not None else None
    workspace = shared.open_workspace(course)
    first = first or workspace.first_open() or course.exercises[0]
    submit = _submitter() if submits else None

    from grader.cli.terminal.console import open_console
    from grader.cli.terminal.errors import ErrorLines
    from grader.cli.watch.inputs import Saves, has_keyboard, reading_keys
    from grader.cli.watch.loop import KEYS, WatchLoop
    from grader.cli.watch.screen import Screen
    from grader.student.next_step import Asked, Guide

    has_keys = not as_errors and sys.stdout.isatty() and has_keyboard()
    if submits and not has_keys:
        raise click.UsageError("--submit needs a key, which needs a terminal: use `grade submit`.")
    options = shared.repeated("course_path")
    guide = Guide(
        course,
        course.folder,
        options,
        options,
        Asked.WATCHING if has_keys else Asked.WATCHING_WITHOUT_KEYS,
        submit_key="s" if submits else "",
    )
    with contextlib.ExitStack() as stack:
        face: Face = ErrorLines(workspace, guide)
        if not as_errors:
            offered = {k: key.word for k, key in KEYS.items() if submits or not key.needs_server}
            console = open_console(sys.stdout)
            face = screen = Screen(console, workspace, guide, offered if has_keys else {})
            stack.callback(screen.close)
        loop = WatchLoop(workspace, face, _plotter(course), submit)
        stack.enter_context(_ended_by_signals(loop, has_keys=has_keys))
        if has_keys:
            stack.enter_context(reading_keys(loop.later(loop.press)))
        saves = Saves(course, loop.later(loop.save), loop.later(loop.crashed), poll=poll)
        stack.callback(saves.close)
        with contextlib.suppress(KeyboardInterrupt):
            loop.run(first)
    shared.tell_notices(workspace)


def _submitter() -> Submit:
    """Return a function that hands in a file to the server of `grade login`, and waits for its verdict."""
    from grader.cli.submit import signed_in_server
    from grader.results import Status
    from grader.student.client import ServerError, hand_in, wait_for

    server = signed_in_server()

    def submit(exercise: Exercise, source: bytes, tell: Callable[[str], None]) -> ExerciseResult:
        def on_event(event: str, text: str) -> None:
            # Without drawing in place, each test would be a line.
            if event != "test":
                tell(text)

        handed = hand_in(server, {exercise.file: source})
        (judged,) = wait_for(server, handed, on_event).exercises
        if judged.status is Status.UNJUDGED:
            raise ServerError("The server could not judge it, which costs no points: try again.")
        return judged

    return submit


def _plotter(course: Course) -> Callable[[Exercise], str]:
    """Return a function that plots an exercise and returns the output of `grade plot`."""
    # Given only if the student gave it, since the advice of `grade plot` repeats its options.
    option = ["--course", str(course.folder)] if shared.was_given("course_path") else []

    def plot(exercise: Exercise) -> str:
        import subprocess

        command = [sys.executable, "-P", "-m", "grader.cli", "plot", exercise.id]
        done = subprocess.run(
            [*command, *option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")

    return plot


@contextlib.contextmanager
def _ended_by_signals(loop: WatchLoop, *, has_keys: bool) -> Iterator[None]:
    """Let a signal end the loop in order, with the terminal restored.

    The screen is drawn anew after a change of its size, and after Ctrl-Z, when the shell wrote into it and may
    have changed the terminal's mode.
    """
    from grader.cli.watch.inputs import mute

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    def redraw() -> None:
        if has_keys:
            mute()
        loop.draw()

    def call(_: int, __: FrameType | None) -> None:
        loop.later(redraw)()

    handlers = ("SIGTERM", end), ("SIGHUP", end), ("SIGWINCH", call), ("SIGCONT", call)
    before = {
        name: signal.signal(getattr(signal, name), handler)
        for name, handler in handlers
        if hasattr(signal, name)
    }
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
