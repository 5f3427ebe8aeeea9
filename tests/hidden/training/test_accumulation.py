"""Tests of accumulate_gradients and train_epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]
Weights = dict[str, Tensor]

# The parameters of the probe's network.
SHAPES = {"body.weight": (4, 3), "body.bias": (4,), "head.weight": (2, 4), "head.bias": (2,)}
FROZEN = "body.bias"
# Rows of the batches of an epoch: no group of three is like another, and the last one is short.
ROWS = (2, 5, 1, 4, 4, 4, 3, 1)
GROUP = 3
LR, MOMENTUM = 1e-4, 0.9
# Targets so large that the gradients are far above the rounding of clip_grad_norm_.
SCALE = 100


# --- accumulate_gradients ------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("for inputs, targets in batches: model(inputs), and no other call of the model.")
def test_calls(student: Student) -> None:
    """The model is called once for each batch, in order, on that batch alone."""
    _, batches, report = accumulated(student)
    inputs = [inputs for inputs, _ in batches]
    what = "the list of the inputs of the model's calls for batches of 3, 1 and 4 rows"
    assert_close(logged(report, "calls"), inputs, what=what)


@pytest.mark.points(6)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.word("the sandbox says when graphs live")
@pytest.mark.hint("loss.backward() inside the loop, and no tensor with a graph kept after it.")
def test_one_graph(student: Student) -> None:
    """Each batch has its backward pass before the next forward pass: one graph at a time."""
    _, _, report = accumulated(student)
    check_passes(report, 3)


@pytest.mark.points(2)
@pytest.mark.requires("test_one_graph")
@pytest.mark.place("accumulate_gradients")
@pytest.mark.word("the sandbox says what stays in memory")
@pytest.mark.hint("loss.item() is a number; the loss itself keeps what its graph needs.")
def test_keeps_no_graph(student: Student) -> None:
    """After its backward pass nothing of a batch's graph stays in memory."""
    _, _, report = accumulated(student)
    what = "the list of how many tensors graphs keep when each forward pass begins"
    assert_equal(logged(report, "kept"), [0, 0, 0], what=what)


@pytest.mark.points(11)
@pytest.mark.requires("test_one_graph")
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("A batch counts by its share of all rows: loss * (len(inputs) / rows).")
def test_gradients(student: Student) -> None:
    """The gradient is that of the mean loss over all rows of all batches."""
    weights, batches, report = accumulated(student)
    what = "the dict of gradients for batches of 3, 1 and 4 rows"
    assert_close(entry(report, "gradients"), gradients_of(weights, batches), what=what)


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("total += loss.item() of the weighed losses; a float has no graph.")
def test_loss(student: Student) -> None:
    """The result is the mean loss over all rows, a float."""
    weights, batches, report = accumulated(student)
    what = "the loss for batches of 3, 1 and 4 rows"
    right = mean_loss(weights, batches).item()
    assert_close(entry(report, "value"), right, what=what, rtol=1e-6)


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("Before, .grad may hold anything: add to it, as backward does.")
def test_adds(student: Student) -> None:
    """The gradient is added to .grad; frozen and unused parameters keep theirs."""
    weights, batches = new_weights(), new_batches((3, 1))
    new = gradients_of(weights, batches)
    new[FROZEN] = torch.zeros(4).double()
    old = {name: torch.randn_like(weights[name]) for name in SHAPES}
    added = {name: old[name] + new[name] for name in SHAPES}
    for before, after in ((old, added), ({}, {**new, FROZEN: None})):
        model = student.made("partial_model", weights, before)
        gradients = entry(student.run("accumulated", model, batches), "gradients")
        what = f"the dict of .grad of a model that had {len(before)} gradients before"
        assert_close(gradients, {"unused": None, **after}, what=what)


@pytest.mark.points(2)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("No train() or eval(), nothing in place; if not batches: raise ValueError(...).")
def test_leaves_the_rest(student: Student) -> None:
    """All else is left as it is; no batch at all is a ValueError that names batches."""
    model, loss = student.made("model", new_weights(), {}, ["body"]), student.made("loss")
    call, name = (model, tuple(new_batches((3, 1))), loss), "accumulate_gradients"
    laws.check_changes_nothing(student, name, *call, allow=["0.grad"])
    laws.check_errors(student, name, {"batches": [(model, (), loss)]}, fine=call)


