"""Landlock: a sandbox permanently restricts its own access to files, ports, sockets and processes.

Up to ABI 7, Landlock has gaps, which other walls cover. seccomp refuses calls that change modes, owners, times
or attributes of files, or watch them. seccomp also refuses sockets, so there are no connections to a Unix
socket with a path; if an exercise needs processes, bubblewrap hides these paths. Only bubblewrap hides
whether a file with a known name exists.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from grader.sandbox.walls import syscalls
from grader.sandbox.walls.wall import Site, refused

# The numbers are the same on every architecture except alpha.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_CREATE_VERSION = 1
_RULE_PATH_BENEATH = 1
# Since ABI 7, denied accesses are written to the audit log, which a hostile loop must not fill.
_LOG_SAME_EXEC_OFF = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE = 1 << 4, 1 << 5
_MAKE_DIR, _MAKE_REG, _MAKE_SOCK = 1 << 7, 1 << 8, 1 << 9
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE

# _EXECUTE is never granted: a shared library is mapped, not executed, so imports work without it.
READ = _READ_FILE | _READ_DIR
# Without symbolic links and device nodes, which could mislead the removal of the folder.
SCRATCH = (
    READ | _WRITE_FILE | _TRUNCATE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _REFER
)
# A scratch in which multiprocessing may also put its sockets.
SHARED_MEMORY = SCRATCH | _MAKE_SOCK

_SHARED_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 (made private by `namespaces`)
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Harmless facts about the machine that OpenMP and torch read.
_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")
# gloo and getaddrinfo read these to find this machine. They accept that a file is missing, but not that access
# is refused.
_ADDRESSES = ("/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/sys/bus/pci", "/sys/devices")

# The number of rights over files in each ABI; requesting an unknown right is an error.
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_FILE_RIGHTS_NOW = 16
_NET_BIND_AND_CONNECT = 0b11
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def abi() -> int:
    """Return the version of Landlock that this kernel offers, 0 for none."""
    try:
        return syscalls.call(_CREATE_RULESET, None, 0, _CREATE_VERSION)
    except (OSError, AttributeError):
        return 0


def restrict(version: int, grants: Iterable[tuple[Path, int]], *, tcp: bool) -> None:
    """Restrict this process to these files and folders, and to no TCP unless `tcp`.

    Needs `no_new_privs`. Paths that do not exist are skipped.
    """
    handled = (1 << _FILE_RIGHTS.get(version, _FILE_RIGHTS_NOW)) - 1
    ruleset = _create(version, handled, tcp=tcp)
    try:
        for path, rights in grants:
            _grant(ruleset, path, rights & handled)
        flags = _LOG_SAME_EXEC_OFF if version >= 7 else 0
        syscalls.call(_RESTRICT_SELF, ruleset, flags)
    finally:
        os.close(ruleset)


def restrict_files(site: Site) -> bool:
    """Restrict this process to the Python environment, the scratch folder and the needs of the exercise."""
    plan, limits = site.plan, site.limits
    if plan.landlock_abi == 0:
        return False
    own = SHARED_MEMORY if limits.processes else SCRATCH
    grants = [(path, READ) for path in (*plan.readable, *map(Path, (*_DEVICES, *_FACTS)))]
    grants += [(Path(os.devnull), SCRATCH), (site.scratch, own)]
    if limits.processes:
        grants.append((_SHARED_MEMORY_FOLDER, own))
    if limits.loopback:
        grants += [(Path(path), READ) for path in _ADDRESSES]
    restrict(plan.landlock_abi, grants, tcp=limits.loopback)
    return True


def why_not() -> tuple[str, str]:
    """Return the reason why this wall is missing here, and a remedy."""
    if abi() == 0:
        return (
            "the kernel is older than Linux 5.13, or was started without Landlock",
            "add landlock to the kernel's parameter lsm=, or use a newer kernel",
        )
    return refused()


def _create(version: int, handled: int, *, tcp: bool) -> int:
    attributes = _Ruleset(handled)
    if version >= 4 and not tcp:
        attributes.handled_access_net = _NET_BIND_AND_CONNECT
    if version >= 6:
        attributes.scoped = _SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS
    # An older kernel accepts unknown fields that are zero.
    pointer = ctypes.cast(ctypes.byref(attributes), ctypes.c_void_p)
    return syscalls.call(_CREATE_RULESET, pointer, ctypes.sizeof(attributes), 0)


def _grant(ruleset: int, path: Path, rights: int) -> None:
    """Grant these rights on a path and below it; for a file, only the rights that files have."""
    with contextlib.suppress(FileNotFoundError, PermissionError, NotADirectoryError):
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
                rights &= _OF_FILES
            rule = _PathBeneath(rights, descriptor)
            pointer = ctypes.cast(ctypes.byref(rule), ctypes.c_void_p)
            syscalls.call(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, pointer, 0)
        finally:
            os.close(descriptor)
