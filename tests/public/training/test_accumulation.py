"""Small examples for accumulate_gradients and train_epoch; probe_accumulation.py has the model."""

from __future__ import annotations

import torch
from torch import Tensor

from grader.judge.checks import assert_close, entry, laws, must_raise, promise
from grader.judge.student import Student


def batch(rows: list[list[float]], targets: list[float]) -> tuple[Tensor, Tensor]:
    return torch.tensor(rows).float(), torch.tensor(targets).float().unsqueeze(1)


# With the weight (1, 2) the outputs are 1, 2, 3 and 4, and the losses of the batches 3 and 16.
BATCHES = [batch([[1, 0], [0, 1], [1, 1]], [0, 0, 1]), batch([[2, 1]], [0])]


def tensor(*numbers: float) -> Tensor:
    return torch.tensor([numbers])


@promise(
    "accumulate_gradients",
    points=3,
    hint="Of 4 rows the first batch has 3: its loss counts 3/4, the other one's 1/4.",
)
def test_example_gradients(student: Student) -> None:
    """Batches of 3 rows and 1 row with the losses 3 and 16 give the gradient (5.5, 4) and the loss 6.25."""
    model = student.made("model")
    seen = laws.observe(student, "accumulate_gradients", model, BATCHES, student.made("loss"))
    grad = entry(seen.checked().gradients(0), "weight")
    assert_close(grad, tensor(5.5, 4.0), what="the gradient of the weight")
    assert_close(seen.value, 6.25, what="the result")


@promise(
    "accumulate_gradients",
    hint="if not batches: raise ValueError(...), whose message names batches.",
)
def test_example_no_batches(student: Student) -> None:
    """No batches are a ValueError that names batches."""
    model, loss_fn = student.made("model"), student.made("loss")
    call = "accumulate_gradients(model, [], loss_fn)"
    with must_raise(ValueError, mentions="batches", call=call):
        student.function("accumulate_gradients")(model, [], loss_fn)


@promise(
    "train_epoch",
    points=3,
    hint="Take accumulation_steps batches from iter(loader); what is left is a group, too.",
)
def test_example_epoch(student: Student) -> None:
    """An epoch over three batches with accumulation_steps=2 makes two steps, and returns two losses."""
    last = batch([[1, 0]], [0])
    report = student.run("epoch", [*BATCHES, last], 2)
    # (1, 2) - 0.5 * (5.5, 4) = (-1.75, 0); the last batch's gradient there is (-3.5, 0).
    weight = entry(report, "weight")
    assert_close(weight, tensor(0.0, 0.0), what="the weight after the epoch")
    assert_close(entry(report, "losses"), [6.25, 3.0625], what="the list of the losses")


@promise(
    "train_epoch",
    hint="nn.utils.clip_grad_norm_(model.parameters(), max_norm), right before the step.",
)
def test_example_clipping(student: Student) -> None:
    """With max_norm=1 the step's gradient (5.5, 4) is clipped to the length 1."""
    weight = entry(student.run("epoch", BATCHES, 2, 1.0), "weight")
    length = (5.5**2 + 4**2) ** 0.5
    right = tensor(1 - 0.5 * 5.5 / length, 2 - 0.5 * 4 / length)
    what = "the weight after a step with max_norm=1"
    assert_close(weight, right, what=what, rtol=1e-5)
