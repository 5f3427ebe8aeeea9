"""The judge's side of the sandboxes: start the fork server, ask for sandboxes, talk to one.

Where a process can be forked (POSIX), sandboxes come from one warm fork server. Elsewhere, and
where the caller asks for it, each is a Python process of its own: slower to start, the same wire.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from grader.errors import SandboxError
from grader.sandbox import confinement
from grader.sandbox.cgroups import control_group
from grader.sandbox.forkserver import (
    MAX_MESSAGE,
    Answer,
    Demand,
    Failed,
    Spawn,
    Spawned,
    Start,
    Stop,
    Stopped,
)
from grader.sandbox.protocol import (
    Channel,
    ChannelClosed,
    Packing,
    ProtocolError,
    Ready,
    Reply,
    Request,
    Unpacking,
)
from grader.sandbox.removal import remove_tree
from grader.sandbox.spawned import SpawnedStart

__all__ = [
    "CAN_FORK",
    "ForkServerProcess",
    "ForkServerSandboxes",
    "Output",
    "Sandbox",
    "SandboxSource",
    "SpawnedSandboxes",
]

CAN_FORK = hasattr(os, "fork") and hasattr(socket, "recv_fds")
MAX_OUTPUT = 16_384
START_SECONDS = 120.0


class Output:
    """What student code printed, bounded: the first `MAX_OUTPUT` bytes are kept, the rest counted."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        room = MAX_OUTPUT - len(self._kept)
        self._kept += data[:room]
        self._dropped += max(0, len(data) - room)

    def text(self) -> str:
        """The text kept, and a last line that says if there was more."""
        text = self._kept.decode("utf-8", "replace")
        return f"{text}\n[... more was printed]" if self._dropped else text


class Sandbox:
    """A process with one student's module, reached over a channel."""

    def __init__(
        self, source: _Stoppable, number: int, channel: Channel, out: socket.socket
    ) -> None:
        self._source = source
        self._number = number
        self._channel = channel
        self._out = out
        self._out.setblocking(False)
        self.output = Output()
        self.walls: tuple[str, ...] = ()

    def await_ready(self) -> None:
        """Read the first frame, which the sandbox writes before it knows any student's code."""
        try:
            reply, _ = self._receive(time.monotonic() + START_SECONDS)
        except (ChannelClosed, ProtocolError, TimeoutError) as error:
            self.stop()
            said = self.output.text().strip().splitlines()[-1:] or ["it said nothing"]
            raise SandboxError(f"A sandbox did not start: {said[0]}") from error
        if not isinstance(reply, Ready):
            raise SandboxError("A sandbox did not start: its first word was not that it is ready.")
        self.walls = reply.walls

    def ask(self, request: Request, packing: Packing, seconds: float) -> tuple[Reply, Unpacking]:
        """Send a request and wait for its reply, `seconds` at most for both.

        Raises TimeoutError, ChannelClosed if the process ended, ProtocolError if what it said does
        not fit; after each of them the sandbox is of no more use and is to be stopped.
        """
        deadline = time.monotonic() + seconds
        self._channel.send(request, packing, timeout=seconds)
        return self._receive(deadline)

    def _receive(self, deadline: float) -> tuple[Reply, Unpacking]:
        try:
            return self._channel.receive_reply(deadline, self._wait)
        finally:
            self._drain()

    def _wait(self, seconds: float) -> None:
        """Wait for the channel, and keep the output from filling up meanwhile."""
        end = time.monotonic() + seconds
        channel, output = self._channel.fileno(), self._out.fileno()
        while True:
            ready, _, _ = select.select([channel, output], [], [], seconds)
            if output in ready and not self._drain():
                # Closed by the student: from now on only the channel can have something to say.
                select.select([channel], [], [], max(0.0, end - time.monotonic()))
                return
            seconds = end - time.monotonic()
            if channel in ready or seconds <= 0:
                return

    def _drain(self) -> bool:
        """Take what was printed, a bounded part of it at a time; False once nobody can print more."""
        for _ in range(64):
            try:
                data = self._out.recv(65_536)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                return False
            if not data:
                return False
            self.output.add(data)
        return True

    def stop(self) -> int:
        """Kill the process with all that it started; how it had ended, as `Popen.returncode` says."""
        self._channel.close()
        status = self._source.stop(self._number)
        self._drain()
        self._out.close()
        return status


class _Stoppable(Protocol):
    def stop(self, number: int) -> int: ...


