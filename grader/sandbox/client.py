"""The judge's side of a sandbox: ask it and wait with a deadline, keep what it prints, stop it.

Where a process can be forked (POSIX), sandboxes come from one warm fork server (`forking`). Elsewhere, and
where the caller asks for it, each is a Python process of its own (`spawning`): slower to start, the same
wire.
"""

from __future__ import annotations

import os
import re
import select
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from grader.errors import SandboxError
from grader.sandbox.surroundings import without_paths
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import Channel, ChannelClosed
from grader.sandbox.wire.messages import MAX_REPORT, UNCLEAR, Ready, Reply, Report, Request
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import UNREADABLE, ProtocolError

if TYPE_CHECKING:
    import torch

MAX_OUTPUT = 16_384
# Enough for a stack among what a loop prints meanwhile.
MAX_END = 262_144
_CHUNK = 65_536
_decode_report = msgspec.json.Decoder(Report).decode
# So many events say as much as more of them.
MAX_REPORTS = 1_000
# What was told before a reply is there with it, but for the loopback of a busy machine.
_REPORT_SECONDS = 2.0
START_SECONDS = 120.0
# A process that is asked for its stack prints it within a millisecond, if at all; on a busy machine later.
STACK_SECONDS = 1.0
# The rest of its lines; what a loop prints meanwhile must not push out the first of them.
_REST_SECONDS, _REST_CHUNKS = 0.02, 2


class Output:
    """The output of student code: its first `MAX_OUTPUT` bytes, how many more there were, and its end."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._dropped = 0
        self._part = (0, 0)
        self._end = b""

    def add(self, data: bytes) -> None:
        room = MAX_OUTPUT - len(self._kept)
        self._kept += data[:room]
        self._dropped += max(0, len(data) - room)
        self._end = (self._end + data)[-MAX_END:]

    def take_stack(self) -> bytes:
        """The lines of the stack that was printed last, which is none of the student's output."""
        _, stack = split_stack(self._end)
        self._end = b""
        if stack:
            output = without_stack(bytes(self._kept), stack)
            # What found no room of the stack is none of the student's output either.
            self._dropped = max(0, self._dropped - (len(stack) - len(self._kept) + len(output)))
            self._kept = bytearray(output)
        return stack

    @property
    def last_stack(self) -> bytes:
        """The lines of the stack that was printed lately, as far as they came."""
        return split_stack(self._end)[1]

    def begin_part(self) -> None:
        """Begin a test."""
        self._part = len(self._kept), self._dropped

    def part(self) -> str:
        """The text kept since the test began, as `text` gives all of it."""
        begin, dropped = self._part
        return _with_rest(self._kept[begin:], self._dropped - dropped)

    def text(self) -> str:
        """The text kept, and a last line that says if there was more."""
        return _with_rest(self._kept, self._dropped)


def _with_rest(printed: bytearray, dropped: int) -> str:
    text = without_paths(printed.decode("utf-8", "replace"))
    return f"{text}\n[... more was printed]" if dropped else text


