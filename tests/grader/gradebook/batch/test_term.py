"""A term on the command line: due times, extensions and corrections in every output, recomputed here."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from grader.gradebook import Gradebook
from grader.gradebook.policy_file import read_policy
from tests.grader.command import grade

SUITE = '''
@pytest.mark.points(2)
def test_double(student):
    """The double is twice the number."""
    assert_close(student.function("double")(2.0), 4.0)


@pytest.mark.points(3)
def test_zero(student):
    """The double of nothing is nothing."""
    assert_close(student.function("double")(0.0), 0.0)


@pytest.mark.points(5)
def test_kind(student):
    """The double of a number is a number."""
    assert isinstance(student.function("double")(1.0), float)
'''
# These earn 10, 8, 5 and, written differently, 10 of 10 points.
RIGHT = "def double(x):\n    return 2 * x\n"
HALF = "def double(x):\n    return 3 * x\n"
LESS = "def double(x):\n    return x + 1\n"
SUM = "def double(x):\n    return x + x\n"
POLICY = """\
timezone = "Europe/Warsaw"

[late]
grace = "15 minutes"
per_day = 10
at_most = 50
closes = "7 days"

[[due]]
at = 2026-10-24T23:59:00

[[extension]]
student = "zoe"
by = "2 days"
reason = "ill"
"""
# Student, time as Gradescope writes it, and file. The clocks go back in the night to 25 October.
HANDED_IN = [
    ("ann", "2026-10-23 21:00:00 Z", RIGHT),
    ("bob", "2026-10-24 23:00:00 +02:00", LESS),
    ("bob", "2026-10-25 12:00:00 +01:00", HALF),
    ("cem", "2026-10-25 23:30:00 +01:00", RIGHT),
    ("dee", "2026-11-09 12:00:00 +01:00", SUM),
    ("eva", "2026-10-25 00:13:00 +02:00", HALF),
    ("zoe", "2026-10-26 12:00:00 +01:00", RIGHT),
]
JUDGED = {"ann": 10, "bob": 8, "cem": 10, "dee": 10, "eva": 8, "zoe": 10}
# On time; 13 hours late; a day and half an hour late; a fortnight late; within the grace; within the extension.
COUNTED = {"ann": 10, "bob": 7.2, "cem": 8, "dee": 0, "eva": 8, "zoe": 10}
TEST = "“The double is twice the number”"


class Term(NamedTuple):
    """A course, a download, and the results of a batch on it."""

    course: Path
    download: Path
    results: Path

    def grade(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command. The path of the results replaces {R}."""
        words = [str(self.results) if word == "{R}" else word for word in arguments]
        return grade(*words, cwd=self.course)

    def rows(self) -> dict[str, dict[str, str]]:
        out = self.grade("export", "{R}", "--format", "csv").stdout
        return {row["student"]: row for row in csv.DictReader(io.StringIO(out))}

    def points(self) -> dict[str, float]:
        return {student: float(row["one/task"]) for student, row in self.rows().items()}

    def exercises(self) -> dict[str, dict[str, Any]]:
        """Return the exercise of each student from `jsonl`, after comparing it with results/STUDENT.json."""
        out = self.grade("export", "{R}", "--format", "jsonl").stdout
        lines = [json.loads(line) for line in out.splitlines()]
        for line in lines:
            path = self.results / "results" / f"{line['student']['id']}.json"
            assert json.loads(path.read_text(encoding="utf-8")) == line["result"]
            scores = [exercise["score"] for exercise in line["result"]["exercises"]]
            assert sum(scores) == line["result"]["score"]
        return {line["student"]["id"]: line["result"]["exercises"][0] for line in lines}

    def verdicts(self) -> list[tuple[object, ...]]:
        with contextlib.closing(sqlite3.connect(self.results / "gradebook.sqlite")) as connection:
            return connection.execute("SELECT * FROM grades ORDER BY attempt, exercise").fetchall()


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Term:
    root = tmp_path_factory.mktemp("term")
    from tests.grader.conftest import _write_course

    _write_course(root / "course", SUITE)
    (root / "course" / "exercises" / "policy.toml").write_text(POLICY, encoding="utf-8")
    metadata = "---\n"
    for number, (student, time, source) in enumerate(HANDED_IN):
        folder = root / "class" / f"submission_{number}"
        folder.mkdir(parents=True)
        (folder / "task.py").write_text(source, encoding="utf-8")
        metadata += (
            f"submission_{number}:\n  :submitters:\n  - :name: {student.title()} Lee\n"
            f"    :sid: {student}\n    :email: {student}@uni.edu\n  :created_at: {time}\n"
        )
    (root / "class" / "submission_metadata.yml").write_text(metadata, encoding="utf-8")
    term = Term(root / "course", root / "class", root / "results")
    done = term.grade("batch", str(term.download), "-o", "{R}")
    assert done.returncode == 0, done.stderr
    assert "Points follow its policy:" in done.stdout
    return term


