"""A student's own folder: verdicts belong to the judged files, and a reset loses nothing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from grader.course.manifest import Course, load_course
from grader.errors import GraderError, SubmissionError
from grader.results import Result
from grader.student.progress import Standing
from grader.student.workspace import Workspace, reset_exercise
from tests.grader import builders

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    """A clone of the plain course in which the greeting is right."""
    shutil.copytree(PLAIN, tmp_path, dirs_exist_ok=True)
    ignored = shutil.ignore_patterns("*.toml")
    shutil.copytree(tmp_path / "exercises", tmp_path / "tests" / "stubs", ignore=ignored)
    course = load_course(tmp_path)
    shutil.copy(course.solution(course.exercise("greeting")), course.folder / "text")
    return course


@pytest.fixture
def greeting(course: Course) -> Path:
    """The student's file."""
    return course.folder / "text" / "greeting.py"


def passed(course: Course, name: str) -> Result:
    """Return a result in which this exercise passed, for the present files."""
    submission = Workspace(course).submission.info()
    return builders.result(builders.exercise(builders.checked(), name=name), submission=submission)


def test_a_verdict_is_recorded_for_the_judged_file(course: Course, greeting: Path) -> None:
    workspace = Workspace(course)
    result = passed(course, "greeting")
    workspace.record(result, "all")
    assert workspace.standings()["greeting"] is Standing.DONE
    assert workspace.first_open() == course.exercise("word_count")


def test_a_file_saved_during_judging_is_not_done(course: Course, greeting: Path) -> None:
    result = passed(course, "greeting")
    greeting.write_bytes(greeting.read_bytes() + b"\n# saved\n")
    workspace = Workspace(course)
    workspace.record(result, "all")
    assert workspace.standings()["greeting"] is Standing.BEGUN


def test_files_may_all_be_gone_for_a_moment(course: Course) -> None:
    # `grade watch` goes on while an editor or git replaces the only file.
    workspace = Workspace(course)
    for file in course.folder.rglob("*.py"):
        file.unlink()
    workspace.read_again()
    assert workspace.handed(course.exercise("greeting")).source is None
    with pytest.raises(SubmissionError, match="`grade reset word_count` restores a stub"):
        Workspace(course)


@pytest.mark.parametrize(
    ("exercise", "standing"), [("word_count", Standing.BEGUN), ("greeting", Standing.DONE)]
)
def test_some_of_the_tests_do_not_make_an_exercise_done(
    course: Course, exercise: str, standing: Standing
) -> None:
    shutil.copy(course.solution(course.exercise("word_count")), course.folder / "text")
    workspace = Workspace(course)
    # The greeting has only a public suite.
    workspace.record(passed(course, exercise), "public")
    assert workspace.standings()[exercise] is standing
    workspace.record(passed(course, exercise), "all")
    assert workspace.standings()[exercise] is Standing.DONE


# --- reset ----------------------------------------------------------------------------------------


def test_reset_backs_up_the_file(course: Course, greeting: Path) -> None:
    exercise = course.exercise("greeting")
    for source in (b"first = 1\n", b"second = 2\n"):
        greeting.write_bytes(source)
        done = reset_exercise(course, exercise)
        assert done.backup is not None
        assert done.backup.read_bytes() == source
        assert done.backup.parent == course.root / ".grade" / "backups"
        assert greeting.read_bytes() == course.stub(exercise).source
    assert len(list((course.root / ".grade" / "backups").iterdir())) == 2


def test_reset_of_a_stub_does_nothing(course: Course) -> None:
    done = reset_exercise(course, course.exercise("word_count"))
    assert (done.backup, done.written) == (None, False)
    assert not (course.root / ".grade").exists()


def test_reset_restores_a_missing_file(course: Course, greeting: Path) -> None:
    greeting.unlink()
    done = reset_exercise(course, course.exercise("greeting"))
    assert (done.backup, done.written) == (None, True)
    assert "NotImplementedError" in greeting.read_text("utf-8")


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege on Windows")
def test_reset_keeps_a_link_as_a_link(course: Course, greeting: Path) -> None:
    target = course.root / "elsewhere.py"
    greeting.rename(target)
    greeting.symlink_to(target)
    done = reset_exercise(course, course.exercise("greeting"))
    assert done.backup is not None
    assert done.backup.is_symlink()
    assert 'f"' in target.read_text("utf-8"), "the stub was written through the link"
    assert not greeting.is_symlink()


def test_reset_without_a_kept_stub_says_what_to_do(course: Course, greeting: Path) -> None:
    shutil.rmtree(course.root / "tests" / "stubs")
    before = greeting.read_bytes()
    with pytest.raises(GraderError, match="git restore"):
        reset_exercise(course, course.exercise("greeting"))
    assert greeting.read_bytes() == before


def test_reset_that_cannot_keep_a_backup_changes_nothing(course: Course, greeting: Path) -> None:
    (course.root / ".grade").write_bytes(b"a file where the folder belongs")
    before = greeting.read_bytes()
    with pytest.raises(GraderError, match="cannot be reset"):
        reset_exercise(course, course.exercise("greeting"))
    assert greeting.read_bytes() == before
