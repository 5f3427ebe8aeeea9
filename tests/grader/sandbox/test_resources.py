"""A control group limits all of its processes together, and is removed afterwards."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from grader.sandbox.walls.confinement import System, Windows
from grader.sandbox.walls.resources import ControlGroup, control_group

MEBIBYTE = 1024 * 1024


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    with control_group(memory_bytes=200 * MEBIBYTE, processes=20) as group:
        if group is None:
            pytest.skip("needs a control group")
        yield group
    assert not any(folder.exists() for folder in group.folders)


def _run(group: ControlGroup, code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        group.around([sys.executable, "-c", code]),
        capture_output=True,
        text=True,
        check=False,
    )


def test_processes_are_limited(group: ControlGroup) -> None:
    code = """
import os, signal
started = []
try:
    while len(started) < 50:
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        started.append(child)
except OSError:
    pass
for child in started: os.kill(child, 9)
for child in started: os.waitpid(child, 0)
print(len(started))
"""
    assert _run(group, code).stdout.strip() == "19"


def test_memory_is_limited_over_all_processes(group: ControlGroup) -> None:
    # Each of the two processes would fit alone. The child holds its memory until the parent
    # has its own. The kernel chooses which of them it ends.
    code = """
import os
full, filled = os.pipe()
hold, release = os.pipe()
child = os.fork()
memory = bytearray(120 * 2**20)
if child == 0:
    os.close(release)
    os.write(filled, b"x")
    os.read(hold, 1)
    os._exit(0)
os.close(filled)
os.read(full, 1)
os.close(release)
raise SystemExit(os.waitpid(child, 0)[1] != 0)
"""
    assert _run(group, code).returncode != 0


def test_too_much_memory_is_refused(group: ControlGroup) -> None:
    assert _run(group, "bytearray(400 * 2**20)").returncode == -9
    assert _run(group, "bytearray(50 * 2**20)").returncode == 0


@pytest.mark.parametrize("system", [System(), Windows()], ids=["posix", "windows"])
def test_other_systems_have_no_control_group(system: System) -> None:
    with system.control_group(MEBIBYTE, 1) as group:
        assert group is None
