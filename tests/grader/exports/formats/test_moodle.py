"""Moodle: the file for a plain import, the worksheet, and comments by a person."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from grader.exports.files import ExportError
from grader.exports.formats.moodle import FORMATS, moodle_keys, moodle_person
from grader.results import Entry, Outcome
from tests.grader.builders import checked, entry, exercise, unjudged, written

MOODLE = FORMATS["moodle"]
HALF = exercise(checked(), checked("b", Outcome.FAILED))
HEADER = (
    'Identifier,"Full name","Email address",Status,Grade,"Maximum Grade",'
    '"Last modified (grade)","Feedback comments"'
)
ADA = '"Participant 501","Ada Lovelace",ada@uni.example,Submitted,{grade},{worth},-,{comment}'
BEN = (
    '"Participant 502","Ben Babbage",ben@uni.example,Submitted,3.00,{worth},-,"<p>By a person</p>"'
)


def sheet(
    tmp_path: Path,
    *,
    grade: str = "",
    worth: str = "15.00",
    comment: str = "",
    header: str = HEADER,
) -> Path:
    path = tmp_path / "worksheet.csv"
    quoted = f'"{comment}"'.replace("\n", " ")
    rows = header, ADA.format(grade=grade, worth=worth, comment=quoted), BEN.format(worth=worth)
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def rows(*entries: Entry, **options: Any) -> tuple[list[list[str]], list[str]]:
    out, notes = written(MOODLE, entries, **options)
    return list(csv.reader(io.StringIO(out, newline=""), strict=True)), notes


def ada(*exercises: Any, **who: Any) -> Entry:
    return entry(*(exercises or (HALF,)), student="x", ids={"moodle_identifier": "501"}, **who)


# --- people ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("identifier", "number"),
    [
        ("501", "501"),
        ("Participant 501", "501"),
        ("Teilnehmer/in501 ", "501"),
        ("Ada", ""),
        ("", ""),
    ],
)
def test_the_number_of_a_person_ends_the_identifier(identifier: str, number: str) -> None:
    person = moodle_person(
        entry(student="Ada7", email="A@B.c", ids={"moodle_identifier": identifier})
    )
    assert (person["moodle_identifier"], person["id"], person["email"]) == (number, "ada7", "a@b.c")


def test_rows_are_matched_by_number_first_and_by_name_last() -> None:
    keys = moodle_keys(["email", "username"])
    assert (keys[0].column, keys[0].person, keys[0].alias) == (
        "identifier",
        "moodle_identifier",
        False,
    )
    assert (keys[-1].column, keys[-1].person, keys[-1].alias) == ("name", "name", True)
    assert {key.column for key in keys[1:-1]} == {"email", "username"}
    assert {key.person for key in keys[1:-1]} == {
        "email",
        "username",
        "id",
        "id_number",
        "sis_user_id",
        "sis_login_id",
    }


# --- a plain import -------------------------------------------------------------------------------


def test_a_plain_import_has_a_dash_for_every_missing_grade() -> None:
    other = exercise(checked(), name="gelu", worth=5)
    table, notes = rows(
        entry(HALF, other, student="ada", email="a@b.c", ids={"username": "ada7"}),
        entry(HALF, unjudged("gelu", 5), student="ben"),
        entry(HALF, student="cy"),
    )
    assert table == [
        ["username", "email", "modules/glu", "modules/gelu", "total"],
        ["ada7", "a@b.c", "7.5", "5", "12.5"],
        ["ben", "", "7.5", "-", "-"],
        ["cy", "", "7.5", "-", "7.5"],
    ]
    assert notes[0].startswith("1 student has no total:") and len(notes) == 1


def test_a_plain_import_can_be_scaled_and_has_chosen_columns() -> None:
    table, _ = rows(
        entry(HALF, student="ada"), out_of=10, column="Lab", feedback="Comments", title="Week 1"
    )
    assert table[0] == ["username", "email", "modules/glu", "Lab", "Comments"]
    assert table[1][2:4] == ["7.5", "5"]
    assert "7.5 of 15 points" in table[1][4]


# --- the worksheet --------------------------------------------------------------------------------


def test_only_the_grade_of_a_row_is_written(tmp_path: Path) -> None:
    path = sheet(tmp_path, grade="2.00")
    before = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"), newline="")))
    table, notes = rows(ada(), template=path)
    expected = [*before[1]]
    expected[4] = "7.5"
    assert table == [before[0], expected, before[2]]
    assert any("Participant 501 (Ada Lovelace)" in note and "2" in note for note in notes)
    assert "There is no submission for the row Participant 502 (Ben Babbage)." in notes


def test_an_open_total_leaves_the_grade_and_says_why(tmp_path: Path) -> None:
    table, notes = rows(ada(unjudged()), template=sheet(tmp_path, grade="2.00"))
    assert table[1][4] == "2.00"
    assert any(
        note.startswith("Participant 501 (Ada Lovelace): has no grade. gelu could")
        for note in notes
    )


@pytest.mark.parametrize(("worth", "grade"), [("15.00", "7.5"), ('"15,00"', "7,5")])
def test_a_grade_is_written_like_the_maximum(tmp_path: Path, worth: str, grade: str) -> None:
    table, _ = rows(ada(), template=sheet(tmp_path, worth=worth))
    assert table[1][4] == grade


def test_a_different_maximum_is_noted(tmp_path: Path) -> None:
    _, notes = rows(ada(), template=sheet(tmp_path, worth="20.00"))
    assert any(note.startswith("The maximum grade in Moodle is 20") for note in notes)
    _, notes = rows(ada(), template=sheet(tmp_path))
    assert not any("maximum" in note for note in notes)


# --- comments -------------------------------------------------------------------------------------


def test_a_comment_fills_an_empty_cell(tmp_path: Path) -> None:
    table, notes = rows(
        ada(), template=sheet(tmp_path), feedback="Feedback comments", title="Week 1"
    )
    assert "7.5" in table[1][7] and "<" in table[1][7]
    assert table[2][7] == "<p>By a person</p>"
    assert not any("comment" in note for note in notes)
    without, _ = rows(ada(), template=sheet(tmp_path), title="Week 1")
    assert without[1][7] == ""


def test_our_comment_is_replaced_and_a_person_s_stays(tmp_path: Path) -> None:
    first, _ = rows(ada(), template=sheet(tmp_path), feedback="Feedback comments", title="Week 1")
    ours = first[1][7].replace('"', '""')
    better = ada(exercise(checked(), checked("b")))
    options = {"feedback": "Feedback comments", "title": "Week 1"}
    again, notes = rows(better, template=sheet(tmp_path, comment=ours), **options)
    assert "15 of 15" in again[1][7] != first[1][7]
    assert not any("comment" in note for note in notes)
    kept, notes = rows(better, template=sheet(tmp_path, comment="Well done!"), **options)
    assert (kept[1][4], kept[1][7]) == ("15", "Well done!")
    assert "Participant 501 (Ada Lovelace): has another person's comment, which stays." in notes


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"column": "Mark"}, "There is no single column 'Mark' in "),
        (
            {"column": "Mark"},
            "name it with --column. There are: Identifier; Full name; Email address;",
        ),
        ({"feedback": "Remarks"}, "There is no single column 'Remarks' after the grade in "),
        (
            {"feedback": "Remarks"},
            "There are: Maximum Grade; Last modified (grade); Feedback comments.",
        ),
        ({"feedback": "Status"}, "There is no single column 'Status' after the grade"),
        ({"feedback": "Grade"}, "There is no single column 'Grade' after the grade"),
    ],
)
def test_a_missing_column_is_refused(tmp_path: Path, options: dict[str, str], told: str) -> None:
    with pytest.raises(ExportError) as raised:
        rows(ada(), template=sheet(tmp_path), **options)
    assert told in str(raised.value)


def test_a_worksheet_without_rows_or_identifiers_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text(HEADER + "\n", encoding="utf-8")
    with pytest.raises(ExportError, match="has no rows"):
        rows(ada(), template=empty)
    empty.write_text("Name,Grade\nAda,1\n", encoding="utf-8")
    with pytest.raises(ExportError, match="no column has an identifier"):
        rows(ada(), template=empty)
