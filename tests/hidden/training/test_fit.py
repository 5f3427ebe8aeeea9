"""Tests of train_epoch, evaluate and fit."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, within
from grader.judge.student import Student

Batches = list[tuple[Tensor, Tensor]]

LOOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}  # a sum of losses may be kept in float32
START = 99.0  # the validation loss before the first epoch
LESS = 2**-20  # a loss that is lower by this is lower
# The numbers of the first rows of the loaders. Rows from 100 on are for validation.
TRAINING, VALIDATION = 1, 100
STEPS = 2  # per epoch of fit
UNEVEN = [5, 5, 2]
CALLS = "the list of the model's calls (its mode and its part's, autograd, first row of the batch)"


# --- train_epoch ---------------------------------------------------------------------------------


@promise(
    "train_epoch",
    points=4,
    hint="For each batch: zero_grad(), loss = ..., loss.backward(), optimizer.step().",
)
def test_trains(code: Student, draw: Draw) -> Cases:
    """Each batch makes one step, with its own gradient and without old ones."""
    steps = draw.size(2, 10)
    model = code.made("used", [True, True], slope=new_slope(draw))
    report = train(code, model, [4] * steps)
    yield f"the weight after an epoch of {steps} batches", entry(report, "state", "weight")


@promise(
    "train_epoch",
    points=2,
    hint="total += loss.item() * len(targets), for each batch, then total / rows.",
)
def test_train_loss(code: Student, draw: Draw) -> Cases:
    """The result is the mean of the batch losses, a float."""
    losses = [draw.number(2, 9) for _ in range(3)]
    model = code.made("scripted", losses, slope=new_slope(draw))
    value = entry(train(code, model, [4] * 3), "value")
    yield "the result of an epoch of 3 batches", within(value, **LOOSE)


@promise(
    "train_epoch",
    points=3,
    hint="model.train() is the first line, and model(inputs) the only call of the model.",
    word="the sandbox says in which mode the model ran",
)
def test_train_mode(code: Student, draw: Draw) -> Cases:
    """Each call sets the model and all of its parts to training mode."""
    for modes in ([False, False], [True, False]):
        yield CALLS, entry(train(code, code.made("used", modes), [2, 2]), "calls")


# --- evaluate ------------------------------------------------------------------------------------


@promise(
    "evaluate",
    points=7,
    hint="total += loss.item() * len(targets), for each batch, then total / rows.",
)
def test_loss(code: Student, draw: Draw) -> Cases:
    """The loss is the mean over all samples, whatever the sizes of the batches."""
    # In training mode these rows would have another loss.
    batches = new_batches(UNEVEN, TRAINING, extra=5 * draw.uniform(sum(UNEVEN)))
    model = code.made("used", [True, True], val_losses=[draw.number(2, 9)])
    loss, _ = evaluated(code, model, batches)
    yield f"the loss over all batches, which have {UNEVEN} rows,", within(loss, **LOOSE)


@promise(
    "evaluate",
    points=4,
    hint="hits += (outputs.argmax(1) == targets).sum().item(), then hits / rows.",
)
def test_accuracy(code: Student, draw: Draw) -> Cases:
    """The accuracy is the fraction of all samples whose argmax is the target, a float."""
    wrong = draw.integers(sum(UNEVEN), high=2)
    # All rows of the last batch are right, and not all of the others, so that the batches differ.
    wrong[0] = 1
    wrong[-UNEVEN[-1] :] = 0
    batches = new_batches(UNEVEN, VALIDATION, begin=wrong)
    _, accuracy = evaluated(code, code.made("used", [True, True]), batches)
    yield f"the accuracy over all batches, which have {UNEVEN} rows,", within(accuracy, **LOOSE)


@promise(
    "evaluate",
    points=3,
    hint="model.eval(), and with torch.no_grad(): around the loop.",
    word="the sandbox says in which mode the model ran",
)
def test_eval_mode(code: Student, draw: Draw) -> Cases:
    """The model and all of its parts run in evaluation mode, and without autograd."""
    for modes in ([True, True], [False, True]):
        given = code.made("used", modes), *loader_and_loss(code, new_batches([2, 1], VALIDATION))
        yield CALLS, entry(code.run("called", "evaluate", *given), "calls")


@promise(
    "evaluate",
    points=2,
    hint="model.eval(), and with torch.no_grad(): around the loop; nothing else is set.",
    word="the sandbox says what was left alone",
)
def test_changes_nothing(student: Student) -> None:
    """Only the model's mode is changed, and autograd is on again afterwards."""
    model = student.made("frozen", [True, True])
    given = model, *loader_and_loss(student, new_batches([2, 1], VALIDATION))
    laws.check_changes_nothing(student, "evaluate", *given, allow=["mode"])


