"""Run attacks through the ordinary grader, with its walls, and look for evidence of success.

An attack is graded like any submission, in a `Field`: a judge, a fork server, a neighbor in another sandbox,
and the canaries. After a success everything is made anew.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from grader.audit import resident
from grader.audit.canaries import Canaries
from grader.audit.catalogue import Attack, Proof, arm, read_catalogue
from grader.audit.evidence import (
    Evidence,
    Leavings,
    Trial,
    adopt_orphans,
    descendants,
    evidence_in,
)
from grader.course.manifest import Course, load_course
from grader.errors import GraderError, JudgeError
from grader.findings import first_line
from grader.grading import settle
from grader.judge.assignment import GradingOptions
from grader.judge.process import Judge, judge_source
from grader.results import ExerciseResult, Visibility
from grader.sandbox.client import Sandbox
from grader.sandbox.forking import ForkServerProcess, ForkServerSandboxes
from grader.sandbox.walls.wall import Limits
from grader.sandbox.wire.channel import ChannelClosed
from grader.sandbox.wire.messages import Call, Load, Returned
from grader.sandbox.wire.packing import Packing
from grader.sandbox.wire.values import ProtocolError
from grader.submissions import ExerciseFile

_HIDDEN = re.compile(r"canary:(\w+):\w+")
_TRIES = 3
_NO_ANSWER = "keep the names of the stub"
# Harmless submissions: one ends at once, and one takes all of its time.
_HARMLESS = b"def scale(x, factor):\n    return factor * x\n"
_LOOP = b"def scale(x, factor):\n    while True:\n        pass\n\n\ndoubled = scale\n"
# A judge that takes longer is stuck or dead; a busy machine may be slow.
_PATIENCE_SECONDS = 120.0
_ANSWER_SECONDS = 60.0


class AttackResult(msgspec.Struct, frozen=True):
    """The outcome of one attack: `evidence` is empty if it was stopped, and `by` names the obstacle."""

    attack: Attack
    evidence: tuple[Evidence, ...]
    by: str
    seconds: float

    @property
    def stopped(self) -> bool:
        """Whether the attack was stopped."""
        return not self.evidence


def audit(
    folder: Path, names: Sequence[str] = (), *, walls: bool = True, bubblewrap: bool = True
) -> Iterator[tuple[AttackResult, tuple[str, ...]]]:
    """Run the catalogue in `folder`, or its named attacks; yield results and the active walls."""
    attacks = read_catalogue(folder, names)
    with Auditor(folder, walls=walls, bubblewrap=bubblewrap) as auditor:
        for attack in attacks:
            yield auditor.run(attack), auditor.walls


class Auditor:
    """A judge, a fork server, canaries and a neighbor; after a success all of them are made anew."""

    def __init__(self, folder: Path, *, walls: bool = True, bubblewrap: bool = True) -> None:
        self.walls: tuple[str, ...] = ()
        self._folder = folder
        self._walls, self._bubblewrap = walls, bubblewrap
        self._field: Field | None = None

    def __enter__(self) -> Auditor:
        adopt_orphans()
        self._home = tempfile.TemporaryDirectory(prefix="grade-audit-")
        self._course = plant_course(self._folder / "course", Path(self._home.name))
        self._hidden = hidden_canaries(self._course)
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self._home.cleanup()

    def run(self, attack: Attack) -> AttackResult:
        """Grade one attack and look for evidence.

        A busy machine makes everything late. So an attack is late only if it overruns its time by more than a
        harmless loop does, three times out of three.
        """
        for _ in range(_TRIES):
            result = self._run(attack)
            if {evidence.proof for evidence in result.evidence} != {Proof.TIME}:
                break
        return result

    def _run(self, attack: Attack) -> AttackResult:
        """Grade one attack in the field, which is made anew if the last attack succeeded."""
        if self._field is None:
            self._field = Field(walls=self._walls, bubblewrap=self._bubblewrap)
            # A new judge first imports torch and the suites, which should not count as an attack's time.
            self._grade(self._field, attack.exercise, _HARMLESS)
        target = self._field
        memory = self._course.exercise(attack.exercise).memory_mb
        armed = arm(attack, target.targets() | {"memory_mb": memory})
        result, trial = self._grade(target, attack.exercise, armed)
        if trial.is_late and not trial.fault:
            _, loop = self._grade(target, attack.exercise, _LOOP)
            late = loop.seconds - loop.budget_seconds
            trial = msgspec.structs.replace(trial, loop_late_seconds=late)
        evidence = [
            *evidence_in(trial, self._hidden | target.canaries.secrets, target.canaries.trophy),
            *target.evidence(),
        ]
        if evidence:
            self._close()
        return AttackResult(attack, tuple(evidence), _met(result, trial), trial.seconds)

    def _close(self) -> None:
        if self._field is not None:
            self._field.close()
            self._field = None

    def _grade(
        self, target: Field, name: str, source: bytes
    ) -> tuple[ExerciseResult | None, Trial]:
        """Grade a source like any submission; a fault of the grader is part of the trial."""
        exercise = self._course.exercise(name)
        file = ExerciseFile(source)
        begin, result, fault = time.monotonic(), None, ""
        options = GradingOptions(suites=(Visibility.HIDDEN,))
        try:
            result = settle(self._course, exercise, file, options)
            if result is None:
                assert file.source is not None
                with target.patience(exercise.seconds):
                    judged = judge_source(
                        target.judge, self._course, exercise, file.source, options
                    )
                result, self.walls = judged.result, judged.walls
        # The border: any failure that a submission causes here is its success.
        except Exception as error:  # noqa: BLE001
            fault = f"{type(error).__name__}: {error}"
        seconds = time.monotonic() - begin
        output = "\n".join(_texts(msgspec.to_builtins(result)))
        score = result.score if result is not None else 0.0
        return result, Trial(score, output, seconds, exercise.seconds, fault)


def _texts(value: object) -> Iterator[str]:
    """Yield every string in a result."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from (text for item in value.values() for text in _texts(item))
    elif isinstance(value, (list, tuple)):
        yield from (text for item in value for text in _texts(item))


