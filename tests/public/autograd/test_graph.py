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
        student.run("example", "graph_nodes"),
        names,
        what="graph_nodes((a.exp() * b + b).sum())",
        mistakes={
            "Only the first of next_functions is followed: every input has one.": [
                *names[:3],
                *names[4:],
            ],
            "The walk goes depth first: finish a level before you go on to the next one.": [
                *names[:3],
                "ExpBackward0",
                "AccumulateGrad",
                "AccumulateGrad",
            ],
            "The leaf b is reached in two ways: name its node once.": [*names, "AccumulateGrad"],
            "AccumulateGrad is left out: it is also a node.": [*names[:3], "ExpBackward0"],
            "output.grad_fn is left out: it is the first node.": names[1:],
            "Only the last of next_functions is followed: every input has one.": (
                [*names[:2], "AccumulateGrad"]
            ),
            "Within a level the order is another one: take the nodes in the order in which they were found, "
            "those of next_functions from the first to the last.": (
                [*names[:2], names[3], names[2], *names[4:]]
            ),
            "Nodes with the same name are taken for one: compare the nodes themselves.": names[:5],
        },
    )


@promise("graph_leaves", hint="node.variable of an AccumulateGrad node is the leaf itself.")
def test_example_leaves(student: Student) -> None:
    """The leaves of (a.exp() * b + b).sum() are b and a, in this order."""
    assert_equal(
        student.run("example", "graph_leaves"),
        ["b", "a"],
        what="graph_leaves((a.exp() * b + b).sum())",
        mistakes={
            "These are copies: return node.variable itself.": ["another tensor"] * 2,
            "The leaves are in the order of a walk depth first: go level by level.": ["a", "b"],
            "A leaf is given several times.": ["b", "b", "a"],
            "Only one way through the graph is followed: every input leads to leaves.": ["a"],
            "Leaves with equal values are taken for one: compare the objects.": ["b"],
        },
    )


@promise(
    "separate_gradients",
    hint="One pass for each loss, which returns its gradients and leaves every .grad alone.",
)
def test_example_gradients(student: Student) -> None:
    """For a = 2 and b = 3 the gradients of a * b are 3 and 2, those of a * a are 4 and 0."""
    right = [[torch.tensor(3.0), torch.tensor(2.0)], [torch.tensor(4.0), torch.tensor(0.0)]]
    assert_close(
        student.run("gradients"),
        right,
        what="separate_gradients([a * b, a * a], [a, b])",
        mistakes={
            "The gradients add up over the losses: return that of each loss alone.": [
                right[0],
                [torch.tensor(7.0), torch.tensor(2.0)],
            ],
            "a * a does not reach b: return zeros, not None.": [right[0], [right[1][0], None]],
            "There is one list for each parameter: return one for each loss.": list(
                zip(*right, strict=True)
            ),
            "The lists are joined: return one for each loss.": [*right[0], *right[1]],
        },
    )
