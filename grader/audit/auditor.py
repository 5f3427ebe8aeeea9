"""Runs attacks through the ordinary grader, with its walls, and looks for evidence of a success."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from grader.audit import resident
from grader.audit.canaries import Canaries
from grader.audit.catalogue import Attack, Proof, arm, read_catalogue
from grader.audit.evidence import Evidence, Trial, evidence_in
from grader.audit.leavings import Leavings, adopt_orphans, descendants
from grader.course import Course, load_course
from grader.errors import GraderError, JudgeError
from grader.grading import judge_source, settle
from grader.intake import Handed
from grader.judge.process import Judge
from grader.results import ExerciseResult, Visibility
from grader.sandbox.client import ForkServerProcess, ForkServerSandboxes, Sandbox
from grader.sandbox.confinement import Limits
from grader.sandbox.protocol import (
    Call,
    ChannelClosed,
    Load,
    Packing,
    ProtocolError,
    Returned,
)

__all__ = ["Auditor", "Finding", "audit"]

_HIDDEN = re.compile(r"canary:\w+:\w+")
_PATIENCE_SECONDS = 15.0
_ANSWER_SECONDS = 10.0


class Finding(msgspec.Struct, frozen=True):
    """What became of one attack: `evidence` is empty if it was stopped, and `by` is what it met."""

    attack: Attack
    evidence: tuple[Evidence, ...]
    by: str
    seconds: float

    @property
    def stopped(self) -> bool:
        """Whether nothing shows that it succeeded."""
        return not self.evidence


def audit(
    folder: Path, names: Sequence[str] = (), *, walls: bool = True, bubblewrap: bool = True
) -> Iterator[tuple[Finding, tuple[str, ...]]]:
    """Run the catalogue in `folder`, or the named attacks of it: findings, and the walls that held."""
    attacks = read_catalogue(folder, names)
    with Auditor(folder, walls=walls, bubblewrap=bubblewrap) as auditor:
        for attack in attacks:
            finding = auditor.run(attack)
            yield finding, auditor.walls


class Auditor:
    """A judge, a fork server, canaries and a neighbor; after a success all of it is made anew."""

    def __init__(self, folder: Path, *, walls: bool = True, bubblewrap: bool = True) -> None:
        self.walls: tuple[str, ...] = ()
        self._course = load_course(folder / "course")
        self._hidden = hidden_canaries(self._course)
        self._walls, self._bubblewrap = walls, bubblewrap
        self._range: _Range | None = None

    def __enter__(self) -> Auditor:
        adopt_orphans()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def run(self, attack: Attack) -> Finding:
        """Grade one attack and look for what it achieved."""
        if self._range is None:
            self._range = _Range(walls=self._walls, bubblewrap=self._bubblewrap)
        target = self._range
        result, trial = self._grade(target, attack)
        seen = [
            *evidence_in(trial, self._hidden | target.canaries.secrets, target.canaries.trophy),
            *target.evidence(),
        ]
        if seen:
            self._close()
        return Finding(attack, tuple(seen), _met(result, trial), trial.seconds)

    def _close(self) -> None:
        if self._range is not None:
            self._range.close()
            self._range = None

    def _grade(self, target: _Range, attack: Attack) -> tuple[ExerciseResult | None, Trial]:
        exercise = self._course.exercise(attack.exercise)
        handed = Handed(arm(attack, target.targets() | {"memory_mb": exercise.memory_mb}))
        begin, result, fault = time.monotonic(), None, ""
        chosen = (Visibility.HIDDEN,)
        try:
            result = settle(self._course, exercise, handed, chosen)
            if result is None:
                assert handed.source is not None
                with target.patience(exercise.seconds):
                    judged = judge_source(
                        target.judge, self._course, exercise, handed.source, seed=0, chosen=chosen
                    )
                result, self.walls = judged.result, judged.walls
        # The border: whatever a submission makes fail in here is its success.
        except Exception as error:  # noqa: BLE001
            fault = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - begin
        said = msgspec.json.encode(result).decode() if result is not None else ""
        score = result.score if result is not None else 0.0
        return result, Trial(score, _readable(said), seconds, exercise.seconds, fault)


def _readable(said: str) -> str:
    """The JSON's escapes as what they stand for."""
    return said.encode().decode("unicode_escape", "replace") if "\\u" in said else said.replace("\\n", "\n")


class _Range:
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
        """All that an attack is told."""
        more = {"neighbor": self._neighbor_pid, "neighbor_address": self._address}
        return self.canaries.targets() | more

    def evidence(self) -> Iterator[Evidence]:
        """What is not as it was, outside of the grading."""
        for seen in self.canaries.files_changed():
            yield Evidence(Proof.FILE, f"{seen} is changed")
        for seen in self.canaries.process_harmed():
            yield Evidence(Proof.NEIGHBOR, seen)
        for seen in _changes(self._neighbor_said, self._asked(self._neighbor)):
            yield Evidence(Proof.NEIGHBOR, f"a neighbor's {seen} changed")
        for seen in self._leavings.found():
            yield Evidence(Proof.REMAINS, seen)
        try:
            changes = _changes(self._fresh, self._state_of_next())
        except GraderError as error:
            yield Evidence(Proof.FAULT, str(error))
        else:
            for seen in changes:
                yield Evidence(Proof.NEXT, f"the next sandbox's {seen} changed")

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
        """End the processes, ours and what an attack left; remove what it wrote."""
        with contextlib.suppress(GraderError, OSError, ValueError):
            self._neighbor.stop()
        with contextlib.suppress(OSError, ValueError):
            self.judge.close()
        self._server.close()
        self._leavings.remove()
        self.canaries.__exit__(None, None, None)

    def _keep_neighbor(self) -> None:
        """A sandbox with a secret, of an exercise that lets it listen for connections."""
        self._address = f"neighbor-{secrets.token_hex(4)}"
        self._neighbor = self._spawn(Limits(processes=True, loopback=True))
        self._neighbor_pid = self._neighbor._number
        _ask(self._neighbor, "keep", self.canaries.secrets["neighbor"], self._address)
        self._neighbor_said = self._asked(self._neighbor)
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
    reply, unpacking = sandbox.ask(call, packing, _ANSWER_SECONDS)
    if not isinstance(reply, Returned):
        raise JudgeError(f"The resident of a sandbox did not answer: {reply}.")
    return unpacking.unpack(reply.value)


def _changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    return sorted(name for name in before.keys() | now if before.get(name) != now.get(name))


def hidden_canaries(course: Course) -> dict[str, str]:
    """The strings in the hidden suites and solutions that no sandbox may hold."""
    found: dict[str, str] = {}
    for exercise in course.exercises:
        for path in (course.solution(exercise), course.suite(exercise, Visibility.HIDDEN)):
            for text in _HIDDEN.findall(path.read_text()):
                found[text.split(":")[1]] = text
    return found


def _met(result: ExerciseResult | None, trial: Trial) -> str:
    """What the attack itself says it met, else what the grader said of it."""
    if result is None:
        return trial.fault
    met = [line.removeprefix("met: ") for line in result.output.splitlines() if line.startswith("met: ")]
    told = [test.message.partition("\n")[0] for test in result.tests if test.message]
    outcomes = [test.outcome.value for test in result.tests]
    return (met[-1:] or [result.message] * bool(result.message) or told[:1] or outcomes)[0]
