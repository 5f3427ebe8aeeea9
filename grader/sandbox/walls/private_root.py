"""A private root folder of the fork server, with the system's libraries and the Python environment.

The fork server does here the work of bubblewrap, with fewer features. So the user's files are hidden even if
bubblewrap is not installed, and a sandbox sees the same with and without it. Landlock is not enough: it
neither hides whether a file exists, nor stops connections to the socket of a desktop's or a container's daemon.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from grader.sandbox.walls import syscalls
from grader.sandbox.walls.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
)

TEMPORARY_BYTES = 256 * 1024 * 1024
# The new root is built over a folder that we do not need: /sys, or a folder that bubblewrap makes for this,
# since it has no /sys. It is not /tmp, where a Python environment may be.
MOUNT_POINT = "/.grader"
_BASE = Path("/sys") if Path("/sys").is_dir() else Path(MOUNT_POINT)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_DEVICE_LINKS = {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
# With these, gloo and getaddrinfo find this machine, and no names of its network.
_SETTINGS = {
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "hosts: files\n",
}

_MNT_DETACH = 2
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID = 1, 2


class _MountAttributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user"))


def enter_private_root(readable: Iterable[Path]) -> bool:
    """Make a root with only these paths, read-only, and enter it; return False if that is not possible.

    Needs our own user and mount namespaces. Open files stay open. /tmp is empty and bounded.
    """
    try:
        syscalls.mount("none", "/", None, MS_REC | MS_PRIVATE, None)
        _build(readable)
    except OSError:
        return False
    os.chdir(_BASE)
    # The old root ends up on top of the new one, at the same place, and is unmounted.
    syscalls.pivot_root(".", ".")
    syscalls.umount(".", _MNT_DETACH)
    os.chdir("/")
    return True


def _build(readable: Iterable[Path]) -> None:
    """Mount the new root below `_BASE`: paths, devices, settings, processes; then make it read-only."""
    quiet = MS_NOSUID | MS_NODEV
    syscalls.mount("tmpfs", str(_BASE), "tmpfs", quiet, "size=1m,mode=0755")
    for folder in ("etc", "tmp", "proc"):
        (_BASE / folder).mkdir(exist_ok=True)
    options = f"size={TEMPORARY_BYTES},mode=1777"
    syscalls.mount("tmpfs", str(_BASE / "tmp"), "tmpfs", quiet, options)
    # After /tmp, where a Python environment may be.
    for path in outermost(readable):
        _show(path)
    _show_devices()
    for name, text in _SETTINGS.items():
        (_BASE / "etc" / name).write_text(text)
    _show_processes()
    syscalls.mount("none", str(_BASE), None, MS_REMOUNT | MS_BIND | MS_RDONLY | quiet, None)


def _show(path: Path) -> None:
    """Bind one path read-only to its place in the new root, or copy it if it is a link."""
    inside = _BASE / path.relative_to("/")
    inside.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        inside.symlink_to(path.readlink())
        return
    _bind(path, inside)
    attributes = _MountAttributes(set=_ATTR_RDONLY | _ATTR_NOSUID)
    # Remounting would need one call for each mount below, with its own flags.
    syscalls.call(
        _SYS_MOUNT_SETATTR,
        _AT_FDCWD,
        ctypes.c_char_p(os.fsencode(inside)),
        _AT_RECURSIVE,
        ctypes.cast(ctypes.byref(attributes), ctypes.c_void_p),
        ctypes.sizeof(attributes),
    )


def _show_devices() -> None:
    devices = _BASE / "dev"
    (devices / "shm").mkdir(parents=True)
    for name in _DEVICES:
        _bind(Path("/dev", name), devices / name)
    for name, target in _DEVICE_LINKS.items():
        (devices / name).symlink_to(target)


def _show_processes() -> None:
    inside = str(_BASE / "proc")
    try:
        syscalls.mount("proc", inside, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
    except OSError:
        # Forbidden if parts of the old one are covered, as by bubblewrap for root. The old one shows
        # bubblewrap's processes, which are ours.
        _bind(Path("/proc"), Path(inside))


def _bind(path: Path, inside: Path) -> None:
    if path.is_dir():
        inside.mkdir(exist_ok=True)
    else:
        inside.touch()
    syscalls.mount(str(path), str(inside), None, MS_BIND | MS_REC, None)


def outermost(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the existing paths that are not inside another of them, once each."""
    outer: list[Path] = []
    for path in sorted(set(paths)):
        # Path.exists would raise if a parent folder may not be searched.
        reachable = os.path.exists(path)  # noqa: PTH110 (see above)
        if reachable and not any(path.is_relative_to(other) for other in outer):
            outer.append(path)
            yield path
