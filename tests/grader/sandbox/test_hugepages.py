"""Collapsing memory into large pages changes no byte of it, and makes the tables of a fork shorter."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, re
from pathlib import Path
from grader.sandbox.inside.warmup import collapse

def large():
    found = re.search(r"AnonHugePages:\\s+(\\d+) kB", Path("/proc/self/smaps_rollup").read_text())
    return int(found[1])

held = [str(number) * 3 for number in range(600_000)]
before = large()
collapse()
assert all(each == str(number) * 3 for number, each in enumerate(held))
after = large()
child = os.fork()
if child == 0:
    held[0] = "the child's own"
    os._exit(held[599_999] != "599999" * 3)
assert os.waitpid(child, 0)[1] == 0
assert held[0] == "000"
print(before, after)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="large pages are asked of Linux")
def test_memory_is_as_it_was_and_in_large_pages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    before, after = map(int, done.stdout.split())
    if after == before:
        pytest.skip("this kernel collapses nothing")
    # Of some 45 MB of strings and list.
    assert after - before > 16_000
