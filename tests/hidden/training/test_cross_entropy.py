"""Tests of cross_entropy, looks_like_probabilities and double_softmax_floor."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_dtype,
    any_gradients,
    assert_tensor,
    laws,
    promise,
    within,
)
from grader.judge.student import Student

DTYPES = (torch.float32, torch.float64)
CLASSES = 4
DEFAULT_IGNORED = -100
# Large logits and their targets, by a description.
LARGE = {
    "the target's not the least": ([[1e4, 9999.0, 1e4], [-50.0, 9e3, 8.9e3]], [1, 1]),
    "the target's far below": ([[1e4, -1e4, 30.0], [1e4, 9e3, -1e4]], [1, 2]),
    "a row of 1e4 beside a small one": ([[1e4, -1e4, 30.0], [0.5, -1.0, 2.0]], [0, 1]),
    "a row of -1e4 beside a small one": ([[-1e4, -1e4, -9999.0], [0.5, -1.0, 2.0]], [2, 1]),
}
# In float32, logsumexp rounds.
LARGE_FLOAT32: Any = {"rtol": 1e-3, "atol": 1e-3}


# --- cross_entropy: the value --------------------------------------------------------------------


@promise(
    "cross_entropy",
    points=12,
    hint="logits.logsumexp(dim=1) less the logit of the target, and the mean over rows.",
)
def test_values(code: Student, draw: Draw) -> Cases:
    """The loss is the mean over the rows of -log p of the target, from logits."""
    for rows, classes in ((3, 5), (40, 7)):
        loss = value_of(code, *new_batch(draw, rows, classes))
        yield f"the loss of logits of shape {(rows, classes)}", loss


@promise(
    "cross_entropy",
    points=6,
    hint="costs.sum() / weight[targets].sum()",
    after="test_values",
)
def test_weight(code: Student, draw: Draw) -> Cases:
    """Each row counts by the weight of its target, and the sum is divided by the sum of these weights."""
    yield "the loss with weight", value_of(code, *new_batch(draw), weight=new_weight(draw))


@promise(
    "cross_entropy",
    points=6,
    hint="q is label_smoothing / C everywhere, and 1 - label_smoothing more at the target.",
    after="test_values",
)
def test_smoothing(code: Student, draw: Draw) -> Cases:
    """label_smoothing is spread evenly over all C classes, each with its own weight."""
    loss = value_of(code, *new_batch(draw), label_smoothing=0.3)
    yield "the loss with label_smoothing", loss
    loss = value_of(code, *new_batch(draw), label_smoothing=1.0, weight=new_weight(draw))
    yield "the loss with label_smoothing=1.0 and weight", loss


@promise(
    "cross_entropy",
    points=6,
    hint="kept = targets != ignore_index, and nothing else of the other rows anywhere.",
    after="test_values",
)
def test_ignored(code: Student, draw: Draw) -> Cases:
    """Rows whose target is ignore_index, which may be a class, add nothing, also with other options."""
    yield "the loss with targets of -100", value_of(code, *new_batch_with(draw, DEFAULT_IGNORED))
    for ignored in (2, 0, 9, -1):
        loss = value_of(code, *new_batch_with(draw, ignored), ignore_index=ignored)
        yield f"the loss with ignore_index={ignored}", loss
    for ignored in (-1, 2):
        loss = value_of(code, *new_batch_with(draw, ignored), **all_options(draw, ignored))
        yield f"the loss with weight, label_smoothing and ignore_index={ignored}", loss


@promise(
    "cross_entropy",
    points=2,
    hint="A sum of nothing divided by a sum of nothing is 0 / 0, which is NaN in torch.",
    after="test_values",
)
def test_nothing_kept(code: Student, draw: Draw) -> Cases:
    """If no row is kept, because all are ignored or there are none, the loss is NaN."""
    for rows in (3, 0):
        targets = torch.full((rows,), DEFAULT_IGNORED)
        yield f"the loss of {rows} ignored rows", value_of(code, draw.normal(rows, 4), targets)


# --- cross_entropy: large logits, gradients, and the rest ----------------------------------------


@promise(
    "cross_entropy",
    points=16,
    hint="logits - logits.logsumexp(dim=1, keepdim=True): no exp, softmax or log of your own.",
    after="test_values",
)
def test_large_logits(code: Student, draw: Draw) -> Cases:
    """Loss and gradients are finite and exact for logits up to 1e4, whatever the other logits are."""
    why = "exp of a large logit is inf, log of a probability rounded to 0 is -inf. Use logsumexp"
    for dtype, tolerance in zip(DTYPES, (LARGE_FLOAT32, {}), strict=True):
        for name, (rows, targets) in LARGE.items():
            logits = torch.tensor(rows, dtype=dtype, requires_grad=True)
            loss = loss_of(code, logits, torch.tensor(targets))
            what = f"the loss of {str(dtype).removeprefix('torch.')} logits, {name},"
            laws.check_large_inputs(loss, {"logits": logits}, what=what, why=why)
            yield what, within(any_dtype(any_gradients(loss)), **tolerance)
            yield f"the gradient of {what}", within(logits.grad, **tolerance)


@promise(
    "cross_entropy",
    points=6,
    hint="Stay in the graph: no detach, no .item(), no NumPy, no tensor made of numbers.",
    after="test_values",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach the logits, and are zero in the ignored rows."""
    logits, targets = new_batch_with(draw, DEFAULT_IGNORED)
    yield "the loss", any_dtype(loss_of(code, draw.leaf("logits", logits), targets))
    logits, targets = new_batch_with(draw, 2)
    loss = loss_of(code, draw.leaf("logits", logits), targets, **all_options(draw, 2))
    yield "the loss with weight, label_smoothing and ignore_index", any_dtype(loss)


