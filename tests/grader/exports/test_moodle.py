"""Moodle's worksheet in any language, and its plain import."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest

from grader.exports import FORMATS
from grader.exports.files import ExportError
from grader.results import Entry, Outcome

from ..builders import checked, entry, exercise, unjudged, written

ENGLISH = """\
Identifier,"Full name","Email address",Status,Grade,"Maximum Grade","Grade can be changed","Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 501","Ada Lovelace",ada@uni.example,"Submitted for grading - ",,15.00,Yes,"Monday, 1 September 2026, 10:00 AM",-,
"Participant 502","Alan Turing",alan@uni.example,"No submission - ",3.00,15.00,Yes,-,"Tuesday, 2 September 2026, 1:00 PM","<p>Good,
but late</p>"
"""  # noqa: E501  # as long as a worksheet's lines are
GERMAN = """\
ID,"Vollständiger Name",Anmeldename,E-Mail-Adresse,Status,Bewertung,Bestwertung,"Bewertung kann geändert werden","Zuletzt geändert (Abgabe)","Zuletzt geändert (Bewertung)",Feedback als Kommentar
"Teilnehmer/in501","Ada Lovelace",ada,ada@uni.example,"Zur Bewertung abgegeben","15,00","15,00",Ja,-,-,
"Teilnehmer/in502","Alan Turing",alan,alan@uni.example,"Keine Abgabe","15,00","15,00",Ja,-,-,
"""  # noqa: E501  # as long as a worksheet's lines are
HALF = exercise(checked(), checked("b", Outcome.FAILED))


def sheet(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "worksheet.csv"
    path.write_text(text, encoding="utf-8")
    return path


def moodle_reads(text: str, identifier: str, grade: str) -> dict[str, str]:
    """Return grades by id as importgradeslib.php does: localized columns, and the digits that end the id."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    return {re.sub(r"^\D+", "", row[identifier]): row[grade] for row in rows}


@pytest.mark.parametrize(
    "who",
    [
        entry(HALF, student="x", ids={"moodle_identifier": "501"}),
        entry(HALF, student="x", ids={"moodle_identifier": "Participant 501"}),
        entry(HALF, student="x", email="ADA@uni.example"),
        entry(HALF, student="x", name="Lovelace, Ada"),
        entry(HALF, student="Ada@uni.example"),
    ],
    ids=["number", "identifier", "email", "name", "id"],
)
def test_the_worksheet_is_filled_in(tmp_path: Path, who: Entry) -> None:
    out, notes = written(FORMATS["moodle"], [who], template=sheet(tmp_path, ENGLISH))
    assert moodle_reads(out, "Identifier", "Grade") == {"501": "7.5", "502": "3.00"}
    assert notes == ["There is no submission for the row Participant 502 (Alan Turing)."]
    before = list(csv.reader(io.StringIO(ENGLISH, newline="")))
    after = list(csv.reader(io.StringIO(out, newline="")))
    before[1][4] = "7.5"
    assert after == before, "only the grade changes, not even feedback or dates"


def test_a_german_worksheet_gets_decimal_commas(tmp_path: Path) -> None:
    entries = [entry(HALF, student="ada"), entry(unjudged(), student="alan")]
    out, notes = written(FORMATS["moodle"], entries, template=sheet(tmp_path, GERMAN))
    assert moodle_reads(out, "ID", "Bewertung") == {"501": "7,5", "502": "15,00"}
    assert notes[:2] == [
        (
            "Teilnehmer/in502 (Alan Turing): has no grade. gelu could not be judged because of a fault of "
            "the grader."
        ),
        "Teilnehmer/in501 (Ada Lovelace): has 15,00 in the template, and gets 7,5.",
    ]
    assert len(notes) == 3, "the third says how to keep it"


def test_a_blind_worksheet_and_one_student(tmp_path: Path) -> None:
    text = "Identifier,Status,Grade,Maximum Grade,Last modified (grade)\nParticipant 7,Submitted,,100.00,-\n"
    who = entry(HALF, student="x", ids={"moodle_identifier": "7"})
    out, notes = written(FORMATS["moodle"], [who], template=sheet(tmp_path, text), out_of=100)
    assert out.splitlines()[1] == "Participant 7,Submitted,50,100.00,-"
    assert notes == []


