"""Large pages for what every sandbox shares: a fork copies the page tables, which get far shorter.

Of the 16 ms of processor time that a sandbox with all walls costs, 10 go into copying and dropping the tables
of torch's 250 MB, a page of 4 KiB at a time. Collapsing them takes 0.2 s, once: worth it for a class, and
not for one submission. A fork still copies what it writes to by small pages.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import sys
from pathlib import Path

__all__ = ["collapse"]

_MADV_COLLAPSE = 25
_SIZE = 2 * 2**20
# Private memory without a file, written to: the heap and Python's arenas.
_ANONYMOUS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *(?:\[heap\])?\n")


def collapse() -> None:
    """Collapse this process's memory into large pages, where the kernel can (Linux 6.1)."""
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    with contextlib.suppress(OSError):
        for start, end in _ANONYMOUS.findall(Path("/proc/self/maps").read_text()):
            first, last = -(-int(start, 16) // _SIZE), int(end, 16) // _SIZE
            for page in range(first, last):
                # One by one, since a hole ends the call for all that follows it. What cannot be
                # collapsed stays as it is, which is no error.
                madvise(ctypes.c_void_p(page * _SIZE), ctypes.c_size_t(_SIZE), _MADV_COLLAPSE)
