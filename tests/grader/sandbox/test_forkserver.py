"""The loop of the fork server without forks, and a real fork server that cleans up its sandboxes."""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest

from grader.sandbox import forkserver
from grader.sandbox.client import Sandbox
from grader.sandbox.forking import CAN_FORK, ForkServerProcess, ForkServerSandboxes
from grader.sandbox.forkserver import ForkServer
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.messages import (
    Answer,
    Demand,
    Failed,
    Kill,
    Killed,
    SandboxEnded,
    Spawn,
    Spawned,
    Start,
    Stop,
)

pytestmark = pytest.mark.skipif(not CAN_FORK, reason="needs fork")


# --- the loop ---------------------------------------------------------------------------------------


class Loop:
    """A fork server in this process, whose forks are only numbers, and its connections to judges."""

    def __init__(self, scratch: Path, monkeypatch: pytest.MonkeyPatch, preload: str = "") -> None:
        pairs = [socket.socketpair() for _ in range(2)]
        self.judges, controls = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
        start = Start((), tuple(preload), False, ())
        self.scratch, self.server = scratch, ForkServer(controls, scratch, None, start)
        self.loaded: list[str] = []
        self.killed: list[tuple[str, int]] = []
        self.events: list[str] = []
        # The status of each process that has ended. The others still run.
        self.statuses: dict[int, int] = {}
        self._next = 100
        changes = {
            "warm_up": self.load,
            "note_modules": lambda: None,
            "collapse": lambda: self.events.append("collapse"),
            "gc": SimpleNamespace(
                collect=lambda: None, freeze=lambda: self.events.append("freeze")
            ),
        }
        for name, change in changes.items():
            monkeypatch.setattr(forkserver, name, change)
        monkeypatch.setattr(os, "fork", self.fork)
        monkeypatch.setattr(os, "waitpid", self.reaped)
        for kill in ("kill", "killpg"):
            monkeypatch.setattr(
                os, kill, lambda pid, number, kill=kill: self.killed.append((kill, pid))
            )

    def load(self, module: str) -> None:
        self.loaded.append(module)

    def fork(self) -> int:
        self._next += 1
        return self._next

    def reaped(self, pid: int, options: int) -> tuple[int, int]:
        return (pid, self.statuses[pid]) if pid in self.statuses or not options else (0, 0)

    def ask(self, demand: Demand, judge: int = 0) -> Answer:
        """Send one demand of a judge and return the answer."""
        ends = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
        message = msgspec.msgpack.encode(demand)
        socket.send_fds(self.judges[judge], [message], ends if isinstance(demand, Spawn) else [])
        for end in ends:
            os.close(end)
        self.server._receive(self.server._controls[judge])
        answer: Answer = msgspec.msgpack.decode(self.judges[judge].recv(1000), type=Answer)
        return answer

    def spawn(self, *modules: str, judge: int = 0) -> int:
        answer = self.ask(Spawn(modules, Limits()), judge)
        assert isinstance(answer, Spawned)
        return answer.sandbox

    def hang_up(self) -> None:
        for judge in self.judges:
            judge.close()

    @property
    def folders(self) -> int:
        return len(list(self.scratch.iterdir()))


@pytest.fixture
def loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loop]:
    loop = Loop(tmp_path, monkeypatch, preload="abc")
    yield loop
    loop.hang_up()
    for control in loop.server._controls:
        control.close()