def test_a_different_maximum_is_noted(tmp_path: Path) -> None:
    who = entry(exercise(checked(), worth=45), student="x", name="Ada Lovelace")
    _, notes = written(FORMATS["moodle"], [who], template=sheet(tmp_path, ENGLISH))
    assert "--out-of 15 scales them" in notes[0]


def test_the_column_of_the_grade_can_be_named(tmp_path: Path) -> None:
    text = "Identifier,Full name,Nota\nParticipant 7,Ada,\n"
    path = sheet(tmp_path, text)
    with pytest.raises(ExportError, match="name it with --column"):
        written(FORMATS["moodle"], [entry(name="Ada")], template=path)
    out, _ = written(FORMATS["moodle"], [entry(name="Ada")], template=path, column="Nota")
    assert out.splitlines()[1] == "Participant 7,Ada,15"


@pytest.mark.parametrize(
    "text",
    ["Identifier,Full name,Grade\n", "username,grade\nada,5\nbob,6\n", "a,b\nx,y\n"],
    ids=ascii,
)
def test_a_file_that_is_not_a_worksheet_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExportError, match=r"worksheet\.csv"):
        written(FORMATS["moodle"], [entry()], template=sheet(tmp_path, text))


def test_the_plain_import_has_users_and_a_column_for_each_exercise() -> None:
    entries = [
        entry(HALF, unjudged(), student="S1", email="ada@x.example", ids={"username": "ada"}),
        entry(HALF, student="bob"),
    ]
    out, _ = written(FORMATS["moodle"], entries, column="Lab 1")
    # grade/import/csv reads a dash as "no grade", and an empty cell of a new item as a broken number.
    assert out.splitlines() == [
        "username,email,modules/glu,modules/gelu,Lab 1",
        "ada,ada@x.example,7.5,-,-",
        "bob,,7.5,-,7.5",
    ]


def test_a_separator_line_for_excel_is_skipped(tmp_path: Path) -> None:
    text = "sep=;\n" + GERMAN.replace('"15,00"', "15.00").replace(",", ";")
    who = entry(HALF, student="x", ids={"moodle_identifier": "501"})
    out, _ = written(FORMATS["moodle"], [who], template=sheet(tmp_path, text))
    assert out.startswith("ID;") and "Teilnehmer/in501;Ada Lovelace;ada;ada@uni.example;" in out


def test_a_grade_that_is_replaced_is_noted(tmp_path: Path) -> None:
    entries = [
        entry(student="x", ids={"moodle_identifier": "501"}),
        entry(student="y", ids={"moodle_identifier": "502"}),
    ]
    _, notes = written(FORMATS["moodle"], entries, template=sheet(tmp_path, ENGLISH))
    assert notes[0] == "Participant 502 (Alan Turing): has 3.00 in the template, and gets 15."
    assert "grade adjust --points" in notes[1]
    # The same grade, as the worksheet writes it, is not replaced.
    _, notes = written(FORMATS["moodle"], entries, template=sheet(tmp_path, GERMAN))
    assert notes == []


def test_an_identifier_in_two_rows_gets_one_note(tmp_path: Path) -> None:
    text = f"{ENGLISH}{ENGLISH.splitlines()[1]}\n"
    who = entry(student="x", ids={"moodle_identifier": "501"})
    out, notes = written(FORMATS["moodle"], [who], template=sheet(tmp_path, text))
    assert "15," not in out.replace("15.00", "").replace("15,00", "")
    # The comment of the second row has a line break: rows and lines are not the same.
    ada = "Participant 501 (Ada Lovelace)"
    where = f"{ada}, row 2; {ada}, row 4 (line 5 of the file)"
    assert notes == [
        f"x: more than one row fits ({where}), so none was filled in.",
        "There is no submission for the row Participant 502 (Alan Turing).",
    ]


def test_line_ends_of_old_macs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "worksheet.csv"
    path.write_bytes(GERMAN.replace("\n", "\r").encode())
    out, _ = written(FORMATS["moodle"], [entry(HALF, student="ada")], template=path)
    assert moodle_reads(out, "ID", "Bewertung") == {"501": "7,5", "502": "15,00"}
