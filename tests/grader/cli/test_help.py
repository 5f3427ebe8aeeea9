"""The help of every command is true and complete."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest
from click.testing import CliRunner

from grader.cli import main

COMMANDS = sorted(main.list_commands(click.Context(main)))


def test_commands_are_listed_in_the_order_of_use() -> None:
    shown = CliRunner().invoke(main, ["--help"]).output
    places = [shown.index(f"\n  {name}") for name in ("run", "list", "hint", "batch", "verify")]
    assert places == sorted(places)
    assert "grade run glu" in " ".join(shown.split())
    assert "..." not in shown.partition("For students:")[2], "a short help is cut off"
    assert all(f"\n  {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_examples_that_parse(name: str) -> None:
    done = CliRunner().invoke(main, [name, "-h"])
    assert done.exit_code == 0
    examples = done.output.partition("Example")[2].partition("Options:")[0].splitlines()[1:]
    lines = [line.strip().partition("   ")[0] for line in examples if line.strip()]
    assert lines, f"{name} shows no example"
    for line in lines:
        command, _, _ = line.partition(">")
        program, first, *rest = shlex.split(command)
        assert (program, first) == ("grade", name)
        assert parses(main.load(name), rest), line


@pytest.mark.parametrize("name", COMMANDS)
def test_options_refuse_nan_and_infinity(name: str) -> None:
    command = main.load(name)
    for option in command.params:
        # `grade adjust` refuses them itself.
        if isinstance(option.type, click.types.FloatParamType) and name != "adjust":
            convert: Any = option.type.convert
            for text in ("nan", "inf", "-inf"):
                with pytest.raises(click.BadParameter):
                    convert(text, option, None)


def parses(command: click.Command, arguments: list[str]) -> bool:
    """Return whether the command accepts these arguments, ignoring missing paths."""
    try:
        command.make_context(command.name, arguments)
    except click.UsageError as error:
        return "does not exist" in error.message
    return True


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name: str) -> None:
    for parameter in main.load(name).params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_options_without_a_command_go_to_run() -> None:
    done = CliRunner().invoke(main, ["--suite", "secret"])
    assert done.exit_code == 2
    assert done.output.startswith("Usage: main run ")
