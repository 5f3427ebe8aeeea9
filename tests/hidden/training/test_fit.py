"""Tests of train_epoch, evaluate and fit."""

from __future__ import annotations

import random
from math import inf, isfinite, nan
from statistics import fmean
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

LOOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}  # a sum of losses may be kept in float32
HOOK = 0.25  # what a hook of the model adds to each loss
START = 99.0  # the validation loss before the first epoch
# The rows of the batches of fit's loaders, and the numbers of the first ones: all are numbered through.
TRAIN_ROWS, TRAIN_FIRST = [3, 3], [1, 4]
VAL_ROWS, VAL_FIRST = [4, 1], [7, 11]
STEPS = len(TRAIN_ROWS)
# The epochs from which on the five rows for validation are classified rightly.
BEGIN = torch.tensor([0, 0, 1, 2, 1])
UNEVEN = [5, 5, 2]
CALLS = "the list of the model's calls (its mode and its part's, autograd, first row of the batch)"


# --- train_epoch ---------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("For each batch: zero_grad(), loss = ..., loss.backward(), optimizer.step().")
def test_trains(student: Student) -> None:
    """Each batch makes one step, with its own gradient and none from before."""
    steps, slope = random.randint(2, 9), new_slope()
    model = student.made("used", [True, True], slope=slope)
    report = train(student, model, new_batches([4] * steps))
    what = f"the weight after an epoch with the gradient -{slope} in each batch and SGD with lr=1"
    assert_close(entry(report, "weight"), steps * slope, what=what)


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("total += loss.item() * len(targets), for each batch, then total / rows.")
def test_train_loss(student: Student) -> None:
    """The result is the mean of the batch losses, a float."""
    losses = [random.uniform(2, 9) for _ in range(3)]
    model = student.made("scripted", losses, slope=new_slope())
    value = entry(train(student, model, new_batches([4] * 3)), "value")
    assert_close(value, fmean(losses) + HOOK, what="the result of an epoch of 3 batches", **LOOSE)


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.word("the sandbox says in which mode the model ran")
@pytest.mark.hint("model.train() is the first line, and model(inputs) the only call of the model.")
def test_train_mode(student: Student) -> None:
    """Each call sets training mode, for all parts of the model."""
    for modes in ([False, False], [True, False]):
        model = student.made("used", modes)
        report = train(student, model, new_batches([2, 2]))
        assert_equal(entry(report, "calls"), calls_in(True, [1, 3]), what=CALLS)


