"""Run the real command on copies of a course that does not use torch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from grader.course.manifest import Course, load_course
from grader.student.progress import Logbook
from tests.grader import builders
from tests.grader.command import grade as grade_here
from tests.grader.gradebook.conftest import SUITE, School

PLAIN = Path(__file__).parents[1] / "courses" / "plain"

Grade = Callable[..., "subprocess.CompletedProcess[str]"]


def run_grade(
    *arguments: str | Path, cwd: Path = PLAIN, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run `grade` without a terminal, in our environment plus the given variables.

    Variables other than NO_COLOR and COLUMNS need a new process.
    """
    if not environment.keys() - {"NO_COLOR", "COLUMNS"}:
        return grade_here(*arguments, cwd=cwd, **environment)
    inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    return subprocess.run(
        [sys.executable, "-m", "grader.cli", *map(str, arguments)],
        cwd=cwd,
        env={**inherited, "PYTHONIOENCODING": "utf-8", **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


def modules_of(cwd: Path, *arguments: str) -> set[str]:
    """Return the modules that a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "grader.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def copy_course(folder: Path, *, kept_stubs: bool = True) -> Path:
    """Copy the course as a student has it. `kept_stubs` also keeps the original stubs in tests/stubs."""
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    if kept_stubs:
        ignored = shutil.ignore_patterns("*.toml")
        shutil.copytree(folder / "exercises", folder / "tests" / "stubs", ignore=ignored)
    return folder


def pass_here(folder: Path, *names: str) -> None:
    """Copy reference solutions into place and record that they passed all of their tests."""
    course = load_course(folder)
    for name in names:
        exercise = course.exercise(name)
        source = course.solution(exercise).read_bytes()
        (course.folder / exercise.file).write_bytes(source)
        verdict = builders.exercise(builders.checked(), name=name, worth=exercise.points)
        Logbook(course).record(exercise, source, verdict)


@pytest.fixture(scope="session")
def grade() -> Grade:
    """Run the real command."""
    return run_grade


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A fresh clone of the plain course."""
    return copy_course(tmp_path / "clone")


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with one wrong, one right and one untouched exercise. Tests only read it."""
    folder = copy_course(tmp_path_factory.mktemp("mixed") / "clone")
    wrong = folder / "tests" / "wrong" / "text" / "word_count" / "characters.py"
    lines = wrong.read_text(encoding="utf-8").splitlines()
    (check,) = [at for at, line in enumerate(lines) if "if n < 1" in line]
    two_mistakes = "\n".join([*lines[:check], *lines[check + 2 :], ""])
    (folder / "exercises" / "text" / "word_count.py").write_text(two_mistakes, encoding="utf-8")
    shutil.copy(folder / "solutions" / "text" / "greeting.py", folder / "exercises" / "text")
    return folder


@pytest.fixture
def school(tmp_path: Path, write_course: Callable[..., Course]) -> School:
    """A course with one exercise, and a folder for a gradebook that a test writes by hand."""
    return School(write_course(tmp_path / "course", SUITE), tmp_path / "results")
