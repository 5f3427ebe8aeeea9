"""Tests of accumulate_gradients and train_epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]
Weights = dict[str, Tensor]

# The parameters of the probe's network. Its weights here have a "scale", too, which is no parameter there.
SHAPES = {"body.weight": (4, 3), "body.bias": (4,), "head.weight": (2, 4), "head.bias": (2,)}
FROZEN = "body.bias"
# Rows of the batches of an epoch: no group of three is like another, and the last one is short.
ROWS = (2, 5, 1, 4, 4, 4, 3, 1)
GROUP = 3
LR, MOMENTUM = 1e-4, 0.9
# So large that the gradients are far above the 1e-6 that clip_grad_norm_ adds to their norm.
TARGET_SCALE = 100
# A sum of losses may be kept in float32.
LOSS_RTOL = 1e-6


class Accumulated(NamedTuple):
    """A call of accumulate_gradients: weights and batches, and what the probe reports of it."""

    weights: Weights
    batches: list[Batch]
    report: Any


class Epoch(NamedTuple):
    """The weights after an epoch, and the loss of each group before its step."""

    weights: Weights
    losses: list[float]


# --- accumulate_gradients ------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("for inputs, targets in batches: model(inputs), and no other call of the model.")
def test_calls(student: Student) -> None:
    """The model is called once for each batch, in order, on that batch alone."""
    call = accumulated(student)
    inputs = [inputs for inputs, _ in call.batches]
    what = "the list of the inputs of the model's calls for batches of 3, 1 and 4 rows"
    assert_close(logged(call.report, "calls"), inputs, what=what)


@pytest.mark.points(6)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.word("the sandbox says when graphs live")
@pytest.mark.hint("loss.backward() inside the loop, and no tensor with a graph kept after it.")
def test_one_graph(student: Student) -> None:
    """Each batch has its backward pass before the next forward pass: one graph at a time."""
    check_passes(accumulated(student).report, 3)


@pytest.mark.points(2)
@pytest.mark.requires("test_one_graph")
@pytest.mark.place("accumulate_gradients")
@pytest.mark.word("the sandbox says what stays in memory")
@pytest.mark.hint("loss.item() is a number; the loss itself keeps what its graph needs.")
def test_keeps_no_graph(student: Student) -> None:
    """After its backward pass nothing of a batch's graph stays in memory."""
    report = accumulated(student).report
    what = "the list of how many tensors graphs keep when each forward pass begins"
    assert_equal(logged(report, "kept"), [0, 0, 0], what=what)


@pytest.mark.points(11)
@pytest.mark.requires("test_one_graph")
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("A batch counts by its share of all rows: loss * (len(inputs) / rows).")
def test_gradients(student: Student) -> None:
    """The gradient is that of the mean loss over all rows of all batches."""
    call = accumulated(student)
    what = "the dict of gradients for batches of 3, 1 and 4 rows"
    right = gradients_of(call.weights, call.batches)
    assert_close(entry(call.report, "gradients"), right, what=what)


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("total += loss.item() of the weighed losses; a float has no graph.")
def test_loss(student: Student) -> None:
    """The result is the mean loss over all rows, a float."""
    call = accumulated(student)
    what = "the loss for batches of 3, 1 and 4 rows"
    right = mean_loss(call.weights, call.batches).item()
    assert_close(entry(call.report, "value"), right, what=what, rtol=LOSS_RTOL)


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("Before, .grad may hold anything: add to it, as backward does.")
def test_adds(student: Student) -> None:
    """The gradient is added to .grad; frozen and unused parameters keep theirs."""
    weights, batches = new_weights(), new_batches((3, 1))
    new = gradients_of(weights, batches)
    old = {name: torch.randn_like(weights[name]) for name in SHAPES}
    both = {name: old[name] + new[name] for name in SHAPES}
    # What .grad is before the call, and what it should be after it.
    cases: list[tuple[Weights, dict[str, Any]]] = [
        (old, {**both, FROZEN: old[FROZEN], "unused": None}),
        ({}, {**new, FROZEN: None, "unused": None}),
    ]
    for before, after in cases:
        model = student.made("partial_model", weights, before)
        gradients = entry(student.run("accumulated", model, batches), "gradients")
        what = f"the dict of .grad of a model that had {len(before)} gradients before"
        assert_close(gradients, after, what=what)


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
        right = epoch_of(weights, batches, steps).weights
        what = f"the dict of weights after an epoch of 8 batches with accumulation_steps={steps}"
        assert_close(entry(report, "weights"), right, what=what)


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
    right = epoch_of(weights, batches, GROUP, max_norm).weights
    what = f"the dict of weights after an epoch with max_norm={max_norm:.6g}"
    assert_close(entry(report, "weights"), right, what=what)


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("losses.append(accumulate_gradients(...)), once for each group, before the step.")
def test_losses(student: Student) -> None:
    """The result is the list of the mean losses over the rows of each group, before its step."""
    weights, batches = new_weights(), new_batches(ROWS)
    losses = entry(trained(student, weights, batches, GROUP), "value")
    right = epoch_of(weights, batches, GROUP).losses
    what = f"the list of the losses of 8 batches with accumulation_steps={GROUP}"
    assert_close(losses, right, what=what, rtol=LOSS_RTOL)


