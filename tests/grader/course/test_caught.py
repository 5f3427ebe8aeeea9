"""The file of tests that catch each wrong answer, with a line for each set of tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from grader.course.caught import read_caught, write_caught
from grader.course.manifest import Course, load_course
from grader.course.mutants import wrong_answers

PLAIN = Path(__file__).parents[1] / "courses" / "plain"
NAME = "tests/wrong/text/word_count.caught.toml"


@pytest.fixture
def course(tmp_path: Path) -> Course:
    shutil.copytree(PLAIN, tmp_path / "course", ignore=shutil.ignore_patterns("__pycache__"))
    return load_course(tmp_path / "course")


def test_the_file_has_a_line_for_each_set_of_tests(course: Course) -> None:
    exercise = course.exercise("word_count")
    caught = {"zeros": ["test_b", "test_a"], "an id of a file": ["test_c"], "ones": ["test_c"]}
    assert write_caught(course, exercise, caught) == (NAME,)
    assert (course.root / NAME).read_text(encoding="utf-8").splitlines() == [
        (
            "# Written by `grade verify word_count --write`: tests, and the wrong answers that they catch "
            "under every seed."
        ),
        '"test_b test_a" = ["zeros"]',
        '"test_c" = ["an id of a file", "ones"]',
    ]
    assert read_caught(course, exercise) == {id_: tuple(tests) for id_, tests in caught.items()}
    assert write_caught(course, exercise, caught) == ()


def test_an_unreadable_file_is_written_again(course: Course) -> None:
    exercise = course.exercise("word_count")
    (course.root / NAME).write_bytes(b"zeros = \xff\n")
    assert write_caught(course, exercise, {"zeros": ["test_a"]}) == (NAME,)
    assert read_caught(course, exercise) == {"zeros": ("test_a",)}


def test_mutants_and_whole_files_have_their_tests(course: Course) -> None:
    exercise = course.exercise("word_count")
    write_caught(course, exercise, {"characters": ["test_case"], "case_kept": ["test_counts"]})
    caught = {wrong.id: wrong.caught_by for wrong in wrong_answers(course, exercise).answers}
    assert caught == {
        "alphabetical": (),
        "case_kept": ("test_counts",),
        "characters": ("test_case",),
    }


def test_a_pack_has_the_file(course: Course) -> None:
    assert NAME in course.files()
