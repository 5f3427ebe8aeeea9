"""The judge's side of a sandbox: ask it and wait with a deadline, keep its output, stop it.

On POSIX, sandboxes come from one warm fork server (`forking`). Elsewhere, or on request, each is a separate
Python process (`spawning`), which is slower to start and uses the same wire.
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
# Enough for a stack amid the output of a loop.
MAX_END = 262_144
_CHUNK = 65_536
_decode_report = msgspec.json.Decoder(Report).decode
# More reports would add nothing.
MAX_REPORTS = 1_000
# Reports made before a reply arrive with it, except over the loopback of a busy machine.
_REPORT_SECONDS = 2.0
START_SECONDS = 120.0
# A process prints its stack within a millisecond, if at all; on a busy machine, it takes longer.
STACK_SECONDS = 1.0
# PyTorch's profiler prints this in every sandbox, where processes have no names.
_OF_PROFILER = re.compile(r"^Failed to read process name for pid \d+\n?", re.MULTILINE)


class Output:
    """The output of student code: its first `MAX_OUTPUT` bytes, the number of further bytes, and its end."""

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
        """Return the lines of the last stack, and remove them from the student's output."""
        _, stack = split_stack(self._end)
        self._end = b""
        if stack:
            output = without_stack(bytes(self._kept), stack)
            # Bytes of the stack that were dropped are not the student's output either.
            self._dropped = max(0, self._dropped - (len(stack) - len(self._kept) + len(output)))
            self._kept = bytearray(output)
        return stack

    def forget_stacks(self) -> None:
        """Look for a stack only in output that arrives from now on."""
        self._end = b""

    @property
    def last_stack(self) -> bytes:
        """The lines of the last stack that have arrived."""
        return split_stack(self._end)[1]

    def begin_part(self) -> None:
        """Begin a test."""
        self._part = len(self._kept), self._dropped

    def part(self) -> str:
        """Return the text kept since the test began, in the form of `text`."""
        begin, dropped = self._part
        return _with_rest(self._kept[begin:], self._dropped - dropped)

    def text(self) -> str:
        """Return the text kept, with a last line if there was more."""
        return _with_rest(self._kept, self._dropped)


def _with_rest(printed: bytearray, dropped: int) -> str:
    text = _OF_PROFILER.sub("", without_paths(printed.decode("utf-8", "replace")))
    return f"{text}\n[... more was printed]" if dropped else text


class Reports:
    """The events that a sandbox reports besides its replies, and cannot take back (`inside.reports`).

    `count` is the number of reports received. `has_ended` is true if no more can come.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._connection.setblocking(False)
        self._rest = b""
        self.count = 0
        self.has_ended = False

    def take(self, told: int = 0) -> list[Report]:
        """Return the reports since the last call, with `UNCLEAR` for an unreadable line.

        The last reply counts `told` reports so far; wait for the missing ones.
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
        """Return the last reports, `told` in all, and close the connection."""
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
    """The caller no longer waits for the judgment; like Ctrl-C, this is not an exception of a test."""


