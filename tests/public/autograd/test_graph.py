"""Small examples for graph_nodes, graph_leaves and separate_gradients."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, promise
from grader.judge.student import Student


@promise(
    "graph_nodes",
    hint="Begin with output.grad_fn; then the nodes in its next_functions; then those in theirs.",
)
def test_example_nodes(student: Student) -> None:
    """The graph of (a.exp() * b + b).sum() has six nodes, two of them AccumulateGrad, one for each leaf."""
    names = [
        "SumBackward0",
        "AddBackward0",
        "MulBackward0",
        "AccumulateGrad",
        "ExpBackward0",
        "AccumulateGrad",
    ]
    assert_equal(
        student.run("example", "graph_nodes"), names, what="graph_nodes((a.exp() * b + b).sum())"
    )


@promise("graph_leaves", hint="node.variable of an AccumulateGrad node is the leaf itself.")
def test_example_leaves(student: Student) -> None:
    """The leaves of (a.exp() * b + b).sum() are b and a, in this order."""
    assert_equal(
        student.run("example", "graph_leaves"),
        ["b", "a"],
        what="graph_leaves((a.exp() * b + b).sum())",
    )


@promise(
    "separate_gradients",
    hint="One pass for each loss, which returns its gradients and leaves every .grad alone.",
)
def test_example_gradients(student: Student) -> None:
    """For a = 2 and b = 3 the gradients of a * b are 3 and 2, those of a * a are 4 and 0."""
    right = [[torch.tensor(3.0), torch.tensor(2.0)], [torch.tensor(4.0), torch.tensor(0.0)]]
    assert_close(student.run("gradients"), right, what="separate_gradients([a * b, a * a], [a, b])")
