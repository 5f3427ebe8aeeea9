"""Tests of accumulate_gradients and train_epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, within
from grader.judge.student import Student

Batch = tuple[Tensor, Tensor]

# Rows of the batches of an epoch. All groups of three are different, and the last group is short.
ROWS = (2, 5, 1, 4, 4, 4, 3, 1)
GROUP = 3
# Batches of the same size, whose plain mean is the mean over the rows, where this is not what a test judges.
SAME_ROWS = (3,) * len(ROWS)
# Factors for the targets of each batch, so that losses and gradients differ much between batches.
SCALES = (1, 3, 10, 100, 200, 300, 400, 500)
# Above the norm of the first group's gradient, and below the norms of the others.
MAX_NORM = 50.0
TOLERANCE: Any = {"rtol": 1e-6, "atol": 1e-6}


# --- accumulate_gradients ------------------------------------------------------------------------


@promise(
    "accumulate_gradients",
    points=3,
    hint="for inputs, targets in batches: model(inputs), and no other call of the model.",
)
def test_calls(code: Student, draw: Draw) -> Cases:
    """The model is called once for each batch, in order, and only on that batch."""
    what = "the list of the inputs of the model's calls for batches of 3, 1 and 4 rows"
    yield what, accumulated(code, draw, "calls")


@promise(
    "accumulate_gradients",
    points=6,
    hint="loss.backward() inside the loop, and no tensor with a graph kept after it.",
    word="the sandbox says when graphs live",
)
def test_one_graph(code: Student, draw: Draw) -> Cases:
    """Each batch has its backward pass before the next forward pass: one graph at a time."""
    yield "the list of forward and backward passes", accumulated(code, draw, "passes")


@promise(
    "accumulate_gradients",
    points=2,
    hint="loss.item() is a number; the loss itself keeps everything that its graph needs.",
    after="test_one_graph",
    word="the sandbox says what stays in memory",
)
def test_keeps_no_graph(code: Student, draw: Draw) -> Cases:
    """After its backward pass nothing of a batch's graph stays in memory."""
    what = "the list of how many tensors graphs keep when each forward pass begins"
    yield what, accumulated(code, draw, "kept")


