"""On systems without fork, a sandbox is a new process, which connects back and judges the same."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import Course
from grader.errors import SandboxError
from grader.judge.assignment import GradingOptions
from grader.judge.process import judge_source, judges
from grader.results import Outcome, Visibility
from grader.sandbox import spawning
from grader.sandbox.walls.wall import Limits


def test_a_stranger_on_the_port_is_rejected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        stranger = socket.create_connection(server.getsockname())
        stranger.sendall(b"not the token...")
        ours = socket.create_connection(server.getsockname())
        ours.sendall(b"0123456789abcdef")
        with spawning._accept(server, b"0123456789abcdef") as accepted:
            assert accepted.getpeername() == ours.getsockname()
        stranger.close()
        ours.close()


def test_a_process_that_does_not_start_is_a_fault_of_the_grader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spawning, "START_SECONDS", 0.5)
    monkeypatch.setattr(sys, "executable", "/bin/true")
    with pytest.raises(SandboxError, match="did not start"):
        spawning.SpawnedSandboxes(walls=False).begin((), Limits())()


@pytest.mark.parametrize("walls", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_a_spawned_sandbox_judges_the_same(
    tmp_path: Path, write_course: Callable[..., Course], walls: bool
) -> None:
    suite = '''
def test_gradient(student):
    """A gradient"""
    x = torch.ones(2, requires_grad=True)
    student.function("twice")(x).sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))

def test_end(student):
    """An end"""
    student.function("end")()
'''
    source = (
        "import os\nprint('hello')\ndef twice(x):\n    return 2 * x\ndef end():\n    os._exit(1)\n"
    )
    course = write_course(tmp_path, suite)
    with judges(fork=False, walls=walls) as (judge,):
        judged = judge_source(
            judge,
            course,
            course.exercises[0],
            source.encode(),
            GradingOptions(suites=(Visibility.HIDDEN,)),
        )
    first, second = judged.result.tests
    assert (first.outcome, second.outcome) == (Outcome.PASSED, Outcome.ERROR), first.message
    assert judged.result.output == "hello\n"
    assert bool(judged.walls) == walls
