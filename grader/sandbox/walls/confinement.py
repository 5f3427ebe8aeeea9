"""The walls around student code: what a sandbox gives up, for good, before it loads the student's module.

Theory of operation. Three processes are involved. The *grader* starts the *fork server*, inside
bubblewrap where that works (`bubblewrap`). The fork server calls `prepare` before it imports
anything heavy or starts a thread: it enters a user namespace of its own and becomes the first
process of a pid namespace, and compiles the filters. For each sandbox it calls `fork`, and the
child calls `confine`, which raises the walls in this order:

1.  `process_group`: a session of its own, so that one kill reaches all that the sandbox started;
    it dies with the fork server.
2.  The namespaces (`pid_namespace` comes with the fork): own mounts, IPC and network, then the user.
    First, because every later wall forbids to make them, and the user's after the others, which take
    rights in the one that is left. The scratch folder, or all of /tmp, becomes a bounded file system
    of the sandbox's own.
3.  `rlimits`: after the user namespace, within which processes are counted.
4.  `capabilities`, `no_new_privs`: nothing is left to regain, which the last two walls presuppose.
5.  `landlock`: the files. Before the filter, which refuses Landlock's calls.
6.  `seccomp`: the calls, last, as all of the above would be refused.

A wall that this system does not offer is left out, and the list that `confine` returns says so.
Everything here runs unprivileged; root gives up what it has. Nobody trusts what the sandbox says
afterwards; the walls are the kernel's.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from grader.errors import SandboxError
from grader.sandbox.walls import landlock, rlimits, seccomp, syscalls
from grader.sandbox.walls.bubblewrap import system_files
from grader.sandbox.walls.private_root import outermost

MEBIBYTE = 1024 * 1024

# All that `confine` may return, in its order.
WALLS = (
    "process_group",
    "private_root",
    "pid_namespace",
    "user_namespace",
    "mount_namespace",
    "ipc_namespace",
    "network_namespace",
    "private_scratch",
    "process_limit",
    "rlimits",
    "capabilities",
    "no_new_privs",
    "landlock",
    "seccomp",
)

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (what torch's loaders use, made private below)
_TEMPORARY = Path("/tmp")  # noqa: S108 (a file system of the sandbox's own)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_WRITABLE_DEVICES = ("/dev/null",)
# Harmless facts about the machine that OpenMP and torch look up.
_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")
# What gloo and getaddrinfo look at to find this machine itself. Where they cannot be read because
# they are not there it is no fault, but where they are there and refused it is.
_ADDRESSES = ("/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/sys/bus/pci", "/sys/devices")


class Limits(msgspec.Struct, frozen=True):
    """What one sandbox may use.

    Attributes:
        cpu_seconds: processor time of each of its processes, all threads together.
        memory_bytes: address space of each process, on top of what it shares with the fork server.
        file_bytes: size of one file.
        scratch_bytes: size of its folder, where that can be a file system of its own.
        open_files: descriptors at a time.
        threads: threads and processes at a time, where that can be counted.
        processes: whether it may start processes.
        loopback: whether it may talk TCP with itself.
    """

    cpu_seconds: int = 60
    memory_bytes: int = 2048 * MEBIBYTE
    file_bytes: int = 64 * MEBIBYTE
    scratch_bytes: int = 128 * MEBIBYTE
    open_files: int = 256
    threads: int = 256
    processes: bool = False
    loopback: bool = False


class Plan(msgspec.Struct, frozen=True):
    """What a fork server found out once and every sandbox uses.

    Attributes:
        readable: what the sandboxes may read.
        landlock_abi: the kernel's version of Landlock, 0 for none.
        outer_walls: those that the fork server is behind itself.
        counts_processes: whether the limit of processes holds, and for each sandbox by itself.
    """

    readable: tuple[Path, ...]
    landlock_abi: int
    outer_walls: tuple[str, ...]
    counts_processes: bool

    @property
    def namespaces(self) -> bool:
        """Whether children may have namespaces of their own."""
        return "pid_namespace" in self.outer_walls


def prepare(readable: Sequence[Path]) -> Plan:
    """Make ready to confine children; to be called once, before any thread is started.

    Where namespaces can be made, this returns in a child of the process that called it, which
    itself waits for the child and ends as it ends.

    Args:
        readable: what the sandboxes may read besides the system's libraries.
    """
    if sys.platform != "linux":
        return Plan(tuple(readable), landlock_abi=0, outer_walls=(), counts_processes=False)
    from grader.sandbox.walls import namespaces

    seen = (*system_files(), *readable)
    walls = tuple(namespaces.enter(seen))
    plan = Plan(
        readable=tuple(outermost(path.resolve() for path in seen)),
        landlock_abi=landlock.abi(),
        outer_walls=walls,
        counts_processes=namespaces.COUNT_PROCESSES and bool(walls) and rlimits.counts_processes(),
    )
    _filter(Limits())
    return plan


def fork(plan: Plan, limits: Limits) -> int:
    """os.fork for a child that is going to `confine` itself to these limits."""
    if sys.platform != "linux":
        return os.fork()
    from grader.sandbox.walls import namespaces

    # Compiled on this side of the fork, where the next sandbox finds it again.
    _filter(limits)
    return namespaces.fork(own_pids=plan.namespaces)


def confine(plan: Plan, limits: Limits, scratch: Path) -> list[str]:
    """Raise the walls around this process; returns the names of those that held, as in `WALLS`.

    Args:
        scratch: an empty folder, the only one that this process may write to afterwards. It becomes
            the working directory. What is in it may be invisible from outside.

    Raises:
        SandboxError: there is more than one thread; the others would stay outside of the walls.
    """
    held = _own_group()
    if sys.platform != "linux":
        held += ["rlimits"] * _limit(limits, threads=None)
        return _ordered(held)
    _check_alone()
    _die_first()
    held += _own_namespaces(plan, limits, scratch)
    counted = limits.threads if plan.counts_processes and "user_namespace" in held else None
    held += ["rlimits"] * _limit(limits, threads=counted)
    held += _give_up_privileges()
    held += _restrict_files(plan, limits, scratch)
    held += _filter_calls(limits)
    return _ordered(held)


def _ordered(held: Sequence[str]) -> list[str]:
    return [wall for wall in WALLS if wall in held]


def _own_group() -> list[str]:
    if not hasattr(os, "setsid"):
        return []
    with contextlib.suppress(PermissionError):  # leads a group already
        os.setsid()
    return ["process_group"]


def _check_alone() -> None:
    threads = len(list(Path("/proc/self/task").iterdir()))
    if threads > 1:
        raise SandboxError(f"a sandbox of {threads} threads cannot be confined; fork it from one")


def _die_first() -> None:
    """Be the first to go where memory runs out, with all children: not the fork server, nor the judge.

    It shares pages with every sandbox and so may look larger than any of them.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def _own_namespaces(plan: Plan, limits: Limits, scratch: Path) -> list[str]:
    from grader.sandbox.walls import namespaces

    syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not plan.namespaces:
        return []
    held = [w for w in plan.outer_walls if w != "pid_namespace" or os.getpid() == 1]
    counted = namespaces.limit_processes() or plan.counts_processes
    held += ["process_limit"] * counted + namespaces.isolate()
    if "mount_namespace" in held:
        held += _own_folders(plan, limits, scratch, rooted="private_root" in held)
    return held + namespaces.own_user_namespace()


