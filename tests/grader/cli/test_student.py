"""`grade hint`, `grade solution`, `grade reset` and `grade explain`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade


def test_hints_come_one_at_a_time_even_after_passing(grade: Grade, clone: Path) -> None:
    shutil.copy(clone / "solutions/text/greeting.py", clone / "exercises/text")
    assert grade("run", "greeting", cwd=clone).returncode == 0
    first, second, third, again, on = (
        grade("hint", "greeting", cwd=clone).stdout for _ in range(5)
    )
    assert first.splitlines() == [
        "A greeting [of a kind], hint 1 of 3",
        "  An f-string.",
        "For the next one: `grade hint greeting`",
    ]
    assert second.startswith("A greeting [of a kind], hint 2 of 3\n")
    assert 'return f"Hello, {name}!"' in third
    assert "You have seen all 3: `grade hint greeting` shows hint 1 again" in third
    assert again.splitlines()[:2] == first.splitlines()[:2]
    assert "`grade hint greeting` shows hint 2 again" in again
    assert on.splitlines()[:2] == second.splitlines()[:2]
    chosen = grade("hint", "greeting", "-n", "1", cwd=clone).stdout
    assert chosen == again
    assert grade("hint", "greeting", "-n", "4", cwd=clone).returncode == 2


def test_hint_without_a_name_is_for_the_first_open_exercise(grade: Grade, clone: Path) -> None:
    assert grade("hint", cwd=clone).stdout.startswith("Counting words, hint 1 of 3")
    for name in ("text/word_count.py", "text/greeting.py", "arrays/running_mean.py"):
        shutil.copy(clone / "solutions" / name, clone / "exercises" / name)
    assert grade("run", "--all", cwd=clone).returncode == 0
    done = grade("hint", cwd=clone)
    assert "Every exercise is done" in done.stderr
    assert done.returncode == 2


def test_hint_repeats_the_course(grade: Grade, clone: Path, tmp_path: Path) -> None:
    done = grade("hint", "greeting", "--course", clone, cwd=tmp_path)
    assert f"`grade hint greeting --course {clone}`" in " ".join(done.stdout.split())


def test_hints_work_where_nothing_can_be_written(grade: Grade, clone: Path) -> None:
    (clone / ".grade").write_bytes(b"in the way")
    done = grade("hint", "greeting", cwd=clone)
    assert "  An f-string." in done.stdout
    assert done.stderr.startswith("grade: Your progress in ")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)


def test_damaged_progress_is_reported_once(grade: Grade, clone: Path) -> None:
    (clone / ".grade").mkdir()
    (clone / ".grade" / "state.json").write_bytes(b"{")
    done = grade("list", cwd=clone)
    assert "is damaged: it is kept as" in done.stderr
    assert done.returncode == 0
    assert grade("list", cwd=clone).stderr == ""


# --- solution -------------------------------------------------------------------------------------


def test_solution_after_passing_or_giving_up(grade: Grade, clone: Path) -> None:
    source = (clone / "solutions/text/greeting.py").read_text("utf-8")
    refused = grade("solution", "greeting", cwd=clone)
    assert "greeting was not passed yet" in refused.stderr
    assert "--give-up" in refused.stderr
    assert (refused.returncode, refused.stdout) == (2, "")
    assert grade("solution", "greeting", "--give-up", cwd=clone).stdout == source
    assert grade("solution", "greeting", cwd=clone).returncode == 2, "giving up is not passing"

    file = clone / "exercises/text/greeting.py"
    file.write_text(source, encoding="utf-8")
    grade("run", "greeting", cwd=clone)
    file.write_text("edited = 1\n", encoding="utf-8")
    done = grade("solution", "greeting", cwd=clone)
    assert (done.returncode, done.stdout) == (0, source)


@pytest.mark.parametrize("options", [[], ["--give-up"]])
def test_a_release_has_no_solutions(grade: Grade, clone: Path, options: list[str]) -> None:
    shutil.rmtree(clone / "solutions")
    done = grade("solution", "greeting", *options, cwd=clone)
    assert "This copy of the course has no solutions" in done.stderr
    assert (done.returncode, done.stdout) == (2, "")


# --- reset ----------------------------------------------------------------------------------------


def test_reset_says_where_the_file_is(grade: Grade, clone: Path) -> None:
    file = clone / "exercises" / "text" / "greeting.py"
    stub = file.read_bytes()
    file.write_bytes(b"mine = 1\n")
    done = grade("reset", "greeting", cwd=clone)
    first, second = done.stdout.splitlines()
    assert (clone / first.removeprefix("Your file is kept: ")).read_bytes() == b"mine = 1\n"
    assert second == "exercises/text/greeting.py is the stub again."
    assert file.read_bytes() == stub
    again = grade("reset", "greeting", cwd=clone)
    assert again.stdout == "exercises/text/greeting.py is still the stub: nothing to reset.\n"
    file.unlink()
    assert "was missing" in grade("reset", "greeting", cwd=clone).stdout
    assert grade("reset", cwd=clone).returncode == 2


# --- explain --------------------------------------------------------------------------------------


def test_explain(grade: Grade, clone: Path) -> None:
    done = grade("explain", "word_count", cwd=clone)
    assert done.stdout.splitlines() == [
        "Counting words",
        "10 points, about 10 minutes, gentle, open",
        "exercises/text/word_count.py",
        "",
        "Count with a dictionary.",
        "",
        "What is checked",
        "  - Every word is counted",
        "  - The most frequent word comes first",
        "  - and 4 hidden tests",
        "",
        "Not allowed",
        "  - collections.Counter in word_count: count with a dictionary of your own",
    ]
    assert "Better done before\n  - Counting words\n" in (
        grade("explain", "running_mean", cwd=clone).stdout
    )
    assert grade("explain", cwd=clone).stdout == done.stdout


def test_explain_says_where_to_read_on(grade: Grade, clone: Path) -> None:
    manifest = clone / "exercises" / "course.toml"
    text = manifest.read_text("utf-8")
    reading = 'teaches = "Count with a dictionary."\nreading = ["The tutorial [of a kind]"]'
    manifest.write_text(text.replace('teaches = "Count with a dictionary."', reading), "utf-8")
    assert grade("explain", "word_count", cwd=clone).stdout.endswith(
        "Further reading\n  - The tutorial [of a kind]\n"
    )


def test_progress_is_stored_as_json(grade: Grade, clone: Path) -> None:
    shutil.copy(clone / "solutions/text/greeting.py", clone / "exercises/text")
    grade("run", "greeting", cwd=clone)
    state = json.loads((clone / ".grade" / "state.json").read_bytes())
    assert state["exercises"]["greeting"]["passed"]["score"] == 2.5
