"""What train_epoch, evaluate and fit promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import inf, isfinite, nan
from statistics import fmean
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

LOOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-6}  # a sum of losses may be kept in float32
HOOK = 0.25  # what a hook of the model adds to each loss
TRAIN_ROWS = (3, 3)  # of the batches of fit's training loader; its first row has the number 3
STEPS = len(TRAIN_ROWS)


def new_batches(rows: Sequence[int], first: int = 0, extra: float = 0.0, begin: Any = None) -> Any:
    """Batches for the probe's model: some rows are classified rightly from the start, others later."""
    n = sum(rows)
    number, targets = torch.arange(first, first + n), torch.arange(n) % 3 + 1
    begin = torch.tensor([0, 0, 1, 2, 1])[torch.arange(n) % 5] if begin is None else begin
    x = torch.stack([number, targets, begin, extra * torch.rand(n)], dim=1)
    return list(zip(x.split(list(rows)), targets.split(list(rows)), strict=True))


def run(student: Student, calls: list[str], batches: Any, level: float = 3.0, **state: Any) -> Any:
    """Calls of train_epoch or evaluate on the probe's model, whose loss in evaluation is `level`."""
    model = student.made("scripted", [level], len(batches), **state)
    more = [student.made("sgd", model)] if "train_epoch" in calls else []
    loader = student.made("loader", batches)
    return student.run("seen", calls, model, loader, student.made("loss"), *more)


def check_modes(report: Any, training: bool, batches: Any, calls: int) -> None:
    wrong, right = ("evaluation", "model.train()") if training else ("training", "model.eval()")
    seen = entry(report, "calls", kind=list)
    told = f"The model, or a part of it, runs in {wrong} mode: {right} comes first in each call."
    assert all(laws.same(entry(one, kind=list)[:2], [training] * 2) for one in seen), told
    numbers, expected = [entry(one, 2) for one in seen], [int(x[0, 0]) for x, _ in batches] * calls
    assert_equal(numbers, expected, what="the list of the first rows of the model's inputs")
    passes = len(entry(report, "passes", kind=list))
    assert passes == calls, f"There are {passes} passes over the loader in {calls} calls."


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("For each batch: zero_grad(), loss = ..., loss.backward(), optimizer.step().")
def test_trains(student: Student) -> None:
    """Each batch makes one step, with its own gradient and none from before."""
    for rows in ([4] * random.randint(2, 9), [3] * random.randint(2, 9), [5]):
        n = len(rows)
        report = run(student, ["train_epoch"], new_batches(rows), grad=-7.0)
        what = "the weight after an epoch with the gradient -1 in each batch and SGD with lr=1"
        assert_close(entry(report, "weight"), float(n), what=what)


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("total += loss.item() * len(targets), for each batch, then total / rows.")
def test_train_loss(student: Student) -> None:
    """The result is the mean of the batch losses, a float."""
    for rows in ((4, 4, 4), (5, 5), (3,)):
        level = round(random.uniform(2, 9), 3)
        losses = [HOOK + level + 8 - 2 * i for i in range(len(rows))]
        what = f"the loss of an epoch with the batch losses {losses}"
        value = entry(run(student, ["train_epoch"], new_batches(rows), level), "values", 0)
        assert_close(value, fmean(losses), what=what, **LOOSE)


@pytest.mark.points(2)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("model.train() is the first line, and model(inputs) the only call of the model.")
def test_train_mode(student: Student) -> None:
    """Each call sets training mode for all parts, and passes over the loader once."""
    model, batches = student.made("scripted", [3.0], 2), new_batches((2, 2, 2))
    loader, sgd = student.made("loader", batches), student.made("sgd", model)
    given = (model, loader, student.made("loss"), sgd)
    parts = ["1.values", "random", "modes", "hooks"]
    laws.check_changes_nothing(student, "train_epoch", *given, only=parts)
    for modes in ([False, False], [True, False], [False, True]):
        report = run(student, ["train_epoch"] * 2, batches, modes=modes)
        check_modes(report, True, batches, 2)


ROWS = ((5, 5, 2), (1, 1, 4), (3, 3, 3))


