"""Keys of the manifest: keys that only help leave verdicts valid, and secret keys are not released."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pytest

import grader.course.manifest
from grader.authoring.release import release
from grader.course.digest import exercise_digest
from grader.course.manifest import Exercise, ForbiddenRule, Help, load_course
from grader.results import Disclosure

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
COURSE = load_course(PLAIN)
GREETING = COURSE.exercise("greeting")
OTHER_VALUES = {
    "difficulty": 3,
    "minutes": 99,
    "teaches": "Something else.",
    "hints": ("x", "y", "z"),
    "prerequisites": ("word_count",),
    "reading": ("A book.",),
    "title": "Another",
    "points": 99.0,
    "seconds": 99.0,
    "memory_mb": 99,
    "needs": ("loopback",),
    "preload": ("numpy.random",),
    "forbidden": (ForbiddenRule(("greeting",), "why"),),
    "shares": {"greeting": 2.0},
    "ordinary": ("__slots__",),
    "given": ("word_count.py",),
    "builds_on": {"greeting": ("word_count",)},
}


class ExerciseOfTomorrow(
    Exercise, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """An exercise with a new key that no other code knows."""

    tolerance: float = 0.5


class ManifestOfTomorrow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The manifest of such exercises."""

    format_version: int
    title: str
    name: str
    version: str
    exercise: tuple[ExerciseOfTomorrow, ...]
    disclose: Disclosure = Disclosure.MISTAKE


@pytest.fixture
def tomorrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course that uses the new key."""
    folder = tmp_path / "course"
    shutil.copytree(PLAIN, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        PLAIN / "exercises", folder / "tests/stubs", ignore=shutil.ignore_patterns("*.toml")
    )
    manifest = folder / "exercises" / "course.toml"
    first, mark, rest = manifest.read_text("utf-8").partition('id = "greeting"\n')
    manifest.write_text(f"{first}{mark}tolerance = 0.125\n{rest}", "utf-8")
    monkeypatch.setattr(grader.course.manifest, "_Manifest", ManifestOfTomorrow)
    return folder


def test_every_key_is_tried_here() -> None:
    # The id and the chapter are missing, since they name the files.
    assert {*OTHER_VALUES, "id", "chapter"} == set(Exercise.__struct_fields__)


@pytest.mark.parametrize("key", OTHER_VALUES)
def test_only_keys_that_just_help_leave_verdicts_valid(key: str) -> None:
    changed = msgspec.structs.replace(GREETING, **{key: OTHER_VALUES[key]})
    assert changed != GREETING
    same = exercise_digest(COURSE, changed) == exercise_digest(COURSE, GREETING)
    assert same == (key in Help.__struct_fields__)


def test_a_new_key_outdates_verdicts_where_it_is_used(tomorrow: Path) -> None:
    course = load_course(tomorrow)
    for exercise in course.exercises:
        of_today = exercise_digest(COURSE, COURSE.exercise(exercise.id))
        assert (exercise_digest(course, exercise) == of_today) == (exercise.id != "greeting")


def test_a_new_key_is_not_released_by_default(tomorrow: Path, tmp_path: Path) -> None:
    release(load_course(tomorrow), tmp_path / "students")
    released = (tmp_path / "students" / "exercises" / "course.toml").read_text("utf-8")
    assert 'id = "greeting"' in released
    assert "tolerance" not in released
    assert "0.125" not in released
