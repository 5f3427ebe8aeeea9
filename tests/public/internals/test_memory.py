"""Small examples for saved_bytes, training_bytes and checkpointed_forward."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, entry, promise
from grader.judge.student import Student

FREED = "Storages at the address of a freed one are not counted: keep the storages themselves."


@promise(
    "saved_bytes", points=6, hint="with saved_tensors_hooks(pack, lambda tensor: tensor): f(*args)"
)
def test_example_saved(student: Student) -> None:
    """Work on x (3, 5) in float64 and an excluded weight (4, 5) saves the 120 bytes of x or of a result."""
    x, weight = torch.rand(3, 5).double(), torch.rand(4, 5).double()
    for work, count in (
        ("x.exp()", 120),
        ("x.sin() + x.cos()", 120),
        ("x[0].sin()", 120),
        ("x @ weight.T", 120),
        ("60 times sin", 60 * 65536),
    ):
        value = student.run("measured", work, x, weight)
        some = isinstance(value, int) and value % 65536 == 0 and 0 < value < count
        assert not some, FREED
        what = f"the result of saved_bytes for {work}"
        assert_equal(value, count, what=what)


@promise(
    "training_bytes",
    points=2,
    hint="numel() * element_size() of each tensor; see optimizer.state, too.",
)
def test_example_training(student: Student) -> None:
    """The bytes of a frozen Linear(4, 3), BatchNorm1d(3) and Linear(3, 1) in float32, after a step of Adam."""
    right = {"parameters": 100, "buffers": 32, "gradients": 40, "optimizer_state": 96}
    what = "the result of training_bytes"
    value = student.run("trained")
    assert_equal(value, right, what=what, ordered=False)


@promise(
    "checkpointed_forward",
    points=5,
    hint="for layer in layers: x = checkpoint(layer, x, use_reentrant=False)",
)
def test_example_checkpoint(student: Student) -> None:
    """Three layers double x = 3: in the backward pass the last one runs again first; gradients are 8 and 12."""
    right, runs = torch.tensor([[24.0]]), ["first", "second", "third"]
    for needs_gradient in (True, False):
        report = student.run("passed", torch.tensor([[3.0]]), needs_gradient)
        assert_close(entry(report, "output"), right, what="the output")
        x_gradient = torch.tensor([[8.0]]) if needs_gradient else None
        gradients = [x_gradient, torch.tensor([[12.0]])]
        where = "requires" if needs_gradient else "does not require"
        what = f"the list of the gradients of x, which {where} one, and the first weight"
        assert_close(entry(report, "gradients"), gradients, what=what)
        forward, what = entry(report, "forward"), "the list of what runs forward"
        assert_equal(forward, runs, what=what)
        what, backward = "the list of what runs again", entry(report, "backward")
        assert_equal(backward, runs[::-1], what=what)