# --- train_epoch ---------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("zero_grad, accumulate, step: once for each group, the short last one too.")
def test_steps(student: Student) -> None:
    """Each group makes one step, with the gradient of the mean loss over its rows and no other."""
    for steps in (GROUP, 1):
        weights, batches = new_weights(), new_batches(ROWS)
        report = trained(student, weights, batches, steps)
        after, _ = epoch_of(weights, batches, steps)
        what = f"the dict of weights after an epoch of 8 batches with accumulation_steps={steps}"
        assert_close(entry(report, "weights"), after, what=what)


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("clip_grad_norm_ stands between the last backward pass and the step.")
def test_clipping(student: Student) -> None:
    """With max_norm the accumulated gradient is clipped once, and only where its norm is larger."""
    weights, batches = new_weights(), new_batches(ROWS)
    # A limit between the norms of two groups.
    norms = sorted(norm_of(gradients_of(weights, group)) for group in groups(batches, GROUP))
    max_norm = (norms[0] + norms[1]) / 2
    report = trained(student, weights, batches, GROUP, max_norm)
    after, _ = epoch_of(weights, batches, GROUP, max_norm)
    what = f"the dict of weights after an epoch with max_norm={max_norm:.6g}"
    assert_close(entry(report, "weights"), after, what=what)


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("losses.append(accumulate_gradients(...)), once for each group, before the step.")
def test_losses(student: Student) -> None:
    """The result is the list of the mean losses over the rows of each group, before its step."""
    weights, batches = new_weights(), new_batches(ROWS)
    _, losses = epoch_of(weights, batches, GROUP)
    value = entry(trained(student, weights, batches, GROUP), "value")
    what = f"the list of the losses of 8 batches with accumulation_steps={GROUP}"
    assert_close(value, losses, what=what, rtol=1e-6)


@pytest.mark.points(5)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("iterator = iter(loader), and take the groups from it: no len(loader).")
def test_loader(student: Student) -> None:
    """The loader may be a generator, which lacks a length, and it may be empty."""
    weights, batches = new_weights(), new_batches(ROWS)
    report = trained(student, weights, student.made("generator", batches), GROUP)
    after, _ = epoch_of(weights, batches, GROUP)
    what = "the dict of weights after an epoch with a generator of batches"
    assert_close(entry(report, "weights"), after, what=what)
    check_passes(report, len(ROWS))
    report = trained(student, new_weights(), student.made("generator", []), GROUP)
    assert_equal(entry(report, "value"), [], what="the result for a loader without batches")


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.word("the sandbox says in which mode the model runs")
@pytest.mark.hint("model.train() before the first batch.")
def test_mode(student: Student) -> None:
    """The model is trained and left in training mode, all of its parts."""
    for training in (["body"], ["", "body"]):
        report = trained(student, new_weights(), new_batches((3, 2)), 2, training=training)
        modes = [*logged(report, "modes"), entry(report, "modes")]
        what = "the list of the modes of the model and its parts, for each batch and afterwards"
        assert_equal(modes, [[True] * 3] * 3, what=what)


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("if accumulation_steps < 1: raise ValueError(...) as the first statement.")
def test_errors(student: Student) -> None:
    """An accumulation_steps below 1 is a ValueError before anything changes; batches never change."""
    weights = new_weights()
    model, loss = student.made("model", weights, weights, ["head"]), student.made("loss")
    call = (model, new_batches((2, 1)), loss, student.made("sgd", model, LR, MOMENTUM))
    table = {"accumulation_steps": [(*call, 0), (*call, -1)]}
    laws.check_errors(student, "train_epoch", table, fine=(*call, 1))
    laws.check_changes_nothing(student, "train_epoch", *call, 0, raises=ValueError)
    only = ("1.values", "1.grad", "1.requires_grad", "random", "modes", "hooks", "buffers")
    laws.check_changes_nothing(student, "train_epoch", *call, 1, only=only)


# --- locally: the one big batch ------------------------------------------------------------------


