"""Tests of unbroadcast, of each operation, and of backward in graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, promise
from grader.judge.student import Student

# A Value that is doubled this often has far too many paths to walk each of them.
DOUBLINGS = 60
# Pairs that broadcast to (4, 3).
SHAPES = (((3,), (4, 3)), ((4, 3), (4, 1)), ((4, 1), (3,)), ((), (4, 3)))


# --- broadcasting --------------------------------------------------------------------------------


@promise(
    "unbroadcast", points=3, hint="gradient.dim() - len(shape) dimensions were added in front."
)
def test_added(code: Student, draw: Draw) -> Cases:
    """Dimensions that broadcasting added in front are summed."""
    for shape, given in (((3,), (4, 3)), ((3, 2), (5, 4, 3, 2)), ((), (4, 3)), ((4, 3), (4, 3))):
        yield (
            f"the result from {given} to {shape}",
            code.function("unbroadcast")(normal(draw, *given), shape),
        )


@promise("unbroadcast", points=3, hint="Where shape has a 1: sum over it with keepdim=True.")
def test_stretched(code: Student, draw: Draw) -> Cases:
    """Dimensions of size 1 that broadcasting stretched are summed, and stay as 1."""
    for shape, given in (((4, 1), (4, 3)), ((1, 3), (4, 3)), ((1, 3, 1), (2, 3, 4))):
        yield (
            f"the result from {given} to {shape}",
            code.function("unbroadcast")(normal(draw, *given), shape),
        )


@promise("unbroadcast", hint="First the added dimensions, then the dimensions of size 1.")
def test_both(code: Student, draw: Draw) -> Cases:
    """Added and stretched dimensions may occur together."""
    for shape, given in (((3, 1), (2, 3, 4)), ((1, 1), (5, 1, 3)), ((1,), (4, 3))):
        yield (
            f"the result from {given} to {shape}",
            code.function("unbroadcast")(normal(draw, *given), shape),
        )


# --- operations ----------------------------------------------------------------------------------


@promise("Value.__add__", points=3, hint="Both get the gradient as it is.")
def test_add(code: Student, draw: Draw) -> Cases:
    """A sum and the gradients of both terms are right."""
    leaves = [normal(draw, 2, 3), normal(draw, 2, 3)]
    yield "x + y", differentiated(code, draw, leaves, ["+", 0, 1], shape=(2, 3))


@promise("Value.__mul__", points=3, hint="Each gets the gradient times the other's data.")
def test_mul(code: Student, draw: Draw) -> Cases:
    """A product and the gradients of both factors are right."""
    leaves = [normal(draw, 2, 3), normal(draw, 2, 3)]
    yield "x * y", differentiated(code, draw, leaves, ["*", 0, 1], shape=(2, 3))


@promise(
    "Value.__matmul__",
    points=4,
    hint="gradient @ other.T has the shape of self, and self.T @ gradient has the shape of other.",
)
def test_matmul(code: Student, draw: Draw) -> Cases:
    """A matrix product and the gradients of both matrices are right."""
    # With square matrices, a missing transpose raises no error.
    for n, k, m in ((2, 3, 4), (3, 3, 3)):
        leaves = [normal(draw, n, k), normal(draw, k, m)]
        yield (
            f"({n}, {k}) @ ({k}, {m})",
            differentiated(code, draw, leaves, ["@", 0, 1], shape=(n, m)),
        )


@promise("Value.relu", points=3, hint="The gradient passes where data is above 0.")
def test_relu(code: Student, draw: Draw) -> Cases:
    """The positive part and its gradient are right, also at 0."""
    x = normal(draw, 3, 4)
    x[1, draw.size(0, 4)] = 0.0
    yield "x.relu()", differentiated(code, draw, [x], ["relu", 0], shape=(3, 4))


@promise("Value.sum", points=3, hint="Each element gets the gradient of its sum: expand.")
def test_sum(code: Student, draw: Draw) -> Cases:
    """The sum of all elements and its gradient are right."""
    for shape in ((3, 4), (3,), ()):
        result = differentiated(code, draw, [normal(draw, *shape)], ["sum", 0], shape=())
        yield f"the sum of a Value of shape {shape}", result


@promise("Value.sum", points=2, hint="unsqueeze(dim) puts the dimension back, and expand fills it.")
def test_sum_along(code: Student, draw: Draw) -> Cases:
    """The sum along a dimension and its gradient are right."""
    for dim, shape in ((0, (3,)), (1, (3,)), (-1, (3,))):
        line = ["sum", 0, {"dim": dim}]
        result = differentiated(code, draw, [normal(draw, 3, 3)], line, shape=shape)
        yield f"the sum of a (3, 3) along {dim}", result


@promise("Value", hint="other if isinstance(other, Value) else Value(other).")
def test_numbers(code: Student, draw: Draw) -> Cases:
    """Numbers can be added and multiplied."""
    for name in ("+", "*"):
        line = [name, 0, [draw.size(17, 29) / 10]]
        result = differentiated(code, draw, [normal(draw, 2, 3)], line, shape=(2, 3))
        yield f"x {name} a number", result
    yield "the data of a Value of 2.5", code.run("data_of", 2.5)


@promise("Value.__add__", points=2, hint="unbroadcast each gradient to the shape of its own data.")
def test_sums_of_shapes(code: Student, draw: Draw) -> Cases:
    """Either term of a sum may be broadcast, and each gradient has the shape of its own data."""
    for one, other in SHAPES:
        leaves = [normal(draw, *one), normal(draw, *other)]
        yield f"{one} + {other}", differentiated(code, draw, leaves, ["+", 0, 1], shape=(4, 3))


@promise(
    "Value.__mul__", points=2, hint="First the product with the other's data, then unbroadcast."
)
def test_products_of_shapes(code: Student, draw: Draw) -> Cases:
    """Either factor of a product may be broadcast, and each gradient has the shape of its own data."""
    for one, other in SHAPES:
        leaves = [normal(draw, *one), normal(draw, *other)]
        yield f"{one} * {other}", differentiated(code, draw, leaves, ["*", 0, 1], shape=(4, 3))


# --- graphs --------------------------------------------------------------------------------------


@promise(
    "Value.backward", points=3, hint="The result's gradient is 1; each Value passes its own on."
)
def test_chain(code: Student, draw: Draw) -> Cases:
    """Gradients pass through several operations, and begin with 1 if backward gets no argument."""
    program = [["sum", 0, {"dim": 1}], ["relu", 1], ["sum", 2]]
    yield "x.sum(1).relu().sum()", differentiated(code, draw, [normal(draw, 6, 2)], *program)


@promise("Value.backward", points=3, hint="Each use adds to grad: write grad +=, not grad =.")
def test_used_twice(code: Student, draw: Draw) -> Cases:
    """A Value that is used twice gets the sum of both gradients."""
    for words, program in {
        "x + x": [["+", 0, 0]],
        "(x + y) + x": [["+", 0, 1], ["+", 2, 0]],
        "s = x + y; t = x + s; t + s": [["+", 0, 1], ["+", 0, 2], ["+", 3, 2]],
    }.items():
        leaves = [normal(draw, 2) for _ in range(2 if "y" in words else 1)]
        yield words, differentiated(code, draw, leaves, *program, shape=(2,))


@promise(
    "Value.backward",
    points=4,
    hint="Sort topologically: a Value comes after all Values that it was made from.",
)
def test_order(code: Student, draw: Draw) -> Cases:
    """A Value passes its gradient back only after all of its uses have passed theirs."""
    # s is used both near the result and far from it, in either order.
    powers = [["*", 0, 1], ["*", 2, 2], ["*", 3, 3]]
    for words, last in {
        "s = x * y; ((s * s) * (s * s)) * s": ["*", 4, 2],
        "s = x * y; s * ((s * s) * (s * s))": ["*", 2, 4],
    }.items():
        leaves = [normal(draw, 2), normal(draw, 2)]
        yield words, differentiated(code, draw, leaves, *powers, last, shape=(2,))


@promise("Value.backward", hint="Remember the Values that you have seen.")
def test_many_paths(code: Student, draw: Draw) -> Cases:
    """A Value passes its gradient back once, however many paths lead to it."""
    doubled = [["+", i, i] for i in range(DOUBLINGS)]
    yield f"x doubled {DOUBLINGS} times", differentiated(code, draw, [normal(draw, 1)], *doubled)


@promise("Value.backward", points=2, hint="Keep the value that grad already holds, and add to it.")
def test_adds_up(code: Student, draw: Draw) -> Cases:
    """After backward of two results, a leaf has the sum of both gradients."""
    programs = [[["sum", 0]], [["relu", 0], ["sum", 1]]]
    report = code.run("differentiated", [normal(draw, 6)], programs)
    yield "the gradients after x.sum() and x.relu().sum()", entry(report, "gradients")


@promise("Value.backward", points=2, hint="Which of the operations fails by itself?")
def test_network(code: Student, draw: Draw) -> Cases:
    """The gradients of a small network are right, and data is left as it is."""
    leaves = [normal(draw, *shape) for shape in ((5, 3), (3, 4), (4,), (4, 2), (2,))]
    layers = [["@", 0, 1], ["+", 5, 2], ["relu", 6], ["@", 7, 3], ["+", 8, 4]]
    loss = [["*", 9, 9], ["sum", 10, {"dim": 1}], ["*", 11, [draw.size(1, 8) / 16]], ["sum", 12]]
    report = code.run("differentiated", leaves, [layers + loss])
    yield "the list of loss and gradients of a network", report


# --- helpers of the tests ------------------------------------------------------------------------


def normal(draw: Draw, *shape: int) -> Tensor:
    return draw.normal(*shape, dtype=torch.float64)


def differentiated(
    code: Student, draw: Draw, leaves: list[Tensor], *program: Any, shape: tuple[int, ...] = (1,)
) -> Any:
    """Return the result of a program, and the gradients of its leaves for a random gradient of this shape."""
    gradient = None if shape in ((1,), ()) else normal(draw, *shape)
    return code.run("differentiated", leaves, [list(program)], gradient)
