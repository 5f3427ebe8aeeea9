"""Which walls stand on this machine, found by raising them, and what to do about those that do not."""

from __future__ import annotations

import enum
import json
import os
import platform
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import msgspec

from grader.sandbox.walls import landlock
from grader.sandbox.walls.bubblewrap import bubblewrapped, python_environment
from grader.sandbox.walls.cgroups import control_group
from grader.sandbox.walls.confinement import WALLS

_TRIAL_SECONDS = 60
# In a process of its own, as walls cannot be taken down again; asks for all that there is.
_TRIAL = """
import json, os, pathlib, tempfile
from grader.sandbox.walls import confinement
from grader.sandbox.walls.bubblewrap import python_environment
plan = confinement.prepare(python_environment())
limits = confinement.Limits(processes=True, loopback=True)
scratch = pathlib.Path(tempfile.mkdtemp())
reader, writer = os.pipe() if os.name == "posix" else (0, 1)
child = confinement.fork(plan, limits) if os.name == "posix" else 0
if child == 0:
    walls = confinement.confine(plan, limits, scratch)
    os.write(writer, json.dumps(walls).encode())
    os._exit(0)
os.close(writer)
print(os.read(reader, 4096).decode())
os.waitpid(child, 0)
scratch.rmdir()
"""

_MEANING = {
    "control_group": "memory and processes of all sandboxes together are bounded",
    "bubblewrap": "student code sees no file of yours, no other process and no network",
    "process_group": "all that student code starts is ended with it",
    "private_root": "the same as bubblewrap for files, made by the grader itself",
    "pid_namespace": "it sees no other process, and none of its own outlives it",
    "user_namespace": "it holds no right of yours, not even as root",
    "mount_namespace": "its changes to the file system are its own",
    "ipc_namespace": "it shares no memory with other programs",
    "network_namespace": "it reaches no network, not even this machine's own services",
    "private_scratch": "what it writes is bounded, unseen by others, and gone with it",
    "process_limit": "it cannot fill the machine with processes or threads",
    "rlimits": "processor time, memory, file size and open files are bounded",
    "capabilities": "it holds no administrator's right",
    "no_new_privs": "it cannot gain rights by starting a program",
    "landlock": "it reads the Python environment and writes its own folder, nothing else",
    "seccomp": "it starts no program and no process, opens no socket, touches no other process",
}
_NAMESPACES = tuple(each for each in WALLS if each.endswith("_namespace") or "private" in each)


class Wall(msgspec.Struct, frozen=True):
    """One wall: whether it stands on this machine.

    Attributes:
        name: as in `WALLS`, or `bubblewrap`, or `control_group`.
        stands: whether it does.
        meaning: what it keeps student code from.
        reason: why it does not stand, and empty if it does.
        remedy: what to do about it; empty if nothing can be done here.
    """

    name: str
    stands: bool
    meaning: str
    reason: str = ""
    remedy: str = ""


def survey() -> list[Wall]:
    """Every wall, outermost first, tried out on this machine; takes about a second."""
    held = set(_trial())
    return [_wall(name, name in held) for name in ("control_group", "bubblewrap", *WALLS)]


def _wall(name: str, stands: bool) -> Wall:
    reason, remedy = ("", "") if stands else _why_not(name)
    return Wall(name, stands, _MEANING[name], reason, remedy)


def _trial() -> list[str]:
    """The walls of a sandbox that was made and confined for nothing else."""
    # The grader's own folder, in case that it is not installed but run from where it lies.
    environment = {"PYTHONPATH": str(Path(__file__).parents[3]), "PATH": os.defpath}
    command = [sys.executable, "-P", "-c", _TRIAL]
    wrapped = bubblewrapped(command, readable=python_environment(), environment=environment)
    try:
        done = subprocess.run(
            wrapped or command,
            env=environment if sys.platform != "win32" else None,
            capture_output=True,
            timeout=_TRIAL_SECONDS,
            check=True,
        )
        walls: list[str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    with control_group(2**30, 100) as group:
        around = ["control_group"] * (group is not None)
    return around + ["bubblewrap"] * (wrapped is not None) + walls


def _why_not(name: str) -> tuple[str, str]:
    if sys.platform != "linux":
        system = platform.system() or sys.platform
        return (
            f"{system} has no such thing",
            "grade strangers' code on Linux, or in a Linux virtual machine or container",
        )
    if name == "control_group":
        return (
            "making one takes root, or a group that was handed over",
            "run the grader by: systemd-run --user --scope -p Delegate=yes grade …",
        )
    if name == "bubblewrap":
        return _why_no_bubblewrap()
    if name in _NAMESPACES:
        return _why_no_namespaces()
    if name == "landlock":
        return _why_no_landlock()
    if name == "seccomp":
        return "libseccomp or pyseccomp is missing", "install libseccomp2 and pyseccomp"
    if name == "process_limit":
        return (
            "processes are counted neither for root nor by a kernel before Linux 6.14",
            "run the grader as an ordinary user",
        )
    return "the system refused it", ""


def _why_no_bubblewrap() -> tuple[str, str]:
    from shutil import which

    if which("bwrap") is None:
        return "bubblewrap is not installed", "install the package bubblewrap"
    return "bubblewrap is installed but does not work here", _why_no_namespaces()[1]


def _why_no_namespaces() -> tuple[str, str]:
    settings = {
        "kernel/apparmor_restrict_unprivileged_userns": ("1", "0"),
        "kernel/unprivileged_userns_clone": ("0", "1"),
        "user/max_user_namespaces": ("0", "15000"),
    }
    for name, (bad, good) in settings.items():
        path = Path("/proc/sys", name)
        if path.exists() and path.read_text().strip() == bad:
            dotted = name.replace("/", ".")
            return f"{dotted} is {bad}", f"sysctl -w {dotted}={good}"
    return (
        "user namespaces are refused, as inside many containers",
        "in a container, allow them (podman, or docker with a seccomp profile that does)",
    )


def _why_no_landlock() -> tuple[str, str]:
    if landlock.abi() == 0:
        return (
            "the kernel is older than Linux 5.13, or was started without Landlock",
            "add landlock to the kernel's parameter lsm=, or use a newer kernel",
        )
    return "the system refused it", ""


class Level(enum.Enum):
    """How much has to stand between student code and the machine."""

    NONE = "none"
    LIMITS = "limits"
    KERNEL = "kernel"
    NAMESPACES = "namespaces"
    FULL = "full"


_LIMITS = ("process_group", "rlimits")
_KERNEL = (*_LIMITS, "capabilities", "no_new_privs", "landlock", "seccomp")


def walls_of(level: Level) -> tuple[str, ...]:
    """The walls that a level asks for; each one asks for those of the one before it."""
    match level:
        case Level.NONE:
            return ()
        case Level.LIMITS:
            return _LIMITS
        case Level.KERNEL:
            return _KERNEL
        case Level.NAMESPACES:
            # Not process_limit: for root it takes Linux 6.14.
            return tuple(wall for wall in WALLS if wall != "process_limit")
        case Level.FULL:
            return ("bubblewrap", *WALLS)


def missing(level: Level, standing: Collection[str]) -> list[str]:
    """The walls that a level asks for and that do not stand."""
    return [wall for wall in walls_of(level) if wall not in standing]


def reached(standing: Collection[str]) -> Level:
    """The highest level of which every wall stands."""
    return [level for level in Level if not missing(level, standing)][-1]
