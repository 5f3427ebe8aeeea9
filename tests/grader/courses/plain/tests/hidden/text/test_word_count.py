"""Everything that the docstrings promise."""

from __future__ import annotations

import random
import sys

import pytest

from grader.judge.checks import assert_equal, must_raise
from grader.judge.student import Student


@pytest.mark.place("word_count")
@pytest.mark.hint("lower() comes before split().")
def test_case(student: Student) -> None:
    """Upper and lower case are the same word."""
    assert_equal(student.function("word_count")("A a"), {"a": 2})


@pytest.mark.place("word_count")
@pytest.mark.hint("split() without an argument takes any white space.")
def test_random_texts(student: Student) -> None:
    """Any white space separates words, and no word is lost."""
    sizes = [random.randint(0, 20) for _ in range(5)]
    texts = ["".join(f"w{i}" + random.choice(" \t\n") for i in range(size)) for size in sizes]
    assert_equal(student.run("counts_of", texts), sizes, what="the number of words")


@pytest.mark.place("most_common")
@pytest.mark.hint("Raise ValueError with n in its message.")
def test_no_words_wanted(student: Student) -> None:
    """An n below 1 is a ValueError."""
    with must_raise(ValueError, mentions="n", call="most_common('a', 0)"):
        student.function("most_common")("a", 0)


@pytest.mark.unproven("It is about the grader: a course without torch never imports it.")
def test_no_torch(student: Student) -> None:
    """Nobody imports torch."""
    assert not student.run("imported", "torch"), "The sandbox has imported torch."
    assert "torch" not in sys.modules, "The judge has imported torch."
