"""The benchmarks still run; what they measure is for `python -m bench` to say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_floor_can_run_the_suites() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.floor", "solutions", "glu", "gelu"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
