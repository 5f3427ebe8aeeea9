"""Tests of LossHistory and train_epoch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, exactly, laws, promise, within
from grader.judge.student import Student

RTOL = 1e-5  # of means of float32 losses
RTOL_OF_FLOAT64 = 1e-12  # of means of float64 losses, only in test_precision
UPDATES = 4  # of a history that is watched
# For train_epoch: three batches in the first epoch, and two in the second.
ROWS = [3, 1, 4, 2, 5]


# --- LossHistory ---------------------------------------------------------------------------------


@promise("LossHistory", hint="Make the lists and sums of a history in __init__, not in the class.")
def test_shares_nothing(code: Student, draw: Draw) -> Cases:
    """Two histories share nothing: neither their epochs nor the losses of the current one."""
    report = code.run("interleaved", new_losses(draw, 2))
    yield "the epochs of a new history", entry(report, "unused")
    ends = within(entry(report, "ends"), rtol=RTOL)
    yield "the results of two histories with one loss each", ends


@promise("LossHistory.update", points=4, hint="loss.detach() has the value of loss and no graph.")
def test_keeps_no_graph(code: Student, draw: Draw) -> Cases:
    """No graph of a loss that the caller dropped is alive after an update, or after the end of the epoch."""
    loss = new_loss(draw)
    report = code.run("watched", loss, UPDATES)
    yield (
        "the list of the numbers of live graphs after each update and the epoch",
        entry(report, "alive"),
    )
    check_mean(entry(report, "mean"), loss, UPDATES)


@promise(
    "LossHistory.update",
    points=3,
    hint="Use neither detach_() nor += on a tensor that shares memory with loss: detach() shares it.",
)
def test_leaves_the_loss(code: Student, draw: Draw) -> Cases:
    """loss stays as it was, now and at later updates, and loss.backward() still works."""
    # In both dtypes, because converting a loss to the dtype that it already has gives its own memory.
    for dtype in (torch.float32, torch.float64):
        loss = new_loss(draw).to(dtype)
        # A size of 1 does not change the first loss, so that a sum may begin in its memory.
        report = code.run("left", loss, [1, 2, 2])
        yield f"the losses after three updates ({dtype})", exactly(entry(report, "values"))
        check_mean(entry(report, "mean"), loss, 5)


@promise(
    "LossHistory.update",
    points=11,
    hint="Add up tensors: no item(), float(), if or print of one, no cpu(), no numpy().",
    after="test_keeps_no_graph",
)
def test_update_reads_nothing(code: Student, draw: Draw) -> Cases:
    """update reads no value, so that the CPU need not wait, and losses on the meta device are fine."""
    loss, late = new_loss(draw), new_loss(draw)
    report = code.run("watched", loss, UPDATES)
    reads = " ".join(map(str, entry(report, "updating", kind=list)))
    yield f"the list of reads of a value in {UPDATES} updates", reads
    check_mean(entry(report, "mean"), loss, UPDATES)
    # These losses get their value only after the updates.
    code.run("without_values", loss, UPDATES)
    check_mean(code.run("with_values", late), late, UPDATES)
    # In a new sandbox, because an epoch without values cannot be ended.
    yield "the list of moves of a loss from the meta device", code.anew("on_meta", loss)


@promise(
    "LossHistory.update",
    points=2,
    hint='if loss.dim() != 0: raise ValueError("loss ..."), and the same for size < 1.',
)
def test_update_errors(student: Student) -> None:
    """A loss that is not 0-d, or a size below 1, is a ValueError that names it."""
    table = {
        "loss": [(torch.ones(shape), 1) for shape in ((1,), (3,), (2, 3))],
        "size": [(torch.ones(()), size) for size in (0, -1, -7)],
    }
    laws.check_errors(student, student.probe("update"), table, fine=(torch.ones(()), 1))


@promise(
    "LossHistory.end_epoch",
    points=6,
    hint="Sum loss * size and size, divide once, append the float, and begin anew.",
)
def test_means(code: Student, draw: Draw) -> Cases:
    """end_epoch gives the mean weighted by size, a float, appends it to epochs, and begins anew."""
    sizes_of_epochs = ([3, 1, 4], [1], [None, 5], [2, 2], [64, 64, 64, 7])
    epochs = [(new_losses(draw, len(sizes)), sizes) for sizes in sizes_of_epochs]
    report = code.run("played", epochs)
    yield "the results of 5 epochs", within(entry(report, "ends"), rtol=RTOL)
    yield "the list epochs after 5 epochs", within(entry(report, "epochs"), rtol=RTOL)


@promise("LossHistory.end_epoch", hint="Leave out no loss, and begin anew after each epoch.")
def test_odd_losses(code: Student, draw: Draw) -> Cases:
    """inf and NaN show in the mean of their own epoch only."""
    for odd in (math.inf, math.nan):
        losses = [*new_losses(draw, 2), torch.tensor(odd)]
        report = code.run("played", [(losses, [1, 1, 1]), (new_losses(draw, 1), [1])])
        first, second = entry(report, "numbers", kind=list, count=2)
        is_finite = not isinstance(first, float) or math.isfinite(first)
        yield f"the statement that the mean is finite with a loss of {odd}", is_finite
        yield f"the mean of the epoch after a loss of {odd}", within(second, rtol=RTOL)


@promise(
    "LossHistory.end_epoch",
    points=3,
    hint="(total / samples).item(), of one tensor: total = torch.stack(losses).sum().",
)
def test_end_reads_once(code: Student, draw: Draw) -> Cases:
    """end_epoch reads one value in all, however many updates there were."""
    loss = new_loss(draw)
    report = code.run("watched", loss, UPDATES)
    reads = max(1, len(entry(report, "ending", kind=list)))
    yield f"the number of values that end_epoch reads after {UPDATES} updates", reads
    check_mean(entry(report, "mean"), loss, UPDATES)


@promise(
    "LossHistory.end_epoch",
    points=2,
    hint="Make the detached loss float32 before you weigh and add it; float64 stays.",
)
def test_precision(code: Student, draw: Draw) -> Cases:
    """Half-precision losses are summed in float32 or better, float64 losses in float64."""
    # In half precision, a sum of 300 losses stops growing, and the product with a size of 1000 overflows.
    for dtype, sizes in ((torch.bfloat16, [1] * 300), (torch.float16, [1000, 700, 3])):
        losses = [torch.tensor(100.0, dtype=dtype)] * len(sizes)
        numbers = entry(code.run("played", [(losses, sizes)]), "numbers")
        yield f"the mean of {len(sizes)} {dtype} losses of 100", within(numbers, rtol=RTOL)
    losses = new_losses(draw, 3, dtype=torch.float64)
    numbers = entry(code.run("played", [(losses, [2, 2, 2])]), "numbers")
    yield "the mean of float64 losses", within(numbers, rtol=RTOL_OF_FLOAT64, atol=0.0)


@promise(
    "LossHistory.end_epoch",
    hint="Raise where there was no update since the last epoch, before you append.",
)
def test_empty_epochs(code: Student, draw: Draw) -> Cases:
    """An epoch without an update is a ValueError, and epochs stays as it was."""
    report = code.run("played", [([], []), (new_losses(draw, 1), [1]), ([], [])])
    numbers = within(entry(report, "numbers"), rtol=RTOL)
    yield "the results of epochs with one update or none", numbers
    epochs = entry(report, "epochs", kind=(list, tuple), told="epochs is not a list.")
    yield "the statement that an epoch without updates is appended to epochs", len(epochs) > 1


# --- train_epoch ---------------------------------------------------------------------------------


@promise("train_epoch", points=2, hint="model.train() before the first batch.")
def test_mode(code: Student, draw: Draw) -> Cases:
    """Every submodule is in training mode in every forward pass, whatever the mode before."""
    yield "the modes of the model and its parts for each batch", entry(trained(code, draw), "modes")


@promise(
    "train_epoch",
    points=4,
    hint="For each batch: zero_grad, loss_fn(model(inputs), targets), backward, step.",
)
def test_steps(code: Student, draw: Draw) -> Cases:
    """Each batch makes one step, by the gradient of its own loss only."""
    yield "the weights after five batches", entry(trained(code, draw), "weights")


@promise(
    "train_epoch",
    points=5,
    hint="history.update(loss, len(inputs)), and return history.end_epoch().",
    after="test_steps",
)
def test_updates(code: Student, draw: Draw) -> Cases:
    """history.update gets the loss and the number of rows of each batch; the result is the epoch's mean."""
    report = trained(code, draw)
    yield "the losses that history.update gets", entry(report, "losses")
    yield "the sizes that history.update gets", entry(report, "sizes")
    yield "the number of calls of history.end_epoch in two epochs", entry(report, "number of ends")
    yield (
        "the statement that train_epoch returns the results of history.end_epoch",
        entry(report, "returned"),
    )


