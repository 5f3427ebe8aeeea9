"""TOML written by people: a mistake is explained with its line, its key and a remedy."""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest

from grader.errors import CourseError, GraderError
from grader.toml import (
    Identifier,
    QualifiedName,
    Text,
    TomlMistake,
    converted,
    explain_mistake,
    line_of,
    read_course_file,
    read_toml,
    sentence,
    to_toml,
    written_value,
)


class Rule(enum.Enum):
    BEST = "best"
    NEWEST = "newest"


class Step(msgspec.Struct, forbid_unknown_fields=True):
    after: int
    percent: float = 0.0


class Late(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    per_day: Annotated[float, msgspec.Meta(ge=0, le=100)] = 0.0
    steps: list[Step] = []


class Task(msgspec.Struct, forbid_unknown_fields=True):
    id: Identifier
    title: Text = "A task"
    points: float = 1.0
    places: tuple[QualifiedName, ...] = ()
    alone: bool = False
    mode: Literal["code", "words"] = "code"


class Page(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    count: Rule = Rule.NEWEST
    due: datetime.datetime | None = None
    late: Late = Late()
    task: list[Task] = []


def message_of(text: str, examples: Mapping[str, str] | None = None) -> str:
    """Return the line and the explanation of the mistake in a page."""
    with pytest.raises(TomlMistake) as raised:
        read_toml(text, Page)
    return f"{raised.value.line}: {explain_mistake(raised.value, text, Page, examples or {})}"


# --- reading --------------------------------------------------------------------------------------


def test_toml_is_read_into_a_struct() -> None:
    text = """
name = "a"
count = "best"
due = 2026-10-12T23:59:00
[late]
per_day = 10
steps = [{ after = 1, percent = 50 }]
[[task]]
id = "relu"
places = ["forward", "Layer.forward"]
"""
    page = read_toml(text, Page)
    assert (page.name, page.count, page.due) == (
        "a",
        Rule.BEST,
        datetime.datetime(2026, 10, 12, 23, 59),
    )
    assert page.late == Late(10.0, [Step(1, 50.0)])
    assert page.task == [Task("relu", places=("forward", "Layer.forward"))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Not TOML.
        ("\nname = = 'a'", "2: this is not TOML: Invalid value, in `name = = 'a'`."),
        ('name = "a', "0: this is not TOML: Unterminated string"),
        (
            "name = 'a'\ndue = 2026-10-12 at noon",
            "in `due = 2026-10-12 at noon`. A time has seconds and no",
        ),
        # Unknown and missing keys.
        (
            "name = 'a'\n[late]\nper_dy = 1",
            "3: there is no key `per_dy` of [late]. Did you mean 'per_day'?",
        ),
        ("nme = 'a'", "1: there is no key `nme`. Did you mean 'name'?"),
        ("count = 'best'", "0: needs `name`."),
        ("name = 'a'\n[[task]]\nid = 'b'\n[[task]]\ntitle = 'c'", "4: [[task]] 2 needs `id`."),
        # Values of a wrong type.
        ("name = 1", "1: `name`: expected a text in quotes, got a whole number."),
        ("name = 'a'\nlate = 2", "2: `late`: expected a table, got a whole number."),
        ("name = 'a'\ntask = 2", "2: `task`: expected a list, got a whole number."),
        (
            "name = 'a'\n[[task]]\nid = 'b'\nalone = 'yes'",
            "4: `alone` of the task 'b': expected true or false, got a text in quotes.",
        ),
        (
            "name = 'a'\n[[task]]\nid = 'B-2'",
            "3: `id` of the task 'B-2': expected a small letter, then small letters, digits and _.",
        ),
        (
            "name = 'a'\n[[task]]\nid = 'b'\nplaces = ['ok', 'not ok']",
            "4: `places` of the task 'b': expected the name of a function or class, as forward",
        ),
        (
            "name = 'a'\n[late]\nsteps = [{ after = 'x' }]",
            "3: `after` of steps: expected a whole number, got a text in quotes.",
        ),
        (
            "name = 'a'\n[late]\nper_day = 101",
            "3: `per_day` of [late]: expected a number <= 100.0.",
        ),
        # One of a few values.
        (
            "name = 'a'\ncount = 'last'",
            "2: `count`: invalid enum value 'last', not one of best, newest.",
        ),
        (
            "name = 'a'\n[[task]]\nid = 'b'\nmode = 'both'",
            "4: `mode` of the task 'b': invalid enum value 'both', not one of code, words.",
        ),
        # Values that are never allowed.
        (
            "name = 'a'\n[late]\nper_day = inf",
            "3: `per_day` of [late]: expected a number, got inf.",
        ),
        (
            "name = 'a'\n[late]\nper_day = nan",
            "3: `per_day` of [late]: expected a number, got nan.",
        ),
        (
            "name = 'a'\ndue = 2026-10-12",
            "2: `due`: expected a time, as 2026-10-12T23:59:00, got a date without a time.",
        ),
        ("name = 'a'\ndue = 23:59:00", "2: `due`: expected a time, got a time without a date."),
        ("name = 'a'\ndue = 'noon'", "2: `due`: this is not a time like 2026-10-12T23:59:00."),
        (
            "name = 'a'\n[late]\nsteps = [{ after = 1, percent = inf }]",
            "3: `percent` of steps: expected a number, got inf.",
        ),
    ],
)
def test_a_mistake_is_explained_with_its_line_and_key(text: str, message: str) -> None:
    assert message in message_of(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = 1", "got a whole number. Write name = 'Ann'."),
        ("count = 'best'", "0: needs `name`. Write name = 'Ann'."),
        (
            "name = 'a'\ncount = 'last'",
            "2: `count`: invalid enum value 'last'. Write count = 'best'.",
        ),
        ("name = 'a'\nper_day = 1", "2: there is no key `per_day`. It belongs below [late]."),
        (
            "name = 'a'\n[late]\ncount = 1",
            "there is no key `count` of [late]. It belongs below no table.",
        ),
    ],
)
def test_an_example_is_shown_if_there_is_one(text: str, message: str) -> None:
    assert message in message_of(text, {"name": "name = 'Ann'", "count": "count = 'best'"})