@pytest.mark.points(5)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("iterator = iter(loader), and take the groups from it: no len(loader).")
def test_loader(student: Student) -> None:
    """The loader may be a generator, which lacks a length, and it may be empty."""
    weights, batches = new_weights(), new_batches(ROWS)
    report = trained(student, weights, student.made("generator", batches), GROUP)
    right = epoch_of(weights, batches, GROUP).weights
    what = "the dict of weights after an epoch with a generator of batches"
    assert_close(entry(report, "weights"), right, what=what)
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
    old_gradients = new_weights()
    model = student.made("model", new_weights(), old_gradients, ["head"])
    optimizer = student.made("sgd", model, LR, MOMENTUM)
    call = (model, new_batches((2, 1)), student.made("loss"), optimizer)
    bad = {"accumulation_steps": [(*call, 0), (*call, -1)]}
    laws.check_errors(student, "train_epoch", bad, fine=(*call, 1))
    laws.check_changes_nothing(student, "train_epoch", *call, 0, raises=ValueError)
    # The batches are argument 1.
    only = ("1.values", "1.grad", "1.requires_grad", "random", "modes", "hooks", "buffers")
    laws.check_changes_nothing(student, "train_epoch", *call, 1, only=only)


# --- locally: the one big batch ------------------------------------------------------------------


def new_weights() -> Weights:
    """The parameters of the probe's network, and its scale, which a student's code cannot read there."""
    weights = {name: torch.randn(shape, dtype=torch.float64) for name, shape in SHAPES.items()}
    return {**weights, "scale": torch.rand((), dtype=torch.float64) + 0.5}


def new_batches(rows: Sequence[int], lengths: Sequence[int] | None = None) -> list[Batch]:
    """Batches of these numbers of rows, which are sequences of these lengths: 2 if there are none.

    The longer the sequences of a batch, the fewer targets each row has, so that only rows can be counted.
    """
    lengths = lengths or [2] * len(rows)
    batches = []
    for i, (n, length) in enumerate(zip(rows, lengths, strict=True)):
        inputs = torch.randn(n, length, 3, dtype=torch.float64)
        # Later batches have larger targets, so that losses and gradients differ much between batches.
        targets = TARGET_SCALE * (torch.randn(n, 4 - length, 2, dtype=torch.float64) + i)
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
) -> Epoch:
    """Train on the groups as on batches, with clipping and SGD written out."""
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
    return Epoch({name: weights[name] for name in SHAPES}, losses)


# --- calls of the student's functions ------------------------------------------------------------


def accumulated(student: Student) -> Accumulated:
    """A call with batches of 3, 1 and 4 rows; several tests look at it."""

    def ask() -> Accumulated:
        weights, batches = new_weights(), new_batches((3, 1, 4), (1, 2, 3))
        model = student.made("model", weights, {}, [])
        return Accumulated(weights, batches, student.run("accumulated", model, batches))

    return student.once("accumulated", ask)


def trained(
    student: Student,
    weights: Weights,
    loader: list[Batch] | Made,
    steps: int,
    max_norm: float | None = None,
    *,
    training: Sequence[str] = (),
) -> Any:
    """What a call of train_epoch gives and leaves; before it, the modules in `training` are in that mode."""
    model = student.made("model", weights, {}, list(training))
    optimizer = student.made("sgd", model, LR, MOMENTUM)
    return student.run("trained", model, loader, optimizer, steps, max_norm)


def logged(report: Any, name: str) -> list[Any]:
    """One of the logs of the probe's network, which is empty if the network never ran."""
    items: list[Any] = entry(report, "log", name, kind=list, default=[])
    return items


def check_passes(report: Any, batches: int) -> None:
    """Each batch has a forward pass of its own, and its backward pass before the next one."""
    what = "the list of forward and backward passes"
    assert_equal(logged(report, "passes"), ["forward", "backward"] * batches, what=what)