@pytest.fixture
def term(graded: Term, tmp_path: Path) -> Term:
    """Return a copy, so that tests do not see each other's changes."""
    shutil.copytree(graded.results, tmp_path / "results")
    shutil.copytree(graded.course, tmp_path / "course")
    return Term(tmp_path / "course", graded.download, tmp_path / "results")


def test_points_and_reasons_are_in_every_output(term: Term) -> None:
    rows, exercises = term.rows(), term.exercises()
    assert {name: float(row["total"]) for name, row in rows.items()} == COUNTED
    assert {name: float(row["judged"]) for name, row in rows.items()} == JUDGED
    assert {name: each["score"] for name, each in exercises.items()} == COUNTED
    assert {name: each["mark"]["judged"] for name, each in exercises.items()} == JUDGED
    reasons = {name: " ".join(each["mark"]["reasons"]) for name, each in exercises.items()}
    assert reasons["ann"] == ""
    due = "due 2026-10-24 23:59 CEST"
    assert (
        reasons["bob"] == f"Handed in 13 hours 1 minute late ({due}): 10 % of the points are lost."
    )
    assert (
        reasons["cem"] == f"Handed in 1 day 31 minutes late ({due}): 20 % of the points are lost."
    )
    assert reasons["dee"] == (
        f"Handed in 15 days 13 hours late ({due}): a file that is more than 7 days late does not count."
    )
    assert reasons["eva"] == f"Handed in 14 minutes late ({due}), within 15 minutes of grace."
    extension = "extension until 2026-10-26 23:59 CET: ill"
    assert reasons["zoe"] == f"Handed in on time ({due}; {extension})."
    for name, row in rows.items():
        assert reasons[name] in row["remarks"]
    assert rows["dee"]["status"] == "failed"


def test_lateness_follows_the_policy(term: Term) -> None:
    late = {name for name, row in term.rows().items() if row["late"] == "yes"}
    assert late == {"bob", "cem", "dee"}
    pages = term.course / "pages"
    term.grade("export", "{R}", "--format", "feedback", "-o", str(pages))
    (page,) = (path.read_text(encoding="utf-8") for path in pages.glob("*cem*"))
    assert "Handed in 2026-10-25 23:30 CET, late." in page
    out = term.grade("export", "{R}", "--format", "nbgrader").stdout
    (cem,) = (row for row in csv.DictReader(io.StringIO(out)) if row["student_id"] == "cem")
    points = (cem["raw_score"], cem["late_submission_penalty"], cem["score"], cem["duedate"])
    assert points == ("10", "2", "8", "2026-10-24T21:59:00Z")


def test_a_regrade_lists_each_student_once(term: Term) -> None:
    term.grade("adjust", "{R}", "--all", "task", "--give", "test_zero", "--reason", "unclear")
    best = term.course / "exercises" / "policy.toml"
    best.write_text('attempts = "best"\n' + POLICY, encoding="utf-8")
    term.grade("regrade", "{R}")
    suite = next((term.course / "tests" / "hidden").rglob("test_task.py"))
    changed = suite.read_text(encoding="utf-8").replace("test_zero", "test_nothing")
    suite.write_text(changed.replace("points(5)", "points(15)"), encoding="utf-8")
    done = term.grade("regrade", "{R}", "--json", str(term.course / "changes.json"))
    assert done.returncode == 0, done.stderr
    changes = json.loads((term.course / "changes.json").read_text())
    (bob,) = (change for change in changes if change["student"] == "bob")
    # The first attempt had 5 points on time and 3 given. Now the second has 18 of 20, less a tenth.
    assert (bob["attempt"], bob["before"], bob["after"]) == (2, 8, 8.1)
    (cem,) = (change for change in changes if change["student"] == "cem")
    assert (cem["before"], cem["after"]) == (8, 8)
    assert "for tests that are gone, so without effect:" in done.stdout
    assert "the class task: test_zero given to all" in done.stdout


