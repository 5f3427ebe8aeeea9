"""Surroundings of a process with student code, besides walls: its environment, its streams, its folder."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any


def sandbox_environment() -> dict[str, str]:
    """All that a sandbox finds in its environment: nothing of the caller's but where Python is."""
    environment = {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "MPLBACKEND": "Agg",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        # Judged on the CPU, the same everywhere; and a CUDA context does not survive a fork.
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",
        # Each arena of glibc's takes address space, which is limited.
        "MALLOC_ARENA_MAX": "2",
        # Of torch's profiler, which guards calls: it would write a line wherever it begins and ends.
        "KINETO_LOG_LEVEL": "99",
        # Read by macOS: the frameworks that torch links refuse to work after a fork without it.
        "OBJC_DISABLE_INITIALIZE_FORK_SAFETY": "YES",
    }
    # Windows starts no Python without this one.
    if "SYSTEMROOT" in os.environ:
        environment["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
    return environment


def print_to_descriptors() -> None:
    """Give Python streams over descriptors 1 and 2 that hold nothing back.

    What is printed keeps its order, and is not lost with the process.
    """
    sys.stdout, sys.stderr = (
        open(n, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115 (stay open)
        for n in (1, 2)
    )


def use_scratch(scratch: Path) -> None:
    """Have this process put its temporary files and caches there, and nowhere else.

    Without a cache of its own matplotlib complains, and has its fonts looked up each time.
    """
    tempfile.tempdir = str(scratch)
    os.environ.update(
        dict.fromkeys(("HOME", "TMPDIR", "MPLCONFIGDIR", "XDG_CACHE_HOME"), str(scratch))
    )


def pretend_modes(scratch: Path) -> None:
    """Have files in the scratch folder keep mode and times where they are to change, and no error come of it.

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


def remove_tree(folder: Path) -> None:
    """Remove the folder, as far as that is allowed; links are removed, not followed.

    Not `shutil.rmtree`: it recurses, so that a thousand folders in one another end it, and its
    caller, with a RecursionError; and it stops at a folder of mode 0. Here each inner folder is
    first moved up to the top, so that no path and no stack grows. No other process may be writing there.
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
    """Remove the files of a folder, and move the folders in it to the top; returns these."""
    moved: list[Path] = []
    for entry in list(current.iterdir()):
        with contextlib.suppress(OSError):
            mode = entry.lstat().st_mode
            if not stat.S_ISDIR(mode):
                entry.unlink()
                continue
            # A folder that may not be written to may not be moved either.
            entry.chmod(0o700)
            moved.append(entry.rename(top / f".{count}-{len(moved)}-{entry.lstat().st_ino}"))
    return moved
