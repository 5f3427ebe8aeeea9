"""Namespaces: a sandbox's own processes, network, shared memory and scratch folder, which end with it.

The fork server first enters a user namespace and a pid namespace of its own (`enter`). It is the first process
of its pid namespace, so its descendants always end with it. As the owner of the user namespace, it can make a
pid namespace for each child (`fork`) without a second fork, which would copy torch's page tables. The child
then leaves the other namespaces.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import signal
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from grader.sandbox.walls import syscalls
from grader.sandbox.walls.private_root import enter_private_root
from grader.sandbox.walls.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    CLONE_NEWUTS,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    PR_SET_PDEATHSIG,
)
from grader.sandbox.walls.wall import Site

_PROC_FLAGS = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_INODES = 16_384
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (what torch's loaders use, made private)
_TEMPORARY = Path("/tmp")  # noqa: S108 (a file system of the sandbox's own)
_KERNEL = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
# Before Linux 5.14, a user's processes were counted over all namespaces, so an open browser would exhaust the
# limit.
COUNT_PROCESSES = _KERNEL >= (5, 14)
# The kernel refuses less than 301, since it reserves that many numbers.
_LEAST_PID_MAX = 301


def enter(readable: Iterable[Path]) -> list[str]:
    """Go on in a child that is the first process of its own namespaces; return the walls that hold.

    The calling process only waits for this child and ends with its status. Killing either ends both, and all
    descendants of the child. The child sees only the readable paths.
    """
    user, group = os.getuid(), os.getgid()
    try:
        syscalls.unshare(CLONE_NEWUSER)
        _map(user, group)
        # After the map: without rights in the user namespace, no child could be forked any more.
        syscalls.unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS)
    except OSError:
        return []
    if child := os.fork():
        _pass_on(child)
    syscalls.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    syscalls.set_host_name("localhost")
    with contextlib.suppress(OSError):
        _raise_loopback()
    return ["pid_namespace"] + ["private_root"] * enter_private_root(readable)


def fork(*, own_pids: bool) -> int:
    """Fork; with `own_pids`, the child is the first process of a pid namespace."""
    if not own_pids:
        return os.fork()
    syscalls.unshare(CLONE_NEWPID)
    try:
        child = os.fork()
    except OSError:
        _back_to_own_pids()
        raise
    if child:
        _back_to_own_pids()
    return child


def is_first_process(site: Site) -> bool:
    """Whether the fork put this process into a pid namespace of its own."""
    return site.plan.namespaces and os.getpid() == 1


def count_processes(site: Site) -> bool:
    """Bound the number of processes here, or rely on the limit in `rlimits`."""
    return site.plan.namespaces and (limit_processes() or site.plan.counts_processes)


# Each of these needs rights in the user namespace, so `own_user` comes last.


def own_mounts(site: Site) -> bool:
    """Leave the shared mount namespace."""
    if not _left(site, CLONE_NEWNS):
        return False
    syscalls.mount("none", "/", None, MS_REC | MS_PRIVATE, None)
    with contextlib.suppress(OSError):
        # It shows only our own processes, for kernels without Landlock. It may be forbidden, see
        # `private_root`.
        syscalls.mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    return True


def own_memory(site: Site) -> bool:
    """Leave the shared IPC namespace."""
    return _left(site, CLONE_NEWIPC)


def own_network(site: Site) -> bool:
    """Leave the shared network namespace for one with only the loopback interface."""
    if not _left(site, CLONE_NEWNET):
        return False
    with contextlib.suppress(OSError):
        _raise_loopback()
    return True


def own_folders(site: Site) -> bool:
    """Mount private file systems over the folders that a sandbox writes to."""
    if "mount_namespace" not in site.held:
        return False
    limits, scratch = site.limits, site.scratch
    if limits.processes:
        private_folder(_SHARED_MEMORY, limits.memory_bytes)
    # Behind a private root, only sandboxes use /tmp, so all of it is covered and nothing is shared. If the
    # Python environment is in /tmp, it is made read-only instead.
    common = "private_root" in site.held and scratch.is_relative_to(_TEMPORARY)
    shown = any(path.is_relative_to(_TEMPORARY) for path in site.plan.readable)
    covered = _TEMPORARY if common and not shown else scratch
    covered.mkdir(parents=True, exist_ok=True)
    private = private_folder(covered, limits.scratch_bytes)
    if common and shown:
        seal(_TEMPORARY)
    scratch.mkdir(parents=True, exist_ok=True)
    # The old working directory is already covered.
    os.chdir(scratch)
    return private


def own_user(site: Site) -> bool:
    """Leave the fork server's user namespace and its rights."""
    user, group = os.getuid(), os.getgid()
    if not _left(site, CLONE_NEWUSER | CLONE_NEWNS):
        return False
    try:
        _map(user, group)
        # Root without capabilities could still set the machine's parameters. It is not read-only from the
        # start, since the maps are written there.
        syscalls.mount("none", "/proc", None, MS_REMOUNT | MS_BIND | _PROC_FLAGS, None)
    except OSError:
        return False
    return True


def _left(site: Site, flags: int) -> bool:
    if not site.plan.namespaces:
        return False
    try:
        syscalls.unshare(flags)
    except OSError:
        return False
    return True


def why_not() -> tuple[str, str]:
    """Return the reason why namespaces cannot be made here, and a remedy."""
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
        "in a container, allow them (podman, or docker with a suitable seccomp profile)",
    )


def why_not_counted() -> tuple[str, str]:
    """Return the reason why processes are not counted here, and a remedy."""
    return (
        "processes of root are counted only since Linux 6.14",
        "run the grader as an ordinary user",
    )


def private_folder(path: Path, size_bytes: int) -> bool:
    """Mount an empty bounded file system over a folder; others do not see it, and it ends with us."""
    # noexec also refuses to map a library that the student's code wrote there. Inodes take memory, too.
    flags = MS_NOSUID | MS_NODEV | MS_NOEXEC
    options = f"size={size_bytes},nr_inodes={_INODES},mode=0700"
    try:
        syscalls.mount("tmpfs", str(path), "tmpfs", flags, options)
    except OSError:
        return False
    return True


def seal(mounted: Path) -> None:
    """Make a file system read-only for this process and its children, but not file systems mounted in it."""
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV
    with contextlib.suppress(OSError):
        syscalls.mount("none", str(mounted), None, flags, None)


def limit_processes() -> bool:
    """Allow about 300 processes and threads in our pid namespace, if we are its first process.

    RLIMIT_NPROC does not hold for root. Before Linux 6.14, root would set this number for the whole machine.
    """
    if os.getpid() != 1 or _KERNEL < (6, 14):
        return False
    try:
        Path("/proc/sys/kernel/pid_max").write_text(str(_LEAST_PID_MAX))
    except OSError:
        return False
    return True


def _map(user: int, group: int) -> None:
    # Otherwise, only root may write the map of groups.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _pass_on(child: int) -> None:
    """Close all descriptors, wait for the child, and end with its status; never returns."""
    os.closerange(0, os.sysconf("SC_OPEN_MAX"))
    while True:
        with contextlib.suppress(InterruptedError):
            _, status = os.waitpid(child, 0)
            break
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code & 0xFF)


def _back_to_own_pids() -> None:
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    try:
        syscalls.setns(own, CLONE_NEWPID)
    finally:
        os.close(own)


def _raise_loopback() -> None:
    import fcntl  # not on every system, but the table of walls is

    request = struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, request)