def test_a_demand_waits_for_one_import_at_most(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(module: str) -> None:
        loop.load(module)
        if module == "b":
            loop.hang_up()

    monkeypatch.setattr(forkserver, "warm_up", load)
    loop.server.run()
    assert loop.loaded == ["a", "b"], "it imports nothing after the judges have hung up"


def test_the_modules_of_a_demand_come_first_and_each_is_imported_once(loop: Loop) -> None:
    loop.spawn("c", "x")
    loop.spawn("x", judge=1)
    assert loop.loaded == ["c", "x"]
    # Imported modules are frozen to share them with the forks. Without a new module, nothing is frozen.
    assert loop.events == ["freeze"]
    loop.spawn("y")
    assert loop.events == ["freeze", "freeze"]


@pytest.mark.parametrize("is_full", [True, False])
def test_a_failed_fork_leaves_nothing_and_gives_a_reason(
    is_full: bool, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> int:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    if is_full:
        monkeypatch.setattr(os, "fork", refused)
    received: list[int] = []
    spawn = loop.server._spawn

    def spawned(demand: Spawn, control: socket.socket, descriptors: list[int]) -> Spawned | Failed:
        received.extend(descriptors)
        return spawn(demand, control, descriptors)

    monkeypatch.setattr(loop.server, "_spawn", spawned)
    answer = loop.ask(Spawn((), Limits()))
    if is_full:
        assert isinstance(answer, Failed)
        assert answer.reason == (
            "no further process can be started (Resource temporarily unavailable)"
        )
    assert (loop.folders, len(loop.server._sandboxes)) == ((0, 0) if is_full else (1, 1))
    assert len(received) == 3
    for descriptor in received:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


def test_stopping_a_sandbox_kills_it_and_returns_its_status(loop: Loop) -> None:
    first, second = loop.spawn(), loop.spawn()
    loop.statuses = {first: 3 << 8, second: int(signal.SIGKILL)}
    assert loop.ask(Stop(first)) == SandboxEnded(3)
    # The group with its descendants is killed first, while its number is still in use.
    assert loop.killed == [("killpg", first), ("kill", first)]
    assert loop.ask(Stop(second)) == SandboxEnded(-9)
    assert loop.folders == 0


def test_no_judge_waits_for_a_killed_sandbox_to_end(loop: Loop) -> None:
    first, second = loop.spawn(), loop.spawn()
    assert [loop.ask(Kill(each)) for each in (first, second)] == [Killed(), Killed()]
    loop.statuses = {second: 9}
    loop.server._reap(os.WNOHANG)
    assert set(loop.server._ending) == {first} and loop.folders == 1
    loop.statuses = {first: 9}
    loop.server._reap()
    assert not loop.server._ending and loop.folders == 0


def test_a_judge_that_hangs_up_ends_only_its_own_sandboxes(loop: Loop) -> None:
    mine, others = loop.spawn(), loop.spawn(judge=1)
    control = loop.server._controls[0]
    loop.judges[0].close()
    loop.server._receive(control)
    assert {pid for _, pid in loop.killed} == {mine}
    assert set(loop.server._sandboxes) == {others} and control not in loop.server._controls


@pytest.mark.parametrize(("forks", "collapsed"), [(9, 0), (10, 1)])
def test_memory_is_collapsed_once_after_ten_forks(
    forks: int, collapsed: int, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(forks):
        loop.spawn()
    loop.events.clear()
    looks: list[float | None] = []

    def select(controls: list[Any], *given: Any) -> tuple[list[Any], ...]:
        looks.append(given[-1])
        if len(looks) == 6:
            loop.hang_up()
        return (controls if len(looks) >= 6 else [], [], [])

    monkeypatch.setattr(forkserver, "select", SimpleNamespace(select=select))
    loop.statuses = dict.fromkeys(range(100, 120), 9)
    loop.server.run()
    assert loop.events == ["collapse"] * collapsed
    # After the three imports it waits for a judge without a limit.
    assert looks[:6] == [0] * (3 + collapsed) + [None] * (3 - collapsed)


# --- a real fork server -----------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[ForkServerProcess]:
    """Yield a fork server without walls, whose sandboxes are visible from here."""
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


def test_killed_sandboxes_end_with_their_folders_and_the_next_one_starts(
    server: ForkServerProcess,
) -> None:
    sandboxes = [start(server) for _ in range(3)]
    processes = [process_of(sandbox) for sandbox in sandboxes]
    folders = [Path(process.cwd()) for process in processes]
    for sandbox in sandboxes:
        sandbox.kill()
    # The fork server reaps them and removes their folders without another request.
    wait_for(lambda: not any(process.is_running() for process in processes))
    wait_for(lambda: not any(folder.exists() for folder in folders))
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