class Sandbox:
    """A process with one student's module, reached over a channel.

    If any of the `callers` (descriptors) becomes readable while the sandbox owes an answer, the request is
    called off. `schedule` is a descriptor of the kernel's statistics about its main thread, if there are any.
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
        """Read the first frame, which the sandbox writes before it gets any student's code."""
        try:
            reply, _ = self._receive(time.monotonic() + START_SECONDS)
        except (ChannelClosed, ProtocolError, TimeoutError) as error:
            self.stop()
            lines = self.output.text().strip().splitlines() or ["it printed nothing"]
            raise SandboxError(f"A sandbox did not start: {lines[-1]}") from error
        if not isinstance(reply, Ready):
            raise SandboxError("A sandbox did not start: its first message was another one.")
        self.walls = reply.walls

    def ask(
        self,
        request: Request,
        packing: Packing,
        seconds: float,
        more: Callable[[Sandbox], float] = lambda _: 0,
    ) -> tuple[Reply, list[torch.Tensor]]:
        """Send a request and wait for its reply, for at most `seconds`.

        When they are over, `more` may return further seconds.

        Raises TimeoutError, ChannelClosed if the process ended, ProtocolError for an invalid reply, or
        CalledOff. After each of these, stop the sandbox.
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
        """Return the seconds that its main thread waited for a free processor, 0 if not known."""
        if self._schedule is None:
            return 0.0
        try:
            # The fields are: time on a processor, time waiting for one, number of time slices.
            return int(os.pread(self._schedule, 100, 0).split()[1]) / 1e9
        except (OSError, IndexError):
            return 0.0

    def _receive(self, deadline: float) -> tuple[Reply, list[torch.Tensor]]:
        try:
            return self._channel.receive_reply(deadline, self._wait)
        finally:
            self._drain()

    def _wait(self, seconds: float) -> None:
        """Wait for the channel, and read output meanwhile, so that it does not fill up."""
        end = time.monotonic() + seconds
        channel, output = self._channel.fileno(), self._out.fileno()
        sources = [channel, output, *self.callers]
        while True:
            ready, _, _ = select.select(sources, [], [], seconds)
            if any(caller in ready for caller in self.callers):
                raise CalledOff
            if output in ready and not self._drain():
                # The student's code closed it.
                sources.remove(output)
            seconds = end - time.monotonic()
            if channel in ready or seconds <= 0:
                return

    @property
    def _told(self) -> int:
        return min(self._channel.told, MAX_REPORTS)

    def take_reports(self) -> list[Report]:
        """Return the reports since the last call, even after the sandbox ended."""
        reports, self._left = self._left + self._reports.take(self._told), []
        # Reports are missing, or the process is alive but has closed the connection for reports.
        ended = self._reports.has_ended and not self._channel.has_ended()
        if ended or self._reports.count < self._told:
            reports.append(UNCLEAR)
        return reports

    def _drain(self, chunks: int = 64) -> bool:
        """Read output in at most this many chunks; return False once no process can print more."""
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
        """Have the process print its stack, and read its output."""
        self._drain()
        # A stack that was printed before anyone asked may be made up.
        self.output.forget_stacks()
        if not self._source.show_stack(self._number):
            return
        end = time.monotonic() + STACK_SECONDS
        # The stack comes line by line. What is printed behind it, as by a loop, must not push it out.
        while not _LAST_FRAME.search(self.output.last_stack):
            seconds = end - time.monotonic()
            if (
                seconds <= 0
                or not select.select([self._out], [], [], seconds)[0]
                or not self._drain(chunks=1)
            ):
                return

    def stop(self) -> int:
        """Kill the process and its descendants; return its status, like `Popen.returncode`."""
        self._channel.close()
        status = self._source.stop(self._number)
        self._let_go()
        return status

    def kill(self) -> None:
        """Kill the process and its descendants without waiting for their end."""
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
        """Have a sandbox print its stack; return False if it cannot."""
        ...

    def stop(self, number: int) -> int: ...

    def kill(self, number: int) -> None: ...


class SandboxSource(_Stoppable, Protocol):
    """A source of sandboxes."""

    def begin(self, modules: Sequence[str], limits: Limits) -> Callable[[], Sandbox]:
        """Begin to start a sandbox with these modules imported; return a function that waits for it.

        Do other work in between, but call the function before any other method of this source. It raises
        SandboxError if the sandbox did not start.
        """


# --- the Python stack that a sandbox prints before it ends (`inside.interpreter`) -------------------

# In the form of Python's faulthandler, innermost call first; the other lines are about the interpreter.
_STACK = re.compile(
    rb"(?:Fatal Python error: [^\n]{0,80}\n\n)?"
    rb"(?:Stack|(?:Current thread|Thread) [^\n]{0,80}) \(most recent call first\):\n"
    rb"((?:  File [^\n]*\n|  \.\.\.\n)+)"
    # A process that is stopped while it prints leaves an incomplete line.
    rb"(?:  ?(?:F[^\n]*)?\Z)?"
    rb"(?:\nExtension modules: [^\n]*\n?)?"
)
ABORTED = b"Fatal Python error: Aborted"
# The first call of a process or a thread, or a mark for too many calls.
_LAST_FRAME = re.compile(rb" in (?:_run_module_as_main|_bootstrap)\n|  \.\.\.\n")
_FRAME = re.compile(rb'  File "([^"\n]*)", line (\d{1,7}) in ([^\n]{1,200})')


def split_stack(printed: bytes) -> tuple[bytes, bytes]:
    """Split the last stack off the output; return the rest and the stack, which may begin with its cause.

    The first process of a namespace survives its abort and then crashes. That counts as one end, with the first
    stack's cause.
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
    """Return the output without this stack, whose end may be cut off."""
    before, whole = split_stack(printed)
    if whole:
        return before
    cut = next((n for n in range(len(stack), 0, -1) if printed.endswith(stack[:n])), 0)
    return printed[: len(printed) - cut]


# Frames of Python's import system, and of installed libraries.
_IMPORT = re.compile(rb'  File "<frozen importlib\._bootstrap')
_LIBRARY = re.compile(rb'  File "[^"\n]{0,400}-packages[/\\]([A-Za-z]\w{0,40})')


def imported_library(stack: bytes, file: str) -> str:
    """Return the library that this file was importing, "a library" if its name is not known, else empty."""
    above, _, _ = stack.partition(f'  File "{file}"'.encode())
    if not _IMPORT.search(above):
        return ""
    library = _LIBRARY.search(above)
    return library[1].decode() if library else "a library"


def own_frames(stack: bytes, file: str) -> Iterable[tuple[int, str]]:
    """Yield line and function of the frames in this file, innermost first."""
    for name, line, function in _FRAME.findall(stack):
        if name.decode("ascii", "replace") == file:
            yield int(line), function.decode("ascii", "replace")