@promise(
    "cross_entropy",
    points=5,
    hint="Targets left after ignore_index are in 0..C-1, label_smoothing is in [0, 1].",
    word="the sandbox says that it raised",
)
def test_errors(student: Student) -> None:
    """Other targets outside 0..C-1 and a label_smoothing outside [0, 1] are ValueErrors."""
    logits, targets = torch.randn(3, CLASSES), torch.tensor([1, 0, 3])
    targets_and_ignored = (
        ([0, -1, 2], DEFAULT_IGNORED),
        ([CLASSES, 1, 2], DEFAULT_IGNORED),
        ([0, 1, 1000], -1),
        ([1, 2, DEFAULT_IGNORED], 0),
    )
    bad: dict[str, Any] = {
        "targets": [
            {"logits": logits, "targets": torch.tensor(wrong), "ignore_index": ignored}
            for wrong, ignored in targets_and_ignored
        ],
        "label_smoothing": [(logits, targets, None, wrong) for wrong in (-0.01, 1.01)],
    }
    laws.check_errors(student, "cross_entropy", bad, fine=(logits, targets, None, 1.0))


@promise(
    "cross_entropy",
    hint="Make new tensors: targets[ignored] = 0 writes into the caller's.",
    after="test_values",
)
def test_changes_nothing(student: Student) -> None:
    """Logits, targets and weights stay as they are."""
    arguments = torch.randn(3, CLASSES), torch.tensor([1, DEFAULT_IGNORED, 3]), torch.rand(CLASSES)
    laws.check_changes_nothing(student, "cross_entropy", *arguments, 0.3)


@promise(
    "cross_entropy",
    hint="Take dim=1 by its number, and reshape instead of view.",
    after="test_values",
)
def test_layouts(code: Student, draw: Draw) -> Cases:
    """Logits may have any strides."""
    logits, targets = new_batch(draw)
    for layout, strided in laws.layouts_of(logits).items():
        yield f"the loss of logits {layout} in memory", value_of(code, strided, targets)


@promise(
    "cross_entropy",
    points=2,
    hint="Sum and divide, which leaves no dimension; no float() on the way.",
    after="test_values",
)
def test_kind_of_loss(code: Student, draw: Draw) -> Cases:
    """The loss is a 0-d tensor of the dtype of the logits, in float64 to float64's precision."""
    cross_entropy = code.function("cross_entropy")
    yield "the loss", cross_entropy(*new_batch(draw))
    logits, targets = new_batch_with(draw, 2)
    yield "the loss", cross_entropy(logits.double(), targets)
    options = all_options(draw, 2)
    options["weight"] = options["weight"].double()
    yield "the loss with options", cross_entropy(logits.double(), targets, **options)


# --- looks_like_probabilities --------------------------------------------------------------------


@promise(
    "looks_like_probabilities",
    points=6,
    hint="(outputs >= 0).all(), and the sum of every row within 1e-4 of 1.",
)
def test_probabilities(code: Student, draw: Draw) -> Cases:
    """True for outputs of a softmax, False for logits, outputs of a sigmoid, log-probabilities, NaN."""
    logits = draw.normal(5, CLASSES, scale=3.0)
    outputs = {
        "equal probabilities": torch.full((3, CLASSES), 1 / CLASSES),
        "outputs of a softmax": logits.softmax(1),
        "outputs of a softmax over 1000 classes": draw.normal(2, 1000).softmax(1),
        "outputs of a softmax in float64": logits.double().softmax(1),
        "probabilities of 0 and 1": torch.eye(CLASSES),
        "logits": logits,
        "logits above 0": logits.abs() + 0.1,
        "logits whose rows sum to 1": logits - logits.mean(1, keepdim=True) + 1 / CLASSES,
        "outputs of a sigmoid": logits.sigmoid(),
        "log-probabilities": logits.log_softmax(1),
        "zeros": torch.zeros(3, CLASSES),
        "NaN": logits * math.nan,
    }
    for name, answer in answers(code, draw, outputs):
        yield f"the answer for {name}", answer


