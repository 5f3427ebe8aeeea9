"""The tutorial for authors, followed to the letter: its files are written, its commands run and compared."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course import load_course

ROOT = Path(__file__).resolve().parents[2]
AUTHORING = (ROOT / "docs" / "authoring.md").read_text(encoding="utf-8")
TUTORIAL = AUTHORING.partition("## In ten minutes")[2].partition("## Reference")[0]

# A fenced block, after the name of a file on a line of its own if it is that file's content.
BLOCK = re.compile(r"^(?:`([^`\n]+)`:\n\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# The symbols of a terminal, and what stands for them where there is none.
SYMBOLS = {"✓": "+", "✗": "x", "→": ">"}


def steps() -> Iterator[tuple[str, str]]:
    """The files (name, content) and the commands ("$ command", shown output) of the page, in order."""
    for name, kind, body in BLOCK.findall(TUTORIAL):
        assert (kind == "console") != bool(name), f"a block of {kind} that is no file: {body[:80]}"
        if name:
            yield name, body
            continue
        for command in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            typed, _, shown = command.partition("\n")
            yield f"$ {typed}", shown


def plain(text: str) -> str:
    """The text as it is outside of a terminal."""
    return re.sub(r"^(\s*)([✓✗→])", lambda at: at[1] + SYMBOLS[at[2]], text, flags=re.MULTILINE)


def pattern(shown: str) -> str:
    """What is shown, where a line `...` stands for any lines."""
    lines = [".*" if line == "..." else re.escape(line + "\n") for line in shown.splitlines()]
    return "".join(lines)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as the page has it, with the `grade` of this installation."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-ec", command],
        cwd=folder,
        env={**inherited, "PATH": path, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )


@pytest.mark.skipif(
    os.name != "posix" or ("GRADE_CI" not in os.environ and not shutil.which("bash")),
    reason="the page is written for a shell",
)
def test_the_tutorial_does_what_it_says(tmp_path: Path) -> None:
    folder, commands = tmp_path, 0
    for step, content in steps():
        if step.startswith("$ cd "):
            folder = folder / step.removeprefix("$ cd ")
        elif step.startswith("$ "):
            commands += 1
            done = run(step.removeprefix("$ "), folder)
            complains = "complaint" in content and "No complaint" not in content
            assert done.returncode == complains, f"{step}\n{done.stdout}{done.stderr}"
            if content:
                assert re.fullmatch(pattern(plain(content)), done.stdout, re.DOTALL), (
                    f"{step}\nshown:\n{content}\nprinted:\n{done.stdout}{done.stderr}"
                )
        else:
            (folder / step).parent.mkdir(parents=True, exist_ok=True)
            (folder / step).write_text(content, encoding="utf-8")
    assert commands > 10
    # What came of it: a course, its release, and its pack.
    assert load_course(folder).info() == load_course(tmp_path / "lab.pack").info()
    assert load_course(tmp_path / "students").exercises == load_course(folder).exercises


def test_the_files_of_the_tutorial_are_in_good_style(tmp_path: Path) -> None:
    """Authors copy them: they are formatted and without complaint, as our own exercises are."""
    for name, content in steps():
        # Answers of students are as different as students are.
        if name.endswith(".py") and not re.match(r"\$|tests/(right|wrong)/", name):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content, encoding="utf-8")
    # Elsewhere than here ruff cannot know that the grader is ours.
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
