"""A small text, word by word."""

from __future__ import annotations

import pytest

from grader.judge.checks import assert_equal, entry
from grader.judge.student import Student


@pytest.mark.points(2)
@pytest.mark.place("word_count")
@pytest.mark.hint("A dictionary holds one number for each word.")
def test_counts(student: Student) -> None:
    """Every word is counted."""
    counts = student.function("word_count")("a b a")
    counts = entry(counts, count=2, told="You counted characters: split the text first.")
    assert_equal(counts, {"a": 2, "b": 1})


@pytest.mark.requires("test_counts")
@pytest.mark.place("most_common")
@pytest.mark.hint("sorted() takes a key.")
def test_most_common(student: Student) -> None:
    """The most frequent word comes first."""
    assert_equal(student.function("most_common")("b a b", 1), ["b"])
