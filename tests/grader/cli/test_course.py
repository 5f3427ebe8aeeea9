"""`grade list`, `grade hint` and `grade schema`: quick answers that load nothing heavy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from grader.results import json_schema

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade

HEAVY = ("torch", "numpy", "pytest", "rich.progress", "grader.grading", "grader.judge", "asyncio")


def modules_of(cwd: Path, *arguments: str) -> set[str]:
    """What a command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "grader.cli", *arguments],
        cwd=cwd,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}


def test_list(grade: Grade, clone: Path) -> None:
    (clone / "exercises/text/greeting.py").write_text("def greeting(:\n", encoding="utf-8")
    (clone / "exercises/arrays/running_mean.py").write_text("x = 1\n", encoding="utf-8")
    done = grade("list", cwd=clone, COLUMNS="100")
    assert done.stdout.splitlines() == [
        "exercise      points  state             minutes  difficulty  title",
        "word_count        10  untouched              10  gentle      Counting words",
        "greeting         2.5  not valid Python        1  gentle      A greeting [of a kind]",
        "running_mean     7.5  edited                 20  hard        A running mean over neighbors",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_list_of_a_missing_and_an_unreadable_file(grade: Grade, clone: Path) -> None:
    (clone / "exercises/text/greeting.py").unlink()
    (clone / "exercises/text/word_count.py").unlink()
    (clone / "exercises/text/word_count.py").mkdir()
    states = [line.split()[2] for line in grade("list", cwd=clone).stdout.splitlines()]
    assert states == ["state", "unreadable", "missing", "untouched"]


def test_list_from_a_folder_below_and_by_name(grade: Grade, clone: Path, tmp_path: Path) -> None:
    here = grade("list", cwd=clone).stdout
    assert grade("list", cwd=clone / "tests" / "public").stdout == here
    assert grade("list", "--course", clone, cwd=tmp_path).stdout == here
    assert grade("list", "--course", clone / "exercises/course.toml", cwd=tmp_path).stdout == here


def test_hints_one_at_a_time(grade: Grade, clone: Path) -> None:
    first = grade("hint", "greeting", cwd=clone).stdout
    assert first.splitlines() == [
        "A greeting [of a kind], hint 1 of 3",
        "  An f-string.",
        "The next one: `grade hint greeting -n 2`",
    ]
    last = grade("hint", "greeting", "-n", "3", cwd=clone).stdout
    assert 'return f"Hello, {name}!"' in last
    assert "The next one" not in last
    assert grade("hint", "greeting", "-n", "4", cwd=clone).returncode == 2


def test_schema(grade: Grade) -> None:
    schema = json.loads(grade("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == json_schema()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_help_loads_click_alone(mixed: Path, arguments: list[str]) -> None:
    loaded = modules_of(mixed, *arguments)
    assert "click" in loaded
    assert loaded.isdisjoint({*HEAVY, "rich", "msgspec", "subprocess"})


@pytest.mark.parametrize("arguments", [["list"], ["hint", "greeting"], ["schema"]])
def test_quick_answers_load_nothing_heavy(mixed: Path, arguments: list[str]) -> None:
    loaded = modules_of(mixed, *arguments)
    assert "grader.results" in loaded
    assert loaded.isdisjoint(HEAVY)
