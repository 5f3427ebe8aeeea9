"""Tests of broadcast_shape, sum_to_shape and mse_loss."""

from __future__ import annotations

import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, laws
from grader.judge.student import Student

Shape = tuple[int, ...]

REDUCTIONS = ("mean", "sum", "none")
LARGEST_SIZE = 2**63 - 1
# What computes a broadcast shape, as laws.check_not_used sees it.
BROADCASTING_FUNCTIONS = [
    "torch.functional.broadcast",
    "torch._C._infer_size",
    "torch._refs.broadcast",
    "torch._refs._broadcast",
    "numpy.lib._stride_tricks",
    "numpy.lib.stride_tricks",
]


# --- broadcast_shape ------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("broadcast_shape")
@pytest.mark.hint(
    "Write one shape below the other, aligned at the right, and fill the gaps with 1."
)
def test_shapes(student: Student) -> None:
    """Shapes are aligned at the last dimension; equal sizes stay, and a 1 takes the other size."""
    a, b, c, d = new_sizes(4)
    check_shape(student, (a, b, c), (c,))
    check_shape(student, (a,), (a, 1))
    check_shape(student, (d, 1, c), (b, 1))
    check_shape(student, (a, 1, b, 1), (c, 1, d))
    check_shape(student, (a, b), ())


@pytest.mark.points(7)
@pytest.mark.requires("test_shapes")
@pytest.mark.place("broadcast_shape")
@pytest.mark.hint("Where one size is 1 the result has the other one, which may be 0.")
def test_size_0(student: Student) -> None:
    """A 1 against a size of 0 gives 0."""
    a, b = new_sizes(2)
    check_shape(student, (0, 1), (1, a))
    check_shape(student, (b, 0), (1,))


@pytest.mark.points(7)
@pytest.mark.place("broadcast_shape")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If two sizes differ, one of them has to be 1, also where the other is 0.")
def test_shapes_that_do_not_fit(student: Student) -> None:
    """Two sizes that differ, none of them 1, are a ValueError that names shape or other."""
    pairs = [((3, 2), (3,)), ((2, 6, 4), (3, 4)), ((5, 3), (0, 3)), ((1, 0, 2), (4, 1, 1, 3))]
    pairs += [(other, shape) for shape, other in pairs]
    laws.check_errors(student, "broadcast_shape", {"shape or other": pairs}, fine=((4, 1), (3,)))


@pytest.mark.points(2)
@pytest.mark.requires("test_shapes")
@pytest.mark.place("broadcast_shape")
@pytest.mark.hint("Work with the sizes alone, as Python integers; tuple(shape) takes any sequence.")
def test_any_shape(student: Student) -> None:
    """A shape is a tuple, list or torch.Size, and may be too large for any tensor to exist."""
    sizes = student.made("size", [2, 1, 4]), student.made("size", [3, 1])
    for shape, other in [((2, 1, 4), (3, 1)), ([2, 1, 4], [3, 1]), sizes]:
        made = laws.check_changes_nothing(student, "broadcast_shape", shape, other)
        assert_equal(made, (2, 3, 4), what="broadcast_shape of tuples, lists, torch.Sizes")
    check_shape(student, (2**40, 1, 3), (2**50, 1))
    check_shape(student, (LARGEST_SIZE, 1), (1, LARGEST_SIZE))


@pytest.mark.points(2)
@pytest.mark.requires("test_shapes")
@pytest.mark.place("broadcast_shape")
@pytest.mark.word("the sandbox says what was called")
@pytest.mark.hint("Compare the sizes yourself, pair by pair.")
def test_compares_sizes(student: Student) -> None:
    """It uses no function of PyTorch or NumPy that broadcasts, and no tensors of these shapes."""
    laws.check_not_used(
        student,
        "broadcast_shape",
        (13, 1, 17),
        (19, 1),
        functions=BROADCASTING_FUNCTIONS,
        sizes=(13, 17, 19),
        why="compare the sizes yourself",
    )


