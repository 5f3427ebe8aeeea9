"""Tables of the formats csv, canvas, moodle, nbgrader and jsonl. No name breaks a row or is a formula."""

from __future__ import annotations

import csv
import io
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from grader.exports import FORMATS
from grader.exports.files import Options
from grader.exports.table import Table, guarded
from grader.exports.texts import one_line
from grader.results import Entry, Mark, Outcome

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, unjudged, written

TABLES = ("csv", "canvas", "moodle", "nbgrader")
STARTS_OF_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # noqa: RUF001  # as typed


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_name_breaks_a_row_or_is_a_formula(name: str, text: str) -> None:
    both = [hostile_entry(text), entry(student="after")]
    out, _ = written(FORMATS[name], both)
    lines = list(csv.reader(io.StringIO(out, newline=""), strict=True))
    before = 2 if name == "canvas" else 1
    assert len(lines) == before + 2
    assert len({len(line) for line in lines}) == 1
    assert len(out.splitlines()) == len(lines), "a reader that splits at lines sees the same rows"
    for cell in (cell for line in lines for cell in line):
        assert not cell.startswith(STARTS_OF_FORMULAS) or cell == "-"
        assert "\x00" not in cell
        assert "\u202e" not in cell
        assert "\x1b" not in cell


SPLIT_OPEN = (
    ";=1+1",
    "Ada;=1+1",
    "Ada; =1+1",
    'Ada;"=1+1"',
    'Ada;""=1+1',
    "Ada,+1",
    "Smith, -1",
    "a\t=1",
    "a|@SUM(A1)",
    "a\n=1",
    "a;＝1",  # noqa: RUF001  # as typed on an East Asian keyboard
    "a;'=1;=2,=3",
    ";;=1",
    '";=1',
    "-",
)


def opened(out: str, separator: str, *, quotes: bool) -> list[str]:
    """Return the cells as a spreadsheet with this list separator opens them."""
    cells = []
    for line in out.splitlines():
        cell, inside = "", False
        for sign in line:
            if quotes and sign == '"' and (inside or not cell):
                inside = not inside
            elif sign == separator and not inside:
                cells.append(cell)
                cell = ""
            else:
                cell += sign
        cells.append(cell)
    return cells


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("separator", [";", ",", "\t", "|"])
@pytest.mark.parametrize("text", [*HOSTILE, *SPLIT_OPEN], ids=ascii)
def test_no_cell_is_a_formula_with_any_separator(name: str, separator: str, text: str) -> None:
    out, _ = written(FORMATS[name], [hostile_entry(text), entry(student="after")])
    for quotes in (True, False):
        for cell in opened(out, separator, quotes=quotes):
            shown = cell.lstrip(' "\t')
            assert not shown.startswith(STARTS_OF_FORMULAS) or shown == "-", cell


@pytest.mark.parametrize("separator", [";", ",", "\t", "|"])
@pytest.mark.parametrize("written_with", [";", ",", "\t"])
@pytest.mark.parametrize("text", SPLIT_OPEN, ids=ascii)
def test_no_cell_of_a_template_is_a_formula(written_with: str, separator: str, text: str) -> None:
    out = io.BytesIO()
    Table(out, written_with).kept([text, "Ada", text])
    for quotes in (True, False):
        for cell in opened(out.getvalue().decode(), separator, quotes=quotes):
            shown = cell.lstrip(' "\t')
            assert not shown.startswith(STARTS_OF_FORMULAS) or shown == "-", cell


@pytest.mark.parametrize(
    "text", ["Smith, Ada", "Jean-Luc", "a+b@example.org", "2026-09-01T10:00:00Z", "x; y", "1 - 2"]
)
def test_harmless_cells_stay_as_they_are(text: str) -> None:
    assert guarded(text) == text


def test_there_is_a_row_for_each_student_and_a_column_for_each_exercise() -> None:
    partial = exercise(checked(), checked("b", Outcome.FAILED))
    other = exercise(checked(), name="gelu", worth=2.5)
    entries = [
        entry(partial, other, student="ada", name="Ada", email="ada@example.org", attempt=2),
        entry(
            other, student="bob", late=True, submitted_at="2026-09-01T00:00:00Z", origin="bob.zip"
        ),
    ]
    out, notes = written(FORMATS["csv"], entries)
    ada, bob = rows_of(out)
    assert notes == []
    assert (ada["student"], ada["name"], ada["attempt"], ada["late"]) == ("ada", "Ada", "2", "no")
    assert (ada["modules/glu"], ada["modules/gelu"], ada["total"]) == ("7.5", "2.5", "10")
    assert (ada["max_score"], ada["status"]) == ("17.5", "partial")
    assert (bob["modules/glu"], bob["modules/gelu"], bob["total"]) == ("", "2.5", "2.5")
    assert (bob["late"], bob["origin"], bob["status"]) == ("yes", "bob.zip", "passed")


