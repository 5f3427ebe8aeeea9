"""What graph_nodes, graph_leaves and separate_gradients promise, sentence by sentence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import get_gradient_edge

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

# Outputs as expressions: {a}, {b} and {c} are three leaves in a drawn order, {u} are drawn operations.
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
# y = -y, and y = y + y, so many times: also the shorter chain is too long for recursion.
CHAIN = "reduce(lambda y, _: -y, range(10_000), {a}{u})"
SHORTER_CHAIN = "reduce(lambda y, _: -y, range(2_000), {a}{u})"
DOUBLED = "reduce(lambda y, _: y + y, range(100), {a}{u})"
WITHOUT_GRAPH = ("torch.ones(3)", "torch.ones(3) * 2", "({a} * {b}).detach()")

Tensors = dict[str, Tensor]


# --- graph_nodes ---------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Walk through a list of nodes, and append to it each new one of next_functions.")
def test_nodes(student: Student) -> None:
    """It names every node that can be reached from output.grad_fn, itself included."""
    check_which(student, "nodes", PLAIN)


@pytest.mark.points(9)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint(
    "A queue: take the first node, append the new ones of its next_functions at the end."
)
def test_nodes_order(student: Student) -> None:
    """It begins with output.grad_fn and goes level by level, in the order of next_functions."""
    check_order(student, "nodes", PLAIN + SHARED)


@pytest.mark.points(4)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("next_functions has (None, 0) for an input that needs no gradient: skip it.")
def test_nodes_none(student: Student) -> None:
    """It skips None, which stands for an input that needs no gradient."""
    check_which(student, "nodes", WITH_NONE)


@pytest.mark.points(9)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Keep a set of all nodes that you have met, and append only what is not in it.")
def test_nodes_shared(student: Student) -> None:
    """A node that is reached in several ways is listed once."""
    check_which(student, "nodes", SHARED)


@pytest.mark.points(2)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.word("code that always returns [] passes, too")
@pytest.mark.hint("Where output.grad_fn is None there is nothing to walk through: return [].")
def test_no_nodes(student: Student) -> None:
    """It is [] where output has no grad_fn: a constant, a detached result, a leaf."""
    check_order(student, "nodes", (*WITHOUT_GRAPH, "{a}"))


@pytest.mark.points(8)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Use a loop, not recursion, and ask whether a node is new before you append it.")
def test_nodes_of_large_graphs(student: Student) -> None:
    """It works for a chain of 10,000 operations, and for y = y + y, 100 times."""
    check_which(student, "nodes", (CHAIN, DOUBLED))


@pytest.mark.points(3)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Reading next_functions changes nothing: no backward() is needed to walk.")
def test_nodes_leave_all(student: Student) -> None:
    """The graph is left whole, no .grad changes, and neither do the random states."""
    check_left_alone(student, "graph_nodes")


# --- graph_leaves --------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("graph_leaves")
@pytest.mark.hint("An AccumulateGrad node belongs to a leaf: node.variable is that very tensor.")
def test_leaves(student: Student) -> None:
    """It returns the leaves themselves, each once."""
    check_which(student, "leaves", PLAIN + SHARED)


@pytest.mark.points(6)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint(
    "Walk as in graph_nodes, and take the leaves in the order in which you meet them."
)
def test_leaves_order(student: Student) -> None:
    """The leaves are in the order of their nodes in graph_nodes."""
    check_order(student, "leaves", PLAIN + WITH_NONE + SHARED)


@pytest.mark.points(6)
@pytest.mark.place("graph_leaves")
@pytest.mark.hint(
    "What is output where it has no grad_fn: a leaf that requires a gradient, or a constant?"
)
def test_leaf_output(student: Student) -> None:
    """It is [output] where output itself is a leaf that requires a gradient, [] where nothing does."""
    check_order(student, "leaves", ("{a}", "{b}", *WITHOUT_GRAPH))


@pytest.mark.points(2)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint("Walk as in graph_nodes: in a loop, and each node once.")
def test_leaves_of_large_graphs(student: Student) -> None:
    """It works for long chains and for many paths."""
    check_order(student, "leaves", (SHORTER_CHAIN, DOUBLED))


@pytest.mark.points(2)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint("Reading next_functions changes nothing: no backward() is needed for the leaves.")
def test_leaves_leave_all(student: Student) -> None:
    """The graph is left whole, no .grad changes, and neither do the random states."""
    check_left_alone(student, "graph_leaves")


# --- separate_gradients --------------------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("One pass for each loss, and zeros wherever it gives no gradient.")
def test_gradients(student: Student) -> None:
    """Each list holds the gradients of that loss alone, with zeros where the loss does not reach."""
    values = parameter_values(torch.float32)
    answer = entry(student.run("separated", values, old_gradients(values)), "answer")
    what = "separate_gradients of three losses for four parameters"
    assert_close(answer, gradients_of(values), what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("parameters = list(parameters) first; torch.zeros_like(p) has the dtype of p.")
def test_gradients_of_a_generator(student: Student) -> None:
    """The parameters may come from a generator, and the gradients have their dtype."""
    values = parameter_values(torch.float64)
    what = "separate_gradients for four float64 parameters in a generator"
    assert_close(student.run("of_a_generator", values), gradients_of(values), what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint(
    "create_graph=True gives the gradients a graph; retain_graph=True keeps the old one."
)
def test_gradients_have_no_graph(student: Student) -> None:
    """The gradients have no graph of their own."""
    report = student.run("separated", parameter_values(torch.float64), {})
    what = "the list of the lists of requires_grad of each gradient"
    right = [[False] * 4] * 3  # of four parameters, for each of three losses
    assert_equal(entry(report, "requires_grad"), right, what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("retain_graph=True for each loss, the last one included.")
def test_losses_stay_whole(student: Student) -> None:
    """The graphs are left whole: the caller can still call backward on each loss."""
    values = parameter_values(torch.float64)
    gradient = student.run("backward_after_separating", values)
    first, second, third = gradients_of(values)
    what = "a.grad after the caller's own backward passes"
    assert_close(gradient, first[0] + second[0] + third[0], what=what)


@pytest.mark.points(22)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("torch.autograd.grad returns gradients, backward() stores them in .grad.")
def test_gradients_leave_all(student: Student) -> None:
    """No .grad changes, neither that of the parameters nor that of other leaves."""
    values = parameter_values(torch.float64)
    losses = student.made("losses", values)
    unreached = torch.ones(2, requires_grad=True)
    laws.check_changes_nothing(student, "separate_gradients", losses, [unreached])
    olds = old_gradients(values)
    left = entry(student.run("separated", values, olds), "grads")
    what = "each .grad after separate_gradients (x is another leaf)"
    assert_equal(left, {name: olds.get(name) for name in values}, what=what)


# --- the graphs ------------------------------------------------------------------------------------


def leaf_values() -> Tensors:
    return {name: torch.rand(2, 3) for name in "abc"}


def drawn(templates: Iterable[str]) -> list[str]:
    """The expressions, each with an order of the leaves and operations of its own."""
    texts = []
    for template in templates:
        a, b, c = random.sample("abc", 3)
        operations = "".join(random.sample(OPERATIONS, random.randint(2, 3)))
        texts.append(template.format(a=a, b=b, c=c, u=operations))
    return texts


def built(text: str, values: Tensors) -> tuple[Tensor, Tensors]:
    """What this expression is, and its leaves."""
    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    output: Tensor = eval(text, {"torch": torch, "F": F, "reduce": reduce, **leaves})
    return output, leaves


def walk(output: Tensor) -> list[Any]:
    """The nodes of a graph, breadth first; a leaf has its AccumulateGrad node."""
    nodes: list[Any] = [get_gradient_edge(output).node] if output.requires_grad else []
    met = set(nodes)
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None and following not in met:
                nodes.append(following)
                met.add(following)
    return nodes


def right_nodes(text: str, values: Tensors) -> list[str]:
    """The names of the nodes of this expression; a leaf has none, although an AccumulateGrad belongs to it."""
    output, _ = built(text, values)
    return [] if output.is_leaf else [type(node).__name__ for node in walk(output)]


def right_leaves(text: str, values: Tensors) -> list[str]:
    """The names of the leaves of this expression."""
    output, leaves = built(text, values)
    names = {leaf: name for name, leaf in leaves.items()}
    return [names[node.variable] for node in walk(output) if hasattr(node, "variable")]


RIGHT = {"nodes": right_nodes, "leaves": right_leaves}


# --- checks ----------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """What the student's function gives for an expression, by names, and what it should give."""

    call: str
    given: list[Any]
    right: list[str]


