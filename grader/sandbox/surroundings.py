"""The surroundings of a process with student code: environment, streams, folder, command line."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import stat
import sys
import sysconfig
import tempfile
import types
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any


def sandbox_environment() -> dict[str, str]:
    """Return the environment of a sandbox; it has none of the caller's variables, except on Windows."""
    environment = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        # Libraries ask for the user's name, and a sandbox has no list of users.
        "USER": "student",
        "LOGNAME": "student",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # Code is judged on the CPU, the same on every machine; and a CUDA context does not survive a fork.
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",
        # Each arena of glibc takes address space, which is limited.
        "MALLOC_ARENA_MAX": "2",
        # Otherwise torch's profiler prints a line whenever it begins or ends.
        "KINETO_LOG_LEVEL": "99",
        # For macOS, where frameworks that torch links otherwise refuse to work after a fork.
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
    }
    # Python does not start on Windows without this one.
    if "SYSTEMROOT" in os.environ:
        environment["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return environment


def open_standard_streams() -> None:
    """Open the null device as each of the descriptors 0 to 2 that is closed.

    Otherwise, the next file or socket would get that number, and would be redirected in every child process.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            # This gets the lowest free number, since smaller ones are already open.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 (stays open)


def print_to_descriptors() -> None:
    """Give Python line-buffered streams over descriptors 1 and 2.

    Output keeps its order, and is not lost if the process dies. Programs that replace `sys.stdout` rely on
    `sys.__stdout__` to keep its descriptor open.
    """
    sys.stdout, sys.stderr = (
        open(n, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 (stay open)
        for n in (1, 2)
    )
    vars(sys).update(__stdout__=sys.stdout, __stderr__=sys.stderr)


# The calls below the student's own, of the 1000 that Python allows.
_OWN_CALLS = 50


def become_program(module: types.ModuleType, file: str) -> None:
    """Give a module the surroundings of a program of its own, started as `python glu.py`.

    There are no arguments, `__main__` is the module (though its `__name__` is another), Python's whole stack is
    free, and the start method of processes is not chosen yet.
    """
    sys.argv = [Path(file).name]
    sys.orig_argv = ["python", *sys.argv]
    sys.modules["__main__"] = module
    sys.setrecursionlimit(sys.getrecursionlimit() + _OWN_CALLS)
    if (multiprocessing := sys.modules.get("multiprocessing")) is not None:
        multiprocessing.set_start_method(None, force=True)


def keep_open(*descriptors: int) -> None:
    """Have os.close and os.closerange skip these descriptors.

    Some programs close every descriptor that they may have inherited.
    """
    close, close_range = os.close, os.closerange

    def close_other(fd: int) -> None:
        if fd in descriptors:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        close(fd)

    def close_others(fd_low: int, fd_high: int, /) -> None:
        for descriptor in sorted(descriptors):
            close_range(fd_low, min(fd_high, descriptor))
            fd_low = max(fd_low, descriptor + 1)
        close_range(fd_low, fd_high)

    os.close, os.closerange = close_other, close_others


def use_scratch(scratch: Path) -> None:
    """Have this process put its temporary files and caches into this folder.

    Without a cache of its own, matplotlib prints a warning and searches for fonts each time.
    """
    tempfile.tempdir = str(scratch)
    os.environ.update(
        dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME"), str(scratch))
    )


def pretend_modes(scratch: Path) -> None:
    """Have changes of mode and times do nothing in the scratch folder, instead of raising.

    The walls refuse these calls everywhere, and `shutil.copy` makes one after each copy.
    """
    os.chmod = functools.partial(_unchanged, os.chmod, os.path.realpath(scratch))
    os.utime = functools.partial(_unchanged, os.utime, os.path.realpath(scratch))


def _unchanged(
    change: Callable[..., None], scratch: str, path: Any, *arguments: Any, **keywords: Any
) -> None:
    try:
        change(path, *arguments, **keywords)
    except PermissionError:
        if isinstance(path, int) or not Path(os.path.realpath(path)).is_relative_to(scratch):
            raise


def without_paths(text: str) -> str:
    """Return the text with paths shortened to `torch/nn/init.py`, without the folders of Python or scratch.

    Use it for output and exceptions of a sandbox: students must not learn where the grader is installed.
    """
    return _own_paths().sub("", text) if "/" in text or "\\" in text else text


@functools.cache
def _own_paths() -> re.Pattern[str]:
    """Return a pattern of the folders to cut off; folders of the system (`/usr`) may stay."""
    installed = sysconfig.get_paths()
    places = ("stdlib", "platstdlib", "purelib", "platlib")
    paths = [
        Path(path) for path in (sys.prefix, sys.base_prefix, *map(installed.get, places)) if path
    ]
    paths.append(Path(__file__).resolve().parents[2])
    paths += [path.resolve() for path in paths]
    names = {str(path) for path in paths if len(path.parts) > 2}
    cut = [re.escape(name) for name in sorted(names, key=len, reverse=True)]
    roots = {tempfile.gettempdir(), "/tmp", "/var/tmp"}  # noqa: S108 (a name to look for)
    cut += [rf"{re.escape(root)}[/\\]grade-\w+(?:[/\\]tmp\w+)?" for root in sorted(roots)]
    return re.compile(rf"(?:{'|'.join(cut)})(?:[/\\]|(?![\w.-]))")


def remove_tree(folder: Path) -> None:
    """Remove the folder as far as possible; links are removed, not followed. No other process may write there.

    `shutil.rmtree` does not do: it recurses, so a thousand nested folders would raise a RecursionError, and it
    stops at a folder of mode 0. Here each inner folder is first moved to the top, so neither paths nor the
    stack grow.
    """
    waiting = deque([folder])
    while waiting:
        current = waiting.popleft()
        with contextlib.suppress(OSError):
            current.chmod(0o700)
            waiting += _emptied(current, folder, len(waiting))
        if current != folder:
            with contextlib.suppress(OSError):
                current.rmdir()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _emptied(current: Path, top: Path, count: int) -> list[Path]:
    """Remove the files of a folder, and move its folders to the top; return these."""
    moved: list[Path] = []
    for entry in list(current.iterdir()):
        with contextlib.suppress(OSError):
            mode = entry.lstat().st_mode
            if not stat.S_ISDIR(mode):
                entry.unlink()
                continue
            # A folder without write permission cannot be moved.
            entry.chmod(0o700)
            moved.append(entry.rename(top / f".{count}-{len(moved)}-{entry.lstat().st_ino}"))
    return moved
