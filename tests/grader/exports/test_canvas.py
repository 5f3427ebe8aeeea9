"""Canvas's gradebook: rows match as in Canvas's own importer, and nobody gets another student's score."""

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
    """Return the title of the new column, the scores by Canvas ID (or name), and the points.

    Reads like gradebook_importer.rb. Columns go by position: name, ID, SIS User ID and SIS Login ID, up to
    Section. A row whose first cell has "Points Possible" holds the points, wherever it is. Rows with only
    commas or with posting policies are skipped.
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
    assert "There is no submission for the row Turing, Alan." in notes
    assert any("Smith, Jo: stays N/A" in note for note in notes)


@pytest.mark.parametrize("name", ["Ada Lovelace", "Lovelace, Ada", "ada  lovelace", "LOVELACE,ADA"])
def test_names_match_however_they_are_written(template: Path, name: str) -> None:
    scores, _ = filled(template, [entry(student="x", name=name)])
    assert scores["101"] == "15"


def test_rows_of_namesakes_are_not_guessed(template: Path) -> None:
    scores, notes = filled(template, [entry(student="x", name="Jo Smith")])
    assert (scores["104"], scores["105"]) == ("", "N/A")
    assert any(note.startswith("x: more than one row") for note in notes)


def test_two_entries_for_one_row_leave_it_empty(template: Path) -> None:
    entries = [entry(student="a", name="Ada Lovelace"), entry(student="b", name="Lovelace, Ada")]
    scores, notes = filled(template, entries)
    assert scores["101"] == ""
    assert sum("more than one row or person" in note for note in notes) == 2


def test_a_name_does_not_match_if_the_ids_differ(template: Path) -> None:
    scores, notes = filled(
        template, [entry(student="x", name="Ada Lovelace", ids={"canvas_id": "999"})]
    )
    assert scores["101"] == ""
    assert "x: is not in the template." in notes


def test_rows_without_a_verdict_stay_as_they_are(template: Path) -> None:
    entries = [entry(unjudged(), student="x", ids={"canvas_id": "102"})]
    scores, notes = filled(template, entries)
    assert scores["102"] == "3"
    assert any(note.startswith("Babbage, Charles: has no score") for note in notes)


def test_an_excused_student_stays_excused(template: Path) -> None:
    scores, notes = filled(template, [entry(student="x", ids={"canvas_id": "103"})])
    assert scores["103"] == "EX"
    assert "Turing, Alan: stays EX, as in Canvas." in notes


def test_other_assignments_are_not_written_back(template: Path) -> None:
    out, _ = written(FORMATS["canvas"], [entry()], template=template, column="12")
    assert "Essay" not in out
    assert "Final Score" not in out
    assert out.startswith("\ufeffStudent,ID,")


def test_different_maximum_points_are_noted_and_can_be_scaled(template: Path) -> None:
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
def test_the_assignment_must_be_named(template: Path, column: str, why: str) -> None:
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
def test_a_file_that_is_not_a_template_is_refused(tmp_path: Path, text: str) -> None:
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


@pytest.mark.parametrize(
    ("title", "told"),
    [
        (
            "Final Score Lab",
            '"Final Score" in its title, so the upload would change nothing. Choose anot',
        ),
        ("Week 1 Current Points (2)", '--column "Week 1 2"'),
        ("Override Status", '--column "Result"'),
        ("Lab (2)", "reads (2) at the end of a title as the number of an existing assignment"),
        ("Lab (2)", '--column "Lab 2"'),
    ],
)
def test_a_title_that_canvas_skips_or_cuts_is_refused(title: str, told: str) -> None:
    with pytest.raises(ExportError) as caught:
        written(FORMATS["canvas"], [entry()], column=title)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    "title", ["Final (Lab)", "final score", "Lab(2)", "Week 2", "Finals Score"]
)
def test_similar_titles_are_accepted(title: str) -> None:
    out, _ = written(FORMATS["canvas"], [entry()], column=title)
    assert canvas_reads(out)[0] == title


def test_an_assignment_that_canvas_skips_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text("Student,ID,Section,Final Score Lab (7)\n    Points Possible,,,15\nA,1,S,\n")
    with pytest.raises(ExportError, match="rename the assignment in Canvas"):
        written(FORMATS["canvas"], [entry()], template=path)


def test_a_student_in_two_rows_gets_one_note(tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text(
        'Student,ID,Section,Lab 1 (7)\n    Points Possible,,,15\n"A, Ada",101,S1,\n"A, Ada",101,S2,\n'
    )
    out, notes = written(
        FORMATS["canvas"], [entry(student="x", ids={"canvas_id": "101"})], template=path
    )
    assert out.splitlines()[2:] == ['"A, Ada",101,S1,', '"A, Ada",101,S2,']
    assert notes == [
        "x: more than one row fits (A, Ada, row 3; A, Ada, row 4), so none was filled in."
    ]


def test_a_grade_that_is_replaced_is_noted(template: Path) -> None:
    entries = [
        entry(HALF, student="x1", ids={"canvas_id": "101"}),
        entry(student="x2", ids={"canvas_id": "102"}),
    ]
    _, notes = written(FORMATS["canvas"], entries, template=template, column="Lab 1")
    assert notes[0] == "Babbage, Charles: has 3 in the template, and gets 15."
    assert "grade adjust --points" in notes[1]
    again = template.read_text(encoding="utf-8").replace("A,8,3,", "A,8,15.00,")
    template.write_text(again, encoding="utf-8")
    _, notes = written(FORMATS["canvas"], entries, template=template, column="Lab 1")
    assert not any("in the template" in note for note in notes)


def test_the_test_student_is_not_noted_as_missing(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    template.write_text(f'{text}"Student, Test",199,,{"0a" * 20},S,,,\n', encoding="utf-8")
    _, notes = written(FORMATS["canvas"], [entry()], template=template, column="Lab 1")
    assert not any("Student, Test" in note for note in notes)


def test_assignments_with_one_title_are_chosen_by_number(tmp_path: Path) -> None:
    path = tmp_path / "canvas.csv"
    header = "Student,ID,Section,Lab (7),Lab (8),Final Score (2026)"
    path.write_bytes(f"{header}\r    Points Possible,,,15,15,(leer)\rA,1,S,,,\r".encode())
    with pytest.raises(ExportError, match="2 columns fit 'Lab': name one by its number") as caught:
        written(FORMATS["canvas"], [entry()], template=path, column="Lab")
    assert str(caught.value).endswith("The assignments are: Lab (7); Lab (8).")
    ada = entry(student="x", ids={"canvas_id": "1"})
    out, _ = written(FORMATS["canvas"], [ada], template=path, column="8")
    assert out.splitlines() == [
        "Student,ID,Section,Lab (8)",
        "    Points Possible,,,15",
        "A,1,S,15",
    ]


@pytest.mark.parametrize("worth", ["1,234.00", "1.234,00", "1234"])
def test_points_may_have_thousands_separators(tmp_path: Path, worth: str) -> None:
    path = tmp_path / "canvas.csv"
    path.write_text(f'Student,ID,Section,Lab (7)\n    Points Possible,,,"{worth}"\nA,1,S,\n')
    ada = entry(student="x", ids={"canvas_id": "1"})
    _, notes = written(FORMATS["canvas"], [ada], template=path)
    assert "--out-of 1234 scales them" in notes[0]
