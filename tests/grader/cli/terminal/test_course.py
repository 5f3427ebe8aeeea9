"""Lists, hints and explanations of exercises, also on narrow and low screens."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from rich.console import Console
from rich.text import Text

from grader.cli.terminal.course import (
    _widths,
    exercise_lines,
    hint_lines,
    show_chapter,
    show_exercises,
    show_explanation,
    show_source,
    show_walls,
)
from grader.course.manifest import load_course
from grader.sandbox.walls.survey import WallSurvey
from grader.sandbox.walls.wall import Level
from grader.student.workspace import Workspace

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
ASSIGNMENTS = """
timezone = "Europe/Warsaw"

[[assignment]]
id = "week1"
title = "Words"
chapters = ["text"]
extra_credit = ["greeting"]
due = 2026-10-12T23:59:59

[[assignment]]
id = "w2"
title = "Arrays"
exercises = ["running_mean"]
"""


def console(width: int = 100, height: int = 50) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, markup=False, highlight=False)


def lines(texts: Iterable[Text]) -> list[str]:
    return [text.plain.rstrip() for text in texts]


def shown(show: Callable[..., None], *about: object) -> list[str]:
    out = console()
    show(out, *about)
    return str(out.file.getvalue()).splitlines()  # type: ignore[attr-defined]  # it is a StringIO


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clone of the plain course, with the stubs as they were handed out."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(PLAIN / "exercises", tmp_path / "tests" / "stubs", ignore=ignored)
    return tmp_path


def begun(folder: Path, name: str) -> None:
    (folder / "exercises" / name).write_text("x = 1\n", encoding="utf-8")


ROWS = [{"exercise": "word_count", "points": "10 / 10", "minutes": "10", "difficulty": "gentle"}]


@pytest.mark.parametrize(
    ("width", "columns", "room"),
    [
        # Two blanks follow each column: 33 in all.
        (53, ["exercise", "points", "minutes", "difficulty"], 20),
        (52, ["exercise", "points", "minutes"], 27),
        (44, ["exercise", "points"], 23),
        (19, ["exercise", "points"], -2),
        (18, ["exercise"], 6),
    ],
)
def test_narrow_lists_drop_columns_to_fit_the_title(
    width: int, columns: list[str], room: int
) -> None:
    widths, left = _widths(width, ROWS)
    assert list(widths) == columns
    assert left == room


def test_a_list_has_a_line_for_each_exercise_and_the_progress(folder: Path) -> None:
    begun(folder, "text/greeting.py")
    found = lines(exercise_lines(console(), Workspace(load_course(folder))))
    assert found[1] == "text            0 of 2 done"
    assert found[3].split("  ")[1] == "greeting" and " begun " in found[3]
    assert found[-1] == "0 of 3 done"


def test_on_a_low_screen_only_the_opened_chapter_lists_its_exercises(folder: Path) -> None:
    workspace = Workspace(load_course(folder))

    def names(height: int, opened: str) -> list[str]:
        found = lines(exercise_lines(console(height=height), workspace, opened=opened))
        return [line.split()[0] for line in found[1:-2]]

    whole = ["text", "word_count", "greeting", "arrays", "running_mean"]
    assert names(12, "arrays") == whole
    assert names(11, "arrays") == ["text", "arrays", "running_mean"]
    assert names(11, "") == whole


def test_assignments_are_listed_with_their_progress_and_due_time(folder: Path) -> None:
    (folder / "exercises" / "assignments.toml").write_text(ASSIGNMENTS, encoding="utf-8")
    found = shown(show_exercises, Workspace(load_course(folder)))
    assert found[-3:] == [
        "assignment  done    due                    title",
        "week1       0 of 2  2026-10-12 23:59 CEST  Words",
        "w2          0 of 1                         Arrays",
    ]
    (greeting,) = (line for line in found if line.split()[:1] == ["greeting"])
    assert greeting.endswith("  extra credit: A greeting [of a kind]")


def test_a_public_release_has_no_points(folder: Path) -> None:
    with_points = lines(exercise_lines(console(), Workspace(load_course(folder))))[0]
    shutil.rmtree(folder / "tests" / "hidden")
    without = lines(exercise_lines(console(), Workspace(load_course(folder))))[0]
    assert "points" in with_points and "points" not in without


def test_a_hint_shows_its_number_and_the_next_step(folder: Path) -> None:
    exercise = load_course(folder).exercise("word_count")
    first, *rest = lines(hint_lines(console(), exercise, 2, "One more."))
    assert first == f"{exercise.title}, hint 2 of {len(exercise.hints)}"
    assert rest[-1] == "One more." and exercise.hints[1].split()[0] in rest[0]
    assert lines(hint_lines(console(), exercise, 1, ""))[-1] != ""


def test_a_chapter_says_what_to_do_before_and_next(folder: Path) -> None:
    workspace = Workspace(load_course(folder))
    found = shown(show_chapter, workspace, "arrays")
    assert found[:2] == ["arrays", "1 exercise, about 20 minutes, 0 of 1 done"]
    assert "  Better done before: word_count." in found
    assert found[-1] == "`grade explain running_mean` says more of the next one."


def test_an_explanation_lists_what_is_checked_and_counts_the_hidden_tests(folder: Path) -> None:
    workspace = Workspace(load_course(folder))
    exercise = workspace.course.exercise("word_count")
    found = shown(show_explanation, workspace, exercise)
    assert found[:2] == ["Counting words", "10 points, about 10 minutes, gentle, open"]
    checked = found[found.index("What is checked") + 1 : found.index("Not allowed") - 1]
    assert checked == [
        "  - Every word is counted",
        "  - The most frequent word comes first",
        "  - and 4 hidden tests",
    ]
    assert "Further reading" not in found and "Better done before" not in found


def test_in_a_pipe_a_file_is_only_its_text() -> None:
    assert shown(show_source, Path("x.py"), "[bold]a[/]  = 1\n") == ["[bold]a[/]  = 1"]


def test_a_missing_wall_has_a_reason_and_a_remedy() -> None:
    walls = [
        WallSurvey("rlimits", True, "limits memory", "", ""),
        WallSurvey("seccomp", False, "filters calls", "no library", "Install it."),
        WallSurvey("landlock", False, "hides files", "old kernel", ""),
    ]
    first, second, third, last = shown(show_walls, walls, Level.LIMITS)
    assert first == "+ rlimits            limits memory"
    assert second == "x seccomp            missing: no library. > Install it."
    assert third == "x landlock           missing: old kernel."
    assert last == "Isolation reaches the level: limits."
