"""Tests of graph_nodes, graph_leaves and separate_gradients."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, exactly, laws, promise
from grader.judge.student import Student

# Outputs, written as expressions. {a}, {b} and {c} are three leaves in a drawn order, {u} are drawn operations.
OPERATIONS = (".exp()", ".sin()", ".cos()", ".tanh()", ".sigmoid()", ".abs()", ".square()")
PLAIN = (
    "({b} + {c}) * {a}{u}",
    "({c} - {a} * {b}{u}).sum()",
    "F.linear({a}{u}, {c}, {b}[0, :2]).relu().sum()",
    "({a} + {b}{u}).sub_({c})[0]",
)
WITH_NONE = (
    "torch.ones(2, 3) * {b}{u} + 1",
    "F.linear({a}{u}, torch.ones(4, 3), {b}.flatten()[:4])",
)
SHARED = (
    "({a}{u} * {a} + {a}).sum()",
    "(lambda y: (y * y + y).mean())(({a} * {b}){u})",
    "(lambda y: (y{u} + y) * {b})({a}.exp())",
    "(lambda y: (y * {c}).sum() + y.square().sum() + {c}.sum())(({a} * {b}){u})",
)
# y = -y or y = y + y, many times. Even the shorter chain is too long for recursion.
CHAIN = "reduce(lambda y, _: -y, range(10_000), {a}{u})"
SHORTER_CHAIN = "reduce(lambda y, _: -y, range(2_000), {a}{u})"
DOUBLED = "reduce(lambda y, _: y + y, range(100), {a}{u})"
WITHOUT_GRAPH = ("torch.ones(3)", "torch.ones(3) * 2", "({a} * {b}).detach()")
# Shapes of the leaves of the probe's losses; x is not a parameter.
SHAPES = {"x": (4, 3), "a": (3, 2), "b": (2,), "c": (2, 2), "d": (3,)}

Tensors = dict[str, Tensor]


# --- graph_nodes ---------------------------------------------------------------------------------


@promise(
    "graph_nodes",
    points=10,
    hint="Walk through a list of nodes, and append to it each new one of next_functions.",
)
def test_nodes(code: Student, draw: Draw) -> Cases:
    """graph_nodes names output.grad_fn and every node that can be reached from it."""
    yield from counts(code, draw, "graph_nodes", PLAIN)


@promise(
    "graph_nodes",
    points=9,
    hint="A queue: take the first node, append the new ones of its next_functions at the end.",
    after="test_nodes",
)
def test_nodes_order(code: Student, draw: Draw) -> Cases:
    """The names begin with output.grad_fn and go level by level, in the order of next_functions."""
    yield from orders(code, draw, "graph_nodes", PLAIN + SHARED)


@promise(
    "graph_nodes",
    points=4,
    hint="next_functions has (None, 0) for an input that needs no gradient: skip it.",
    after="test_nodes",
)
def test_nodes_none(code: Student, draw: Draw) -> Cases:
    """graph_nodes skips None, which stands for an input that needs no gradient."""
    yield from counts(code, draw, "graph_nodes", WITH_NONE)


@promise(
    "graph_nodes",
    points=9,
    hint="Keep a set of all nodes that you have met, and append only nodes that are not in it.",
    after="test_nodes",
)
def test_nodes_shared(code: Student, draw: Draw) -> Cases:
    """A node that is reached in several ways is listed once."""
    yield from counts(code, draw, "graph_nodes", SHARED)


@promise(
    "graph_nodes",
    points=2,
    hint="Where output.grad_fn is None there is nothing to walk through: return [].",
    after="test_nodes",
    word="code that always returns [] passes, too",
)
def test_no_nodes(code: Student, draw: Draw) -> Cases:
    """The list is empty if output has no grad_fn: for a constant, a detached result or a leaf."""
    yield from orders(code, draw, "graph_nodes", (*WITHOUT_GRAPH, "{a}"))


@promise(
    "graph_nodes",
    points=8,
    hint="Use a loop, not recursion, and ask whether a node is new before you append it.",
    after="test_nodes",
)
def test_nodes_of_large_graphs(code: Student, draw: Draw) -> Cases:
    """graph_nodes works for a chain of 10,000 operations, and for y = y + y, 100 times."""
    yield from counts(code, draw, "graph_nodes", (CHAIN, DOUBLED))


@promise(
    "graph_nodes",
    points=3,
    hint="Reading next_functions changes nothing: no backward() is needed to walk.",
    after="test_nodes",
)
def test_nodes_leave_all(code: Student, draw: Draw) -> Cases:
    """The graph is left whole, no .grad changes, and neither do the random states."""
    yield backward_after(code, draw, "graph_nodes")


# --- graph_leaves --------------------------------------------------------------------------------


@promise(
    "graph_leaves",
    points=8,
    hint="An AccumulateGrad node belongs to a leaf: node.variable is that very tensor.",
)
def test_leaves(code: Student, draw: Draw) -> Cases:
    """graph_leaves returns the leaves themselves, each once."""
    yield from counts(code, draw, "graph_leaves", PLAIN + SHARED)


@promise(
    "graph_leaves",
    points=6,
    hint="Walk as in graph_nodes, and take the leaves in the order in which you meet them.",
    after="test_leaves",
)
def test_leaves_order(code: Student, draw: Draw) -> Cases:
    """The leaves are in the order of their nodes in graph_nodes."""
    yield from orders(code, draw, "graph_leaves", PLAIN + WITH_NONE + SHARED)


@promise(
    "graph_leaves",
    points=6,
    hint="What is output where it has no grad_fn: a leaf that requires a gradient, or a constant?",
)
def test_leaf_output(code: Student, draw: Draw) -> Cases:
    """The list is [output] if output is a leaf that requires a gradient, and [] if nothing requires one."""
    yield from orders(code, draw, "graph_leaves", ("{a}", "{b}", *WITHOUT_GRAPH))


@promise(
    "graph_leaves",
    points=2,
    hint="Walk as in graph_nodes: in a loop, and each node once.",
    after="test_leaves",
)
def test_leaves_of_large_graphs(code: Student, draw: Draw) -> Cases:
    """graph_leaves works for long chains and for many paths."""
    yield from orders(code, draw, "graph_leaves", (SHORTER_CHAIN, DOUBLED))


@promise(
    "graph_leaves",
    points=2,
    hint="Reading next_functions changes nothing: no backward() is needed for the leaves.",
    after="test_leaves",
)
def test_leaves_leave_all(code: Student, draw: Draw) -> Cases:
    """The graph is left whole, no .grad changes, and neither do the random states."""
    yield backward_after(code, draw, "graph_leaves")


# --- separate_gradients --------------------------------------------------------------------------


@promise(
    "separate_gradients",
    points=9,
    hint="One pass for each loss, and zeros wherever it gives no gradient.",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Each list holds the gradients of one loss only, with zeros for parameters that it does not reach."""
    report = code.run("separated", new_values(draw), new_gradients(draw))
    yield "separate_gradients of three losses for four parameters", entry(report, "answer")