def test_a_mistake_has_a_path_and_a_place() -> None:
    with pytest.raises(TomlMistake) as raised:
        read_toml("name = 'a'\n[[task]]\nid = 'b'\npoints = 'x'", Page)
    assert (raised.value.path, raised.value.place) == ("task[0].points", ", line 4")
    with pytest.raises(TomlMistake) as raised:
        read_toml("", Page)
    assert (raised.value.path, raised.value.place) == ("", "")


def test_a_table_without_its_text_has_no_line() -> None:
    with pytest.raises(TomlMistake) as raised:
        converted({"name": 1}, Page)
    assert (raised.value.path, raised.value.line) == ("name", 0)


def test_a_mistake_in_a_course_file_names_file_line_and_page(tmp_path: Path) -> None:
    file = tmp_path / "page.toml"
    advice = "Compare with docs/authoring.md, where every key is explained."
    for content, message in (
        (
            b"name = 1",
            f"{file}, line 1: `name`: expected a text in quotes, got a whole number. {advice}",
        ),
        (b"", f"{file}: needs `name`. {advice}"),
        (b"name = '\xff'", "can't decode byte 0xff"),
    ):
        file.write_bytes(content)
        with pytest.raises(CourseError) as raised:
            read_course_file(file, Page, "authoring.md")
        assert message in str(raised.value)
    file.unlink()
    with pytest.raises(CourseError, match="No such file"):
        read_course_file(file, Page, "authoring.md")


def test_the_line_is_that_of_the_key_or_its_table() -> None:
    text = "a = 1\n[[due]]\nat = 1\n[[due]]\nat = '''\nat = 3\n'''\nto.day = 2\n"
    assert line_of(text, "a") == 1
    assert line_of(text, "due[1].at") == 5
    assert line_of(text, "due[1].to.day") == 8
    assert line_of(text, "due[1].missing") == 4
    assert line_of(text, "due[2].at") == 0
    assert line_of(text, "") == 0
    quoted = f'note = """\n[[due]]\na = 2\n"""\n{text}'
    assert (line_of(quoted, "a"), line_of(quoted, "due[1].at")) == (5, 9)


@pytest.mark.parametrize(("text", "ended"), [("so", "so."), ("so.", "so."), ("so?", "so?")])
def test_a_sentence_gets_one_final_mark(text: str, ended: str) -> None:
    assert sentence(text) == ended


# --- writing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ('say "hi"\n\\ \x7f é', '"say \\"hi\\"\\n\\\\ \\u007f é"'),
        (1.5, "1.5"),
        (True, "true"),
        ([], "[]"),
        ([1, 2], "[1, 2]"),
        ({}, "{}"),
        ({"a b": [1], "c": {"d": "e"}}, '{ "a b" = [1], "c" = { "d" = "e" } }'),
        (datetime.datetime(2026, 10, 12, 23, 59), "2026-10-12T23:59:00"),
        (["x" * 40, "y" * 60], f'[\n    "{"x" * 40}",\n    "{"y" * 60}",\n]'),
        (["x" * 40, "y" * 52], f'["{"x" * 40}", "{"y" * 52}"]'),
    ],
)
def test_a_value_is_written_as_toml(value: Any, text: str) -> None:
    assert written_value(value) == text


def test_a_table_is_written_with_values_before_tables() -> None:
    table = {
        "exercise": [{"id": "a", "forbidden": [{"names": ["x"]}]}, {"id": "b"}],
        "title": "T",
        "a key": 2,
        "none": [],
    }
    assert to_toml(table) == (
        'title = "T"\n"a key" = 2\nnone = []\n\n[[exercise]]\nid = "a"\n\n'
        '[[exercise.forbidden]]\nnames = ["x"]\n\n[[exercise]]\nid = "b"\n'
    )


def test_a_value_that_toml_cannot_express_is_refused() -> None:
    with pytest.raises(GraderError, match="could not be rewritten"):
        to_toml({"numbers": (1, 2)})
