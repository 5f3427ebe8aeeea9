"""What the three functions of broadcasting promise, sentence by sentence."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws
from grader.judge.outcomes import CheckFailed, StudentError
from grader.judge.student import Student

REDUCTIONS = ("mean", "sum", "none")
Shape = tuple[int, ...]

# --- broadcast_shape ------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("broadcast_shape")
@pytest.mark.hint(
    "Write one shape below the other, aligned at the right, and fill the gaps with 1."
)
def test_shapes(student: Student) -> None:
    """Shapes are aligned at the last dimension; equal sizes stay, and a 1 takes the other size."""
    a, b, c, d = drawn(4)
    pairs: list[tuple[Shape, Shape]] = [
        ((a,), (a, 1)),
        ((a, b, c), (c,)),
        ((a, b, c), (b, 1)),
        ((d, 1, c), (b, 1)),
        ((a, 1), (1, d)),
        ((3, 4) * 5, (3, 4) * 5),
        ((1,), (1, 1, 1)),
        ((a, 1, b, 1), (c, 1, d)),
        ((a, b), ()),
        ((), ()),
    ]
    check_shapes(student, pairs)


@pytest.mark.points(7)
@pytest.mark.requires("test_shapes")
@pytest.mark.place("broadcast_shape")
@pytest.mark.hint("Where one size is 1 the result has the other one, which may be 0.")
def test_size_0(student: Student) -> None:
    """A 1 against a size of 0 gives 0."""
    a, b = drawn(2)
    pairs: list[tuple[Shape, Shape]] = [
        ((1,), (0,)),
        ((0, 1), (1, a)),
        ((0,), (0,)),
        ((b, 0), (1,)),
        ((a, 1, b), (0, 1)),
        ((), (0, b)),
    ]
    check_shapes(student, pairs)


@pytest.mark.points(7)
@pytest.mark.place("broadcast_shape")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If two sizes differ, one of them has to be 1, also where the other is 0.")
def test_shapes_that_do_not_fit(student: Student) -> None:
    """Two sizes that differ, none of them 1, are a ValueError that names shape or other."""
    a, b = drawn(2)
    pairs = [
        ((a,), (b,)),
        ((0,), (a,)),
        ((10, 5), (5, 10)),
        ((3, 2), (3,)),
        ((2, 3), (4, 3)),
        ((2, 3, 4), (2,)),
        ((6,), (3,)),
        ((1, 0, 2), (4, 1, 1, 3)),
        ((0, 3), (5, 3)),
    ]
    both = [pair[::way] for pair in pairs for way in (1, -1)]
    check_shapes(student, [((a, 1), (b,))])
    laws.check_errors(student, "broadcast_shape", {"shape or other": both})


@pytest.mark.points(2)
@pytest.mark.requires("test_shapes")
@pytest.mark.place("broadcast_shape")
@pytest.mark.hint("Work with the sizes alone, as Python integers; tuple(shape) takes any sequence.")
def test_any_shape(student: Student) -> None:
    """A shape is a tuple, list or torch.Size, and may be too large for any tensor to exist."""
    for shape in ((2, 1, 4), [2, 1, 4], student.made("size", [2, 1, 4])):
        for other in ((3, 1), [3, 1], student.made("size", [3, 1])):
            for pair in ((shape, other), (other, shape)):
                made = laws.check_changes_nothing(student, "broadcast_shape", *pair)
                assert_equal(made, (2, 3, 4), what="broadcast_shape of tuples, lists, torch.Sizes")
    most = 2**63 - 1
    huge = [((2**40, 1, 3), (2**50, 1)), ((most, 1), (1, most)), ((most, 1, 0), (most, most, 1))]
    check_shapes(student, huge)


@pytest.mark.points(2)
@pytest.mark.requires("test_shapes")
@pytest.mark.place("broadcast_shape")
@pytest.mark.word("the sandbox says what was called")
@pytest.mark.hint("Compare the sizes yourself, pair by pair.")
def test_compares_sizes(student: Student) -> None:
    """It uses no function of PyTorch or NumPy that broadcasts, and no tensors of these shapes."""
    functions = ["torch.functional.broadcast", "torch._C._infer_size", "torch._refs.broadcast"]
    functions += ["torch._refs._broadcast", "numpy.lib._stride_tricks", "numpy.lib.stride_tricks"]
    options: Any = {"functions": functions, "sizes": (13, 17, 19)}
    why, shapes = "compare the sizes yourself", ((13, 1, 17), (19, 1))
    laws.check_not_used(student, "broadcast_shape", *shapes, why=why, **options)


# --- sum_to_shape ---------------------------------------------------------------------------------


@pytest.mark.points(14)
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("Sum over the dimensions that were added or stretched, with keepdim=True.")
def test_sums(student: Student) -> None:
    """The gradient is summed over every dimension that was added or stretched, and has that shape."""
    x = torch.randn(5, 2, 4, 3).double()
    table: list[tuple[Tensor, list[Shape]]] = [
        (x[0, 0], [(3,), (1, 3), (4, 1), (1, 1), (1,), ()]),
        (x[0], [(4, 3), (3,), (4, 1), (2, 1, 3), (1, 4, 1), (2, 1, 1), (1, 1, 3), ()]),
        (x, [(2, 4, 3), (2, 1, 3), (4, 1), (5, 1, 4, 1), (1, 2, 1, 3), (1, 1, 1)]),
        (x[:1, :, :1].clone(), [(1, 1, 1, 3), (2, 1, 1), (3,), (1, 2, 1, 1)]),
    ]
    for gradient, shapes in table:
        for shape in shapes:
            check_sum(student, gradient, shape)


@pytest.mark.points(3)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("sum(dim=[]) sums over everything: do not call it where nothing was stretched.")
def test_nothing_stretched(student: Student) -> None:
    """Where nothing was added or stretched, the values are those of gradient."""
    for shape in ((4, 3), (1, 3), (2, 1), (), (1,), (2, 0)):
        check_sum(student, torch.randn(shape), shape)
    check_sum(student, torch.randn(1, 2, 1, 3), (2, 1, 3))
    check_sum(student, torch.randn(1, 1), ())


@pytest.mark.points(2)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint(
    "The sum over a dimension of size 0 is 0; the result still has the shape `shape`."
)
def test_sums_of_size_0(student: Student) -> None:
    """A gradient may have dimensions of size 0: the sum of nothing is 0."""
    for size, shapes in {
        (0, 3): [(3,), (1, 3), (1, 1), (0, 3), (0, 1), ()],
        (2, 0, 4): [(1, 1, 4), (2, 1, 1), (0, 1), (4,), (1, 0, 4)],
    }.items():
        for shape in shapes:
            check_sum(student, torch.ones(size), shape)


@pytest.mark.points(3)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("sum and reshape are differentiable; detach, .data and NumPy leave the graph.")
def test_differentiable(student: Student) -> None:
    """The result is differentiable."""
    for shape in ((3,), (4, 1), (2, 1, 3), (2, 4, 3), ()):
        gradient = torch.randn(2, 4, 3, requires_grad=True)
        total = student.function("sum_to_shape")(gradient, shape)
        laws.check_gradients(total, {"gradient": gradient}, lambda x, s=shape: x.sum_to_size(s))


@pytest.mark.points(3)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("Use reshape where you use view, name no dtype, and change nothing in place.")
def test_any_gradient(student: Student) -> None:
    """gradient may have any strides and dtype, and stays as it is; shape may be a list."""
    for x in laws.kinds_of(torch.randn(4, 3)):
        for size in ((4, 1), [3], (4, 3)):
            total = laws.check_changes_nothing(student, "sum_to_shape", x, size)
            assert_tensor(total, shape=size, what=f"the gradient for the shape {size}")
    x = torch.randn(3, 4, 2)
    for shape in ((4, 1), (3, 4, 2)):
        laws.check_layouts(student, "sum_to_shape", x, shape)
    for kind in ([4, 1], student.made("size", [4, 1])):
        laws.check_dtypes(student, "sum_to_shape", x, kind)
    x = torch.randn(30, 7).double()
    laws.check_float64(student.function("sum_to_shape")(x, (7,)), x.sum(0), what="the sum")


@pytest.mark.points(4)
@pytest.mark.place("sum_to_shape")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("broadcast_shape(shape, gradient.shape) has to be gradient.shape.")
def test_bad_shapes(student: Student) -> None:
    """A shape that does not broadcast to that of gradient is a ValueError that names it."""
    check_sum(student, torch.randn(4, 3), (1, 3))
    table: dict[Shape, list[Shape]] = {
        (4, 3): [(4,), (2, 3), (4, 2), (12,), (1, 4, 3), (3, 4), (0, 3), (4, 3, 1), (8, 3)],
        (3,): [(1, 3), (3, 1), (2,), (1, 1), (0,)],
        (1, 3): [(4, 3), (4, 1), (2, 3)],
        (): [(1,), (2,), (0,)],
        (0,): [(2,), (1, 0), (1, 1)],
        (1,): [(0,), (5,)],
    }
    calls = [(torch.ones(size), shape) for size, shapes in table.items() for shape in shapes]
    laws.check_errors(student, "sum_to_shape", {"shape or gradient": calls})


@pytest.mark.points(2)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.word("the sandbox says what was called")
@pytest.mark.hint("Tensor.sum takes several dimensions: dim=[0, 2], keepdim=True.")
def test_sums_itself(student: Student) -> None:
    """It does not use Tensor.sum_to_size, however reached."""
    options: Any = {"calls": ["sum_to_size"], "functions": ["torch._refs.sum_to_size"]}
    x, why = torch.randn(2, 4, 3), "sum over the dimensions yourself"
    laws.check_not_used(student, "sum_to_shape", x, (4, 1), why=why, **options)


# --- mse_loss -------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("mse_loss")
@pytest.mark.hint(
    "errors = (prediction - target) ** 2, then errors.mean(), errors.sum() or errors."
)
def test_loss(student: Student) -> None:
    """The loss is the mean (the default), the sum, or the tensor of all squared errors."""
    for shape in ((4, 3), (5,), (2, 3, 2), (6, 1), (1,), ()):
        prediction, target = torch.randn(shape).double(), torch.randn(shape).double()
        check_loss(student, prediction, target, "mean", student.function("mse_loss"))
        for reduction in REDUCTIONS:
            check_loss(student, prediction, target, reduction)


@pytest.mark.points(22)
@pytest.mark.place("mse_loss")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint(
    "Compare prediction.shape and target.shape first: nothing else tells whether they are equal."
)
def test_shapes_that_differ(student: Student) -> None:
    """Shapes that differ in any way are a ValueError that names prediction or target."""
    loss = student.function("mse_loss")(torch.randn(4, 3), torch.randn(4, 3))
    assert_tensor(loss, shape=(), what="the loss of tensors of one shape")
    pairs: list[tuple[Shape, Shape]] = [
        ((5, 1), (5,)),
        ((), (4,)),
        ((1,), (4,)),
        ((1,), ()),
        ((3, 2), (3, 1)),
        ((3, 2), (1, 2)),
        ((3, 2), (2,)),
        ((2, 3), (3, 2)),
        ((2, 3), (6,)),
        ((1, 4), (4,)),
        ((4, 1), (1, 4)),
        ((3, 2), (3,)),
        ((4, 3), (4, 5)),
        ((0,), (0, 1)),
        ((0,), (1,)),
    ]
    calls = [
        (torch.zeros(first), torch.zeros(second), reduction)
        for pair in pairs
        for first, second in (pair, pair[::-1])
        for reduction in (REDUCTIONS if 5 in first + second else ("mean",))
    ]
    try:
        laws.check_errors(student, "mse_loss", {"prediction or target": calls})
    except CheckFailed as failure:
        reason = loose_check(student, pairs)
        raise CheckFailed(f"{reason}\n{failure}") if reason else failure from None


@pytest.mark.points(3)
@pytest.mark.place("mse_loss")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint('Raise at the end, where reduction is neither "mean", "sum" nor "none".')
def test_bad_reduction(student: Student) -> None:
    """Another reduction is a ValueError that names reduction."""
    x, y = torch.randn(4), torch.randn(4)
    loss = student.function("mse_loss")(x, y, "none")
    assert_tensor(loss, shape=(4,), what='the loss with reduction="none"')
    words = ("average", "", "Mean", "means", "batchmean", "SUM", "no")
    laws.check_errors(student, "mse_loss", {"reduction": [(x, y, word) for word in words]})


@pytest.mark.points(5)
@pytest.mark.requires("test_loss")
@pytest.mark.place("mse_loss")
@pytest.mark.hint("Neither detach nor .data: the target may come from a network, too.")
def test_loss_gradients(student: Student) -> None:
    """Gradients reach prediction and target, with every reduction."""
    for reduction in REDUCTIONS:
        for shape in ((4, 3), ()):
            x, y = (torch.randn(shape, requires_grad=True) for _ in range(2))
            loss = student.function("mse_loss")(x, y, reduction)
            leaves = {"prediction": x, "target": y}
            laws.check_gradients(loss, leaves, lambda x, y, r=reduction: reduced(x, y, r))


@pytest.mark.points(3)
@pytest.mark.requires("test_loss")
@pytest.mark.place("mse_loss")
@pytest.mark.hint("Name no dtype, use reshape where you use view, and change nothing in place.")
def test_any_loss(student: Student) -> None:
    """Both tensors may have any strides and dtype, and stay as they are."""
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    for reduction in REDUCTIONS:
        check_loss(student, torch.randn(3, 4), x.t(), reduction)
        far = x.double() + 100, y.double() + 100
        loss = student.function("mse_loss")(*far, reduction)
        laws.check_float64(loss, reduced(*far, reduction), what="the loss")
        for left, right in zip(laws.kinds_of(x), laws.kinds_of(y)[::-1], strict=True):
            laws.check_changes_nothing(student, "mse_loss", left, right, reduction)
    laws.check_layouts(student, "mse_loss", x, y, "mean", what="the loss")


# --- what is right --------------------------------------------------------------------------------


def drawn(count: int) -> list[int]:
    """Sizes, all of them different."""
    return random.sample(range(2, 12), count)


def check_shapes(student: Student, pairs: Iterable[tuple[Shape, Shape]]) -> None:
    """Compare what these shapes make, in both orders, and name what is known to go wrong."""
    for pair in pairs:
        for shape, other in (pair, pair[::-1]):
            made = student.function("broadcast_shape")(shape, other)
            count = max(len(shape), len(other))
            left, right = ((1,) * (count - len(s)) + s for s in (shape, other))
            expected = tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))
            what = f"broadcast_shape({shape}, {other})"
            assert_equal(made, expected, what=what)


def check_sum(student: Student, gradient: Tensor, shape: Shape) -> None:
    """Compare the gradient of an operand of this shape."""
    total = gradient.sum_to_size(shape)
    made = student.function("sum_to_shape")(gradient, shape)
    what = f"the gradient for the shape {shape}, of one of shape {tuple(gradient.shape)}"
    assert_close(made, total, what=what)


def check_loss(
    student: Student, prediction: Tensor, target: Tensor, reduction: str, call: Any = None
) -> None:
    """Compare the loss; `call` takes no reduction."""
    expected = reduced(prediction, target, reduction)
    made = (
        call(prediction, target)
        if call
        else student.function("mse_loss")(prediction, target, reduction)
    )
    what = f'the loss with reduction="{reduction}" of tensors of shape {tuple(prediction.shape)}'
    assert_close(made, expected, what=what)


def reduced(prediction: Tensor, target: Tensor, reduction: str) -> Tensor:
    """The loss."""
    errors: Tensor = (prediction - target) ** 2
    if reduction == "none":
        return errors
    return errors.mean() if reduction == "mean" else errors.sum()


def loose_check(student: Student, pairs: Iterable[tuple[Shape, Shape]]) -> str | None:
    """The check that explains which of these pairs mse_loss takes."""
    pairs = [(a, b) for pair in pairs for a, b in (pair, pair[::-1])]
    taken = []
    for shape, other in pairs:
        with contextlib.suppress(StudentError):
            student.function("mse_loss")(torch.zeros(shape), torch.zeros(other))
            taken.append((shape, other))
    fits = [pair for pair in pairs if broadcasts(*pair)]
    checks: dict[str, Callable[[Shape, Shape], bool]] = {
        "You check at most whether the shapes broadcast": broadcasts,
        "You compare only the numbers of elements": lambda a, b: math.prod(a) == math.prod(b),
        "You compare only the numbers of dimensions": lambda a, b: len(a) == len(b),
        "You compare only the sizes of the batch": lambda a, b: a[:1] == b[:1],
        "You accept 0-d tensors": lambda a, b: () in (a, b),
        "You squeeze the tensors first": lambda a, b: (
            [n for n in a if n > 1] == [n for n in b if n > 1]
        ),
    }
    for told, check in checks.items():
        passing = [pair for pair in pairs if check(*pair)]
        if taken in (passing, [pair for pair in passing if pair in fits]):
            return f"{told}: prediction and target must have the same shape."
    return None


def broadcasts(shape: Shape, other: Shape) -> bool:
    """Whether a 1 or the same size stands beside each size, counted from the end."""
    pairs = zip(shape[::-1], other[::-1], strict=False)
    return all(a == b or 1 in (a, b) for a, b in pairs)
