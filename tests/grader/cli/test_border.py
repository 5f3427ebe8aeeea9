"""The border of the command line: each kind of error has its exit code, and its message is harmless."""

from __future__ import annotations

from collections.abc import Mapping

import click
import pytest
from click.testing import CliRunner, Result

from grader.cli.border import Command, Group
from grader.errors import ExitCode, GraderError, SubmissionError, UsageError
from grader.student.client import ForbiddenError, ServerError

FAMILIES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Everyday": {"run": ("run", "judge"), "reset": ("course:reset", "restore a stub")},
    "Once": {"restore": ("restore", "put a backup back")},
}


def run_raising(error: BaseException | None) -> Result:
    """Run a command that raises this error."""

    def body() -> None:
        if error is not None:
            raise error

    return CliRunner().invoke(Command("command", callback=body), [])


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (None, ExitCode.FULL_MARKS, ""),
        (SubmissionError("no file"), ExitCode.USAGE, "Error: no file"),
        (click.UsageError("no such option"), ExitCode.USAGE, "Error: no such option"),
        (UsageError("sign in"), ExitCode.USAGE, "grade: sign in\n"),
        (ForbiddenError("another role"), ExitCode.USAGE, "grade: another role\n"),
        (ServerError("not reached"), ExitCode.FAULT, "grade: not reached\n"),
        (GraderError("a wall is missing"), ExitCode.FAULT, "grade: a wall is missing\n"),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED, "grade: interrupted.\n"),
        (ZeroDivisionError("x"), ExitCode.FAULT, "fault of the grader and costs no student"),
        (click.Abort(), 1, "Aborted!"),
        (click.exceptions.Exit(7), 7, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_each_error_has_its_exit_code_and_message(
    error: BaseException | None, code: int, told: str
) -> None:
    done = run_raising(error)
    assert done.exit_code == code
    assert told in done.stderr if told else done.stderr == ""


def test_usage_is_shown_only_for_mistakes_in_the_arguments() -> None:
    assert run_raising(SubmissionError("no file")).stderr.startswith("Usage: ")
    assert "Usage" not in run_raising(UsageError("sign in")).stderr


@pytest.mark.parametrize("error", [SubmissionError, GraderError])
def test_control_characters_in_an_error_are_removed(error: type[Exception]) -> None:
    done = run_raising(error("a\x1b[31mb\x07c\u202ed"))
    assert "\x1b" not in done.stderr and "\x07" not in done.stderr and "\u202e" not in done.stderr


def parsed(*words: str) -> list[str]:
    group = Group("grade", families=FAMILIES, params=[click.Option(["--version"], is_flag=True)])
    context = click.Context(group, info_name="grade")
    group.parse_args(context, list(words))
    return [*context._protected_args, *context.args]


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ((), ["run"]),
        (("-v",), ["run", "-v"]),
        (("--all", "x"), ["run", "--all", "x"]),
        (("reset", "glu"), ["reset", "glu"]),
        (("--version",), []),
    ],
)
def test_options_without_a_command_go_to_run(words: tuple[str, ...], meant: list[str]) -> None:
    assert parsed(*words) == meant


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("rn", "run"),
        ("rest", "restore"),
        ("res", "reset"),
        ("test", "run"),
        ("help", "--help"),
        ("r", None),
        ("zzz", None),
    ],
)
def test_typos_prefixes_and_synonyms_suggest_a_command(
    typed: str, meant: str | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    group = Group("grade", families=FAMILIES)
    with pytest.MonkeyPatch.context() as patch:
        # There is no course here, so no exercise can be meant.
        patch.chdir(tmp_path_factory.getbasetemp())
        assert group._command_meant(typed) == meant


def test_commands_are_listed_in_order_and_loaded_by_name() -> None:
    group = Group("grade", families=FAMILIES)
    context = click.Context(group)
    assert group.list_commands(context) == ["run", "reset", "restore"]
    assert group.get_command(context, "nothing") is None
    restore = group.get_command(context, "restore")
    assert restore is not None and restore.name == "restore"
    reset = group.get_command(context, "reset")
    assert reset is not None and reset.name == "reset", "reset is defined in another module"
