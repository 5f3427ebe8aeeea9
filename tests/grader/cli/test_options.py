"""Options and arguments that several commands share."""

from __future__ import annotations

import getpass
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from grader.cli import options
from grader.cli.options import (
    FiniteRange,
    assigned,
    disclosure,
    known_exercises,
    login_name,
    open_course,
    repeated,
    usage_errors,
    was_given,
    writable,
)
from grader.course.manifest import load_course
from grader.errors import CourseError, GraderError
from grader.results import Disclosure

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
COURSE = load_course(PLAIN)


def within(call: Callable[[], Any], *arguments: str) -> Any:
    """Return the result of a call inside a command with these arguments."""
    found: list[Any] = []

    @click.command()
    @click.option("--seed", type=int, default=0)
    @click.option("-o", "--output", default="")
    @click.option("--submission")
    def command(**given: Any) -> None:
        found.append(call())

    done = CliRunner().invoke(command, arguments, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return found[0]


@pytest.mark.parametrize("value", ["0", "100", "33.3"])
def test_a_percentage_is_finite_and_within_bounds(value: str) -> None:
    kind = FiniteRange(0, 100)
    assert kind.convert(value, None, None) == float(value)
    for wrong in ("-0.1", "100.1", "inf", "nan", "x"):
        with pytest.raises(click.BadParameter):
            kind.convert(wrong, None, None)
    with pytest.raises(click.BadParameter, match="'inf' is not a finite number"):
        FiniteRange(0).convert("inf", None, None)


# --- exercises ------------------------------------------------------------------------------------


def named(*names: str) -> list[str]:
    return [exercise.id for exercise in known_exercises(COURSE, names)]


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        ((), ["word_count", "greeting", "running_mean"]),
        (("greeting",), ["greeting"]),
        (("running_mean", "word_count", "running_mean"), ["word_count", "running_mean"]),
        (("text",), ["word_count", "greeting"]),
        (("exercises/text/",), ["word_count", "greeting"]),
        (("text/greeting.py",), ["greeting"]),
        (("exercises/text/greeting.py", "text"), ["word_count", "greeting"]),
        (("/anywhere/arrays/running_mean.py",), ["running_mean"]),
    ],
)
def test_exercises_are_named_by_id_chapter_or_path(names: tuple[str, ...], ids: list[str]) -> None:
    assert named(*names) == ids


def test_inside_a_chapter_the_name_of_the_file_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(PLAIN / "exercises" / "text")
    assert named("greeting.py") == ["greeting"]
    with pytest.raises(click.UsageError):
        named("running_mean.py")


@pytest.mark.parametrize("name", ["greting", "arrays/greeting.py", "", "."])
def test_an_unknown_name_is_a_usage_error(name: str) -> None:
    with pytest.raises(click.UsageError):
        named(name)
    with pytest.raises(click.UsageError, match="greeting"):
        named("greting")


# --- courses --------------------------------------------------------------------------------------


def test_a_course_is_found_above_a_path() -> None:
    assert open_course(PLAIN / "exercises" / "text").name == "plain"


def test_a_missing_course_or_assignment_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError):
        open_course(tmp_path)
    with pytest.raises(click.UsageError):
        open_course(PLAIN, "week1")
    with pytest.raises(click.UsageError):
        assigned(COURSE, "week1")


def test_only_a_course_error_becomes_a_usage_error() -> None:
    with pytest.raises(click.UsageError, match=r"^gone$"), usage_errors():
        raise CourseError("gone")
    with pytest.raises(GraderError, match="broken"), usage_errors():
        raise GraderError("broken")


def test_a_pack_has_no_folder_for_work() -> None:
    options.refuse_pack(COURSE)
    packed = msgspec.structs.replace(COURSE, unpacked=object())
    with pytest.raises(click.UsageError, match="name the files with --submission"):
        within(lambda: options.refuse_pack(packed))


# --- other options --------------------------------------------------------------------------------


def test_an_output_file_needs_an_existing_folder(tmp_path: Path) -> None:
    context: Any = None
    for path in (None, Path("-"), tmp_path / "result.json", Path("result.json")):
        assert writable(context, context, path) == path
    with pytest.raises(click.BadParameter, match="There is no folder"):
        writable(context, context, tmp_path / "missing" / "result.json")


def test_options_that_were_given_are_known_and_repeated() -> None:
    assert not within(lambda: was_given("seed", "output"))
    assert within(lambda: was_given("seed", "output"), "--output", "")
    assert within(lambda: was_given("seed"), "--seed", "0"), "given, though it is the default"
    given = ("-o", "my results", "--seed", "3")
    assert within(lambda: repeated("seed", "output", "submission"), *given) == (
        " --seed 3 -o 'my results'"
    )
    assert within(lambda: repeated("submission"), *given) == ""


def test_disclosure_levels_match_those_of_results() -> None:
    assert disclosure(None) is None
    assert [disclosure(level) for level in options.DISCLOSURES] == list(Disclosure)


def test_without_a_login_name_an_author_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "kim")
    assert login_name() == "kim"

    def nobody() -> str:
        raise KeyError("uid")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(click.UsageError, match="--author"):
        login_name()
