"""Tests of LossHistory and train_epoch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

RTOL = 1e-5  # of means of float32 losses
RTOL_OF_FLOAT64 = 1e-12  # of means of float64 losses, in test_precision alone
NO_LIST = "epochs is no list."
UPDATES = 4  # of a history that is watched
# For train_epoch: three batches in the first epoch, and two in the second.
ROWS = [3, 1, 4, 2, 5]
MODULES = 4  # of the probe's network: itself, its body, and two in there
LR, MOMENTUM = 1e-3, 0.9  # of the probe's optimizer


# --- LossHistory ---------------------------------------------------------------------------------


@pytest.mark.place("LossHistory")
@pytest.mark.hint("Make the lists and sums of a history in __init__, not in the class.")
def test_shares_nothing(student: Student) -> None:
    """Two histories share nothing: neither their epochs nor the losses of the current one."""
    losses = new_losses(2)
    report = student.run("interleaved", losses)
    unused = entry(report, "unused", kind=(list, tuple), told=NO_LIST)
    assert not unused, "A new history has epochs of another one: make the list in __init__."
    ends = [number(end) for end in entry(report, "ends", kind=list)]
    what = "the list of the results of two histories with one loss each"
    assert_close(ends, [loss.item() for loss in losses], what=what, rtol=RTOL)


@pytest.mark.points(4)
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint("loss.detach() has the value of loss and no graph.")
def test_keeps_no_graph(student: Student) -> None:
    """After each update, and after the end of the epoch, no graph is alive that the caller dropped."""
    loss, report = watched(student)
    what = f"the list of the numbers of live graphs after each of {UPDATES} updates and the epoch"
    assert_equal(entry(report, "alive"), [0] * (UPDATES + 1), what=what)
    check_mean(report, loss, UPDATES)


@pytest.mark.points(3)
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint("No detach_() and no += on what shares memory with loss: detach() does share it.")
def test_leaves_the_loss(student: Student) -> None:
    """loss stays as it was, now and at later updates, and loss.backward() still works."""
    # What is made float32, or float64, still has the memory of a loss that is it already.
    for dtype in (torch.float32, torch.float64):
        loss = new_loss().to(dtype)
        # A size of 1 leaves the first loss as it is, and its memory with it.
        sizes = [1, 2, 2]
        report = student.run("left", loss, sizes)
        what = f"the list of the values of the losses after three updates ({dtype})"
        assert_equal(entry(report, "values"), [loss] * len(sizes), what=what)
        check_mean(report, loss, sum(sizes))


@pytest.mark.points(11)
@pytest.mark.requires("test_keeps_no_graph")
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint("Add up tensors: no item(), float(), if or print of one, no cpu(), no numpy().")
def test_update_reads_nothing(student: Student) -> None:
    """update reads no value, so that the CPU need not wait, and losses on the meta device are fine."""
    loss, report = watched(student)
    check_unread(entry(report, "updating", kind=list), "update", f"{UPDATES} updates")
    # The value that these updates could read is drawn after them.
    student.run("without_values", loss, UPDATES)
    late = new_loss()
    what = "the mean of losses that have their values only after the updates"
    check_mean(student.run("with_values", late), late, UPDATES, what)
    # In a sandbox of its own: this epoch has no value, so that it cannot be ended.
    moves = student.anew("on_meta", loss)
    shown = str(moves)[:90]
    told = (
        f"A loss on the meta device has no value to read or to move ({shown}): add up where it is."
    )
    assert laws.same(moves, []), told


@pytest.mark.points(2)
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint('if loss.dim() != 0: raise ValueError("loss ..."), and the same for size < 1.')
def test_update_errors(student: Student) -> None:
    """A loss that is not 0-d, or a size below 1, is a ValueError that names it."""
    table = {
        "loss": [(torch.ones(shape), 1) for shape in ((1,), (3,), (2, 3))],
        "size": [(torch.ones(()), size) for size in (0, -1, -7)],
    }
    laws.check_errors(student, student.probe("update"), table, fine=(torch.ones(()), 1))


@pytest.mark.points(6)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Sum loss * size and size, divide once, append the float, and begin anew.")
def test_means(student: Student) -> None:
    """end_epoch gives the mean weighted by size, a float, appends it to epochs, and begins anew."""
    sizes_of_epochs = ([3, 1, 4], [1], [None, 5], [2, 2], [64, 64, 64, 7])
    epochs = [(new_losses(len(sizes)), sizes) for sizes in sizes_of_epochs]
    report = student.run("played", epochs)
    right = [mean_of(losses, sizes) for losses, sizes in epochs]
    assert_close(
        entry(report, "ends"), right, what="the list of the results of 5 epochs", rtol=RTOL
    )
    own = entry(report, "epochs", kind=(list, tuple), told=NO_LIST)
    assert_close(own, right, what="epochs after them", rtol=RTOL)


@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Leave out no loss, and begin anew after each epoch.")
def test_odd_losses(student: Student) -> None:
    """inf and NaN show in the mean of their epoch alone."""
    for odd in (math.inf, math.nan):
        losses = new_losses(3)
        losses[1] = torch.tensor(odd)
        next_loss = new_losses(1)
        report = student.run("played", [(losses, [1, 1, 1]), (next_loss, [1])])
        first, second = [number(end) for end in entry(report, "ends", kind=list, count=2)]
        shows = isinstance(first, float) and not math.isfinite(first)
        assert shows, f"An epoch with a loss of {odd} ends with {first!r:.30}: let it through."
        assert_close(second, next_loss[0].item(), what="the mean of the next epoch", rtol=RTOL)


@pytest.mark.points(3)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("(total / samples).item(), of one tensor: total = torch.stack(losses).sum().")
def test_end_reads_once(student: Student) -> None:
    """end_epoch reads one value in all, however many updates there were."""
    loss, report = watched(student)
    reads = len(entry(report, "ending", kind=list))
    told = (
        f"end_epoch reads {reads} values after {UPDATES} updates: sum on the device, and read the "
        "mean alone."
    )
    assert reads <= 1, told
    check_mean(report, loss, UPDATES)


@pytest.mark.points(2)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Make the detached loss float32 before you weigh and add it; float64 stays.")
def test_precision(student: Student) -> None:
    """Half-precision losses are summed in float32 or better, float64 losses in float64."""
    # A sum of 300 stops growing, and the product with a size of 1000 overflows.
    for dtype, sizes in ((torch.bfloat16, [1] * 300), (torch.float16, [1000, 700, 3])):
        losses = [torch.tensor(100.0, dtype=dtype)] * len(sizes)
        report = student.run("played", [(losses, sizes)])
        what = f"the mean of {len(sizes)} {dtype} losses of 100"
        assert_close(number(entry(report, "ends", 0)), 100.0, what=what, rtol=RTOL)
    losses, sizes = [loss.double() / 3 for loss in new_losses(3)], [2, 2, 2]
    end = number(entry(student.run("played", [(losses, sizes)]), "ends", 0))
    right = mean_of(losses, sizes)
    assert_close(end, right, what="the mean of float64 losses", rtol=RTOL_OF_FLOAT64, atol=0)


@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Raise where there was no update since the last epoch, before you append.")
def test_empty_epochs(student: Student) -> None:
    """An epoch without an update is a ValueError, and epochs stays as it was."""
    losses = new_losses(1)
    report = student.run("played", [([], []), (losses, [1]), ([], [])])
    first, mean, last = entry(report, "ends", kind=list, count=3)
    told = "end_epoch without an update since the last one raises no ValueError."
    assert laws.same([first, last], ["ValueError"] * 2), told
    assert_close(number(mean), losses[0].item(), what="the mean of one loss", rtol=RTOL)
    epochs = entry(report, "epochs", kind=(list, tuple), told=NO_LIST)
    assert len(epochs) <= 1, "end_epoch without an update appends to epochs before it raises."


# --- train_epoch ---------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("model.train() before the first batch.")
def test_mode(student: Student) -> None:
    """Every submodule is in training mode in every forward pass, whatever the mode before."""
    told = "A part of the model is in evaluation mode: call model.train() before the batches."
    modes = entry(trained(student).report, "modes")
    assert laws.same(modes, [[True] * MODULES] * len(ROWS)), told


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("For each batch: zero_grad, loss_fn(model(inputs), targets), backward, step.")
def test_steps(student: Student) -> None:
    """Each batch makes one step, by the gradient of its own loss alone."""
    run = trained(student)
    what = "the vector of the weights after five batches"
    assert_close(entry(run.report, "weights"), run.weights, what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_steps")
@pytest.mark.place("train_epoch")
@pytest.mark.hint("history.update(loss, len(inputs)), and return history.end_epoch().")
def test_updates(student: Student) -> None:
    """history.update gets the loss and the rows of each batch; the mean of the epoch is the result."""
    run = trained(student)
    report = run.report
    updates = entry(report, "updates", kind=list)
    losses = [entry(update, "loss") for update in updates]
    assert_close(losses, run.losses, what="the list of the losses that history.update gets")
    sizes = [entry(update, "size") for update in updates]
    assert_equal(sizes, ROWS, what="the list of the sizes that history.update gets")
    ends = entry(report, "ends", kind=list)
    assert len(ends) == 2, f"In two epochs history.end_epoch is called {len(ends)} times."
    what = "the list of the results of two epochs, against those of history.end_epoch,"
    assert_close(entry(report, "values"), ends, what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_updates")
@pytest.mark.place("train_epoch")
@pytest.mark.hint("No item(), float(), if or print of a tensor in the loop: history has it all.")
def test_reads_nothing(student: Student) -> None:
    """No value is read in the loop, and after the epoch no graph is alive."""
    report = trained(student).report
    check_unread(entry(report, "reads", kind=list), "train_epoch", "5 batches")
    told = "After train_epoch a graph is alive: something still holds a loss."
    assert laws.same(entry(report, "alive"), 0), told


@pytest.mark.requires("test_steps")
@pytest.mark.place("train_epoch")
@pytest.mark.hint("Call no torch.manual_seed: the seed is the caller's.")
def test_random_state(student: Student) -> None:
    """The global random state is not seeded."""
    before, after = entry(trained(student).report, "random", kind=list, count=2)
    told = "train_epoch seeds or draws from torch's global random state."
    assert laws.same(before, after), told


# --- what is drawn, and what is right ------------------------------------------------------------


def new_losses(count: int) -> list[Tensor]:
    """Different losses, none of them near zero."""
    return [torch.rand(()) * 3 + 0.5 for _ in range(count)]


def new_loss() -> Tensor:
    """A loss of any magnitude, of which no guess is even roughly right."""
    return (10 * torch.rand(())).exp()


def mean_of(losses: Sequence[Tensor], sizes: Sequence[int | None]) -> float:
    """The mean of losses, each of which counts by its size; a size of None is 1."""
    counts = [size or 1 for size in sizes]
    weighted = [loss.item() * count for loss, count in zip(losses, counts, strict=True)]
    return math.fsum(weighted) / sum(counts)


def number(value: Any) -> Any:
    """A 0-d tensor as its number: that a mean has to be a float, test_means says."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def check_mean(
    report: Any, loss: Tensor, samples: int, what: str = "the mean that end_epoch gives"
) -> None:
    """The mean is made of the losses, which are all equal: a value beside the sandbox's words.

    Their sum will do, too, and whatever is between: that it is wrong, test_means says.
    """
    end, right = number(entry(report, "mean")), loss.item()
    plausible = isinstance(end, float) and 0.99 * right < end < 1.01 * samples * right
    if not plausible:
        assert_close(end, right, what=what)


