"""Small examples for RunningCenter, state_kinds and forgotten_tensors."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

# The mean of the first batch is [2, 0, 1], that of all three rows [4, 2, 3].
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
    missing = {
        f"{name} is not a buffer: register_buffer.": [other for other in buffers if other != name]
        for name in buffers
    }
    missing["scale is a buffer: an nn.Parameter is learned."] = [*buffers, "scale"]
    what = "the sorted list of buffers"
    assert_equal(entry(report, "buffers"), buffers, what=what, mistakes=missing)
    told = "batch_mean is in the state dict: register it with persistent=False."
    wrong, what = {told: ["batch_mean", *saved]}, "the sorted list of the state dict's keys"
    for name in saved[:2]:
        left = [other for other in saved if other != name]
        wrong[f"{name} is not in the state dict: it is saved, so no persistent=False."] = left
    assert_equal(entry(report, "saved"), saved, what=what, mistakes=wrong)


@promise(
    "RunningCenter.forward",
    points=3,
    hint="2 rows with the mean [2, 0, 1] and 1 row [8, 6, 7] have the mean [4, 2, 3].",
)
def test_example_forward(student: Student) -> None:
    """After two rows and one row running_mean is their mean, and it is subtracted."""
    report = student.run("after", BATCHES)
    counts = {
        "num_samples counts batches, not rows.": torch.tensor(2),
        "num_samples is that of the last batch alone: it grows.": torch.tensor(1),
        "num_samples counts elements, not rows.": torch.tensor(9),
        "num_samples is never updated.": torch.tensor(0),
    }
    count = entry(report, "tensors", "num_samples")
    assert_equal(count, torch.tensor(3), what="num_samples", mistakes=counts)
    assert_close(
        entry(report, "tensors", "running_mean"),
        torch.tensor([4.0, 2.0, 3.0]),
        what="running_mean",
        mistakes={
            "running_mean is the mean of the batch means: every row counts the same.": torch.tensor(
                [5.0, 3.0, 4.0]
            ),
            "running_mean is a moving average: every row counts the same.": torch.tensor(
                [0.98, 0.6, 0.79]
            ),
            "running_mean is the mean of the last batch.": torch.tensor([8.0, 6.0, 7.0]),
            "running_mean is the mean of the first batch: a single row counts, too.": torch.tensor(
                [2.0, 0.0, 1.0]
            ),
        },
    )
    results = [torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), torch.tensor([[4.0, 4.0, 4.0]])]
    first, second = BATCHES
    wrong = {
        "with the batch's own mean": [results[0], torch.zeros(1, 3)],
        "with running_mean from before the batch: update first": [first, second - first.mean(0)],
        "of x + running_mean": [first + first.mean(0), second + torch.tensor([4.0, 2.0, 3.0])],
    }
    named = {f"The result is that {words}.": values for words, values in wrong.items()}
    assert_close(entry(report, "results"), results, what="the list of both results", mistakes=named)


@promise("state_kinds", hint="named_parameters(), named_buffers(), state_dict().")
def test_example_kinds(student: Student) -> None:
    """The model has a parameter, a buffer and a non-persistent buffer."""
    right = {"1.weight": "parameter", "1.mean": "buffer", "1.scratch": "non-persistent buffer"}
    wrong = {
        "A buffer that is not saved is a non-persistent buffer.": {**right, "1.scratch": "buffer"}
    }
    answer = student.function("state_kinds")(student.made("model"))
    assert_equal(answer, right, what="the answer of state_kinds", mistakes=wrong, ordered=False)


@promise("forgotten_tensors", hint="vars(submodule) for each of named_modules().")
def test_example_forgotten(student: Student) -> None:
    """Its mask is a plain attribute, which is neither saved nor moved."""
    answer = student.function("forgotten_tensors")(student.made("model"))
    told = "forgotten_tensors has to return a list of names."
    names = sorted(map(str, entry(answer, kind=(list, tuple), told=told)))
    wrong = {
        "A buffer that is not saved still moves with the module.": ["1.mask", "1.scratch"],
        "The answer is empty: look at vars() of each submodule.": [],
        "The names of submodules are missing.": ["mask"],
    }
    assert_equal(names, ["1.mask"], what="the answer of forgotten_tensors", mistakes=wrong)
