"""The fork server: imports heavy modules once, then forks a sandbox whenever a judge asks for one.

Theory of operation. The grader starts this process with only one control socket for each judge and a scrubbed
environment. It has no course, suite, solution or secret. It trusts the judges' demands and nothing else. With
every `Spawn` it receives three descriptors, the sandbox's ends of the channel, the output and the reports, and
forks. The child confines itself, reports the walls that held, and answers calls until its judge hangs up. The
parent never reads output of a sandbox. When a judge ends, its sandboxes are killed. When the last judge ends,
so does the fork server.

Between demands it imports the modules to preload, one at a time, so a demand never waits for a module that it
does not need. After the forks of more than one submission, it makes further forks cheaper (`warmup.collapse`).
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


# In a sandbox, the public name prints a stack first (`inside.interpreter`).
_end = os._exit
# After this many forks, more than one submission needs, the shared memory is put into large pages. That takes
# 0.2 s and saves 10 ms in each further fork.
_A_CLASS = 10
# A killed sandbox takes some milliseconds to end, on another processor; no judge waits for it.
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
        # The folders of sandboxes that were killed but not yet reaped.
        self._ending: dict[int, Path] = {}

    def run(self) -> None:
        """Serve until the last judge hangs up."""
        while self._controls:
            crowd = self._forks >= _A_CLASS and not self._collapsed
            # With work left, only check whether a judge waits.
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
        # A judge that was stopped resets its connection.
        with contextlib.suppress(ConnectionError):
            message, descriptors, _, _ = socket.recv_fds(control, MAX_DEMAND, 3)
        if not message:
            self._hang_up(control)
            return
        match _decode(message):
            case Spawn() as spawn:
                answer: Answer = self._spawn(spawn, control, descriptors)
            case ShowStack(sandbox):
                assert STACK_SIGNAL is not None  # systems that fork have it
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(sandbox, STACK_SIGNAL)
                answer = StackAsked()
            case Stop(sandbox):
                answer = SandboxEnded(self._stop(sandbox))
            case Kill(sandbox):
                self._ending[sandbox] = self._killed(sandbox)
                answer = Killed()
        # A sandbox has its own, and where none could be forked, they would pile up.
        for descriptor in descriptors:
            os.close(descriptor)
        # If the judge did not wait for its answer, it has ended, and the next read of its socket shows this.
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
        """Import the modules of the demand, fork, and return in the parent; the child never returns."""
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
        self._forks += 1
        self._sandboxes[pid] = (control, scratch)
        return Spawned(pid)

    def _freeze(self) -> None:
        # Objects alive now are shared with every fork; the collector must not touch their pages.
        if self._loaded_since_freeze:
            gc.collect()
            gc.freeze()
            self._loaded_since_freeze = False
            self._collapsed = False

    def _reap(self, options: int = 0) -> None:
        """Reap killed sandboxes and remove their folders; with WNOHANG, only of ended ones."""
        for sandbox in list(self._ending):
            reaped, _ = os.waitpid(sandbox, options)
            if reaped:
                remove_tree(self._ending.pop(sandbox))

    def _stop(self, sandbox: int) -> int:
        """Kill a sandbox, and return its exit code, or the negative number of the signal that ended it."""
        scratch = self._killed(sandbox)
        _, status = os.waitpid(sandbox, 0)
        remove_tree(scratch)
        return os.waitstatus_to_exitcode(status)

    def _killed(self, sandbox: int) -> Path:
        """Kill a sandbox and its descendants; return its folder."""
        _, scratch = self._sandboxes.pop(sandbox)
        # First the group, with its descendants; then the process, in case it has no group yet. If it ended
        # by itself, it is not reaped yet, so the number is still its own.
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
    """In the child: close the fork server's descriptors, raise the walls, serve, and never return."""
    try:
        _give_way()
        # Handle SIGINT like an ordinary program; the sandbox's own session gets no Ctrl-C of a terminal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(output, 1)
        os.dup2(output, 2)
        print_to_descriptors()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # Duplicated first, since one of them may have the number 3 or 4.
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
    """Send the judge a descriptor of the kernel's statistics about this thread (none except on Linux).

    The judge reads how long a call waited for a processor, since that is not the time of the student's code.
    This happens before the walls and before any student's code. Nothing in this process can change the
    statistics.
    """
    descriptors = []
    with contextlib.suppress(OSError):
        descriptors.append(os.open("/proc/self/schedstat", os.O_RDONLY | os.O_CLOEXEC))
    socket.send_fds(judge, [b"."], descriptors)
    for descriptor in descriptors:
        os.close(descriptor)


def _give_way() -> None:
    """Have woken threads wait for the processor (Linux), in this process and its descendants.

    The threads of gloo wake each other. A thread that interrupts the holder of a lock spins until the scheduler
    switches again, 3 ms later. That costs a quarter of the processor time of a launch.
    """
    if hasattr(os, "SCHED_BATCH"):
        # This only saves time: judgments are the same on a kernel without this policy (gVisor's).
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def main(start: Start) -> None:
    """Serve the judges."""
    # A Ctrl-C in the terminal is for the grader, which then hangs up.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    plan = confinement.prepare(python_environment()) if start.walls else None
    controls = [socket.socket(fileno=control) for control in start.controls]
    with tempfile.TemporaryDirectory(prefix="grade-", ignore_cleanup_errors=True) as scratch:
        use_scratch(Path(scratch))
        ForkServer(controls, Path(scratch), plan, start).run()
    # Skip the shutdown of torch, which takes half a second while the caller waits.
    os._exit(0)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Start))
