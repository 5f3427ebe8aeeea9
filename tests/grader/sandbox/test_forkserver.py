"""What becomes of sandboxes that a judge is done with, with a real fork server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from grader.sandbox.client import Sandbox
from grader.sandbox.forking import CAN_FORK, ForkServerProcess, ForkServerSandboxes
from grader.sandbox.walls.wall import Limits

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="nothing can be forked here")


@pytest.fixture
def server() -> Iterator[ForkServerProcess]:
    """A fork server without walls: its sandboxes are seen from here."""
    server = ForkServerProcess(1, walls=False)
    yield server
    server.close()


def start(server: ForkServerProcess) -> Sandbox:
    return ForkServerSandboxes(server.controls[0]).begin([], Limits())()


def process_of(sandbox: Sandbox) -> psutil.Process:
    return psutil.Process(sandbox._number)


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_killed_sandbox_ends_and_its_folder_goes(server: ForkServerProcess) -> None:
    sandbox = start(server)
    process = process_of(sandbox)
    folder = Path(process.cwd())
    sandbox.kill()
    # The fork server reaps it and removes its folder, though it is asked for nothing more.
    wait_for(lambda: not process.is_running() and not folder.exists())


def test_after_kills_the_next_sandbox_starts(server: ForkServerProcess) -> None:
    for _ in range(5):
        start(server).kill()
    sandbox = start(server)
    process = process_of(sandbox)
    assert not has_ended(process)
    sandbox.stop()
    assert not process.is_running()


def test_a_fork_server_that_ends_leaves_nothing(server: ForkServerProcess) -> None:
    sandboxes = [start(server) for _ in range(3)]
    processes = [process_of(sandbox) for sandbox in sandboxes]
    folder = Path(processes[0].cwd()).parent
    for sandbox in sandboxes:
        sandbox.kill()
    server.close()
    wait_for(lambda: all(map(has_ended, processes)) and not folder.exists())
