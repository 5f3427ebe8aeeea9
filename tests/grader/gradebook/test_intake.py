"""Each student is in a gradebook once, even if a server or its tokens are given another roster."""

from __future__ import annotations

import pytest

from grader.errors import SubmissionError
from grader.gradebook.intake import refuse_other_roster
from grader.results import StudentInfo

BEFORE = [
    StudentInfo(id="jdoe", name="Jane Doe", email="jane@uni.edu"),
    StudentInfo(id="pb", name="Piet B", ids={"id_number": "502"}),
]


def test_a_roster_with_other_ids_is_refused() -> None:
    other = [StudentInfo(id="501", ids={"username": "jdoe"}), StudentInfo(id="502", name="Piet")]
    with pytest.raises(
        SubmissionError, match=r"2 of these 2 students are in results under another"
    ):
        refuse_other_roster(BEFORE, other, "results")


@pytest.mark.parametrize(
    "roster",
    [
        BEFORE,
        [*BEFORE, StudentInfo(id="new")],
        # A similar student may be another person.
        [*BEFORE, StudentInfo(id="x", name="Jane Doe")],
        [StudentInfo(id="a"), StudentInfo(id="b")],
        [],
    ],
)
def test_a_roster_with_the_same_ids_or_new_students_is_accepted(roster: list[StudentInfo]) -> None:
    refuse_other_roster(BEFORE, roster, "results")
    refuse_other_roster([], roster, "results")
