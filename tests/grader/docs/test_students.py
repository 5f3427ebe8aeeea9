"""Commands in docs/students.md parse, and the page names states and files correctly."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from grader.cli import main
from grader.student.progress import FOLDER, Standing

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "students.md").read_text(encoding="utf-8")
COMMANDS = sorted(set(re.findall(r"`(grade [^`]+)`", PAGE)))


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_parse(line: str) -> None:
    _, *arguments = shlex.split(line)
    context = main.make_context("grade", list(arguments), resilient_parsing=False)
    name, command, rest = main.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None and name is not None
    # `grade solution` without arguments only names the command.
    required = any(each.required for each in command.params if isinstance(each, click.Argument))
    if rest or not required:
        command.make_context(name, rest, parent=context)


def test_the_states_and_places_are_named() -> None:
    for standing in (Standing.EDITED_SINCE, Standing.TESTS_CHANGED, Standing.FULL_MARKS):
        assert f"`{standing.value}`" in PAGE
    assert f"`{FOLDER}/state.json`" in PAGE
