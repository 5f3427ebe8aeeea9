"""What graph_nodes, graph_leaves and separate_gradients promise, sentence by sentence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

PLAIN = ("(b + c) * a.exp().sin().cos()", "a.exp().unbind(0)[1].sin()", "a * b + p", "(c - a * b).sum()",
         "(a.exp().sin().cos() * b).sum() * c.mean()", "F.linear(a, c, b[0, :2]).relu().sum()",
         "(a + b).sub_(c)[0]", "a * e.sum()")  # fmt: skip
WITH_NONE = ("a * 2 + 1", "torch.ones(2, 3) * (torch.zeros(2, 3) - b.sin())",
             "F.linear(a, torch.ones(4, 3), b.flatten()[:4])", "p * torch.ones(3) * p")  # fmt: skip
SHARED = ("(a * a + a).sum()", "(lambda y: (y * y + y).mean())((a * b).tanh())",
          "(lambda y: (y.sin().cos() + y) * b)(a.exp())", "torch.add(*(a * b).unbind(0))",
          "(lambda y: (y * c).sum() + y.square().sum() + c.sum())((a * b).tanh())",
          "torch.stack([(leaf + leaf).sin() for leaf in many]).sum()")  # fmt: skip
UNGRAPHED = ("torch.ones(3)", "torch.ones(3) * 2", "(a * b).detach()", "off(lambda: a * b)")
DOUBLING = "repeat(100, a, lambda y: y + y)"


@pytest.mark.points(10)
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Walk through a list of nodes, and append to it each new one of next_functions.")
def test_nodes(student: Student) -> None:
    """It names every node that can be reached from output.grad_fn, itself included."""
    for text in PLAIN:
        assert_nodes(student, text)


@pytest.mark.points(9)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint(
    "A queue: take the first node, append the new ones of its next_functions at the end."
)
def test_nodes_order(student: Student) -> None:
    """It begins with output.grad_fn and goes level by level, in the order of next_functions."""
    for text in (*PLAIN, *SHARED):
        assert_nodes(student, text, in_order=True)


@pytest.mark.points(4)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("next_functions has (None, 0) for an input that needs no gradient: skip it.")
def test_nodes_none(student: Student) -> None:
    """It skips None, which stands for an input that needs no gradient."""
    for text in WITH_NONE:
        assert_nodes(student, text)


@pytest.mark.points(9)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Keep a set of all nodes that you have met, and append only what is not in it.")
def test_nodes_shared(student: Student) -> None:
    """A node that is reached in several ways is listed once."""
    for text in SHARED:
        assert_nodes(student, text)


@pytest.mark.points(2)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
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
    what = "graph_nodes of 10,000 additions in a row, and how often each name follows itself,"
    runs = student.run("runs", "repeat(10_000, a, lambda y: y + 1)")
    assert_equal(runs, [["AddBackward0", 10_000], ["AccumulateGrad", 1]], what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_nodes")
@pytest.mark.place("graph_nodes")
@pytest.mark.hint("Ask whether a node is new before you append it, not when you come to it.")
def test_doubling_chain(student: Student) -> None:
    """It works for y = y + y, 100 times, which has 101 nodes and 2**100 paths."""
    what = "graph_nodes of y = y + y, 100 times, and how often each name follows itself,"
    runs = student.run("runs", DOUBLING)
    assert_equal(runs, [["AddBackward0", 100], ["AccumulateGrad", 1]], what=what)


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
    for text in (*PLAIN, *SHARED):
        assert_leaves(student, text)


@pytest.mark.points(6)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint(
    "Walk as in graph_nodes, and take the leaves in the order in which you meet them."
)
def test_leaves_order(student: Student) -> None:
    """The leaves are in the order of their nodes in graph_nodes."""
    for text in (*PLAIN, *WITH_NONE, *SHARED):
        assert_leaves(student, text, in_order=True)


@pytest.mark.points(6)
@pytest.mark.place("graph_leaves")
@pytest.mark.hint(
    "What is output where it has no grad_fn: a leaf that requires a gradient, or a constant?"
)
def test_leaf_output(student: Student) -> None:
    """It is [output] where output itself is a leaf that requires a gradient, [] where nothing does."""
    told = "Where output is such a leaf itself, backward accumulates in it: it is the only one."
    for text in ("a", "p", *UNGRAPHED):
        right = [text] if text in "ap" else []
        names = answer(student, "graph_leaves", text)
        assert_equal(names, right, what=f"graph_leaves({text})", mistakes={told: []})


@pytest.mark.points(2)
@pytest.mark.requires("test_leaves")
@pytest.mark.place("graph_leaves")
@pytest.mark.hint("Walk as in graph_nodes: in a loop, and each node once.")
def test_leaves_of_large_graphs(student: Student) -> None:
    """It works for long chains and for many paths."""
    for text in ("repeat(2_000, a, lambda y: y + 1)", DOUBLING):
        assert_equal(answer(student, "graph_leaves", text), ["a"], what=f"graph_leaves({text})")


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
    sums = [sum_of(right, i) for i in range(3)]
    stood = [olds.get(name, torch.zeros(())) for name in "abcd"]
    sets = (right, sums, sums[-1:] * 3)
    added = [[list(map(torch.add, row, stood)) for row in rows] for rows in sets]
    unreached = "where the loss does not reach the parameter: return zeros of its shape."
    wrong: dict[str, Any] = {
        "The gradients add up over the losses: return that of each loss alone.": sums,
        "Each list has the gradients of all losses together.": sets[2],
        "What was in .grad before is in the gradients.": added[0],
        "The gradients add up in .grad: return that of each loss alone.": added[1],
        "All lists hold the same .grad, in which all losses add up.": added[2],
        f"There is None {unreached}": [[g if g.any() else None for g in row] for row in right],
        f"There is nothing {unreached}": [[g for g in row if g.any()] for row in right],
        "There is one list for each parameter: return one for each loss.": list(
            zip(*right, strict=True)
        ),
    }
    gradients = entry(student.run("separated", values, olds, 3, "list"), "answer")
    what = "separate_gradients of three losses for four parameters"
    assert_close(gradients, right, what=what, mistakes=wrong)
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
    told = "The gradients have a graph of their own: retain_graph=True, not create_graph=True."
    wrong = {told: [bool(g.any()) for row in gradients_of(numbers(torch.float64)) for g in row]}
    assert_equal(flags, [False] * 12, what="requires_grad of each gradient", mistakes=wrong)


def answer(student: Student, function: str, text: str) -> Any:
    return entry(student.run("walked", function, text, False), "answer")


def rows_of(report: Any) -> list[Any]:
    """The walk: two names, the places of the next nodes, and the leaf of each node."""
    rows = [entry(row, kind=list, count=4) for row in entry(report, "rows", kind=list)]
    for name, prefixed, ahead, leaf in rows:
        steps = [step for step in entry(ahead, kind=list) if step is not None]
        plain = all(
            isinstance(text, str) for text in (name, prefixed, "" if leaf is None else leaf)
        )
        plain = plain and all(isinstance(step, int) and 0 <= step < len(rows) for step in steps)
        assert plain, "The graph cannot be walked after your function was called."
    return rows


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


def assert_leaves(student: Student, text: str, *, in_order: bool = False) -> None:
    """The leaves are those of a walk in the same process, in its order or in any."""
    report = student.run("walked", "graph_leaves", text, True)
    rows = rows_of(report)
    right, names = leaves(rows), entry(report, "answer")
    wrong: dict[str, Any] = {
        "These are copies: return node.variable itself.": ["another Tensor"] * len(right),
        "A leaf is given several times.": leaves(rows, again=True),
        "The order is that of a walk depth first: go level by level.": leaves(rows, depth=True),
        "Only the first input of each node is followed.": leaves(rows, first=True),
        "The leaves are in the opposite order.": right[::-1],
        "There is None for the other nodes: take AccumulateGrad alone.": [row[3] for row in rows],
    }
    if not in_order and is_permutation(names, right):
        return
    assert_equal(names, right, what=f"graph_leaves({text}), by their names,", mistakes=wrong)


def is_permutation(names: Any, right: list[str]) -> bool:
    """Whether these are the right names, in whatever order."""
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return False
    return sorted(names) == sorted(right)


def assert_nodes(student: Student, text: str, *, in_order: bool = False) -> None:
    """The names of a graph's nodes are those of a walk in the same process, in its order or in any."""
    report = student.run("walked", "graph_nodes", text, True)
    rows = rows_of(report)

    def names(**manner: bool) -> list[str]:
        return ["NoneType" if i is None else rows[i][0] for i in walk(rows, **manner)]

    right = names()
    wrong = {
        "Only the first of next_functions is followed: every input has one.": names(first=True),
        "The walk goes depth first: finish a level before the next one.": names(depth=True),
        "The walk goes depth first, and the last input first.": names(depth=True, last=True),
        "Within a level the nodes are in the opposite order.": names(last=True),
        "A node is listed once for each way to it: list it once.": names(again=True),
        "None is listed: skip it.": names(none=True),
        "AccumulateGrad is left out: it is also a node.": [n for n in right if "Grad" not in n],
        "output.grad_fn itself is left out: it is the first node.": right[1:],
        "These are node.name(), some with a prefix: take type(node).__name__.": [
            row[1] for row in rows
        ],
        "Each name is listed once: several nodes may have the same.": list(dict.fromkeys(right)),
    }
    if not in_order and is_permutation(entry(report, "answer"), right):
        return
    assert_equal(entry(report, "answer"), right, what=f"graph_nodes({text})", mistakes=wrong)


def assert_left_alone(student: Student, function: str) -> None:
    for text in (SHARED[4], PLAIN[5], "a"):
        laws.check_changes_nothing(student, function, student.made("output", text))
        error = entry(student.run("walked", function, text, True), "error")
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