def new_weights() -> Weights:
    """The parameters of the probe's network, and the scale that none of its attributes says."""
    weights = {name: torch.randn(shape, dtype=torch.float64) for name, shape in SHAPES.items()}
    return {**weights, "scale": torch.rand((), dtype=torch.float64) + 0.5}


def new_batches(rows: Sequence[int], lengths: Sequence[int] = (2,) * len(ROWS)) -> list[Batch]:
    """Batches of these numbers of rows; the longer their sequences, the fewer targets has a row."""
    batches = []
    for i, (n, length) in enumerate(zip(rows, lengths, strict=False)):
        inputs = torch.randn(n, length, 3, dtype=torch.float64)
        targets = SCALE * (torch.randn(n, 4 - length, 2, dtype=torch.float64) + i)
        batches.append((inputs, targets))
    return batches


def loss_of(weights: Weights, batch: Batch) -> Tensor:
    """The probe's network and loss."""
    inputs, targets = batch
    hidden = F.linear(inputs.mean(dim=1), weights["body.weight"], weights["body.bias"])
    hidden = (weights["scale"] * hidden).tanh()
    outputs = F.linear(hidden, weights["head.weight"], weights["head.bias"])
    return (outputs.unsqueeze(1) - targets).square().mean()


def mean_loss(weights: Weights, batches: list[Batch]) -> Tensor:
    """The mean loss over all rows of the batches."""
    rows = sum(len(inputs) for inputs, _ in batches)
    losses = [len(batch[0]) / rows * loss_of(weights, batch) for batch in batches]
    return torch.stack(losses).sum()


def gradients_of(weights: Weights, batches: list[Batch]) -> Weights:
    leaves = {name: weights[name].clone().requires_grad_() for name in SHAPES}
    loss = mean_loss({**weights, **leaves}, batches)
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    return dict(zip(leaves, gradients, strict=True))


def norm_of(gradients: Weights) -> float:
    return float(torch.cat([gradient.flatten() for gradient in gradients.values()]).norm())


def groups(batches: list[Batch], steps: int) -> list[list[Batch]]:
    return [batches[i : i + steps] for i in range(0, len(batches), steps)]


def epoch_of(
    weights: Weights, batches: list[Batch], steps: int, max_norm: float | None = None
) -> tuple[Weights, list[float]]:
    """The weights after an epoch, and the loss of each group before its step."""
    speeds = {name: torch.zeros_like(weights[name]) for name in SHAPES}
    losses = []
    for group in groups(batches, steps):
        losses.append(mean_loss(weights, group).item())
        gradients = gradients_of(weights, group)
        norm = norm_of(gradients)
        if max_norm is not None and norm > max_norm:
            gradients = {name: max_norm / norm * grad for name, grad in gradients.items()}
        speeds = {name: MOMENTUM * speeds[name] + gradients[name] for name in SHAPES}
        weights = {**weights, **{name: weights[name] - LR * speeds[name] for name in SHAPES}}
    return {name: weights[name] for name in SHAPES}, losses


# --- calls of the student's functions ------------------------------------------------------------


def accumulated(student: Student) -> tuple[Weights, list[Batch], Any]:
    """Weights, batches of 3, 1 and 4 rows, and what a call of accumulate_gradients gives and leaves."""

    def ask() -> tuple[Weights, list[Batch], Any]:
        weights, batches = new_weights(), new_batches((3, 1, 4), (1, 2, 3))
        model = student.made("model", weights, {}, [])
        return weights, batches, student.run("accumulated", model, batches)

    return student.once("accumulated", ask)


def trained(
    student: Student,
    weights: Weights,
    loader: list[Batch] | Made,
    *more: float,
    training: Sequence[str] = (),
) -> Any:
    """What a call of train_epoch gives and leaves."""
    model = student.made("model", weights, {}, list(training))
    return student.run("trained", model, loader, student.made("sgd", model, LR, MOMENTUM), *more)


def logged(report: Any, name: str) -> list[Any]:
    found: list[Any] = entry(report, "log", name, kind=list, default=[])
    return found


def check_passes(report: Any, batches: int) -> None:
    """Each batch has a forward pass of its own, and its backward pass before the next one."""
    what = "the list of forward and backward passes"
    assert_equal(logged(report, "passes"), ["forward", "backward"] * batches, what=what)
