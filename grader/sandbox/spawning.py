"""Sandboxes that are Python processes of their own, from outside: start one, wait until it calls back."""

from __future__ import annotations

import contextlib
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
from grader.sandbox.spawned import SpawnedStart
from grader.sandbox.surroundings import remove_tree, sandbox_environment
from grader.sandbox.walls.confinement import SYSTEM
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import Channel


class SpawnedSandboxes:
    """Sandboxes that are Python processes of their own, where nothing can be forked."""

    def __init__(self, walls: bool) -> None:
        self._walls = walls
        self._processes: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        server = socket.create_server(("127.0.0.1", 0))
        token = secrets.token_bytes(16)
        number = self._start(server.getsockname()[1], token, modules, limits)

        def wait() -> Sandbox:
            with server:
                try:
                    channel, output = _accept(server, token), _accept(server, token)
                except TimeoutError as error:
                    self.stop(number)
                    raise SandboxError("A sandbox did not start: it never called back.") from error
            sandbox = Sandbox(self, number, Channel(channel), output)
            sandbox.await_ready()
            return sandbox

        return wait

    def _start(self, port: int, token: bytes, modules: Sequence[str], limits: Limits) -> int:
        # Made and removed here: a sandbox that is killed removes nothing.
        scratch = Path(tempfile.mkdtemp(prefix="grade-"))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grader.sandbox.spawned"],
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
        # No such signal on Windows; elsewhere the process started here may be one around the sandbox.
        return False

    def stop(self, number: int) -> int:
        process, scratch = self._processes.pop(number)
        SYSTEM.end_group(number)
        process.kill()
        status = process.wait()
        remove_tree(scratch)
        return status


def _accept(server: socket.socket, token: bytes) -> socket.socket:
    """The next connection that knows the token; others on this machine may try the port too."""
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
