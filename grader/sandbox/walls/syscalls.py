"""Linux system calls that Python 3.11 does not offer, through ctypes, with errors as OSError."""

from __future__ import annotations

import ctypes
import functools
import os

from grader.sandbox.walls.wall import Site

CLONE_NEWNS = 0x0002_0000
CLONE_NEWUTS = 0x0400_0000
CLONE_NEWIPC = 0x0800_0000
CLONE_NEWUSER = 0x1000_0000
CLONE_NEWPID = 0x2000_0000
CLONE_NEWNET = 0x4000_0000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x4_0000
PR_SET_PDEATHSIG = 1

_CAPABILITY_VERSION_3 = 0x2008_0522
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT = 4, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int, action: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{action}: {os.strerror(number)}")
    return result


def call(number: int, *arguments: int | ctypes.c_void_p | ctypes.c_char_p | None) -> int:
    """Make the system call of this number, for calls without a function in the C library."""
    # In varargs, ctypes would pass a Python int as a C int, and 64-bit arguments would be truncated.
    wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    function = _libc().syscall
    function.restype = ctypes.c_long
    return _checked(function(ctypes.c_long(number), *wide), f"system call {number}")


def prctl(option: int, *arguments: int) -> int:
    """Change or read an attribute of this process; see prctl(2)."""
    padded = [*arguments, 0, 0, 0, 0][:4]
    return _checked(
        _libc().prctl(ctypes.c_int(option), *map(ctypes.c_ulong, padded)), f"prctl {option}"
    )


def unshare(flags: int) -> None:
    """Move this process into new namespaces of the kinds that the flags name; see unshare(2)."""
    _checked(_libc().unshare(ctypes.c_int(flags)), "unshare")


def setns(descriptor: int, kind: int) -> None:
    """Enter the namespace that the descriptor refers to."""
    _checked(_libc().setns(ctypes.c_int(descriptor), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
    """Mount a file system; see mount(2)."""
    strings = [None if s is None else os.fsencode(s) for s in (source, target, kind, options)]
    source_, target_, kind_, options_ = strings
    _checked(
        _libc().mount(source_, target_, kind_, ctypes.c_ulong(flags), options_), f"mount {target}"
    )


def umount(target: str, flags: int) -> None:
    """Unmount a file system; see umount2(2)."""
    _checked(_libc().umount2(os.fsencode(target), ctypes.c_int(flags)), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    """Make a mounted folder the root, and move the old root to another; see pivot_root(2)."""
    _checked(_libc().pivot_root(os.fsencode(new), os.fsencode(old)), "pivot_root")


def set_host_name(name: str) -> None:
    """Set the host name in our UTS namespace."""
    encoded = os.fsencode(name)
    _checked(_libc().sethostname(encoded, ctypes.c_size_t(len(encoded))), "sethostname")


def drop_capabilities(site: Site) -> bool:  # noqa: ARG001 (an interface)
    """Give up every capability, in all sets that a process may reduce."""
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    _checked(_libc().capset(header, nothing), "capset")
    return True


def gain_no_privileges(site: Site) -> bool:  # noqa: ARG001 (an interface)
    """Gain no rights by starting a program, and forbid processes of the same user to inspect this one."""
    prctl(_PR_SET_DUMPABLE, 0)
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    return True
