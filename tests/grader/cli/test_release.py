"""`grade release` and `grade package`: the options that they pass on, and what they print."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grader.authoring import gradescope_package
from grader.authoring import release as releases
from grader.authoring.release import Tier
from grader.cli.pack import seed_of
from grader.course.manifest import load_course
from tests.grader.command import invoke

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
ASSIGNMENTS = """
timezone = "Europe/Warsaw"

[[assignment]]
id = "week1"
title = "Week 1"
chapters = ["text"]
seed = 8231

[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["running_mean"]
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Record the options of each release. None is written."""
    told: list[dict[str, Any]] = []

    def release(course: object, folder: Path, **options: Any) -> SimpleNamespace:
        told.append(options)
        return SimpleNamespace(files=["a", "b"], removed=3 * options["force"])

    monkeypatch.setattr(releases, "release", release)
    return told


@pytest.fixture
def course(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN, tmp_path / "course")
    (tmp_path / "course/exercises/assignments.toml").write_text(ASSIGNMENTS, encoding="utf-8")
    return tmp_path / "course"


def test_a_release_has_the_public_suites_unless_all_are_asked_for(
    asked: list[dict[str, Any]],
) -> None:
    invoke("release", "out", cwd=PLAIN)
    invoke("release", "out", "--suites", "all", "--fail-under", "50", "--force", cwd=PLAIN)
    first, second = asked
    assert (first["suites"], first["fail_under"], first["force"]) == (Tier.PUBLIC, 0, False)
    assert (second["suites"], second["fail_under"], second["force"]) == (Tier.ALL, 50, True)
    assert first["judge"], "the stubs and the solutions are judged first"


def test_removed_files_are_counted_and_a_repository_gets_no_git_advice(
    asked: list[dict[str, Any]], tmp_path: Path
) -> None:
    said = invoke("release", tmp_path, cwd=PLAIN).stdout
    assert said.startswith(f"2 files in {tmp_path}.\n") and "git -C" in said
    (tmp_path / ".git").mkdir()
    said = invoke("release", tmp_path, "--force", cwd=PLAIN).stdout
    assert "2 files in" in said and "3 of the earlier release removed" in said
    assert "git -C" not in said


def test_control_characters_in_names_are_escaped(asked: list[dict[str, Any]]) -> None:
    said = invoke("release", "new\x1b[2J line", cwd=PLAIN).stdout
    assert asked and "\x1b" not in said and "'new\\x1b[2J line'" in said


def test_a_course_grades_with_the_seed_of_its_assignment(course: Path) -> None:
    assert seed_of(load_course(course)) == 0
    assert seed_of(load_course(course).assigned("week1")) == 8231
    assert seed_of(load_course(course).assigned("week2")) == 0


def test_a_package_judges_with_the_seed_of_the_assignment(
    course: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[list[str], int, str]] = []

    def write(output: Path, course: Any, options: Any, **_: object) -> list[str]:
        output.write_bytes(b"zip")
        names = [exercise.id for exercise in course.exercises]
        made.append((names, options.seed, options.require_isolation))
        return names

    monkeypatch.setattr(gradescope_package, "write_gradescope", write)
    package = "package", "gradescope", "-o", tmp_path / "a.zip"
    assert invoke(*package, "--assignment", "week1", cwd=course).exit_code == 0
    assert invoke(*package, "--exercise", "greeting", cwd=course).exit_code == 0
    assert made == [(["word_count", "greeting"], 8231, "kernel"), (["greeting"], 0, "kernel")]
