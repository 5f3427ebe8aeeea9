"""An interrupted batch stays unfinished until its download is read to the end; no judge is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from grader.cli import main
from grader.gradebook import Gradebook
from grader.gradebook.intake import Intake, ToJudge

PLAIN = Path(__file__).parents[2] / "courses" / "plain"


@pytest.fixture
def course(tmp_path: Path) -> Path:
    """Return a course; beside it are a large class and a single student, all with empty files."""
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("big/ada", "big/ben", "one/cem"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "word_count.py").touch()
    return tmp_path / "course"


def run(course: Path, *words: str) -> Result:
    options = ("--course", str(course), "--jobs", "1")
    return CliRunner().invoke(main, [*words, *options])


def listed(results: Path) -> tuple[str, list[str]]:
    with Gradebook.open(results) as book:
        return book.unfinished, [entry.student for entry in book.attention()]


def test_a_later_grading_does_not_end_an_interrupted_batch(
    course: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = course.parent
    results, big, one = beside / "results", str(beside / "big"), str(beside / "one")
    take_in = Intake.take_in

    def only_ada(intake: Intake, attempts: list[object], **options: bool) -> ToJudge:
        taken = take_in(intake, attempts, **options)  # type: ignore[arg-type]
        if taken.student == "ben":
            raise KeyboardInterrupt
        return taken

    with monkeypatch.context() as patch:
        patch.setattr(Intake, "take_in", only_ada)
        done = run(course, "batch", big, "-o", str(results))
    assert done.exit_code == 130
    assert f"The grading of {big} into" in done.stderr and "same path again" in done.stderr
    for command in (["batch", one, "-o", str(results)], ["regrade", str(results)]):
        done = run(course, *command)
        assert done.exit_code == 0, done.output
        assert f"The grading of {big} into" in done.stderr
        unfinished, students = listed(results)
        assert big in unfinished and one not in unfinished
        assert students == ["ada", "cem"], "entries about a student who was read stay"
    done = run(course, "batch", big, "-o", str(results))
    assert "did not finish" not in done.stderr
    assert listed(results) == ("", ["ada", "ben", "cem"])
