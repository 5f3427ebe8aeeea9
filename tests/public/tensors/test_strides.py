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
    mistakes = {
        "Your strides multiply the sizes before a dimension: take those behind it.": (1, 2, 6),
        "These are sizes before a dimension, multiplied: take those behind it.": (6, 2, 1),
        "Each stride includes the dimension's own size: take only those behind it.": (24, 12, 4),
        "Your strides are in the wrong order: the last dimension has stride 1.": (1, 4, 12),
        "Your strides are in bytes, as NumPy's: count elements.": (96, 32, 8),
    }
    strides = student.function("contiguous_strides")((2, 3, 4))
    assert_equal(strides, (12, 4, 1), what="contiguous_strides((2, 3, 4))", mistakes=mistakes)


@promise(
    "storage_index",
    hint="x.storage_offset() says where x begins, x.stride() how far one step leads.",
)
def test_example_position(student: Student) -> None:
    """In the transpose of rows 1 and 2 of a (3, 4) matrix, the element [2, 1] is at position 10."""
    x = torch.arange(12.0).reshape(3, 4)[1:].t()  # (4, 2), strides (1, 4), offset 4
    mistakes = {
        "You left out where x begins: add x.storage_offset().": 6,
        "You used the strides of a contiguous tensor: ask x for its own, x.stride().": 9,
        "Your position is that in a contiguous copy of x.": 5,
        "You count bytes: count elements.": 40,
        "You count the offset in bytes: count elements.": 22,
    }
    position = student.function("storage_index")(x, (2, 1))
    assert_equal(position, 10, what="the position of [2, 1]", mistakes=mistakes)


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
    said = {
        "You compare where the tensors begin: two views may begin at different places of one "
        "storage.": (False, False, True, False),
        "You compare values: equal numbers may be in two storages.": (False, False, False, True),
        "You ask for an element in common: two views may lie apart in one storage.": (
            (True, False, True, False)
        ),
        "You compare shapes, too: views of one storage may have any.": (False, True, False, False),
        "You never find a shared storage: compare a.untyped_storage() and b.untyped_storage().": (
            False,
        )
        * 4,
        "You call every storage shared: a copy has its own, whatever its values are.": (True,) * 4,
    }
    mistakes = {told: dict(zip(pairs, answers, strict=True)) for told, answers in said.items()}
    right = dict(zip(pairs, (True, True, True, False), strict=True))
    assert_equal(student.run("pairs"), right, what="shares_storage", mistakes=mistakes)


@promise(
    "sliding_windows",
    hint="How far is it in the storage to the next window, and to the next element of a window?",
)
def test_example_windows(student: Student) -> None:
    """Windows of 3 elements, 2 apart, over 0..9 are [0, 1, 2], [2, 3, 4] to [6, 7, 8], as a view."""
    rows = [[first, first + 1, first + 2] for first in (0.0, 2.0, 4.0, 6.0)]
    mistakes = {
        "The step is on the wrong stride: it leads from window to window.": [
            [first, first + 2, first + 4] for first in (0.0, 1.0, 2.0, 3.0)
        ],
        "The step is on both strides: it leads from window to window.": [
            [first, first + 2, first + 4] for first in (0.0, 2.0, 4.0, 6.0)
        ],
        "Your last window reaches beyond the end of x.": [*rows, [8.0, 9.0, 10.0]],
        "The last window is missing: (n - size) // step + 1 fit.": rows[:-1],
        "Your dimensions are swapped: the shape is (..., windows, size).": [
            list(column) for column in zip(*rows, strict=True)
        ],
    }
    windows, later = entry(student.run("windows", 3, 2), kind=list, count=2)
    shown = assert_tensor(windows, what="the windows").tolist()
    assert_equal(shown, rows, what="the list of windows", mistakes=mistakes)
    told = "Your windows are a copy: when x changes later, they must change with it."
    assert assert_tensor(later, what="the windows later").eq(-1).all(), told
