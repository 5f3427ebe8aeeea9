"""Tests of broadcast_shape, sum_to_shape and mse_loss."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, exactly, laws, promise
from grader.judge.student import Student

Shape = tuple[int, ...]

LARGEST_SIZE = 2**63 - 1
# The functions that compute a broadcast shape, by the names that laws.check_not_used sees.
BROADCASTING_FUNCTIONS = [
    "torch.functional.broadcast",
    "torch._C._infer_size",
    "torch._refs.broadcast",
    "torch._refs._broadcast",
    "numpy.lib._stride_tricks",
    "numpy.lib.stride_tricks",
]
# Checks of shapes may be too loose in several ways. In this order, each way fails at a different pair first.
PAIRS_THAT_DIFFER: list[tuple[Shape, Shape]] = [
    ((3, 2), (2,)),  # they broadcast
    ((3, 2), (1, 2)),  # the same number of dimensions
    ((2, 3), (6,)),  # the same number of elements
    ((3, 2), (3,)),  # batches of one size
    ((), (4,)),  # a 0-d tensor
    ((5, 1), (5,)),  # equal when squeezed
    ((3, 1), (3, 4)),  # batches of one size, and the same number of dimensions
]


# --- broadcast_shape ------------------------------------------------------------------------------


@promise(
    "broadcast_shape",
    points=10,
    hint="Write one shape below the other, aligned at the right, and fill the gaps with 1.",
)
def test_shapes(code: Student, draw: Draw) -> Cases:
    """Shapes are aligned at the last dimension; equal sizes stay, and a 1 takes the other size."""
    a, b, c, d = new_sizes(draw, 4)
    yield from both_ways(code, (a, b, c), (c,))
    yield from both_ways(code, (a,), (a, 1))
    yield from both_ways(code, (d, 1, c), (b, 1))
    yield from both_ways(code, (a, 1, b, 1), (c, 1, d))
    yield from both_ways(code, (a, b), ())


@promise(
    "broadcast_shape",
    points=7,
    hint="Where one size is 1 the result has the other one, which may be 0.",
    after="test_shapes",
)
def test_size_0(code: Student, draw: Draw) -> Cases:
    """A 1 against a size of 0 gives 0."""
    a, b = new_sizes(draw, 2)
    yield from both_ways(code, (0, 1), (1, a))
    yield from both_ways(code, (b, 0), (1,))


@promise(
    "broadcast_shape",
    points=7,
    hint="If two sizes differ, one of them has to be 1, also where the other is 0.",
    word="the sandbox says that it raised",
)
def test_shapes_that_do_not_fit(student: Student) -> None:
    """Two different sizes, neither of them 1, are a ValueError that names shape or other."""
    pairs = [((3, 2), (3,)), ((2, 6, 4), (3, 4)), ((5, 3), (0, 3)), ((1, 0, 2), (4, 1, 1, 3))]
    pairs += [(other, shape) for shape, other in pairs]
    laws.check_errors(student, "broadcast_shape", {"shape or other": pairs}, fine=((4, 1), (3,)))


@promise(
    "broadcast_shape",
    points=2,
    hint="Work with the sizes alone, as Python integers; tuple(shape) takes any sequence.",
    after="test_shapes",
)
def test_any_shape(code: Student, draw: Draw) -> Cases:
    """A shape is a tuple, list or torch.Size, and may be too large for any tensor to exist."""
    sizes = code.made("size", [2, 1, 4]), code.made("size", [3, 1])
    for shape, other in [((2, 1, 4), (3, 1)), ([2, 1, 4], [3, 1]), sizes]:
        made = laws.check_changes_nothing(code, "broadcast_shape", shape, other)
        yield "broadcast_shape of tuples, lists, torch.Sizes", exactly(made)
    yield from both_ways(code, (2**40, 1, 3), (2**50, 1))
    yield from both_ways(code, (LARGEST_SIZE, 1), (1, LARGEST_SIZE))


@promise(
    "broadcast_shape",
    points=2,
    hint="Compare the sizes yourself, pair by pair.",
    after="test_shapes",
    word="the sandbox says what was called",
)
def test_compares_sizes(student: Student) -> None:
    """broadcast_shape uses no broadcasting function of PyTorch or NumPy, and no tensors of these shapes."""
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


@promise(
    "sum_to_shape",
    points=14,
    hint="Sum over the dimensions that were added or stretched, with keepdim=True.",
)
def test_sums(code: Student, draw: Draw) -> Cases:
    """The gradient is summed over every added or stretched dimension, and has the given shape."""
    x = draw.normal(2, 4, 3)
    for shape in [(3,), (4, 3), (4, 1), (2, 1, 3), (1, 4, 1), (1, 1), ()]:
        yield summed(code, x, shape)


@promise(
    "sum_to_shape",
    points=3,
    hint="sum(dim=[]) sums over everything: do not call it where nothing was stretched.",
    after="test_sums",
)
def test_nothing_stretched(code: Student, draw: Draw) -> Cases:
    """Where nothing was added or stretched, the values are those of gradient."""
    for shape in [(4, 3), (1, 3), ()]:
        yield summed(code, draw.normal(*shape), shape)
    yield summed(code, draw.normal(1, 2, 1, 3), (2, 1, 3))


@promise(
    "sum_to_shape",
    points=3,
    hint="sum and reshape are differentiable; detach, .data and NumPy leave the graph.",
    after="test_sums",
)
def test_differentiable(code: Student, draw: Draw) -> Cases:
    """The result is differentiable."""
    yield summed(code, draw.normal(2, 4, 3, grad="gradient"), (4, 1))


@promise(
    "sum_to_shape",
    points=5,
    hint="Use reshape where you use view; a sum over a dimension of size 0 is 0.",
    after="test_sums",
)
def test_any_gradient(code: Student, draw: Draw) -> Cases:
    """gradient may have any strides, dtype and sizes, also 0, and stays as it is; shape may be a list."""
    laws.check_changes_nothing(code, "sum_to_shape", draw.normal(4, 3), [3])
    laws.check_layouts(code, "sum_to_shape", draw.normal(3, 4, 2), code.made("size", [4, 1]))
    yield summed(code, draw.normal(30, 7, dtype=torch.float64), (7,))
    for sizes, shape in [((0, 3), (3,)), ((0, 3), (0, 1)), ((2, 0, 4), (1, 1, 4))]:
        yield summed(code, torch.ones(sizes), shape)


@promise(
    "sum_to_shape",
    points=4,
    hint="broadcast_shape(shape, gradient.shape) has to be gradient.shape.",
    word="the sandbox says that it raised",
)
def test_bad_shapes(student: Student) -> None:
    """A shape that does not broadcast to the shape of gradient is a ValueError that names shape."""
    x = torch.ones(4, 3)
    bad = [(x, (4, 2)), (x, (1, 4, 3)), (x[:1], (4, 3)), (x, (2, 3)), (x, (0, 3)), (x[0, 0], (1,))]
    laws.check_errors(student, "sum_to_shape", {"shape or gradient": bad}, fine=(x, (1, 3)))


# --- mse_loss -------------------------------------------------------------------------------------


@promise(
    "mse_loss",
    points=8,
    hint="errors = (prediction - target) ** 2, then errors.mean(), errors.sum() or errors.",
)
def test_loss(code: Student, draw: Draw) -> Cases:
    """The loss is the mean (the default) or the sum of all squared errors, or the tensor of them."""
    for shape in [(4, 3), (6, 1), ()]:
        x, y = draw.normal(*shape), draw.normal(*shape)
        for reduction in [(), ("mean",), ("sum",), ("none",)]:
            what = f"the loss with the reduction {reduction} of tensors of shape {shape}"
            yield what, code.function("mse_loss")(x, y, *reduction)


@promise(
    "mse_loss",
    points=22,
    hint="Compare prediction.shape and target.shape first: nothing else tells whether they are equal.",
    word="the sandbox says that it raised",
)
def test_shapes_that_differ(student: Student) -> None:
    """Shapes that differ in any way are a ValueError that names prediction or target."""
    calls: list[tuple[Tensor, Tensor, str]] = []
    for first, second in PAIRS_THAT_DIFFER:
        calls.append((torch.zeros(first), torch.zeros(second), "mean"))
        calls.append((torch.zeros(second), torch.zeros(first), "mean"))
    calls.append((torch.zeros(5, 1), torch.zeros(5), "sum"))
    calls.append((torch.zeros(5, 1), torch.zeros(5), "none"))
    fine = (torch.zeros(4, 3), torch.zeros(4, 3))
    laws.check_errors(student, "mse_loss", {"prediction or target": calls}, fine=fine)


@promise(
    "mse_loss",
    points=3,
    hint='Raise at the end, if reduction is neither "mean", "sum" nor "none".',
    word="the sandbox says that it raised",
)
def test_bad_reduction(student: Student) -> None:
    """Any other reduction is a ValueError that names reduction."""
    x, y = torch.randn(4), torch.randn(4)
    bad = [(x, y, word) for word in ("average", "Mean", "batchmean")]
    laws.check_errors(student, "mse_loss", {"reduction": bad}, fine=(x, y, "none"))


@promise(
    "mse_loss",
    points=5,
    hint="Use neither detach nor .data: the target may come from a network, too.",
    after="test_loss",
)
def test_loss_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach prediction and target."""
    x, y = draw.normal(4, 3, grad="prediction"), draw.normal(4, 3, grad="target")
    yield "the loss", code.function("mse_loss")(x, y)


