"""Tests of contiguous_strides, storage_index, shares_storage and sliding_windows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, exactly, laws, promise
from grader.judge.student import Student

# Pairs of an expression of x, a float32 matrix (4, 6), and one of y, which is x itself or a copy.
PAIRS = [
    ("x", "y.t()"),
    ("x", "y[2:]"),
    ("x", "y[2]"),
    ("x[:2]", "y[2:]"),
    ("x[:, ::2]", "y[:, 1::2]"),
    ("x", "y"),
    ("x.t()", "y.t().contiguous()"),
]
PAIRS_OF_ANY_KIND = [
    ("x.requires_grad_()", "y[1:].detach()"),
    ("x", "nn.Parameter(y)"),
    ("x", "y.view(torch.int32)"),
    ("x", "y.view(torch.int16)[1:]"),
    ("torch.view_as_complex(x.view(4, 3, 2))", "torch.view_as_complex(y.view(4, 3, 2))[2:]"),
    ("x", "y.double()"),
    ("x.requires_grad_()", "y * 2"),
]
# Shapes with strides of 53 bits and more, which a float rounds.
LARGE_SHAPES = [(2**40, 3**20, 5**11), (2**62, 2**20 + 7, 2**41)]
# Windows over n elements: n, size and step.
WINDOWS = [(11, 3, 2), (10, 4, 3), (7, 2, 5), (6, 6, 1), (6, 1, 1), (8, 3, 20), (11, 3, 4)]


# --- contiguous_strides ---------------------------------------------------------------------------


@promise(
    "contiguous_strides",
    points=12,
    hint="Walk through the sizes from the last one to the first, and keep a product.",
)
def test_strides(code: Student, draw: Draw) -> Cases:
    """Each stride is the product of the sizes after it, and the last one is 1."""
    a, b, c = new_sizes(draw, 3)
    for shape in [(a, b, c), (c, a), (b,), (a, 1, b)]:
        yield strides(code, shape)


@promise(
    "contiguous_strides",
    points=4,
    hint="Multiply by max(size, 1). For the shape () there is nothing to multiply: return ().",
    after="test_strides",
)
def test_strides_of_size_0(code: Student, draw: Draw) -> Cases:
    """A size of 0 counts as 1, as in PyTorch, and the shape () has the strides ()."""
    a, b = new_sizes(draw, 2)
    for shape in [(a, 0, b), (0, b), (b, a, 0), ()]:
        yield strides(code, shape)


@promise(
    "contiguous_strides",
    points=4,
    hint="Python's integers have no limit, floats have; list(shape) turns any sequence into a list.",
    after="test_strides",
)
def test_any_shape(code: Student, draw: Draw) -> Cases:
    """A shape is a tuple, list or torch.Size, and may be too large for any tensor to exist."""
    for shape in [(3, 4, 5), [3, 4, 5], code.made("size", [3, 4, 5])]:
        made = laws.check_changes_nothing(code, "contiguous_strides", shape)
        yield "contiguous_strides of a tuple, list or torch.Size", exactly(made)
    for large in LARGE_SHAPES:
        yield strides(code, large)


@promise(
    "contiguous_strides",
    points=2,
    hint="Look at every size, also the first one, before you multiply.",
    word="the sandbox says that it raised",
)
def test_negative_sizes(student: Student) -> None:
    """A negative size is a ValueError that names shape."""
    bad = [((4, -1, 3),), ((-1,),), ((4, 3, -2),), ((-4, -3),)]
    laws.check_errors(student, "contiguous_strides", {"shape": bad}, fine=((0, 3),))


@promise(
    "contiguous_strides",
    points=2,
    hint="The sizes are all that you need: multiply them.",
    after="test_strides",
    word="the sandbox says what was called",
)
def test_asks_no_tensor(student: Student) -> None:
    """The strides are computed, not read from a tensor of that shape."""
    sizes = (13, 17, 19)
    calls = ["stride", "storage_offset", "data_ptr"]
    why = "multiply the sizes yourself"
    laws.check_not_used(student, "contiguous_strides", sizes, calls=calls, sizes=sizes, why=why)


# --- storage_index --------------------------------------------------------------------------------


@promise(
    "storage_index",
    points=10,
    hint="x.storage_offset() says where x begins, x.stride() how far one step leads.",
)
def test_position(code: Student, draw: Draw) -> Cases:
    """The position is the offset and index[d] * stride[d] of each dimension, for any strides."""
    x = new_tensor(draw)
    expanded = x[1:2, 1:, :1].expand(3, -1, 6)
    yield from positions(code, [x, x[2].t(), x.transpose(0, 2), x[1:, :, 2:], expanded])


@promise(
    "storage_index",
    points=3,
    hint="A negative entry means entry + size.",
    after="test_position",
)
def test_negative_entries(code: Student, draw: Draw) -> Cases:
    """A negative entry counts from the end."""
    x = new_tensor(draw)
    yield from positions(code, [x.transpose(0, 2), x[1:3, 1:]], lambda size: range(-size, 1))


@promise(
    "storage_index",
    points=3,
    hint="A 0-d x has the index (); strides count elements, of any dtype.",
    after="test_position",
)
def test_position_of_any_tensor(code: Student, draw: Draw) -> Cases:
    """x may be 0-d, have any dtype, require a gradient; index may be a list; x stays as it is."""
    x = new_tensor(draw)
    views = [x[0].to(dtype)[1:, 1:].t() for dtype in (torch.float64, torch.int8)]
    yield from positions(code, [x[1, 2, 1], *views])
    leaf = draw.normal(3, 4, grad="x")
    position = laws.check_changes_nothing(code, "storage_index", leaf, [-1, 1])
    yield "the position of [-1, 1] in a contiguous (3, 4) leaf", exactly(position)


@promise(
    "storage_index",
    points=3,
    hint="-size <= entry < size, for every entry. zip ends with the shorter sequence: compare the lengths.",
    word="the sandbox says that it raised",
)
def test_bad_index(student: Student) -> None:
    """Too few or too many entries, or an entry out of range, are a ValueError that names index."""
    x = torch.zeros(4, 5)
    wrong_number = [(x, ()), (x, (1,)), (x, (1, 2, 0)), (x[0, 0], (0,))]
    out_of_range = [(x, (4, 0)), (x, (0, 5)), (x, (-5, 0)), (x, (0, -6)), (x[:2], (2, 0))]
    bad = {"index": [*wrong_number, *out_of_range]}
    laws.check_errors(student, "storage_index", bad, fine=(x, (3, -5)))


# --- shares_storage -------------------------------------------------------------------------------


@promise(
    "shares_storage",
    points=12,
    hint="x.untyped_storage() is the storage itself, and it has a data_ptr() of its own.",
)
def test_one_storage(code: Student, draw: Draw) -> Cases:
    """Views of one storage are True, whatever their offsets and shapes, even without a common element."""
    yield "the result of shares_storage for pairs of tensors", exactly(shared(code, draw, PAIRS))


@promise(
    "shares_storage",
    points=4,
    hint="A storage holds bytes, whatever the dtype or the graph of a view.",
    after="test_one_storage",
)
def test_views_of_any_kind(code: Student, draw: Draw) -> Cases:
    """The storage decides, for a detached tensor, a Parameter or another dtype; asking changes nothing."""
    yield (
        "the result of shares_storage for pairs of tensors",
        exactly(shared(code, draw, PAIRS_OF_ANY_KIND)),
    )
    laws.check_changes_nothing(code, "shares_storage", draw.normal(3), draw.normal(3))


# --- sliding_windows ------------------------------------------------------------------------------


@promise(
    "sliding_windows",
    points=14,
    hint="The next window is step * stride further in the storage, the next element of a window stride.",
)
def test_windows(code: Student, draw: Draw) -> Cases:
    """Element [..., i, j] is x[..., i * step + j], and elements that fill no window are left out."""
    for n, size, step in WINDOWS:
        yield windows(code, draw.normal(n + 3)[3:], size, step)
    yield windows(code, draw.normal(2, 3, 7), 3, 2)
    without_step = code.function("sliding_windows")(draw.normal(3, 8), size=4)
    yield "the result without a step (a step of 1)", without_step


@promise(
    "sliding_windows",
    points=7,
    hint="Ask x for its strides; without an offset, as_strided takes the offset of x.",
    after="test_windows",
)
def test_windows_of_any_tensor(code: Student, draw: Draw) -> Cases:
    """x may have any strides, any dtype and leading dimensions of size 0, and stays as it is."""
    # Integers, because the gradient of an expanded leaf is not well defined.
    x = torch.arange(60).reshape(5, 3, 4)
    laws.check_layouts(code, "sliding_windows", x, 3, 1, what="the result")
    laws.check_changes_nothing(code, "sliding_windows", draw.normal(3, 7), 3, 2)
    for shape in [(0, 5), (2, 0, 6)]:
        yield windows(code, torch.ones(shape), 3, 2)
    for dtype in (torch.float64, torch.bool, torch.bfloat16):
        yield windows(code, draw.integers(2, 6, high=2).to(dtype), 3, 2)


@promise(
    "sliding_windows",
    points=30,
    hint="as_strided makes a view; stack, indexing with a tensor and contiguous() copy.",
    after="test_windows",
)
def test_windows_are_a_view(code: Student, draw: Draw) -> Cases:
    """The result shares the storage of x, and a later change of x shows in it."""
    base = draw.normal(2, 5, 9)
    views = [base, base[0, 2], base.transpose(0, 1)[1:], base.movedim(-1, 0), base[..., ::2]]
    for x in views:
        for size, step in [(2, 2), (3, 1)]:
            later = draw.normal(*x.shape)
            held = code.run("windows_after_a_change", x, size, step, later)
            yield "the content of the windows after a change of x", held


@promise(
    "sliding_windows",
    points=4,
    hint="A view of x is in the graph of x: no detach, no .data, no NumPy.",
    after="test_windows",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach x, and add up where windows overlap."""
    yield windows(code, draw.normal(3, 8, grad="x"), 3, 2)


