"""The sample class agrees with examples/README.md."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from grader.course.manifest import load_course
from grader.submissions import State, find_class, read_attempt

ROOT = Path(__file__).resolve().parents[2]
_WHOLE = load_course(ROOT)
# The exercises given to the class.
GIVEN = ("glu", "gelu", "grad_norms", "lr_finder", "collate", "data_parallel")
COURSE = _WHOLE.only(_WHOLE.select(GIVEN))
# The exercises that each student began. All others are the current stubs.
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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the class as `make demo` does."""
    folder: Path = tmp_path_factory.mktemp("sample") / "class"
    code = f"import sample_class, pathlib; sample_class.write_class(pathlib.Path({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT / "examples", check=True)
    return folder


def test_every_submission_is_in_the_table(folder: Path) -> None:
    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    found = find_class(folder, COURSE)
    assert {each.student.id for each in found.attempts} == set(BEGUN)
    assert all(f"`{name}`" in readme for name in BEGUN)


@pytest.mark.parametrize("name", BEGUN)
def test_exercises_not_begun_are_stubs(folder: Path, name: str) -> None:
    found = find_class(folder, COURSE)
    (attempt,) = (each for each in found.attempts if each.student.id == name)
    files = read_attempt(attempt, COURSE).files
    begun = {
        exercise.id
        for exercise in COURSE.exercises
        if files[exercise.id].state(COURSE.stub(exercise)) is not State.UNTOUCHED
    }
    assert begun == BEGUN[name]


def test_no_student_hands_in_a_solution_with_its_markers(folder: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in folder.rglob("*.py")]
    assert len(texts) == len(BEGUN) * len(GIVEN)
    assert not [text for text in texts if "begin solution" in text or "end solution" in text]
    assert all(ast.parse(text) for text in texts)
