"""Sandboxes that are separate Python processes, for systems that cannot fork.

The judge's side starts a process and waits until it calls back. Inside it, `main` calls the judge.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from grader.errors import SandboxError
from grader.sandbox.client import START_SECONDS, Sandbox
from grader.sandbox.inside.warmup import warm_up
from grader.sandbox.inside.worker import serve
from grader.sandbox.private import keep_builtins, note_modules
from grader.sandbox.surroundings import (
    pretend_modes,
    remove_tree,
    sandbox_environment,
    use_scratch,
)
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.confinement import SYSTEM, confine, prepare
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import Channel, ChannelClosed
from grader.sandbox.wire.messages import Ready
from grader.sandbox.wire.packing import Packing

keep_builtins(globals())


class SpawnedStart(msgspec.Struct, frozen=True):
    """The settings that such a process reads from its standard input; it calls `port` and sends `token`."""

    port: int
    token: bytes
    modules: tuple[str, ...]
    limits: Limits
    walls: bool
    scratch: str


class SpawnedSandboxes:
    """Sandboxes that are separate Python processes, for systems that cannot fork."""

    def __init__(self, walls: bool) -> None:
        self._walls = walls
        self._processes: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Start a process, see `SandboxSource`; it calls back for the channel, the output and the reports."""
        server = socket.create_server(("127.0.0.1", 0))
        token = secrets.token_bytes(16)
        number = self._start(server.getsockname()[1], token, modules, limits)

        def wait() -> Sandbox:
            with server:
                try:
                    channel, output, reports = (_accept(server, token) for _ in range(3))
                except TimeoutError as error:
                    self.stop(number)
                    raise SandboxError("A sandbox did not start: it never called back.") from error
            sandbox = Sandbox(self, number, Channel(channel), output, reports)
            sandbox.await_ready()
            return sandbox

        return wait

    def _start(self, port: int, token: bytes, modules: Sequence[str], limits: Limits) -> int:
        """Start the process and send its settings; return its number."""
        # Made and removed here, since a sandbox that is killed cannot remove it.
        scratch = Path(tempfile.mkdtemp(prefix="grade-"))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grader.sandbox.spawning"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=sandbox_environment(),
            start_new_session=True,
        )
        assert process.stdin is not None
        start = SpawnedStart(port, token, tuple(modules), limits, self._walls, str(scratch))
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(msgspec.json.encode(start))
        self._processes[process.pid] = process, scratch
        return process.pid

    def show_stack(self, number: int) -> bool:  # noqa: ARG002
        # Windows lacks the signal; elsewhere, the process started here may be the sandbox's parent.
        return False

    def stop(self, number: int) -> int:
        process, scratch = self._processes.pop(number)
        SYSTEM.end_group(number)
        process.kill()
        status = process.wait()
        remove_tree(scratch)
        return status

    def kill(self, number: int) -> None:
        self.stop(number)


def _accept(server: socket.socket, token: bytes) -> socket.socket:
    """Return the next connection that sends the token; other programs may connect to the port, too."""
    end = time.monotonic() + START_SECONDS
    while (remaining := end - time.monotonic()) > 0:
        server.settimeout(remaining)
        connection, _ = server.accept()
        connection.settimeout(remaining)
        with contextlib.suppress(OSError):
            if secrets.compare_digest(connection.recv(len(token), socket.MSG_WAITALL), token):
                return connection
        connection.close()
    raise TimeoutError


# --- inside the process ---------------------------------------------------------------------------


def _call(start: SpawnedStart) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", start.port))
    connection.sendall(start.token)
    return connection


def main() -> None:
    """Call the judge back, import, confine, serve."""
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=SpawnedStart)
    channel, output, reports = (_call(start) for _ in range(3))
    reports.shutdown(socket.SHUT_RD)
    SYSTEM.print_to(output)
    sys.dont_write_bytecode = True
    scratch = Path(start.scratch)
    os.chdir(scratch)
    use_scratch(scratch)
    pretend_modes(scratch)
    for module in start.modules:
        warm_up(module)
    walls: list[str] = []
    if start.walls:
        plan = prepare(python_environment())
        walls = confine(plan, start.limits, scratch)
    note_modules()
    connection = Channel(channel)
    connection.send(Ready(tuple(walls)), Packing(), timeout=None)
    with contextlib.suppress(ChannelClosed):
        serve(connection, reports, scratch)


if __name__ == "__main__":
    main()