@promise(
    "separate_gradients",
    points=3,
    hint="parameters = list(parameters) first; torch.zeros_like(p) has the dtype of p.",
    after="test_gradients",
)
def test_gradients_of_a_generator(code: Student, draw: Draw) -> Cases:
    """The parameters may come from a generator, and the gradients have their dtype."""
    answer = code.run("of_a_generator", new_values(draw, torch.float64))
    yield "separate_gradients for four float64 parameters in a generator", answer


@promise(
    "separate_gradients",
    points=3,
    hint="create_graph=True gives the gradients a graph; retain_graph=True keeps the old one.",
    after="test_gradients",
)
def test_gradients_have_no_graph(code: Student, draw: Draw) -> Cases:
    """The gradients have no graph of their own."""
    report = code.run("separated", new_values(draw), {})
    yield "the list of the lists of requires_grad of each gradient", entry(report, "requires_grad")


@promise(
    "separate_gradients",
    points=5,
    hint="retain_graph=True for each loss, the last one included.",
    after="test_gradients",
)
def test_losses_stay_whole(code: Student, draw: Draw) -> Cases:
    """The graphs are left whole: the caller can still call backward on each loss."""
    gradient = code.run("backward_after_separating", new_values(draw))
    yield "a.grad after the caller's own backward passes", gradient


@promise(
    "separate_gradients",
    points=22,
    hint="torch.autograd.grad returns gradients, backward() stores them in .grad.",
    after="test_gradients",
)
def test_gradients_leave_all(code: Student, draw: Draw) -> Cases:
    """No .grad changes, neither of the parameters nor of other leaves."""
    losses = code.made("losses", new_values(draw))
    unreached = torch.ones(2, requires_grad=True)
    laws.check_changes_nothing(code, "separate_gradients", losses, [unreached])
    left = entry(code.run("separated", new_values(draw), new_gradients(draw)), "grads")
    yield "each .grad after separate_gradients (x is another leaf)", exactly(left)


# --- helpers of the tests ------------------------------------------------------------------------


def drawn(draw: Draw, templates: Iterable[str]) -> list[str]:
    """Fill in each template: the leaves in a drawn order, and drawn operations."""
    texts = []
    for template in templates:
        a, b, c = ("abc"[i] for i in draw.permutation(3))
        order = draw.permutation(len(OPERATIONS))[: draw.size(2, 4)]
        texts.append(template.format(a=a, b=b, c=c, u="".join(OPERATIONS[i] for i in order)))
    return texts


def leaf_values(draw: Draw) -> Tensors:
    return {name: draw.uniform(2, 3) for name in "abc"}


def orders(code: Student, draw: Draw, function: str, templates: Iterable[str]) -> Cases:
    """Yield the names that graph_nodes or graph_leaves gives for expressions of these templates, in order."""
    texts = drawn(draw, templates)
    report = code.run("orders", function, texts, leaf_values(draw))
    for text in texts:
        yield f"{function}({text}), by names,", entry(report, text)


def counts(code: Student, draw: Draw, function: str, templates: Iterable[str]) -> Cases:
    """Yield how often graph_nodes or graph_leaves gives each name, in any order."""
    texts = drawn(draw, templates)
    report = code.run("counts", function, texts, leaf_values(draw))
    for text in texts:
        yield f"the number of times that {function}({text}) gives each name", entry(report, text)


def backward_after(code: Student, draw: Draw, function: str) -> tuple[str, Tensors]:
    """Check that the function changes nothing. Return the gradients of the caller's backward pass after it."""
    (text,), values = drawn(draw, [SHARED[-1]]), leaf_values(draw)
    laws.check_changes_nothing(code, function, code.made("output", text, values))
    what = f"the dict of gradients of the caller's backward pass after {function}"
    return what, code.run("gradients_after", function, text, values)


def new_values(draw: Draw, dtype: torch.dtype = torch.float32) -> Tensors:
    return {name: draw.normal(*shape, dtype=dtype) for name, shape in SHAPES.items()}


def new_gradients(draw: Draw) -> Tensors:
    """Draw what is in the .grad of some leaves before the call."""
    return {name: draw.normal(*SHAPES[name]) for name in "xbd"}