class SandboxSource(_Stoppable, Protocol):
    """Where sandboxes come from."""

    def begin(self, modules: Sequence[str], limits: confinement.Limits) -> Callable[[], Sandbox]:
        """Begin to start a sandbox in which these modules are imported.

        What comes back waits for it, and is to be called before anything else is asked of this
        source; it raises SandboxError. Whoever has something else to do does it in between.
        """


class ForkServerSandboxes:
    """Sandboxes forked by the fork server at the other end of a control socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def begin(self, modules: Sequence[str], limits: confinement.Limits) -> Callable[[], Sandbox]:
        channel, channel_there = socket.socketpair()
        output, output_there = socket.socketpair()
        with channel_there, output_there:
            ends = [channel_there.fileno(), output_there.fileno()]
            self._send(Spawn(tuple(modules), limits), ends)

        def wait() -> Sandbox:
            match self._answer():
                case Spawned(number):
                    sandbox = Sandbox(self, number, Channel(channel), output)
                    sandbox.await_ready()
                    return sandbox
                case Failed(reason):
                    raise SandboxError(f"A sandbox did not start: {reason}.")
                case answer:
                    raise SandboxError(f"The fork server answered {answer!r} to a spawn.")

        return wait

    def stop(self, number: int) -> int:
        self._send(Stop(number), [])
        answer = self._answer()
        if not isinstance(answer, Stopped):
            raise SandboxError(f"The fork server answered {answer!r} to a stop.")
        return answer.status

    def _answer(self) -> Answer:
        # Without a limit: a fork waits for the modules that it needs, however slow the disk is.
        # A fork server that dies closes the socket.
        try:
            data = self._control.recv(MAX_MESSAGE)
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


_GONE = (
    "The fork server, which starts the sandboxes, is gone; what it printed last stands above. "
    "Try again, and see `grade doctor` if it happens again."
)
_decode_answer = msgspec.msgpack.Decoder(Answer).decode


# Of all processes of a judge's sandbox together, and of the fork server once, where a control group can be
# made. Generous: it is there to keep the machine alive, the limits of a process are what is told.
_MEMORY_BYTES = 4 * 2**30
_PROCESSES = 1024


class ForkServerProcess:
    """The fork server of this grader: started once, shared by all of its judges.

    `controls` are the judges' ends, one each; whoever holds the last one keeps it alive.
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
            bounds = control_group(_MEMORY_BYTES * (judges + 1), _PROCESSES * judges)
            group = self._stack.enter_context(bounds)
        around = ("control_group",) if group is not None else ()
        command = _command(tuple(theirs), tuple(preload), walls, around)
        if walls and bubblewrap:
            inside = _command(tuple(theirs), tuple(preload), walls, (*around, "bubblewrap"))
            readable = confinement.python_environment()
            wrapped = confinement.bubblewrap(inside, readable=readable, environment=environment)
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
        """Hang up and wait until it is gone."""
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


def sandbox_environment() -> dict[str, str]:
    """All that a sandbox finds in its environment: nothing of the caller's but where Python is."""
    environment = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # Judged on the CPU, the same everywhere; and a CUDA context does not survive a fork.
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",
        # Each arena of glibc's takes address space, which is limited.
        "MALLOC_ARENA_MAX": "2",
        # Read by macOS: the frameworks that torch links refuse to work after a fork without it.
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
    }
    # Windows starts no Python without this one.
    if "SYSTEMROOT" in os.environ:
        environment["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return environment


class SpawnedSandboxes:
    """Sandboxes that are Python processes of their own, where nothing can be forked."""

    def __init__(self, walls: bool) -> None:
        self._walls = walls
        self._processes: dict[int, tuple[subprocess.Popen[bytes], Path]] = {}

    def begin(self, modules: Sequence[str], limits: confinement.Limits) -> Callable[[], Sandbox]:
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

    def _start(
        self, port: int, token: bytes, modules: Sequence[str], limits: confinement.Limits
    ) -> int:
        # Made and removed here: a sandbox that is killed removes nothing.
        scratch = Path(tempfile.mkdtemp(prefix="grade-"))
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "grader.sandbox.spawned"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=sandbox_environment(),
            start_new_session=os.name == "posix",
        )
        assert process.stdin is not None
        start = SpawnedStart(port, token, tuple(modules), limits, self._walls, str(scratch))
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(msgspec.json.encode(start))
        self._processes[process.pid] = process, scratch
        return process.pid

    def stop(self, number: int) -> int:
        process, scratch = self._processes.pop(number)
        if os.name == "posix":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(number, signal.SIGKILL)
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
