"""`grade watch` around its loop: handing in, plots and signals."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from grader.cli import main
from grader.cli import submit as submit_command
from grader.cli.watch.command import _ended_by_signals, _plotter, _submitter
from grader.cli.watch.loop import WatchLoop
from grader.course.manifest import load_course
from grader.results import ExerciseResult
from grader.student import client as remote
from grader.student.client import Server, ServerAnswer, ServerError
from tests.grader import builders
from tests.grader.command import invoke

HERE = Server("https://grade.example.org", "secret")
PLAIN = load_course(Path(__file__).parents[2] / "courses" / "plain")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--submit", "--errors"), "--submit needs a key, and --errors has no keys."),
        (("greting",), "There is no exercise 'greting'. Did you mean 'greeting'?"),
    ],
)
def test_invalid_arguments_are_refused(words: tuple[str, ...], told: str) -> None:
    done = invoke("watch", *words, cwd=PLAIN.root)
    assert (done.exit_code, told in done.stderr) == (2, True), done.stderr


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> Callable[[ExerciseResult], ExerciseResult]:
    """Hand in a file. The server answers with three events and this verdict."""

    def submit(verdict: ExerciseResult) -> ExerciseResult:
        def wait(server: Server, handed: ServerAnswer, on_event: Any) -> object:
            for event, text in (("state", "waiting"), ("test", "1 of 2"), ("state", "running")):
                on_event(event, text)
            return builders.result(verdict)

        def hand_in(server: Server, files: dict[str, bytes]) -> ServerAnswer:
            assert (server, files) == (HERE, {"text/greeting.py": b"x = 1\n"})
            return ServerAnswer("s1", "waiting", {})

        monkeypatch.setattr(submit_command, "signed_in_server", lambda: HERE)
        monkeypatch.setattr(remote, "hand_in", hand_in)
        monkeypatch.setattr(remote, "wait_for", wait)
        told: list[str] = []
        judged = _submitter()(PLAIN.exercise("greeting"), b"x = 1\n", told.append)
        assert told == ["waiting", "running"], "each test would be a line"
        return judged

    return submit


def test_the_verdict_of_the_server_is_shown(
    submitted: Callable[[ExerciseResult], ExerciseResult],
) -> None:
    verdict = builders.exercise(builders.checked())
    assert submitted(verdict) is verdict


def test_a_submission_that_could_not_be_judged_is_an_error(
    submitted: Callable[[ExerciseResult], ExerciseResult],
) -> None:
    with pytest.raises(ServerError, match="costs no points: try again"):
        submitted(builders.unjudged())


@pytest.mark.parametrize("course", [(), ("--course", str(PLAIN.root))])
def test_a_plot_repeats_the_course_only_if_it_was_named(
    monkeypatch: pytest.MonkeyPatch, course: tuple[str, ...]
) -> None:
    called: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        called.append(command)
        return subprocess.CompletedProcess(command, 1, b"No picture yet.\n\xff")

    monkeypatch.setattr(subprocess, "run", run)
    with main.load("watch").make_context("watch", [*course]):
        assert _plotter(PLAIN)(PLAIN.exercise("greeting")) == "No picture yet.\n�"
    option = ["--course", str(PLAIN.folder)] if course else []
    assert called == [[sys.executable, "-P", "-m", "grader.cli", "plot", "greeting", *option]]


class Loop:
    """A loop that makes later calls at once."""

    def __init__(self) -> None:
        self.drawn = 0

    def later(self, call: Callable[[], None]) -> Callable[[], None]:
        return call

    def draw(self) -> None:
        self.drawn += 1


@pytest.mark.skipif(not hasattr(signal, "SIGWINCH"), reason="this system has no such signals")
def test_signals_end_or_redraw_the_loop_and_are_restored() -> None:
    names = signal.SIGTERM, signal.SIGHUP, signal.SIGWINCH, signal.SIGCONT
    before, loop = [signal.getsignal(name) for name in names], Loop()
    with _ended_by_signals(cast("WatchLoop", loop), has_keys=False):
        signal.raise_signal(signal.SIGWINCH)
        signal.raise_signal(signal.SIGCONT)
        assert loop.drawn == 2
        for name in (signal.SIGTERM, signal.SIGHUP):
            with pytest.raises(SystemExit) as ended:
                signal.raise_signal(name)
            assert ended.value.code == 128 + name
    assert [signal.getsignal(name) for name in names] == before


def test_the_help_names_every_key() -> None:
    done = invoke("watch", "--help", cwd=PLAIN.root)
    assert "Keys:" in done.stdout and " q " in done.stdout