def check_unread(reads: list[Any], name: str, when: str) -> None:
    """Fail where values were read, and tell by what the first one was."""
    by = str(reads[0])[:30].strip("_") if reads else ""
    assert not reads, (
        f"{name} reads {len(reads)} values in {when} (by {by}), and the CPU waits for each. Add up "
        "tensors, and read one value when the epoch ends."
    )


def watched(student: Student) -> tuple[Tensor, Any]:
    """A loss, and what a history that was watched makes of UPDATES losses that are equal to it."""

    def ask() -> tuple[Tensor, Any]:
        loss = new_loss()
        return loss, student.run("watched", loss, UPDATES)

    return student.once("watched", ask)


class Trained(NamedTuple):
    """The report of two epochs of training, and the losses and weights that are right."""

    report: Any
    losses: list[Tensor]
    weights: Tensor


def trained(student: Student) -> Trained:
    def ask() -> Trained:
        weights, batches = new_weights(), new_batches()
        report = student.run("trained", weights, [batches[:3], batches[3:]])
        return Trained(report, *training(weights, batches))

    return student.once("trained", ask)


def new_weights() -> Tensor:
    return 0.3 * torch.randn(8, dtype=torch.float64)


def new_batches() -> list[tuple[Tensor, Tensor]]:
    """Batches of (rows, 2, 3) inputs and (rows, 2, 2) targets."""
    batches = []
    for rows in ROWS:
        inputs = torch.randn(rows, 2, 3, dtype=torch.float64)
        targets = 3 * torch.randn(rows, 2, 2, dtype=torch.float64)
        batches.append((inputs, targets))
    return batches


def training(weights: Tensor, batches: list[tuple[Tensor, Tensor]]) -> tuple[list[Tensor], Tensor]:
    """The loss of each step, and the weights in the end."""
    losses, momentum = [], torch.zeros_like(weights)
    for inputs, targets in batches:
        leaf = weights.detach().requires_grad_()
        outputs = (inputs @ leaf[:6].reshape(2, 3).T + leaf[6:]).exp()
        # The network's hook doubles its outputs, and the loss function triples the targets.
        loss = (2 * outputs - 3 * targets).square().mean()
        (gradient,) = torch.autograd.grad(loss, leaf)
        losses.append(loss.detach())
        momentum = MOMENTUM * momentum + gradient
        weights = weights - LR * momentum
    return losses, weights
