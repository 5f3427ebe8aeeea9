"""What LossHistory and train_epoch promise, sentence by sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

RTOL = 1e-5  # of means: how precise they have to be for float64 losses, test_precision says


@pytest.mark.points(6)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Sum loss * size and size, divide once, append the float, and begin anew.")
def test_means(student: Student) -> None:
    """end_epoch gives the mean weighted by size, a float, appends it to epochs, and begins anew."""
    for dtype in (torch.float32, torch.float64):
        for graph in (True, False):
            counts = ([3, 1, 4], [1], [None, 5], [2, 2], [64, 64, 64, 7])
            epochs = [(new_losses(len(sizes), dtype), sizes) for sizes in counts]
            report, right = played(student, epochs, graph), [mean_of(*epoch) for epoch in epochs]
            what = f"the list of the results of 5 epochs of {dtype} losses"
            assert_close(entry(report, "ends"), right, what=what, rtol=RTOL, atol=0)
            own = entry(report, "epochs", 0, kind=(list, tuple), told="epochs is no list.")
            assert_close(own, right, what="epochs after them", rtol=RTOL)


@pytest.mark.place("LossHistory")
@pytest.mark.hint("Make the lists and sums of a history in __init__, not in the class.")
def test_shares_nothing(student: Student) -> None:
    """Two histories share nothing: neither their epochs nor the losses of the current one."""
    losses = new_losses(2)
    report = student.run("played", 3, [(0, losses[0]), (1, losses[1]), (0,), (1,)])
    unused = entry(report, "epochs", 2, kind=(list, tuple), told="epochs is no list.")
    assert not unused, "A new history has epochs of another one: make the list in __init__."
    ends = [number(end) for end in entry(report, "ends", kind=list)]
    what = "the list of the results of two histories with one loss each"
    assert_close(ends, [loss.item() for loss in losses], what=what, rtol=RTOL)


@pytest.mark.points(4)
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint("loss.detach() has the value of loss and no graph.")
def test_keeps_no_graph(student: Student) -> None:
    """After each update, and after the end of the epoch, no graph is alive that the caller dropped."""
    for backward in (False, True):
        losses = new_losses(4, torch.float64 if backward else torch.float32)
        report = student.run("watched", losses, backward=backward)
        what = "the list of the numbers of live graphs after each of 4 updates and the epoch"
        assert_equal(entry(report, "alive"), [0] * 5, what=what)
        check_mean(report, losses)


@pytest.mark.points(11)
@pytest.mark.requires("test_keeps_no_graph")
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint("Add up tensors: no item(), float(), if or print of one, no cpu(), no numpy().")
def test_update_reads_nothing(student: Student) -> None:
    """update reads no value, so that the CPU need not wait, and losses on the meta device are fine."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        losses = new_losses(4, dtype)
        report = student.run("watched", losses)
        check_unread(entry(report, "updating", kind=list), "update", "4 updates")
        check_mean(report, losses)
    # In a sandbox of its own: this epoch has no value, so that it cannot be ended.
    report = student.anew("watched", new_losses(3), device="meta", size=2)
    refused = str(entry(report, "refused", default=""))[:90]
    assert not refused, f"A loss on the meta device has no value to read or to move ({refused})."
    moving = str(entry(report, "moving", kind=list))[:60]
    told = f"update leaves the device of the loss (by {moving}): add up where the loss is."
    assert moving == "[]", told


@pytest.mark.points(3)
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint("No detach_() and no += on what shares memory with loss: detach() does share it.")
def test_leaves_the_loss(student: Student) -> None:
    """loss stays as it was, now and at later updates, and loss.backward() still works."""
    for graph in (False, True):
        for dtype in (torch.float32, torch.float64, torch.float16):
            losses = new_losses(3, dtype)
            report = student.run("left", losses, graph, 1 if graph else 2)
            check_mean(report, losses)
            told = "update cuts the caller's loss from its graph: detach() gives a new tensor, and "
            attached = laws.same(entry(report, "attached"), [True] * 3)
            assert attached, f"{told}leaves loss alone; detach_() does not."
            what = f"the list of the values of the losses after three updates ({dtype})"
            assert_equal(entry(report, "values"), losses, what=what)
            failed = str(entry(report, "failed"))[:94]
            assert not failed, f"After update loss.backward() raises a RuntimeError ({failed})."


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


