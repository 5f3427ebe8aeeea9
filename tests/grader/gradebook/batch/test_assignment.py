"""`grade batch --assignment`: RESULTS of an assignment, with its exercises, seed and due time."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from grader.authoring.release import Tier, _readme
from grader.cli import main
from grader.course.manifest import load_course
from grader.gradebook import Gradebook
from grader.gradebook.policy import Rules
from grader.gradebook.policy_file import PolicyError, policy_of
from tests.grader.command import grade as run_grade

PLAIN = Path(__file__).parents[2] / "courses" / "plain"
ASSIGNMENTS = """
timezone = "Europe/Warsaw"

[[assignment]]
id = "week1"
title = "Week 1"
chapters = ["text"]
due = 2026-10-12T23:59:59
seed = 8231

[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["running_mean"]
due = 2026-10-19T23:59:59
"""
POLICY = """
timezone = "Europe/Warsaw"
[late]
per_day = 10

[[due]]
at = 2026-10-01T12:00:00

[[extension]]
student = "ada"
by = "2 days"
exercises = ["running_mean"]
"""


@pytest.fixture
def course(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PLAIN / "solutions", tmp_path / "class" / "ada")
    (tmp_path / "course/exercises/assignments.toml").write_text(ASSIGNMENTS, encoding="utf-8")
    return tmp_path / "course"


def grade(course: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_grade(*arguments, cwd=course)


def graded(results: Path) -> dict[str, float]:
    with Gradebook.open(results) as book:
        (entry,) = book.entries()
        assert set(book.seeds()) == {entry.result.seed}
    return {exercise.name: exercise.score for exercise in entry.result.exercises}


def test_results_know_their_assignment(course: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    batch = ("batch", tmp_path / "class", "-o", results)
    late = ("--times", "2026-10-13 12:00")
    (course / "exercises/policy.toml").write_text(POLICY, encoding="utf-8")
    done = grade(course, *batch, "--assignment", "week1", *late)
    assert done.returncode == 0, done.stderr
    # The seed is taken, and not shown.
    assert "Judging with the seed of the assignment week1. Choose" in done.stderr
    assert "8231" not in done.stderr + done.stdout
    assert graded(results) == {"word_count": 9.0, "greeting": 2.25}
    with Gradebook.open(results) as book:
        assert book.seeds() == (8231,)
        assert book.facts.title == "Plain Python and NumPy: Week 1"
    for command in (batch, ("regrade", results)):
        done = grade(course, *command)
        assert done.returncode == 0, done.stderr
        assert "running_mean" not in done.stdout + done.stderr
        assert graded(results) == {"word_count": 9.0, "greeting": 2.25}
    for other in (("--assignment", "week2"), ("--exercise", "running_mean")):
        done = grade(course, *batch, *other)
        assert done.returncode == 2
        assert "is the gradebook of the assignment week1" in done.stderr


def test_outputs_of_a_whole_course_take_the_exercises_of_an_assignment(
    course: Path, tmp_path: Path
) -> None:
    shutil.copytree(PLAIN / "solutions", tmp_path / "class" / "bob")
    results, here = str(tmp_path / "results"), ("--assignment", "week1")
    grade(course, "batch", tmp_path / "class", "-o", results)
    assert grade(course, "similar", results).returncode == 0
    done = grade(course, "export", results, "--format", "csv", *here)
    assert done.returncode == 0, done.stderr
    header, ada, _ = done.stdout.splitlines()
    assert "text/word_count,text/greeting,total" in header
    assert ",10,2.5,12.5,12.5," in ada
    done = grade(course, "report", results, "-o", tmp_path / "report", *here)
    assert done.returncode == 0, done.stderr
    pages = [path.read_text("utf-8") for path in (tmp_path / "report").rglob("*.html")]
    assert "Plain Python and NumPy: Week 1" in pages[0]
    assert not any("running_mean" in page for page in pages)
    for command in ("similar", "policy"):
        done = grade(course, command, results, *here)
        assert done.returncode == 0, done.stderr
        assert "running_mean" not in done.stdout
    done = grade(course, "report", results, "-o", tmp_path / "report", "--assignment", "wek1")
    assert "knows no assignment 'wek1'. Did you mean 'week1'" in done.stderr
    assert (done.returncode, done.stdout) == (2, "")


def test_results_of_a_whole_course_become_those_of_an_assignment(
    course: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    grade(course, "batch", tmp_path / "class", "-o", results)
    assert set(graded(results)) == {"word_count", "greeting", "running_mean"}
    done = grade(course, "regrade", results, "--assignment", "week2")
    assert done.returncode == 0, done.stderr
    assert "0 exercises judged" in done.stdout
    assert graded(results) == {"running_mean": 7.5}
    unknown = grade(
        course, "batch", tmp_path / "class", "-o", tmp_path / "n", "--assignment", "wek1"
    )
    assert "There is no assignment 'wek1'. Did you mean 'week1'" in unknown.stderr
    assert not (tmp_path / "n").exists()


def test_an_assignment_has_its_part_of_the_policy(course: Path) -> None:
    (course / "exercises/policy.toml").write_text(POLICY, encoding="utf-8")
    home = load_course(course)
    week1 = policy_of(home.assigned("week1")) or Rules()
    assert [due.at.day for due in week1.due] == [12] and week1.late.per_day == 10
    assert not week1.extension, "it is for an exercise of another assignment"
    week2 = policy_of(home.assigned("week2")) or Rules()
    assert [extension.student for extension in week2.extension] == ["ada"]
    file = course / "exercises/assignments.toml"
    own = '[assignment.policy]\nattempts = "best"\nlate = {per_day = 20}\n'
    file.write_text(ASSIGNMENTS + own, encoding="utf-8")
    week2 = policy_of(load_course(course).assigned("week2")) or Rules()
    assert (week2.attempts.value, week2.late.per_day) == ("best", 20)
    file.write_text(ASSIGNMENTS + own.replace("best", "first"), encoding="utf-8")
    with pytest.raises(PolicyError, match=r"the policy of the assignment week2: `attempts`"):
        policy_of(load_course(course).assigned("week2"))
    file.write_text(f'{ASSIGNMENTS}{own}keep = "1 year"\n', encoding="utf-8")
    with pytest.raises(PolicyError, match="week2: `keep` is for the whole class"):
        policy_of(load_course(course).assigned("week2"))
    file.write_text(ASSIGNMENTS.replace("Warsaw", "London"), encoding="utf-8")
    with pytest.raises(
        PolicyError, match=r"policy.toml has the time zone 'Europe/Warsaw', and ass"
    ):
        policy_of(load_course(course).assigned("week2"))


@pytest.fixture
def invoke(course: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A command in this process, in the folder of the course."""
    monkeypatch.chdir(course)
    return lambda *arguments: CliRunner().invoke(main, [*map(str, arguments)])


RULES = """
timezone = "Europe/Warsaw"
[late]
per_day = 10
[[extension]]
student = "zoe"
by = "2 days"
"""


def test_a_named_policy_counts_with_what_the_assignment_says_and_can_be_left(
    course: Path, tmp_path: Path, invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that works beside course.toml works everywhere, and there is a way back from another one."""
    results, beside = tmp_path / "results", course / "exercises/policy.toml"
    # Rules for lateness and no due time; an extension for somebody who is not in this gradebook.
    beside.write_text(RULES, encoding="utf-8")
    late = ("--times", "2026-10-13 12:00")
    batch = ("batch", tmp_path / "class", "-o", results, *late)
    assert invoke(*batch, "--assignment", "week1").exit_code == 0
    assert sum(graded(results).values()) == 11.25
    other = tmp_path / "other.toml"
    other.write_text(
        RULES.replace("per_day = 10", "per_day = 40")
        + '[[due]]\nexercises = ["running_mean"]\nat = 2026-10-01T12:00:00\n',
        encoding="utf-8",
    )
    done = invoke("policy", results, "--file", other)
    assert done.exit_code == 0, done.output
    assert "Due 2026-10-12 23:59:59 CEST" in done.stdout
    assert "names 'zoe', and no student here has that id" in done.stderr
    assert sum(graded(results).values()) == 7.5
    # The due time is still that of the assignment, in the next grading, too.
    file = course / "exercises/assignments.toml"
    file.write_text(ASSIGNMENTS.replace("10-12", "10-14"), encoding="utf-8")
    assert invoke(*batch).exit_code == 0
    assert sum(graded(results).values()) == 12.5
    file.write_text(ASSIGNMENTS, encoding="utf-8")
    for back in (("--file", beside), ("--reset",)):
        assert invoke(*batch, "--policy", other).exit_code == 0
        assert sum(graded(results).values()) == 7.5
        assert "--reset goes back" in invoke("policy", results).stderr
        done = invoke("policy", results, *back)
        assert done.exit_code == 0, done.output
        assert sum(graded(results).values()) == 11.25
    beside.unlink()
    assert "Due 2026-10-12 23:59:59 CEST" in invoke("policy", results, "--reset").stdout
    assert sum(graded(results).values()) == 12.5
    monkeypatch.chdir(tmp_path)
    elsewhere = invoke("policy", results, "--reset")
    assert elsewhere.exit_code == 2
    assert "No course found" in elsewhere.stderr and "--course" in elsewhere.stderr


def test_in_a_gradebook_of_the_whole_course_each_assignment_has_its_due_time(
    course: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    results, beside = tmp_path / "results", course / "exercises/policy.toml"
    beside.write_text(POLICY.replace('"ada"', '"zoe"'), encoding="utf-8")
    invoke("batch", tmp_path / "class", "-o", results, "--times", "2026-10-13 11:00")
    before = graded(results)
    assert before == {"word_count": 9.0, "greeting": 2.25, "running_mean": 7.5}
    with Gradebook.open(results) as book:
        assert book.seeds() == (8231,)
    other = tmp_path / "other.toml"
    other.write_text("", encoding="utf-8")
    for back in (("--file", beside), ("--reset",)):
        assert invoke("policy", results, "--file", other).exit_code == 0
        assert sum(graded(results).values()) == 20
        done = invoke("policy", results, *back)
        assert done.exit_code == 0, done.output
        assert graded(results) == before
    both = invoke("policy", results, "--reset", "--file", other)
    assert "Only one of --file, --reset, --explain and --toml at a time." in both.stderr


def test_without_rules_an_assignment_has_no_policy(course: Path) -> None:
    text = ASSIGNMENTS.replace("due = 2026-10-19T23:59:59\n", "")
    (course / "exercises/assignments.toml").write_text(text, encoding="utf-8")
    assert policy_of(load_course(course).assigned("week2")) == Rules()


def test_what_one_member_of_a_team_hands_in_counts_for_all(course: Path, tmp_path: Path) -> None:
    file = course / "exercises/assignments.toml"
    file.write_text(
        ASSIGNMENTS.replace("[[assignment]]", "[[assignment]]\nteams = true", 1), "utf-8"
    )
    roster = tmp_path / "class.csv"
    roster.write_text("id,team\nada,red\nbob,red\ncem,blue\n", encoding="utf-8")
    (course / "exercises/policy.toml").write_text(
        'timezone = "Europe/Warsaw"\n[late]\nper_day = 10\n[[extension]]\nteam = "red"\nby = "1 day"\n',
        encoding="utf-8",
    )
    results = tmp_path / "results"
    batch = ("batch", tmp_path / "class", "-o", results, "--times", "2026-10-13 12:00")
    done = grade(course, *batch, "--assignment", "week1", "--roster", roster)
    assert done.returncode == 0, done.stderr
    assert "2 teams: a submission of one member counts for all of them." in done.stderr
    with Gradebook.open(results) as book:
        totals = {entry.student.id: entry.result.score for entry in book.entries()}
    assert totals == {"ada": 12.5, "bob": 12.5, "cem": 0}
    assert "2 exercises judged" in done.stdout, "no file is judged twice"
    # Beside other assignments, files are not shared, which nobody is to find out from a 0.
    alone = grade(course, *batch[:2], "-o", tmp_path / "whole", "--roster", roster)
    assert "For teams: week1. Here a file counts only for the student" in alone.stderr
    assert "For teams" not in done.stderr
    done = grade(course, "similar", results, "--threshold", "50")
    assert "bob" not in done.stdout
    done = grade(course, "policy", results)
    assert "Extension for team red" in done.stdout


def extra_credit(course: Path) -> None:
    """Make `greeting` one for extra credit."""
    text = ASSIGNMENTS.replace('["text"]', '["text"]\nextra_credit = ["greeting"]')
    (course / "exercises/assignments.toml").write_text(text, encoding="utf-8")


def test_extra_credit_is_extra_in_every_command(course: Path) -> None:
    """`greeting` is worth 4 of the 14 points of week1: full marks are 10, and 14 can be had."""
    extra_credit(course)
    worth = {each.id: each.points for each in load_course(course).exercises}
    needed = worth["word_count"]
    everything = needed + worth["greeting"]
    answers = course.parent / "class" / "ada"
    done = grade(course, "run", "--submission", answers, "--assignment", "week1", "--json", "-")
    result = json.loads(done.stdout)
    assert (result["score"], result["max_score"]) == (everything, needed)
    assert done.returncode == 0
    shown = grade(course, "run", "--submission", answers, "--assignment", "week1").stdout
    assert f"Total: {everything:g} of {needed:g} points" in shown
    assert "greeting for extra credit" in shown
    (answers / "text" / "greeting.py").unlink()
    less = grade(course, "run", "--submission", answers, "--assignment", "week1")
    assert less.returncode == 0, "full marks do not need it"
    alone = grade(course, "run", "word_count", "--submission", answers, "--json", "-")
    assert json.loads(alone.stdout)["max_score"] == needed
    for results, options in (("one", ("--assignment", "week1")), ("whole", ())):
        batch = grade(course, "batch", course.parent / "class", "-o", results, *options)
        assert batch.returncode == 0, batch.stderr
        csv = grade(course, "export", results, "--assignment", "week1", "--format", "csv").stdout
        assert f",{needed:g},{needed:g}," in csv.splitlines()[1], csv


def test_whatever_a_student_reads_marks_an_exercise_for_extra_credit(
    course: Path, tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    extra_credit(course)
    answers = course.parent / "class" / "ada"
    for command in (
        ("run", "--submission", answers, "--assignment", "week1"),
        ("list",),
        ("explain", "greeting"),
        ("explain", "text"),
    ):
        done = invoke(*command)
        assert done.exit_code == 0, done.output
        (line,) = [line for line in done.stdout.splitlines() if "extra credit" in line][:1]
        assert "word_count" not in line, command
    assert "extra credit" not in invoke("explain", "word_count").stdout
    results = tmp_path / "results"
    assert invoke("batch", course.parent / "class", "-o", results, "--assignment", "week1")
    assert invoke("report", results, "-o", tmp_path / "report").exit_code == 0
    for page in ("students/ada.html", "staff/students/ada.html"):
        text = (tmp_path / "report" / page).read_text("utf-8")
        # At the total, at the chapter, and at the exercise.
        assert text.count("with 2.5 of extra credit") == 2
        assert text.count("extra credit") == 3
    index = (tmp_path / "report" / "staff" / "index.html").read_text("utf-8")
    assert 'title="12.5 points, with 2.5 of extra credit"' in index
    assert "12.5 of 10 points, with 2.5 of extra credit" in invoke("show", results, "ada").stdout
    released = _readme(load_course(course), Tier.PUBLIC, "lab-bench", 0)
    assert [line for line in released.splitlines() if "extra credit" in line] == [
        line for line in released.splitlines() if "text/greeting.py" in line
    ]


def test_what_is_for_extra_credit_is_out_of_no_points_at_gradescope(course: Path) -> None:
    extra_credit(course)
    grade(course, "batch", course.parent / "class", "-o", "one", "--assignment", "week1")
    done = grade(course, "export", "one", "--format", "gradescope", "-o", "out")
    assert done.returncode == 0, done.stderr
    (file,) = (course / "out").rglob("*.json")
    tests = json.loads(file.read_bytes())["tests"]
    extra = [test for test in tests if test["name"].startswith("greeting")]
    others = [test for test in tests if not test["name"].startswith("greeting")]
    assert extra and {test["max_score"] for test in extra} == {0}
    package = grade(course, "package", "gradescope", "-o", "week1.zip", "--assignment", "week1")
    assert package.returncode == 0, package.stderr
    with zipfile.ZipFile(course / "week1.zip") as archive:
        archive.extract("course.pack", course / "unzipped")
    assert load_course(course / "unzipped" / "course.pack").extra_credit == {"greeting"}
    judged = grade(
        course, "run", "--course", "unzipped/course.pack", "--json", "-",
        "--submission", course.parent / "class" / "ada",
    )  # fmt: skip
    result = json.loads(judged.stdout)
    assert (
        result["score"] > result["max_score"] == load_course(course).exercise("word_count").points
    )
    assert sum(test["score"] for test in extra) == load_course(course).exercise("greeting").points
    assert (
        sum(test["max_score"] for test in others)
        == load_course(course).exercise("word_count").points
    )
