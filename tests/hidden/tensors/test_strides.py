"""Tests of contiguous_strides, storage_index, shares_storage and sliding_windows."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

# An expression of x, a float32 matrix (4, 6), one of y, and whether they share a storage where y is x itself.
Pairs = dict[tuple[str, str], bool]
PAIRS: Pairs = {
    ("x", "y.t()"): True,
    ("x", "y[2:]"): True,
    ("x", "y[2]"): True,
    ("x[:2]", "y[2:]"): True,
    ("x[:, ::2]", "y[:, 1::2]"): True,
    ("x", "y"): True,
    ("x.t()", "y.t().contiguous()"): False,
}
PAIRS_OF_ANY_KIND: Pairs = {
    ("x.requires_grad_()", "y[1:].detach()"): True,
    ("x", "nn.Parameter(y)"): True,
    ("x", "y.view(torch.int32)"): True,
    ("x", "y.view(torch.int16)[1:]"): True,
    ("torch.view_as_complex(x.view(4, 3, 2))", "torch.view_as_complex(y.view(4, 3, 2))[2:]"): True,
    ("x", "y.double()"): False,
    ("x.requires_grad_()", "y * 2"): False,
}
# Strides of 53 bits and more, which a float rounds.
LARGE_SHAPES = [(2**40, 3**20, 5**11), (2**62, 2**20 + 7, 2**41)]


# --- contiguous_strides ---------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("contiguous_strides")
@pytest.mark.hint("Walk through the sizes from the last one to the first, and keep a product.")
def test_strides(student: Student) -> None:
    """Each stride is the product of the sizes behind it, and the last one is 1."""
    a, b, c = new_sizes(3)
    for shape in [(a, b, c), (c, a), (b,), (a, 1, b)]:
        check_strides(student, shape)


@pytest.mark.points(4)
@pytest.mark.requires("test_strides")
@pytest.mark.place("contiguous_strides")
@pytest.mark.hint(
    "Multiply by max(size, 1). For the shape () there is nothing to multiply: return ()."
)
def test_strides_of_size_0(student: Student) -> None:
    """A size of 0 counts as 1, as in PyTorch, and the shape () has the strides ()."""
    a, b = new_sizes(2)
    for shape in [(a, 0, b), (0, b), (b, a, 0), ()]:
        check_strides(student, shape)


@pytest.mark.points(4)
@pytest.mark.requires("test_strides")
@pytest.mark.place("contiguous_strides")
@pytest.mark.hint(
    "Python's integers have no limit, floats have; list(shape) turns any sequence into a list."
)
def test_any_shape(student: Student) -> None:
    """A shape is a tuple, list or torch.Size, and may be too large for any tensor to exist."""
    for shape in [(3, 4, 5), [3, 4, 5], student.made("size", [3, 4, 5])]:
        strides = laws.check_changes_nothing(student, "contiguous_strides", shape)
        assert_equal(strides, (20, 5, 1), what="contiguous_strides of a tuple, list or torch.Size")
    for large in LARGE_SHAPES:
        check_strides(student, large)


@pytest.mark.points(2)
@pytest.mark.place("contiguous_strides")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look at every size, also the first one, before you multiply.")
def test_negative_sizes(student: Student) -> None:
    """A negative size is a ValueError that names shape."""
    bad = [((4, -1, 3),), ((-1,),), ((4, 3, -2),), ((-4, -3),)]
    laws.check_errors(student, "contiguous_strides", {"shape": bad}, fine=((0, 3),))


@pytest.mark.points(2)
@pytest.mark.requires("test_strides")
@pytest.mark.place("contiguous_strides")
@pytest.mark.word("the sandbox says what was called")
@pytest.mark.hint("The sizes are all that you need: multiply them.")
def test_asks_no_tensor(student: Student) -> None:
    """The strides are computed, and not read from a tensor of that shape."""
    sizes = (13, 17, 19)
    calls = ["stride", "storage_offset", "data_ptr"]
    why = "multiply the sizes yourself"
    laws.check_not_used(student, "contiguous_strides", sizes, calls=calls, sizes=sizes, why=why)


# --- storage_index --------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("storage_index")
@pytest.mark.hint("x.storage_offset() says where x begins, x.stride() how far one step leads.")
def test_position(student: Student) -> None:
    """The position is the offset and index[d] * stride[d] of each dimension, for any strides."""
    x = positions_in_storage()
    expanded = x[1:2, 1:, :1].expand(3, -1, 6)
    check_positions(student, [x, x[2].t(), x.transpose(0, 2), x[1:, :, 2:], expanded])


@pytest.mark.points(3)
@pytest.mark.requires("test_position")
@pytest.mark.place("storage_index")
@pytest.mark.hint("A negative entry stands for entry + size.")
def test_negative_entries(student: Student) -> None:
    """A negative entry counts from the end."""
    x = positions_in_storage()
    check_positions(student, [x.transpose(0, 2), x[1:3, 1:]], lambda size: range(-size, 1))


@pytest.mark.points(3)
@pytest.mark.requires("test_position")
@pytest.mark.place("storage_index")
@pytest.mark.hint("A 0-d x has the index (); strides count elements, of any dtype.")
def test_position_of_any_tensor(student: Student) -> None:
    """x may be 0-d, have any dtype, require a gradient; index may be a list; x stays as it is."""
    x = positions_in_storage()
    views = [x[0].to(dtype)[1:, 1:].t() for dtype in (torch.float64, torch.int8)]
    check_positions(student, [x[1, 2, 1], *views])
    leaf = torch.randn(3, 4, requires_grad=True)
    position = laws.check_changes_nothing(student, "storage_index", leaf, [-1, 1])
    assert_equal(position, 9, what="the position of [-1, 1] in a contiguous (3, 4) leaf")


@pytest.mark.points(3)
@pytest.mark.place("storage_index")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint(
    "-size <= entry < size, for every entry. zip ends with the shorter sequence: compare the lengths."
)
def test_bad_index(student: Student) -> None:
    """Too few or too many entries, or one out of range, are a ValueError that names index."""
    x = torch.zeros(4, 5)
    wrong_number = [(x, ()), (x, (1,)), (x, (1, 2, 0)), (x[0, 0], (0,))]
    out_of_range = [(x, (4, 0)), (x, (0, 5)), (x, (-5, 0)), (x, (0, -6)), (x[:2], (2, 0))]
    bad = {"index": [*wrong_number, *out_of_range]}
    laws.check_errors(student, "storage_index", bad, fine=(x, (3, -5)))


# --- shares_storage -------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("shares_storage")
@pytest.mark.hint("x.untyped_storage() is the storage itself, and it has a data_ptr() of its own.")
def test_one_storage(student: Student) -> None:
    """Views of one storage are True, whatever their offsets and shapes, also with nothing in common."""
    check_pairs(student, PAIRS)


@pytest.mark.points(4)
@pytest.mark.requires("test_one_storage")
@pytest.mark.place("shares_storage")
@pytest.mark.hint("A storage holds bytes, whatever the dtype or the graph of a view.")
def test_views_of_any_kind(student: Student) -> None:
    """Detached, a Parameter, of another dtype: the storage decides, and asking changes nothing."""
    check_pairs(student, PAIRS_OF_ANY_KIND)
    laws.check_changes_nothing(student, "shares_storage", torch.randn(3), torch.randn(3))


# --- sliding_windows ------------------------------------------------------------------------------


@pytest.mark.points(14)
@pytest.mark.place("sliding_windows")
@pytest.mark.hint(
    "The next window is step * stride further in the storage, the next element of a window stride."
)
def test_windows(student: Student) -> None:
    """Element [..., i, j] is x[..., i * step + j], and elements that fill no window are left out."""
    cases = [(11, 3, 2), (10, 4, 3), (7, 2, 5), (6, 6, 1), (6, 1, 1), (8, 3, 20), (11, 3, 4)]
    for n, size, step in cases:
        check_windows(student, torch.randn(n + 3)[3:], size, step)
    check_windows(student, torch.randn(2, 3, 7), 3, 2)
    x = torch.randn(3, 8)
    without_step = student.function("sliding_windows")(x, size=4)
    assert_close(without_step, windows_of(x, 4, 1), what="what no step gives (a step of 1)")


@pytest.mark.points(7)
@pytest.mark.requires("test_windows")
@pytest.mark.place("sliding_windows")
@pytest.mark.hint("Ask x for its strides; without an offset, as_strided takes that of x.")
def test_windows_of_any_tensor(student: Student) -> None:
    """x may have any strides, any dtype and leading dimensions of size 0, and stays as it is."""
    # Of integers, since the gradient of an expanded leaf is no agreed number.
    x = torch.arange(60).reshape(5, 3, 4)
    laws.check_layouts(student, "sliding_windows", x, 3, 1, what="the result")
    laws.check_changes_nothing(student, "sliding_windows", torch.randn(3, 7), 3, 2)
    shapes = {(0, 5): (0, 2, 3), (2, 0, 6): (2, 0, 2, 3)}
    laws.check_shapes(student, "sliding_windows", shapes, 3, 2, what="the result")
    for dtype in (torch.float64, torch.bool, torch.bfloat16):
        check_windows(student, torch.randint(2, (2, 6)).to(dtype), 3, 2)


@pytest.mark.points(30)
@pytest.mark.requires("test_windows")
@pytest.mark.place("sliding_windows")
@pytest.mark.hint("as_strided makes a view; stack, indexing with a tensor and contiguous() copy.")
def test_windows_are_a_view(student: Student) -> None:
    """The result shares the storage of x, and a later change of x shows in it."""
    base = torch.randn(2, 5, 9)
    views = [base, base[0, 2], base.transpose(0, 1)[1:], base.movedim(-1, 0), base[..., ::2]]
    for x in views:
        for size, step in [(2, 2), (3, 1)]:
            later = torch.randn(x.shape)
            held = student.run("windows_after_a_change", x, size, step, later)
            what = "what the windows hold after a change of x"
            assert_close(held, windows_of(later, size, step), what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_windows")
@pytest.mark.place("sliding_windows")
@pytest.mark.hint("A view of x is in the graph of x: no detach, no .data, no NumPy.")
def test_gradients(student: Student) -> None:
    """Gradients reach x, and add up where windows overlap."""
    size, step = 3, 2
    x = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    made = student.function("sliding_windows")(x, size, step)
    formula = functools.partial(windows_of, size=size, step=step)
    laws.check_gradients(made, {"x": x}, formula, what="the result")


@pytest.mark.points(3)
@pytest.mark.place("sliding_windows")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check 1 <= size <= n and step >= 1.")
def test_bad_windows(student: Student) -> None:
    """A size outside 1..n and a step below 1 are ValueErrors that name the argument."""
    x = torch.randn(6)
    bad: dict[str, list[Sequence[Any]]] = {
        "size": [(x, 0), (x, 7), (x, -1), (x[None], 7)],
        "step": [(x, 3, 0), (x, 3, -1)],
    }
    laws.check_errors(student, "sliding_windows", bad, fine=(x, 6, 9))


# --- what is right --------------------------------------------------------------------------------


def new_sizes(count: int) -> list[int]:
    """Sizes, all of them different."""
    return random.sample(range(2, 12), count)


def check_strides(student: Student, shape: tuple[int, ...]) -> None:
    """Compare the strides of a row-major tensor of this shape."""
    counted = [max(size, 1) for size in shape]
    right = tuple(math.prod(counted[d + 1 :]) for d in range(len(shape)))
    strides = student.function("contiguous_strides")(shape)
    assert_equal(strides, right, what=f"contiguous_strides({shape})")


def positions_in_storage() -> Tensor:
    """A tensor of three different sizes, whose elements are their own positions."""
    sizes = random.sample(range(3, 7), 3)
    return torch.arange(float(math.prod(sizes))).reshape(sizes)


def check_positions(
    student: Student, views: Iterable[Tensor], entries: Callable[[int], range] = range
) -> None:
    """Compare the positions of elements that are their own positions, at these entries of each dimension."""
    for x in views:
        indices = list(itertools.product(*map(entries, x.shape)))
        right = [int(x[index]) for index in indices]
        what = f"the list of positions in an x of strides {x.stride()}, offset {x.storage_offset()}"
        assert_equal(student.run("positions", x, indices), right, what=what)


def check_pairs(student: Student, pairs: Pairs) -> None:
    """Compare what shares_storage says of pairs where y is x, and where it is a copy, in a random order."""
    questions = [(*pair, is_x) for pair in pairs for is_x in (True, False)]
    random.shuffle(questions)
    answers = entry(student.run("pairs", questions), kind=list, count=len(questions))
    said = dict(zip(questions, answers, strict=True))
    given = {f"{pair}": [said[*pair, True], said[*pair, False]] for pair in pairs}
    right = {f"{pair}": [shares, False] for pair, shares in pairs.items()}
    assert_equal(given, right, what="shares_storage where y is x, and where it is a copy,")


def windows_of(x: Tensor, size: int, step: int) -> Tensor:
    """The windows, gathered: a copy."""
    starts = torch.arange(0, x.shape[-1] - size + 1, step)
    return x[..., starts[:, None] + torch.arange(size)]


def check_windows(student: Student, x: Tensor, size: int, step: int) -> None:
    """Compare the windows over x."""
    made = student.function("sliding_windows")(x, size, step)
    what = f"the windows of size {size} and step {step} over x of shape {tuple(x.shape)}, {x.dtype}"
    assert_close(made, windows_of(x, size, step), what=what)
