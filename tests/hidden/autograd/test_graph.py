"""What graph_nodes, graph_leaves and separate_gradients promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

# Outputs as expressions. {a}, {b} and {c} are three leaves in a drawn order, {u} are drawn operations; p, e
# (which is empty) and many are other leaves.
PLAIN = (
    "({b} + {c}) * {a}{u}",
    "{a}{u}.unbind(0)[1].sin()",
    "{a} * {b}{u} + p",
    "({c} - {a} * {b}{u}).sum()",
    "({a}{u} * {b}).sum() * {c}.mean()",
    "F.linear({a}{u}, {c}, {b}[0, :2]).relu().sum()",
    "({a} + {b}{u}).sub_({c})[0]",
    "{a}{u} * e.sum()",
)
WITH_NONE = (
    "{a}{u} * 2 + 1",
    "torch.ones(2, 3) * (torch.zeros(2, 3) - {b}{u})",
    "F.linear({a}{u}, torch.ones(4, 3), {b}.flatten()[:4])",
    "p{u} * torch.ones(3) * p",
)
SHARED = (
    "({a}{u} * {a} + {a}).sum()",
    "(lambda y: (y * y + y).mean())(({a} * {b}){u})",
    "(lambda y: (y{u} + y) * {b})({a}.exp())",
    "torch.add(*({a} * {b}{u}).unbind(0))",
    "(lambda y: (y * {c}).sum() + y.square().sum() + {c}.sum())(({a} * {b}){u})",
    "torch.stack([(leaf + leaf){u} for leaf in many]).sum()",
)
UNGRAPHED = ("torch.ones(3)", "torch.ones(3) * 2", "(a * b).detach()", "off(lambda: a * b)")
OPERATIONS = (".exp()", ".sin()", ".cos()", ".tanh()", ".sigmoid()", ".abs()", ".square()")
STEPS = {"y + 1": "AddBackward0", "y - 1": "SubBackward0", "y * 2": "MulBackward0"}


@pytest.mark.points(10)
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Walk through a list of nodes, and append to it each new one of next_functions.")
def test_nodes(student: Student) -> None:
    """It names every node that can be reached from output.grad_fn, itself included."""
    assert_nodes(student, PLAIN)


@pytest.mark.points(9)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint(
    "A queue: take the first node, append the new ones of its next_functions at the end."
)
def test_nodes_order(student: Student) -> None:
    """It begins with output.grad_fn and goes level by level, in the order of next_functions."""
    assert_nodes(student, (*PLAIN, *SHARED), in_order=True)


@pytest.mark.points(4)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("next_functions has (None, 0) for an input that needs no gradient: skip it.")
def test_nodes_none(student: Student) -> None:
    """It skips None, which stands for an input that needs no gradient."""
    assert_nodes(student, WITH_NONE)


@pytest.mark.points(9)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Keep a set of all nodes that you have met, and append only what is not in it.")
def test_nodes_shared(student: Student) -> None:
    """A node that is reached in several ways is listed once."""
    assert_nodes(student, SHARED)


@pytest.mark.points(2)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.word("code that always returns [] passes, too")
@pytest.mark.hint("Where output.grad_fn is None there is nothing to walk through: return [].")
def test_no_nodes(student: Student) -> None:
    """It is [] where output has no grad_fn: a constant, a detached result, a leaf."""
    for text in (*UNGRAPHED, "a", "p"):
        assert_equal(answer(student, "graph_nodes", text), [], what=f"graph_nodes({text})")


@pytest.mark.points(4)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("A function that calls itself is too deep after 1,000 nodes: use a loop.")
def test_long_chain(student: Student) -> None:
    """It works for a chain of 10,000 operations."""
    times, step = random.randint(9_000, 10_000), random.choice([*STEPS])
    what = f"graph_nodes of {step}, {times} times in a row, and how often each name follows itself,"
    runs = student.run("runs", repeated(times, "a", step))
    assert_equal(runs, [[STEPS[step], times], ["AccumulateGrad", 1]], what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Ask whether a node is new before you append it, not when you come to it.")
def test_doubling_chain(student: Student) -> None:
    """It works for y = y + y, 100 times, which has 101 nodes and 2**100 paths."""
    times = random.randint(80, 120)
    what = f"graph_nodes of y = y + y, {times} times, and how often each name follows itself,"
    runs = student.run("runs", repeated(times, "a", "y + y"))
    assert_equal(runs, [["AddBackward0", times], ["AccumulateGrad", 1]], what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Reading next_functions changes nothing: no backward() is needed to walk.")
def test_nodes_leave_all(student: Student) -> None:
    """The graph is left whole, no .grad changes, and neither do the random states."""
    assert_left_alone(student, "graph_nodes")


@pytest.mark.points(8)
@pytest.mark.place("graph_leaves")
@pytest.mark.hint("An AccumulateGrad node belongs to a leaf: node.variable is that very tensor.")
def test_leaves(student: Student) -> None:
    """It returns the leaves themselves, each once."""
    assert_leaves(student, (*PLAIN, *SHARED))


@pytest.mark.points(6)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint(
    "Walk as in graph_nodes, and take the leaves in the order in which you meet them."
)
def test_leaves_order(student: Student) -> None:
    """The leaves are in the order of their nodes in graph_nodes."""
    assert_leaves(student, (*PLAIN, *WITH_NONE, *SHARED), in_order=True)


@pytest.mark.points(6)
@pytest.mark.place("graph_leaves")
@pytest.mark.hint(
    "What is output where it has no grad_fn: a leaf that requires a gradient, or a constant?"
)
def test_leaf_output(student: Student) -> None:
    """It is [output] where output itself is a leaf that requires a gradient, [] where nothing does."""
    leaves = random.sample("abcp", 2)
    texts = random.sample([*leaves, *UNGRAPHED], 6)
    answers = {text: answer(student, "graph_leaves", text) for text in texts}
    for text in (*leaves, *UNGRAPHED):
        right = [text] if text in leaves else []
        assert_equal(answers[text], right, what=f"graph_leaves({text})")


@pytest.mark.points(2)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint("Walk as in graph_nodes: in a loop, and each node once.")
def test_leaves_of_large_graphs(student: Student) -> None:
    """It works for long chains and for many paths."""
    for times, step in ((2_000, "y + 1"), (100, "y + y")):
        text = repeated(times, leaf := random.choice("abcp"), step)
        assert_equal(answer(student, "graph_leaves", text), [leaf], what=f"graph_leaves({text})")


@pytest.mark.points(2)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint("Reading next_functions changes nothing: no backward() is needed for the leaves.")
def test_leaves_leave_all(student: Student) -> None:
    """The graph is left whole, no .grad changes, and neither do the random states."""
    assert_left_alone(student, "graph_leaves")


@pytest.mark.points(9)
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("One pass for each loss, and zeros wherever it gives no gradient.")
def test_gradients(student: Student) -> None:
    """Each list holds the gradients of that loss alone, with zeros where the loss does not reach."""
    values = numbers(torch.float32)
    olds = {name: torch.full_like(values[name], 7.0) for name in "xbc"}
    right = gradients_of(values)
    gradients = entry(student.run("separated", values, olds, 3, "list"), "answer")
    what = "separate_gradients of three losses for four parameters"
    assert_close(gradients, right, what=what)
    alone = entry(student.run("separated", values, {}, 1, "list"), "answer")
    assert_close(alone, right[:1], what="separate_gradients of one loss")


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("parameters = list(parameters) first; torch.zeros_like(p) has the dtype of p.")
def test_gradients_of_a_generator(student: Student) -> None:
    """The parameters may come from a generator, and the gradients have their dtype."""
    values = numbers(torch.float64)
    gradients = entry(student.run("separated", values, {}, 3, "generator"), "answer")
    what = "separate_gradients for four parameters in a generator"
    assert_close(gradients, gradients_of(values), what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("retain_graph=True for each loss, the last one included.")
def test_losses_stay_whole(student: Student) -> None:
    """The graphs are left whole: the caller can still call backward on each loss."""
    freed = "the caller's own backward fails: keep the graph of each loss, also of the last one."
    for count in (3, 1):
        values = numbers(torch.float64)
        later = entry(student.run("separated", values, {}, count, "list"), "later")
        assert not isinstance(later, str), f"After separate_gradients {freed}"
        a = sum_of(gradients_of(values), count - 1)[0]
        assert_close(entry(later, "a"), a, what="a.grad after the caller's own backward passes")


@pytest.mark.points(22)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint("torch.autograd.grad returns gradients, backward() stores them in .grad.")
def test_gradients_leave_all(student: Student) -> None:
    """No .grad changes, neither that of the parameters nor that of other leaves."""
    values = numbers(torch.float64)
    losses, other = student.made("losses", values), torch.ones(2, requires_grad=True)
    laws.check_changes_nothing(student, "separate_gradients", losses, [other])
    some = {name: torch.randn_like(values[name]) for name in ("x", "b", "d")}
    for grads in (some, {}):
        left = entry(student.run("separated", values, grads, 3, "list"), "grads")
        what = "each .grad after separate_gradients (x is another leaf)"
        assert_equal(left, {name: grads.get(name) for name in values}, what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("separate_gradients")
@pytest.mark.hint(
    "create_graph=True gives the gradients a graph; retain_graph=True keeps the old one."
)
def test_gradients_have_no_graph(student: Student) -> None:
    """The gradients have no graph of their own."""
    flags = entry(student.run("separated", numbers(torch.float64), {}, 3, "list"), "requires_grad")
    assert_equal(flags, [False] * 12, what="requires_grad of each gradient")


def answer(student: Student, function: str, text: str) -> Any:
    return student.run("answer", function, text)


def repeated(times: int, leaf: str, step: str) -> str:
    return f"repeat({times}, {leaf}, lambda y: {step})"


def graphs(student: Student) -> dict[str, tuple[str, list[Any]]]:
    """Of each template the expression that was drawn, and its walk in a sandbox without the student's code.

    A row of the walk is a node: two names, the places of the next nodes, and its leaf.
    """

    def ask() -> dict[str, tuple[str, list[Any]]]:
        templates = (*PLAIN, *WITH_NONE, *SHARED)
        texts = [drawn(template) for template in templates]
        rows = student.apart("rows", texts)
        return dict(zip(templates, zip(texts, rows, strict=True), strict=True))

    return student.once("graphs", ask)


def drawn(template: str) -> str:
    leaves = dict(zip("abc", random.sample("abc", 3), strict=True))
    return template.format(u="".join(random.sample(OPERATIONS, random.randint(2, 3))), **leaves)


def walk(rows: list[Any], *, depth: bool = False, again: bool = False, first: bool = False,
         none: bool = False, last: bool = False) -> list[Any]:  # fmt: skip
    """The places of the nodes in this order, right or wrong; None for an input without a gradient."""
    places: list[Any] = []
    waiting: list[Any] = [0]
    while waiting and len(places) < 500:
        place = waiting.pop(-1 if depth else 0)
        if place is not None:
            if place in places and not again:
                continue
            ahead = [i for i in rows[place][2][: 1 if first else None] if none or i is not None]
            waiting += ahead[::-1] if depth != last else ahead
        places.append(place)
    return places


def leaves(rows: list[Any], **manner: bool) -> list[str]:
    return [rows[i][3] for i in walk(rows, **manner) if rows[i][3] is not None]


def assert_leaves(student: Student, templates: Iterable[str], *, in_order: bool = False) -> None:
    """The leaves are those of the walk, in its order or in any."""
    for text, rows in map(graphs(student).__getitem__, templates):
        right, names = leaves(rows), answer(student, "graph_leaves", text)
        if not in_order and is_permutation(names, right):
            continue
        assert_equal(names, right, what=f"graph_leaves({text}), by their names,")


def is_permutation(names: Any, right: list[str]) -> bool:
    """Whether these are the right names, in whatever order."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return False
    return sorted(names) == sorted(right)


