"""Workflow commands, parsed as the Actions runner parses them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.exports import FORMATS
from grader.results import Entry, Outcome, Place, Status

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, rendered, unjudged

COMMAND = re.compile(r"::(\w+) (.*?)::(.*)", re.DOTALL)


def commands(of: Entry, submission: Path = Path()) -> list[tuple[str, dict[str, str], str]]:
    """Return the kind, properties and message of each line. Every line must be a command."""
    found = []
    for line in (
        rendered(FORMATS["annotations"], of, submission=submission).decode().split("\n")[:-1]
    ):
        match = COMMAND.fullmatch(line)
        assert match, line
        kind, properties, message = match.groups()
        pairs = dict(each.split("=", 1) for each in properties.split(","))
        found.append((kind, {key: _plain(text) for key, text in pairs.items()}, _plain(message)))
    return found


def _plain(text: str) -> str:
    for escaped, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(escaped, sign)
    return text


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_is_a_command(text: str) -> None:
    found = commands(hostile_entry(text))
    assert [kind for kind, _, _ in found] == ["error"] * 2
    assert all(set(properties) <= {"file", "line", "title"} for _, properties, _ in found)
    assert "\x1b" not in str(found)


def test_an_annotation_has_the_line_the_message_and_the_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = checked("b", Outcome.FAILED, message="50% wrong:\na, b")
    (found,) = commands(entry(exercise(checked(), failed)))
    assert found == (
        "error",
        {"file": "modules/glu.py", "line": "7", "title": "The title of glu: The title of b"},
        "50% wrong:\na, b\nHint: Look again.",
    )


@pytest.mark.parametrize("place", ["modules/glu.py", "exercises/modules/glu.py", "glu.py"])
def test_the_file_is_named_by_its_path_in_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    path = tmp_path / "work" / place
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.chdir(tmp_path)
    of = entry(exercise(checked(outcome=Outcome.FAILED)))
    for submission in (Path("work"), tmp_path / "work"):
        ((_, properties, _),) = commands(of, submission)
        assert properties["file"] == f"work/{place}"


def test_ten_annotations_at_most_and_some_for_every_exercise() -> None:
    many = [checked(f"t{n}", Outcome.FAILED, message=f"Wrong {n}.") for n in range(30)]
    found = commands(entry(exercise(*many), exercise(*many, name="gelu")))
    assert len(found) == 10
    assert sum("gelu" in properties["title"] for _, properties, _ in found) == 5


def test_a_cause_is_annotated_once_and_an_untouched_exercise_never() -> None:
    same = [checked(f"t{n}", Outcome.FAILED) for n in range(3)]
    elsewhere = checked("u", Outcome.FAILED, place=Place("modules/glu.py", 9, ""))
    untouched = exercise(checked(outcome=Outcome.NOT_IMPLEMENTED), status=Status.NOT_ATTEMPTED)
    lines = [found[1]["line"] for found in commands(entry(exercise(*same, elsewhere), untouched))]
    assert lines == ["7", "9"]


def test_a_broken_file_is_one_error_and_a_grader_fault_is_a_warning() -> None:
    invalid = checked(outcome=Outcome.ERROR, place=Place("modules/glu.py", 3, ""))
    broken = exercise(invalid, invalid, status=Status.ERROR, message="Line 3: no.")
    found = commands(entry(broken, unjudged()))
    assert [(kind, properties.get("line")) for kind, properties, _ in found] == [
        ("error", "3"),
        ("warning", None),
    ]
