"""Canvas's gradebook: the file for a new assignment, the ids that match a row, and the column to fill in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from grader.exports.files import ExportError
from grader.exports.formats.canvas import FORMATS
from grader.results import Entry
from tests.grader.builders import checked, entry, exercise, unjudged, written

CANVAS = FORMATS["canvas"]
HEADER = "Student,ID,SIS User ID,SIS Login ID,Section"
POINTS = "    Points Possible,,,,,{}"
ADA = {"canvas_id": "7", "sis_user_id": "u7", "sis_login_id": "Ada7", "section": "A"}


def new(*entries: Entry, **options: Any) -> tuple[list[str], list[str]]:
    out, notes = written(CANVAS, entries, **options)
    return out.splitlines(), notes


# --- a new assignment -----------------------------------------------------------------------------


def test_a_new_assignment_has_every_id_and_the_points() -> None:
    half = exercise(checked(weight=1), checked("b", weight=1), worth=10, score=7.5)
    lines, notes = new(
        entry(half, student="x", name="Ada Lovelace", ids=ADA),
        entry(half, student="y", name="Ben", ids={"sis_login_id": "ben"}),
        title="Week 1",
    )
    assert lines == [
        f"{HEADER},Week 1",
        POINTS.format("10"),
        "Ada Lovelace,7,u7,Ada7,A,7.5",
        "Ben,,,ben,,7.5",
    ]
    assert notes == []


def test_an_open_total_is_an_empty_cell_and_counted() -> None:
    lines, notes = new(entry(unjudged(), student="x", ids=ADA), entry(student="y", ids=ADA))
    assert [line.rpartition(",")[2] for line in lines[2:]] == ["", "15"]
    assert notes[0].startswith("1 student has no total:") and len(notes) == 1


def test_rows_without_an_id_are_counted() -> None:
    _, notes = new(entry(student="x"), entry(student="y", ids={"section": "A"}), entry(ids=ADA))
    assert len(notes) == 1
    assert notes[0].startswith("2 of the rows have no id of Canvas's, only a name")


def test_totals_and_the_maximum_are_scaled() -> None:
    lines, _ = new(entry(exercise(checked(), score=7.5), ids=ADA), out_of=10)
    assert (lines[1], lines[2].rpartition(",")[2]) == (POINTS.format("10"), "5")


def test_no_name_is_taken_for_the_row_of_points() -> None:
    lines, _ = new(entry(name="Points Possible Smith", ids=ADA))
    assert lines[2].startswith("Points_Possible Smith,7,")


def test_without_a_student_there_is_nothing_to_export() -> None:
    assert new() == ([], ["There is no result to export."])


@pytest.mark.parametrize(
    ("column", "advice"),
    [
        ("Lab Final Score", '--column "Lab"'),
        ("Final Score", '--column "Result"'),
        ("Current Points Lab", '--column "Lab"'),
        ("Lab (12)", '--column "Lab 12"'),
    ],
)
def test_a_title_that_canvas_skips_or_cuts_is_refused_with_advice(column: str, advice: str) -> None:
    with pytest.raises(ExportError) as raised:
        new(entry(ids=ADA), column=column)
    assert advice in str(raised.value)


# --- an export of Canvas, filled in ---------------------------------------------------------------

TEMPLATE = f"""{HEADER},Essay (11),Lab (12)
{POINTS.format("10,15")}
Ada Lovelace,7,u7,ada7,A,1,2
Ben Babbage,8,u8,ben8,B,3,
"""


def filled(
    tmp_path: Path, text: str, *entries: Entry, **options: Any
) -> tuple[list[str], list[str]]:
    path = tmp_path / "canvas.csv"
    path.write_text(text, encoding="utf-8")
    return new(*entries, **{"template": path, "column": "Lab", **options})


@pytest.mark.parametrize(
    "who",
    [
        {"ids": {"canvas_id": "8"}},
        {"ids": {"sis_user_id": "u8"}},
        {"ids": {"sis_login_id": "BEN8"}},
        {"ids": {"username": "Ben8"}},
        {"email": "Ben8"},
        {"student": "u8"},
        {"student": "BEN8"},
        {"name": "Babbage, Ben"},
    ],
    ids=str,
)
def test_a_row_is_found_by_every_id(tmp_path: Path, who: Mapping[str, Any]) -> None:
    lines, notes = filled(tmp_path, TEMPLATE, entry(**{"student": "x", **who}))
    assert lines[2:] == ["Ada Lovelace,7,u7,ada7,A,2", "Ben Babbage,8,u8,ben8,B,15"]
    assert notes == ["There is no submission for the row Ada Lovelace."]


@pytest.mark.parametrize(
    "who", [{"ids": {"canvas_id": "u8"}}, {"ids": {"sis_user_id": "8"}}, {"student": "8"}], ids=str
)
def test_an_id_of_another_kind_finds_nobody(tmp_path: Path, who: Mapping[str, Any]) -> None:
    lines, _ = filled(tmp_path, TEMPLATE, entry(**{"student": "x", **who}))
    assert lines[3] == "Ben Babbage,8,u8,ben8,B,"


def test_only_the_column_of_the_assignment_is_written(tmp_path: Path) -> None:
    essay = filled(tmp_path, TEMPLATE, column="Essay (11)")[0]
    assert essay[:3] == [f"{HEADER},Essay (11)", POINTS.format("10"), "Ada Lovelace,7,u7,ada7,A,1"]
    assert filled(tmp_path, TEMPLATE, column="11")[0] == essay
    assert filled(tmp_path, TEMPLATE, column="Essay")[0] == essay


def test_an_open_total_leaves_the_cell_and_says_why(tmp_path: Path) -> None:
    lines, notes = filled(tmp_path, TEMPLATE, entry(unjudged("gelu"), ids={"canvas_id": "7"}))
    assert lines[2] == "Ada Lovelace,7,u7,ada7,A,2"
    assert (
        "Ada Lovelace: has no score. gelu could not be judged because of a fault of the grader."
        in notes
    )


def test_a_different_maximum_is_noted(tmp_path: Path) -> None:
    one = entry(ids={"canvas_id": "7"})
    _, notes = filled(tmp_path, TEMPLATE, one, column="11")
    assert any(note.startswith("The assignment has 10 points in Canvas") for note in notes)
    assert not any("points in Canvas" in note for note in filled(tmp_path, TEMPLATE, one)[1])


@pytest.mark.parametrize("mark", ["EX", " ex ", "N/A"])
def test_an_excused_student_stays_excused(tmp_path: Path, mark: str) -> None:
    text = TEMPLATE.replace("A,1,2", f"A,1,{mark}")
    lines, notes = filled(tmp_path, text, entry(ids={"canvas_id": "7"}))
    assert lines[2] == f"Ada Lovelace,7,u7,ada7,A,{mark}"
    assert f"Ada Lovelace: stays {mark.strip()}, as in Canvas." in notes


def test_a_name_in_two_columns_reads_as_one(tmp_path: Path) -> None:
    text = TEMPLATE.replace("Student,", "Last Name,First Name,").replace("Possible,", "Possible,,")
    text = text.replace("Ada Lovelace", "Lovelace,Ada").replace("Ben Babbage", "Babbage,Ben")
    lines, notes = filled(tmp_path, text, entry(student="x", name="Ada Lovelace"))
    assert lines[2] == "Lovelace,Ada,7,u7,ada7,A,15"
    assert "There is no submission for the row Babbage, Ben." in notes


@pytest.mark.parametrize(
    ("text", "column", "told"),
    [
        (
            TEMPLATE,
            "",
            "Which column is it: name one with --column. The assignments are: Essay (11); Lab",
        ),
        (TEMPLATE, "Quiz", "0 columns fit 'Quiz': name one with --column."),
        (
            TEMPLATE.replace("Essay (11)", "Lab (13)"),
            "Lab",
            "2 columns fit 'Lab': name one by its number with --column.",
        ),
        (
            TEMPLATE.replace("Student", "Name"),
            "Lab",
            "is not an export of Canvas's: its header must begin",
        ),
        (TEMPLATE.replace("Section", "Group"), "Lab", "is not an export of Canvas's"),
    ],
)
def test_a_template_without_the_column_is_refused(
    tmp_path: Path, text: str, column: str, told: str
) -> None:
    with pytest.raises(ExportError) as raised:
        filled(tmp_path, text, entry(), column=column)
    assert told in str(raised.value)