def evaluated(student: Student, batches: Any, index: int) -> Any:
    """The loss or the accuracy that evaluate gives."""
    report, told = run(student, ["evaluate"], batches, grad=5.0), "Return a pair: loss, accuracy."
    return entry(report, "values", 0, kind=(list, tuple), count=2, told=told)[index]


@pytest.mark.points(6)
@pytest.mark.place("evaluate")
@pytest.mark.hint("total += loss.item() * len(targets), for each batch, then total / rows.")
def test_loss(student: Student) -> None:
    """The loss is the mean over all samples, whatever the sizes of the batches."""
    for rows in ROWS:
        batches = new_batches(rows, extra=5.0)
        means = [(x[:, 3].mean() + 3 + HOOK).item() for x, _ in batches]
        total = sum(mean * n for mean, n in zip(means, rows, strict=True))
        what = f"the loss over all batches, which have {list(rows)} rows,"
        actual = evaluated(student, batches, 0)
        assert_close(actual, total / sum(rows), what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("evaluate")
@pytest.mark.hint("hits += (outputs.argmax(1) == targets).sum().item(), then hits / rows.")
def test_accuracy(student: Student) -> None:
    """The accuracy is the fraction of all samples whose argmax is the target, a float."""
    for rows in ROWS:
        batches = new_batches(rows, begin=new_hits(rows))
        hits = [(x[:, 2] == 0).sum().item() for x, _ in batches]
        right = sum(hits) / sum(rows)
        what = f"the accuracy over all batches, which have {list(rows)} rows,"
        assert_close(evaluated(student, batches, 1), right, what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("evaluate")
@pytest.mark.hint("model.eval(), and with torch.no_grad(): around the loop; nothing else is set.")
def test_changes_nothing(student: Student) -> None:
    """The model runs in evaluation mode and without autograd; nothing but its mode is changed."""
    batches = new_batches((2, 2, 1))
    for modes in ([True, True], [True, False], [False, True], [False, False]):
        model = student.made("scripted", [3.0], 2, 5.0, modes)
        given = (model, student.made("loader", batches), student.made("loss"))
        laws.check_changes_nothing(student, "evaluate", *given, allow=["mode"])
        laws.check_modes_inside(student, "evaluate", *given, training=False, grad=False)
    report = run(student, ["evaluate"] * 2, batches, modes=[True, True])
    check_modes(report, False, batches, 2)
    told = "Autograd is off after evaluate: use `with torch.no_grad():`, which brings it back."
    assert laws.same(entry(report, "grads"), [True, True]), told


def new_hits(rows: Sequence[int]) -> Tensor:
    """0 for rows that are classified rightly, 1 for others; no mean of the batches is that of the rows."""
    while True:
        hits = torch.arange(sum(rows)) < random.randint(1, sum(rows) - 1)
        hits = hits[torch.randperm(len(hits))].float()
        means = [batch.mean().item() for batch in hits.split(list(rows))]
        if len({*rows}) == 1 or abs(fmean(means) - hits.mean().item()) > 0.01:
            return 1 - hits


def plan(losses: list[float], patience: int) -> tuple[int, int]:
    """How many epochs run, and the number of the one whose weights are kept, from 1."""
    lowest, best, waited = inf, 0, 0
    for epoch, loss in enumerate(losses, 1):
        if isfinite(loss) and loss < lowest:
            lowest, best, waited = loss, epoch, 0
        else:
            waited += 1
        if waited >= patience:
            return epoch, best or epoch
    return len(losses), best or len(losses)


def run_fit(student: Student, losses: list[float], *more: Any, **options: Any) -> Any:
    """A report of fit on a model with these validation losses."""
    model = student.made("scripted", [99.0, *(loss - HOOK for loss in losses)], STEPS)
    loaders = [student.made("loader", new_batches(rows, rows[-1])) for rows in (TRAIN_ROWS, (4, 1))]
    optimizer = student.made("sgd", model)
    if "scheduler" in options:
        options["scheduler"] = student.made("scheduler", optimizer, options["scheduler"])
    given = (model, *loaders, student.made("loss"), optimizer, *more)
    return student.run("seen", ["fit"], *given, **options)


def check_epochs(report: Any, losses: list[float], patience: int) -> None:
    """The number of epochs that run, by the passes over the training loader."""
    epochs = plan(losses, patience)[0]
    what = f"the number of epochs for the validation losses {losses} and patience={patience}"
    assert_close(epochs_of(report), epochs, what=what)


def epochs_of(report: Any) -> int:
    passes = entry(report, "passes", kind=list)
    return sum(laws.same(first, TRAIN_ROWS[-1]) for first in passes)


def check_kept(report: Any, losses: list[float], patience: int, name: str, part: str) -> None:
    """The epoch whose weights or buffers the model holds."""
    best = plan(losses, patience)[1]
    where = f"for the validation losses {losses} and patience={patience}"
    what = f"the number of the epoch, from 1, of which the model holds the {part} {where}"
    epoch = entry(report, name, kind=(int, float)) / STEPS
    assert_close(epoch, float(best), what=what)


def later(losses: list[float]) -> list[float]:
    """These losses after a drawn number of epochs that all improve."""
    return [100.0 - epoch for epoch in range(random.randint(0, 4))] + losses


def check_fit(student: Student, losses: list[float], patience: int) -> None:
    report = run_fit(student, losses, len(losses), patience)
    check_epochs(report, losses, patience)
    check_kept(report, losses, patience, "weight", "weights")


# The epoch in which training stops makes no difference to the best one here.
BEST = [([5.0, 3.0, 4.0, 3.5, 3.75], 4), ([5.0, 4.0, 2.0], 4), ([1.0, 2.0, 3.0], 4)]
BEST += [([5.0, 3.0, 4.0, 4.0, 4.0, 4.0, 4.0], 2)]


@pytest.mark.points(9)
@pytest.mark.place("fit")
@pytest.mark.hint("best = copy.deepcopy(model.state_dict()), in the end load_state_dict(best).")
def test_best(student: Student) -> None:
    """In the end the model holds the weights of its best epoch, stopped early or not."""
    for case, patience in BEST:
        losses = later(case)
        report = run_fit(student, losses, len(losses), patience)
        check_kept(report, losses, patience, "weight", "weights")


@pytest.mark.points(3)
@pytest.mark.place("fit")
@pytest.mark.hint("model.state_dict() has the buffers, too; copy all of its tensors.")
def test_buffers(student: Student) -> None:
    """The model holds the buffers of that epoch, too."""
    for case, patience in BEST:
        losses = later(case)
        report = run_fit(student, losses, len(losses), patience)
        check_kept(report, losses, patience, "counter", "buffers")


@pytest.mark.points(5)
@pytest.mark.place("fit")
@pytest.mark.hint("waited = 0 at an improvement, else waited += 1; break at waited == patience.")
def test_patience(student: Student) -> None:
    """Training stops after patience epochs in a row without improvement, 5 if it is not given."""
    for case, patience in (
        ([5.0, 3.0, 4.0, 6.0, 7.0, 1.0], 2),
        ([1.0, 2.0, 3.0], 1),
        ([3.0, 4.0, 5.0, 2.0, 6.0, 4.0, 4.0, 1.0, 0.5], 3),
        ([3.0, 4.0, 2.0, 4.0, 1.0, 3.0, 3.0, 3.0, 0.5], 3),
    ):
        losses = later(case)
        check_epochs(run_fit(student, losses, len(losses), patience), losses, patience)
    losses = later([1.0])
    report = run_fit(student, [*losses, *[2.0] * 8], epochs=len(losses) + 8)
    what = (
        f"the number of epochs if only the first {len(losses)} improve, with patience=5 by default"
    )
    assert_close(epochs_of(report), len(losses) + 5, what=what)


@pytest.mark.points(4)
@pytest.mark.place("fit")
@pytest.mark.hint("An epoch improves if math.isfinite(val_loss) and val_loss < lowest.")
def test_ties_and_non_finite(student: Student) -> None:
    """Neither an equal loss nor NaN or inf improves; where none improves, the last stays."""
    check_fit(student, later([5.0, 3.0, 3.0, 3.0, 3.0, 1.0]), 2)
    check_fit(student, later([5.0, 3.0, 3.0 - 2**-20, 4.0, 3.0 - 2**-20]), 3)
    check_fit(student, [inf, 4.0, inf, 3.0, 3.5], 3)
    check_fit(student, [nan, 4.0, nan, 3.0, 5.0], 2)
    check_fit(student, later([2.0, nan, nan, nan, 1.0]), 2)
    for losses, patience in (([nan] * 3, 5), ([nan, inf, 2.0], 2)):
        check_fit(student, losses, patience)


@pytest.mark.points(5)
@pytest.mark.place("fit")
@pytest.mark.hint("{'train_loss': [], 'val_loss': [], 'val_acc': []}, and three appends an epoch.")
def test_history(student: Student) -> None:
    """The history has exactly three lists, with one number for each epoch that ran, the last included."""
    for case, patience in (([5.0, 4.0, 3.0], 5), ([2.0, 3.0, 4.0, 1.0], 2), ([1 / 3], 1)):
        scale = random.uniform(1, 2)
        losses = [scale * loss for loss in case]
        report = run_fit(student, losses, len(losses), patience)
        told = "Return a dict with the lists train_loss, val_loss and val_acc."
        history = entry(report, "values", 0, kind=dict, told=told)
        losses = losses[: (epochs := plan(losses, patience)[0])]
        started = [99.0 + HOOK, *losses][:epochs]  # the losses before each epoch
        trained = [loss + 8 - STEPS + 1 for loss in started]
        right = {"train_loss": trained, "val_loss": losses, "val_acc": [0.8, 1.0, 1.0][:epochs]}
        names = sorted(str(name) for name in history)
        assert_equal(names, sorted(right), what="the list of the history's keys, sorted,")
        history = {name: history[name] for name in right}
        what = f"the history for the validation losses {losses} and patience={patience}"
        assert_close(history, right, what=what, **LOOSE)


@pytest.mark.points(2)
@pytest.mark.place("fit")
@pytest.mark.hint("if scheduler is not None: scheduler.step(), once an epoch.")
def test_scheduler(student: Student) -> None:
    """The scheduler steps once an epoch, after the optimizer's steps of that epoch."""

    factor = round(random.uniform(0.3, 0.6), 3)

    def total(steps: Callable[[int], int]) -> float:
        return float(sum(factor ** steps(i) for i in range(4 * STEPS)))

    report = run_fit(student, [5.0, 4.0, 6.0, 2.0], 4, scheduler=factor)
    what = f"the sum of the rates of all optimizer steps, each scheduler step times {factor},"
    assert_close(entry(report, "rate"), total(lambda i: i // STEPS), what=what)


@pytest.mark.points(2)
@pytest.mark.place("fit")
@pytest.mark.word("the sandbox logs the calls")
@pytest.mark.hint("train_epoch sets train(), evaluate sets eval(): call both in each epoch.")
def test_calls(student: Student) -> None:
    """Each epoch trains on each training batch once, then evaluates each validation batch once."""
    report = run_fit(student, [5.0, 4.0, 4.5], 3)
    train, val = [[True, True, 3], [True, True, 6]], [[False, False, 1], [False, False, 5]]
    what = "the list of the model's calls (modes of both parts, first row of the batch)"
    assert_equal(entry(report, "calls"), (train + val) * 3, what=what)
    what = "the list of the passes over the loaders (first row), both once an epoch"
    assert_equal(entry(report, "passes"), [3, 1] * 3, what=what)


@pytest.mark.points(2)
@pytest.mark.place("fit")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check epochs and patience before the first epoch.")
def test_errors(student: Student) -> None:
    """An epochs or patience below 1 is a ValueError that names it, before anything is trained."""
    model = student.made("scripted", [2.0, 1.0], 1)
    loader = student.made("loader", new_batches((2, 1)))
    given = (model, loader, loader, student.made("loss"), student.made("sgd", model))
    parts = ["1.values", "2.values", "random", "modes", "hooks"]
    laws.check_changes_nothing(student, "fit", *given, 1, 1, only=parts)
    low, short = [(*given, 0), (*given, -1, 1)], [(*given, 2, 0), (*given, 1, -3)]
    laws.check_errors(student, "fit", {"epochs": low, "patience": short}, fine=(*given, 1, 1))
    for call in low + short:
        laws.check_changes_nothing(student, "fit", *call, raises=ValueError, allow=["mode"])
