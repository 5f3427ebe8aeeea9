"""What accumulate_gradients and train_epoch promise, sentence by sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

Batch = tuple[Tensor, Tensor]

# The parameters of the probe's network as one vector; the second may be frozen.
SIZES = [12, 4, 8, 2]
LEARNS = torch.tensor([1.0] * 12 + [0.0] * 4 + [1.0] * 10).double()
# Rows of the batches of an epoch: no group of three is like another, and the last one is short.
ROWS = (2, 5, 1, 4, 4, 4, 3, 1)
LR, MOMENTUM = 1e-4, 0.9  # of the optimizer of the probe


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("for inputs, targets in batches: model(inputs), and no other call of the model.")
def test_calls(student: Student) -> None:
    """The model is called once for each batch, in order, on that batch alone."""
    for rows in ((3, 1, 4), (2,), (1, 1)):
        batches = new_batches(rows)
        inputs, report = (
            [x for x, _ in batches],
            accumulated(student, new_weights(), batches, hook=True),
        )
        what = f"the list of the inputs of the model's calls for batches of {rows} rows"
        assert_close(logged(report, "forward", "inputs"), inputs, what=what)
        told = "The model's hooks do not run: call model(inputs), not model.forward(inputs)."
        assert len(logged(report, "hook")) == len(rows), told


@pytest.mark.points(6)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.word("the sandbox says when graphs live")
@pytest.mark.hint("loss.backward() inside the loop, and no tensor with a graph kept after it.")
def test_one_graph(student: Student) -> None:
    """Each batch has its backward pass before the next forward pass: one graph at a time."""
    batches = new_batches((3, 2, 4))
    check_one_graph(accumulated(student, new_weights(), batches), batches)


@pytest.mark.points(2)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.word("the sandbox says what stays in memory")
@pytest.mark.hint("loss.item() is a number; the loss itself keeps what its graph needs.")
def test_keeps_no_graph(student: Student) -> None:
    """After its backward pass nothing of a batch's graph stays in memory."""
    report = accumulated(student, new_weights(), new_batches((3, 2, 4)))
    told = "The graph of a batch is kept after its backward pass: no retain_graph."
    assert not any(logged(report, "forward", "held", int)), told


@pytest.mark.points(11)
@pytest.mark.requires("test_one_graph")
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("A batch counts by its share of all rows: loss * (len(inputs) / rows).")
def test_gradients(student: Student) -> None:
    """The gradient is that of the mean loss over all rows of all batches."""
    # Rows are the first dimension: what else there is in a batch does not count.
    for shapes in (((3,), (1,), (4,)), ((2,),), ((2,), (2,)), ((5, 1), (1, 3), (3, 2))):
        weights, rows = new_weights(), [shape[0] for shape in shapes]
        # Of targets there are as many for a row as of inputs, in the opposite order of batches.
        batches = [
            (torch.randn(*s, 3).double(), torch.stack([y] * (4 - s[-1]), 1) if s[1:] else y)
            for s, (_, y) in zip(shapes, new_batches(rows), strict=True)
        ]
        what = f"the vector of all gradients for batches of {rows} rows"
        actual = entry(accumulated(student, weights, batches), "gradient")
        assert_close(actual, gradient(weights, batches), what=what)


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("Before, .grad may hold anything: add to it, as backward does.")
def test_adds(student: Student) -> None:
    """The gradient is added to .grad; frozen and unused parameters keep theirs."""
    weights, batches = new_weights(), new_batches((3, 1))
    new = torch.cat([gradient(weights, batches) * LEARNS, torch.zeros(2).double()])
    old = torch.randn(len(new)).double()
    actual = entry(accumulated(student, weights, batches, grads=old, whole=False), "gradient")
    assert_close(actual, new + old, what="the vector of all .grad")
    without = entry(accumulated(student, weights, batches, whole=False), "without")
    what = "the list of whether .grad is None, of body.weight and .bias, head's, and an unused one,"
    assert_equal(without, [False, True, False, False, True], what=what)


@pytest.mark.points(3)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("total += loss.item() of the weighed losses; a float has no graph.")
def test_loss(student: Student) -> None:
    """The result is the mean loss over all rows, a float."""
    for rows in ((3, 1, 4), (2,), (1, 5)):
        weights, batches = new_weights(), new_batches(rows)
        value = entry(accumulated(student, weights, batches), "value")
        what = f"the loss for batches of {rows} rows"
        assert_close(value, total(weights, batches), what=what, rtol=1e-6)


