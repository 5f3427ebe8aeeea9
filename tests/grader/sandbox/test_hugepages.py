"""Collapsing memory into large pages changes none of its contents."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import ctypes, mmap, os, re
from pathlib import Path
from grader.sandbox.inside.warmup import collapse

MB = 1 << 20
MADV_COLLAPSE = 25

def large():
    found = re.search(r"AnonHugePages:\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    return int(found[1]) * 1024

def possible():
    # The bytes of a plain mapping that the kernel can collapse now.
    plain = mmap.mmap(-1, 32 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    plain.write(b"x" * len(plain))
    at = ctypes.addressof(ctypes.c_char.from_buffer(plain))
    pages = range(-at % (2 * MB), len(plain) - 2 * MB + 1, 2 * MB)
    madvise = ctypes.CDLL(None).madvise
    asked = [(ctypes.c_void_p(at + page), ctypes.c_size_t(2 * MB)) for page in pages]
    return 2 * MB * sum(madvise(*each, MADV_COLLAPSE) == 0 for each in asked)

could = possible()
held = [str(number) * 3 for number in range(600_000)]
before = large()
collapse()
after = large()
# Others may have taken large pages meanwhile, or have given some back.
could = min(could, possible())
assert all(each == str(number) * 3 for number, each in enumerate(held))
child = os.fork()
if child == 0:
    held[0] = "the child's own"
    os._exit(held[599_999] != "599999" * 3)
assert os.waitpid(child, 0)[1] == 0
assert held[0] == "000"
print(could, after - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_collapsed_memory_is_unchanged_and_in_large_pages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    could, collapsed = map(int, done.stdout.split())
    if could == 0:
        pytest.skip("this kernel cannot collapse memory or has no large page left")
    # The strings and the list take about 45 MB. A machine short of large pages collapses fewer.
    assert collapsed >= min(6 << 20, could // 4), (collapsed, could)
