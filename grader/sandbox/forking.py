"""The fork server from outside: the grader starts it once, and each judge requests sandboxes from it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence

import msgspec

from grader.errors import SandboxError
from grader.sandbox.client import Sandbox
from grader.sandbox.surroundings import sandbox_environment
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.confinement import SYSTEM
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import Channel
from grader.sandbox.wire.messages import (
    MAX_DEMAND,
    Answer,
    Demand,
    Failed,
    Kill,
    Killed,
    SandboxEnded,
    ShowStack,
    Spawn,
    Spawned,
    StackAsked,
    Start,
    Stop,
)

CAN_FORK = hasattr(os, "fork") and hasattr(socket, "recv_fds")

# Limits for all processes of a judge's sandbox, and once more for the fork server, if a control group can be
# made. They are generous, since they only protect the machine; students meet the limits of a process.
_MEMORY_BYTES = 4 * 2**30
_PROCESSES = 1024

_GONE = (
    "The fork server, which starts the sandboxes, has ended; its last output is above. "
    "Try again. If it happens again, run `grade doctor`."
)
_decode_answer = msgspec.msgpack.Decoder(Answer).decode


class ForkServerProcess:
    """The fork server of this grader, started once and shared by all of its judges.

    `controls` are the judges' ends of the connections, one for each judge. The fork server ends when the last
    of them is closed.
    """

    def __init__(
        self, judges: int, *, walls: bool, bubblewrap: bool = True, preload: Sequence[str] = ()
    ) -> None:
        pairs = [socket.socketpair() for _ in range(judges)]
        self.controls = [ours for ours, _ in pairs]
        theirs = [end.fileno() for _, end in pairs]
        environment = sandbox_environment()
        self._stack = contextlib.ExitStack()
        group = None
        if walls:
            bounds = SYSTEM.control_group(_MEMORY_BYTES * (judges + 1), _PROCESSES * judges)
            group = self._stack.enter_context(bounds)
        around = ("control_group",) if group is not None else ()
        command = _command(tuple(theirs), tuple(preload), walls, around)
        if walls and bubblewrap:
            inside = _command(tuple(theirs), tuple(preload), walls, (*around, "bubblewrap"))
            readable = python_environment()
            wrapped = SYSTEM.bubblewrapped(inside, readable=readable, environment=environment)
            command = wrapped or command
        if group is not None:
            command = group.around(command)
        self._process = subprocess.Popen(
            command,
            pass_fds=theirs,
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        for _, end in pairs:
            end.close()

    def close(self) -> None:
        """Hang up and wait for its end."""
        for control in self.controls:
            control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._stack.close()


def _command(
    controls: tuple[int, ...], preload: tuple[str, ...], walls: bool, around: tuple[str, ...]
) -> list[str]:
    start = msgspec.json.encode(Start(controls, preload, walls, around)).decode()
    return [sys.executable, "-P", "-m", "grader.sandbox.forkserver", start]


class ForkServerSandboxes:
    """Sandboxes forked by the fork server at the other end of a control socket.

    Input from the `callers` (descriptors) calls off the sandboxes' requests.
    """

    def __init__(self, control: socket.socket, callers: tuple[int, ...] = ()) -> None:
        self._control, self._callers = control, callers

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Ask for a sandbox, see `SandboxSource`; its ends of the sockets travel with the demand."""
        channel, channel_there = socket.socketpair()
        output, output_there = socket.socketpair()
        reports, reports_there = socket.socketpair()
        # One way, so that a sandbox cannot take back a report.
        reports_there.shutdown(socket.SHUT_RD)
        reports_there.setblocking(False)
        with channel_there, output_there, reports_there:
            ends = [channel_there.fileno(), output_there.fileno(), reports_there.fileno()]
            self._send(Spawn(tuple(modules), limits), ends)

        def wait() -> Sandbox:
            match self._answer():
                case Spawned(number):
                    # Nothing arrives if the process has ended; `await_ready` then raises with its output.
                    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
                    schedule = descriptors[0] if descriptors else None
                    sandbox = Sandbox(self, number, Channel(channel), output, reports, schedule)
                    sandbox.await_ready()
                    # Only from now on: a sandbox that starts cannot be called off.
                    sandbox.callers = self._callers
                    return sandbox
                case Failed(reason):
                    raise SandboxError(f"A sandbox did not start: {reason}.")
                case answer:
                    raise SandboxError(f"The fork server answered {answer!r} to a spawn.")

        return wait

    def show_stack(self, number: int) -> bool:
        self._send(ShowStack(number), [])
        answer = self._answer()
        if not isinstance(answer, StackAsked):
            raise SandboxError(f"The fork server answered {answer!r} to a demand for a stack.")
        return True

    def stop(self, number: int) -> int:
        self._send(Stop(number), [])
        answer = self._answer()
        if not isinstance(answer, SandboxEnded):
            raise SandboxError(f"The fork server answered {answer!r} to a stop.")
        return answer.status

    def kill(self, number: int) -> None:
        self._send(Kill(number), [])
        answer = self._answer()
        if not isinstance(answer, Killed):
            raise SandboxError(f"The fork server answered {answer!r} to a kill.")

    def _answer(self) -> Answer:
        """Return the next answer of the fork server; raises SandboxError if it has ended."""
        # Without a time limit: a fork waits for its modules, and the disk may be slow. If the fork server
        # dies, its socket closes.
        try:
            data = self._control.recv(MAX_DEMAND)
        except ConnectionError:
            data = b""
        if not data:
            raise SandboxError(_GONE)
        answer: Answer = _decode_answer(data)
        return answer

    def _send(self, demand: Demand, descriptors: list[int]) -> None:
        try:
            if descriptors:
                socket.send_fds(self._control, [msgspec.msgpack.encode(demand)], descriptors)
            else:
                self._control.sendall(msgspec.msgpack.encode(demand))
        except ConnectionError as error:
            raise SandboxError(_GONE) from error
