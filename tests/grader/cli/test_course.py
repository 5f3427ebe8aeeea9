"""`grade list`, `grade schema` and `grade explain`. Quick commands load nothing heavy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from grader.course.manifest import load_course
from grader.results import json_schema
from tests.grader.cli.conftest import modules_of, pass_here

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade

HEAVY = ("torch", "numpy", "pytest", "rich.progress", "grader.grading", "grader.judge", "asyncio")


def test_list(grade: Grade, clone: Path) -> None:
    pass_here(clone, "word_count")
    (clone / "exercises/text/greeting.py").write_text("def greeting(:\n", encoding="utf-8")
    (clone / "exercises/arrays/running_mean.py").write_text("x = 1\n", encoding="utf-8")
    done = grade("list", cwd=clone, COLUMNS="100")
    assert done.stdout.splitlines() == [
        "  exercise      state              points  minutes  difficulty  title",
        "text            1 of 2 done",
        "  word_count    done              10 / 10       10  gentle      Counting words",
        "  greeting      not valid Python      2.5        1  gentle      A greeting [of a kind]",
        "arrays          0 of 1 done",
        "  running_mean  begun                 7.5       20  hard        A running mean over neighbors",
        "",
        "1 of 3 done",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_list_shows_exercises_that_are_no_longer_done(grade: Grade, clone: Path) -> None:
    pass_here(clone, "word_count", "greeting")
    with (clone / "exercises/text/word_count.py").open("a") as file:
        file.write("# more\n")
    with (clone / "tests/public/text/test_greeting.py").open("a") as file:
        file.write("# more\n")
    lines = grade("list", cwd=clone).stdout.splitlines()
    assert lines[2].startswith("  word_count    edited since       10 ")
    assert lines[3].startswith("  greeting      tests changed     2.5 ")
    assert lines[5].startswith("  running_mean  open              7.5 ")
    assert lines[-1] == "0 of 3 done"


def test_list_of_a_missing_and_an_unreadable_file(grade: Grade, clone: Path) -> None:
    (clone / "exercises/text/greeting.py").unlink()
    (clone / "exercises/text/word_count.py").unlink()
    (clone / "exercises/text/word_count.py").mkdir()
    lines = grade("list", cwd=clone).stdout.splitlines()
    assert [lines[number].split()[1] for number in (0, 2, 3, 5)] == [
        "state",
        "unreadable",
        "missing",
        "open",
    ]


def test_a_course_with_one_chapter_has_no_chapter_lines(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises/course.toml"
    kept = manifest.read_text("utf-8").rpartition("[[exercise]]")[0]
    manifest.write_text(kept, encoding="utf-8")
    lines = grade("list", cwd=clone).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "exercise",
        "word_count",
        "greeting",
        "",
        "0 of 2 done",
    ]


def test_explain_a_chapter(grade: Grade, clone: Path) -> None:
    before = grade("explain", "arrays", cwd=clone).stdout
    assert before.splitlines() == [
        "arrays",
        "1 exercise, about 20 minutes, 0 of 1 done",
        "",
        "running_mean  A running mean over neighbors  open",
        "  " + load_course(clone).exercise("running_mean").teaches,
        "  Better done before: word_count.",
        "",
        "`grade explain running_mean` says more of the next one.",
    ]
    pass_here(clone, "word_count")
    assert "Better done before" not in grade("explain", "arrays", cwd=clone).stdout
    assert (
        "2 exercises, about 11 minutes, 1 of 2 done" in grade("explain", "text", cwd=clone).stdout
    )
    assert "`grade explain greeting` says more" in grade("explain", "text", cwd=clone).stdout


def test_list_from_a_subfolder_and_with_course(grade: Grade, clone: Path, tmp_path: Path) -> None:
    here = grade("list", cwd=clone).stdout
    assert grade("list", cwd=clone / "tests" / "public").stdout == here
    assert grade("list", "--course", clone, cwd=tmp_path).stdout == here
    assert grade("list", "--course", clone / "exercises/course.toml", cwd=tmp_path).stdout == here


def test_schema(grade: Grade) -> None:
    schema = json.loads(grade("schema").stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == json_schema()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["run", "--help"]])
def test_help_loads_only_click(mixed: Path, arguments: list[str]) -> None:
    loaded = modules_of(mixed, *arguments)
    assert "click" in loaded
    assert loaded.isdisjoint({*HEAVY, "rich", "msgspec", "subprocess"})


@pytest.mark.parametrize(
    "arguments",
    [["list"], ["hint", "greeting", "-n", "1"], ["schema"]],
)
def test_quick_commands_load_nothing_heavy(mixed: Path, arguments: list[str]) -> None:
    loaded = modules_of(mixed, *arguments)
    assert "grader.results" in loaded
    assert loaded.isdisjoint(HEAVY)