def plant_course(template: Path, folder: Path) -> Course:
    """Copy a course into the folder, with new canaries.

    The catalogue of an installed grader is among the packages, which every sandbox may read.
    """
    canaries: dict[str, str] = {}

    def renew(old: re.Match[str]) -> str:
        return canaries.setdefault(old[1], f"canary:{old[1]}:{secrets.token_hex(8)}")

    for path in template.rglob("*"):
        if path.suffix in (".py", ".toml"):
            copy = folder / path.relative_to(template)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(_HIDDEN.sub(renew, path.read_text()))
    return load_course(folder)


def hidden_canaries(course: Course) -> dict[str, str]:
    """Return the strings in hidden suites and solutions that no sandbox may hold."""
    return {
        canary[1]: canary[0]
        for exercise in course.exercises
        for path in (course.solution(exercise), course.suite(exercise, Visibility.HIDDEN))
        for canary in _HIDDEN.finditer(path.read_text())
    }


def _met(result: ExerciseResult | None, trial: Trial) -> str:
    """Return the obstacle in the attack's own words, else in the grader's."""
    if result is None:
        return trial.fault
    own = [line for line in result.output.splitlines() if line.startswith("met: ")]
    messages = [first_line(test.finding) for test in result.tests if test.finding is not None]
    outcome = next((test.outcome.value for test in result.tests), "nothing")
    met = [*(line.removeprefix("met: ") for line in own[-1:]), result.message, *messages, outcome]
    # It did not even try to be a submission, so it did not find its target.
    return next("it did not succeed" if _NO_ANSWER in text else text for text in met if text)


# --- the field ----------------------------------------------------------------------------------------


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
        """Return all targets of an attack."""
        more = {"neighbor": self._neighbor_pid, "neighbor_address": self._address}
        return self.canaries.targets() | more

    def evidence(self) -> Iterator[Evidence]:
        """Yield evidence outside of the grading."""
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
        """End the judge if it takes much longer than the exercise may."""
        timer = threading.Timer(seconds + _PATIENCE_SECONDS, self.judge.close)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def close(self) -> None:
        """End our processes and an attack's, and remove its files."""
        with contextlib.suppress(GraderError, OSError, ValueError):
            self._neighbor.stop()
        with contextlib.suppress(OSError, ValueError):
            self.judge.close()
        self._server.close()
        self._leavings.remove()
        with contextlib.suppress(OSError):
            # Without walls, every process may use the neighbor's shared memory, and the neighbor was killed.
            Path("/dev/shm", self._address).unlink()  # noqa: S108 (a name of our own)
        self.canaries.__exit__(None, None, None)

    def _keep_neighbor(self) -> None:
        """Keep a sandbox with a secret, of an exercise that lets it listen for connections."""
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
