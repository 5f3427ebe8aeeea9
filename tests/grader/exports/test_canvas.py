"""Canvas's gradebook: rows are found as its own importer finds them, and nobody gets another one's score."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from grader.exports import FORMATS
from grader.exports.files import ExportError
from grader.results import Entry, Outcome

from ..builders import HOSTILE, checked, entry, exercise, hostile_entry, unjudged, written

HEADER = "Student,ID,SIS User ID,SIS Login ID,Section,Essay (11),Lab 1 (12),Lab 1 Final Score"
POINTS = "    Points Possible,,,,,10,15,(read only)"
ROWS = (
    '"Lovelace, Ada",101,u-ada,ada@uni.example,Sec A,7,,50',
    '"Babbage, Charles",102,u-charles,charles@uni.example,Sec A,8,3,50',
    '"Turing, Alan",103,,alan@uni.example,Sec B,9,EX,50',
    '"Smith, Jo",104,u-jo1,jo1@uni.example,Sec B,,,',
    '"Smith, Jo",105,u-jo2,jo2@uni.example,Sec B,,N/A,',
)


@pytest.fixture
def template(tmp_path: Path) -> Path:
    path = tmp_path / "canvas.csv"
    text = "\ufeff" + "\n".join((HEADER, ",,,,,Manual Posting,,", POINTS, *ROWS)) + "\n"
    path.write_text(text, encoding="utf-8")
    return path


def canvas_reads(text: str) -> tuple[str, dict[str, str], str]:
    """Title of the new column, the score by Canvas ID (or name), the points: as gradebook_importer.rb.

    By place: name, ID, then SIS User ID and SIS Login ID, up to Section; a first cell with "Points Possible"
    is the points' row wherever it stands; rows of commas alone, or of posting policies, are skipped.
    """
    lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True))
    header = lines.pop(0)
    assert "Student" in header[0]
    assert "ID" in header[1]
    sis = header[2:4] == ["SIS User ID", "SIS Login ID"]
    columns = 5 if sis else 4
    assert header[columns - 1] == "Section"
    (title,) = header[columns:]
    scores, worth = {}, ""
    for line in lines:
        if "Points Possible" in line[0]:
            assert not worth, "a second row of points would change the assignment"
            worth = line[columns]
        elif any(cell and not cell.startswith("Manual Posting") for cell in line):
            scores[line[1] or line[0]] = line[columns]
    return title, scores, worth


def filled(
    template: Path, entries: list[Entry], column: str = "Lab 1"
) -> tuple[dict[str, str], list[str]]:
    out, notes = written(FORMATS["canvas"], entries, template=template, column=column)
    title, scores, worth = canvas_reads(out)
    assert (title, worth) == ("Lab 1 (12)", "15")
    assert len(scores) == len(ROWS)
    return scores, notes


HALF = exercise(checked(), checked("b", Outcome.FAILED))


def test_rows_match_by_id_then_sis_ids_then_name(template: Path) -> None:
    entries = [
        entry(HALF, student="x1", name="Somebody Else", ids={"canvas_id": "101"}),
        entry(student="x2", ids={"sis_user_id": "u-charles"}),
        entry(student="x3", ids={"sis_login_id": "JO1@uni.example"}),
        entry(student="jo2@uni.example"),
    ]
    scores, notes = filled(template, entries)
    assert scores == {"101": "7.5", "102": "15", "103": "EX", "104": "15", "105": "N/A"}
    assert "Nothing was handed in for the row Turing, Alan." in notes
    assert any("Smith, Jo: stays N/A" in note for note in notes)


@pytest.mark.parametrize("name", ["Ada Lovelace", "Lovelace, Ada", "ada  lovelace", "LOVELACE,ADA"])
def test_names_match_however_they_are_written(template: Path, name: str) -> None:
    scores, _ = filled(template, [entry(student="x", name=name)])
    assert scores["101"] == "15"


def test_of_two_people_with_one_name_neither_is_guessed(template: Path) -> None:
    scores, notes = filled(template, [entry(student="x", name="Jo Smith")])
    assert (scores["104"], scores["105"]) == ("", "N/A")
    assert any(note.startswith("x: more than one row") for note in notes)


def test_two_entries_for_one_row_fill_in_neither(template: Path) -> None:
    entries = [entry(student="a", name="Ada Lovelace"), entry(student="b", name="Lovelace, Ada")]
    scores, notes = filled(template, entries)
    assert scores["101"] == ""
    assert sum("more than one row or person" in note for note in notes) == 2


def test_a_name_joins_nobody_whom_an_id_tells_apart(template: Path) -> None:
    scores, notes = filled(
        template, [entry(student="x", name="Ada Lovelace", ids={"canvas_id": "999"})]
    )
    assert scores["101"] == ""
    assert "x: is in no row of the template." in notes


def test_what_nobody_judged_and_who_handed_in_nothing_stay_as_they_are(template: Path) -> None:
    entries = [entry(unjudged(), student="x", ids={"canvas_id": "102"})]
    scores, notes = filled(template, entries)
    assert scores["102"] == "3"
    assert any(note.startswith("Babbage, Charles: has no score") for note in notes)


def test_an_excused_student_stays_excused(template: Path) -> None:
    scores, notes = filled(template, [entry(student="x", ids={"canvas_id": "103"})])
    assert scores["103"] == "EX"
    assert "Turing, Alan: stays EX, as Canvas has it." in notes


def test_other_assignments_are_not_written_back(template: Path) -> None:
    out, _ = written(FORMATS["canvas"], [entry()], template=template, column="12")
    assert "Essay" not in out
    assert "Final Score" not in out
    assert out.startswith("\ufeffStudent,ID,")


def test_points_that_differ_are_told_and_scaled(template: Path) -> None:
    half = exercise(checked(), checked("b", Outcome.FAILED), worth=100)
    ada = entry(half, student="x", ids={"canvas_id": "101"})
    scores, notes = filled(template, [ada])
    assert scores["101"] == "50"
    assert any("--out-of 15 scales them" in note for note in notes)
    out, notes = written(FORMATS["canvas"], [ada], template=template, column="Lab 1", out_of=15)
    assert canvas_reads(out)[1]["101"] == "7.5"
    assert not any("scales" in note for note in notes)


@pytest.mark.parametrize(
    ("column", "why"),
    [("", "Which column"), ("Lab", "0 columns fit"), ("Lab 1 Final Score", "0 columns fit")],
)
def test_the_assignment_has_to_be_named(template: Path, column: str, why: str) -> None:
    with pytest.raises(ExportError, match=why) as error:
        written(FORMATS["canvas"], [entry()], template=template, column=column)
    assert "Essay (11); Lab 1 (12)" in str(error.value)


def test_a_semicolon_and_a_header_without_sis_ids(tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text(
        "Student;ID;SIS Login ID;Section;Lab 1 (12)\n    Points Possible;;;;15,0\nAda;101;ada;A;\n",
        encoding="utf-8",
    )
    out, notes = written(FORMATS["canvas"], [entry(HALF, student="ada")], template=path)
    assert out.splitlines()[-1] == "Ada;101;ada;A;7.5"
    assert notes == []


def test_first_and_last_names_in_columns_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text(
        "LastName,FirstName,ID,SIS Login ID,Section,Lab (1)\n    Points Possible,,,,,15\n"
        "Lovelace,Ada,101,a1,A,\n",
        encoding="utf-8",
    )
    out, _ = written(FORMATS["canvas"], [entry(student="x", name="Ada Lovelace")], template=path)
    assert out.splitlines()[-1] == "Lovelace,Ada,101,a1,A,15"


@pytest.mark.parametrize(
    "text",
    ["", "a\n", "Name,Mark\nx,1\n", 'Student,ID,Section,Lab (1)\n"x', "\x00\x01,\x02\n", "\ufeff"],
    ids=ascii,
)
def test_what_is_no_template_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExportError, match=r"canvas\.csv"):
        written(FORMATS["canvas"], [entry()], template=path, column="Lab")


def test_a_template_in_an_old_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    path.write_bytes("Student,ID,Section,Lab (1)\nZoë,1,A,\n".encode("latin-1"))
    with pytest.raises(ExportError, match="UTF-8"):
        written(FORMATS["canvas"], [entry()], template=path)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_without_a_template_every_row_is_a_student(text: str) -> None:
    out, notes = written(FORMATS["canvas"], [entry(), hostile_entry(text)], column="Lab 9")
    title, scores, worth = canvas_reads(out)
    assert (title, worth, len(scores)) == ("Lab 9", "15", 2)
    assert "--template" in notes[0]