def answers(student: Student, probe: str, templates: Iterable[str]) -> Iterator[Answer]:
    """The answers of graph_nodes or graph_leaves, "nodes" or "leaves", to expressions."""
    texts, values = drawn(templates), leaf_values()
    reply = entry(student.run(probe, texts, values), kind=list, count=len(texts))
    for text, names in zip(texts, reply, strict=True):
        told = f"graph_{probe} gives something else than a list of {probe}."
        given = list(entry(names, kind=(list, tuple), told=told))
        yield Answer(f"graph_{probe}({text})", given, RIGHT[probe](text, values))


def check_which(student: Student, probe: str, templates: Iterable[str]) -> None:
    """Each of the right names is given as often as it should be, in whatever order."""
    for answer in answers(student, probe, templates):
        given, right = Counter(map(str, answer.given)), Counter(answer.right)
        what = f"how often {answer.call} gives each name"
        assert_equal(dict(given), dict(right), what=what, ordered=False)


def check_order(student: Student, probe: str, templates: Iterable[str]) -> None:
    """The right names are given in the right order."""
    for answer in answers(student, probe, templates):
        assert_equal(answer.given, answer.right, what=f"{answer.call}, by names,")


def check_left_alone(student: Student, function: str) -> None:
    """A function changes nothing, and the caller's backward pass works afterwards."""
    (text,), values = drawn([SHARED[-1]]), leaf_values()
    laws.check_changes_nothing(student, function, student.made("output", text, values))
    output, leaves = built(text, values)
    output.sum().backward()
    right = {name: leaf.grad for name, leaf in leaves.items()}
    what = f"the dict of gradients of the caller's backward pass after {function}"
    assert_close(student.run("gradients_after", function, text, values), right, what=what)


# --- the losses ------------------------------------------------------------------------------------


def parameter_values(dtype: torch.dtype) -> Tensors:
    shapes = {"x": (4, 3), "a": (3, 2), "b": (2,), "c": (2, 2), "d": (3,)}
    return {name: torch.randn(shape, dtype=dtype) for name, shape in shapes.items()}


def old_gradients(values: Tensors) -> Tensors:
    """What stands in .grad before, in some of them."""
    return {name: torch.randn_like(values[name]) for name in "xbd"}


def gradients_of(values: Tensors) -> list[list[Tensor]]:
    """Those of the probe's three losses for a, b, c and d, by hand."""
    x, a, b, c, d = values.values()
    hidden = (x @ a).tanh()
    slope = 1 - hidden**2
    no_b, no_c, no_d = (torch.zeros_like(value) for value in (b, c, d))
    return [
        [x.T @ (slope * b), hidden.sum(0), no_c, no_d],
        [x.T @ (slope * 2 * hidden / hidden.numel()), no_b, no_c, no_d],
        [x.T @ slope, no_b, 3 * c**2, no_d],
    ]
