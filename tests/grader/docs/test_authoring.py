"""The tutorial for authors works as written, and its files can be copied."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course.manifest import load_course

from .walkthrough import ROOT, matches, run, steps

pytestmark = pytest.mark.thorough

AUTHORING = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
TUTORIAL = AUTHORING.partition("## In ten minutes")[2].partition("## Reference")[0]


@pytest.mark.skipif(
    os.name != "posix" or ("GRADE_CI" not in os.environ and not shutil.which("bash")),
    reason="the page is written for a shell",
)
def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    folder, commands = tmp_path, 0
    for step, content in steps(TUTORIAL):
        if step.startswith("$ cd "):
            folder = folder / step.removeprefix("$ cd ")
        elif step.startswith("$ "):
            commands += 1
            done = run(step.removeprefix("$ "), folder)
            found_mutants = re.search(r" [1-9]\d* unseen", content) is not None
            complains = found_mutants or ("complaint" in content and "No complaint" not in content)
            assert done.returncode == complains, f"{step}\n{done.stdout}{done.stderr}"
            assert matches(content, done.stdout), (
                f"{step}\nshown:\n{content}\nprinted:\n{done.stdout}{done.stderr}"
            )
        else:
            (folder / step).parent.mkdir(parents=True, exist_ok=True)
            (folder / step).write_text(content, encoding="utf-8")
    assert commands > 10
    # The results are a course, its release and its pack.
    assert load_course(folder).info() == load_course(tmp_path / "lab.pack").info()
    assert load_course(tmp_path / "students").exercises == load_course(folder).exercises


def test_an_exercise_needs_at_most_150_lines() -> None:
    """Count all of its files at the end, with blank lines and the head of the manifest."""
    files = {name: content for name, content in steps(TUTORIAL) if not name.startswith("$")}
    assert {Path(name).parts[0] for name in files} == {"solutions", "exercises", "tests"}
    assert sum(content.count("\n") for content in files.values()) <= 150


def test_the_files_of_the_tutorial_are_in_good_style(tmp_path: Path) -> None:
    """Authors copy these files, so they pass the linter and formatter as our own exercises do."""
    for name, content in steps(TUTORIAL):
        # Answers of students need no particular style.
        if name.endswith(".py") and not re.match(r"\$|tests/(right|wrong)/", name):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
    # Outside of this folder, ruff cannot know that the grader is first-party.
    ours = 'lint.isort.known-first-party = ["grader"]'
    config = ["--no-cache", "--config", str(ROOT / "pyproject.toml"), "--config", ours]
    for arguments in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *arguments, *config, str(tmp_path)],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
