"""What is wrong with a manifest is said with the exercise and the key that are meant."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.errors import CourseError

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN / "exercises", tmp_path / "exercises")
    return tmp_path / "exercises" / "course.toml"


def fault(manifest: Path, old: str, new: str) -> str:
    """What is said of the manifest with its last `old` replaced, without the path before it."""
    text = manifest.read_text(encoding="utf-8")
    assert old in text
    before, _, after = text.rpartition(old)
    manifest.write_text(f"{before}{new}{after}", encoding="utf-8")
    with pytest.raises(CourseError) as raised:
        load_course(manifest)
    told = str(raised.value)
    assert told.count("`") % 2 == 0
    return told.removeprefix(f"{manifest}: ")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("\npoints =", "\npoint =", "unknown field `point` (exercise 'running_mean')"),
        ("\npoints =", "\npoints = -1 #", "> 0.0 (`points` of the exercise 'running_mean')"),
        ('id = "running_mean"', 'id = "running-mean"', "(`id` of the exercise 'running-mean')"),
        ('id = "running_mean"', 'id = "running-mean"', "Expected a small letter, then small"),
        ('id = "running_mean"', "", "required field `id` (exercise number 3)"),
        ('\nname = "', '\nname = "A', "then small letters, digits and _ - at `name`"),
        ('\npreload = ["numpy"]', "\npreload = [3]", "(`preload[0]` of the exercise"),
        ("\npoints =", "\npoints = = ", "at line "),
        ('id = "running_mean"', 'id = "greeting"', "id 'greeting' is used 2 times"),
        ('id = "running_mean"', 'id = "random"', "'random' is a name of Python's own"),
        ("format_version = 1", "format_version = 9", "this grader reads 1"),
    ],
)
def test_what_is_wrong_and_where(manifest: Path, old: str, new: str, told: str) -> None:
    assert told in fault(manifest, old, new)


def test_bytes_that_are_no_text(manifest: Path) -> None:
    manifest.write_bytes(manifest.read_bytes() + b"# \xe9\n")
    with pytest.raises(CourseError, match="can't decode byte 0xe9"):
        load_course(manifest)