@pytest.mark.points(2)
@pytest.mark.place("accumulate_gradients")
@pytest.mark.hint("No train() or eval(), nothing in place; if not batches: raise ValueError(...).")
def test_leaves_the_rest(student: Student) -> None:
    """All else is left as it is; no batch at all is a ValueError that names batches."""
    loss = laws.shipped(student, "value").made("torch.nn.functional.mse_loss")
    for mode, batches in (("body", new_batches((3, 1))), ("", tuple(new_batches((2,))))):
        model = student.made("model", new_weights(), training=[mode])
        given, name = (model, batches, loss), "accumulate_gradients"
        laws.check_changes_nothing(student, name, *given, allow=["0.grad"])
        laws.check_errors(student, name, {"batches": [(model, type(batches)(), loss)]}, fine=given)


@pytest.mark.points(10)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("zero_grad, accumulate, step: once for each group, the short last one too.")
def test_steps(student: Student) -> None:
    """Each group makes one step, with the gradient of the mean loss over its rows and no other."""
    for steps in (3, 2, 1, 8, 20):
        weights, batches = new_weights(), new_batches(ROWS)
        report = trained(student, weights, batches, steps)
        check_steps(report, weights, batches, steps)
        epoch = simulate(weights, batches, steps)
        for name in ("weights", "momentum"):
            what = f"the vector of all {name} after an epoch with accumulation_steps={steps}"
            assert_close(entry(report, name), epoch[name], what=what)


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("clip_grad_norm_ stands between the last backward pass and the step.")
def test_clipping(student: Student) -> None:
    """With max_norm the accumulated gradient is clipped once, and only where its norm is larger."""
    weights, batches = new_weights(), new_batches(ROWS)
    norms = sorted(float(grad.norm()) for grad in simulate(weights, batches, 3)["gradients"])
    for max_norm in (norms[0] / 2, (norms[0] + norms[1]) / 2, 100 * norms[-1]):
        for steps in (3, 5):
            report = trained(student, weights, batches, steps, max_norm)
            check_steps(report, weights, batches, steps, limit=max_norm)


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("losses.append(accumulate_gradients(...)), once for each group, before the step.")
def test_losses(student: Student) -> None:
    """The result is the list of the mean losses over the rows of each group, before its step."""
    for steps in (3, 5):
        weights, batches = new_weights(), new_batches(ROWS)
        value = entry(trained(student, weights, batches, steps), "value")
        befores = simulate(weights, batches, steps)["befores"]
        right = list(map(total, befores, grouped(batches, steps)))
        what = f"the list of the losses of {len(ROWS)} batches with accumulation_steps={steps}"
        assert_close(value, right, what=what, rtol=1e-6)


@pytest.mark.points(5)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("iterator = iter(loader), and take the groups from it: no len(loader).")
def test_loader(student: Student) -> None:
    """The loader is iterated once, may lack a length or batches; one graph at a time is in memory."""
    for generator in (False, True):
        batches = new_batches(ROWS)
        report = trained(student, new_weights(), batches, 3, generator=generator)
        passes, right = len(logged(report, "pass")), [x for x, _ in batches]
        assert passes == 1, f"The loader is iterated {passes} times, it should be once."
        what = "the list of the inputs of the model's calls in an epoch"
        assert_close(logged(report, "forward", "inputs"), right, what=what)
        check_one_graph(report, batches)
        report = trained(student, new_weights(), [], 3, generator=generator)
        assert_equal(entry(report, "value"), [], what="the result for a loader without batches")
        assert not logged(report, "step"), "The optimizer makes a step though there is no batch."


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.word("the sandbox says in which mode the model runs")
@pytest.mark.hint("model.train() before the first batch.")
def test_mode(student: Student) -> None:
    """The model is trained and left in training mode, all of its parts."""
    for training in ([], [""], ["body"], ["", "body", "head"]):
        report = trained(student, new_weights(), new_batches((3, 2)), 2, training=training)
        modes = [*logged(report, "forward", "training"), entry(report, "training")]
        what = "the list of the modes of the model's parts, for each batch and afterwards,"
        assert_equal(modes, [[True] * 3] * 3, what=what)


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("if accumulation_steps < 1: raise ValueError(...) as the first statement.")
def test_errors(student: Student) -> None:
    """An accumulation_steps below 1 is a ValueError that names it; batches are never changed."""
    model = student.made("model", new_weights(), torch.ones(sum(SIZES)).double(), training=["head"])
    optimizer = student.made("optimizer", model)
    loss = laws.shipped(student, "value").made("torch.nn.functional.mse_loss")
    calls = [(model, new_batches((2, 1)), loss, optimizer, steps) for steps in (0, -1, -3, 1)]
    fine, name = calls.pop(), "train_epoch"
    laws.check_errors(student, name, {"accumulation_steps": calls}, fine=fine)
    for call in calls:
        laws.check_changes_nothing(student, name, *call, raises=ValueError)
    parts = ["1.values", "1.grad", "1.requires_grad", "random", "modes", "hooks", "buffers"]
    laws.check_changes_nothing(student, name, *fine, only=parts)


