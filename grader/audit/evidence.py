"""Evidence of an attack's success, from outside: all kinds are looked for, not the announced one alone."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping

import msgspec

from grader.audit.catalogue import Proof

LATE_SECONDS = 2.0


class Trial(msgspec.Struct, frozen=True):
    """An attack that was graded: its points, its output, and how long it took of its time.

    `loop_late_seconds` is by how much a harmless loop overran the same time in the same place, right after it.
    """

    score: float
    output: str
    seconds: float
    budget_seconds: float
    fault: str = ""
    loop_late_seconds: float = 0.0

    @property
    def is_late(self) -> bool:
        """Whether it overran its time by more than the machine makes a loop overrun it."""
        allowed = LATE_SECONDS + 2 * max(self.loop_late_seconds, 0.0)
        return self.seconds - self.budget_seconds > allowed


class Evidence(msgspec.Struct, frozen=True):
    """One proof of a success, in words."""

    proof: Proof
    detail: str


def evidence_in(trial: Trial, secrets: Mapping[str, str], trophy: str) -> Iterable[Evidence]:
    """Evidence in the grading itself; `Field` and `Leavings` look elsewhere."""
    if trial.fault:
        yield Evidence(Proof.FAULT, trial.fault)
    if trial.score > 0:
        yield Evidence(Proof.SCORE, f"{trial.score:g} points")
    for name, secret in secrets.items():
        if secret in trial.output:
            yield Evidence(Proof.TEXT, f"the {name} canary")
    if trophy in trial.output:
        yield Evidence(Proof.CLAIM, "it did what it tried")
    if trial.is_late:
        late = trial.seconds - trial.budget_seconds
        loop = f"{trial.loop_late_seconds:.1f} s for a harmless loop"
        yield Evidence(Proof.TIME, f"{late:.1f} s too long, against {loop}")
    if odd := [character for character in trial.output if _drives_a_terminal(character)]:
        yield Evidence(Proof.SCREEN, f"{len(odd)} control characters")


def _drives_a_terminal(character: str) -> bool:
    return character != "\n" and unicodedata.category(character) in {"Cc", "Cf", "Cs"}
