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


@pytest.mark.points(5)
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Sum loss * size and size, divide once, append the float, and begin anew.")
def test_means(student: Student) -> None:
    """end_epoch gives the mean weighted by size, a float, appends it to epochs, and begins anew.

    Of three histories one is used, one updated besides, and the last one stays new.
    """
    for dtype, rtol in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        for graph in (True, False):
            counts = ([3, 1, 4], [1], [None, 5], [2, 2], [64, 64, 64, 7])
            epochs = [(new_losses(len(sizes), dtype), sizes) for sizes in counts]
            report, right = played(student, epochs, graph), [mean_of(*epoch) for epoch in epochs]
            kinds, told = (list, tuple), "epochs is no list."
            own, *others = [entry(report, "epochs", i, kind=kinds, told=told) for i in range(3)]
            told = "A new history has epochs of another one: make the list in __init__."
            assert laws.same(others, [[], []]), told
            what = f"the list of the results of 5 epochs of {dtype} losses"
            assert_close(entry(report, "ends"), right, what=what, rtol=rtol, atol=0)
            assert_close(own, right, what="epochs after them", rtol=rtol)


@pytest.mark.points(4)
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint("loss.detach() has the value of loss and no graph.")
def test_keeps_no_graph(student: Student) -> None:
    """After each update, and after the end of the epoch, no graph is alive that the caller dropped."""
    for backward in (False, True):
        losses = new_losses(4, torch.float64 if backward else torch.float32)
        report = student.run("watched", losses, backward=backward)
        told = "Your history keeps the graphs alive until the epoch ends: detach."
        what = "the list of the numbers of live graphs after each of 4 updates and the epoch"
        assert_equal(entry(report, "alive"), [0] * 5, what=what, mistakes={told: [1, 2, 3, 4, 0]})
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
    report = student.run("watched", new_losses(3), device="meta", size=2)
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
            sums = [sum(losses[1:], losses[0]), *losses[1:]]
            mistakes = {"The first loss has become the sum: += wrote into its memory.": sums}
            what = f"the list of the values of the losses after three updates ({dtype})"
            assert_equal(entry(report, "values"), losses, what=what, mistakes=mistakes)
            failed = str(entry(report, "failed"))[:94]
            assert not failed, f"After update loss.backward() raises a RuntimeError ({failed})."


@pytest.mark.points(2)
@pytest.mark.place("LossHistory.update")
@pytest.mark.hint('if loss.dim() != 0: raise ValueError("loss ..."), and the same for size < 1.')
def test_update_errors(student: Student) -> None:
    """A loss that is not 0-d, or a size below 1, is a ValueError that names it."""
    table = {
        "loss": [(torch.ones(shape), 1) for shape in ((1,), (3,), (0,), (1, 1), (2, 3))],
        "size": [(torch.ones(()), size) for size in (0, -1, -7)],
    }
    laws.check_errors(student, student.probe("update"), table, fine=(torch.ones(()), 1))
    three, steps = torch.tensor(3.0), [(0, torch.ones(2), 4), (0,)]
    report = student.run("played", 1, [*steps, (0, three, 2), (0, 3 * three, -1), (0,)])
    told = "What update refuses counts all the same in the epoch: check before you change anything."
    assert laws.same(entry(report, "ends"), ["ValueError"] * 3 + [3.0]), told


@pytest.mark.points(3)
@pytest.mark.requires("test_means")
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
        check_mean(report, losses)


@pytest.mark.points(2)
@pytest.mark.requires("test_means")
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
            assert isinstance(end, float) and abs(end - 100) < 1e-3, told
    wide, what = new_losses(3, torch.float64), "the mean of float64 losses after float32 ones"
    ends = entry(played(student, [(new_losses(1), [1]), (wide, [1, 2, 3])]), "ends")
    assert_close(entry(ends, 1), mean_of(wide, [1, 2, 3]), what=what, rtol=1e-12, atol=0)


