"""Where attacks are run: a judge, a fork server, a neighbor in a sandbox of its own, and the canaries."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from grader.audit import resident
from grader.audit.canaries import Canaries
from grader.audit.catalogue import Proof
from grader.audit.evidence import Evidence, Leavings, descendants
from grader.errors import GraderError, JudgeError
from grader.judge.process import Judge
from grader.sandbox.client import Sandbox
from grader.sandbox.forking import ForkServerProcess, ForkServerSandboxes
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import ChannelClosed
from grader.sandbox.wire.messages import Call, Load, Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import ProtocolError

# A busy machine is slow, too: what takes longer than this is held up, or dead.
_PATIENCE_SECONDS = 120.0
_ANSWER_SECONDS = 60.0


class Field:
    """The processes and canaries of an audit."""

    def __init__(self, *, walls: bool, bubblewrap: bool) -> None:
        self.canaries = Canaries()
        self.canaries.__enter__()
        self._server = ForkServerProcess(2, walls=walls, bubblewrap=bubblewrap, preload=("torch",))
        self.judge = Judge(self._server.controls[0], walls=walls)
        self._server.controls[0].close()
        self._sandboxes = ForkServerSandboxes(self._server.controls[1])
        self._keep_neighbor()
        self._fresh = self._state_of_next()
        self._leavings = Leavings(
            self.canaries.mark, self._key, descendants(), Path(self._neighbor_folder).parent
        )

    @property
    def _key(self) -> int:
        return int(str(self.canaries.targets()["key"]))

    def targets(self) -> dict[str, object]:
        """All that an attack may aim at."""
        more = {"neighbor": self._neighbor_pid, "neighbor_address": self._address}
        return self.canaries.targets() | more

    def evidence(self) -> Iterator[Evidence]:
        """Evidence outside of the grading."""
        for name in self.canaries.files_changed():
            yield Evidence(Proof.FILE, f"{name} is changed")
        for detail in self.canaries.process_harmed():
            yield Evidence(Proof.NEIGHBOR, detail)
        for name in _changes(self._neighbor_state, self._asked(self._neighbor)):
            yield Evidence(Proof.NEIGHBOR, f"a neighbor's {name} changed")
        for detail in self._leavings.found():
            yield Evidence(Proof.REMAINS, detail)
        try:
            changes = _changes(self._fresh, self._state_of_next())
        except GraderError as error:
            yield Evidence(Proof.FAULT, str(error))
        else:
            for name in changes:
                yield Evidence(Proof.NEXT, f"the next sandbox's {name} changed")

    @contextlib.contextmanager
    def patience(self, seconds: float) -> Iterator[None]:
        """End the judge if it is held up for much longer than the exercise may take."""
        timer = threading.Timer(seconds + _PATIENCE_SECONDS, self.judge.close)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def close(self) -> None:
        """End the processes, ours and those of an attack; remove its files."""
        with contextlib.suppress(GraderError, OSError, ValueError):
            self._neighbor.stop()
        with contextlib.suppress(OSError, ValueError):
            self.judge.close()
        self._server.close()
        self._leavings.remove()
        with contextlib.suppress(OSError):
            # Without walls every process may use the neighbor's shared memory, and the neighbor was killed.
            Path("/dev/shm", self._address).unlink()  # noqa: S108 (a name of our own)
        self.canaries.__exit__(None, None, None)

    def _keep_neighbor(self) -> None:
        """A sandbox with a secret, of an exercise that lets it listen for connections."""
        self._address = f"neighbor-{secrets.token_hex(4)}"
        self._neighbor = self._spawn(Limits(processes=True, loopback=True))
        self._neighbor_pid = self._neighbor._number
        _ask(self._neighbor, "keep", self.canaries.secrets["neighbor"], self._address)
        self._neighbor_state = self._asked(self._neighbor)
        self._neighbor_folder = str(_ask(self._neighbor, "folder"))

    def _state_of_next(self) -> dict[str, str]:
        sandbox = self._spawn(Limits())
        try:
            return self._asked(sandbox)
        finally:
            sandbox.stop()

    def _spawn(self, limits: Limits) -> Sandbox:
        sandbox = self._sandboxes.begin(("torch",), limits)()
        source = Path(resident.__file__).read_bytes()
        sandbox.ask(Load("resident", "resident.py", source, ()), Packing(), _ANSWER_SECONDS)
        return sandbox

    def _asked(self, sandbox: Sandbox) -> dict[str, str]:
        try:
            answer = _ask(sandbox, "state")
        except (ChannelClosed, ProtocolError, TimeoutError, OSError) as error:
            return {"life": type(error).__name__}
        return answer if isinstance(answer, dict) else {"life": str(answer)}


def _ask(sandbox: Sandbox, function: str, *arguments: object) -> object:
    packing = Packing()
    call = Call(function, packing.pack(list(arguments)), packing.pack({}))
    reply, _ = sandbox.ask(call, packing, _ANSWER_SECONDS)
    if not isinstance(reply, Returned):
        raise JudgeError(f"The resident of a sandbox did not answer: {reply}.")
    return reply.value


def _changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | now if before.get(name) != now.get(name))