# --- sum_to_shape ---------------------------------------------------------------------------------


@pytest.mark.points(14)
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("Sum over the dimensions that were added or stretched, with keepdim=True.")
def test_sums(student: Student) -> None:
    """The gradient is summed over every dimension that was added or stretched, and has that shape."""
    x = torch.randn(2, 4, 3, dtype=torch.float64)
    for shape in [(3,), (4, 3), (4, 1), (2, 1, 3), (1, 4, 1), (1, 1), ()]:
        check_sum(student, x, shape)


@pytest.mark.points(3)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("sum(dim=[]) sums over everything: do not call it where nothing was stretched.")
def test_nothing_stretched(student: Student) -> None:
    """Where nothing was added or stretched, the values are those of gradient."""
    for shape in [(4, 3), (1, 3), ()]:
        check_sum(student, torch.randn(shape), shape)
    check_sum(student, torch.randn(1, 2, 1, 3), (2, 1, 3))


@pytest.mark.points(3)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("sum and reshape are differentiable; detach, .data and NumPy leave the graph.")
def test_differentiable(student: Student) -> None:
    """The result is differentiable."""
    gradient = torch.randn(2, 4, 3, requires_grad=True)
    total = student.function("sum_to_shape")(gradient, (4, 1))
    laws.check_gradients(total, {"gradient": gradient}, lambda x: x.sum_to_size(4, 1))


@pytest.mark.points(5)
@pytest.mark.requires("test_sums")
@pytest.mark.place("sum_to_shape")
@pytest.mark.hint("Use reshape where you use view; a sum over a dimension of size 0 is 0.")
def test_any_gradient(student: Student) -> None:
    """gradient may have any strides, dtype and sizes, 0 too, and stays as it is; shape may be a list."""
    laws.check_changes_nothing(student, "sum_to_shape", torch.randn(4, 3), [3])
    laws.check_layouts(student, "sum_to_shape", torch.randn(3, 4, 2), student.made("size", [4, 1]))
    x = torch.randn(30, 7, dtype=torch.float64)
    laws.check_float64(student.function("sum_to_shape")(x, (7,)), x.sum(0), what="the sum")
    for sizes, shape in [((0, 3), (3,)), ((0, 3), (0, 1)), ((2, 0, 4), (1, 1, 4))]:
        check_sum(student, torch.ones(sizes), shape)


@pytest.mark.points(4)
@pytest.mark.place("sum_to_shape")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("broadcast_shape(shape, gradient.shape) has to be gradient.shape.")
def test_bad_shapes(student: Student) -> None:
    """A shape that does not broadcast to that of gradient is a ValueError that names it."""
    x = torch.ones(4, 3)
    bad = [(x, (4, 2)), (x, (1, 4, 3)), (x[:1], (4, 3)), (x, (2, 3)), (x, (0, 3)), (x[0, 0], (1,))]
    laws.check_errors(student, "sum_to_shape", {"shape or gradient": bad}, fine=(x, (1, 3)))


# --- mse_loss -------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("mse_loss")
@pytest.mark.hint(
    "errors = (prediction - target) ** 2, then errors.mean(), errors.sum() or errors."
)
def test_loss(student: Student) -> None:
    """The loss is the mean (the default), the sum, or the tensor of all squared errors."""
    mse_loss = student.function("mse_loss")
    for shape in [(4, 3), (6, 1), ()]:
        x, y = torch.randn(shape), torch.randn(shape)
        of_shape = f"of tensors of shape {shape}"
        assert_close(mse_loss(x, y), F.mse_loss(x, y), what=f"the loss {of_shape}")
        for reduction in REDUCTIONS:
            right = F.mse_loss(x, y, reduction=reduction)
            what = f'the loss with reduction="{reduction}" {of_shape}'
            assert_close(mse_loss(x, y, reduction), right, what=what)