@pytest.mark.points(2)
@pytest.mark.requires("test_means")
@pytest.mark.place("LossHistory.end_epoch")
@pytest.mark.hint("Leave out no loss, divide one sum, and raise before you append or change.")
def test_odd_epochs(student: Student) -> None:
    """inf and NaN come through; an epoch without an update is a ValueError, and epochs stays."""
    losses, (one, two) = new_losses(3), ((0, torch.tensor(1.0)), (0, torch.tensor(2.0)))
    for at, odd in enumerate((math.inf, -math.inf, math.nan)):
        spoiled = [torch.tensor(odd) if i == at else loss for i, loss in enumerate(losses)]
        report = played(student, [(spoiled, [1, 2, 3]), (losses, [1] * 3)])
        what = f"the results of an epoch with one loss of {odd}, and of an ordinary one"
        ends, right = entry(report, "ends", kind=list), [odd, mean_of(losses, [1] * 3)]
        told = f"end_epoch raises a ValueError for a loss of {odd}: let it through."
        assert not any(isinstance(end, str) for end in ends), told
        assert_close(ends, right, what=what, rtol=1e-6)
    report = student.run("played", 1, [(0,), one, (0,), (0,), two, (0,), (0,)])
    first, one, second, two, third = entry(report, "ends", kind=list, count=5)
    told = "end_epoch without an update since the last one is no ValueError."
    assert laws.same([first, second, third], ["ValueError"] * 3), told
    assert_close([one, two], [1.0, 2.0], what="the list of the results of two epochs")
    epochs = entry(report, "epochs", 0, kind=list, told="epochs is no list.")
    assert_close(epochs, [1.0, 2.0], what="epochs after two epochs")


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("For each batch: zero_grad, loss_fn(model(inputs), targets), backward, step.")
def test_steps(student: Student) -> None:
    """Each batch makes one step, by the gradient of its own loss alone."""
    run = Run(student)
    mistakes = {
        "Gradients add up: clear them for each batch.": run.steps(keep=1.0)[1],
        "A hook of the model does not run: call model(inputs), not forward.": run.steps(a=1.0)[1],
        "loss_fn takes the outputs first, and then the targets.": run.steps(a=6.0, b=1.0)[1],
    }
    what, weights = "the vector of the weights after five batches", entry(run.report, "weights")
    assert_close(weights, run.weights, what=what, mistakes=mistakes)


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
    mistakes = {
        "The rows of the targets are counted: take those of inputs.": [2 * n for n in run.rows],
        "The elements are counted: take the rows, the first dimension.": [6 * n for n in run.rows],
        "history.update is not told how many rows a batch has.": [1] * len(run.rows),
    }
    what = "the list of the sizes that history.update gets"
    assert_equal(sizes, run.rows, what=what, mistakes=mistakes)
    right = [mean_of(run.losses[part], run.rows[part]) for part in (slice(3), slice(3, 5))]
    for name, what in (("values", "the list of the results"), ("epochs", "history.epochs")):
        what = f"{what} after two epochs of training"
        assert_close(entry(run.report, name), right, what=what, rtol=1e-6)


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
        told = "train_epoch changes torch's global random state: it neither seeds nor draws."
        assert laws.same(before, after), told


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


def check_mean(report: Any, losses: list[Tensor]) -> None:
    """The mean of a report is about right; how precise it has to be, other tests say."""
    right = mean_of(losses, [1] * len(losses))
    assert_close(entry(report, "mean"), right, what="the mean that end_epoch gives", rtol=1e-2)


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
        self.batches = [(x[:, :6].reshape(-1, 2, 3), 3 * x[:, 6:].reshape(-1, 2)) for x in numbers]
        epochs = [self.batches[:3], self.batches[3:]]
        self.report = student.run("trained", self.start, epochs, list(training))
        self.losses, self.weights = self.steps()

    def steps(self, keep: float = 0.0, a: float = 2.0, b: float = 3.0) -> tuple[list[Tensor], Any]:
        """The losses of each step, and the weights in the end; by `keep` gradients add up."""
        weights, momentum, grad = self.start, *torch.zeros(2, 8).double()
        losses = []
        for x, y in self.batches:
            leaf = weights.detach().requires_grad_()
            output = x.flatten(0, 1) @ leaf[:6].reshape(2, 3).T + leaf[6:]
            loss = (a * output.exp() - b * y).square().mean()
            losses.append(loss.detach())
            grad = keep * grad + torch.autograd.grad(loss, leaf)[0]
            momentum = 0.9 * momentum + grad
            weights = weights - 1e-3 * momentum
        return losses, weights
