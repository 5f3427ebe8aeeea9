"""`grade batch --exercise`: a class that was given some exercises of the course."""

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
    """The exercises of the one student, with their scores."""
    with Gradebook.open(results) as book:
        (entry,) = book.entries()
    return {exercise.name: exercise.score for exercise in entry.result.exercises}


def test_what_was_given_is_graded_and_remembered(handed_in: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    batch = ("batch", handed_in, "-o", results)
    done = run_grade(*batch, "--exercise", "greeting", "--exercise", "text/word_count")
    assert done.returncode == 0, done.stderr
    assert graded(results) == {"word_count": 10.0, "greeting": 2.5}
    for command in (batch, ("regrade", results)):
        assert run_grade(*command).returncode == 0
        assert set(graded(results)) == {"word_count", "greeting"}
    # Another assignment takes the place of the first, and no verdict is lost.
    assert run_grade(*batch, "--exercise", "running_mean").returncode == 0
    assert graded(results) == {"running_mean": 7.5}
    done = run_grade(*batch, "--exercise", "greeting", "--exercise", "running_mean")
    assert "0 exercises judged" in done.stdout
    assert set(graded(results)) == {"greeting", "running_mean"}


def test_an_unknown_exercise_is_told_before_anything_is_made(
    handed_in: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    done = run_grade("batch", handed_in, "-o", results, "--exercise", "greting")
    assert "Did you mean 'greeting'?" in done.stderr
    assert done.returncode == 2
    assert not results.exists()


def test_a_class_without_a_policy_is_given_one_that_names_an_exercise(
    handed_in: Path, tmp_path: Path
) -> None:
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