# --- evaluate ------------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("evaluate")
@pytest.mark.hint("total += loss.item() * len(targets), for each batch, then total / rows.")
def test_loss(student: Student) -> None:
    """The loss is the mean over all samples, whatever the sizes of the batches."""
    level, extra = random.uniform(2, 9), 5 * torch.rand(sum(UNEVEN))
    batches = new_batches(UNEVEN, extra=extra)
    model = student.made("used", [True, True], val_losses=[level])
    what = f"the loss over all batches, which have {UNEVEN} rows,"
    right = level + HOOK + extra.mean().item()
    assert_close(pair(evaluated(student, model, batches))[0], right, what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("evaluate")
@pytest.mark.hint("hits += (outputs.argmax(1) == targets).sum().item(), then hits / rows.")
def test_accuracy(student: Student) -> None:
    """The accuracy is the fraction of all samples whose argmax is the target, a float."""
    wrong = torch.randint(2, (sum(UNEVEN),))
    # All of the last batch are right and not all of the others: the batches differ.
    wrong[0] = 1
    wrong[-UNEVEN[-1] :] = 0
    model = student.made("used", [True, True])
    report = evaluated(student, model, new_batches(UNEVEN, begin=wrong))
    what = f"the accuracy over all batches, which have {UNEVEN} rows,"
    assert_close(pair(report)[1], 1 - wrong.float().mean().item(), what=what, **LOOSE)


@pytest.mark.points(2)
@pytest.mark.place("evaluate")
@pytest.mark.word("the sandbox says in which mode the model ran")
@pytest.mark.hint("model.eval(), and with torch.no_grad(): around the loop.")
def test_eval_mode(student: Student) -> None:
    """The model and all of its parts run in evaluation mode, and without autograd."""
    for modes in ([True, True], [False, True]):
        model = student.made("used", modes)
        report = evaluated(student, model, new_batches([2, 1]))
        assert_equal(entry(report, "calls"), calls_in(False, [1, 3]), what=CALLS)


@pytest.mark.points(2)
@pytest.mark.place("evaluate")
@pytest.mark.word("the sandbox says what was left alone")
@pytest.mark.hint("model.eval(), and with torch.no_grad(): around the loop; nothing else is set.")
def test_changes_nothing(student: Student) -> None:
    """Nothing but the model's mode is changed, and autograd is on again."""
    model = student.made("frozen", [True, True])
    given = model, student.made("loader", new_batches([2, 1])), student.made("loss")
    laws.check_changes_nothing(student, "evaluate", *given, allow=["mode"])


# --- fit -----------------------------------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.place("fit")
@pytest.mark.hint("best = copy.deepcopy(model.state_dict()), in the end load_state_dict(best).")
def test_best(student: Student) -> None:
    """In the end the model holds the weights of its best epoch, stopped early or not."""
    # The epoch in which training stops makes no difference to the best one here.
    for case, patience in (([5.0, 3.0, 4.0, 3.5], 4), ([5.0, 3.0, 4.0, 4.0, 4.0], 2)):
        losses = later(case)
        check_kept(fitted(student, losses, patience=patience), losses, patience)


@pytest.mark.points(3)
@pytest.mark.place("fit")
@pytest.mark.hint("model.state_dict() has the buffers, too; copy all of its tensors.")
def test_buffers(student: Student) -> None:
    """The model holds the buffers of that epoch, too."""
    losses = later([5.0, 3.0, 4.0, 3.5])
    report = fitted(student, losses, patience=4)
    best = plan(losses, 4).best
    what = f"the buffer that counts training batches, where epoch {best} is the best one"
    assert_close(entry(report, "counter"), best * STEPS, what=what)


@pytest.mark.points(5)
@pytest.mark.place("fit")
@pytest.mark.hint("waited = 0 at an improvement, else waited += 1; break at waited == patience.")
def test_patience(student: Student) -> None:
    """Training stops after patience epochs in a row without improvement, 5 if it is not given."""
    for case, patience in (
        ([5.0, 3.0, 4.0, 6.0, 7.0, 1.0], 2),
        ([1.0, 2.0], 1),
        ([3.0, 4.0, 4.0, 2.0, 4.0, 4.0, 4.0, 1.0], 3),
    ):
        losses = later(case)
        check_epochs(fitted(student, losses, patience=patience), losses, patience)
    losses = later([1.0] + [2.0] * 6)
    check_epochs(fitted(student, losses), losses, 5)


@pytest.mark.points(1)
@pytest.mark.place("fit")
@pytest.mark.hint("An epoch improves if val_loss < lowest.")
def test_ties(student: Student) -> None:
    """An equal loss does not improve; one that is a little lower does."""
    for case, patience in (
        ([3.0, 3.0, 3.0, 1.0], 2),
        ([3.0, 3.0 - 2**-12, 4.0], 3),
    ):
        losses = later(case)
        report = fitted(student, losses, patience=patience)
        check_epochs(report, losses, patience)
        check_kept(report, losses, patience)


@pytest.mark.points(3)
@pytest.mark.place("fit")
@pytest.mark.hint("An epoch improves if math.isfinite(val_loss) and val_loss < lowest.")
def test_non_finite(student: Student) -> None:
    """NaN and inf never improve; where no epoch improves, the weights of the last one stay."""
    for losses, patience in (
        ([inf, 4.0, 5.0], 3),
        ([nan, 4.0, nan, 5.0], 3),
        ([2.0, nan, nan, 1.0], 2),
        ([nan, inf, 2.0], 2),
    ):
        report = fitted(student, losses, patience=patience)
        check_epochs(report, losses, patience)
        check_kept(report, losses, patience)


@pytest.mark.points(5)
@pytest.mark.place("fit")
@pytest.mark.hint("{'train_loss': [], 'val_loss': [], 'val_acc': []}, and three appends an epoch.")
def test_history(student: Student) -> None:
    """The history has exactly three lists, with one number for each epoch that ran, the last included."""
    scale, patience = random.uniform(1, 2), 2
    val_losses = [scale * loss for loss in (2.0, 3.0, 4.0, 1.0)]
    train_losses = [random.uniform(2, 9) for _ in range(STEPS * len(val_losses))]
    report = fitted(student, val_losses, train_losses, patience=patience)
    told = "Return a dict with the lists train_loss, val_loss and val_acc."
    history = entry(report, "value", kind=dict, told=told)
    epochs = plan(val_losses, patience).epochs
    means = [fmean(train_losses[i * STEPS : (i + 1) * STEPS]) for i in range(epochs)]
    right = {
        "train_loss": [mean + HOOK for mean in means],
        "val_loss": val_losses[:epochs],
        "val_acc": [(epoch >= BEGIN).float().mean().item() for epoch in range(1, epochs + 1)],
    }
    what = "the list of the history's keys, sorted,"
    assert_equal(sorted(map(str, history)), sorted(right), what=what)
    history = {name: history[name] for name in right}
    what = f"the history for the validation losses {val_losses} and patience={patience}"
    assert_close(history, right, what=what, **LOOSE)


@pytest.mark.points(2)
@pytest.mark.place("fit")
@pytest.mark.hint("if scheduler is not None: scheduler.step(), once an epoch.")
def test_scheduler(student: Student) -> None:
    """The scheduler steps once an epoch, after the optimizer's steps of that epoch."""
    losses, factor = [5.0, 4.0, 6.0, 2.0], random.uniform(0.3, 0.6)
    report = fitted(student, losses, factor=factor)
    rates = [factor**epoch for epoch in range(len(losses)) for _ in range(STEPS)]
    what = "the sum of the rates of all optimizer steps"
    assert_close(entry(report, "rate"), sum(rates), what=what, **LOOSE)


@pytest.mark.points(2)
@pytest.mark.place("fit")
@pytest.mark.word("the sandbox logs the calls")
@pytest.mark.hint("train_epoch sets train(), evaluate sets eval(): call both in each epoch.")
def test_calls(student: Student) -> None:
    """Each epoch trains on each training batch once, then evaluates each validation batch once."""
    report = fitted(student, [5.0, 4.0, 3.0])
    calls = calls_in(True, TRAIN_FIRST) + calls_in(False, VAL_FIRST)
    assert_equal(entry(report, "calls"), calls * 3, what=CALLS)
    what = "the list of the passes over the loaders (first row), both once an epoch"
    assert_equal(entry(report, "passes"), [TRAIN_FIRST[0], VAL_FIRST[0]] * 3, what=what)


@pytest.mark.points(2)
@pytest.mark.place("fit")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check epochs and patience before the first epoch.")
def test_errors(student: Student) -> None:
    """An epochs or patience below 1 is a ValueError that names it, before anything is trained."""
    model = student.made("scripted")
    loader = student.made("loader", new_batches([2, 1]))
    given = (model, loader, loader, student.made("loss"), student.made("sgd", model))
    bad: dict[str, Any] = {"epochs": [(*given, 0)], "patience": [(*given, 2, 0)]}
    laws.check_errors(student, "fit", bad, fine=(*given, 1, 1))
    for call in (*bad["epochs"], *bad["patience"]):
        laws.check_changes_nothing(student, "fit", *call, raises=ValueError, allow=["mode"])


# --- locally -------------------------------------------------------------------------------------


def new_batches(
    rows: list[int], first: int = 1, begin: Tensor | None = None, extra: Tensor | None = None
) -> list[tuple[Tensor, Tensor]]:
    """Batches of so many rows for the probe's model, numbered from `first` on."""
    count = sum(rows)
    numbers = torch.arange(first, first + count)
    targets = torch.arange(count) % 3 + 1
    if begin is None:
        begin = torch.zeros(count)
    if extra is None:
        extra = torch.zeros(count)
    x = torch.stack([numbers, targets, begin, extra], dim=1)
    return list(zip(x.split(rows), targets.split(rows), strict=True))


def new_slope() -> float:
    """By how much a step with a rate of 1 moves a weight; its multiples are exact."""
    return random.randint(17, 63) / 16


def calls_in(training: bool, first_rows: list[int]) -> list[dict[str, Any]]:
    """How the model should be called in one mode for batches that begin with these rows."""
    mode = {"training": [training, training], "autograd": training}
    return [{**mode, "first row": first} for first in first_rows]


def train(student: Student, model: Any, batches: Any) -> Any:
    """A report of train_epoch."""
    given = model, student.made("loader", batches), student.made("loss")
    return student.run("called", "train_epoch", *given, student.made("sgd", model))


def evaluated(student: Student, model: Any, batches: Any) -> Any:
    """A report of evaluate."""
    given = model, student.made("loader", batches), student.made("loss")
    return student.run("called", "evaluate", *given)


def pair(report: Any) -> Any:
    """The loss and the accuracy that evaluate returns."""
    told = "Return a pair: loss, accuracy."
    return entry(report, "value", kind=(list, tuple), count=2, told=told)


def fitted(
    student: Student,
    losses: list[float],
    train_losses: list[float] | None = None,
    factor: float | None = None,
    **options: Any,
) -> Any:
    """A report of fit with these validation losses, and with a scheduler if there is a factor.

    Its `weight` is the number of steps, its `rate` the sum of their rates that the scheduler changes.
    """
    if train_losses is None:
        train_losses = [100.0 - i for i in range(STEPS * len(losses))]
    val_losses = [START, *(loss - HOOK for loss in losses)]
    slope = new_slope()
    model = student.made("scripted", train_losses, val_losses, STEPS, slope)
    train_loader = student.made("loader", new_batches(TRAIN_ROWS, TRAIN_FIRST[0]))
    val_loader = student.made("loader", new_batches(VAL_ROWS, VAL_FIRST[0], BEGIN))
    optimizer = student.made("sgd", model)
    if factor is not None:
        options["scheduler"] = student.made("scheduler", optimizer, factor)
    given = model, train_loader, val_loader, student.made("loss"), optimizer, len(losses)
    report = student.run("called", "fit", *given, **options)
    for name in ("weight", "rate"):
        report[name] = entry(report, name, kind=(int, float)) / slope
    return report


def later(losses: list[float]) -> list[float]:
    """These losses after a drawn number of epochs that all improve."""
    return [100.0 - epoch for epoch in range(random.randint(0, 2))] + losses


class Plan(NamedTuple):
    """How many epochs run, and the number of the one whose weights are kept, from 1."""

    epochs: int
    best: int


def plan(losses: list[float], patience: int) -> Plan:
    """What fit should do with these validation losses."""
    lowest, best, waited = inf, None, 0
    for epoch, loss in enumerate(losses, 1):
        if isfinite(loss) and loss < lowest:
            lowest, best, waited = loss, epoch, 0
        else:
            waited += 1
        if waited == patience:
            break
    return Plan(epoch, best or epoch)


def check_epochs(report: Any, losses: list[float], patience: int) -> None:
    """The number of epochs that ran is right, by the passes over the training loader."""
    passes = entry(report, "passes", kind=list)
    ran = sum(laws.same(first, TRAIN_FIRST[0]) for first in passes)
    what = f"the number of epochs for the validation losses {losses} and patience={patience}"
    assert_equal(ran, plan(losses, patience).epochs, what=what)


def check_kept(report: Any, losses: list[float], patience: int) -> None:
    """The model holds the weights of its best epoch."""
    epoch = entry(report, "weight", kind=(int, float)) / STEPS
    where = f"for the validation losses {losses} and patience={patience}"
    what = f"the number of the epoch, from 1, of which the model holds the weights {where}"
    assert_close(epoch, float(plan(losses, patience).best), what=what)
