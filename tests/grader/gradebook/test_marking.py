"""`grade mark`: points given by staff, kept as corrections about one file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.errors import UsageError
from grader.exports import FORMATS
from grader.exports.formats.feedback import plain_feedback
from grader.gradebook import Gradebook
from grader.gradebook.facts import encoded
from grader.gradebook.marking import read_rubric
from grader.submissions.source import code_digest
from tests.grader.builders import written
from tests.grader.gradebook.conftest import School

RUBRIC = """
[[item]]
key = "d"
points = -1
says = "The names do not say what things are."

[[item]]
key = "e"
points = -2.5
says = "The loop is not needed."
"""
ANN, BOB = b"x = 1  # ann\n", b"x = 1  # bob\n"


@pytest.fixture
def marked(school: School) -> School:
    """Return a gradebook of two students with 8 and 10 of 10 points, and a rubric."""
    path = school.course.root / "tests/rubrics/one/task.toml"
    path.parent.mkdir(parents=True)
    path.write_text(RUBRIC, encoding="utf-8")
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student, source, score in (("ann", ANN, 8.0), ("bob", BOB, 10.0)):
            school.keep(book, school.hand_in(book, student, source), score, source)
        book.finish(())
    return school


def mark(school: School, keys: str, *options: str) -> Result:
    course = ["--course", str(school.course.root), "--author", "ben"]
    arguments = ["mark", str(school.results), "task", *course, *options]
    with patch("grader.cli.mark.refuse_without_terminal"):
        return CliRunner().invoke(main, arguments, input=keys)


def points(school: School) -> dict[str, tuple[float, tuple[str, ...], str]]:
    found = {}
    with Gradebook.open(school.results) as book:
        for entry in book.entries():
            (exercise,) = entry.result.exercises
            made = exercise.mark
            reasons, comment = (made.reasons, made.comment) if made is not None else ((), "")
            found[entry.student.id] = exercise.score, reasons, comment
    return found


def test_items_and_a_comment_are_added_to_the_judged_points(marked: School) -> None:
    done = mark(marked, "dec1\nName it.\nnq")
    assert done.exit_code == 0, done.output
    assert "ann  1 of 2  8 / 10" in done.output and "   1  x = 1  # ann" in done.output
    assert "1 marked, 1 of 2 left." in done.output
    score, reasons, comment = points(marked)["ann"]
    assert score == 4.5
    assert "The names do not say what things are. The loop is not needed." in reasons[0]
    assert comment == "Line 1: Name it."
    assert points(marked)["bob"] == (10, (), "")


def test_a_comment_names_an_existing_line_and_is_shown_on_its_own_line(marked: School) -> None:
    done = mark(marked, "cbanana\n0\n2\n1\nName it\nc\nWhy x\nq")
    assert done.exit_code == 0, done.output
    assert done.output.count("the file has lines 1 to 1; press Enter for no line.") == 3
    assert "2 comments: Line 1: Name it. Why x" in done.output
    mark(marked, "n")
    assert points(marked)["ann"][2] == "Line 1: Name it\nWhy x"
    with Gradebook.open(marked.results) as book:
        (ann, _) = book.entries()
    feedback = plain_feedback(ann)
    assert "\n  Line 1: Name it\n  Why x\n" in feedback
    remark = written(FORMATS["csv"], [ann])[0]
    assert "Line 1: Name it. Why x" in remark


@pytest.mark.parametrize("student", ["", "ann "])
def test_a_mark_that_was_begun_with_an_earlier_grader_goes_on(marked: School, student: str) -> None:
    name = f"task {student}{code_digest(ANN)}"
    with Gradebook.open_to_write(marked.results) as book, book.transaction():
        facts = json.loads(encoded(book.facts))
        facts["drafts"] = {name: {"keys": ["e"], "comments": ["Name it."]}}
        book.tables.connection.execute("UPDATE facts SET facts = ?", (json.dumps(facts),))
    assert "e: -2.5 points, 1 comment: Name it." in mark(marked, "n").output
    assert points(marked)["ann"][::2] == (5.5, "Name it.")
    with Gradebook.open(marked.results) as book:
        assert book.facts.mark_drafts == ()


def test_a_marked_file_is_not_shown_again(marked: School) -> None:
    mark(marked, "dnq")
    done = mark(marked, "ddn")
    assert "# bob" in done.output and "# ann" not in done.output
    assert points(marked)["bob"][0] == 10, "an item that was taken back does not count"
    assert "Read by a person: nothing to remark." in points(marked)["bob"][1][0]
    assert "0 marked, 0 of 2 left." in mark(marked, "").output


@pytest.mark.skipif(sys.platform == "win32", reason="needs sessions without a terminal")
def test_without_a_terminal_no_file_is_shown(marked: School) -> None:
    command = ["mark", str(marked.results), "task", "--course", str(marked.course.root)]
    done = subprocess.run(
        [sys.executable, "-P", "-m", "grader.cli", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2 and "run it in a terminal" in done.stderr, done.stderr
    assert done.stdout == ""


def test_a_new_mark_replaces_the_old_one_and_a_new_file_has_none(marked: School) -> None:
    mark(marked, "dnq")
    mark(marked, "enq", "--again")
    assert points(marked)["ann"][0] == 5.5
    with Gradebook.open_to_write(marked.results) as book:
        newer = b"x = 2\n"
        marked.keep(book, marked.hand_in(book, "ann", newer), 9.0, newer)
    assert points(marked)["ann"][0] == 9
    assert "x = 2" in mark(marked, "q").output


def test_the_last_mark_counts_if_a_kill_left_the_old_one(marked: School) -> None:
    mark(marked, "dnq")
    file = marked.results / "corrections.toml"
    text = file.read_text("utf-8")
    table = text[text.index("[[correction]]") :]
    file.write_text(text + "\n" + table.replace("add = -1", "add = -3"), encoding="utf-8")
    assert points(marked)["ann"][0] == 5


def test_anonymous_marking_shows_no_names(marked: School) -> None:
    done = mark(marked, "snq", "--anonymous")
    assert done.output.count("anon-") == 2
    assert "1 marked, 1 of 2 left." in done.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (RUBRIC.replace('"e"', '"d"'), "two items have the key 'd'"),
        (RUBRIC.replace('"e"', '"q"'), "the key 'q' means stop"),
        ("", "needs `item`"),
        (RUBRIC.replace("-2.5", "12"), r"line 9: the items bring up to 12 points, and .* worth 10"),
        (
            RUBRIC.replace("-2.5", '"x"'),
            "line 9: `points` of \\[\\[item\\]\\] 2: expected a number, got a text",
        ),
    ],
)
def test_a_mistake_in_a_rubric_is_reported(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read_rubric(tmp_path / "r.toml", 10)
    with pytest.raises(UsageError, match="There is no rubric at"):
        read_rubric(tmp_path / "none.toml", 10)


def test_a_mark_exceeds_the_maximum_only_if_the_rubric_allows_it(marked: School) -> None:
    rubric = marked.course.root / "tests/rubrics/one/task.toml"
    rubric.write_text(RUBRIC.replace("-2.5", "3"), encoding="utf-8")
    mark(marked, "enq")
    assert points(marked)["ann"][0] == 10, "8 + 3, at most 10"
    rubric.write_text("beyond = true\n" + RUBRIC.replace("-2.5", "3"), encoding="utf-8")
    mark(marked, "enq", "--again")
    assert points(marked)["ann"][0] == 11
    assert "beyond = true" in (marked.results / "corrections.toml").read_text("utf-8")