# --- fit -----------------------------------------------------------------------------------------


@promise(
    "fit",
    points=9,
    hint="best = copy.deepcopy(model.state_dict()), in the end load_state_dict(best).",
)
def test_best(code: Student, draw: Draw) -> Cases:
    """In the end the model has the weights of its best epoch, stopped early or not."""
    # Here, the best epoch does not depend on the epoch in which training stops.
    for case, patience in (([5.0, 3.0, 4.0, 3.5], 4), ([5.0, 3.0, 4.0, 4.0, 4.0], 2)):
        losses = later(draw, case)
        report = fitted(code, draw, losses, patience=patience)
        yield kept(losses, patience), entry(report, "state", "weight")


@promise(
    "fit",
    points=3,
    hint="model.state_dict() has the buffers, too; copy all of its tensors.",
)
def test_buffers(code: Student, draw: Draw) -> Cases:
    """The model has the buffers of its best epoch, too."""
    report = fitted(code, draw, later(draw, [5.0, 3.0, 4.0, 3.5]), patience=4)
    what = "the buffer that counts training batches, where a later epoch is no better,"
    yield what, entry(report, "state", "counter")


@promise(
    "fit",
    points=5,
    hint="waited = 0 at an improvement, else waited += 1; break at waited == patience.",
)
def test_patience(code: Student, draw: Draw) -> Cases:
    """Training stops after patience epochs in a row without improvement, by default 5."""
    for case, patience in (
        ([5.0, 3.0, 4.0, 6.0, 7.0, 1.0], 2),
        ([1.0, 2.0], 1),
        ([3.0, 4.0, 4.0, 2.0, 4.0, 4.0, 4.0, 1.0], 3),
    ):
        losses = later(draw, case)
        yield ran(losses, patience), epochs_of(fitted(code, draw, losses, patience=patience))
    losses = later(draw, [1.0] + [2.0] * 6)
    yield ran(losses, 5), epochs_of(fitted(code, draw, losses))


@promise(
    "fit",
    points=2,
    hint="An epoch improves if val_loss < lowest.",
)
def test_ties(code: Student, draw: Draw) -> Cases:
    """An equal loss does not improve; one that is a little lower does."""
    for case, patience in (([3.0, 3.0, 3.0, 1.0], 2), ([3.0, 3.0 - LESS, 4.0], 3)):
        losses = later(draw, case)
        report = fitted(code, draw, losses, patience=patience)
        yield ran(losses, patience), epochs_of(report)
        yield kept(losses, patience), entry(report, "state", "weight")


@promise(
    "fit",
    points=3,
    hint="An epoch improves if math.isfinite(val_loss) and val_loss < lowest.",
)
def test_non_finite(code: Student, draw: Draw) -> Cases:
    """NaN and inf never improve; if no epoch improves, the weights of the last one stay."""
    for losses, patience in (
        ([inf, 4.0, 5.0], 3),
        ([nan, 4.0, nan, 5.0], 3),
        ([2.0, nan, nan, 1.0], 2),
        ([nan, inf, 2.0], 2),
    ):
        report = fitted(code, draw, losses, patience=patience)
        yield ran(losses, patience), epochs_of(report)
        yield kept(losses, patience), entry(report, "state", "weight")


@promise(
    "fit",
    points=5,
    hint="{'train_loss': [], 'val_loss': [], 'val_acc': []}, and three appends an epoch.",
)
def test_history(code: Student, draw: Draw) -> Cases:
    """The history has exactly three lists, with one number for each epoch that ran, the last included."""
    scale = draw.number(1, 2)
    losses = [scale * loss for loss in (2.0, 3.0, 4.0, 1.0)]
    train_losses = [draw.number(2, 9) for _ in range(STEPS * len(losses))]
    report = fitted(code, draw, losses, train_losses, patience=2)
    told = "Return a dict with the lists train_loss, val_loss and val_acc."
    history = entry(report, "value", kind=dict, told=told)
    yield f"the history for the validation losses {losses} and patience=2", within(history, **LOOSE)


@promise(
    "fit",
    points=2,
    hint="if scheduler is not None: scheduler.step(), once an epoch, after train_epoch.",
)
def test_scheduler(code: Student, draw: Draw) -> Cases:
    """The scheduler steps once an epoch, after the optimizer's steps of that epoch."""
    report = fitted(code, draw, [5.0, 4.0, 6.0, 2.0], factor=draw.number(0.3, 0.6))
    what = "the parameter that adds up the rates of all optimizer steps"
    yield what, within(entry(report, "state", "rate"), **LOOSE)


