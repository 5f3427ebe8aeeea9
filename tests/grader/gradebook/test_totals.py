"""The total of a term: the same wherever it is shown, and without practice exercises."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from grader.cli import main
from grader.exports.mail.class_mail import planned
from grader.exports.mail.mail_file import MailFile
from grader.gradebook import Gradebook
from grader.gradebook.facts import AssignmentPart, Facts
from grader.gradebook.outbox import mailing
from grader.gradebook.term import add_up, read_graded
from grader.results import StudentInfo
from tests.grader.gradebook.test_term import Semester, course_gradebook, semester

__all__ = ["semester"]

# running_mean belongs to no assignment, so it is practice.
WEEKS = """
[[assignment]]
id = "week1"
title = "Week 1"
exercises = ["word_count"]

[[assignment]]
id = "week2"
title = "Week 2"
exercises = ["greeting"]
"""


def run(*arguments: str | Path) -> str:
    done = CliRunner().invoke(main, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(text: str) -> dict[str, dict[str, str]]:
    return {
        row.get("student") or row["student_id"]: row for row in csv.DictReader(io.StringIO(text))
    }


@pytest.fixture
def folder(semester: Semester) -> Path:
    """A term in which zoe has 5 of 10 and 2 of 2.5 points after corrections, and 4.75 of 7.5 for practice."""
    folder = course_gradebook(semester, assignments=WEEKS)
    run("adjust", folder, "zoe", "word_count", "--add", "-1", "--reason", "copied")
    run("adjust", folder, "zoe", "running_mean", "--add", "1", "--reason", "neat")
    return folder


def test_the_total_is_the_same_wherever_it_is_shown(
    folder: Path, semester: Semester, tmp_path: Path
) -> None:
    shown = run("show", folder, "zoe")
    assert "Total: 7 of 12.5 points" in shown
    assert "running_mean  4.75 / 7.5  partly passed  practice" in shown
    explained = run("policy", folder, "--explain", "zoe")
    assert (
        "Total: 7 of 12.5 points" in explained and "running_mean  4.75 / 7.5  practice" in explained
    )

    table = run("export", folder, "--format", "csv")
    zoe = rows(table)["zoe"]
    assert (zoe["total"], zoe["max_score"], zoe["judged"]) == ("7", "12.5", "8")
    assert zoe["modules/running_mean (practice)"] == "4.75"
    zoe = rows(run("export", folder, "--format", "nbgrader"))["zoe"]
    assert (zoe["raw_score"], zoe["score"], zoe["max_score"]) == ("7", "7", "12.5")
    assert "zoe,,5,2,4.75,7\n" in run("export", folder, "--format", "moodle").replace("\r", "")
    _, line = run("export", folder, "--format", "jsonl").splitlines()
    assert (json.loads(line)["result"]["score"]) == 7
    for name, file in (("gradescope", "zoe.json"), ("feedback", "zoe.md"), ("markdown", "zoe.md")):
        run("export", folder, "--format", name, "-o", tmp_path / name)
        text = (tmp_path / name / file).read_text(encoding="utf-8")
        if name == "gradescope":
            assert json.loads(text)["score"] == 7
        else:
            assert "zoe: 7 of 12.5 points" in text or "NumPy: 7 of 12.5 points" in text
            assert "practice" in text
    run("report", folder, "-o", tmp_path / "report")
    page = (tmp_path / "report/students/zoe.html").read_text(encoding="utf-8")
    assert "<strong>7</strong> of 12.5</span> points" in page
    with mailing(folder) as book:
        book.keep_student(StudentInfo(id="zoe", email="zoe@example.org"))
        mail = planned(book, MailFile(host="h", sender="c@example.org"), "").mails[0].letter.text
    assert ": 7 of 12.5 points." in mail and "4.75 of 7.5 points, practice" in mail
    assert json.loads((folder / "results/zoe.json").read_bytes())["score"] == 7

    # `grade term` computes it from the same points.
    (_, zoe_row) = add_up(read_graded(folder, semester.course), semester.course).rows
    points = [part.score.points for part in zoe_row.parts if part.score is not None]
    assert (points, zoe_row.total) == ([5, 2], 65)


def test_totals_compared_between_gradings_exclude_practice(folder: Path) -> None:
    # Totals with and without corrections are computed differently.
    for total in (7, 8):
        with Gradebook.open_to_write(folder) as book:
            book.finish(())
            assert book.facts.totals == {"kim": 0, "zoe": total}
        (folder / "corrections.toml").unlink(missing_ok=True)


def test_unjudged_practice_does_not_leave_the_total_open(
    semester: Semester, tmp_path: Path
) -> None:
    folder = course_gradebook(semester, assignments=WEEKS)
    with Gradebook.open_to_write(folder) as book:
        semester._hand_in(book, StudentInfo(id="zoe"), "final", None)
        book.finish(())
        assert book.facts.totals["zoe"] == 8
    assert "running_mean  0 / 7.5" in run("show", folder, "zoe")
    assert "Total: 8 of 12.5 points" in run("policy", folder, "--explain", "zoe")
    assert rows(run("export", folder, "--format", "csv"))["zoe"]["total"] == "8"
    run("export", folder, "--format", "gradescope", "-o", tmp_path)
    written = json.loads((tmp_path / "zoe.json").read_bytes())
    assert written["score"] == 8
    assert "running_mean (practice): Not judged" in written["output"]

    run("adjust", folder, "zoe", "word_count", "--add", "1", "--reason", "neat")
    with Gradebook.open_to_write(folder) as book:
        # With a correction, the total is computed differently.
        book.finish(())
        assert book.facts.totals["zoe"] == 9
        semester._hand_in(book, StudentInfo(id="zoe"), "week2", None)
    still_open = "Total: open, because an exercise is not judged"
    assert still_open in run("show", folder, "zoe")
    assert still_open in run("policy", folder, "--explain", "zoe")


PARTS = {"week1": AssignmentPart("Week 1", ("a", "b")), "week2": AssignmentPart("Week 2", ("c",))}


@pytest.mark.parametrize(
    ("facts", "practice"),
    [
        (Facts(exercises=("a", "c", "d"), assignments=PARTS), {"d"}),
        (Facts(exercises=("a", "b", "c"), assignments=PARTS), set()),
        # Without an assignment, everything counts.
        (Facts(exercises=("a", "d")), set()),
        (Facts(exercises=("d", "e"), assignments=PARTS), set()),
        # The instructor named these exercises.
        (Facts(exercises=("a", "d"), assigned=("a", "d"), assignments=PARTS), set()),
        (Facts(exercises=("a", "b"), assignment="week1", assignments=PARTS), set()),
    ],
)
def test_exercises_of_no_assignment_are_practice(facts: Facts, practice: set[str]) -> None:
    assert facts.practice == practice


def test_totals_of_an_earlier_grader_with_practice_are_not_compared(
    semester: Semester,
) -> None:
    folder = course_gradebook(semester, assignments=WEEKS)
    with Gradebook.open_to_write(folder) as book:
        # An earlier grader counted practice in its totals and results.
        totals = {"zoe": 11.75, "kim": 0.0}
        book.change(totals=totals, totals_before=totals, totals_without=())
        assert book.totals_before() == {}
    with Gradebook.open_to_write(folder) as book:
        assert book.begin(semester.course), "results have to be written again"
        assert book.totals_before() == {}
        book.finish(())
        book.mark_current()
    with Gradebook.open_to_write(folder) as book:
        assert not book.begin(semester.course)
        assert book.totals_before() == {"kim": 0, "zoe": 8}


def test_one_assignment_of_a_term_is_shown(folder: Path) -> None:
    shown = run("show", folder, "zoe", "--assignment", "week2")
    assert "Total: 2 of 2.5 points" in shown and "greeting" in shown
    assert "word_count" not in shown and "running_mean" not in shown
    done = CliRunner().invoke(main, ["show", str(folder), "zoe", "--assignment", "wek2"])
    assert done.exit_code == 2 and "Did you mean 'week2'" in done.output
