"""Removing a folder that an enemy has filled: however deep, and whatever may not be entered."""

from __future__ import annotations

import contextlib
import stat
from collections import deque
from pathlib import Path

__all__ = ["remove_tree"]


def remove_tree(folder: Path) -> None:
    """Remove the folder, as far as that is allowed; links are removed, not followed.

    Not `shutil.rmtree`: it recurses, so that a thousand folders in one another end it, and whoever
    called it, with a RecursionError; and it stops at a folder of mode 0. Here each inner folder is
    first moved up to the top, so that no path and no stack grows. Nobody else may be writing there.
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
