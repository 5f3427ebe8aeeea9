"""Extensions given by staff: kept in the corrections file, and counted like those of the policy."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.errors import SubmissionError
from grader.gradebook import Gradebook
from grader.gradebook.corrections import Correction, GivenExtension
from grader.gradebook.corrections_file import (
    CorrectionsError,
    change_corrections,
    change_extensions,
    corrections_text,
    read_file,
)
from grader.gradebook.extending import exercises_named, new_extension, state_of
from grader.gradebook.facts import AssignmentPart
from grader.gradebook.policy_file import read_policy
from grader.grading import nothing_handed_in
from grader.judge.assignment import GradingOptions
from grader.results import StudentInfo

from .conftest import School

FILE = Path("corrections.toml")
TIME = datetime.datetime(2026, 10, 12, 10, tzinfo=datetime.UTC)
UNTIL = datetime.datetime(2026, 12, 3, 23, 59)
TABLE = '[[extension]]\nstudent = "ann"\nuntil = 2026-12-03T23:59:00+01:00\n'
WHO = 'author = "ben"\ntime = 2026-10-12T10:00:00Z\n'
POLICY = """\
timezone = "Europe/Berlin"
[late]
per_day = 10
closes = "2 days"
[[due]]
at = 2026-12-01T12:00:00
"""


@pytest.fixture
def late(school: School) -> School:
    """Return a gradebook in which ann's file came three days late and bob's one day late."""
    with Gradebook.open_to_write(school.results) as book:
        options = GradingOptions()
        blank = nothing_handed_in(school.course, school.course.exercises, options)
        rules = read_policy(POLICY).rules
        book.begin(school.course, blank, rules)
        for student, day in (("ann", 4), ("bob", 2)):
            attempt = school.hand_in(book, student, b"x = 1\n", f"2026-12-0{day}T10:59:00Z")
            school.keep(book, attempt, 8)
        book.finish(())
        book.mark_current()
    return school


def score(book: Gradebook, student: str) -> float:
    entry = book.entry_of(student)
    assert entry is not None
    return entry.result.score


def given(**fields: object) -> GivenExtension:
    known = {"student": "ann", "until": UNTIL.replace(tzinfo=datetime.UTC), "reason": "ill"}
    return GivenExtension(**{**known, "author": "ben", "time": TIME, **fields})  # type: ignore[arg-type]


def test_an_extension_counts_at_once_and_can_be_taken_back(late: School) -> None:
    ann = StudentInfo(id="ann")
    written = late.results / "results" / "ann.json"
    with Gradebook.open_to_write(late.results) as book:
        assert (score(book, "ann"), score(book, "bob")) == (0, 7.2)
        before = state_of(book, ann)
        made = new_extension(
            book, ann, book.exercises, until=UNTIL, reason=" ill,\nwith a note ", author="kim"
        )
        book.extend(made)
        # In the timezone of the class, an hour ahead of UTC.
        assert made.until.isoformat() == "2026-12-03T23:59:00+01:00"
        assert (made.exercises, made.reason, made.author) == (("task",), "ill, with a note", "kim")
        assert (score(book, "ann"), score(book, "bob")) == (7.2, 7.2)
        assert "extension until 2026-12-03 23:59 CET: ill, with a note" in written.read_text()
        assert state_of(book, ann) != before and state_of(book, StudentInfo(id="bob"))
    with Gradebook.open(late.results) as book:
        deadline = book.policy.deadline(ann, "task")
        assert deadline is not None and deadline.extension is not None
        assert book.facts.policy.extension == ()
    with Gradebook.open_to_write(late.results) as book:
        book.extend(removing=[0])
        assert score(book, "ann") == 0 and state_of(book, ann) == before
        assert "ill, with a note" not in written.read_text()


def test_an_extension_that_gives_no_time_is_refused(late: School) -> None:
    ann = StudentInfo(id="ann")
    noon = datetime.datetime(2026, 12, 1, 12)
    with Gradebook.open_to_write(late.results) as book:

        def refused(**fields: object) -> str:
            known = {"until": UNTIL, "reason": "ill", "author": "kim"}
            with pytest.raises(SubmissionError) as caught:
                new_extension(book, ann, ["task"], **{**known, **fields})  # type: ignore[arg-type]
            return str(caught.value)

        assert "Give a reason" in refused(reason=" \n")
        assert "task is already due at 2026-12-01 12:00 CET" in refused(until=noon)
        assert "The year 1 is out of range" in refused(until=datetime.datetime.min)
        with pytest.raises(SubmissionError, match="neither an exercise nor an assignment here"):
            exercises_named(book, "tsak")
        book.set_policy(read_policy("").rules)
        assert "task is never due" in refused()


def test_only_exercises_that_gain_are_extended_and_a_due_time_changes_the_state(
    late: School,
) -> None:
    ann = StudentInfo(id="ann")
    with Gradebook.open_to_write(late.results) as book:
        before = state_of(book, ann)
        due = '[[due]]\nat = {}T12:00:00Z\nexercises = ["{}"]\n'
        book.set_policy(
            read_policy(due.format("2026-12-02", "task") + due.format("2026-12-09", "later")).rules
        )
        assert state_of(book, ann) != before
        made = new_extension(book, ann, ["task", "later"], until=UNTIL, reason="ill", author="kim")
    assert made.exercises == ("task",)


def test_an_assignment_names_its_exercises(late: School) -> None:
    with Gradebook.open_to_write(late.results) as book:
        book.change(assignments={"week1": AssignmentPart("Week 1", ("task",))})
        assert exercises_named(book, "week1") == exercises_named(book, "") == ("task",)


def test_both_kinds_of_tables_are_edited_without_losing_comments(
    tmp_path: Path,
) -> None:
    correction = Correction(
        student="ann", exercise="task", add=1.0, reason="so", author="b", time=TIME
    )
    change_extensions(tmp_path, [given(exercises=("task", "other"))])
    change_corrections(tmp_path, [correction])
    (tmp_path / FILE).write_text(corrections_text(tmp_path) + "\n# of Kim\n", encoding="utf-8")
    change_extensions(tmp_path, [given(student="bob")])
    text = corrections_text(tmp_path)
    assert 'exercises = ["task", "other"]\nuntil = 2026-12-03T23:59:00Z\nreason = "ill"' in text
    read = read_file(text, FILE)
    assert [e.student for e in read.extension] == ["ann", "bob"]
    assert read.correction == (correction,)
    change_extensions(tmp_path, [], [0])
    change_corrections(tmp_path, [], [0])
    left = corrections_text(tmp_path)
    assert "# of Kim" in left and left.startswith("# Points")
    assert read_file(left, FILE).extension == (given(student="bob"),)
    change_extensions(tmp_path, [], [0])
    assert read_file(corrections_text(tmp_path), FILE).extension == ()


WRONG = {
    TABLE + WHO: ["line 1: [[extension]] 1 needs `reason`", 'reason = "'],
    TABLE + 'reason = "ill"\n': ["needs `author`"],
    TABLE.replace("+01:00", "") + WHO + 'reason = "ill"\n': ["line 3: `until`", "+02:00"],
    TABLE.replace("2026-12-03T23:59:00+01:00", "9999-12-31T23:59:00-12:00")
    + f'{WHO}reason = "ill"\n': ["year 9999", "out of range"],
    TABLE.replace("2026-12-03T23:59:00+01:00", "9999-12-31T23:59:00Z") + f'{WHO}reason = "ill"\n': [
        "year 9999",
        "out of range",
    ],
    TABLE + WHO + 'reason = "ill"\nsection = "B"\n': ["there is no key `section`"],
    TABLE + WHO + 'reason = "ill"\nexercises = "task"\n': ["line 7: `exercises`"],
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_mistake_in_the_file_is_reported_with_its_line(text: str) -> None:
    with pytest.raises(CorrectionsError) as caught:
        read_file(text, FILE)
    for words in WRONG[text]:
        assert words in str(caught.value)


# --- grade adjust ---------------------------------------------------------------------------------


@pytest.fixture
def adjust(late: School) -> Callable[..., Result]:
    def called(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["adjust", str(late.results), *arguments])

    return called


def test_grade_adjust_gives_lists_and_takes_back_an_extension(
    late: School, adjust: Callable[..., Result]
) -> None:
    done = adjust("ann", "one/task.py", "--until", "2026-12-03T23:59", "--reason", "ill")
    assert done.exit_code == 0, done.output
    assert "ann: more time until 2026-12-03 23:59 CET for task" in done.output
    assert "0 to 7.2 points" in done.output
    assert adjust("bob", "task", "--add", "1", "--reason", "so").exit_code == 0
    listed = " ".join(adjust("--list").output.split())
    assert "1 bob task: 1 point added: so" in listed
    assert "2 ann: more time until 2026-12-03 23:59 CET for task: ill" in listed
    shown = CliRunner().invoke(main, ["policy", str(late.results)])
    assert "Extension for ann, task, until 2026-12-03 23:59 CET: ill" in shown.output
    explained = CliRunner().invoke(main, ["policy", str(late.results), "--explain", "ann"])
    assert "extension until 2026-12-03 23:59 CET: ill" in " ".join(explained.output.split())
    back = adjust("--undo", "--number", "2")
    assert back.exit_code == 0 and "taken back: more time until" in back.output
    assert "7.2 to 0 points" in back.output
    # The correction is unchanged.
    assert "1 bob task" in " ".join(adjust("--list").output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ann", "task", "--until", "2026-12-03T23:59"], "--reason"),
        (["ann", "task", "--until", "2026-12-03", "--reason", "x"], "add the time of day"),
        (["ann", "task", "--until", "soon", "--reason", "x"], "--until"),
        (["task", "--all", "--until", "2026-12-03T23:59", "--reason", "x"], "for one student"),
        (
            ["ann", "task", "--until", "2026-12-03T23:59", "--add", "1", "--reason", "x"],
            "Give only one at a time",
        ),
        (["--until", "2026-12-03T23:59", "--reason", "x"], "Name a STUDENT; here: nothing"),
        (["ann", "tsak", "--until", "2026-12-03T23:59", "--reason", "x"], "neither an exercise"),
        (["zoe", "--until", "2026-12-03T23:59", "--reason", "x"], "no student"),
        (["--undo", "--number", "1"], "no correction"),
    ],
    ids=range(9),
)
def test_an_invalid_extension_is_explained(
    late: School, adjust: Callable[..., Result], arguments: list[str], message: str
) -> None:
    done = adjust(*arguments)
    assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output
    assert corrections_text(late.results) == ""


def test_an_extension_for_an_unknown_student_is_listed_as_without_effect(
    late: School, adjust: Callable[..., Result]
) -> None:
    table = TABLE.replace("ann", "anne") + WHO + 'reason = "ill"\nexercises = ["tsak"]\n'
    (late.results / FILE).write_text(table, encoding="utf-8")
    listed = " ".join(adjust("--list").output.split())
    assert "[[extension]] 1 names 'anne', and no student here has that id" in listed
    assert "[[extension]] 1 names 'tsak', which is not graded here" in listed
