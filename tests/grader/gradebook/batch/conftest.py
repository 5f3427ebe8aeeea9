"""A small course with a class, and the command that grades it."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import grader.cli.batch as batch_command
from grader.gradebook import Gradebook
from grader.results import Entry, ExerciseResult
from tests.grader.command import grade

from .remembering import RememberingPool

SUITE = '''
def test_double(student):
    """The double is twice the number."""
    assert_close(student.function("double")(2.0), 4.0)


@pytest.mark.points(3)
def test_zero(student):
    """The double of nothing is nothing."""
    assert_close(student.function("double")(0.0), 0.0)
'''
RIGHT = "def double(x):\n    return 2 * x\n"
HALF = "def double(x):\n    return x * 3\n"
SOURCES = {
    "ann": RIGHT,
    "bob": HALF,
    # An endless loop that uses no processor time.
    "cem": "import time\ndef double(x):\n    while True: time.sleep(1)\n",
    "dee": "def double(x:\n",
    "eva": RIGHT + "# mine\n",
    "fay": "import os\nos._exit(0)\n",
    "gus": "raise NotImplementedError\n",
}

Grade = Callable[..., subprocess.CompletedProcess[str]]


class School(NamedTuple):
    """A course, the folder of its submissions, and the folder for results."""

    course: Path
    submissions: Path
    results: Path

    def hand_in(self, student: str, source: str) -> None:
        path = self.submissions / student / "one" / "task.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")

    def command(self, *arguments: str) -> list[str]:
        """Return a command line. Commands that judge use one judge unless `arguments` ask for more."""
        first, *rest = arguments
        jobs = ["--jobs", "1"] if first in ("batch", "regrade") else []
        program = [sys.executable, "-m", "grader.cli", first, *jobs, *rest]
        return [*program, "--course", str(self.course)]

    def batch(self, *options: str, results: Path | None = None) -> subprocess.CompletedProcess[str]:
        output = str(results or self.results)
        return run(self.command("batch", str(self.submissions), "-o", output, *options))

    def entries(self, results: Path | None = None) -> dict[str, Entry]:
        with Gradebook.open(results or self.results) as book:
            return {entry.student.id: entry for entry in book.entries()}

    def rows(self, results: Path | None = None) -> list[tuple[object, ...]]:
        """Return the contents of the gradebook, without times and paths, which differ between runs."""
        file = (results or self.results) / "gradebook.sqlite"
        with contextlib.closing(sqlite3.connect(file)) as connection:
            rows = connection.execute(
                "SELECT student, number, digest, exercise, key, source, course, grader,"
                " seed, status, score, max_score, result"
                " FROM grades JOIN attempts ON attempts.id = attempt ORDER BY student, number"
            ).fetchall()
        return [(*row[:-1], _ends(row[-1])) for row in rows]


def _ends(result: bytes) -> list[tuple[str, str]]:
    tests = msgspec.json.decode(zlib.decompress(result), type=ExerciseResult).tests
    return [(test.outcome.value, test.message) for test in tests]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command line of `grade`."""
    return grade(*command[command.index("grader.cli") + 1 :], cwd=Path.cwd())


def run_alone(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command line in its own process with its own judges."""
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(autouse=True)
def _remembered(request: pytest.FixtureRequest) -> Iterator[None]:
    """Reuse earlier judgments, unless the test uses the fixture `judged_anew`."""
    if "judged_anew" in request.fixturenames:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_command, "LocalPool", RememberingPool)
        yield


@pytest.fixture
def judged_anew() -> None:
    """Turn off the reuse of judgments, for tests of judges."""


@pytest.fixture
def school(tmp_path: Path, write_course: Callable[..., object]) -> School:
    return new_school(tmp_path, write_course)


def new_school(folder: Path, write_course: Callable[..., object]) -> School:
    course = folder / "course"
    write_course(course, SUITE)
    school = School(course, folder / "class", folder / "results")
    manifest = course / "exercises" / "course.toml"
    manifest.write_text(manifest.read_text().replace("seconds = 8", "seconds = 3"))
    for student, source in SOURCES.items():
        school.hand_in(student, source)
    return school
