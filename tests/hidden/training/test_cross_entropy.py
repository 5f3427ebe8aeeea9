"""Tests of cross_entropy, looks_like_probabilities and double_softmax_floor."""

import functools
import math
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws
from grader.judge.student import Student

DTYPES = (torch.float64, torch.float32)
CLASSES = 4
DEFAULT_IGNORED = -100
# Logits and targets, by how the logits lie.
LARGE = {
    "the target's not the least": ([[1e4, 9999.0, 1e4], [-50.0, 9e3, 8.9e3]], [1, 1]),
    "the target's far below": ([[1e4, -1e4, 30.0], [1e4, 9e3, -1e4]], [1, 2]),
    "a row of 1e4 beside a small one": ([[1e4, -1e4, 30.0], [0.5, -1.0, 2.0]], [0, 1]),
    "a row of -1e4 beside a small one": ([[-1e4, -1e4, -9999.0], [0.5, -1.0, 2.0]], [2, 1]),
}
# logsumexp rounds in float32.
LARGE_FLOAT32: Any = {"rtol": 1e-3, "atol": 1e-3}


# --- cross_entropy: the value --------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("logits.logsumexp(dim=1) less the logit of the target, and the mean over rows.")
def test_values(student: Student) -> None:
    """The loss is the mean over the rows of -log p of the target, from logits."""
    for dtype, rows, classes in ((torch.float64, 3, 5), (torch.float32, 40, 7)):
        logits, targets = new_batch(rows, classes)
        check_loss(student, logits.to(dtype), targets)


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("costs.sum() / weight[targets].sum()")
def test_weight(student: Student) -> None:
    """Rows count by the weight of their target, and the sum is divided by the sum of those weights."""
    check_loss(student, *new_batch(), weight=new_weight())


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint(
    "q is label_smoothing / C everywhere, and 1 - label_smoothing more at the target."
)
def test_smoothing(student: Student) -> None:
    """label_smoothing is spread evenly over all C classes, each with its own weight."""
    check_loss(student, *new_batch(), label_smoothing=0.3)
    check_loss(student, *new_batch(), label_smoothing=1.0, weight=new_weight())


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("kept = targets != ignore_index, and nothing else of the other rows anywhere.")
def test_ignored(student: Student) -> None:
    """Rows whose target is ignore_index, which may be a class, add nothing, whatever else is asked."""
    check_loss(student, *new_batch_with(DEFAULT_IGNORED))
    for ignored in (2, 0, 9, -1):
        check_loss(student, *new_batch_with(ignored), ignore_index=ignored)
    options: dict[str, Any] = {"weight": new_weight(), "label_smoothing": 0.3}
    for ignored in (-1, 2):
        check_loss(student, *new_batch_with(ignored), ignore_index=ignored, **options)


@pytest.mark.points(2)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("A sum of nothing divided by a sum of nothing is 0 / 0, which is NaN in torch.")
def test_nothing_kept(student: Student) -> None:
    """Where no row is kept the loss is NaN: all are ignored, or there is none."""
    for rows in (3, 0):
        logits, targets = torch.randn(rows, CLASSES), torch.full((rows,), DEFAULT_IGNORED)
        check_loss(student, logits, targets)


# --- cross_entropy: large logits, gradients, and the rest ----------------------------------------


@pytest.mark.points(16)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint(
    "logits - logits.logsumexp(dim=1, keepdim=True): no exp, softmax or log of your own."
)
def test_large_logits(student: Student) -> None:
    """Loss and gradients are finite and exact for logits up to 1e4, whatever stands beside them."""
    why = "exp of a large logit is inf, log of a probability rounded to 0 is -inf. Use logsumexp"
    for dtype in DTYPES:
        tolerances = LARGE_FLOAT32 if dtype == torch.float32 else {}
        for name, (rows, classes) in LARGE.items():
            logits = torch.tensor(rows, dtype=dtype, requires_grad=True)
            targets = torch.tensor(classes)
            loss = loss_of(student, logits, targets)
            what = f"the loss of {name_of(dtype)} logits, {name},"
            laws.check_large_inputs(loss, {"logits": logits}, what=what, why=why)
            # What is right is computed in float64.
            exact = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
            right = F.cross_entropy(exact, targets)
            assert_close(loss.detach(), right.detach().to(dtype), what=what, **tolerances)
            (gradient,) = torch.autograd.grad(right, exact)
            what = f"the gradient of {what}"
            assert_close(logits.grad, gradient.to(dtype), what=what, **tolerances)