class Reports:
    """What a sandbox tells besides its replies, which nothing in it can take back (`inside.reports`).

    `has_ended` once it can tell no more, and `count` of them came.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self._rest = b""
        self.count = 0
        self.has_ended = False

    def take(self, told: int = 0) -> list[Report]:
        """The reports since the last time; one of `UNCLEAR` for what is none.

        So many were told until now: what has not come yet is waited for.
        """
        reports: list[Report] = []
        end = time.monotonic() + _REPORT_SECONDS
        while not self.has_ended and self.count < MAX_REPORTS:
            try:
                data = self._connection.recv(_CHUNK)
            except (BlockingIOError, InterruptedError):
                left = end - time.monotonic()
                self.has_ended = self.count < told and left <= 0
                if self.count >= told or self.has_ended:
                    break
                select.select([self._connection], [], [], left)
                continue
            except OSError:
                data = b""
            self.has_ended = not data
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > MAX_REPORT:
                lines, self._rest = [*lines, self._rest], b""
            self.count += len(lines)
            reports += map(_report_of, lines)
        return reports

    def close(self, told: int) -> list[Report]:
        """The last reports, of which so many were told."""
        reports = self.take(told)
        self._connection.close()
        self.has_ended = True
        return [*reports, UNCLEAR] if self._rest else reports


def _report_of(line: bytes) -> Report:
    try:
        return _decode_report(line)
    except UNREADABLE:
        return UNCLEAR


class CalledOff(KeyboardInterrupt):
    """The caller no longer waits for the judgment; like Ctrl-C it is none of what a test may raise."""


class Sandbox:
    """A process with one student's module, reached over a channel.

    Where something comes from the `callers`, descriptors, while it owes an answer, that is called off.
    `schedule` is a descriptor of what the kernel counts of its main thread, where it does.
    """

    def __init__(
        self,
        source: _Stoppable,
        number: int,
        channel: Channel,
        out: socket.socket,
        reports: socket.socket,
        schedule: int | None = None,
    ) -> None:
        self.callers: tuple[int, ...] = ()
        self._source = source
        self._number = number
        self._channel = channel
        self._out = out
        self._out.setblocking(False)
        self._reports, self._left = Reports(reports), list[Report]()
        self._schedule = schedule
        self.output = Output()
        self.walls: tuple[str, ...] = ()

    def await_ready(self) -> None:
        """Read the first frame, which the sandbox writes before it knows any student's code."""
        try:
            reply, _ = self._receive(time.monotonic() + START_SECONDS)
        except (ChannelClosed, ProtocolError, TimeoutError) as error:
            self.stop()
            lines = self.output.text().strip().splitlines() or ["it printed nothing"]
            raise SandboxError(f"A sandbox did not start: {lines[-1]}") from error
        if not isinstance(reply, Ready):
            raise SandboxError("A sandbox did not start: its first word was not that it is ready.")
        self.walls = reply.walls

    def ask(
        self,
        request: Request,
        packing: Packing,
        seconds: float,
        more: Callable[[Sandbox], float] = lambda _: 0,
    ) -> tuple[Reply, list[torch.Tensor]]:
        """Send a request and wait for its reply, `seconds` at most for both, and as long as there is `more`.

        Raises TimeoutError, ChannelClosed if the process ended, ProtocolError if what it said does
        not fit, CalledOff; after each of them the sandbox is of no more use and is to be stopped.
        """
        deadline = time.monotonic() + seconds
        self._channel.send(request, packing, timeout=seconds)
        while True:
            try:
                return self._receive(deadline)
            except TimeoutError:
                if (seconds := more(self)) <= 0:
                    raise
                deadline = time.monotonic() + seconds

    def delayed(self) -> float:
        """The seconds that its main thread was ready to run and no processor was free; 0 if not known."""
        if self._schedule is None:
            return 0.0
        try:
            # Of the running thread: its time, the time that it waited for a processor, and how often it ran.
            return int(os.pread(self._schedule, 100, 0).split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def _receive(self, deadline: float) -> tuple[Reply, list[torch.Tensor]]:
        try:
            return self._channel.receive_reply(deadline, self._wait)
        finally:
            self._drain()

    def _wait(self, seconds: float) -> None:
        """Wait for the channel, and keep the output from filling up meanwhile."""
        end = time.monotonic() + seconds
        channel, output = self._channel.fileno(), self._out.fileno()
        sources = [channel, output, *self.callers]
        while True:
            ready, _, _ = select.select(sources, [], [], seconds)
            if any(caller in ready for caller in self.callers):
                raise CalledOff
            if output in ready and not self._drain():
                # Closed by the student, who has nothing more to print.
                sources.remove(output)
            seconds = end - time.monotonic()
            if channel in ready or seconds <= 0:
                return

    @property
    def _told(self) -> int:
        return min(self._channel.told, MAX_REPORTS)

    def take_reports(self) -> list[Report]:
        """What it told since it was asked last, also after its end."""
        reports, self._left = self._left + self._reports.take(self._told), []
        # Fewer than it told have come, or it lives, and let go of the one thing that it may not.
        ended = self._reports.has_ended and not self._channel.has_ended()
        if ended or self._reports.count < self._told:
            reports.append(UNCLEAR)
        return reports

    def _drain(self, chunks: int = 64) -> bool:
        """Take what was printed, a bounded part of it at a time; False once no process can print more."""
        for _ in range(chunks):
            try:
                data = self._out.recv(_CHUNK)
            except (BlockingIOError, InterruptedError):
                return True
            except OSError:
                return False
            if not data:
                return False
            self.output.add(data)
        return True

    def show_stack(self) -> None:
        """Have the process print its stack, and take in what it prints."""
        self._drain()
        if not self._source.show_stack(self._number):
            return
        end = time.monotonic() + STACK_SECONDS
        while not self.output.last_stack and (seconds := end - time.monotonic()) > 0:
            select.select([self._out], [], [], seconds)
            if not self._drain(chunks=1):
                return
        # Line by line: until no more comes.
        for _ in range(_REST_CHUNKS):
            if not select.select([self._out], [], [], _REST_SECONDS)[0] or not self._drain(
                chunks=1
            ):
                return

    def stop(self) -> int:
        """Kill the process and its descendants; returns its end, as `Popen.returncode` has it."""
        self._channel.close()
        status = self._source.stop(self._number)
        self._let_go()
        return status

    def kill(self) -> None:
        """Kill the process and its descendants, and do not wait for their end."""
        self._channel.close()
        self._source.kill(self._number)
        self._let_go()

    def _let_go(self) -> None:
        self._drain()
        self._out.close()
        self._left += self._reports.close(self._told)
        schedule, self._schedule = self._schedule, None
        if schedule is not None:
            os.close(schedule)


class _Stoppable(Protocol):
    def show_stack(self, number: int) -> bool:
        """Ask for the stack; False where that cannot be."""
        ...

    def stop(self, number: int) -> int: ...

    def kill(self, number: int) -> None: ...


class SandboxSource(_Stoppable, Protocol):
    """Where sandboxes come from."""

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Begin to start a sandbox in which these modules are imported.

        What comes back waits for it, and is to be called before anything else is asked of this
        source; it raises SandboxError. A caller with other work does it in between.
        """


# --- the Python stack that a dying sandbox prints (`inside.interpreter`) among its output -----------

# As Python's faulthandler writes it, innermost call first; what stands around it is about the interpreter.
_STACK = re.compile(
    rb"(?:Fatal Python error: [^\n]{0,80}\n\n)?"
    rb"(?:Stack|(?:Current thread|Thread) [^\n]{0,80}) \(most recent call first\):\n"
    rb"((?:  File [^\n]*\n|  \.\.\.\n)+)"
    # A process that is stopped while it prints leaves a line behind that has no end.
    rb"(?:  ?(?:F[^\n]*)?\Z)?"
    rb"(?:\nExtension modules: [^\n]*\n?)?"
)
ABORTED = b"Fatal Python error: Aborted"
_FRAME = re.compile(rb'  File "([^"\n]*)", line (\d{1,7}) in ([^\n]{1,200})')


def split_stack(printed: bytes) -> tuple[bytes, bytes]:
    """What was printed without the last stack in it, and that stack; it may begin with why it was printed.

    The first process of a namespace outlives its abort, and then crashes: that is one end, and its cause the
    first stack's.
    """
    stacks = list(_STACK.finditer(printed))
    if not stacks:
        return printed, b""
    begin, end = stacks[-1].span()
    for earlier in reversed(stacks[:-1]):
        if printed[earlier.end() : begin].strip() or not earlier[0].startswith(ABORTED):
            break
        begin = earlier.start()
    return printed[:begin] + printed[end:], printed[begin:end]


def without_stack(printed: bytes, stack: bytes) -> bytes:
    """The output without this stack, whose last bytes may have been cut off."""
    before, whole = split_stack(printed)
    if whole:
        return before
    cut = next((n for n in range(len(stack), 0, -1) if printed.endswith(stack[:n])), 0)
    return printed[: len(printed) - cut]


# What Python runs an import with, and where libraries are installed.
_IMPORT = re.compile(rb'  File "<frozen importlib\._bootstrap')
_LIBRARY = re.compile(rb'  File "[^"\n]{0,400}-packages[/\\]([A-Za-z]\w{0,40})')


def imported_library(stack: bytes, file: str) -> str:
    """The name of the library that this file was importing; "a library" if it is not known, empty for none."""
    above, _, _ = stack.partition(f'  File "{file}"'.encode())
    if not _IMPORT.search(above):
        return ""
    library = _LIBRARY.search(above)
    return library[1].decode() if library else "a library"


def own_frames(stack: bytes, file: str) -> Iterable[tuple[int, str]]:
    """Line and function of the frames in this file, innermost first."""
    for name, line, function in _FRAME.findall(stack):
        if name.decode("ascii", "replace") == file:
            yield int(line), function.decode("ascii", "replace")