@promise(
    "looks_like_probabilities",
    points=4,
    hint="Over the classes, dim=1, and .all() over the rows.",
    after="test_probabilities",
)
def test_every_row(code: Student, draw: Draw) -> Cases:
    """Every single row has to consist of probabilities; without rows the answer is False."""
    good = draw.normal(5, 3).softmax(1)
    outputs = {
        "outputs of a softmax": good,
        "no rows": good[:0],
        "rows that sum to 0.5 and 1.5": torch.tensor([[0.2, 0.3], [0.7, 0.8]]),
        "columns, not rows, that sum to 1": draw.normal(5, 3).softmax(0),
    }
    bad_rows = {
        "a sum of 0.6": [0.2, 0.3, 0.1],
        "an entry below 0": [0.7, -0.1, 0.4],
        "a NaN": [0.6, math.nan, 0.4],
    }
    for place in (0, 4):
        for name, row in bad_rows.items():
            bad = good.clone()
            bad[place] = torch.tensor(row)
            outputs[f"probabilities but for {name} in row {place}"] = bad
    for name, answer in answers(code, draw, outputs):
        yield f"the answer for {name}", answer


@promise(
    "looks_like_probabilities",
    hint="(outputs.sum(dim=1) - 1).abs() <= 1e-4, and entries not below 0 at all.",
    after="test_probabilities",
)
def test_tolerance(code: Student, draw: Draw) -> Cases:
    """Sums may be off by 1e-4, but entries may not be below 0."""
    below = torch.tensor([[0.5, 0.5, -1e-6], [0.2, 0.3, 0.5]])
    outputs = {"probabilities but for one entry, -1e-6,": below}
    for total in (1.00008, 0.99992, 1.00015, 0.99985):
        off = draw.normal(4, 3).softmax(1)
        off[1] *= total
        outputs[f"probabilities of which a row sums to {total}"] = off
    for name, answer in answers(code, draw, outputs):
        yield f"the answer for {name}", answer


@promise(
    "looks_like_probabilities",
    hint="Look at the outputs, and change nothing in place.",
    after="test_probabilities",
)
def test_looks_changes_nothing(student: Student) -> None:
    """The outputs stay as they are."""
    for outputs in (torch.randn(4, 3).softmax(1), 3 * torch.randn(4, 3)):
        laws.check_changes_nothing(student, "looks_like_probabilities", outputs)


# --- double_softmax_floor ------------------------------------------------------------------------


@promise(
    "double_softmax_floor",
    points=3,
    hint="math.log(1 + (num_classes - 1) / math.e)",
)
def test_floor(code: Student, draw: Draw) -> Cases:
    """The floor is log(1 + (num_classes - 1) / e)."""
    for classes in (draw.size(3, 40), draw.size(200, 2000), 1):
        yield f"double_softmax_floor({classes})", code.function("double_softmax_floor")(classes)


@promise(
    "double_softmax_floor",
    hint="if num_classes < 1: raise ValueError(...), with num_classes in the message.",
)
def test_floor_error(student: Student) -> None:
    """A num_classes below 1 is a ValueError."""
    laws.check_errors(student, "double_softmax_floor", {"num_classes": [(0,), (-1,)]}, fine=(1,))


# --- helpers of the tests ------------------------------------------------------------------------


def new_batch(draw: Draw, rows: int = 9, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """Logits and targets. Every class occurs among the targets if there are enough rows."""
    return draw.normal(rows, classes, scale=2.0), draw.permutation(rows) % classes


def new_batch_with(draw: Draw, ignored: int) -> tuple[Tensor, Tensor]:
    """A batch in which the targets of two rows are `ignored`."""
    logits, targets = new_batch(draw)
    targets[[1, 4]] = ignored
    return logits, targets


def new_weight(draw: Draw) -> Tensor:
    """A weight for each class. Class 1, which no test ignores, has weight 0."""
    return draw.uniform(CLASSES, low=0.1, high=3.0) * torch.tensor([1, 0, 1, 1])


def all_options(draw: Draw, ignored: int) -> dict[str, Any]:
    return {"weight": new_weight(draw), "label_smoothing": 0.3, "ignore_index": ignored}


def loss_of(code: Student, logits: Tensor, targets: Tensor, **options: Any) -> Tensor:
    """The loss. Another test judges its shape."""
    loss = assert_tensor(
        code.function("cross_entropy")(logits, targets, **options), what="the loss"
    )
    return loss.reshape(()) if loss.shape == (1,) else loss


def value_of(code: Student, logits: Tensor, targets: Tensor, **options: Any) -> Any:
    """The loss, compared as a number. Another test judges its dtype."""
    return any_dtype(any_gradients(loss_of(code, logits, targets, **options)))


def answers(code: Student, draw: Draw, outputs: dict[str, Tensor]) -> Cases:
    """The answers for outputs, by name. The order of the calls is drawn, so that no list of answers fits."""
    looks_like_probabilities = code.function("looks_like_probabilities")
    names = list(outputs)
    for place in draw.permutation(len(names)).tolist():
        name = names[place]
        yield name, looks_like_probabilities(outputs[name])
