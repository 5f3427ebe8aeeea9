"""Small examples for byte pair encoding, which students may read."""

from __future__ import annotations

from grader.judge.checks import assert_equal, promise
from grader.judge.student import Student

A, B, C, D = b"abcd"
# It has aa four times, and ab and other pairs less often. After the first merge, ab and (aa)a are there twice.
DATA = b"aaabdaaabac"
MERGES = [(A, A), (A, B), (256, 257)]


@promise("merge", hint="The first two of three are a pair; go on behind them.")
def test_example_merge(student: Student) -> None:
    """In 1 1 1 2 1 1 the pair 1 1 becomes 9, twice."""
    merged = student.function("merge")([1, 1, 1, 2, 1, 1], (1, 1), 9)
    assert_equal(merged, [9, 1, 2, 9], what="the tokens")


@promise("train_bpe", hint="After aa, the pairs ab and (aa, a) are there twice: ab is smaller.")
def test_example_training(student: Student) -> None:
    """In aaabdaaabac, first aa is merged, then ab, then both tokens."""
    assert_equal(student.function("train_bpe")(DATA, 3), MERGES, what="the merges")


@promise("encode", hint="aa becomes 256, then ab 257, then 256 257 becomes 258.")
def test_example_encode(student: Student) -> None:
    """aaab is one token, 258, with these merges."""
    assert_equal(student.function("encode")(DATA, MERGES), [258, D, 258, A, C], what="the tokens")


@promise("decode", hint="258 is 256 and 257, which are aa and ab.")
def test_example_decode(student: Student) -> None:
    """258 is aaab."""
    assert_equal(student.function("decode")([258, D, 258, A, C], MERGES), DATA, what="the bytes")