def _own_folders(plan: Plan, limits: Limits, scratch: Path, *, rooted: bool) -> list[str]:
    from grader.sandbox.walls import namespaces

    if limits.processes:
        namespaces.private_folder(_SHARED_MEMORY, limits.memory_bytes)
    # Behind a private root all of /tmp is the sandboxes', so that there is no common ground at all.
    # Where the Python environment lies there, too, it is sealed instead.
    common = rooted and scratch.is_relative_to(_TEMPORARY)
    shown = any(path.is_relative_to(_TEMPORARY) for path in plan.readable)
    covered = _TEMPORARY if common and not shown else scratch
    covered.mkdir(parents=True, exist_ok=True)
    private = namespaces.private_folder(covered, limits.scratch_bytes)
    if common and shown:
        namespaces.seal(_TEMPORARY)
    scratch.mkdir(parents=True, exist_ok=True)
    # The old one is covered by now.
    os.chdir(scratch)
    return ["private_scratch"] * private


def _limit(limits: Limits, threads: int | None) -> bool:
    return rlimits.limit(
        cpu_seconds=limits.cpu_seconds,
        memory_bytes=limits.memory_bytes,
        file_bytes=limits.file_bytes,
        open_files=limits.open_files,
        processes=threads,
    )


def _give_up_privileges() -> list[str]:
    syscalls.drop_capabilities()
    syscalls.prctl(_PR_SET_DUMPABLE, 0)
    syscalls.prctl(_PR_SET_NO_NEW_PRIVS, 1)
    return ["capabilities", "no_new_privs"]


def _restrict_files(plan: Plan, limits: Limits, scratch: Path) -> list[str]:
    if plan.landlock_abi == 0:
        return []
    own = landlock.SHARED_MEMORY if limits.processes else landlock.SCRATCH
    grants = [(path, landlock.READ) for path in plan.readable]
    grants += [(Path(each), landlock.READ) for each in (*_DEVICES, *_FACTS)]
    grants += [(Path(each), landlock.SCRATCH) for each in _WRITABLE_DEVICES]
    grants.append((scratch, own))
    if limits.processes:
        grants.append((_SHARED_MEMORY, own))
    if limits.loopback:
        grants += [(Path(each), landlock.READ) for each in _ADDRESSES]
    landlock.restrict(plan.landlock_abi, grants, tcp=limits.loopback)
    return ["landlock"]


def _filter(limits: Limits) -> bytes | None:
    try:
        return seccomp.compile_filter(processes=limits.processes, loopback=limits.loopback)
    except (ImportError, RuntimeError, OSError):
        return None


def _filter_calls(limits: Limits) -> list[str]:
    program = _filter(limits)
    if program is None:
        return []
    seccomp.load(program)
    return ["seccomp"]
