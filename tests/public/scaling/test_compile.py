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
    wrong = {
        "You count all nodes: the input and the output are no calls.": [1, [4], six],
        "call_method is left out, or call_function: both are calls.": [1, [1], six],
        "The input or the output is counted, too: calls only.": [1, [3], six],
        "The backend returns nothing: return gm.forward.": [1, [2], "NoneType"],
        "The backend returns results: return the callable, gm.forward.": [1, [2], "tuple"],
        "graphs is 2 after one graph: begin at 0, and count in __call__, not in each run.": [
            2,
            [2],
            six,
        ],
    }
    what = "graphs, operations and the result of a run"
    assert_equal(student.run("backend"), [1, [2], six], what=what, mistakes=wrong)


@promise("compilations", hint="The difference of backend.graphs before and after each call.")
def test_example_compilations(student: Student) -> None:
    """A function with one graph break is compiled in two graphs, which serve for the same size again."""
    calls = [(torch.ones(3),), (torch.ones(3),)]
    wrong = {
        "The same size again compiles nothing: are these totals, or is it compiled anew?": [2, 2],
        "A call that is broken once compiles two graphs: count both.": [1, 0],
    }
    value = student.function("compilations")(student.made("broken"), calls)
    assert_equal(value, [2, 0], what="compilations for sizes 3 and 3", mistakes=wrong)


@promise("graph_breaks", hint="Count the graphs of one call: how many pieces does one break make?")
def test_example_breaks(student: Student) -> None:
    """A function with one graph break has one."""
    value = student.function("graph_breaks")(student.made("broken"), torch.ones(3))
    wrong = {"These are graphs: one break makes two of them.": 2}
    assert_equal(value, 1, what="graph_breaks of a function with one break", mistakes=wrong)


@promise("clip_by_norm", hint="torch.where takes the condition as a tensor: no .item(), no if.")
def test_example_clip(student: Student) -> None:
    """[3, 4] has the norm 5: it becomes [1.5, 2] for max_norm 2.5, and stays for 10; zeros stay zeros."""
    x = torch.tensor([3.0, 4.0])
    clip = student.function("clip_by_norm")
    wrong = {
        "x is not clipped.": x,
        "Each entry is clamped: scale all of x by one factor.": x.clamp(max=2.5),
        "The norm is the root of the sum of squares: the root is missing.": x / 10,
        "The norm is the root of the sum of squares, not a sum of magnitudes.": x * (2.5 / 7),
        "The norm is the root of the sum of squares, not the largest entry.": x * (2.5 / 4),
    }
    assert_close(clip(x, 2.5), x / 2, what="clip_by_norm([3, 4], 2.5)", mistakes=wrong)
    stretched = {"Short vectors are stretched: they stay as they are.": 2 * x}
    assert_close(clip(x, 10.0), x, what="clip_by_norm([3, 4], 10)", mistakes=stretched)
    assert_close(
        clip(0 * x, 1.0),
        0 * x,
        what="clip_by_norm([0, 0], 1)",
        mistakes={"0 / 0 is NaN.": x / 0 * 0},
    )


@promise(
    "first_and_later",
    hint="Read the clock before the first call, after it, and after the last one.",
)
def test_example_times(student: Student) -> None:
    """Calls of 3, 0.5 and 1.5 seconds are 3 seconds for the first, and 1 for a later one."""
    wrong = {"The mean has the first call in it.": (3.0, 5 / 3)}
    wrong["The later calls are not divided by their number."] = (3.0, 2.0)
    wrong["The sum of the later calls is divided by all calls."] = (3.0, 2 / 3)
    wrong["The second is the time of one later call: take their mean."] = (3.0, 1.5)
    wrong["The second is the fastest of the later calls, not their mean."] = (3.0, 0.5)
    wrong["Both are exchanged."] = (1.0, 3.0)
    untimed = "No call is untimed: the first one of all is `first`"
    wrong |= {f"{untimed}, and there are `calls` in all.": (0.5, 0.75), f"{untimed}.": (0.5, 1.5)}
    assert_close(student.run("timed"), (3.0, 1.0), what="first_and_later", mistakes=wrong)