def new_weights() -> Tensor:
    return torch.randn(sum(SIZES)).double()


def new_batches(rows: Sequence[int]) -> list[Batch]:
    """Batches of these numbers of rows; large targets make gradients that are far above rounding."""
    targets = [100 * (torch.randn(n, 2).double() + i) for i, n in enumerate(rows)]
    return [(torch.randn(len(y), 3).double(), y) for y in targets]


def accumulated(student: Student, weights: Tensor, batches: list[Batch], **options: Any) -> Any:
    return student.run("accumulated", student.made("model", weights, **options), batches)


def trained(student: Student, weights: Tensor, batches: Any, *more: Any, **options: Any) -> Any:
    loader = student.made("loader", batches, options.pop("generator", False))
    model = student.made("model", weights, **options)
    return student.run("trained", model, loader, student.made("optimizer", model), *more)


def logged(report: Any, event: str, name: str = "event", kind: type = object) -> list[Any]:
    """An entry of each event of a kind, in order."""
    log = entry(report, "log", kind=list)
    return [entry(one, name, kind=kind) for one in log if entry(one, "event", kind=str) == event]


def loss_of(weights: Tensor, batch: Batch) -> Tensor:
    """The probe's loss."""
    w, b, v, c = weights.split(SIZES)
    mean = batch[0].reshape(len(batch[0]), -1, 3).mean(1)
    output = F.linear(torch.tanh(F.linear(mean, w.reshape(4, 3), b)), v.reshape(2, 4), c)
    return (output.unsqueeze(1) - batch[1].reshape(len(output), -1, 2)).square().mean()


def mean_loss(weights: Tensor, batches: list[Batch]) -> Tensor:
    """The mean loss over all rows of the batches."""
    rows = sum(len(x) for x, _ in batches)
    return torch.stack([len(x) / rows * loss_of(weights, (x, y)) for x, y in batches]).sum()


def total(weights: Tensor, batches: list[Batch]) -> float:
    return mean_loss(weights, batches).item()


def gradient(weights: Tensor, batches: list[Batch]) -> Tensor:
    leaf = weights.clone().requires_grad_()
    return torch.autograd.grad(mean_loss(leaf, batches), leaf)[0]


def clipped(grad: Tensor, limit: float | None) -> Tensor:
    return grad if limit is None else grad * min(1.0, limit / max(float(grad.norm()), 1e-9))


def grouped(batches: list[Batch], steps: int) -> list[list[Batch]]:
    return [batches[i : i + steps] for i in range(0, len(batches), steps)]


def simulate(
    weights: Tensor, batches: list[Batch], steps: int, limit: float | None = None
) -> dict[str, Any]:
    """An epoch: weights before and gradients of each step, and what is left."""
    befores, gradients, momentum = [], [], torch.zeros_like(weights)
    for group in grouped(batches, steps):
        befores.append(weights)
        gradients.append(clipped(gradient(weights, group), limit))
        momentum = MOMENTUM * momentum + gradients[-1]
        weights = weights - LR * momentum
    epoch = {"befores": befores, "gradients": gradients}
    return {**epoch, "weights": weights, "momentum": momentum}


def check_steps(
    report: Any, weights: Tensor, batches: list[Batch], steps: int, limit: Any = None
) -> None:
    """The gradients at each step of an epoch are right."""
    right = simulate(weights, batches, steps, limit)["gradients"]
    what = f"the list of the gradients of each step, with accumulation_steps={steps},"
    assert_close(logged(report, "step", "gradient"), right, what=what)


def check_one_graph(report: Any, batches: list[Batch]) -> None:
    """Each batch has a forward pass of its own, and no graph of another lives when it begins."""
    most = max((len(x) for x in logged(report, "forward", "inputs", Tensor)), default=0)
    told = f"The model is called on {most} rows at once: call it on one batch at a time."
    assert most <= max(len(x) for x, _ in batches), told
    assert logged(report, "backward"), "There is no backward pass."
    told = "A forward pass begins before the backward pass of the batch before: graphs pile up."
    assert not any(logged(report, "forward", "pending", int)), told
