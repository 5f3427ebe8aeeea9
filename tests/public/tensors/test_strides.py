"""Small examples for strides, storage positions and sliding windows."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_equal, assert_tensor, entry, must_raise, promise
from grader.judge.student import Student


@promise(
    "contiguous_strides",
    hint="Walk through the sizes from the last one to the first, and keep a product.",
)
def test_example_strides(student: Student) -> None:
    """A row-major tensor of shape (2, 3, 4) has the strides (12, 4, 1)."""
    strides = student.function("contiguous_strides")((2, 3, 4))
    assert_equal(strides, (12, 4, 1), what="contiguous_strides((2, 3, 4))")


@promise(
    "storage_index",
    hint="x.storage_offset() says where x begins, x.stride() how far one step leads.",
)
def test_example_position(student: Student) -> None:
    """In the transpose of rows 1 and 2 of a (3, 4) matrix, the element [2, 1] is at position 10."""
    x = torch.arange(12.0).reshape(3, 4)[1:].t()  # (4, 2), strides (1, 4), offset 4
    position = student.function("storage_index")(x, (2, 1))
    assert_equal(position, 10, what="the position of [2, 1]")


@promise(
    "storage_index", hint="Check each entry against the size of its dimension before you use it."
)
def test_example_bad_index(student: Student) -> None:
    """An index that is out of range is a ValueError that names index."""
    x = torch.zeros(4, 2)
    with must_raise(ValueError, mentions="index", call="storage_index(x, (4, 0))"):
        student.function("storage_index")(x, (4, 0))


@promise("shares_storage", hint="x.untyped_storage() is the storage itself.")
def test_example_shares(student: Student) -> None:
    """Both halves of a tensor share its storage, and a copy does not."""
    pairs = ["x and x[3:]", "x[:3] and x[3:]", "x and x[:3]", "x and a copy"]
    right = dict(zip(pairs, (True, True, True, False), strict=True))
    assert_equal(student.run("pairs"), right, what="shares_storage")


@promise(
    "sliding_windows",
    hint="How far is it in the storage to the next window, and to the next element of a window?",
)
def test_example_windows(student: Student) -> None:
    """Windows of 3 elements, 2 apart, over 0..9 are [0, 1, 2], [2, 3, 4] to [6, 7, 8], as a view."""
    rows = [[first, first + 1, first + 2] for first in (0.0, 2.0, 4.0, 6.0)]
    windows, later = entry(student.run("windows", 3, 2), kind=list, count=2)
    shown = assert_tensor(windows, what="the windows").tolist()
    assert_equal(shown, rows, what="the list of windows")
    told = "Your windows are a copy: when x changes later, they must change with it."
    assert assert_tensor(later, what="the windows later").eq(-1).all(), told
