"""`python -m bench.growth`: time, memory and disk of `grade batch` from 10 to 10,000 submissions.

Of every ten students, four hand in a variant of a right glu, three a wrong one and three the stub; the
other exercises are stubs. Time should grow in proportion, and memory not at all.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table

from grader.course.manifest import Course, load_course
from grader.course.mutants import wrong_answers

MIB = 2**20


def write_class(folder: Path, students: int, course: Course) -> None:
    """Write the submissions of this many students; no two judged files are alike."""
    glu = course.exercise("glu")
    rights = [path.read_bytes() for path in course.rights(glu)]
    wrongs = [answer.source for answer in wrong_answers(course, glu).answers]
    kinds = itertools.chain(
        itertools.repeat(itertools.cycle(rights), 4),
        itertools.repeat(itertools.cycle(wrongs), 3),
        itertools.repeat(itertools.cycle([course.stub(glu).source]), 3),
    )
    sources = itertools.cycle(list(kinds))
    for number, source in zip(range(students), sources, strict=False):
        for exercise in course.exercises:
            path = folder / f"student{number:05}" / exercise.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(course.stub(exercise).source)
        path = folder / f"student{number:05}" / glu.file
        path.write_bytes(next(source) + b"\n# %d\n" % number)


class Watch:
    """The peak memory of a process, alone and with its descendants, while it runs."""

    def __init__(self, pid: int) -> None:
        self.own = self.all = 0
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def end(self) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.5):
            own = _pss(self._process)
            children = self._children()
            self.own = max(self.own, own)
            self.all = max(self.all, own + sum(_pss(each) for each in children))

    def _children(self) -> list[psutil.Process]:
        try:
            children: list[psutil.Process] = self._process.children(recursive=True)
            return children
        except psutil.Error:
            return []


def _pss(process: psutil.Process) -> int:
    """Return the bytes of memory, with a process's part of shared pages."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def measure(students: int, course: Course, table: Table) -> None:
    """Measure a class of this size."""
    with tempfile.TemporaryDirectory() as name:
        folder, results = Path(name, "class"), Path(name, "results")
        write_class(folder, students, course)
        command = [sys.executable, "-m", "grader.cli", "batch", str(folder), "-o", str(results)]
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        watch = Watch(process.pid)
        code = process.wait()
        watch.end()
        first = time.perf_counter() - begin
        begin = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        again = time.perf_counter() - begin
        disk = sum(path.stat().st_size for path in results.rglob("*") if path.is_file())
    assert code == 0, f"grade batch ended with exit code {code}"
    table.add_row(
        f"{students:,}",
        f"{first:.1f}",
        f"{first / students * 1000:.0f}",
        f"{again:.1f}",
        f"{watch.own / MIB:.0f}",
        f"{watch.all / MIB:.0f}",
        f"{disk / students / 1024:.0f}",
    )


@click.command()
@click.option("--largest", type=click.IntRange(10), default=1000, help="The largest class.")
def main(largest: int) -> None:
    """Measure and print, a class at a time."""
    columns = ("students", "s", "ms each", "again s", "grade MiB", "all MiB", "disk KiB each")
    table, course = Table(*columns), load_course(".")
    students = 10
    while students <= largest:
        measure(students, course, table)
        students *= 10
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
