"""Answers to `grade mark` survive a kill at any moment: each is on the disk before it is shown."""

from __future__ import annotations

import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.gradebook import Gradebook
from grader.gradebook.corrections import about_file
from grader.gradebook.marking import files, is_marked
from grader.results import StudentInfo
from tests.grader.gradebook.conftest import School
from tests.grader.gradebook.test_marking import RUBRIC

FILE = b"x = 1\n"
PATIENCE_SECONDS = 120
# Each answer, the text that confirms it, and the points and number of comments kept afterwards.
STEPS = [
    (b"d", b"d: -1 point", -1.0, 0),
    (b"e", b"d e: -3.5 points", -3.5, 0),
    (b"c1\nName it.\n", b"1 comment: Line 1: Name it.", -3.5, 1),
    (b"d", b"e: -2.5 points, 1 comment", -2.5, 1),
    (b"n", b"1 marked", -2.5, 1),
]


@pytest.fixture
def team(school: School) -> School:
    """Return a gradebook with a team of two that shares a file, and a rubric."""
    path = school.course.root / "tests/rubrics/one/task.toml"
    path.parent.mkdir(parents=True)
    path.write_text(RUBRIC, encoding="utf-8")
    with Gradebook.open_to_write(school.results) as book:
        book.begin(school.course)
        for student in ("ann", "bob"):
            with book.transaction():
                book.keep_student(StudentInfo(id=student, ids={"team": "red"}))
            school.keep(book, school.hand_in(book, student, FILE), 8.0, FILE)
        book.change(teams=True)
        book.finish(())
    return school


class Marking:
    """`grade mark` on a terminal of its own."""

    def __init__(self, school: School) -> None:
        self._terminal, other = pty.openpty()
        command = [sys.executable, "-P", "-m", "grader.cli", "mark", str(school.results), "task"]
        self._process = subprocess.Popen(
            [*command, "--course", str(school.course.root), "--author", "ben"],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)
        self.printed = b""

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def until(self, text: bytes) -> None:
        """Read until `text` is printed, after the text of the last call."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.printed:
            assert time.monotonic() < deadline, self.printed
            if select.select([self._terminal], [], [], 0.1)[0]:
                self.printed += os.read(self._terminal, 4096)
        self.printed = self.printed.partition(text)[2]

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        os.close(self._terminal)


def kept(school: School) -> tuple[float, int]:
    """Return the points and the number of comments kept, as a mark of both students or as a draft."""
    with Gradebook.open(school.results) as book:
        (file,) = files(book, "task")
        made, begun = book.corrections(), [each.remarks for each in book.facts.mark_drafts]
        if is_marked(made, file):
            marks = [
                about_file([m for m in made if m.student == s], file.digest) for s in ("ann", "bob")
            ]
            assert [len(each) for each in marks] == [1, 1]
            assert marks[0][0].add == marks[1][0].add
            return marks[0][0].add or 0.0, int(bool(marks[0][0].comment))
        assert not made, "either all members of a team have the mark, or none"
        points = {"d": -1.0, "e": -2.5}
        keys = begun[0].keys if begun else ()
        return sum(points[key] for key in keys), len(begun[0].comments) if begun else 0


@pytest.mark.parametrize("count", range(1, len(STEPS) + 1))
def test_a_confirmed_answer_survives_a_kill(team: School, count: int) -> None:
    marking = Marking(team)
    marking.until(b"q stop")
    for keys, shown, _, _ in STEPS[:count]:
        marking.press(keys)
        marking.until(shown)
    marking.kill()
    assert kept(team) == STEPS[count - 1][2:]
    if count < len(STEPS):
        again = Marking(team)
        again.until(b" point")
        again.press(b"n")
        again.until(b"1 marked")
        again.kill()
    assert kept(team) == STEPS[count - 1][2:], "continuing keeps it"


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(8))
def test_a_kill_at_any_moment_leaves_a_state_after_some_answer(team: School, seed: int) -> None:
    marking = Marking(team)
    marking.until(b"q stop")
    for keys, *_ in STEPS:
        marking.press(keys)
    time.sleep(random.Random(seed).uniform(0, 0.3))
    marking.kill()
    assert kept(team) in [(0.0, 0), *(step[2:] for step in STEPS)]


def test_no_draft_or_partial_file_is_left(team: School, tmp_path: Path) -> None:
    marking = Marking(team)
    marking.until(b"q stop")
    marking.press(b"dn")
    marking.until(b"1 marked")
    marking.kill()
    with Gradebook.open(team.results) as book:
        assert book.facts.mark_drafts == ()
    assert not list(team.results.glob("*.part"))