@pytest.mark.points(3)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("(total / samples).item(), of one tensor: total = torch.stack(losses).sum().")
def test_end_reads_once(student: Student) -> None:
    """end_epoch reads one value in all, however many updates there were."""
    for count in (7, 1, 40):
        losses = new_losses(count)
        report = student.run("watched", losses, size=3)
        reads = len(entry(report, "ending", kind=list))
        told = f"end_epoch reads {reads} values after {count} updates: "
        assert reads <= 1, f"{told}sum them on the device, and read the mean alone."
        check_mean(report, losses, size=3)


@pytest.mark.points(2)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Make the detached loss float32 before you weigh and add it; float64 stays.")
def test_precision(student: Student) -> None:
    """Half-precision losses are summed in float32 or better, float64 losses in float64."""
    for dtype in (torch.float16, torch.bfloat16):
        hundred, name = torch.tensor(100.0, dtype=dtype), str(dtype).removeprefix("torch.")
        sums = f"{name} losses are summed in {name}, where sums stop growing or overflow."
        for sizes in ([1] * 2000, [1000, 700, 3]):
            end = entry(played(student, [([hundred] * len(sizes), sizes)], False), "ends", 0)
            told = f"{sums} The mean of {len(sizes)} losses of 100 is not 100."
            assert isinstance(number(end), float) and abs(number(end) - 100) < 1e-3, told
    wide = new_losses(3, torch.float64)
    end = number(entry(played(student, [(wide, [2, 2, 2])]), "ends", 0))
    assert_close(
        end, mean_of(wide, [2, 2, 2]), what="the mean of float64 losses", rtol=1e-12, atol=0
    )


