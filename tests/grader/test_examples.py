"""The sample class stays what examples/README.md says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.submissions import State, find_class, read_attempt

ROOT = Path(__file__).resolve().parents[2]
_WHOLE = load_course(ROOT)
# What the class was given to do.
GIVEN = ("glu", "gelu", "grad_norms", "lr_finder", "collate", "data_parallel")
COURSE = _WHOLE.only(_WHOLE.select(GIVEN))
# By exercise that was begun; all others are the stubs of today.
BEGUN = {
    "perfect": set(GIVEN),
    "untouched": set(),
    "halfway": {"glu", "gelu", "collate"},
    "wrong-halves": {"glu", "gelu", "collate"},
    "forgetful": {"glu", "gelu", "collate", "data_parallel"},
    "import-error": {"glu", "gelu"},
    "endless-loop": {"lr_finder"},
    "forger": {"glu"},
}


def test_every_submission_is_in_the_table() -> None:
    told = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    found = find_class(ROOT / "examples" / "class", COURSE)
    assert {each.student.id for each in found.attempts} == set(BEGUN)
    assert all(f"`{name}`" in told for name in BEGUN)


@pytest.mark.parametrize("name", BEGUN)
def test_what_was_not_begun_is_the_stub(name: str) -> None:
    found = find_class(ROOT / "examples" / "class", COURSE)
    (attempt,) = (each for each in found.attempts if each.student.id == name)
    files = read_attempt(attempt, COURSE).files
    begun = {
        exercise.id
        for exercise in COURSE.exercises
        if files[exercise.id].state(COURSE.stub(exercise)) is not State.UNTOUCHED
    }
    assert begun == BEGUN[name]
