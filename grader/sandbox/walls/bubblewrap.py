"""bubblewrap, the outermost wall: the command that runs the fork server in it, and the visible paths."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from grader.sandbox.walls import namespaces
from grader.sandbox.walls.private_root import MOUNT_POINT, TEMPORARY_BYTES, outermost

_PROBE_SECONDS = 10
_USER = "1000"
_PREFIX_PARTS = ("bin", "lib", "lib64", "share", "pyvenv.cfg")
_SYSTEM_FOLDERS = ("/usr",)
# Links into /usr on most systems, separate folders on others.
_SYSTEM_ROOTS = ("/lib", "/lib32", "/lib64", "/libx32", "/bin", "/sbin")
_SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    # It has only links between the system's libraries.
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/fonts",
)


def python_environment() -> list[Path]:
    """Return the paths of this Python and of the sandbox's side of the grader.

    Only the code that runs beside student code is included: in an editable installation, the course, its hidden
    suites and its solutions are next to the grader.
    """
    grader = Path(__file__).resolve().parents[2]
    prefixes = {Path(prefix) for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    # Only parts of a prefix, since the course's own folder may be a virtual environment.
    paths = {prefix / part for prefix in prefixes for part in _PREFIX_PARTS}
    paths |= {Path(path) for path in sys.path if Path(path).name.endswith("-packages")}
    paths |= {grader / "__init__.py", grader / "errors.py", grader / "sandbox"}
    # For a link, both paths: Python uses the one, the kernel the other.
    return sorted(path for path in paths | {path.resolve() for path in paths} if path.exists())


def system_files() -> list[Path]:
    """Return the system's libraries and settings that Python needs to start and to import."""
    return [Path(path) for path in (*_SYSTEM_FOLDERS, *_SYSTEM_ROOTS, *_SYSTEM_FILES)]


def bubblewrapped(
    argv: Sequence[str], *, readable: Sequence[Path], environment: Mapping[str, str]
) -> list[str] | None:
    """Return the command that runs `argv` inside bubblewrap, None if that does not work here.

    Inheritable descriptors stay open. The process sees the system's libraries, the readable paths, an empty
    bounded /tmp, a minimal /dev, and its own processes, but no network.
    """
    program = _program()
    if program is None:
        return None
    return [program, *_options(readable, environment), "--", *argv]


def why_not() -> tuple[str, str]:
    """Return the reason why this wall is missing here, and a remedy."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed", "install the package bubblewrap"
    return "bubblewrap is installed but does not work here", namespaces.why_not()[1]


@functools.cache
def _program() -> str | None:
    program = shutil.which("bwrap")
    if program is None:
        return None
    command = [program, *_options([], {}), "--", "/usr/bin/true"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return program if done.returncode == 0 else None


def _options(readable: Sequence[Path], environment: Mapping[str, str]) -> list[str]:
    """Return the options of bwrap: nothing shared, the paths read-only, and only this environment."""
    options = ["--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    # Not as user 0 inside, which may not make a user namespace without a capability, and every sandbox makes
    # one.
    options += ["--uid", _USER, "--gid", _USER, "--hostname", "localhost"]
    options += ["--proc", "/proc", "--dev", "/dev", "--dir", MOUNT_POINT]
    options += ["--size", str(TEMPORARY_BYTES), "--tmpfs", "/tmp", *_system()]  # noqa: S108
    system = [Path(path) for path in _SYSTEM_FOLDERS]
    for path in outermost([*system, *readable]):
        options += ["--ro-bind", str(path), str(path)]
    options += ["--chdir", "/", "--clearenv"]
    for name, value in environment.items():
        options += ["--setenv", name, value]
    return options


def _system() -> Iterator[str]:
    for path in map(Path, (*_SYSTEM_ROOTS, *_SYSTEM_FILES)):
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        else:
            yield from ("--ro-bind-try", str(path), str(path))
