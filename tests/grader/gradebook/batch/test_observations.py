"""What judges see of wrong answers is kept beside the verdicts: a class pays for it once."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.judge.assignment import GradingOptions
from grader.judge.pool import Completed, Task, TaskJudges
from grader.judge.process import judges
from tests.grader.command import kept

from .conftest import RIGHT, School

SENTENCE = "You triple: multiply by 2."
HEADER = f"# wrong: {SENTENCE}\n"
# The same mistake, each time in another way.
TRIPLED = [f"def double(x):\n    return {text}\n" for text in ("x * 3", "x + x + x", "3.0 * x")]
OPTIONS = GradingOptions(recognize=True)


@pytest.fixture
def school(school: School, monkeypatch: pytest.MonkeyPatch) -> School:
    """A course that knows two mistakes, a class that did not hand in yet, and judges for each batch."""
    monkeypatch.setattr(kept, "judges", judges)
    shutil.rmtree(school.submissions)
    school.hand_in("ann", RIGHT)
    folder = school.course / "tests" / "wrong" / "one" / "task"
    folder.mkdir(parents=True)
    (folder / "triple.py").write_text(f"{HEADER}def double(x):\n    return x * 6 / 2\n")
    caught = 'test_double = ["triple", "add", "slow"]\n'
    (folder.parent / "task.caught.toml").write_text(caught, encoding="utf-8")
    other = HEADER.replace(SENTENCE, "You add 17.")
    (folder / "add.py").write_text(f"{other}def double(x):\n    return 2 * x + 17\n")
    return school


def is_named(completed: Completed) -> bool:
    assert completed.result is not None
    return completed.result.tests[0].message.startswith(SENTENCE)


def test_what_one_judge_saw_the_others_and_those_of_the_next_grading_know(school: School) -> None:
    course = load_course(school.course)
    tasks = [Task(0, "task", source.encode()) for source in TRIPLED]
    with TaskJudges(course, 2, OPTIONS) as judges:
        # In turn by one judge and by the other.
        first, second = judges.complete(tasks[0]), judges.complete(tasks[1])
    assert first.observations
    assert second.observations == ()
    with TaskJudges(course, 1, OPTIONS, first.observations) as judges:
        third = judges.complete(tasks[2])
        right = judges.complete(Task(0, "task", RIGHT.encode()))
    assert third.observations == right.observations == ()
    assert [is_named(completed) for completed in (first, second, third)] == [True] * 3


def test_a_mistake_is_recognized_that_takes_a_part_of_a_second(school: School) -> None:
    wrong = school.course / "tests" / "wrong" / "one" / "task" / "slow.py"
    slow = "import time\n\n\ndef double(x):\n    time.sleep(0.3)\n    return {}\n"
    header = HEADER.replace(SENTENCE, "You add 5.")
    wrong.write_text(header + slow.format("2 * x + 5"), encoding="utf-8")
    with TaskJudges(load_course(school.course), 1, OPTIONS) as judges:
        completed = judges.complete(Task(0, "task", slow.format("x + x + 5").encode()))
    assert completed.result is not None
    assert completed.result.tests[0].message.startswith("You add 5.")


@contextlib.contextmanager
def connected(results: Path) -> Iterator[sqlite3.Connection]:
    with (
        contextlib.closing(sqlite3.connect(results / "gradebook.sqlite")) as connection,
        connection,
    ):
        yield connection


def named(school: School, student: str, source: str) -> bool:
    """Whether a student of a further batch reads the sentence."""
    school.hand_in(student, source)
    done = school.batch()
    assert done.returncode in (0, 1), done.stderr
    (exercise,) = school.entries()[student].result.exercises
    return exercise.tests[0].message.startswith(SENTENCE)


BROKEN = {
    "known": ("UPDATE observations SET seen = 'something else'", False),
    "of other suites": ("UPDATE observations SET seen = 'something else', course = 'x'", True),
    "of another grader": ("UPDATE observations SET seen = 'something else', grader = 'x'", True),
    "of no text": ("UPDATE observations SET seen = x'00ff'", True),
    "no utf-8": ("UPDATE observations SET seen = CAST(x'ff' AS TEXT)", True),
    "none": ("DROP TABLE observations", True),
    "of another form": ("DROP TABLE observations; CREATE TABLE observations (x)", True),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("change", "is_told"), BROKEN.values(), ids=BROKEN)
def test_what_is_kept_is_believed_and_what_is_broken_is_seen_again(
    school: School, change: str, is_told: bool
) -> None:
    assert named(school, "bob", TRIPLED[0])
    with connected(school.results) as connection:
        assert connection.execute("SELECT count(*) FROM observations").fetchone() == (2,)
        connection.executescript(change)
    assert named(school, "eve", TRIPLED[1]) is is_told


def test_no_student_reads_what_tests_saw_of_other_mistakes(school: School) -> None:
    named(school, "bob", TRIPLED[0])
    with connected(school.results) as connection:
        kept = {what for (what,) in connection.execute("SELECT seen FROM observations")}
    (other,) = [what for what in kept if "21" in what]
    for path in (school.results / "results").iterdir():
        assert other not in path.read_text(encoding="utf-8")
        assert "observations" not in path.read_text(encoding="utf-8")