@promise(
    "mse_loss",
    points=3,
    hint="Name no dtype, use reshape where you use view, and change nothing in place.",
    after="test_loss",
)
def test_any_loss(code: Student, draw: Draw) -> Cases:
    """Both tensors may have any strides and dtype, and stay as they are."""
    x, y = draw.normal(4, 3), draw.normal(3, 4).t()
    laws.check_changes_nothing(code, "mse_loss", x, y)
    laws.check_layouts(code, "mse_loss", x, y, what="the loss")
    x, y = (draw.normal(4, 3, dtype=torch.float64) for _ in range(2))
    for reduction in ("none", "mean"):
        yield "the loss", code.function("mse_loss")(x, y, reduction)


# --- helpers of the tests -------------------------------------------------------------------------


def new_sizes(draw: Draw, count: int) -> list[int]:
    """Sizes from 2, all of them different."""
    sizes: list[int] = (draw.permutation(10)[:count] + 2).tolist()
    return sizes


def both_ways(code: Student, shape: Shape, other: Shape) -> Cases:
    """The broadcast shape of both, in both orders."""
    for left, right in [(shape, other), (other, shape)]:
        made = code.function("broadcast_shape")(left, right)
        yield f"broadcast_shape({left}, {right})", exactly(made)


def summed(code: Student, gradient: Tensor, shape: Shape) -> tuple[str, Tensor]:
    """The result of sum_to_shape for an operand of this shape."""
    what = f"the gradient for the shape {shape}, of one of shape {tuple(gradient.shape)}"
    return what, code.function("sum_to_shape")(gradient, shape)
