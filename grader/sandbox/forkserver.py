"""The fork server: imports the heavy modules once, then forks a sandbox whenever a judge asks for one.

Theory of operation. The grader starts this process with nothing but one control socket per judge;
it holds no course, no suite, no solution and no secret, and a scrubbed environment. It trusts
the judges' demands and nothing else. For every `Spawn` it receives two file descriptors, the
sandbox's ends of the channel and of the output, forks, and the child confines itself, says which
walls held, and answers calls until its judge hangs up. The parent never reads what a sandbox
writes. A judge that goes away takes its sandboxes with it; when the last one is gone, so is the
fork server.

Between requests it works through what it was asked to preload, one module at a time, so that a
request never waits for a module that it does not need. After the forks of more than one submission it makes
the next ones cheaper (`warmup.collapse`).
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections import deque
from pathlib import Path
from typing import NoReturn

import msgspec

from grader.sandbox.inside.interpreter import STACK_SIGNAL
from grader.sandbox.inside.warmup import collapse, warm_up
from grader.sandbox.inside.worker import serve
from grader.sandbox.private import keep_builtins, note_modules
from grader.sandbox.surroundings import (
    pretend_modes,
    print_to_descriptors,
    remove_tree,
    use_scratch,
)
from grader.sandbox.walls import confinement
from grader.sandbox.walls.bubblewrap import python_environment
from grader.sandbox.walls.wall import Limits, Plan
from grader.sandbox.wire.channel import Channel, ChannelClosed
from grader.sandbox.wire.messages import (
    MAX_DEMAND,
    Answer,
    Demand,
    Failed,
    Kill,
    Killed,
    Ready,
    SandboxEnded,
    ShowStack,
    Spawn,
    Spawned,
    StackAsked,
    Start,
    Stop,
)
from grader.sandbox.wire.packing import Packing

keep_builtins(globals())

_decode = msgspec.msgpack.Decoder(Demand).decode
_encode = msgspec.msgpack.Encoder().encode


# In a sandbox the public name prints a stack first (`inside.interpreter`).
_end = os._exit
# So many forks before the shared memory is put into large pages, which saves 10 ms in each and takes 0.2 s:
# more than one submission needs.
_A_CLASS = 10
# The end of a killed sandbox takes some milliseconds of another processor, for which no judge waits.
_REAP_SECONDS = 0.005


class ForkServer:
    """The loop over the judges' requests."""

    def __init__(
        self,
        controls: list[socket.socket],
        scratch: Path,
        plan: Plan | None,
        start: Start,
    ) -> None:
        self._controls = controls
        self._scratch = scratch
        self._plan = plan
        self._around = start.around
        self._pending = deque(start.preload)
        self._loaded: set[str] = set()
        self._loaded_since_freeze = True
        self._forks, self._collapsed = 0, False
        self._sandboxes: dict[int, tuple[socket.socket, Path]] = {}
        # Killed, and not yet reaped: their folders.
        self._ending: dict[int, Path] = {}

    def run(self) -> None:
        """Serve until the last judge hangs up."""
        while self._controls:
            crowd = self._forks >= _A_CLASS and not self._collapsed
            # With something still to do, only look whether a judge waits.
            patience: float | None = 0 if self._pending or crowd else None
            if self._ending:
                patience = _REAP_SECONDS
            ready, _, _ = select.select(self._controls, [], [], patience)
            for control in ready:
                self._receive(control)
            self._reap(os.WNOHANG)
            if ready or self._ending:
                continue
            if self._pending:
                self._load(self._pending.popleft())
            elif crowd:
                self._collapsed = True
                collapse()
        self._reap()

    def _receive(self, control: socket.socket) -> None:
        """Carry out one demand of a judge, and answer it."""
        message, descriptors = b"", list[int]()
        # A judge that was stopped in the middle of something resets its end.
        with contextlib.suppress(ConnectionError):
            message, descriptors, _, _ = socket.recv_fds(control, MAX_DEMAND, 3)
        if not message:
            self._hang_up(control)
            return
        match _decode(message):
            case Spawn() as spawn:
                answer: Answer = self._spawn(spawn, control, descriptors)
            case ShowStack(sandbox):
                assert STACK_SIGNAL is not None  # wherever processes are forked
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(sandbox, STACK_SIGNAL)
                answer = StackAsked()
            case Stop(sandbox):
                answer = SandboxEnded(self._stop(sandbox))
            case Kill(sandbox):
                self._ending[sandbox] = self._killed(sandbox)
                answer = Killed()
        # A judge that did not wait for its answer is gone; the next look at its socket says so.
        with contextlib.suppress(ConnectionError):
            control.sendall(_encode(answer))

    def _hang_up(self, control: socket.socket) -> None:
        for sandbox, (owner, _) in list(self._sandboxes.items()):
            if owner is control:
                self._ending[sandbox] = self._killed(sandbox)
        self._controls.remove(control)
        control.close()

    def _load(self, module: str) -> None:
        if module not in self._loaded:
            self._loaded.add(module)
            self._loaded_since_freeze = True
            warm_up(module)

    def _spawn(
        self, spawn: Spawn, control: socket.socket, descriptors: list[int]
    ) -> Spawned | Failed:
        """Import what is needed, fork, and return in the parent; the child never returns."""
        for module in spawn.modules:
            self._load(module)
        note_modules()
        self._freeze()
        scratch = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            pid = confinement.fork(self._plan, spawn.limits) if self._plan else os.fork()
        except OSError as error:
            remove_tree(scratch)
            return Failed(f"no further process can be started ({error.strerror})")
        if pid == 0:
            _become_sandbox(self._plan, self._around, spawn.limits, scratch, *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        self._forks += 1
        self._sandboxes[pid] = (control, scratch)
        return Spawned(pid)

    def _freeze(self) -> None:
        # What is alive now is shared with every fork; the collector must not touch its pages.
        if self._loaded_since_freeze:
            gc.collect()
            gc.freeze()
            self._loaded_since_freeze = False
            self._collapsed = False

    def _reap(self, options: int = 0) -> None:
        """Tidy up after the sandboxes that were killed; with WNOHANG, after those that have ended."""
        for sandbox in list(self._ending):
            reaped, _ = os.waitpid(sandbox, options)
            if reaped:
                remove_tree(self._ending.pop(sandbox))

    def _stop(self, sandbox: int) -> int:
        """Kill a sandbox, and return how it ended: its exit code, or the negative number of a signal."""
        scratch = self._killed(sandbox)
        _, status = os.waitpid(sandbox, 0)
        remove_tree(scratch)
        return os.waitstatus_to_exitcode(status)

    def _killed(self, sandbox: int) -> Path:
        """Kill a sandbox with all that it started; returns its folder."""
        _, scratch = self._sandboxes.pop(sandbox)
        # The whole group first, for what it started; then itself, if it never got so far as to
        # have a group. One that has ended by itself is not reaped yet, so the number is its own.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(sandbox, signal.SIGKILL)
        return scratch


def _become_sandbox(
    plan: Plan | None,
    around: tuple[str, ...],
    limits: Limits,
    scratch: Path,
    channel: int,
    output: int,
    reports: int,
) -> NoReturn:
    """In the child: let go of the fork server's descriptors, raise the walls, serve, and never return."""
    try:
        _give_way()
        # As in a program of its own: it leads a session, which no terminal's Ctrl-C reaches.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(output, 1)
        os.dup2(output, 2)
        print_to_descriptors()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Not one over the other: those that come may have these numbers.
        reports, channel = os.dup(reports), os.dup(channel)
        os.dup2(channel, 3)
        os.dup2(reports, 4)
        os.closerange(5, os.sysconf("SC_OPEN_MAX"))
        os.chdir(scratch)
        use_scratch(scratch)
        pretend_modes(scratch)
        judge = socket.socket(fileno=3)
        _hand_over_schedule(judge)
        connection = Channel(judge)
        walls = confinement.confine(plan, limits, scratch) if plan else []
        connection.send(Ready((*around, *walls)), Packing(), timeout=None)
        serve(connection, socket.socket(fileno=4), scratch)
    except (ChannelClosed, KeyboardInterrupt):
        _end(0)
    except BaseException:  # noqa: BLE001 (the end of the process: the grader's own errors must reach the judge)
        traceback.print_exc()
    _end(70)


def _hand_over_schedule(judge: socket.socket) -> None:
    """Send the judge a descriptor of what the kernel counts of this thread, or (elsewhere than on Linux) none.

    The judge reads there how long a call waited for a processor, which is not the time of the student's code.
    Before the walls, and as long as no student's code runs: nothing in this process can change what it says.
    """
    descriptors = []
    with contextlib.suppress(OSError):
        descriptors.append(os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC))
    socket.send_fds(judge, [b"."], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def _give_way() -> None:
    """Have woken threads wait for the processor (Linux), also in every process started here.

    The threads of gloo take turns in waking each other. One that interrupts the holder of a lock
    spins for it until the scheduler looks again, 3 ms later: a quarter of the processor time of a launch.
    """
    if hasattr(os, "SCHED_BATCH"):
        # Only faster: a kernel that knows no such policy (gVisor's) judges the same.
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main(start: Start) -> None:
    """Serve the judges."""
    # A Ctrl-C in the terminal is for the grader, which hangs up when it is ready to.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    plan = confinement.prepare(python_environment()) if start.walls else None
    controls = [socket.socket(fileno=control) for control in start.controls]
    with tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True) as scratch:
        use_scratch(Path(scratch))
        ForkServer(controls, Path(scratch), plan, start).run()
    # Not to take torch down piece by piece, which takes half a second for which the caller waits.
    os._exit(0)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Start))
