"""Small examples for torch.compile, counted."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, promise
from grader.judge.student import Student


@promise(
    "CountingBackend",
    hint="Count the nodes of gm.graph.nodes whose op begins with call_, and return gm.forward.",
)
def test_example_backend(student: Student) -> None:
    """The graph of (x * 2).sum() has two call nodes, and computes 6 for [1, 2]."""
    six = [torch.tensor(6.0)]
    what = "graphs, operations and the result of a run"
    assert_equal(student.run("backend"), [1, [2], six], what=what)


@promise("compilations", hint="The difference of backend.graphs before and after each call.")
def test_example_compilations(student: Student) -> None:
    """A function with one graph break is compiled in two graphs, which are used again for the same size."""
    calls = [(torch.ones(3),), (torch.ones(3),)]
    value = student.function("compilations")(student.made("broken"), calls)
    assert_equal(value, [2, 0], what="compilations for sizes 3 and 3")


@promise("graph_breaks", hint="Count the graphs of one call: how many pieces does one break make?")
def test_example_breaks(student: Student) -> None:
    """A function with one graph break has 1."""
    value = student.function("graph_breaks")(student.made("broken"), torch.ones(3))
    assert_equal(value, 1, what="graph_breaks of a function with one break")


@promise("clip_by_norm", hint="torch.where takes the condition as a tensor: no .item(), no if.")
def test_example_clip(student: Student) -> None:
    """[3, 4] has the norm 5: it becomes [1.5, 2] for max_norm 2.5, and stays for 10; zeros stay zeros."""
    x = torch.tensor([3.0, 4.0])
    clip = student.function("clip_by_norm")
    assert_close(clip(x, 2.5), x / 2, what="clip_by_norm([3, 4], 2.5)")
    assert_close(clip(x, 10.0), x, what="clip_by_norm([3, 4], 10)")
    assert_close(clip(0 * x, 1.0), 0 * x, what="clip_by_norm([0, 0], 1)")


@promise(
    "first_and_later",
    hint="Read the clock before the first call, after it, and after the last one.",
)
def test_example_times(student: Student) -> None:
    """For calls of 3, 0.5 and 1.5 seconds, the first takes 3 seconds, and a later one takes 1 on average."""
    assert_close(student.run("timed"), (3.0, 1.0), what="first_and_later")
