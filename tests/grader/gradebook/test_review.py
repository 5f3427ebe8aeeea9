"""What a person is told to look at, where the file is not what was asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.manifest import Course, load_course
from grader.gradebook.review import Attention, Reason, attention, ordinary
from grader.grading import settle
from grader.results import Visibility
from grader.submissions import ExerciseFile

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


def looked_at(course: Course, handed: ExerciseFile) -> list[Attention]:
    exercise = course.exercises[0]
    result = settle(course, exercise, handed, (Visibility.PUBLIC, Visibility.HIDDEN))
    assert result is not None
    return list(attention("ada", exercise, handed, frozenset(), result))


def test_a_wrong_name_is_looked_at_and_a_missing_file_is_not() -> None:
    course = load_course(PLAIN)
    assert looked_at(course, ExerciseFile(None, "It is missing.")) == []
    (found,) = looked_at(course, ExerciseFile(None, "It is missing.", seems_misnamed=True))
    assert (found.kind, found.student, found.what) == (Reason.UNREADABLE, "ada", "It is missing.")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_file_that_is_no_utf_8_is_looked_at(encoding: str) -> None:
    (found,) = looked_at(load_course(PLAIN), ExerciseFile("x = 'é'\n".encode(encoding)))
    assert found.kind is Reason.UNREADABLE
    assert "UTF-8" in found.what


@pytest.mark.parametrize(
    "source",
    ["import \uff43\uff54\uff59\uff50\uff45\uff53\n", "x = '\\x5fexit'\n", "x = '_\\\nexit'\n"],
)
def test_odd_code_is_seen_however_it_is_written(source: str) -> None:
    assert ordinary(source.encode())


def test_an_empty_file_is_told_to_be_empty() -> None:
    course = load_course(PLAIN)
    for source in (b"", b" \n\n", b"\xef\xbb\xbf"):
        result = settle(course, course.exercises[0], ExerciseFile(source), (Visibility.PUBLIC,))
        assert result is not None
        assert result.score == 0
        assert result.message == (
            f"{course.exercises[0].file} is empty: write your code into it, and save it."
        )