@promise(
    "sliding_windows",
    points=3,
    hint="Check 1 <= size <= n and step >= 1.",
    word="the sandbox says that it raised",
)
def test_bad_windows(student: Student) -> None:
    """A size outside 1..n and a step below 1 are ValueErrors that name the argument."""
    x = torch.randn(6)
    bad: dict[str, list[Sequence[Any]]] = {
        "size": [(x, 0), (x, 7), (x, -1), (x[None], 7)],
        "step": [(x, 3, 0), (x, 3, -1)],
    }
    laws.check_errors(student, "sliding_windows", bad, fine=(x, 6, 9))


# --- helpers of the tests -------------------------------------------------------------------------


def new_sizes(draw: Draw, count: int) -> list[int]:
    """Sizes from 2, all of them different."""
    sizes: list[int] = (draw.permutation(10)[:count] + 2).tolist()
    return sizes


def new_tensor(draw: Draw) -> Tensor:
    """A tensor of three different sizes, from 3 to 6."""
    return draw.normal(*(draw.permutation(4)[:3] + 3).tolist())


def strides(code: Student, shape: tuple[int, ...]) -> tuple[str, Any]:
    """The strides of a row-major tensor of this shape."""
    made = code.function("contiguous_strides")(shape)
    return f"contiguous_strides({shape})", exactly(made)


def positions(
    code: Student, views: Iterable[Tensor], entries: Callable[[int], range] = range
) -> Cases:
    """The positions of the elements at these entries of each dimension."""
    for x in views:
        indices = list(itertools.product(*map(entries, x.shape)))
        what = f"the list of positions in an x of strides {x.stride()}, offset {x.storage_offset()}"
        yield what, exactly(code.run("positions", x, indices))


def shared(code: Student, draw: Draw, pairs: Sequence[tuple[str, str]]) -> Any:
    """The answers of shares_storage for pairs where y is x and where y is a copy, in a drawn order."""
    questions = [(*pair, y) for pair in pairs for y in ("x", "copy")]
    order = draw.permutation(len(questions)).tolist()
    return code.run("pairs", draw.normal(4, 6), [questions[i] for i in order])


def windows(code: Student, x: Tensor, size: int, step: int) -> tuple[str, Any]:
    """The windows over x, with a description of the case."""
    made = code.function("sliding_windows")(x, size, step)
    what = f"the windows of size {size} and step {step} over x of shape {tuple(x.shape)}, {x.dtype}"
    return what, made
