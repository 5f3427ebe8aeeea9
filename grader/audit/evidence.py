"""Evidence of an attack's success, from outside. All kinds are looked for, not only the announced one.

The grading comes first, and then leavings on the machine: processes, files under the attack's mark, System V
shared memory.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sysconfig
import tempfile
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from grader.audit.catalogue import Proof

LATE_SECONDS = 2.0
_PR_SET_CHILD_SUBREAPER = 36
_GRACE_SECONDS = 1.0
# The fork server removes the folder of a sandbox after its end.
_FOLDER_SECONDS = 5.0
# Folders in which every system lets programs share files.
_SHARED = ("tmp", "var/tmp", "dev/shm", "dev/mqueue")


# --- in the grading -----------------------------------------------------------------------------------


class Trial(msgspec.Struct, frozen=True):
    """A graded attack: its points, its output, and its time.

    `loop_late_seconds` is how long a harmless loop overran the same time in the same place, right after it.
    """

    score: float
    output: str
    seconds: float
    budget_seconds: float
    fault: str = ""
    loop_late_seconds: float = 0.0

    @property
    def is_late(self) -> bool:
        """Whether it overran its time by more than a loop does on this machine."""
        allowed = LATE_SECONDS + 2 * max(self.loop_late_seconds, 0.0)
        return self.seconds - self.budget_seconds > allowed


class Evidence(msgspec.Struct, frozen=True):
    """One proof of a success, in words."""

    proof: Proof
    detail: str


def evidence_in(trial: Trial, secrets: Mapping[str, str], trophy: str) -> Iterable[Evidence]:
    """Yield evidence in the grading itself; `Field` and `Leavings` look elsewhere."""
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


# --- on the machine -----------------------------------------------------------------------------------


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, so that all of them stay visible."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int | None = None) -> set[int]:
    """Return the processes below `root` (by default this one), without ended ones."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                children.setdefault(int(parent), []).append(pid)
    below: set[int] = set()
    waiting = [root or os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), []):
            below.add(child)
            waiting.append(child)
    return below


class Leavings:
    """Processes, files and shared memory that were not there before.

    `known` are the processes that belong there; `scratch` is the folder of each sandbox's own files, as the
    sandboxes see it.
    """

    def __init__(self, mark: str, key: int, known: Iterable[int], scratch: Path) -> None:
        self._mark, self._key, self._scratch = mark, key, scratch
        self._known = frozenset(known)
        self._before = set(self._files())

    def found(self) -> list[str]:
        """Return the leavings, in words, after giving ending processes and then their folders a moment."""
        end = time.monotonic() + _GRACE_SECONDS
        while (left := self._processes()) and time.monotonic() < end:
            time.sleep(0.02)
        end = time.monotonic() + _FOLDER_SECONDS
        while not self._before.issuperset(self._in_scratch()) and time.monotonic() < end:
            time.sleep(0.02)
        words = [f"{len(left)} processes"] if left else []
        words += [f"the file {path}" for path in self._files() if path not in self._before]
        return words + self._shared_memory()

    def remove(self) -> None:
        """Kill and remove them."""
        for pid in self._processes():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        for path in self._files():
            if path not in self._before:
                with contextlib.suppress(OSError):
                    path.unlink()
        _remove_shared_memory(self._key)

    def _processes(self) -> set[int]:
        return descendants() - self._known

    def _files(self) -> list[Path]:
        """Return files under the attack's mark, and all files in the folders of sandboxes."""
        files = [
            path for folder in _folders() for path in _listed(folder) if self._mark in path.name
        ]
        for root in self._roots():
            for folder in _SHARED:
                files += [path for path in _listed(root / folder) if self._mark in path.name]
        return files + self._in_scratch()

    def _in_scratch(self) -> list[Path]:
        """Return all files in the sandboxes' own folders."""
        inside = self._scratch.relative_to("/")
        return [path for root in self._roots() for path in _listed(root / inside)]

    def _roots(self) -> Iterator[Path]:
        """Yield the file systems of the fork servers and sandboxes that we may read."""
        yield Path("/")
        yield from (Path(f"/proc/{pid}/root") for pid in sorted(self._known))

    def _shared_memory(self) -> list[str]:
        try:
            lines = Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        except OSError:
            return []
        keys = [int(line.split()[0]) for line in lines]
        return [f"shared memory {self._key}"] * (self._key in keys)


def _folders() -> Iterator[Path]:
    """Yield folders in which student code might leave something for others."""
    packages = Path(sysconfig.get_path("purelib"))
    package = Path(__file__).resolve().parents[1]
    yield from (
        packages,
        packages / "__pycache__",
        package,
        package / "__pycache__",
        package.parent,
    )
    yield Path(tempfile.gettempdir())
    for home in _homes():
        yield from (home, home / ".cache", home / ".config" / "matplotlib")


def _homes() -> set[Path]:
    """Return the user's home by the environment, and by the system, whatever HOME says: code may ask either."""
    homes = set()
    with contextlib.suppress(RuntimeError):
        homes.add(Path.home())
    # Windows has no such module, and a container's user may have no entry.
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        homes.add(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return homes


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _remove_shared_memory(key: int) -> None:
    library = ctypes.CDLL(None)
    number = library.shmget(key, 0, 0)
    if number >= 0:
        library.shmctl(number, 0, None)