@pytest.mark.points(6)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("Stay in the graph: no detach, no .item(), no NumPy, no tensor made of numbers.")
def test_gradients(student: Student) -> None:
    """Gradients reach the logits, and are zero in the ignored rows."""
    more: dict[str, Any] = {"weight": new_weight(), "label_smoothing": 0.3, "ignore_index": 2}
    for options in ({}, more):
        logits, targets = new_batch_with(options.get("ignore_index", DEFAULT_IGNORED))
        right = functools.partial(F.cross_entropy, target=targets, **options)
        loss = loss_of(student, logits.requires_grad_(), targets, **options)
        laws.check_gradients(loss, {"logits": logits}, right, what="the loss")


@pytest.mark.points(5)
@pytest.mark.place("cross_entropy")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Targets left after ignore_index are in 0..C-1, label_smoothing is in [0, 1].")
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


@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("Make new tensors: targets[ignored] = 0 writes into the caller's.")
def test_changes_nothing(student: Student) -> None:
    """Logits, targets and weights stay as they are."""
    batch = new_batch_with(DEFAULT_IGNORED)
    laws.check_changes_nothing(student, "cross_entropy", *batch, new_weight(), 0.3)


@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("Take dim=1 by its number, and reshape instead of view.")
def test_layouts(student: Student) -> None:
    """Logits may have any strides."""
    laws.check_layouts(student, "cross_entropy", *new_batch(), what="the loss")


@pytest.mark.points(2)
@pytest.mark.requires("test_values")
@pytest.mark.place("cross_entropy")
@pytest.mark.hint("Sum and divide, which leaves no dimension; no float() on the way.")
def test_kind_of_loss(student: Student) -> None:
    """The loss is a 0-d tensor of the dtype of the logits, in float64 to float64's precision."""
    logits, targets = new_batch()
    for dtype in DTYPES:
        loss = student.function("cross_entropy")(logits.to(dtype), targets)
        assert_tensor(loss, shape=(), dtype=dtype, what="the loss")
    loss = student.function("cross_entropy")(logits, targets).detach()
    laws.check_float64(loss, F.cross_entropy(logits, targets), what="the loss")


# --- looks_like_probabilities --------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("looks_like_probabilities")
@pytest.mark.hint("(outputs >= 0).all(), and the sum of every row within 1e-4 of 1.")
def test_probabilities(student: Student) -> None:
    """True for outputs of a softmax, False for logits, outputs of a sigmoid, log-probabilities, NaN."""
    logits = 3 * torch.randn(5, CLASSES)
    centered = logits - logits.mean(1, keepdim=True) + 1 / CLASSES
    probabilities = {
        "equal probabilities": torch.full((3, CLASSES), 1 / CLASSES),
        "outputs of a softmax": logits.softmax(1),
        "outputs of a softmax over 1000 classes": torch.randn(2, 1000).softmax(1),
        "outputs of a softmax in float64": logits.double().softmax(1),
        "probabilities of 0 and 1": torch.eye(CLASSES),
    }
    others = {
        "logits": logits,
        "logits above 0": logits.abs() + 0.1,
        "logits whose rows sum to 1": centered,
        "outputs of a sigmoid": logits.sigmoid(),
        "log-probabilities": logits.log_softmax(1),
        "zeros": torch.zeros(3, CLASSES),
        "NaN": logits * math.nan,
    }
    check_looks(student, probabilities, others)