@promise(
    "fit",
    points=3,
    hint="train_epoch sets train(), evaluate sets eval(): call both in each epoch.",
    word="the sandbox logs the calls",
)
def test_calls(code: Student, draw: Draw) -> Cases:
    """Each epoch trains on each training batch once, then evaluates each validation batch once."""
    report = fitted(code, draw, [5.0, 4.0, 3.0])
    yield CALLS, entry(report, "calls")
    yield "the list of the passes over the loaders (first row)", entry(report, "passes")


@promise(
    "fit",
    points=2,
    hint="Check epochs and patience before the first epoch.",
    word="the sandbox says that it raised",
)
def test_errors(student: Student) -> None:
    """An epochs or patience below 1 is a ValueError that names it, before anything is trained."""
    model = student.made("scripted")
    loader, loss = loader_and_loss(student, new_batches([2, 1], TRAINING))
    given = model, loader, loader, loss, student.made("sgd", model)
    bad: dict[str, Any] = {"epochs": [(*given, 0)], "patience": [(*given, 2, 0)]}
    laws.check_errors(student, "fit", bad, fine=(*given, 1, 1))
    for call in (*bad["epochs"], *bad["patience"]):
        laws.check_changes_nothing(student, "fit", *call, raises=ValueError, allow=["mode"])


# --- helpers of the tests ------------------------------------------------------------------------


def new_batches(
    rows: list[int], first: int, begin: Tensor | None = None, extra: Tensor | None = None
) -> Batches:
    """Batches with these numbers of rows for the probe's model. Rows are numbered from `first` on."""
    count = sum(rows)
    targets = torch.arange(count) % 3 + 1
    begin = torch.zeros(count) if begin is None else begin
    extra = torch.zeros(count) if extra is None else extra
    x = torch.stack([torch.arange(first, first + count), targets, begin, extra], dim=1)
    return list(zip(x.split(rows), targets.split(rows), strict=True))


def new_slope(draw: Draw) -> float:
    """The change of a weight in a step with a rate of 1. Its multiples are exact."""
    return draw.size(17, 64) / 16


def loader_and_loss(code: Student, batches: Batches) -> tuple[Any, Any]:
    return code.made("loader", batches), code.made("loss")


def train(code: Student, model: Any, rows: list[int]) -> Any:
    """The probe's report on train_epoch for batches with these numbers of rows."""
    given = model, *loader_and_loss(code, new_batches(rows, TRAINING))
    return code.run("called", "train_epoch", *given, code.made("sgd", model))


def evaluated(code: Student, model: Any, batches: Batches) -> Any:
    """The loss and the accuracy that evaluate returns."""
    report = code.run("called", "evaluate", model, *loader_and_loss(code, batches))
    told = "Return a pair: loss, accuracy."
    return entry(report, "value", kind=(list, tuple), count=2, told=told)


def fitted(
    code: Student,
    draw: Draw,
    losses: list[float],
    train_losses: list[float] | None = None,
    factor: float | None = None,
    **options: Any,
) -> Any:
    """The probe's report on fit with these validation losses, and with a scheduler if there is a factor.

    In its state, `weight` is the slope times the number of steps, and `rate` the slope times the sum of the
    scheduled rates.
    """
    train_losses = train_losses or [100.0 - i for i in range(STEPS * len(losses))]
    # The model's hook adds 0.25 to each loss.
    val_losses = [START, *(loss - 0.25 for loss in losses)]
    model = code.made("scripted", train_losses, val_losses, STEPS, new_slope(draw))
    train_loader, loss = loader_and_loss(code, new_batches([3, 3], TRAINING))
    # For each row for validation, the first epoch in which it is classified correctly.
    begin = torch.tensor([0, 0, 1, 2, 1])
    val_loader = code.made("loader", new_batches([4, 1], VALIDATION, begin))
    optimizer = code.made("sgd", model)
    if factor is not None:
        options["scheduler"] = code.made("scheduler", optimizer, factor)
    given = model, train_loader, val_loader, loss, optimizer, len(losses)
    return code.run("called", "fit", *given, **options)


def later(draw: Draw, losses: list[float]) -> list[float]:
    """These losses, after a drawn number of epochs that all improve."""
    return [100.0 - epoch for epoch in range(draw.size(0, 3))] + losses


def epochs_of(report: Any) -> int:
    """The number of epochs that ran, counted by passes over the training loader."""
    passes: list[Any] = entry(report, "passes", kind=list)
    return passes.count(TRAINING)


def ran(losses: list[float], patience: int) -> str:
    return f"the number of epochs for the validation losses {losses} and patience={patience}"


def kept(losses: list[float], patience: int) -> str:
    where = f"for the validation losses {losses} and patience={patience}"
    return f"the weight of the epoch that the model holds {where}"
