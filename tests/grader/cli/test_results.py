"""Finding the student that an instructor's command names."""

from __future__ import annotations

import pytest

from grader.cli.results import find_student, named_student
from grader.errors import SubmissionError
from grader.results import StudentInfo

ADA = StudentInfo(id="ada", name="Ada Lovelace", email="ada@uni.example", ids={"canvas_id": "101"})
ADAM = StudentInfo(id="adam", name="Adam Smith", email="smith@uni.example")
JO = StudentInfo(id="jo1", name="Jo Smith", email="jo1@uni.example")
CLASS = [ADA, ADAM, JO]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("ada", ADA),  # an id, although another id contains it
        ("lovelace", ADA),
        ("101", ADA),
        ("JO1@", JO),
        ("adam", ADAM),
    ],
)
def test_a_part_of_a_name_is_enough_to_look_at_a_student(wanted: str, found: StudentInfo) -> None:
    assert find_student(CLASS, wanted) is found


def test_an_ambiguous_part_is_refused_with_the_ids() -> None:
    with pytest.raises(
        SubmissionError, match=r"'smith' may be 2 students: adam, jo1. Name the id."
    ):
        find_student(CLASS, "smith")
    many = [StudentInfo(id=f"smith{n}") for n in range(9)]
    with pytest.raises(SubmissionError, match=r"may be 9 students: smith0, .*smith4 and 4 more"):
        find_student(many, "smith")


def test_an_unknown_student_gets_a_suggestion() -> None:
    with pytest.raises(
        SubmissionError, match=r"No student here has 'lovelase'.*Did you mean 'ada'\?"
    ):
        find_student(CLASS, "lovelase")


def test_a_team_or_section_is_not_the_name_of_a_student() -> None:
    """Not even if it has a single member."""
    cem = StudentInfo(id="cem", ids={"team": "blue", "section": "B2", "username": "c17"})
    assert find_student([cem], "c17") is cem
    for wanted in ("blue", "B2"):
        for find in (find_student, named_student):
            with pytest.raises(SubmissionError, match="student"):
                find([cem], wanted)


@pytest.mark.parametrize("wanted", ["ada", "Ada Lovelace", "ADA@UNI.EXAMPLE", "101"])
def test_changing_points_needs_a_whole_name(wanted: str) -> None:
    assert named_student(CLASS, wanted) is ADA


@pytest.mark.parametrize("wanted", ["lovelace", "ad", ""])
def test_a_part_of_a_name_changes_no_points(wanted: str) -> None:
    with pytest.raises(SubmissionError, match=f"There is no student '{wanted}' here"):
        named_student(CLASS, wanted)


def test_an_ambiguous_name_changes_no_points() -> None:
    twins = [ADA, StudentInfo(id="ada2", name="Ada Lovelace")]
    with pytest.raises(SubmissionError, match=r"name of more than one: ada, ada2. Name the id."):
        named_student(twins, "ada lovelace")