@pytest.mark.points(2)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint(
    "Leave out no loss, begin anew after each epoch, and raise where there is no loss."
)
def test_odd_epochs(student: Student) -> None:
    """inf and NaN show in the mean of their epoch alone; an epoch without an update is a ValueError."""
    losses = new_losses(3)
    for at, odd in enumerate((math.inf, -math.inf, math.nan)):
        spoiled = [torch.tensor(odd) if i == at else loss for i, loss in enumerate(losses)]
        ends = entry(played(student, [(spoiled, [1] * 3), (losses[:1], [1])]), "ends", kind=list)
        first, second = [number(end) for end in ends]
        told = f"end_epoch raises a ValueError for a loss of {odd}: let it through."
        assert not isinstance(first, str), told
        told = f"The mean of an epoch with a loss of {odd} is finite: which loss is left out?"
        assert isinstance(first, float) and not math.isfinite(first), told
        assert_close(second, losses[0].item(), what="the mean of the next epoch", rtol=RTOL)
    report = student.run("played", 1, [(0,), (0, losses[0]), (0,), (0,)])
    first, _, second = entry(report, "ends", kind=list, count=3)
    told = "end_epoch without an update since the last one raises no ValueError."
    assert laws.same([first, second], ["ValueError"] * 2), told
    epochs = entry(report, "epochs", 0, kind=(list, tuple), told="epochs is no list.")
    assert len(epochs) <= 1, "end_epoch without an update appends to epochs before it raises."


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("For each batch: zero_grad, loss_fn(model(inputs), targets), backward, step.")
def test_steps(student: Student) -> None:
    """Each batch makes one step, by the gradient of its own loss alone."""
    run = Run(student)
    what, weights = "the vector of the weights after five batches", entry(run.report, "weights")
    assert_close(weights, run.weights, what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_steps")
@pytest.mark.place("train_epoch")
@pytest.mark.hint("history.update(loss, len(inputs)), and return history.end_epoch().")
def test_updates(student: Student) -> None:
    """history.update gets the loss and the rows of each batch; the mean of the epoch is the result."""
    run = Run(student)
    updates = entry(run.report, "updates", kind=list)
    losses, sizes = ([entry(update, i) for update in updates] for i in (0, 1))
    assert_close(losses, run.losses, what="the list of the losses that history.update gets")
    what = "the list of the sizes that history.update gets"
    assert_equal(sizes, run.rows, what=what)
    ends = entry(run.report, "ends", kind=list)
    assert len(ends) == 2, f"In two epochs history.end_epoch is called {len(ends)} times."
    what = "the list of the results of two epochs, against those of history.end_epoch,"
    assert_close(entry(run.report, "values"), ends, what=what)


@pytest.mark.points(5)
@pytest.mark.requires("test_updates")
@pytest.mark.place("train_epoch")
@pytest.mark.hint("No item(), float(), if or print of a tensor in the loop: history has it all.")
def test_reads_nothing(student: Student) -> None:
    """No value is read in the loop, and after the epoch no graph is alive."""
    report = Run(student).report
    check_unread(entry(report, "reads", kind=list), "train_epoch", "5 batches")
    told = "After train_epoch a graph is alive: something still holds a loss."
    assert laws.same(entry(report, "alive"), 0), told


@pytest.mark.points(2)
@pytest.mark.requires("test_steps")
@pytest.mark.place("train_epoch")
@pytest.mark.hint("model.train() before the first batch.")
def test_mode(student: Student) -> None:
    """Every submodule is in training mode in every forward pass, whatever the mode before."""
    for training in ([], [""], ["body"], ["", "body", "body.1"]):
        run = Run(student, training)
        told = "A part of the model is in evaluation mode: call model.train() before the batches."
        modes = entry(run.report, "modes", kind=list)
        assert all(laws.same(mode, [True] * 4) for mode in modes), told
        before, after = entry(run.report, "random", kind=list, count=2)
        assert laws.same(before, after), (
            "train_epoch seeds or draws from torch's global random state."
        )


def new_losses(count: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [(torch.rand((), dtype=torch.float64) * 3 + 0.5).to(dtype) for _ in range(count)]


def played(student: Student, epochs: Sequence[Any], graph: bool = True) -> Any:
    """What a history gives for these epochs of losses and sizes; a size of None is left out."""
    steps: list[Any] = []
    for losses, sizes in epochs:
        pairs = zip(losses, sizes, strict=True)
        for loss, size in pairs:
            steps += [(0, loss) if size is None else (0, loss, size), (1, 2 * loss)]
        steps.append((0,))
    return student.run("played", 3, steps, graph)


def mean_of(losses: Sequence[Tensor], sizes: Sequence[int | None]) -> float:
    counts = [size or 1 for size in sizes]
    pairs = zip(losses, counts, strict=True)
    return math.fsum(loss.item() * size for loss, size in pairs) / sum(counts)


def number(value: Any) -> Any:
    """A 0-d tensor as its number: that a mean has to be a float, test_means says."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


def check_mean(report: Any, losses: list[Tensor], size: int = 1) -> None:
    """The mean of a report is made of its losses, if only roughly.

    The sum and the last loss will do, too: that they are wrong, test_means says.
    """
    end, right = number(entry(report, "mean")), mean_of(losses, [1] * len(losses))
    count = len(losses)
    for wrong in (count * size * right, count * right, size * right, losses[-1].item()):
        if isinstance(end, float) and math.isclose(end, wrong, rel_tol=1e-2):
            return
    assert_close(end, right, what="the mean that end_epoch gives", rtol=1e-2)


def check_unread(how: list[Any], name: str, when: str) -> None:
    by = str(how[0])[:30].strip("_") if how else ""
    told = f"{name} reads {len(how)} values in {when} (by {by}), and the CPU waits for each."
    assert not how, f"{told} Add up tensors, and read one value when the epoch ends."


class Run:
    """Two epochs of training, of three and of two batches, and what is right for them."""

    def __init__(self, student: Student, training: Sequence[str] = ()) -> None:
        self.start = 0.3 * torch.randn(8).double()
        self.rows = [3, 1, 4, 2, 5]
        numbers = [torch.randn(n, 10).double() for n in self.rows]
        self.batches = [
            (x[:, :6].reshape(-1, 2, 3), 3 * x[:, 6:].reshape(-1, 2, 2)) for x in numbers
        ]
        epochs = [self.batches[:3], self.batches[3:]]
        self.report = student.run("trained", self.start, epochs, list(training))
        self.losses, self.weights = self.steps()

    def steps(self, keep: float = 0.0, a: float = 2.0, b: float = 3.0) -> tuple[list[Tensor], Any]:
        """The losses of each step, and the weights in the end; by `keep` gradients add up."""
        weights, momentum, grad = self.start, *torch.zeros(2, 8).double()
        losses = []
        for x, y in self.batches:
            leaf = weights.detach().requires_grad_()
            output = x @ leaf[:6].reshape(2, 3).T + leaf[6:]
            loss = (a * output.exp() - b * y).square().mean()
            losses.append(loss.detach())
            grad = keep * grad + torch.autograd.grad(loss, leaf)[0]
            momentum = 0.9 * momentum + grad
            weights = weights - 1e-3 * momentum
        return losses, weights
