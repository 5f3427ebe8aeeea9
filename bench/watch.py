"""`python -m bench.watch [EXERCISE...]`: from a save to its verdict on the screen of `grade watch`.

The solution and a wrong answer are saved in turn as an editor saves: written beside the file and renamed over
it. The clock runs from before the rename until the terminal shows the new verdict.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from grader.course.manifest import Course, load_course
from grader.course.mutants import wrong_answers

__all__ = ["save_to_verdict"]

_VERDICT = re.compile(rb"judged in \d")
_PATIENCE_SECONDS = 60.0
# Pause as a person does who types: without pauses, the judge might be unrealistically warm.
_PAUSE_SECONDS = 0.5


@contextlib.contextmanager
def _watching(course: Path, *arguments: str) -> Iterator[int]:
    """Yield a terminal in which `grade watch` runs, until the block ends."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "grader.cli", "watch", *arguments, "--course", str(course)]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        yield ours
        os.write(ours, b"q")
        process.wait(_PATIENCE_SECONDS)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _verdict(terminal: int) -> None:
    """Read the screen until it shows a verdict."""
    shown, until = b"", time.monotonic() + _PATIENCE_SECONDS
    while not _VERDICT.search(shown):
        ready, _, _ = select.select([terminal], [], [], until - time.monotonic())
        if not ready:
            raise SystemExit(f"grade watch showed no verdict; it showed {shown[-500:]!r}")
        shown += os.read(terminal, 65_536)


def _save(file: Path, content: bytes) -> None:
    beside = file.with_name(f".{file.name}.new")
    beside.write_bytes(content)
    beside.replace(file)


def save_to_verdict(
    course: Course, exercise_id: str, runs: int, *arguments: str
) -> tuple[float, float]:
    """Return the median and the longest time of this many saves, in seconds."""
    exercise = course.exercise(exercise_id)
    wrong = wrong_answers(course, exercise).answers[0].source
    answers = [course.solution(exercise).read_bytes(), wrong]
    with tempfile.TemporaryDirectory(prefix="bench-watch-") as folder:
        copy = Path(folder)
        for part in ("exercises", "tests", "solutions"):
            shutil.copytree(course.root / part, copy / part)
        file = copy / "exercises" / exercise.file
        file.write_bytes(answers[1])
        taken = []
        with _watching(copy, exercise.id, *arguments) as terminal:
            _verdict(terminal)
            for run in range(runs):
                time.sleep(_PAUSE_SECONDS)
                begin = time.perf_counter()
                _save(file, answers[run % 2])
                _verdict(terminal)
                taken.append(time.perf_counter() - begin)
    return statistics.median(taken), max(taken)


@click.command()
@click.argument("exercises", nargs=-1)
@click.option("--runs", type=click.IntRange(1), default=20, help="Saves of each exercise.")
@click.option("--poll", is_flag=True, help="Poll for changes instead of using events.")
def main(exercises: tuple[str, ...], runs: int, poll: bool) -> None:
    """Measure the time from a save to its verdict."""
    course = load_course(".")
    for name in exercises or ("glu",):
        median, longest = save_to_verdict(course, name, runs, *(["--poll"] if poll else []))
        print(f"{name}: median {median:.3f} s, longest {longest:.3f} s, {runs} saves")


if __name__ == "__main__":
    main()
