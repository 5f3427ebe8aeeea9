"""Mistakes of an author in a suite are reported with their line and a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.suite import read_suite
from grader.errors import CourseError
from grader.results import Visibility


@pytest.mark.parametrize(
    ("mark", "told"),
    [
        ("point(2)", "there is no mark 'point' for a test. Did you mean 'points'"),
        ("hints('x')", "there is no mark 'hints' for a test. Did you mean 'hint'"),
        ("skip", "pytest.mark.… with literal arguments, one of: points, requires"),
        ("points(n)", "pytest.mark.… with literal arguments, one of: points, requires"),
        ("requires('test_frist')", "which is not an earlier test. Did you mean 'test_first'?"),
        ("requires('test_second')", "which is not an earlier test. Did you mean 'test_first'?"),
    ],
)
def test_unknown_and_invalid_marks_are_reported(tmp_path: Path, mark: str, told: str) -> None:
    path = tmp_path / "test_task.py"
    path.write_text(
        'import pytest\ndef test_first(student):\n    "One"\n'
        f'@pytest.mark.{mark}\ndef test_second(student):\n    "Two"\n',
        encoding="utf-8",
    )
    with pytest.raises(CourseError) as raised:
        read_suite(path, Visibility.HIDDEN)
    message = str(raised.value)
    assert message.startswith(f"{path}, line {5 if 'requires' in mark else 4}: ")
    assert told in message
