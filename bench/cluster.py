"""`python -m bench.cluster`: the cost of Dask, against a local pool with as many judges on the same cores."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.table import Table

from bench.growth import write_class
from grader.course.manifest import load_course

JUDGES = 2


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """Yield the address of a scheduler on the loopback with one worker."""
    file = folder / "scheduler.json"
    dask = [sys.executable, "-W", "ignore", "-m", "dask"]
    here = ["--host", "127.0.0.1", "--no-dashboard"]
    with contextlib.ExitStack() as stack:

        def start(*words: str) -> None:
            quiet = subprocess.DEVNULL
            process = subprocess.Popen([*dask, *words, *here], stdout=quiet, stderr=quiet)
            stack.callback(process.wait)
            stack.callback(process.terminate)

        start("scheduler", "--port", "0", "--scheduler-file", str(file))
        while not file.exists() or not file.read_bytes().strip():
            time.sleep(0.05)
        address: str = msgspec.json.decode(file.read_bytes())["address"]
        start("worker", address, "--no-nanny", "--nthreads", str(JUDGES))
        yield address


def batch(submissions: Path, *options: str) -> float:
    """Return the seconds of a batch with these submissions, all of them new."""
    with tempfile.TemporaryDirectory() as results:
        command = [sys.executable, "-m", "grader.cli", "batch", str(submissions), "-o", results]
        begin = time.perf_counter()
        subprocess.run([*command, *options], capture_output=True, check=True)
        return time.perf_counter() - begin


@click.command()
@click.option("--students", type=click.IntRange(1), default=200, help="Submissions in the class.")
@click.option("--runs", type=click.IntRange(1), default=2, help="Runs of each kind, in turn.")
def main(students: int, runs: int) -> None:
    """Measure and print the best run of each kind."""
    with tempfile.TemporaryDirectory() as name, cluster(Path(name)) as address:
        submissions = Path(name, "class")
        write_class(submissions, students, load_course("."))
        here, there = [], []
        for _ in range(runs):
            here.append(batch(submissions, "--jobs", str(JUDGES)))
            there.append(batch(submissions, "--scheduler", address))
    table = Table("students", "local s", "Dask s", "ratio")
    ratio = min(there) / min(here)
    table.add_row(str(students), f"{min(here):.1f}", f"{min(there):.1f}", f"{ratio:.2f}")
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
