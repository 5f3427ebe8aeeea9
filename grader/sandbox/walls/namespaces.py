"""Namespaces: a sandbox's own processes, network, shared memory and scratch, which end with it.

The fork server enters a user namespace of its own first (`enter`), with a pid namespace in which it
is the first process: whatever happens to it, nothing that it started outlives it. Owning that user
namespace it may make a pid namespace for each of its children without a further fork (`fork`),
which would cost a copy of torch's page tables. The child then leaves the rest (`isolate`).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
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
)

_PR_SET_PDEATHSIG = 1
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REMOUNT = 1, 2, 4, 8, 32
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
_PROC_FLAGS = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41
_INODES = 16_384
_KERNEL = tuple(int(each) for each in re.findall(r"\d+", os.uname().release)[:2])
# Before Linux 5.14 a user's processes were counted over all namespaces, so that a limit would hit
# whoever has a browser open.
COUNT_PROCESSES = _KERNEL >= (5, 14)
# Below 301 the kernel refuses: that many numbers are its own.
_LEAST_PID_MAX = 301


def enter(readable: Iterable[Path]) -> list[str]:
    """Go on in a child that is the first process of its own namespaces; returns the walls that held.

    The process that called only waits for this child and passes on how it ended; killing either
    ends both, and everything that the child has started. The child sees the readable paths alone.
    """
    user, group = os.getuid(), os.getgid()
    try:
        syscalls.unshare(CLONE_NEWUSER)
        _map(user, group)
        # Only now: without the rights in the user namespace, no child could be forked any more.
        syscalls.unshare(CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET | CLONE_NEWUTS)
    except OSError:
        return []
    if child := os.fork():
        _pass_on(child)
    syscalls.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    syscalls.set_host_name("localhost")
    with contextlib.suppress(OSError):
        _raise_loopback()
    return ["pid_namespace"] + ["private_root"] * enter_private_root(readable)


def fork(*, own_pids: bool) -> int:
    """os.fork, with the child as the first process of a pid namespace if asked for."""
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


def isolate() -> list[str]:
    """Leave the shared mount, IPC and network namespaces; returns the walls that held.

    Takes rights in the user namespace that was entered, so `own_user_namespace` comes after this
    and after everything else that mounts.
    """
    try:
        syscalls.unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET)
        syscalls.mount("none", "/", None, _MS_REC | _MS_PRIVATE, None)
    except OSError:
        return []
    with contextlib.suppress(OSError):
        # Only our own processes in it, for kernels without Landlock. May be forbidden: see
        # `private_root`.
        syscalls.mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, None)
    with contextlib.suppress(OSError):
        _raise_loopback()
    return ["mount_namespace", "ipc_namespace", "network_namespace"]


def own_user_namespace() -> list[str]:
    """Leave the fork server's user namespace and its rights; returns the wall if it held."""
    user, group = os.getuid(), os.getgid()
    try:
        syscalls.unshare(CLONE_NEWUSER | CLONE_NEWNS)
        _map(user, group)
        # Root without any capability may still set the machine's parameters. Not mounted read-only
        # from the start, as the maps are written there.
        syscalls.mount("none", "/proc", None, _MS_REMOUNT | _MS_BIND | _PROC_FLAGS, None)
    except OSError:
        return []
    return ["user_namespace"]


def private_folder(path: Path, size_bytes: int) -> bool:
    """Put an empty file system of its own over a folder: bounded, unseen by others, gone with us."""
    # noexec also refuses to map a library that the student wrote there. Inodes are memory, too.
    flags = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
    options = f"size={size_bytes},nr_inodes={_INODES},mode=0700"
    try:
        syscalls.mount("tmpfs", str(path), "tmpfs", flags, options)
    except OSError:
        return False
    return True


def seal(mounted: Path) -> None:
    """Make a file system read-only for this process and its children; not what is mounted on it."""
    flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NOSUID | _MS_NODEV
    with contextlib.suppress(OSError):
        syscalls.mount("none", str(mounted), None, flags, None)


def limit_processes() -> bool:
    """Allow about 300 processes and threads in the pid namespace that we are the first in.

    RLIMIT_NPROC does not hold for root. Only since Linux 6.14 is the number the namespace's own:
    before, root would set it for the whole machine.
    """
    if os.getpid() != 1 or _KERNEL < (6, 14):
        return False
    try:
        Path("/proc/sys/kernel/pid_max").write_text(str(_LEAST_PID_MAX))
    except OSError:
        return False
    return True


def _map(user: int, group: int) -> None:
    # Without this a process that is not root may not write the map of groups.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _pass_on(child: int) -> None:
    """Wait for the child, holding nothing, and end as it ended; never returns."""
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
    request = struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, request)