@promise(
    "train_epoch",
    points=5,
    hint="No item(), float(), if or print of a tensor in the loop: history has it all.",
    after="test_updates",
)
def test_reads_nothing(code: Student, draw: Draw) -> Cases:
    """No value is read in the loop, and after the epoch no graph is alive."""
    report = trained(code, draw)
    yield "the list of reads of a value in train_epoch", entry(report, "reads")
    yield "the number of live graphs after train_epoch", entry(report, "alive")


@promise(
    "train_epoch",
    hint="Call no torch.manual_seed: the seed is the caller's.",
    after="test_steps",
)
def test_random_state(code: Student, draw: Draw) -> Cases:
    """The global random state is not seeded."""
    yield "the statement that train_epoch seeds or draws", entry(trained(code, draw), "seeded")


# --- helpers of the tests ------------------------------------------------------------------------


def new_losses(draw: Draw, count: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Draw different losses, none of them near zero."""
    return [draw.uniform(low=0.5, high=3.5, dtype=dtype) for _ in range(count)]


def new_loss(draw: Draw) -> Tensor:
    """Draw a loss from so wide a range that no guess is even roughly right."""
    return draw.uniform(high=10.0).exp()


def check_mean(mean: Any, loss: Tensor, samples: int) -> None:
    """Check that the mean is made from the losses, which are all equal: a value beside the sandbox's words.

    Anything from the mean to the sum passes here, because test_means judges whether it is right.
    """
    value = loss.item()
    plausible = isinstance(mean, float) and 0.99 * value < mean < 1.01 * samples * value
    assert plausible, "The mean that end_epoch gives is not made of the losses."


def trained(code: Student, draw: Draw) -> Any:
    """Return the probe's report of two epochs of training, on inputs (rows, 2, 3) and targets (rows, 2, 2)."""
    batches = [
        (draw.normal(rows, 2, 3, dtype=torch.float64), draw.normal(rows, 2, 2, dtype=torch.float64))
        for rows in ROWS
    ]
    weights = draw.normal(8, dtype=torch.float64, scale=0.3)
    return code.run("trained", weights, [batches[:3], batches[3:]])
