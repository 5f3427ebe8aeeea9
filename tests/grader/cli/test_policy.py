"""`grade policy` shows, sets and resets the policy, and names students whose points change."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result

from grader.course.manifest import MANIFEST
from grader.gradebook import Gradebook
from grader.gradebook.policy_file import read_policy
from grader.results import StudentInfo
from tests.grader.command import invoke
from tests.grader.gradebook.conftest import School

LATE = 'timezone = "UTC"\n[late]\nper_day = 10\n[[due]]\nat = 2026-10-01T00:00:00\n'
EXTENDED = LATE + '[[extension]]\nstudent = "{}"\nuntil = 2026-11-01T00:00:00\n'


@pytest.fixture
def graded(school: School) -> School:
    """The course has no policy. Under `LATE`, Bob handed in half a day late."""
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        school.keep(book, school.hand_in(book, "bob", b"x = 1\n", "2026-10-01T12:00:00Z"), 10)
        book.keep_student(StudentInfo(id="bob", name="Bob"))
        book.finish(())
        book.mark_current()
    return school


def policy(school: School, *words: str | Path) -> Result:
    return invoke("policy", school.results, *words, cwd=school.course.root)


def score(school: School) -> float:
    with Gradebook.open(school.results) as book:
        entry = book.entry_of("bob")
    assert entry is not None
    return entry.result.score


def written(folder: Path, text: str) -> Path:
    file = folder / "other.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "There is no gradebook"),
        (("--explain", "bob"), "There is no gradebook"),
        (("--reset", "--toml"), "Only one of --file, --reset, --explain and --toml"),
        (("--explain", "bob", "--toml"), "Only one of"),
        (("--file", __file__, "--reset"), "Only one of"),
        (("task",), "EXERCISE is for --explain STUDENT."),
        (("task", "--toml"), "EXERCISE is for --explain STUDENT."),
        (("--reset", "--assignment", "week1"), "--reset is for all exercises"),
        (("--file", __file__, "--assignment", "week1"), "--file is for all exercises"),
    ],
)
def test_conflicting_options_are_refused(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    done = invoke("policy", tmp_path, *words, cwd=tmp_path)
    assert (done.exit_code, told in " ".join(done.stderr.split())) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_file_takes_effect_at_once_until_reset(graded: School) -> None:
    assert "There is no policy" in policy(graded).stdout
    done = policy(graded, "--file", written(graded.results.parent, LATE))
    assert done.exit_code == 0, done.output
    assert "bob" in done.stdout and "10 % lost for each day begun" in done.stdout
    assert score(graded) == 9
    shown = policy(graded)
    assert "10 % lost" in shown.stdout and "--reset goes back to the course's" in shown.stderr
    assert read_policy(policy(graded, "--toml").stdout) == read_policy(LATE)
    done = policy(graded, "--reset")
    assert "There is no policy" in done.stdout and score(graded) == 10
    assert policy(graded, "--toml").stderr == ""


def test_students_whose_time_is_not_known_are_named_when_due_times_are_set(graded: School) -> None:
    late, told = (
        written(graded.results.parent, LATE),
        "The time of submission is not known for: cyd.",
    )
    assert "not known" not in policy(graded, "--file", late).stderr
    with Gradebook.open_to_write(graded.results) as book:
        graded.keep(book, graded.hand_in(book, "cyd", b"x = 1\n"), 10)
    for done in (policy(graded, "--file", late), policy(graded)):
        assert told in done.stderr and "--times" in done.stderr
    assert "not known" not in policy(graded, "--reset").stderr, "no due time"


def test_reset_restores_the_policy_of_the_course(graded: School) -> None:
    beside = graded.course.folder / "policy.toml"
    beside.write_text(LATE.replace("10", "40", 1), encoding="utf-8")
    assert policy(graded, "--reset").exit_code == 0
    assert score(graded) == 6


def test_an_empty_file_has_no_rules(graded: School) -> None:
    policy(graded, "--file", written(graded.results.parent, LATE))
    assert policy(graded, "--file", written(graded.results.parent, "")).exit_code == 0
    assert score(graded) == 10


def test_a_file_for_this_class_may_not_name_an_unknown_student(graded: School) -> None:
    done = policy(graded, "--file", written(graded.results.parent, EXTENDED.format("zoe")))
    assert done.exit_code != 0 and "'zoe'" in done.stderr
    assert score(graded) == 10, "nothing was changed"
    assert (
        policy(graded, "--file", written(graded.results.parent, EXTENDED.format("bob"))).exit_code
        == 0
    )
    assert score(graded) == 10, "an extension for bob"


def test_the_file_beside_a_course_may_name_students_of_other_classes(graded: School) -> None:
    assert (graded.course.folder / MANIFEST).is_file()
    done = policy(graded, "--file", written(graded.course.folder, EXTENDED.format("zoe")))
    assert done.exit_code == 0 and "'zoe'" in done.stderr
    assert score(graded) == 9


def test_an_exercise_that_was_not_graded_has_no_explanation(graded: School) -> None:
    done = policy(graded, "tusk", "--explain", "bob")
    assert done.exit_code == 2 and "'tusk' was not graded here" in done.stderr
    assert "task" in policy(graded, "task", "--explain", "bob").stdout
