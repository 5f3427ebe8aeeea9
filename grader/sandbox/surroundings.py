"""What a process with student code has around it, besides walls: its environment, its streams, its folder."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

__all__ = ["print_to_descriptors", "sandbox_environment", "use_scratch"]


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
        open(n, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 (stay open)
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
