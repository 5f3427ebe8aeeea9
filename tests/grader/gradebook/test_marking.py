"""`grade mark`: points by a person, kept as corrections about one file."""

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
    """Two students with 8 and 10 of 10 points, and a rubric."""
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


def test_items_and_a_comment_stand_beside_the_points_of_the_judge(marked: School) -> None:
    done = mark(marked, "dec1\nName it.\nnq")
    assert done.exit_code == 0, done.output
    assert "ann  1 of 2  8 / 10" in done.output and "   1  x = 1  # ann" in done.output
    assert "1 marked, 1 of 2 left." in done.output
    score, reasons, comment = points(marked)["ann"]
    assert score == 4.5
    assert "The names do not say what things are. The loop is not needed." in reasons[0]
    assert comment == "Line 1: Name it."
    assert points(marked)["bob"] == (10, (), "")


def test_a_comment_names_a_line_that_is_there_and_is_a_line_of_its_own(marked: School) -> None:
    done = mark(marked, "cbanana\n0\n2\n1\nName it\nc\nWhy x\nq")
    assert done.exit_code == 0, done.output
    assert done.output.count("the file has lines 1 to 1; press Enter for no line.") == 3
    assert "2 comments: Line 1: Name it. Why x" in done.output
    mark(marked, "n")
    assert points(marked)["ann"][2] == "Line 1: Name it\nWhy x"
    with Gradebook.open(marked.results) as book:
        (ann, _) = book.entries()
    said = plain_feedback(ann)
    assert "\n  Line 1: Name it\n  Why x\n" in said
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


def test_what_is_marked_is_not_shown_again(marked: School) -> None:
    mark(marked, "dnq")
    done = mark(marked, "ddn")
    assert "# bob" in done.output and "# ann" not in done.output
    assert points(marked)["bob"][0] == 10, "an item that was taken back does not hold"
    assert "Read by a person: nothing to remark." in points(marked)["bob"][1][0]
    assert "0 marked, 0 of 2 left." in mark(marked, "").output


@pytest.mark.skipif(sys.platform == "win32", reason="sessions without a terminal are POSIX's")
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


def test_the_last_mark_holds_if_a_kill_left_the_old_one(marked: School) -> None:
    mark(marked, "dnq")
    file = marked.results / "corrections.toml"
    text = file.read_text("utf-8")
    table = text[text.index("[[correction]]") :]
    file.write_text(text + "\n" + table.replace("add = -1", "add = -3"), encoding="utf-8")
    assert points(marked)["ann"][0] == 5


def test_no_name_is_shown_where_none_may_be(marked: School) -> None:
    done = mark(marked, "snq", "--anonymous")
    assert done.output.count("anon-") == 2
    assert "1 marked, 1 of 2 left." in done.output


@pytest.mark.parametrize(
    ("text", "told"),
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
def test_a_rubric_that_is_not_in_order(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "r.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=told):
        read_rubric(tmp_path / "r.toml", 10)
    with pytest.raises(UsageError, match="There is no rubric at"):
        read_rubric(tmp_path / "none.toml", 10)


def test_a_mark_goes_beyond_the_points_only_where_the_author_says_so(marked: School) -> None:
    rubric = marked.course.root / "tests/rubrics/one/task.toml"
    rubric.write_text(RUBRIC.replace("-2.5", "3"), encoding="utf-8")
    mark(marked, "enq")
    assert points(marked)["ann"][0] == 10, "8 and 3 of 10"
    rubric.write_text("beyond = true\n" + RUBRIC.replace("-2.5", "3"), encoding="utf-8")
    mark(marked, "enq", "--again")
    assert points(marked)["ann"][0] == 11
    assert "beyond = true" in (marked.results / "corrections.toml").read_text("utf-8")