@pytest.mark.parametrize(
    ("name", "column", "empty"),
    [("csv", "total", ""), ("nbgrader", "score", ""), ("moodle", "total", "-")],
)
def test_an_unjudged_exercise_is_not_a_zero(name: str, column: str, empty: str) -> None:
    out, notes = written(FORMATS[name], [entry(exercise(checked()), unjudged())])
    (row,) = rows_of(out)
    assert "1 student has no total" in notes[0]
    assert row[column] == empty
    assert "0" not in [row.get("modules/gelu"), row.get("raw_score"), row.get("score")]
    if name == "csv":
        assert (row["modules/glu"], row["modules/gelu"], row["status"]) == ("15", "", "unjudged")


def test_the_total_can_be_scaled() -> None:
    out, _ = written(
        FORMATS["csv"], [entry(exercise(checked(), checked("b", Outcome.FAILED)))], out_of=10
    )
    (row,) = rows_of(out)
    assert (row["total"], row["max_score"]) == ("5", "10")


def test_nbgrader_gets_no_late_penalty_for_practice() -> None:
    late: dict[str, Any] = {
        "mark": Mark(judged=15, due="2026-10-01T10:00:00Z", lost=5.0),
        "score": 10.0,
    }
    exercises = exercise(checked(), **late), exercise(checked(), name="b", practice=True, **late)
    out, _ = written(FORMATS["nbgrader"], [entry(*exercises)])
    (row,) = rows_of(out)
    keys = ("raw_score", "late_submission_penalty", "score", "max_score")
    assert [row[key] for key in keys] == ["15", "5", "10", "15"]


def test_nbgrader_has_the_columns_of_its_export() -> None:
    # nbgrader/plugins/export.py, CsvExportPlugin.export
    keys = "assignment,duedate,timestamp,student_id,last_name,first_name,email,"
    keys += "raw_score,late_submission_penalty,score,max_score"
    names = {"Lovelace, Ada": ("Lovelace", "Ada"), "Ada King Lovelace": ("Lovelace", "Ada King")}
    names |= {"Cher": ("Cher", ""), "": ("", "")}
    out, _ = written(FORMATS["nbgrader"], [entry(name=name) for name in names], column="ps1")
    assert out.splitlines()[0] == keys
    for row, (family, given) in zip(rows_of(out), names.values(), strict=True):
        assert (row["last_name"], row["first_name"]) == (family, given)
        assert row["assignment"] == "ps1"
        assert float(row["score"]) == float(row["raw_score"]) == float(row["max_score"]) == 15
        assert row["late_submission_penalty"] == "0"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_json_lines_can_be_read_back(text: str) -> None:
    entries = [hostile_entry(text), entry(student="after")]
    out, _ = written(FORMATS["jsonl"], entries)
    lines = out.split("\n")
    assert lines.pop() == ""
    assert [msgspec.json.decode(line, type=Entry) for line in lines] == entries
    assert len(out.splitlines()) == 2


def test_tables_without_entries() -> None:
    assert written(FORMATS["jsonl"], []) == ("", [])
    assert len(written(FORMATS["csv"], [])[0].splitlines()) == 1
    assert written(FORMATS["canvas"], []) == ("", ["There is no result to export."])


class Many:
    """A class that is never in memory as a whole."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __iter__(self) -> Iterator[Entry]:
        for number in range(self.count):
            yield entry(exercise(checked(message="x" * 1000)), student=f"s{number}")


class Counting(io.RawIOBase):
    """A stream that keeps only the number of its lines."""

    lines = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]  # bytes are all that is written
        self.lines += data.count(b"\n")
        return len(data)


@pytest.mark.parametrize(
    ("name", "before"), [("csv", 1), ("jsonl", 0), ("moodle", 1), ("nbgrader", 1)]
)
def test_a_class_is_written_in_the_memory_of_one_entry(name: str, before: int) -> None:
    out = Counting()
    tracemalloc.start()
    try:
        FORMATS[name].write(Many(1_500), out, Options())  # type: ignore[union-attr,arg-type]  # a class format
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert out.lines == 1_500 + before
    # Their messages alone take 1.5 MB.
    assert peak < 500_000


def test_a_single_dash_stays_and_one_line_keeps_words() -> None:
    assert guarded("-") == "-"
    assert guarded("-1") == "'-1"
    assert one_line("  می‌خواهم \u200b=x\n") == "می‌خواهم =x"


def test_only_excel_gets_a_byte_order_mark() -> None:
    out, _ = written(FORMATS["csv"], [entry(name="Zoë")], excel=True)
    assert out.startswith("\ufeffstudent,")
    assert out[1:] == written(FORMATS["csv"], [entry(name="Zoë")])[0]
