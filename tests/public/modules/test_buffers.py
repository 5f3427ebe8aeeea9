"""Small examples for RunningCenter, state_kinds and forgotten_tensors."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

# The mean of the first batch is [2, 0, 1], and the mean of all three rows is [4, 2, 3].
BATCHES = [torch.tensor([[1.0, 0.0, 1.0], [3.0, 0.0, 1.0]]), torch.tensor([[8.0, 6.0, 7.0]])]


@promise(
    "RunningCenter.__init__",
    points=3,
    hint="register_buffer for three tensors, with persistent=False for one of them.",
)
def test_example_state(student: Student) -> None:
    """A layer has three buffers; scale, running_mean and num_samples are in its state dict."""
    report = student.run("after", [])
    buffers = ["batch_mean", "num_samples", "running_mean"]
    saved = ["num_samples", "running_mean", "scale"]
    what = "the sorted list of buffers"
    assert_equal(entry(report, "buffers"), buffers, what=what)
    what = "the sorted list of the state dict's keys"
    assert_equal(entry(report, "saved"), saved, what=what)


@promise(
    "RunningCenter.forward",
    points=3,
    hint="2 rows with the mean [2, 0, 1] and 1 row [8, 6, 7] have the mean [4, 2, 3].",
)
def test_example_forward(student: Student) -> None:
    """After two rows and one row running_mean is their mean, and it is subtracted."""
    report = student.run("after", BATCHES)
    count = entry(report, "tensors", "num_samples")
    assert_equal(count, torch.tensor(3), what="num_samples")
    assert_close(
        entry(report, "tensors", "running_mean"), torch.tensor([4.0, 2.0, 3.0]), what="running_mean"
    )
    results = [torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), torch.tensor([[4.0, 4.0, 4.0]])]
    assert_close(entry(report, "results"), results, what="the list of both results")


@promise("state_kinds", hint="named_parameters(), named_buffers(), state_dict().")
def test_example_kinds(student: Student) -> None:
    """The model has a parameter, a buffer and a non-persistent buffer."""
    right = {"1.weight": "parameter", "1.mean": "buffer", "1.scratch": "non-persistent buffer"}
    answer = student.function("state_kinds")(student.made("model"))
    assert_equal(answer, right, what="the answer of state_kinds", ordered=False)


@promise("forgotten_tensors", hint="vars(submodule) for each of named_modules().")
def test_example_forgotten(student: Student) -> None:
    """The model's mask is a plain attribute, which is neither saved nor moved."""
    answer = student.function("forgotten_tensors")(student.made("model"))
    told = "forgotten_tensors has to return a list of names."
    names = sorted(map(str, entry(answer, kind=(list, tuple), told=told)))
    assert_equal(names, ["1.mask"], what="the answer of forgotten_tensors")