@pytest.mark.points(22)
@pytest.mark.place("mse_loss")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint(
    "Compare prediction.shape and target.shape first: nothing else tells whether they are equal."
)
def test_shapes_that_differ(student: Student) -> None:
    """Shapes that differ in any way are a ValueError that names prediction or target."""
    # In this order, each check that is too loose takes another pair first.
    pairs: list[tuple[Shape, Shape]] = [
        ((3, 2), (2,)),  # they broadcast
        ((3, 2), (1, 2)),  # as many dimensions
        ((2, 3), (6,)),  # as many elements
        ((3, 2), (3,)),  # batches of one size
        ((), (4,)),  # a 0-d tensor
        ((5, 1), (5,)),  # equal when squeezed
        ((3, 1), (3, 4)),  # batches of one size and as many dimensions
    ]
    calls: list[tuple[Tensor, Tensor, str]] = []
    for first, second in pairs:
        calls.append((torch.zeros(first), torch.zeros(second), "mean"))
        calls.append((torch.zeros(second), torch.zeros(first), "mean"))
    calls.append((torch.zeros(5, 1), torch.zeros(5), "sum"))
    calls.append((torch.zeros(5, 1), torch.zeros(5), "none"))
    fine = (torch.zeros(4, 3), torch.zeros(4, 3))
    laws.check_errors(student, "mse_loss", {"prediction or target": calls}, fine=fine)


@pytest.mark.points(3)
@pytest.mark.place("mse_loss")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint('Raise at the end, where reduction is neither "mean", "sum" nor "none".')
def test_bad_reduction(student: Student) -> None:
    """Another reduction is a ValueError that names reduction."""
    x, y = torch.randn(4), torch.randn(4)
    bad = [(x, y, word) for word in ("average", "Mean", "batchmean")]
    laws.check_errors(student, "mse_loss", {"reduction": bad}, fine=(x, y, "none"))


@pytest.mark.points(5)
@pytest.mark.requires("test_loss")
@pytest.mark.place("mse_loss")
@pytest.mark.hint("Neither detach nor .data: the target may come from a network, too.")
def test_loss_gradients(student: Student) -> None:
    """Gradients reach prediction and target."""
    x = torch.randn(4, 3, requires_grad=True)
    y = torch.randn(4, 3, requires_grad=True)
    loss = student.function("mse_loss")(x, y)
    laws.check_gradients(loss, {"prediction": x, "target": y}, F.mse_loss)


@pytest.mark.points(3)
@pytest.mark.requires("test_loss")
@pytest.mark.place("mse_loss")
@pytest.mark.hint("Name no dtype, use reshape where you use view, and change nothing in place.")
def test_any_loss(student: Student) -> None:
    """Both tensors may have any strides and dtype, and stay as they are."""
    x, y = torch.randn(4, 3), torch.randn(4, 3)
    laws.check_changes_nothing(student, "mse_loss", x, y)
    laws.check_layouts(student, "mse_loss", x, torch.randn(3, 4).t(), what="the loss")
    x, y = x.double() + 100, y.double() + 100
    for reduction in ("none", "mean"):
        loss = student.function("mse_loss")(x, y, reduction)
        laws.check_float64(loss, F.mse_loss(x, y, reduction=reduction), what="the loss")


# --- what is right --------------------------------------------------------------------------------


def new_sizes(count: int) -> list[int]:
    """Sizes, all of them different."""
    return random.sample(range(2, 12), count)


def check_shape(student: Student, shape: Shape, other: Shape) -> None:
    """Compare what these shapes make, in both orders."""
    expected = tuple(torch.broadcast_shapes(shape, other))
    for left, right in [(shape, other), (other, shape)]:
        made = student.function("broadcast_shape")(left, right)
        assert_equal(made, expected, what=f"broadcast_shape({left}, {right})")


def check_sum(student: Student, gradient: Tensor, shape: Shape) -> None:
    """Compare the gradient of an operand of this shape."""
    made = student.function("sum_to_shape")(gradient, shape)
    what = f"the gradient for the shape {shape}, of one of shape {tuple(gradient.shape)}"
    assert_close(made, gradient.sum_to_size(shape), what=what)