@promise(
    "accumulate_gradients",
    points=13,
    hint="A batch counts by its share of all rows: loss * (len(inputs) / rows).",
    after="test_one_graph",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """The gradient is the gradient of the mean loss over all rows of all batches."""
    what = "the dict of gradients for batches of 3, 1 and 4 rows"
    yield what, accumulated(code, draw, "gradients")


@promise(
    "accumulate_gradients",
    points=3,
    hint="total += loss.item() of the weighed losses; a float has no graph.",
)
def test_loss(code: Student, draw: Draw) -> Cases:
    """The result is the mean loss over all rows, a float."""
    yield "the loss for batches of 3, 1 and 4 rows", accumulated(code, draw, "value")


@promise(
    "accumulate_gradients",
    points=5,
    hint="Before, .grad may hold anything: add to it, as backward does.",
)
def test_adds(code: Student, draw: Draw) -> Cases:
    """The gradient is added to .grad; frozen and unused parameters keep theirs."""
    batches = new_batches(draw, (2, 2, 2))[1:]  # without a gradient for `gain`
    for old, what in ((True, "that had gradients before"), (False, "without gradients")):
        model = code.made("model", draw.seed(), gradients=old, frozen=("body.bias",))
        gradients = entry(code.run("accumulated", model, batches), "gradients")
        yield f"the dict of .grad of a model {what}", within(gradients, **TOLERANCE)


@promise(
    "accumulate_gradients",
    hint="No train() or eval(), and nothing in place.",
    after="test_calls",
)
def test_leaves_the_rest(student: Student) -> None:
    """Parameters, buffers, modes, batches and random states are left as they are."""
    model = student.made("model", 0, training=("body",))
    call = model, new_batches(Draw(0), (3, 1)), student.made("loss")
    laws.check_changes_nothing(student, "accumulate_gradients", *call, allow=["0.grad"])


@promise(
    "accumulate_gradients",
    hint="if not batches: raise ValueError(...), with batches in the message.",
)
def test_no_batches(student: Student) -> None:
    """No batches are a ValueError that names batches."""
    model, loss = student.made("model", 0), student.made("loss")
    fine = model, tuple(new_batches(Draw(0), (3, 1))), loss
    laws.check_errors(student, "accumulate_gradients", {"batches": [(model, (), loss)]}, fine=fine)


# --- train_epoch ---------------------------------------------------------------------------------


@promise(
    "train_epoch",
    points=10,
    hint="zero_grad, accumulate, step: once for each group, the short last one too.",
)
def test_steps(code: Student, draw: Draw) -> Cases:
    """Each group makes one step, with the gradient of the mean loss over its own rows."""
    for steps in (GROUP, 1):
        what = f"the dict of weights after an epoch of 8 batches with accumulation_steps={steps}"
        yield what, within(entry(trained(code, draw, steps), "weights"), **TOLERANCE)


@promise(
    "train_epoch",
    points=4,
    hint="Call clip_grad_norm_ between the last backward pass and the step.",
)
def test_clipping(code: Student, draw: Draw) -> Cases:
    """With max_norm the accumulated gradient is clipped once, and only where its norm is larger."""
    report = trained(code, draw, GROUP, MAX_NORM, rows=SAME_ROWS)
    what = f"the dict of weights after an epoch with max_norm={MAX_NORM}"
    yield what, within(entry(report, "weights"), **TOLERANCE)


@promise(
    "train_epoch",
    points=4,
    hint="losses.append(accumulate_gradients(...)), once for each group, before the step.",
)
def test_losses(code: Student, draw: Draw) -> Cases:
    """The result is the list of the mean losses over the rows of each group, before its step."""
    what = f"the list of the losses of 8 batches with accumulation_steps={GROUP}"
    yield what, within(entry(trained(code, draw, GROUP), "value"), **TOLERANCE)


@promise(
    "train_epoch",
    points=5,
    hint="iterator = iter(loader), and take the groups from it: no len(loader).",
)
def test_loader(code: Student, draw: Draw) -> Cases:
    """The loader may be a generator, which has no length, and it may be empty."""
    report = trained(code, draw, GROUP, rows=SAME_ROWS, generator=True)
    what = "the dict of weights after an epoch with a generator of batches"
    yield what, within(entry(report, "weights"), **TOLERANCE)
    yield "the list of forward and backward passes", entry(report, "passes")
    report = trained(code, draw, GROUP, rows=(), generator=True)
    yield "the result for a loader without batches", entry(report, "value")


@promise(
    "train_epoch",
    points=2,
    hint="model.train() before the first batch.",
    word="the sandbox says in which mode the model runs",
)
def test_mode(code: Student, draw: Draw) -> Cases:
    """The model and all of its parts are trained and left in training mode."""
    what = "the list of the modes of the model and its parts, for each batch and afterwards"
    for training in (("body",), ("", "body")):
        report = trained(code, draw, 2, rows=(3, 2), training=training)
        yield what, entry(report, "modes")


@promise(
    "train_epoch",
    hint="if accumulation_steps < 1: raise ValueError(...) as the first statement.",
)
def test_errors(student: Student) -> None:
    """An accumulation_steps below 1 is a ValueError before anything changes."""
    call = training_of(student)
    bad = {"accumulation_steps": [(*call, 0), (*call, -1)]}
    laws.check_errors(student, "train_epoch", bad, fine=(*call, 1))
    laws.check_changes_nothing(student, "train_epoch", *call, 0, raises=ValueError)


@promise(
    "train_epoch",
    hint="Nothing in place on inputs or targets, no seed.",
    after="test_steps",
)
def test_leaves_batches(student: Student) -> None:
    """Batches, buffers and random states are left as they are."""
    only = ("1.values", "1.grad", "1.requires_grad", "random", "modes", "hooks", "buffers")
    laws.check_changes_nothing(student, "train_epoch", *training_of(student), 1, only=only)


# --- helpers of the tests ------------------------------------------------------------------------


def new_batches(
    draw: Draw, rows: Sequence[int], lengths: Sequence[int] = (2,) * len(ROWS)
) -> list[Batch]:
    """Batches with these numbers of rows. The rows are sequences of these lengths.

    The longer the sequences of a batch, the fewer targets each row has, so that only counting rows is right.
    Only the first batch has a gradient for `gain`, which would be stale in later groups.
    """
    batches = []
    for n, length, scale in zip(rows, lengths, SCALES, strict=False):
        inputs = draw.normal(n, length, 3, dtype=torch.float64)
        targets = draw.normal(n, 4 - length, 2, dtype=torch.float64)
        batches.append((inputs, scale * (targets + 1)))
    for inputs, _ in batches[:1]:
        inputs[0, 0, 0] = 5.0
    return batches


def accumulated(code: Student, draw: Draw, name: str) -> Any:
    """The entry `name` of the probe's report on a call with batches of 3, 1 and 4 rows."""
    batches = new_batches(draw, (3, 1, 4), (1, 2, 3))
    report = code.run("accumulated", code.made("model", draw.seed()), batches)
    return within(entry(report, name), **TOLERANCE)


def trained(
    code: Student,
    draw: Draw,
    steps: int,
    max_norm: float | None = None,
    *,
    rows: Sequence[int] = ROWS,
    generator: bool = False,
    training: Sequence[str] = (),
) -> Any:
    """The probe's report on train_epoch for a model in which only modules in `training` are in train mode."""
    batches = new_batches(draw, rows)
    model = code.made("model", draw.seed(), training=training)
    loader = code.made("generator", batches) if generator else batches
    return code.run("trained", model, loader, code.made("sgd", model), steps, max_norm)


def training_of(student: Student) -> tuple[Any, ...]:
    """All arguments of train_epoch but the last. The model has gradients and is partly in train mode."""
    model = student.made("model", 0, gradients=True, training=("head",))
    batches = new_batches(Draw(0), (2, 1))
    return model, batches, student.made("loss"), student.made("sgd", model)
