"""Small examples for saved_bytes, training_bytes and checkpointed_forward."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

TWICE = "A storage that is saved twice is counted twice: note which ones you have counted."
FREED = "Storages at the address of a freed one are not counted: keep the storages themselves."


@promise(
    "saved_bytes", points=6, hint="with saved_tensors_hooks(pack, lambda tensor: tensor): f(*args)"
)
def test_example_saved(student: Student) -> None:
    """For x (3, 5) in float64, of 120 bytes, and an excluded weight (4, 5), of 160 bytes."""
    x, weight = torch.rand(3, 5).double(), torch.rand(4, 5).double()
    basic = {
        "You count elements, not bytes: element_size().": 15,
        "You take 4 bytes for every number: it is float64.": 60,
        "f runs twice, or its result counts twice.": 240,
        "Nothing is counted: f has to get x itself, which requires a gradient.": 0,
        "The weight is taken off, though it is not saved.": -40,
    }
    for work, count, mistakes in (
        ("x.exp()", 120, basic),
        ("x.sin() + x.cos()", 120, {TWICE: 240, "x is not counted: only exclude is left out.": 0}),
        ("x[0].sin()", 120, {"A view keeps its whole storage alive: count all of it.": 40}),
        ("x @ weight.T", 120, {"The weight is counted, which is excluded.": 280}),
        ("60 times sin", 60 * 65536, {"What is freed before f ends is missing.": 0}),
    ):
        value = student.run("measured", work, x, weight)
        some = isinstance(value, int) and value % 65536 == 0 and 0 < value < count
        assert not some, FREED
        what = f"the result of saved_bytes for {work}"
        assert_equal(value, count, what=what, mistakes=mistakes)


@promise(
    "training_bytes",
    points=2,
    hint="numel() * element_size() of each tensor; see optimizer.state, too.",
)
def test_example_training(student: Student) -> None:
    """A frozen Linear(4, 3), BatchNorm1d(3) and Linear(3, 1) in float32, after a step of Adam."""
    right = {"parameters": 100, "buffers": 32, "gradients": 40, "optimizer_state": 96}
    named = {
        "You count elements: each takes element_size() bytes.": [25, 7, 10, 24],
        "You take 4 bytes for every number: BatchNorm's counter is an int64.": [100, 28, 40, 96],
        "Frozen parameters are missing.": [40, 32, 40, 96],
        "BatchNorm's counter is missing: a buffer of one integer.": [100, 24, 40, 96],
        "Buffers of submodules are missing.": [100, 0, 40, 96],
        "The parameters are among the optimizer's state.": [100, 32, 40, 196],
        "Frozen parameters count as if they had a gradient.": [100, 32, 100, 96],
        "Adam's step counters are missing: tensors of one number.": [100, 32, 40, 80],
    }
    mistakes = {told: dict(zip(right, counts, strict=True)) for told, counts in named.items()}
    what = "the result of training_bytes"
    value = student.run("trained")
    assert_equal(value, right, what=what, mistakes=mistakes, ordered=False)


@promise(
    "checkpointed_forward",
    points=5,
    hint="for layer in layers: x = checkpoint(layer, x, use_reentrant=False)",
)
def test_example_checkpoint(student: Student) -> None:
    """Three layers that double x = 3: the last one runs again first; gradients are 8 and 12."""
    right, runs = torch.tensor([[24.0]]), ["first", "second", "third"]
    for needs_gradient in (True, False):
        report = student.run("passed", torch.tensor([[3.0]]), needs_gradient)
        assert_close(entry(report, "output"), right, what="the output")
        x_gradient = torch.tensor([[8.0]]) if needs_gradient else None
        gradients = [x_gradient, torch.tensor([[12.0]])]
        lost = {
            "The weight gets no gradient where x needs none: use_reentrant=False.": [None] * 2,
            "x gets no gradient: do not detach it.": [None, gradients[1]],
            "x gets a gradient that it does not require: leave it as it is.": [
                torch.tensor([[8.0]]),
                gradients[1],
            ],
            "The weight gets no gradient: its layer has to run again with a graph.": [
                x_gradient,
                None,
            ],
        }
        where = "requires" if needs_gradient else "does not require"
        what = f"the list of the gradients of x, which {where} one, and the first weight"
        assert_close(entry(report, "gradients"), gradients, what=what, mistakes=lost)
        twice = {"Each layer runs twice in the forward pass.": [run for run in runs for _ in "12"]}
        forward, what = entry(report, "forward"), "the list of what runs forward"
        assert_equal(forward, runs, what=what, mistakes=twice)
        again = {
            "Nothing runs again in the backward pass: checkpoint each layer.": [],
            "All layers run before the first gradient: one checkpoint for each layer.": runs,
            "The first layer does not run again: checkpoint it, too.": ["third", "second"],
            "The last layer does not run again: checkpoint it, too.": ["second", "first"],
            "It is always the last layer that runs again: hand layer itself on.": ["third"] * 3,
        }
        what, backward = "the list of what runs again", entry(report, "backward")
        assert_equal(backward, runs[::-1], what=what, mistakes=again)
