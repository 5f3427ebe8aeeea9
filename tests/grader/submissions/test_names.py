"""The exercise of a file, found from its name: the exact name, that of a copy, or its words."""

from __future__ import annotations

import pytest

from grader.course.manifest import Course
from grader.submissions.names import (
    is_exactly,
    is_named_after,
    is_test,
    places,
    rank,
    spoken_of,
)


@pytest.mark.parametrize(
    "name",
    [
        *("glu.py", "glu (1).py", "glu-2.py", "glu_copy.py", "Copy of glu.py", "glu - Kopie.py"),
        *("GLU.py", "Glu.PY", "glu.pyw", "glu.py.py"),
    ],
)
def test_a_copy_is_recognized_by_name(course: Course, name: str) -> None:
    assert rank(course.exercise("glu"), name) is not None
    assert is_named_after(course, name)


@pytest.mark.parametrize(
    "name", ["gluten.py", "my_glu.py", "glu.md", "glu", "gelu.py", "glu_1000.py"]
)
def test_another_name_belongs_to_no_exercise(course: Course, name: str) -> None:
    assert rank(course.exercise("glu"), name) is None


def test_an_id_that_ends_like_a_copy_is_kept_whole(course: Course) -> None:
    norm = course.exercise("batch_norm")
    for name in ("batch_norm.py", "batch_norm_2.py", "Batch_Norm (3).py"):
        assert rank(norm, name) is not None
    assert rank(norm, "batch_3.py") is None


def test_nearer_names_and_places_come_first(course: Course) -> None:
    glu = course.exercise("glu")
    paths = [
        "modules/glu.py",
        "exercises/modules/glu.py",
        "glu.py",
        "lab/modules/glu.py",
        "glu (2).py",
        "glu (1).py",
        "GLU.py",
        "glu.txt",
    ]
    ranks = [rank(glu, path) for path in paths]
    assert None not in ranks
    assert ranks == sorted(ranks, key=lambda each: each or ())
    assert len(set(ranks)) == len(paths)


def test_a_text_file_is_a_last_resort(course: Course) -> None:
    found = rank(course.exercise("glu"), "glu.txt")
    assert found is not None and found.is_text
    assert not is_named_after(course, "glu.txt")


def test_an_exercise_has_three_usual_places_in_a_submission(course: Course) -> None:
    assert places(course.exercise("glu")) == (
        "modules/glu.py",
        "exercises/modules/glu.py",
        "glu.py",
    )


def test_only_the_exact_name_is_exact(course: Course) -> None:
    found = is_exactly(course.exercises, "GLU.py")
    assert found is not None and found.id == "glu"
    assert is_exactly(course.exercises, "glu (1).py") is None


@pytest.mark.parametrize(
    ("name", "spoken"),
    [
        ("glu_solution.py", ["glu"]),
        ("MyGlu2.py", ["glu"]),
        ("glu_and_gelu.py", ["gelu", "glu"]),
        ("my_batch_norm.ipynb", ["batch_norm"]),
        ("gluten.py", []),
        ("glu.pdf", ["glu"]),
        ("about glu.pdf", []),
        ("test_glu.py", []),
        ("glu.png", []),
    ],
)
def test_words_of_a_name_may_mention_exercises(
    course: Course, name: str, spoken: list[str]
) -> None:
    assert sorted(exercise.id for exercise in spoken_of(course, name)) == spoken


def test_names_of_tests_are_recognized() -> None:
    for name in ("test_glu.py", "conftest.py", "__init__.py", "Setup.py"):
        assert is_test(name)
    for name in ("glu.py", "testing.py", "glu_test.py"):
        assert not is_test(name)


def test_an_overlong_name_belongs_to_no_exercise(course: Course) -> None:
    name = "glu" + " (1)" * 100 + ".py"
    assert rank(course.exercise("glu"), name) is None
    assert spoken_of(course, name) == []
