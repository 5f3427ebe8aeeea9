"""The part of a name that is a person's: without shared affixes, a leading group, or words for work."""

from __future__ import annotations

import pytest

from grader.course.manifest import Course
from grader.results import StudentInfo
from grader.submissions.owners import (
    Affixes,
    Shared,
    is_work,
    shared_affixes,
    without_groups,
)
from grader.submissions.roster import Known, Roster


def known(*names: str, teams: tuple[str, ...] = ()) -> Known:
    students = [StudentInfo(id=name, name=name) for name in names]
    students += [StudentInfo(id=f"of {team}", ids={"team": team}) for team in teams]
    return Known(Roster(students))


@pytest.mark.parametrize(
    ("names", "people", "before", "after"),
    [
        (["lab-1-jane", "lab-1-kim"], ["jane", "kim"], "lab-1-", ""),
        (["lab-1-jane"], ["jane", "kim"], "lab-1-", ""),
        (["jane-hw1", "kim-hw1"], ["jane", "kim"], "", "-hw1"),
        (["hw1_jane_final", "hw1_kim_final"], ["jane", "kim"], "hw1_", "_final"),
        (["hw-a-x", "hw-a-y"], ["a-x", "a-y"], "hw-", ""),
        (["hw-a-x", "hw-a-y"], ["x", "y"], "hw-a-", ""),
        (["lab-jane", "lab-kim", "template"], ["jane", "kim"], "lab-", ""),
        (["jane", "late-jane", "kim"], ["jane", "kim"], "", ""),
        (["proj-Team Red", "proj-blue"], ["kim"], "proj-", ""),
        (["lab 1 Jane Doe", "lab 1 Kim"], ["Jane Doe", "Kim"], "lab 1 ", ""),
    ],
)
def test_the_split_that_matches_most_students_is_used(
    names: list[str], people: list[str], before: str, after: str
) -> None:
    list_ = known(*people, teams=("team-red", "blue"))
    assert shared_affixes(names, list_) == Shared(Affixes(before, after))


def test_a_single_name_is_split_only_at_words_for_work() -> None:
    for name in ("mary-jane", "ann jane", "smith_jane"):
        assert shared_affixes([name], known("jane")) is None
    assert shared_affixes(["cs231n-jane"], known("jane")) == Shared(Affixes("cs231n-"))


def test_two_contradictory_splits_are_disputed() -> None:
    names, list_ = ["hw-a-x", "hw-a-y"], known("x", "a-y")
    assert shared_affixes(names, list_) == Shared(is_disputed=True)
    assert shared_affixes(names, list_, Affixes("hw-")) == Shared(Affixes("hw-"))
    assert shared_affixes(names, known("kim")) is None


@pytest.mark.parametrize(
    "name", ["week 3", "lab-1-submissions", "src", "hw2b", "my", "glu", "Übung 4"]
)
def test_names_of_work_are_recognized(course: Course, name: str) -> None:
    assert is_work(name, course)


@pytest.mark.parametrize("name", ["alice", "lab-1-jane", "12345", "jdoe3", "a", "Jo Week"])
def test_possible_names_of_people_are_not_names_of_work(course: Course, name: str) -> None:
    assert not is_work(name, course)


CLASS = known("Ada A", "Ben B", "Jean-Luc Picard", "Marie Smith", teams=("red",))


@pytest.mark.parametrize(
    ("names", "students"),
    [
        (["Group A-Ada A", "Group A-Ben B"], ["Ada A", "Ben B"]),
        (["Red-Ada A", "Blue-Ben B"], ["Ada A", "Ben B"]),
        (["Team-1-Ada A", "Default group-Jean-Luc Picard"], ["Ada A", "Jean-Luc Picard"]),
        (["red-Ada A", "Somebody-Else"], ["Ada A", "Somebody-Else"]),
        # A name with a hyphen stays whole.
        (["Jean-Luc Picard", "Group 1-Ada A"], ["Jean-Luc Picard", "Ada A"]),
        (["Ann-Marie Smith"], ["Ann-Marie Smith"]),
        (["Ann-Marie Smith", "Kim"], ["Ann-Marie Smith", "Kim"]),
        (["Ann-Marie Smith", "Else-Who"], ["Ann-Marie Smith", "Else-Who"]),
    ],
)
def test_a_leading_group_name_is_removed(names: list[str], students: list[str]) -> None:
    found = without_groups(names, CLASS)
    assert [found.get(name, name) for name in names] == students


def test_a_rest_that_matches_two_students_is_not_split() -> None:
    list_ = known("Jean-Luc Picard", "Luc Picard")
    assert without_groups(["Group 1-Jean-Luc Picard"], list_) == {}
