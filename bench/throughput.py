"""`python -m bench.throughput`: submissions a minute, against pytest started anew for each of them.

Both grade the same class, on the same cores, with as many processes at a time, one after the other. The
peer is `python -m bench.floor SUBMISSION`: plain pytest over the same suites in one process with the student's
code, without walls. It is started once for each submission, and, in the last columns, once for each file, as if
each exercise were an assignment. Ours is the pool of judges of `grade batch` with all walls, after one
submission for each judge, since a batch pays its start once. No two students share a verdict.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from bench import SIX
from grader.course.manifest import Course, load_course
from grader.course.mutants import wrong_answers
from grader.judge.assignment import GradingOptions, JudgeFault
from grader.judge.pool import LocalPool, Task

CLASSES = ((SIX, "all six", "\u2265 15"), (("glu", "gelu"), "glu and gelu", "\u2265 25"))
WRONG = ("a third of the files wrong", 3)
RIGHT = ("all right", 0)


def write_class(folder: Path, students: int, course: Course, every: int) -> list[Path]:
    """Write submissions: solutions, with a wrong answer for each `every`-th file (0: none)."""
    # Drawn at random, since a few wrong answers deadlock for seconds.
    draw = random.Random(0)
    wrong = {e.id: wrong_answers(course, e).answers for e in course.exercises}
    submissions = [folder / f"student{number:03}" for number in range(students)]
    for student, submission in enumerate(submissions):
        for number, exercise in enumerate(course.exercises):
            is_wrong = every and (student + number) % every == 0
            source = course.solution(exercise).read_bytes()
            if is_wrong:
                source = draw.choice(wrong[exercise.id]).source
            path = submission / exercise.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(source)
    return submissions


def judged(pool: LocalPool, course: Course, submissions: list[Path], ids: Sequence[str]) -> float:
    """Return the seconds in which a warm pool judges the class."""
    exercises = course.select(ids)
    files = [(each.id, folder / each.file) for folder in submissions for each in exercises]
    tasks = (Task(n, id_, file.read_bytes()) for n, (id_, file) in enumerate(files))
    begin = time.perf_counter()
    for _, judgment in pool.judged(tasks):
        if isinstance(judgment, JudgeFault):
            raise SystemExit(f"A fault of the grader: {judgment.message}")
    return time.perf_counter() - begin


def anew(starts: list[list[str]], jobs: int) -> float:
    """Return the seconds of pytest for the class, started anew with each of these arguments."""

    def run(arguments: list[str]) -> None:
        command = [sys.executable, "-m", "bench.floor", *arguments]
        quiet = subprocess.DEVNULL
        subprocess.run(command, stdout=quiet, stderr=quiet, check=False)

    begin = time.perf_counter()
    with ThreadPoolExecutor(jobs) as threads:
        list(threads.map(run, starts))
    return time.perf_counter() - begin


@click.command()
@click.option("--students", type=click.IntRange(2), default=12, help="Submissions in the class.")
@click.option("--jobs", type=click.IntRange(1), default=2, help="Judges, and pytests, at a time.")
@click.option("--rounds", type=click.IntRange(1), default=3, help="Times the judges do the class.")
def main(students: int, jobs: int, rounds: int) -> None:
    """Measure and print."""
    os.environ |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OMP_NUM_THREADS": "1"}
    course = load_course(".")
    heads = "exercises", "class", "judged a minute", "pytest a submission", "ratio", "bound"
    table = Table(*heads, "pytest a file", "ratio")
    for exercises, name, bound in CLASSES:
        ids = [each.id for each in course.select(exercises)]
        for what, every in (RIGHT, WRONG):
            with tempfile.TemporaryDirectory() as folder:
                submissions = write_class(Path(folder), students, course, every)
                with LocalPool(course, jobs, GradingOptions()) as pool:
                    judged(pool, course, submissions[:1] * 2 * jobs, ids)
                    ours = min(judged(pool, course, submissions, ids) for _ in range(rounds))
                together = anew([[str(each), *ids] for each in submissions], jobs)
                apart = anew([[str(each), one] for each in submissions for one in ids], jobs)
            rates = [f"{60 * students / seconds:.0f}" for seconds in (ours, together, apart)]
            ratios = [f"{seconds / ours:.1f}" for seconds in (together, apart)]
            table.add_row(name, what, *rates[:2], ratios[0], bound, rates[2], ratios[1])
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
