"""An error about the manifest names the exercise and the key."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.errors import CourseError
from grader.toml import line_of

PLAIN = Path(__file__).parents[1] / "courses" / "plain"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    shutil.copytree(PLAIN / "exercises", tmp_path / "exercises")
    return tmp_path / "exercises" / "course.toml"


def error_of(manifest: Path, old: str, new: str) -> str:
    """Replace the last `old` in the manifest and return the error, which may name only the changed line."""
    text = manifest.read_text(encoding="utf-8")
    assert old in text
    before, _, after = text.rpartition(old)
    manifest.write_text(f"{before}{new}{after}", encoding="utf-8")
    with pytest.raises(CourseError) as raised:
        load_course(manifest)
    message = str(raised.value)
    assert message.count("`") % 2 == 0
    # A missing key is reported at the header above it.
    line = before.count("\n") + 1 + new.startswith("\n") - (not new)
    place = f"{manifest}, line {line}: " if f"{manifest}, " in message else f"{manifest}: "
    assert message.startswith(place)
    return message.removeprefix(place)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (
            "\npoints =",
            "\npoint =",
            "no key `point` of the exercise 'running_mean'. Did you mean 'points'",
        ),
        (
            "\npoints =",
            "\npoints = -1 #",
            "`points` of the exercise 'running_mean': expected a number > 0.0",
        ),
        ('id = "running_mean"', 'id = "running-mean"', "`id` of the exercise 'running-mean': "),
        ('id = "running_mean"', 'id = "running-mean"', "expected a small letter, then small"),
        ('id = "running_mean"', "", "[[exercise]] 3 needs `id`."),
        (
            '\nname = "',
            '\nname = "A',
            "`name`: expected a small letter, then small letters, digits and _",
        ),
        ('\npreload = ["numpy"]', "\npreload = [3]", "`preload` of the exercise"),
        ("\npoints =", "\npoints = = ", "is not TOML: Invalid value"),
        ('id = "running_mean"', 'id = "greeting"', "id 'greeting' is used 2 times"),
        ('id = "running_mean"', 'id = "random"', "'random' cannot be used: Python would import"),
        (
            'id = "running_mean"',
            'id = "con"',
            "'con' cannot be used: Windows has a device of this name",
        ),
        ('id = "running_mean"', 'id = "conftest"', "pytest runs a file of this name before any"),
        ("format_version = 1", "format_version = 9", "this grader reads 1"),
        (
            "\npoints =",
            '\nshares = { running_mean = 1 }\nbuilds_on = { running_mean = ["runing_mean"] }\npoints =',
            "names 'runing_mean', which is not one of its shares. Did you mean 'running_mean'?",
        ),
    ],
)
def test_a_mistake_is_reported_with_its_place(
    manifest: Path, old: str, new: str, told: str
) -> None:
    assert told in error_of(manifest, old, new)


def test_bytes_that_are_not_text(manifest: Path) -> None:
    manifest.write_bytes(manifest.read_bytes() + b"# \xe9\n")
    with pytest.raises(CourseError, match="can't decode byte 0xe9"):
        load_course(manifest)


def test_the_line_of_a_key_is_found() -> None:
    text = """title = '''
[[exercise]]
id = 1
'''
[late]
steps = [
    {after = 1},
]
[[exercise]]
id = "a"
shares."b.c" = 2
[[exercise]]
[[exercise.forbidden]]
reason = "r"
[[exercise.forbidden]]
inside = []
[exercise.shares]
d = 1
"""
    lines = text.splitlines()
    for path, line in {
        "exercise[0].id": 'id = "a"',
        "late.steps[0].after": "steps = [",
        "exercise[1].forbidden[1].inside[2]": "inside = []",
        "exercise[1].shares.d": "d = 1",
        "exercise[0].points": "[[exercise]]",
    }.items():
        assert lines[line_of(text, path) - 1] == line
    assert lines.index("[[exercise]]") == 1, "part of a string, not a header"
    assert line_of(text, "exercise[0]") == 9
    assert line_of(text, "due[0]") == 0
