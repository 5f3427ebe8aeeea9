"""`assignments.toml`: the exercises of an assignment, mistakes in the file, and the order of proposals."""

from __future__ import annotations

import datetime
import shutil
from pathlib import Path

import pytest

from grader.course.manifest import Course, load_course
from grader.errors import CourseError

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
HEAD = 'timezone = "Europe/Warsaw"\n'
WEEK1 = """
[[assignment]]
id = "week1"
title = "Week 1"
chapters = ["text"]
opens = 2026-10-05T08:00:00
due = 2026-10-12T23:59:59
seed = 8231
"""
WEEK2 = """
[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["running_mean"]
opens = 2026-10-12T08:00:00
due = 2026-10-19T23:59:59
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "course"


def loaded(folder: Path, text: str) -> Course:
    (folder / "exercises/assignments.toml").write_text(text, encoding="utf-8")
    return load_course(folder)


def test_an_assignment_has_only_its_exercises(folder: Path) -> None:
    course = loaded(folder, HEAD + WEEK1 + WEEK2)
    assert [each.exercises for each in course.assignments] == [
        ("word_count", "greeting"),
        ("running_mean",),
    ]
    week1 = course.assigned("week1")
    assert [each.id for each in week1.exercises] == ["word_count", "greeting"]
    assert week1.title == "Plain Python and NumPy: Week 1"
    assert week1.assignment is not None and week1.assignment.seed == 8231
    with pytest.raises(CourseError, match=r"'week'\. Did you mean 'week2' or 'week1'\?"):
        course.assigned("week")
    with pytest.raises(CourseError, match="`grade new-assignment week1` writes one"):
        load_course(PLAIN).assigned("week1")


def test_a_due_time_changes_no_digest(folder: Path) -> None:
    assert loaded(folder, HEAD + WEEK1).info() == load_course(PLAIN).info()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (WEEK1, "assignment 'week1', line 6: `opens` is a local time, and no time zone is named"),
        (HEAD.replace("saw", "sow") + WEEK1, "there is no time zone 'Europe/Warsow'"),
        (HEAD + WEEK1.replace("2026-10-12", "2026-10-02"), "line 8: it is due at 2026-10-02 23:59:59, before"),
        (HEAD + WEEK1.replace('"week1"', '"Week 1"'), "line 4: `id` of the assignment 'Week 1': expected a"),
        (HEAD + WEEK1.replace('"week1"', '"text"'), "line 4: this is the id of a chapter, too"),
        (HEAD + WEEK1.replace('"week1"', '"greeting"'), "line 4: this is the id of an exercise, too"),
        (HEAD + WEEK1 + WEEK2.replace("week2", "week1"), "line 12: this is the id of an assig"),
        (HEAD + WEEK1 + WEEK2.replace("Week 2", "week 1"), "line 13: another assignment has"),
        (HEAD + WEEK1.replace('["text"]', '["test"]'), "line 6: there is no chapter 'test'. Did"),
        (HEAD + WEEK2.replace("running", "runing"), "no exercise 'runing_mean'. Did you mean 'running_mean'?"),
        (HEAD + WEEK2.replace('["running_mean"]', '["greeting", "greeting"]'), "'greeting' is twice"),
        (HEAD + WEEK1 + 'exercises = ["greeting"]\n', "line 10: 'greeting' is there twice: by its name, and"),
        (HEAD + WEEK1 + WEEK2.replace("running_mean", "greeting"), "'greeting' is one of 'week1', too"),
        (HEAD + WEEK1.replace('chapters = ["text"]', ""), "it has no exercises; name them in `exercises`"),
        (HEAD + WEEK1 + 'extra_credit = ["running_mean"]\n', "line 10: 'running_mean' is not one of its"),
        (HEAD + WEEK2 + 'extra_credit = ["running_mean"]\n', "all of its exercises are for extra credit"),
        (HEAD + WEEK1 + "weight = nan\n", "`weight` of the assignment 'week1': expected a number, got nan"),
        (HEAD + WEEK1 + "weight = inf\n", "line 10: `weight` of the assignment"),
        (HEAD + WEEK1 + "policy = {late = {per_day = nan}}\n", "`per_day` of [late] in [policy] in the assig"),
        (HEAD + WEEK1 + "weight = 1e300\n", "'week1': expected a number <= 1000000.0"),
        (HEAD + WEEK1.replace("12T23:59:59", "12"), "expected a time, as"),
        (HEAD + WEEK1.replace("2026-10-12T23:59:59", '"12 Oct"'), "this is not a time like"),
        (HEAD + WEEK1 + "[term.cuts]\nA = inf\n", "`A` of [cuts] in [term]: expected a number, got inf"),
        (HEAD + WEEK1.replace("week1", "nul"), "this id cannot be used: Windows has a device of this"),
        (HEAD + WEEK1 + "pints = 3\n", "line 10: there is no key `pints` of the assignment 'week1'. Did you"),
        (HEAD + WEEK1 + 'replaces = ["week2"]\n', "there is no other assignment 'week2'"),
        (HEAD + WEEK1 + "policy = {due = []}\n", "line 10: write `due` in the assignment itself"),
        (HEAD + WEEK1 + "[term]\ndrop_lowest = 1\n", "is 1, and there are 1 assignments"),
        (HEAD + WEEK1 + "[term.cuts]\nA = 90\n", "no letter from 0 per cent on"),
        (HEAD + WEEK1 + "[term.cuts]\nA = 0\nB = 0\n", "two letters from the same total on"),
        (HEAD + WEEK1 + '[term]\nsame = [["a", "b"], ["c", "a"]]\n', "`same` of [term] names 'a' twice"),
    ],
)  # fmt: skip
def test_each_mistake_is_reported_with_its_place(folder: Path, text: str, told: str) -> None:
    with pytest.raises(CourseError) as caught:
        loaded(folder, text)
    assert str(caught.value).startswith(f"{folder / 'exercises/assignments.toml'}")
    assert told in str(caught.value)


def test_exercises_due_next_are_proposed_first(folder: Path) -> None:
    course = loaded(folder, HEAD + WEEK1 + WEEK2)

    def proposed(day: int) -> list[str]:
        now = datetime.datetime(2026, 10, day, 12, tzinfo=datetime.UTC)
        return [each.id for each in course.by_urgency(now)]

    assert proposed(7) == ["word_count", "greeting", "running_mean"]
    assert proposed(12) == ["word_count", "greeting", "running_mean"]
    assert proposed(13) == ["running_mean", "word_count", "greeting"]
    assert load_course(PLAIN).by_urgency() == load_course(PLAIN).exercises
