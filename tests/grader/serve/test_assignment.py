"""`grade serve --assignment` serves one assignment and shows nothing of the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable

from grader.course.manifest import load_course
from grader.gradebook import Gradebook
from tests.grader.gradebook.batch.test_assignment import ASSIGNMENTS
from tests.grader.serve.conftest import PLAIN, SOLUTION, Served

OTHER = (PLAIN / "solutions" / "arrays" / "running_mean.py").read_bytes()


def test_other_assignments_are_not_shown(serving: Callable[..., Served]) -> None:
    server = serving()
    server.course = server.folder / "course"
    shutil.copytree(PLAIN, server.course)
    text = ASSIGNMENTS.replace('["text"]', '["text"]\nextra_credit = ["greeting"]')
    (server.course / "exercises/assignments.toml").write_text(text, encoding="utf-8")
    server.start("--assignment", "week1")
    handed = server.hand_in("ada", {"greeting.py": SOLUTION})
    server.judged("ada", handed.json["id"])
    standing = server.ask("GET", "/api/standing", "ada")
    worth = {each.id: each.points for each in load_course(PLAIN).exercises}
    assert (standing.json["score"], standing.json["max_score"]) == (
        worth["greeting"],
        worth["word_count"],
    ), "extra credit adds to the score, not to the maximum"
    refused = server.hand_in("ada", {"running_mean.py": OTHER})
    assert refused.status == 422
    for answer in (
        standing,
        refused,
        server.ask("GET", "/", "ada"),
        server.ask("GET", "/class", "staff"),
        server.ask("GET", "/api/staff/students", "staff"),
    ):
        assert b"week2" not in answer.body.lower() and b"Week 2" not in answer.body
        assert b"arrays/" not in answer.body and b"A running mean" not in answer.body
    page = server.ask("GET", "/", "ada").body
    assert b"Week 1" in page and b"running_mean" not in page
    assert page.count(b"extra credit") >= 1
    assert [e["extra_credit"] for e in standing.json["exercises"]] == [False, True]
    total = f"{worth['greeting']:g} of extra credit".encode()
    for path, name in (("/", "ada"), ("/class", "staff"), ("/class/students/ada", "staff")):
        assert b"with " + total in server.ask("GET", path, name).body, path
    assert b"running_mean" not in server.ask("GET", "/class", "staff").body
    assert server.stop() == 0
    with Gradebook.open(server.results) as book:
        assert book.facts.assignment == "week1"
        assert set(book.exercises) == {"greeting", "word_count"}
    command = [sys.executable, "-m", "grader.cli", "serve", str(server.course), "-o"]
    roster = ["--roster", str(server.folder / "class.csv"), "--assignment", "week2"]
    other = subprocess.run(
        [*command, str(server.results), *roster], capture_output=True, text=True, check=False
    )
    assert other.returncode == 2 and "is the gradebook of the assignment week1" in other.stderr
