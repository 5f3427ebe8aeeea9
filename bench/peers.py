"""`python -m bench.peers`: the cost of a submission, against pytest, gradescope-utils, otter and nbgrader.

A class hands in right answers of `glu`, no two files alike. Each peer that the interpreter `--python` can
import grades it as its users do on their own machine, with one test; ours has the whole suite and all
walls. A peer first grades one student untimed, to warm the disk, then one student, then the class. The cost of
a submission is the difference of the last two, divided by their number, so the start of a peer does not count;
it has a column of its own. Ours is measured before and after every peer.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

from bench.assignments import PEERS, Cost, cost
from grader.course.manifest import Course, load_course
from grader.judge.assignment import GradingOptions, Judgment
from grader.judge.pool import LocalPool, Task

CAPTION = (
    "Seconds are of one more submission of glu; a grader's start is apart. The ratios understate ours: "
    "it runs the whole suite behind all walls, the others one test and, as they are run here, no wall."
)

# Enough submissions for a clock with ticks of 10 ms.
_BESIDE = 20


def of_alive() -> float:
    """Return the CPU seconds of this process, its living descendants, and the children they waited for (Linux).

    `of_ended` after closing the pool would miss two thirds, the fork server and its sandboxes: bubblewrap ends
    without waiting for its children.
    """
    me = psutil.Process()
    while True:
        # A spare sandbox may end meanwhile.
        with contextlib.suppress(psutil.NoSuchProcess):
            times = [each.cpu_times() for each in me.children(recursive=True)]
            theirs = sum(t.user + t.system + t.children_user + t.children_system for t in times)
            return float(theirs) + sum(os.times()[:2])


class Ours:
    """A pool of one judge with all walls; no two of its files are alike."""

    def __init__(self, pool: LocalPool, course: Course) -> None:
        self._pool, self._numbers = pool, itertools.count()
        self.answer = course.solution(course.exercise("glu")).read_text()
        self.tests = 0
        self._costs: list[Cost] = []
        self._first = cost(lambda: self._judge(1), of_alive)
        # After this, the fork server has done its work for the class.
        self._judge(_BESIDE)

    def measure(self) -> None:
        """Judge some submissions, and keep their cost."""
        wall, cpu = cost(lambda: self._judge(_BESIDE), of_alive)
        self._costs.append(Cost(wall / _BESIDE, cpu / _BESIDE))

    def took(self) -> tuple[Cost, float]:
        """Return the same as `Peer.took`, with medians of all measurements."""
        each = Cost(*map(statistics.median, zip(*self._costs, strict=True)))
        return each, self._first.wall - each.wall

    def _judge(self, count: int) -> None:
        numbers = itertools.islice(self._numbers, count)
        tasks = (Task(n, "glu", f"{self.answer}# {n}\n".encode()) for n in numbers)
        for _, judged in self._pool.judged(tasks):
            result = judged.result if isinstance(judged, Judgment) else None
            if result is None or result.score != result.max_score:
                raise SystemExit(f"Ours did not give a right answer its points: {judged}")
            self.tests = len(result.tests)


def installed(python: str, name: str) -> str:
    """Return the version of a distribution of that interpreter, "" if it is not installed."""
    look = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    found = subprocess.run([python, "-c", look, name], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def show(rows: dict[str, tuple[int, Cost, float]], missing: dict[str, str]) -> None:
    """Print the measurements, ours first, and the peers that could not be measured."""
    table = Table("grader", "tests", "start s", "wall s", "CPU s", "wall / ours", "CPU / ours")
    _, ours, _ = next(iter(rows.values()))
    for name, (tests, each, start) in rows.items():
        seconds = f"{max(start, 0):.1f}", f"{each.wall:.3f}", f"{each.cpu:.3f}"
        ratios = (f"{theirs / own:.1f}" for theirs, own in zip(each, ours, strict=True))
        table.add_row(name, str(tests), *seconds, *ratios)
    for name, lacking in missing.items():
        table.add_row(f"{name} (not installed: {lacking})")
    table.caption = CAPTION
    Console(width=110).print(table)


@click.command()
@click.option("--students", type=click.IntRange(2), default=4, help="Submissions in the class.")
@click.option(
    "--python",
    type=click.Path(exists=True, dir_okay=False),
    default=sys.executable,
    help="The interpreter that has the peers.",
)
def main(students: int, python: str) -> None:
    """Measure and print; peers that are not installed are listed as such."""
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    # Do not resolve it: the interpreter of a virtual environment is a link to one without its packages.
    python, course = str(Path(python).absolute()), load_course(".")
    peers: dict[str, tuple[int, Cost, float]] = {}
    missing: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder, LocalPool(course, 1, GradingOptions()) as pool:
        ours = Ours(pool, course)
        ours.measure()
        for kind in PEERS:
            has = {name: installed(python, name) for name in kind.needs}
            if not all(has.values()):
                missing[kind.title] = ", ".join(name for name in has if not has[name])
                continue
            peer = kind(Path(folder, kind.title), python, ours.answer)
            peers[f"{kind.title} {has.get(kind.title, '')}"] = (1, *peer.took(students))
            ours.measure()
    show({"Lab Bench": (ours.tests, *ours.took()), **peers}, missing)


if __name__ == "__main__":
    main()
