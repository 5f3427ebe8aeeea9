"""Judges keep observations of wrong answers in the user's cache, so each is made once for a class."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from grader.course.manifest import load_course
from grader.findings import message_of
from grader.judge.assignment import GradingOptions, JudgeFault, Judgment
from grader.judge.pool import LocalPool, Task
from grader.judge.process import judges
from grader.results import Finding
from tests.grader.command import kept

from .conftest import RIGHT, School

SENTENCE = "You triple: multiply by 2."
HEADER = f"# wrong: {SENTENCE}\n"
# The same mistake, written in three ways.
TRIPLED = [f"def double(x):\n    return {text}\n" for text in ("x * 3", "x + x + x", "3.0 * x")]
OPTIONS = GradingOptions(recognize=True)

pytestmark = pytest.mark.usefixtures("judged_anew")


@pytest.fixture
def school(school: School, monkeypatch: pytest.MonkeyPatch) -> School:
    """Return a course that knows two mistakes, a class of one, and new judges for each batch."""
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


def is_named(judged: Judgment | JudgeFault) -> bool:
    assert isinstance(judged, Judgment)
    return judged.result.tests[0].message.startswith(SENTENCE)


def kept_files(cache: Path) -> list[Path]:
    """Return the files with observations of wrong answers, except those of other tests."""
    files = (cache / "lab-bench" / "mistakes").glob("*.json")
    return [path for path in files if b"21" in path.read_bytes()]


@pytest.fixture
def empty_cache(cache: Path) -> Path:
    """Return the cache without earlier observations."""
    shutil.rmtree(cache / "lab-bench" / "mistakes", ignore_errors=True)
    return cache


@pytest.mark.thorough
def test_observations_of_one_judge_are_shared_with_others_and_later_gradings(
    school: School, empty_cache: Path
) -> None:
    course = load_course(school.course)
    tasks = [Task(0, "task", source.encode()) for source in TRIPLED]
    with LocalPool(course, 2, OPTIONS) as judges:
        # The two judges take turns.
        assert is_named(judges.complete(tasks[0]))
        (path,) = kept_files(empty_cache)
        seen = path.stat().st_mtime_ns
        assert is_named(judges.complete(tasks[1]))
    with LocalPool(course, 1, OPTIONS) as judges:
        assert is_named(judges.complete(tasks[2]))
        judges.complete(Task(0, "task", RIGHT.encode()))
    assert path.stat().st_mtime_ns == seen


def test_a_slow_mistake_is_recognized(school: School) -> None:
    wrong = school.course / "tests" / "wrong" / "one" / "task" / "slow.py"
    slow = "import time\n\n\ndef double(x):\n    time.sleep(0.3)\n    return {}\n"
    header = HEADER.replace(SENTENCE, "You add 5.")
    wrong.write_text(header + slow.format("2 * x + 5"), encoding="utf-8")
    with LocalPool(load_course(school.course), 1, OPTIONS) as judges:
        judged = judges.complete(Task(0, "task", slow.format("x + x + 5").encode()))
    assert isinstance(judged, Judgment)
    assert judged.result.tests[0].message.startswith("You add 5.")


def named(school: School, student: str, source: str) -> bool:
    """Grade another submission, and return whether its student reads the sentence."""
    school.hand_in(student, source)
    done = school.batch()
    assert done.returncode in (0, 1), done.stderr
    (exercise,) = school.entries()[student].result.exercises
    return exercise.tests[0].message.startswith(SENTENCE)


Kept = dict[str, dict[str, Finding | None]]


def other_text(content: bytes) -> bytes:
    seen = msgspec.json.decode(content, type=Kept)
    other = Finding("It is something else.")
    return msgspec.json.encode({a: dict.fromkeys(tests, other) for a, tests in seen.items()})


BROKEN: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "known": (other_text, False),
    "of another form": (lambda content: b"[]", True),
    "no JSON": (lambda content: content[:-1], True),
    "empty": (lambda content: b"", True),
}


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        pytest.param(
            *how, id=name, marks=[pytest.mark.thorough] if name in ("no JSON", "empty") else []
        )
        for name, how in BROKEN.items()
    ],
)
def test_kept_observations_are_used_and_broken_ones_are_made_again(
    school: School, empty_cache: Path, change: Callable[[bytes], bytes], is_told: bool
) -> None:
    assert named(school, "bob", TRIPLED[0])
    (path,) = kept_files(empty_cache)
    path.write_bytes(change(path.read_bytes()))
    assert named(school, "eve", TRIPLED[1]) is is_told


def test_a_cache_that_cannot_be_written_does_not_prevent_recognition(
    school: School, empty_cache: Path
) -> None:
    (empty_cache / "lab-bench").mkdir(exist_ok=True)
    (empty_cache / "lab-bench" / "mistakes").write_text("a file in the place of the folder")
    try:
        assert named(school, "bob", TRIPLED[0])
    finally:
        (empty_cache / "lab-bench" / "mistakes").unlink()


def test_observations_of_other_mistakes_are_not_shown_to_students(
    school: School, empty_cache: Path
) -> None:
    named(school, "bob", TRIPLED[0])
    (path,) = kept_files(empty_cache)
    kept = msgspec.json.decode(path.read_bytes(), type=Kept)
    seen = [what for tests in kept.values() for what in tests.values() if what is not None]
    (other,) = [message for message in map(message_of, seen) if "21" in message]
    for path in (school.results / "results").iterdir():
        assert other not in path.read_text(encoding="utf-8")
