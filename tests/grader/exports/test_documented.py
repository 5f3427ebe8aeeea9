"""docs/exports.md and docs/ci.md: every command parses, and every format and input is explained."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
import yaml

from grader.cli import main
from grader.exports import FORMATS
from grader.exports.files import StudentFormat

ROOT = Path(__file__).resolve().parents[3]
EXPORTS = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8")
CI = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    (grade .+)$", EXPORTS + CI, re.MULTILINE)


def parses(line: str) -> bool:
    """Return whether this is a valid command line of ours, ignoring missing files."""
    _, name, *arguments = shlex.split(line)
    try:
        main.load(name).make_context(name, arguments)
    except click.UsageError as error:
        return "does not exist" in error.message
    return True


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_parses(line: str) -> None:
    assert parses(line)


def test_every_format_is_in_the_table() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", EXPORTS, re.MULTILINE))
    assert sorted(rows) == sorted(FORMATS)
    for name, chosen in FORMATS.items():
        # `csv` has a row for each student, in one file.
        is_for_each = "for each student" in rows[name] and name != "csv"
        assert is_for_each == isinstance(chosen, StudentFormat), (
            f"{name}: its row says 'for each student' if the format writes a file for each."
        )


def test_every_input_and_output_of_the_action_is_explained() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    for name in (*action["inputs"], *action["outputs"]):
        assert f"`{name}`" in CI, name