def assert_nodes(student: Student, templates: Iterable[str], *, in_order: bool = False) -> None:
    """The names of the nodes are those of the walk, in its order or in any."""
    for text, rows in map(graphs(student).__getitem__, templates):
        names = answer(student, "graph_nodes", text)
        right = names_of(rows)
        if not in_order and is_permutation(names, right):
            continue
        assert_equal(names, right, what=f"graph_nodes({text})")


def names_of(rows: list[Any], **manner: bool) -> list[str]:
    return ["NoneType" if i is None else rows[i][0] for i in walk(rows, **manner)]


def assert_left_alone(student: Student, function: str) -> None:
    for text in (drawn(SHARED[4]), drawn(PLAIN[5]), "a"):
        laws.check_changes_nothing(student, function, student.made("output", text))
        error = student.run("backward_after", function, text)
        assert error is None, f"After {function} a backward pass fails: leave the graph whole."


def numbers(dtype: torch.dtype) -> dict[str, Tensor]:
    shapes = {"x": (4, 3), "a": (3, 2), "b": (2,), "c": (2, 2), "d": (3,)}
    return {name: torch.randn(shape, dtype=dtype) for name, shape in shapes.items()}


def gradients_of(values: dict[str, Tensor]) -> list[list[Tensor]]:
    """Those of the probe's three losses, by hand."""
    x, a, b, c, d = values.values()
    hidden = (x @ a).tanh()
    slope = 1 - hidden**2
    no_b, no_c, no_d = (torch.zeros_like(value) for value in (b, c, d))
    return [
        [x.T @ (slope * b), hidden.sum(0), no_c, no_d],
        [x.T @ (slope * 2 * hidden / hidden.numel()), no_b, no_c, no_d],
        [x.T @ slope, no_b, 3 * c**2, no_d],
    ]


def sum_of(rows: list[list[Tensor]], i: int) -> list[Tensor]:
    """The gradients of the first losses, up to the i-th, added up."""
    return [torch.stack(column).sum(0) for column in zip(*rows[: i + 1], strict=True)]
