"""`grade plot`: where the picture is saved, and when it also shows the reference solution."""

from __future__ import annotations

import shutil
from pathlib import Path

import click
import pytest

from grader.cli.plot import _place, _png, _reference
from grader.course.manifest import Course, load_course
from grader.errors import SubmissionError
from tests.grader.cli.conftest import pass_here
from tests.grader.command import invoke

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    shutil.copytree(PLAIN, tmp_path / "clone")
    return load_course(tmp_path / "clone")


def test_the_reference_is_shown_once_the_exercise_is_passed_or_given_up(course: Course) -> None:
    exercise = course.exercise("word_count")
    solution = course.solution_source(exercise)
    assert _reference(course, exercise, own=True, give_up=False) is None
    assert _reference(course, exercise, own=True, give_up=True) == solution
    pass_here(course.root, "word_count")
    assert _reference(course, exercise, own=True, give_up=False) == solution
    assert _reference(course, exercise, own=False, give_up=False) is None, "somebody else's"
    assert _reference(course, exercise, own=False, give_up=True) == solution


def test_without_solutions_there_is_no_reference(course: Course) -> None:
    exercise = course.exercise("word_count")
    pass_here(course.root, "word_count")
    shutil.rmtree(course.root / "solutions")
    assert _reference(course, exercise, own=True, give_up=False) is None
    with pytest.raises(SubmissionError, match="has no solutions to draw"):
        _reference(course, exercise, own=True, give_up=True)


def test_pictures_of_own_work_are_saved_in_the_course(course: Course) -> None:
    exercise = course.exercise("word_count")
    assert _place(course, exercise, own=False) == Path("word_count.png")
    assert not (course.root / ".grade").exists()
    assert _place(course, exercise, own=True) == course.root / ".grade/plots/word_count.png"
    assert (course.root / ".grade/plots").is_dir()


@pytest.mark.parametrize("name", ["x.png", "x.PNG", None])
def test_names_of_png_files_are_accepted(tmp_path: Path, name: str | None) -> None:
    path = None if name is None else tmp_path / name
    context = click.Context(command := click.Command("plot"))
    assert _png(context, click.Option(["-o"]), path) == path
    assert command.name == "plot"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nonsense",), "There is no exercise 'nonsense'"),
        (("greeting",), "There is no plot for greeting. No exercise of this course has one."),
        (("greeting", "-o", "x.jpg"), "It is a PNG: name it x.png."),
        (("greeting", "-o", "nowhere/x.png"), "There is no folder nowhere."),
        (("greeting", "--submission", "nowhere"), "Path 'nowhere' does not exist."),
    ],
)
def test_invalid_arguments_are_usage_errors(words: tuple[str, ...], told: str) -> None:
    done = invoke("plot", *words, cwd=PLAIN)
    assert (done.exit_code, done.stdout) == (2, "")
    assert told in " ".join(done.stderr.split())


def test_exercises_with_a_plot_are_named(course: Course) -> None:
    plot = course.plot(course.exercise("word_count"))
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.write_text("", encoding="utf-8")
    done = invoke("plot", "greeting", cwd=course.root)
    assert "There is no plot for greeting. There are plots for: word_count." in done.stderr
