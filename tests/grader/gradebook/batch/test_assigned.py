"""`grade batch --exercise`: grading only some exercises of the course."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from grader.gradebook import Gradebook
from tests.grader.command import grade

PLAIN = Path(__file__).parents[2] / "courses" / "plain"


def run_grade(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return grade(*arguments, cwd=PLAIN)


@pytest.fixture
def handed_in(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN / "solutions", tmp_path / "class" / "ada")
    return tmp_path / "class"


def graded(results: Path) -> dict[str, float]:
    """Return the exercises of the only student with their scores."""
    with Gradebook.open(results) as book:
        (entry,) = book.entries()
    return {exercise.name: exercise.score for exercise in entry.result.exercises}


def test_named_exercises_are_graded_and_remembered(handed_in: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    batch = ("batch", handed_in, "-o", results)
    done = run_grade(*batch, "--exercise", "greeting", "--exercise", "text/word_count")
    assert done.returncode == 0, done.stderr
    assert graded(results) == {"word_count": 10.0, "greeting": 2.5}
    for command in (batch, ("regrade", results)):
        assert run_grade(*command).returncode == 0
        assert set(graded(results)) == {"word_count", "greeting"}
    # Other exercises replace the first ones, and no verdict is lost.
    assert run_grade(*batch, "--exercise", "running_mean").returncode == 0
    assert graded(results) == {"running_mean": 7.5}
    done = run_grade(*batch, "--exercise", "greeting", "--exercise", "running_mean")
    assert "0 exercises judged" in done.stdout
    assert set(graded(results)) == {"greeting", "running_mean"}


def test_an_unknown_exercise_is_reported_before_anything_is_written(
    handed_in: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    done = run_grade("batch", handed_in, "-o", results, "--exercise", "greting")
    assert "Did you mean 'greeting'?" in done.stderr
    assert done.returncode == 2
    assert not results.exists()


def test_a_policy_that_names_an_exercise_can_be_set_later(handed_in: Path, tmp_path: Path) -> None:
    results, policy = tmp_path / "results", tmp_path / "policy.toml"
    run_grade("batch", handed_in, "-o", results)
    rule = '[[due]]\n{} = ["{}"]\nat = 2026-10-24T23:59:00+02:00\n'
    for key, name in (("exercises", "greeting"), ("chapters", "text")):
        policy.write_text(rule.format(key, name), encoding="utf-8")
        done = run_grade("policy", results, "--file", policy)
        assert done.returncode == 0, done.stderr
        assert "greeting" in done.stdout
    policy.write_text(rule.format("exercises", "greting"), encoding="utf-8")
    done = run_grade("policy", results, "--file", policy)
    assert "names 'greting', and this course has no such exercise. Did you mean" in done.stderr
