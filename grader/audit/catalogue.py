"""The attack catalogue: hostile submissions on disk, each with a first line that names its aim.

    # attack: ends the process before a test can fail | class: forging | canary: score

Optional keys follow: `exercise` (scale, or crowd, which may start processes), `as: root` (it must be root in
order to succeed), `dud: why` (why it cannot succeed in the process of plain pytest). The text before the first
bar is for the table of an audit.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from grader.errors import CourseError

CLASSES = ("forging", "reading", "escaping", "hanging", "exhausting", "polluting")
# The grader's own, with the small course that its attacks are handed in to.
CATALOGUE = Path(__file__).with_name("attacks")
_KEYS = {"attack", "class", "canary", "exercise", "as", "dud"}


class Proof(enum.Enum):
    """The kinds of evidence that an attack succeeded."""

    SCORE = "score"  # it earned points
    TEXT = "text"  # a secret is in the result
    CLAIM = "claim"  # it could do something forbidden, and says so
    FILE = "file"  # the canary folder is changed
    REMAINS = "remains"  # a process, a file or shared memory is left
    NEIGHBOR = "neighbor"  # another sandbox or process is harmed
    NEXT = "next"  # the next sandbox differs
    TIME = "time"  # it outlived its time
    SCREEN = "screen"  # it wrote control characters into the result
    FAULT = "fault"  # the grader itself failed
    BYTES = "bytes"  # for forged frames: they left the process


class Attack(msgspec.Struct, frozen=True):
    """One hostile submission: its aim, its class, and the evidence that would prove its success."""

    name: str
    kind: str
    tries: str
    proof: Proof
    exercise: str
    as_root: bool
    dud: str
    source: bytes


def read_catalogue(folder: Path, names: Sequence[str] = ()) -> list[Attack]:
    """Return the attacks by class and name, or only the named ones; a wrong header is a CourseError."""
    attacks = [
        _read(path, kind) for kind in CLASSES for path in sorted((folder / kind).glob("*.py"))
    ]
    if not attacks:
        raise CourseError(f"{folder} holds no attacks: each is a file in {', '.join(CLASSES)}.")
    existing = {attack.name for attack in attacks}
    for name in names:
        if name not in existing:
            raise CourseError(f"There is no attack {name!r} in {folder}.")
    return [attack for attack in attacks if not names or attack.name in names]


def _read(path: Path, kind: str) -> Attack:
    """Read one attack; CourseError if its first line does not declare an attack of this class."""
    source = path.read_bytes()
    first = source.partition(b"\n")[0].decode().removeprefix("# ")
    header = dict(part.partition(": ")[::2] for part in first.split(" | "))
    if not {"attack", "class", "canary"} <= set(header) <= _KEYS or header["class"] != kind:
        form = f"'# attack: what it tries | class: {kind} | canary: score'"
        raise CourseError(f"{path}: its first line must read {form}.")
    try:
        proof = Proof(header["canary"])
    except ValueError:
        raise CourseError(f"{path}: {header['canary']!r} is not a kind of evidence.") from None
    return Attack(
        name=path.stem,
        kind=kind,
        tries=header["attack"],
        proof=proof,
        exercise=header.get("exercise", "scale"),
        as_root=header.get("as") == "root",
        dud=header.get("dud", ""),
        source=source,
    )


def arm(attack: Attack, targets: Mapping[str, object]) -> bytes:
    """Return the source with its targets in place of the first line, so that line numbers stay."""
    aims = "; ".join(f"{name} = {value!r}" for name, value in targets.items())
    return f"class target: {aims}\n".encode() + attack.source.partition(b"\n")[2]
