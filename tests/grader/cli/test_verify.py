"""`grade verify` proves a course that is in order, and says in full what is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.grader.cli.conftest import Grade


def test_course_in_order(grade: Grade, clone: Path) -> None:
    done = grade("verify", "--jobs", "2", "--seeds", "2", cwd=clone)
    assert done.stdout.splitlines() == [
        "+ word_count: 6 tests, 2 right answers, 3 wrong answers: proved",
        "+ greeting: 1 test, 2 right answers, 1 wrong answer: proved",
        "+ running_mean: 3 tests, 2 right answers, 1 wrong answer: proved",
        "No complaint about 3 exercises.",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_complaints_in_full(grade: Grade, clone: Path) -> None:
    wrong = clone / "tests/wrong/text/greeting/nameless.py"
    wrong.write_text(wrong.read_text("utf-8").replace("Hello, Ada!", "Hi, Ada!"), encoding="utf-8")
    (clone / "tests/right/text/greeting/loud.py").write_text(
        "def greeting(name: str) -> str:\n    return f'HELLO, {name}!'\n", encoding="utf-8"
    )
    done = grade("verify", "greeting", "--jobs", "1", "--seeds", "1", cwd=clone, COLUMNS="500")
    lines = done.stdout.splitlines()
    assert lines[0] == "x greeting: 1 test, 3 right answers, 1 wrong answer: 2 complaints"
    assert lines[1].startswith("  - tests/right/text/greeting/loud.py is right, but test_greeting")
    assert "nobody says 'expected \"Hi, Ada!\"'" in done.stdout
    assert lines[-1] == "2 complaints about 1 exercise."
    assert done.returncode == 1


def test_kept_stub_that_drifted(grade: Grade, clone: Path) -> None:
    kept = clone / "tests/stubs/text/greeting.py"
    kept.write_text(kept.read_text("utf-8") + "# later\n", encoding="utf-8")
    done = grade("verify", "greeting", "--jobs", "1", "--seeds", "1", cwd=clone, COLUMNS="500")
    assert (
        "tests/stubs/text/greeting.py: it is not the same as exercises/text/greeting.py; copy one."
        in done.stdout
    )
    assert done.returncode == 1


def test_release_without_solutions_cannot_be_proved(grade: Grade, clone: Path) -> None:
    (clone / "solutions/text/greeting.py").unlink()
    done = grade("verify", cwd=clone)
    assert "There is nothing to prove 'greeting' with" in done.stderr
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
