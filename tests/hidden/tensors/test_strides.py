"""What the four functions of strides promise, sentence by sentence."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.student import Student

# --- contiguous_strides ---------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("contiguous_strides")
@pytest.mark.hint("Walk through the sizes from the last one to the first, and keep a product.")
def test_strides(student: Student) -> None:
    """Each stride is the product of the sizes behind it, and the last one is 1."""
    a, b, c, d = drawn(4)
    check_strides(student, [(a, b, c), (c, d), (a,), (a, b, 1, d), (1, 1, c), (d, 1)])


@pytest.mark.points(4)
@pytest.mark.requires("test_strides")
@pytest.mark.place("contiguous_strides")
@pytest.mark.hint(
    "Multiply by max(size, 1). For the shape () there is nothing to multiply: return ()."
)
def test_strides_of_size_0(student: Student) -> None:
    """A size of 0 counts as 1, as in PyTorch, and the shape () has the strides ()."""
    a, b = drawn(2)
    check_strides(student, [(a, 0, b), (0,), (0, b), (b, 0, 0, a), (b, a, 0), ()])


@pytest.mark.points(4)
@pytest.mark.requires("test_strides")
@pytest.mark.place("contiguous_strides")
@pytest.mark.hint(
    "Python's integers have no limit, floats have; list(shape) turns any sequence into a list."
)
def test_any_shape(student: Student) -> None:
    """A shape is a tuple, list or torch.Size, and may be too large for any tensor to exist."""
    for shape in ((3, 4, 5), [3, 4, 5], student.made("size", [3, 4, 5])):
        strides = laws.check_changes_nothing(student, "contiguous_strides", shape)
        assert_equal(strides, (20, 5, 1), what="contiguous_strides of a tuple, list or torch.Size")
    check_strides(student, [(2**40, 3**20, 5**11), (2**62, 2**20 + 7, 2**41), (2**62, 0, 3**30)])


@pytest.mark.points(2)
@pytest.mark.place("contiguous_strides")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look at every size, also the first one, before you multiply.")
def test_negative_sizes(student: Student) -> None:
    """A negative size is a ValueError that names shape."""
    a, b, c = drawn(3)
    bad = [((a, -1, b),), ((-1,),), ((-a, b),), ((0, -b),), ((a, b, -c),), ((-a, -b),)]
    laws.check_errors(student, "contiguous_strides", {"shape": bad}, fine=((0, 3),))


@pytest.mark.points(2)
@pytest.mark.requires("test_strides")
@pytest.mark.place("contiguous_strides")
@pytest.mark.word("the sandbox says what was called")
@pytest.mark.hint("The sizes are all that you need: multiply them.")
def test_asks_no_tensor(student: Student) -> None:
    """The strides are computed, and not read from a tensor of that shape."""
    sizes = (13, 17, 19)
    calls, why = ["stride", "storage_offset", "data_ptr"], "multiply the sizes yourself"
    laws.check_not_used(student, "contiguous_strides", sizes, calls=calls, sizes=sizes, why=why)


# --- storage_index --------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("storage_index")
@pytest.mark.hint("x.storage_offset() says where x begins, x.stride() how far one step leads.")
def test_position(student: Student) -> None:
    """The position is the offset and index[d] * stride[d] of each dimension, for any strides."""
    x = drawn_tensor()
    views = {
        "a contiguous x": x,
        "x[2].t()": x[2].t(),
        "x transposed": x.transpose(0, 2),
        "x[1:, :, 2:], a slice with an offset": x[1:, :, 2:],
        "x[::2, 1]": x[::2, 1],
        "an expanded x": x[1:2, 1:, :1].expand(3, -1, 6),
    }
    for name, view in views.items():
        check_positions(student, name, view)


@pytest.mark.points(3)
@pytest.mark.requires("test_position")
@pytest.mark.place("storage_index")
@pytest.mark.hint("A negative entry stands for entry + size.")
def test_negative_entries(student: Student) -> None:
    """A negative entry counts from the end."""
    x = drawn_tensor()
    for name, view in {"x": x, "x transposed": x.transpose(0, 2), "x[1:4, 1:]": x[1:4, 1:]}.items():
        indices = itertools.product(*(range(-size, size) for size in view.shape))
        check_positions(student, name, view, [index for index in indices if min(index) < 0])


@pytest.mark.points(3)
@pytest.mark.requires("test_position")
@pytest.mark.place("storage_index")
@pytest.mark.hint("A 0-d x has the index (); strides count elements, of any dtype.")
def test_position_of_any_tensor(student: Student) -> None:
    """x may be 0-d, have any dtype, require a gradient; index may be a list; x stays as it is."""
    check_positions(student, "torch.tensor(3.0)", torch.tensor(3.0))
    check_positions(student, "x[1, 2]", torch.arange(12.0).reshape(3, 4)[1, 2])
    for dtype in (torch.float64, torch.int64, torch.bool, torch.complex64, torch.int8):
        x = torch.ones(3, 4).to(dtype)[1:, 1:].t()
        check_positions(student, f"x of dtype {dtype}", x, [[0, 1], [2, 0], [-1, -1]])
    x = torch.randn(3, 4, requires_grad=True)
    position = laws.check_changes_nothing(student, "storage_index", x, [-1, 1])
    assert_equal(position, 9, what="the position of [-1, 1] in a contiguous (3, 4) leaf")


@pytest.mark.points(3)
@pytest.mark.place("storage_index")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint(
    "-size <= entry < size, for every entry. zip ends with the shorter sequence: compare the lengths."
)
def test_bad_index(student: Student) -> None:
    """Too few or too many entries, or one out of range, are a ValueError that names index."""
    x, empty = torch.arange(20.0).reshape(4, 5), torch.ones(0, 3)
    inside = [(3, 4), (-4, -5), (0, 0), (-1, 4)]
    check_positions(student, "x", x, random.sample(inside, 4))
    numbers = [(x, ()), (x, (1,)), (x, (1, 2, 0)), (torch.tensor(1.0), (0,)), (x[0], ())]
    outside = [(x, (4, 0)), (x, (0, 5)), (x, (-5, 0)), (x, (0, -6)), (x, (3, 20)), (empty, (0, 1))]
    outside += [(x[:2], (2, 0)), (x[:, :3], (1, 3)), (x[:1].expand(3, 5), (3, 0))]
    laws.check_errors(student, "storage_index", {"index": [*numbers, *outside]})


# --- shares_storage -------------------------------------------------------------------------------

# From the probe's pairs to whether they share a storage, begin at one address, are equal.
PAIRS = {
    "a tensor and its transpose": (True, True, False),
    "a tensor and its last rows": (True, False, False),
    "the first and the last rows": (True, False, False),
    "the even and the odd columns": (True, False, False),
    "a tensor and a clone": (False, False, True),
    "two tensors of zeros": (False, False, True),
    "the transpose and a contiguous copy": (False, False, True),
    "a leaf and itself detached": (True, True, True),
    "a leaf and a Parameter of a part": (True, False, False),
    "a result and a slice of it, detached": (True, False, False),
    "a leaf and what was computed from it": (False, False, False),
    "a tensor and its bytes as int32": (True, True, False),
    "a float64 matrix and one of its rows": (True, False, False),
    "complex numbers and their imaginary parts": (True, False, False),
}
NAMES = list(PAIRS)


@pytest.mark.points(12)
@pytest.mark.place("shares_storage")
@pytest.mark.word("the sandbox answers yes or no")
@pytest.mark.hint("x.untyped_storage() is the storage itself, and it has a data_ptr() of its own.")
def test_one_storage(student: Student) -> None:
    """Views of one storage are True, whatever their offsets and shapes, also with nothing in common."""
    check_pairs(student, NAMES[:7])


@pytest.mark.points(4)
@pytest.mark.requires("test_one_storage")
@pytest.mark.place("shares_storage")
@pytest.mark.word("the sandbox answers yes or no")
@pytest.mark.hint("A storage holds bytes, whatever the dtype or the graph of a view.")
def test_views_of_any_kind(student: Student) -> None:
    """Detached, a Parameter, of another dtype: the storage decides, and asking changes nothing."""
    check_pairs(student, NAMES[6:])
    pair = torch.randn(3), torch.randn(3)
    answer = laws.check_changes_nothing(student, "shares_storage", *pair)
    assert_equal(answer, False, what="shares_storage of two random tensors")


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
        wide = torch.randn(n + 30).double()
        part = student.made("part", wide, 3, n + 3)
        made = student.function("sliding_windows")(part, size, step)
        check_windows(made, wide, size, step, 3, n + 3)
    for x in (torch.randn(3, 8), torch.randn(2, 3, 7), torch.randn(1, 2, 2, 5)):
        check_windows(student.function("sliding_windows")(x, 3, 2), x, 3, 2)
    made, what = student.function("sliding_windows")(x, size=4), "what no step gives (a step of 1)"
    check_windows(assert_tensor(made, shape=(1, 2, 2, 2, 4), what=what), x, 4, 1)


@pytest.mark.points(4)
@pytest.mark.requires("test_windows")
@pytest.mark.place("sliding_windows")
@pytest.mark.hint("Ask x for its strides; without an offset, as_strided takes that of x.")
def test_windows_of_any_layout(student: Student) -> None:
    """x may be transposed, sliced or expanded, and stays as it is: shape, values, gradient."""
    # Of integers, since the gradient of an expanded leaf is no agreed number.
    x = torch.arange(60).reshape(5, 3, 4)
    turned = x.transpose(0, 2)
    made = student.function("sliding_windows")(turned, 3, 1)
    assert_close(made, windows(turned, 3, 1), what="the result")
    laws.check_layouts(student, "sliding_windows", x, 3, 1, what="the result")
    for x in laws.kinds_of(torch.randn(3, 7)):
        made = laws.check_changes_nothing(student, "sliding_windows", x, 3, 2)
        assert_tensor(made, shape=(3, 3, 3), what="the result for x of shape (3, 7)")


@pytest.mark.points(30)
@pytest.mark.requires("test_windows")
@pytest.mark.place("sliding_windows")
@pytest.mark.hint("as_strided makes a view; stack, indexing with a tensor and contiguous() copy.")
def test_windows_are_a_view(student: Student) -> None:
    """The result shares the storage of x, and a later change of x shows in it."""
    base = torch.randn(2, 5, 9)
    views = [base, base[0, 2], base.transpose(0, 1)[1:], base.movedim(-1, 0), base[..., ::2]]
    views += [base[0, :, :1].expand(5, 6), base[0, 0].expand(3, 9), base.double()]
    views += [torch.arange(18).reshape(2, 9), base[0] > 0]
    for i, x in enumerate(views):
        size, step = [(2, 2), (3, 1), (1, 4), (5, 1)][i % 4]
        later = -1 - x if x.is_floating_point() else ~x
        report = student.run("windows", x, size, step, later, x is base)
        held, storages = fields(report, "later", "storages")
        right = windows(later, size, step)
        what = "what the windows hold after a change of x"
        assert_close(held, right, what=what)
        of_x, of_windows = entry(storages, kind=list, count=2)
        assert_equal(of_windows, of_x, what="the address of the windows' storage")


@pytest.mark.points(3)
@pytest.mark.requires("test_windows")
@pytest.mark.place("sliding_windows")
@pytest.mark.hint("Shape and strides follow from those of x, also where a size is 0.")
def test_windows_of_any_tensor(student: Student) -> None:
    """A leading dimension may have size 0, and x any dtype."""
    shapes = {(0, 5): (0, 2, 3), (2, 0, 6): (2, 0, 2, 3), (0, 0, 3): (0, 0, 1, 3)}
    laws.check_shapes(student, "sliding_windows", shapes, 3, 2, what="the result")
    for name in ("float64", "int64", "bool", "uint8", "complex64", "float16", "bfloat16"):
        x = (torch.arange(14).reshape(2, 7) % 5 - 1.0).to(getattr(torch, name))
        made = student.function("sliding_windows")(x, 3, 2)
        assert_close(made, windows(x, 3, 2), what=f"the windows of x of dtype {name}")


@pytest.mark.points(4)
@pytest.mark.requires("test_windows")
@pytest.mark.place("sliding_windows")
@pytest.mark.hint("A view of x is in the graph of x: no detach, no .data, no NumPy.")
def test_gradients(student: Student) -> None:
    """Gradients reach x, and add up where windows overlap."""
    x, long, turned = torch.randn(3, 8).double(), torch.randn(9), torch.randn(6, 3).t()
    for tensor, size, step in [(x, 3, 2), (long, 4, 1), (turned, 2, 3)]:
        leaf, formula = tensor.requires_grad_(), functools.partial(windows, size=size, step=step)
        made = student.function("sliding_windows")(leaf, size, step)
        laws.check_gradients(made, {"x": leaf}, formula, what="the result")


@pytest.mark.points(3)
@pytest.mark.place("sliding_windows")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check 1 <= size <= n and step >= 1.")
def test_bad_windows(student: Student) -> None:
    """A size outside 1..n and a step below 1 are ValueErrors that name the argument."""
    x = torch.randn(20)[:6]
    check_windows(student.function("sliding_windows")(x, 6, 9), x, 6, 9)
    bad: dict[str, list[Sequence[Any]]] = {
        "size": [(x, 0), (x, 7), (x, -1), (x, 7, 2), (x[None], 7), (x[:0], 1), (x[:0], 0)],
        "step": [(x, 3, 0), (x, 3, -1), (torch.ones(2, 6), 6, 0)],
    }
    laws.check_errors(student, "sliding_windows", bad)


# --- what is right --------------------------------------------------------------------------------


def check_strides(student: Student, shapes: Sequence[tuple[int, ...]]) -> None:
    """Compare the strides of these shapes, and name what is known to go wrong."""
    for shape in shapes:
        answer = student.function("contiguous_strides")(shape)
        right = behind(shape)
        assert_equal(answer, right, what=f"contiguous_strides({shape})")


def drawn(count: int) -> list[int]:
    """Sizes, all of them different."""
    return random.sample(range(2, 12), count)


def drawn_tensor() -> Tensor:
    """Three different sizes, none small, and at each element its position."""
    sizes = random.sample(range(3, 7), 3)
    return torch.arange(float(math.prod(sizes))).reshape(sizes)


def behind(shape: tuple[int, ...]) -> list[int]:
    """The strides of a row-major tensor."""
    return [math.prod(max(size, 1) for size in shape[d + 1 :]) for d in range(len(shape))]


def check_positions(
    student: Student, name: str, x: Tensor, indices: Sequence[Sequence[int]] | None = None
) -> None:
    """Compare the positions of these elements (default: of all)."""
    places = list(itertools.product(*map(range, x.shape))) if indices is None else indices
    real = [[i % n for i, n in zip(place, x.shape, strict=True)] for place in places]
    offset, strides = int(x.storage_offset()), x.stride()

    def positions(offset: int, strides: Sequence[int], places: Any = real) -> list[int]:
        return [offset + sum(map(operator.mul, place, strides)) for place in places]

    right = positions(offset, strides)
    told = f"the list of positions of the elements of {name}"
    assert_equal(student.run("positions", x, places), right, what=told)


def check_pairs(student: Student, names: Sequence[str]) -> None:
    """Compare what is said of these pairs."""
    asked = [(name, way) for name in names for way in (False, True)]
    random.shuffle(asked)
    report = entry(student.run("pairs", asked), kind=list, count=len(asked))
    said_of = dict(zip(asked, report, strict=True))
    right = {name: [PAIRS[name][0]] * 2 for name in names}
    answers = {name: [said_of[name, False], said_of[name, True]] for name in names}
    assert_equal(answers, right, what="shares_storage (in both orders)")


def windows(x: Tensor, size: int, step: int) -> Tensor:
    """The windows, gathered: a copy."""
    starts = torch.arange(0, x.shape[-1] - size + 1, step)
    return x[..., starts[:, None] + torch.arange(size)]


def check_windows(
    made: Any, wide: Tensor, size: int, step: int, start: int = 0, stop: int | None = None
) -> None:
    """Compare the windows of x = wide[..., start:stop]."""
    x = wide[..., start:stop]
    n, right = x.shape[-1], windows(x, size, step)
    output = assert_tensor(made, what="the result")
    count = right.shape[-2]
    told = {
        count + 1: "There is one window too many: (n - size) // step + 1 fit.",
        -(-n // step): "A window begins at every step, also where it does not fit into x.",
        count - 1: "The last window is missing: (n - size) // step + 1 fit.",
    }
    if output.dim() == right.dim() and output.shape[-2] != count:
        sentence = told.get(output.shape[-2])
        assert sentence is None, f"{sentence} (n = {n}, size = {size}, step = {step})"

    what = f"the windows of size {size} and step {step} over {n} elements"
    assert_close(output, right, what=what)