@pytest.mark.points(4)
@pytest.mark.requires("test_probabilities")
@pytest.mark.place("looks_like_probabilities")
@pytest.mark.hint("Over the classes, dim=1, and .all() over the rows.")
def test_every_row(student: Student) -> None:
    """Every single row has to be one of probabilities; without rows it is False."""
    good = torch.randn(5, 3).softmax(1)
    others = {
        "no rows": good[:0],
        "rows that sum to 0.5 and 1.5": torch.tensor([[0.2, 0.3], [0.7, 0.8]]),
        "columns, not rows, that sum to 1": torch.randn(5, 3).softmax(0),
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
            others[f"probabilities but for {name} in row {place}"] = bad
    check_looks(student, {"outputs of a softmax": good}, others)


@pytest.mark.points(1)
@pytest.mark.requires("test_probabilities")
@pytest.mark.place("looks_like_probabilities")
@pytest.mark.hint("(outputs.sum(dim=1) - 1).abs() <= 1e-4, and entries not below 0 at all.")
def test_tolerance(student: Student) -> None:
    """Sums may be off by 1e-4, entries may not be below 0."""
    below = torch.tensor([[0.5, 0.5, -1e-6], [0.2, 0.3, 0.5]])
    what = "probabilities of which a row sums to"
    near = {f"{what} {total}": with_row_sum(total) for total in (1.00008, 0.99992)}
    far = {f"{what} {total}": with_row_sum(total) for total in (1.00015, 0.99985)}
    check_looks(student, near, {"probabilities but for one entry, -1e-6,": below, **far})


@pytest.mark.points(1)
@pytest.mark.requires("test_probabilities")
@pytest.mark.place("looks_like_probabilities")
@pytest.mark.hint("Look at the outputs, and change nothing in place.")
def test_looks_changes_nothing(student: Student) -> None:
    """The outputs stay as they are."""
    for outputs in (torch.randn(4, 3).softmax(1), 3 * torch.randn(4, 3)):
        laws.check_changes_nothing(student, "looks_like_probabilities", outputs)


# --- double_softmax_floor ------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("double_softmax_floor")
@pytest.mark.hint("math.log(1 + (num_classes - 1) / math.e)")
def test_floor(student: Student) -> None:
    """The floor is log(1 + (num_classes - 1) / e)."""
    for classes in (random.randint(3, 40), random.randint(200, 2000), 1):
        value = student.function("double_softmax_floor")(classes)
        right = math.log(1 + (classes - 1) / math.e)
        assert_close(value, right, what=f"double_softmax_floor({classes})")


@pytest.mark.points(1)
@pytest.mark.place("double_softmax_floor")
@pytest.mark.hint("if num_classes < 1: raise ValueError(...), with num_classes in the message.")
def test_floor_error(student: Student) -> None:
    """A num_classes below 1 is a ValueError."""
    laws.check_errors(student, "double_softmax_floor", {"num_classes": [(0,), (-1,)]}, fine=(1,))


# --- locally -------------------------------------------------------------------------------------


def new_batch(rows: int = 9, classes: int = CLASSES) -> tuple[Tensor, Tensor]:
    """Logits in float64, and targets among which every class occurs where there is room."""
    targets = (torch.arange(rows) % classes)[torch.randperm(rows)]
    return 2 * torch.randn(rows, classes).double(), targets


def new_batch_with(ignored: int) -> tuple[Tensor, Tensor]:
    """A batch in which the targets of two rows are this one, which is to be ignored."""
    logits, targets = new_batch()
    targets[[1, 4]] = ignored
    return logits, targets


def new_weight() -> Tensor:
    """A weight for each class; that of class 1, which no test ignores, is 0."""
    weight = 3 * torch.rand(CLASSES).double() + 0.1
    weight[1] = 0
    return weight


def loss_of(student: Student, logits: Tensor, targets: Tensor, **options: Any) -> Tensor:
    """The student's loss; what shape it should have is judged by a test of its own."""
    value = student.function("cross_entropy")(logits, targets, **options)
    value = assert_tensor(value, dtype=logits.dtype, what="the loss")
    if value.shape == (1,):
        return value.reshape(())
    return value


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check_loss(student: Student, logits: Tensor, targets: Tensor, **options: Any) -> None:
    """The loss is that of PyTorch's cross_entropy with the same options."""
    value = loss_of(student, logits, targets, **options).detach()
    right = F.cross_entropy(logits, targets, **options)
    what = f"the loss of {name_of(logits.dtype)} logits of shape {tuple(logits.shape)}"
    if options:
        what += f" with {', '.join(options)}"
    assert_close(value, right, what=what)


def with_row_sum(total: float) -> Tensor:
    """Probabilities, but for one row that sums to this number."""
    outputs = torch.randn(4, 3).softmax(1)
    outputs[1] *= total
    return outputs


def check_looks(
    student: Student, probabilities: dict[str, Tensor], others: dict[str, Tensor]
) -> None:
    """The answer is True for these probabilities, and False for all other outputs; both by what they are.

    The questions come in a drawn order, so that no list of answers fits.
    """
    outputs = {**probabilities, **others}
    looks_like_probabilities = student.function("looks_like_probabilities")
    order = random.sample(list(outputs), len(outputs))
    answers = {name: looks_like_probabilities(outputs[name]) for name in order}
    for name in outputs:
        assert_equal(answers[name], name in probabilities, what=f"the answer for {name}")
