"""The benchmarks still run. `python -m bench` shows their measurements."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.disguises import DISGUISES, disguised
from bench.similarity import COPY, authors, compare, small_class
from grader.course.manifest import load_course

ROOT = Path(__file__).parents[2]


@pytest.mark.thorough
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


@pytest.mark.parametrize("disguise", DISGUISES)
def test_a_disguised_copy_is_found_among_the_authors(disguise: str) -> None:
    course = load_course(ROOT)
    exercise = course.exercise("detach")
    honest, stub = authors(course, exercise), course.stub(exercise).source.decode()
    files, victim = small_class(honest, stub, disguise, disguise)
    found = compare(files, {"": stub}, None)
    assert [{pair.left, pair.right} for pair in found.pairs] == [{victim, COPY}]


def test_disguises_are_deterministic_and_differ() -> None:
    course = load_course(ROOT)
    exercise = course.exercise("detach")
    source = course.solution(exercise).read_text(encoding="utf-8")
    stub = course.stub(exercise).source.decode()
    made = {disguised(source, stub, disguise, 1) for disguise in DISGUISES.values()}
    assert made == {disguised(source, stub, disguise, 1) for disguise in DISGUISES.values()}
    assert len(made) > len(DISGUISES) - 2


@pytest.mark.thorough
def test_a_term_is_measured_beside_its_floor() -> None:
    size = ["--students", "12", "--assignments", "2", "--rounds", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "bench.term", *size],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "grade term" in done.stdout and "the floor" in done.stdout


@pytest.mark.thorough
def test_hostile_texts_and_frames_are_measured() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.hostile", "--runs", "1"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "text of" in done.stdout and "frame of" in done.stdout