def test_changes_are_written_even_if_nobody_reads_the_output(
    term: Term, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("grader.cli.batch.show_changes", closed)
    with pytest.raises(BrokenPipeError):
        term.grade("regrade", "{R}", "--json", str(term.course / "changes.json"))
    assert json.loads((term.course / "changes.json").read_text()) == []


def test_the_policy_is_shown_and_explained_for_a_student(term: Term) -> None:
    shown = term.grade("policy", "{R}").stdout
    assert "Due 2026-10-24 23:59 CEST  task" in shown
    assert "10 % lost for each day begun, at most 50 %; grace of 15 minutes; closed" in shown
    assert "Extension for zoe, everything, by 2 days: ill" in shown
    shown = term.grade("policy", "{R}", "--toml").stdout
    assert read_policy(shown) == read_policy(POLICY)
    explained = term.grade("policy", "{R}", "--explain", "bob").stdout
    assert "    attempt 1  2026-10-24 23:00 CEST, on time, not judged" in explained
    assert "  > attempt 2  2026-10-25 12:00 CET, 13 hours 1 minute late, 8 points, 7.2" in explained
    assert "Total: 7.2 of 10 points" in explained


def test_another_policy_counts_at_once_and_judges_nothing(term: Term) -> None:
    before = term.verdicts()
    other = term.course / "other.toml"
    other.write_text(POLICY.replace("per_day = 10", "per_day = 25"), encoding="utf-8")
    done = term.grade("policy", "{R}", "--file", str(other))
    assert done.returncode == 0, done.stderr
    assert "0 gained, 2 lost, 4 as before." in done.stdout
    assert term.points() == {**COUNTED, "bob": 6, "cem": 5}
    assert term.exercises()["bob"]["score"] == 6
    assert term.verdicts() == before
    # It overrides the policy beside the course until that one is named again.
    again = term.grade("batch", str(term.download), "-o", "{R}")
    assert "0 exercises judged" in again.stdout
    assert f"Points follow its policy of {other.resolve()}, which --policy or " in again.stdout
    assert term.points()["bob"] == 6
    term.grade("policy", "{R}", "--file", str(term.course / "exercises" / "policy.toml"))
    assert term.points() == COUNTED


def test_an_unjudged_attempt_that_may_count_leaves_points_open(term: Term) -> None:
    best = term.course / "exercises" / "policy.toml"
    best.write_text('attempts = "average"\n' + POLICY, encoding="utf-8")
    done = term.grade("policy", "{R}", "--file", str(best))
    assert "1 not judged." in done.stdout
    assert "grade regrade" in done.stderr
    assert term.rows()["bob"]["total"] == ""
    regraded = term.grade("regrade", "{R}")
    assert "1 exercise judged" in regraded.stdout
    assert term.points() == {**COUNTED, "bob": 6.1}, "the average of 5 and of 8 less a tenth"
    assert "5 and 7.2 after 10 %" in term.rows()["bob"]["remarks"]


def test_a_wrong_policy_changes_nothing(term: Term) -> None:
    wrong = term.course / "wrong.toml"
    for text, words in (
        (POLICY.replace("grace", "grase"), "Did you mean 'grace'?"),
        (
            POLICY.replace('"zoe"', '"zeo"'),
            "names 'zeo', and no student here has that id. Did you mean",
        ),
        (POLICY + 'exercises = ["tusk"]\n', "Did you mean 'task'?"),
    ):
        wrong.write_text(text, encoding="utf-8")
        done = term.grade("policy", "{R}", "--file", str(wrong))
        assert done.returncode == 2
        assert words in done.stderr
        assert "Traceback" not in done.stderr
    beside = term.course / "exercises" / "policy.toml"
    beside.write_text(POLICY.replace("grace", "grase"), encoding="utf-8")
    assert term.grade("batch", str(term.download), "-o", "{R}").returncode == 2
    assert term.points() == COUNTED


def test_corrections_are_made_shown_and_taken_back(term: Term) -> None:
    made = term.grade(
        *("adjust", "{R}", "bob", "task", "--points", "9.5", "--reason", "shown in the lab"),
        *("--comment", "Well done.", "--author", "prof"),
    )
    assert made.returncode == 0, made.stderr
    assert "7.2 to 9.5 of 10 points" in made.stdout
    term.grade("adjust", "{R}", "ann", "one/task.py", "--add", "-1", "--reason", "copied")
    assert term.points() == {**COUNTED, "bob": 9.5, "ann": 9}
    bob = term.exercises()["bob"]
    assert (bob["score"], bob["mark"]["judged"], bob["mark"]["comment"]) == (9.5, 8, "Well done.")
    assert bob["mark"]["reasons"][-1] == "Set to 9.5 points: shown in the lab."
    assert "Set to 9.5 points: shown in the lab. Well done." in term.rows()["bob"]["remarks"]
    assert "1 point taken off: copied." in term.grade("show", "{R}", "ann").stdout
    listed = term.grade("adjust", "{R}", "--list").stdout
    assert "set to 9.5 points: shown in the lab" in listed
    assert "1 point taken off: copied" in listed
    undone = term.grade("adjust", "{R}", "bob", "task", "--undo")
    assert "9.5 to 7.2 of 10 points" in undone.stdout
    assert term.points() == {**COUNTED, "ann": 9}
    assert "shown in the lab" not in term.grade("adjust", "{R}", "--list").stdout
    again = term.grade("adjust", "{R}", "bob", "task", "--undo")
    assert again.returncode == 2
    left = f"Its only one is number 1: `grade adjust {term.results} --list` shows it."
    assert f"{term.results} has no correction of bob for task. {left}" in again.stderr


def test_a_person_may_edit_the_corrections(term: Term) -> None:
    term.grade("adjust", "{R}", "ann", "task", "--add", "-1", "--reason", "copied")
    path = term.results / "corrections.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("add = -1", "add = -2"), encoding="utf-8")
    assert term.rows()["ann"]["total"] == "8"
    # The edit also counts after a correction of another student.
    term.grade("adjust", "{R}", "bob", "task", "--points", "9", "--reason", "shown")
    assert {name: each["score"] for name, each in term.exercises().items()} == {
        **COUNTED,
        "ann": 8,
        "bob": 9,
    }
    path.write_text(path.read_text(encoding="utf-8").replace("add = -2", 'add = "-2"'))
    broken = term.grade("export", "{R}", "--format", "csv")
    assert broken.returncode == 2
    assert f"{path}, line 7: `add` of [[correction]] 1: expected a number" in broken.stderr
    path.unlink()
    assert term.points() == COUNTED
    term.grade("regrade", "{R}")
    assert {name: each["score"] for name, each in term.exercises().items()} == COUNTED


def test_a_test_is_given_to_all_or_dropped_before_lateness_counts(term: Term) -> None:
    made = term.grade(
        "adjust", "{R}", "--all", "task", "--give", "test_double", "--reason", "unclear"
    )
    assert "2 gained, 0 lost, 4 as before." in made.stdout
    assert term.points() == {**COUNTED, "bob": 9, "eva": 10}
    assert f"{TEST} is given to all: unclear." in term.rows()["bob"]["remarks"]
    assert "unclear" not in term.rows()["ann"]["remarks"]
    assert term.grade("adjust", "{R}", "--all", "task", "--undo").returncode == 0
    assert term.points() == COUNTED
    made = term.grade("adjust", "{R}", "--all", "task", "--drop", "test_kind", "--reason", "unfair")
    assert "0 gained, 2 lost, 4 as before." in made.stdout
    assert "--give" in made.stderr
    # They pass 3 of the remaining 5 weights.
    assert term.points() == {**COUNTED, "bob": 5.4, "eva": 6}


def test_a_correction_survives_a_regrade(term: Term) -> None:
    term.grade("adjust", "{R}", "eva", "task", "--points", "9", "--reason", "shown")
    suite = term.course / "tests" / "hidden" / "one" / "test_task.py"
    text = suite.read_text(encoding="utf-8")
    suite.write_text(text.replace("points(5)", "points(15)"), encoding="utf-8")
    done = term.grade("regrade", "{R}")
    assert done.returncode == 0, done.stderr
    assert "Adjusted before, and judged differently since:" in done.stdout
    assert (
        "eva (Eva Lee) task: judged 8 when it was adjusted (set to 9 points), 9 now" in done.stdout
    )
    assert term.points() == {**COUNTED, "bob": 8.1, "eva": 9}
    assert "judged 8 when it was adjusted" in term.grade("adjust", "{R}", "--list").stdout


MISTYPED = [
    (
        ["bbo", "task", "--points", "1", "--reason", "x"],
        "no student 'bbo' here. Did you mean 'bob'?",
    ),
    (["Bo", "task", "--points", "1", "--reason", "x"], "Did you mean 'bob'"),
    (["bob", "tsak", "--points", "1", "--reason", "x"], "Did you mean 'task'?"),
    (["bob", "task", "--points", "11", "--reason", "x"], "points must be from 0 to 10"),
    (["bob", "task", "--add", "11", "--reason", "x"], "added points must be from -10 to 10"),
    (["--all", "task", "--give", "test_zeo", "--reason", "x"], "Did you mean 'test_zero'"),
    (["bob", "task", "--undo"], "has no correction of bob for task. It has no corrections"),
    (["--undo", "--number", "7"], "results has no correction with the number 7. It has no corr"),
]


def test_a_mistyped_correction_is_explained_and_changes_nothing(graded: Term) -> None:
    for arguments, words in MISTYPED:
        done = graded.grade("adjust", "{R}", *arguments)
        assert done.returncode == 2, arguments
        assert words in done.stderr.replace("\n", " ")
    assert "No points were adjusted." in graded.grade("adjust", "{R}", "--list").stdout


def test_nothing_is_adjusted_while_a_batch_writes(term: Term) -> None:
    with Gradebook.open_to_write(term.results):
        done = term.grade("adjust", "{R}", "bob", "task", "--points", "1", "--reason", "x")
    assert done.returncode == 3
    assert "Another grading writes to" in done.stderr
