"""`python -m bench`: the costs of grading, against `import torch`, a new pytest and the floor.

Every ratio is of medians, and runs alternate with runs of the peer: machines are noisy, so only figures
measured side by side can be compared.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

from bench import SIX
from grader.course.manifest import Course, load_course
from grader.judge.assignment import GradingOptions
from grader.judge.preloading import modules_of
from grader.judge.process import Judge, judge_source, judges

PYTHON = sys.executable


def wall(command: list[str]) -> float:
    """Return the seconds until a command has ended, whatever its exit code."""
    begin = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return time.perf_counter() - begin


def side_by_side(runs: int, *works: Callable[[], float]) -> list[float]:
    """Return the median of each work's measurements; the works take turns."""
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(runs):
        for times, work in zip(taken, works, strict=True):
            times.append(work())
    return [statistics.median(times) for times in taken]


class Rows:
    """The rows of the table."""

    def __init__(self) -> None:
        self.table = Table("what", "seconds", "against", "seconds", "ratio", "bound")

    def add(self, what: str, took: float, peer: str, peer_took: float, bound: str) -> None:
        """Add a ratio; the bound "≥" is for how many times faster ours is, "≤" for its cost."""
        ratio = peer_took / took if bound.startswith("≥") else took / peer_took
        self.table.add_row(what, f"{took:.3f}", peer, f"{peer_took:.3f}", f"{ratio:.2f}", bound)


def cold(rows: Rows, runs: int) -> None:
    """Measure from a cold start to a verdict, against `import torch`, which any grader pays first."""
    grade = [PYTHON, "-m", "grader.cli", "run", "--submission", "solutions"]
    bare, one, six = side_by_side(
        runs,
        lambda: wall([PYTHON, "-c", "import torch"]),
        lambda: wall([*grade, "glu"]),
        lambda: wall([*grade, *SIX]),
    )
    rows.add("cold grade run glu", one, "import torch", bare, "≤ 1.6")
    rows.add("cold grade, six exercises", six, "import torch", bare, "≤ 3")
    (clone,) = side_by_side(runs, lambda: wall([PYTHON, "-m", "grader.cli"]))
    rows.add("cold grade, fresh clone", clone, "import torch", bare, "≤ 0.5")


def warm(rows: Rows, course: Course, runs: int) -> None:
    """Measure one submission in a warm judge, against the same suites without walls."""
    from bench.floor import judge_here

    sources = {e.id: course.solution(e).read_bytes() for e in course.exercises}

    def judged(judge: Judge, *ids: str) -> float:
        begin = time.perf_counter()
        for exercise in course.select(ids):
            source = sources[exercise.id]
            judge_source(judge, course, exercise, source, GradingOptions())
        return time.perf_counter() - begin

    def floor(*ids: str) -> float:
        begin = time.perf_counter()
        for exercise in course.select(ids):
            judge_here(course, exercise, course.solution(exercise))
        return time.perf_counter() - begin

    def anew(*ids: str) -> float:
        return wall([PYTHON, "-m", "bench.floor", "solutions", *ids])

    preload = modules_of(course, course.exercises)
    with (
        judges(preload=preload) as (behind_walls,),
        judges(preload=preload, walls=False) as (unconfined,),
    ):
        for judge in (behind_walls, unconfined):
            judged(judge)
        floor(*SIX)
        for ids, name in ((SIX, "six"), (("glu",), "glu"), (("glu", "gelu"), "glu and gelu")):
            here, bare, there = side_by_side(
                runs,
                lambda ids=ids: judged(behind_walls, *ids),  # type: ignore[misc]  # a default
                lambda ids=ids: judged(unconfined, *ids),  # type: ignore[misc]  # a default
                lambda ids=ids: floor(*ids),  # type: ignore[misc]  # a default
            )
            (fresh,) = side_by_side(max(2, runs // 2), lambda ids=ids: anew(*ids))  # type: ignore[misc]
            rows.add(f"warm judging, {name}", here, "the floor", there, "≤ 3")
            rows.add(f"warm judging, {name}", here, "without walls", bare, "≤ 1.3")
            bound = "≥ 15" if ids == SIX else "≥ 25"
            rows.add(f"warm judging, {name}", here, "pytest anew", fresh, bound)
        (whole,) = side_by_side(runs, lambda: judged(behind_walls))
        count = len(course.exercises)
        rows.add(f"warm judging, the course of {count}", whole, "the goal", 8.0, "≤ 1")


def saving(rows: Rows, course: Course, runs: int) -> None:
    """Measure from a save to the verdict of a warm `grade watch`, against a delay that nobody notices."""
    from bench.watch import save_to_verdict

    median, _ = save_to_verdict(course, "glu", 3 * runs)
    rows.add("grade watch, save to verdict, glu", median, "the goal", 0.3, "≤ 1")


def memory(course: Course, console: Console) -> None:
    """Print the peak memory of each process, counting shared pages once (PSS, Linux)."""
    if not Path("/proc/self/smaps_rollup").exists():
        return
    peaks: dict[str, int] = {}
    with judges(preload=modules_of(course, course.exercises)) as (judge,):
        me = psutil.Process()
        for exercise in course.exercises:
            source = course.solution(exercise).read_bytes()

            def look(_: object) -> None:
                for process in me.children(recursive=True):
                    name = _role(process)
                    if name:
                        peaks[name] = max(peaks.get(name, 0), _pss(process.pid))

            judge_source(judge, course, exercise, source, GradingOptions(), done=look)
    table = Table("process", "peak MiB (shared pages counted once)")
    for name, peak in sorted(peaks.items()):
        table.add_row(name, f"{peak / 2**20:.0f}")
    table.add_row(
        "grader (this process)", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f}"
    )
    console.print(table)


def _role(process: psutil.Process) -> str:
    try:
        words = process.cmdline()
        if "grader.judge.process" in words:
            return "judge"
        if "grader.sandbox.forkserver" in words and words[0] == PYTHON:
            # A sandbox keeps the command line of the fork server that it was forked from.
            parent = process.parent()
            forked = parent is not None and parent.cmdline() == words and process.num_threads() >= 1
            deep = forked and parent is not None and parent.children() != []
            return "sandbox" if deep and process.children() == [] else "fork server"
    except psutil.Error:
        pass
    return ""


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except (OSError, ProcessLookupError):
        pass
    return 0


@click.command()
@click.option("--runs", type=click.IntRange(1), default=5, help="Runs of each kind.")
def main(runs: int) -> None:
    """Measure and print."""
    # As in the judge: no installed plugins, and one thread for everybody.
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    course, rows, console = load_course("."), Rows(), Console(width=110)
    warm(rows, course, runs)
    cold(rows, runs)
    saving(rows, course, runs)
    console.print(rows.table)
    memory(course, console)


if __name__ == "__main__":
    main()
