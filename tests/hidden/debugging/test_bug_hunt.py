"""Tests of the six functions of bug_hunt. Every test is about a bug, or requires the test of one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

# Numbers of samples, and the size of a training batch.
TRAIN, VALIDATION, SIZE = 24, 11, 4
# The labels of the validation data, and the places of its samples.
LABELS = [2 + i * 2 // VALIDATION for i in range(VALIDATION)]
IN_ORDER = list(range(VALIDATION))
# The submodules that are in training mode before a call; "" is the model itself.
NONE: list[str] = []
ROOT, PARTS = [""], ["body", "body.0", "body.1"]
LR, MOMENTUM = 0.05, 0.9
# The probe's network has so many weights without batch norm.
LINEAR = 16


# --- make_loaders --------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("DataLoader(..., shuffle=True, generator=generator)")
def test_order(student: Student) -> None:
    """Training samples are shuffled one by one, anew in each pass, and no sample comes twice."""
    epochs = passes(student, 0, "ttt")
    items = list(range(TRAIN))
    laws.check_epochs(epochs, items, batch_size=SIZE, shuffled=True, drop_last=None)
    for epoch in epochs:
        blocks = [batch for batch in epoch if max(batch) - min(batch) == len(batch) - 1 > 0]
        told = "Whole batches of neighbors are shuffled: each batch has one class. Shuffle samples."
        assert len(blocks) < 3, told


@pytest.mark.points(3)
@pytest.mark.requires("test_order")
@pytest.mark.place("make_loaders")
@pytest.mark.hint("A generator of the loader's own, and no shuffling of the validation data.")
def test_loaders(student: Student) -> None:
    """seed alone decides the training order; the validation data come in order, all of them."""
    what = "the orders of three passes"
    laws.check_seeded(student, lambda seed: passes(student, seed, "ttt"), what=what)
    numbers = new_numbers(70, 5)
    default = student.run("passes", numbers, "t")
    given = student.run("passes", numbers, "t", batch_size=32, seed=0)
    assert laws.same(default, given), "By default, batch_size is 32 and seed is 0."
    train, validation = new_numbers(TRAIN, VALIDATION)
    report = student.run("passes", [train, validation], "tv", batch_size=SIZE)
    batches = entry(report, "batches", 1, kind=list)
    assert_equal(entry(report, "lengths", 1), len(batches), what="the length of the loader")
    samples = every(batches, 0)
    assert_equal(samples, validation, what="the list of the validation samples")


# --- make_optimizer ------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("make_optimizer")
@pytest.mark.hint("Usual rates are 0.1 and less for SGD, and 1e-3 for Adam.")
def test_rates(student: Student) -> None:
    """All trainable parameters are trained, by learning rates from 1e-4 to 0.1."""
    for count in (0, random.randint(1, 3)):
        names = [f"part{number}" for number in random.sample(range(100, 1000), 4)]
        frozen = random.sample(names, count)
        report = student.run("optimized", names, frozen)
        for rate in entry(report, "rates", kind=list):
            fine = isinstance(rate, float) and 0.99999e-4 <= rate <= 0.100001
            assert fine, f"A learning rate is {rate!r:.30}: it should be from 1e-4 to 0.1."
        told = "make_optimizer gives no optimizer of torch.optim."
        assert entry(report, "of torch.optim") is True, told
        held = entry(report, "held", kind=list)
        wanted = [name for name in names if name not in frozen]
        missing = [name for name in wanted if name not in held]
        assert not missing, f"make_optimizer leaves out trainable parameters: {', '.join(missing)}."
        assert entry(report, "same") is True, "make_optimizer changes requires_grad of a parameter."


# --- classification_loss -------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("classification_loss")
@pytest.mark.hint("F.cross_entropy takes the logits as they are: the softmax is a part of it.")
def test_loss(student: Student) -> None:
    """The loss is the mean cross-entropy of the logits, its gradient too, also for logits of 1e4."""
    randn = partial(torch.randn, dtype=torch.float64)
    # So large a constant in all logits changes nothing, and shows an arithmetic in float32.
    for logits in (2 * randn(5, 3), 2 * randn(7, 2), 1e4 * randn(4, 3), 1000 + randn(4, 3)):
        rows, classes = logits.shape
        targets = torch.arange(rows) % classes
        right = partial(F.cross_entropy, target=targets)
        leaf = logits.clone().requires_grad_()
        loss = student.function("classification_loss")(leaf, targets)
        assert_close(loss, right(logits), what="the loss")
        laws.check_gradients(loss, {"logits": leaf}, right)
    only = ["0.values", "random"]
    laws.check_changes_nothing(student, "classification_loss", logits, targets, only=only)


# --- train_epoch ---------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("backward adds to .grad: optimizer.zero_grad() before each backward pass.")
def test_steps(student: Student) -> None:
    """Each batch makes one step, by the gradient of its own loss and of nothing else."""
    rows = (3, 2, 4, 1)
    start, batches = new(rows)
    report = student.run("trained", start, batches, ROOT + PARTS)
    right, losses = training(start, batches)
    assert_close(entry(report, "weights"), right, what="the weights after 4 batches")
    assert_mean(entry(report, "value"), losses, rows, "the result of train_epoch")


@pytest.mark.points(5)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("model.train() before the first batch.")
def test_train_mode(student: Student) -> None:
    """Every submodule is in training mode in every forward pass, whatever the mode was before."""
    for modes in (NONE, ROOT, ROOT + PARTS):
        start, batches = new((3, 2))
        start = torch.cat([start, torch.ones(4), torch.zeros(4)])
        told = "train_epoch runs the model in evaluation mode, or parts of it: call model.train()."
        check_modes(student.run("trained", start, batches, modes), True, told)
        # One batch for the weights: what adds up is the affair of test_steps.
        report = student.run("trained", start, batches[:1], modes)
        right, _ = training(start, batches[:1])
        assert_close(entry(report, "weights"), right, what="the weights of a model with batch norm")


# --- evaluate ------------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("evaluate")
@pytest.mark.hint("model.eval() before the first batch.")
def test_eval_mode(student: Student) -> None:
    """Every submodule is in evaluation mode in every forward pass; running statistics stay."""
    for modes in (ROOT + PARTS, PARTS, NONE):
        start, batches = new((5, 5))
        values, right = [], []
        for x, y in batches:
            report = student.run("evaluated", start, [(x, y)], modes, True)
            told = "evaluate runs the model in training mode, or parts of it: call model.eval()."
            check_modes(report, False, told, calls=1)
            before, what = entry(report, "before"), "the state after evaluate"
            assert_close(entry(report, "after"), before, what=what, rtol=0, atol=0)
            values.append(entry(report, "value", 0, kind=float))
            # The probe adds 2 to the running mean and to the running variance, which are 0 and 1.
            logits = outputs(start, x, lambda hidden: (hidden - 2) / (3 + 1e-5) ** 0.5)
            right.append(F.cross_entropy(logits, y).item())
        # Of two losses the quotient: whether they are sums or means is the affair of test_values.
        what = (
            "the loss of a batch as a part of the loss of two, by a batch norm in evaluation mode,"
        )
        assert_close(values[0] / (sum(values) or 1.0), right[0] / sum(right), what=what)


@pytest.mark.points(1)
@pytest.mark.requires("test_eval_mode")
@pytest.mark.place("evaluate")
@pytest.mark.hint("Count hits and samples over all batches, and divide once.")
def test_values(student: Student) -> None:
    """The mean loss and the accuracy over all samples are right."""
    rows = (4, 4, 1)
    start, batches = new(rows)
    # The short batch is right, so that it counts too much in a mean of the accuracies.
    x, _ = batches[-1]
    batches[-1] = x, outputs(start, x).argmax(1)
    report = student.run("evaluated", start, batches, NONE, False)
    losses, hits = [], 0
    for x, y in batches:
        logits = outputs(start, x)
        losses.append(F.cross_entropy(logits, y).item())
        hits += int((logits.argmax(1) == y).sum())
    told = "evaluate returns no pair of two floats."
    value = entry(report, "value", kind=(list, tuple), count=2, told=told)
    assert_mean(value[0], losses, rows, "the loss that evaluate gives")
    assert_close(value[1], hits / sum(rows), what="the accuracy")


@pytest.mark.points(5)
@pytest.mark.place("evaluate")
@pytest.mark.hint("@torch.no_grad() above the function, or a with block around the loop.")
def test_no_grad(student: Student) -> None:
    """Gradients are disabled while model and loss_fn run, and enabled again afterwards."""
    # The loss as a value beside these words, of batches of one size and without batch norm: it is right
    # in any mode, and for any mean.
    start, batches = new((3, 3))
    report = student.run("evaluated", start, batches, NONE, False)
    losses = [F.cross_entropy(outputs(start, x), y).item() for x, y in batches]
    assert_mean(entry(report, "value", 0), losses, (3, 3), "the loss that evaluate gives")
    for name in ("model", "loss_fn"):
        modes = entry(report, "grads", name, kind=list)
        assert modes, f"evaluate never runs {name}."
        told = f"Gradients are enabled while {name} runs, which builds a graph."
        assert laws.same(modes, [False] * len(modes)), told
    told = "Gradients are still disabled after evaluate, so that no training can follow."
    assert entry(report, "enabled") is True, told


# --- fit -----------------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("fit")
@pytest.mark.word("the sandbox says what the model draws")
@pytest.mark.hint("After torch.manual_seed(seed) the same numbers are drawn: not in the loop.")
def test_draws(student: Student) -> None:
    """The random state is never set back: what the model draws differs from epoch to epoch."""
    log = entry(fitted(student, 1, batch_size=SIZE, epochs=3, seed=3), "log", kind=list)
    draws = every([call for call in log if entry(call, "validating") is False], "draw")
    assert draws, "fit never runs the model on the training data."
    # Pairs, since a single number may come again.
    pairs = [str(pair) for pair in itertools.pairwise(draws)]
    told = "The model draws the same numbers in each epoch: the random state is set back."
    assert len(set(pairs)) == len(pairs), told


@pytest.mark.points(3)
@pytest.mark.requires("test_draws")
@pytest.mark.place("fit")
@pytest.mark.hint("Each epoch: train_epoch, evaluate, and a float for each of the three lists.")
def test_history(student: Student) -> None:
    """Each epoch trains on the training data, evaluates on the validation data, and is recorded."""
    check_history(fitted(student, 1, batch_size=SIZE, epochs=3, seed=1), 3)
    check_history(fitted(student, 1, batch_size=SIZE), 5)


@pytest.mark.points(2)
@pytest.mark.requires("test_draws")
@pytest.mark.place("fit")
@pytest.mark.hint("make_loaders(train, validation, batch_size, seed) once, before the first epoch.")
def test_orders(student: Student) -> None:
    """Each epoch has an order of its own; seed decides them all, whatever the global random state."""
    numbers = new_numbers(TRAIN, VALIDATION)
    options = {"batch_size": SIZE, "epochs": 2}
    reports = [
        fitted(student, noise, numbers, seed=seed, **options)
        for noise, seed in ((1, 5), (2, 5), (1, 6))
    ]
    histories = [entry(report, "history") for report in reports]
    told = "Two calls with the same seed on equal models give different histories."
    assert laws.same(*histories[:2]), told
    own, _, other = [
        [every(train, "numbers") for train, _ in epochs_of(report, 2)] for report in reports
    ]
    for order in own:
        told = "An epoch trains on a sample twice, or on too few."
        assert len(set(order)) == len(order) > TRAIN - SIZE, told
    # Where make_loaders gives the same order in each pass, fit cannot do otherwise.
    if not laws.same(*entry(reports[0], "orders", kind=list, count=2)):
        told = "Epochs have the same order of the training data: each needs one of its own."
        assert len({str(order) for order in own}) == 2, told
        told = "The order of the training data is the same for different seeds: hand seed on."
        assert not laws.same(own, other), told
    numbers = new_numbers(70, 5)
    default = entry(fitted(student, 1, numbers, epochs=2), "history")
    given = entry(fitted(student, 1, numbers, epochs=2, batch_size=32, seed=0), "history")
    assert laws.same(default, given), "By default, batch_size is 32 and seed is 0."


# --- what is drawn, what is right, and what is asked of a report ---------------------------------


def passes(student: Student, seed: int, plan: str) -> list[list[list[int]]]:
    """The places in the training data of the samples in each batch of each pass."""
    numbers = new_numbers(TRAIN, VALIDATION)
    report = student.run("passes", numbers, plan, batch_size=SIZE, seed=seed)
    assert entry(report, "workers", default=None) is None, "A loader has workers: leave them out."
    epochs = [entry(epoch, kind=list) for epoch in entry(report, "batches", kind=list)]
    return [[places(entry(batch, 0), numbers[0]) for batch in epoch] for epoch in epochs]


def new_numbers(train: int, validation: int) -> list[list[int]]:
    """A number for each sample of the training and of the validation data."""
    return [random.sample(range(1000), train), random.sample(range(1000, 2000), validation)]


def places(reported: Any, numbers: list[int]) -> list[int]:
    """Where the samples with these numbers are in the data."""
    found = entry(reported, kind=list)
    known = all(type(number) is int and number in numbers for number in found)
    assert known, "The samples are none of the data."
    return [numbers.index(number) for number in found]


def new(rows: Sequence[int]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """New weights, and batches of so many rows."""
    batches = [(torch.randn(n, 3).double(), torch.randint(4, (n,))) for n in rows]
    return torch.randn(LINEAR).double(), batches


def outputs(weights: Tensor, x: Tensor, norm: Any = None) -> Tensor:
    """The probe's network, with what normalizes in it, its hook called."""
    hidden = x @ weights[:12].reshape(4, 3).T + weights[12:16]
    return 2 * torch.tanh(hidden if norm is None else norm(hidden))


def training(weights: Tensor, batches: Any) -> tuple[Tensor, list[float]]:
    """The weights after an epoch, and the loss of each batch.

    Weights beyond those of the linear layer are those of a batch norm: 4 factors, then 4 summands.
    """
    losses, momentum = [], torch.zeros_like(weights)
    for x, y in batches:
        leaf = weights.detach().requires_grad_()
        norm = None
        if len(leaf) > LINEAR:
            factors, summands = leaf[LINEAR:].chunk(2)
            norm = partial(
                F.batch_norm,
                running_mean=None,
                running_var=None,
                weight=factors,
                bias=summands,
                training=True,
            )
        loss = F.cross_entropy(outputs(leaf, x, norm), y)
        (gradient,) = torch.autograd.grad(loss, leaf)
        losses.append(loss.item())
        momentum = MOMENTUM * momentum + gradient
        weights = weights - LR * momentum
    return weights, losses


def assert_mean(value: Any, losses: Sequence[float], rows: Sequence[int], what: str) -> None:
    """The mean over batches or that over samples, whichever is nearer."""
    of_batches = sum(losses) / len(losses)
    of_samples = sum(loss * n for loss, n in zip(losses, rows, strict=True)) / sum(rows)
    right = of_batches
    if isinstance(value, float) and abs(value - of_samples) < abs(value - of_batches):
        right = of_samples
    assert_close(value, right, what=what, rtol=1e-5)


def check_modes(report: Any, training: bool, told: str, calls: int = 2) -> None:
    log = entry(report, "log", kind=list)
    assert len(log) == calls, (
        f"For a loader of {calls} batches the model is called {len(log)} times."
    )
    modes = [entry(call, "modes") for call in log]
    assert laws.same(modes, [[training] * 4] * calls), told


def every(calls: list[Any], name: str | int) -> list[Any]:
    return [value for call in calls for value in entry(call, name, kind=list)]


def fitted(student: Student, noise: int, numbers: Any = None, **options: Any) -> Any:
    """A report of fit, in which samples are called by their places in the data."""
    numbers = numbers or new_numbers(TRAIN, VALIDATION)
    weights = torch.linspace(-1, 1, 16).double()
    report = student.run("fitted", weights, numbers, noise, **options)
    for call in entry(report, "log", kind=list):
        side = numbers[entry(call, "validating", kind=bool)]
        call["numbers"] = places(entry(call, "numbers"), side)
    return report


def check_history(report: Any, epochs: int) -> None:
    """The epochs of a report are whole, and its history says what happened in each of them."""
    told = "fit returns no dict."
    history = entry(report, "history", kind=dict, told=told)
    names = ["accuracy", "train_loss", "validation_loss"]
    assert_equal(sorted(map(str, history)), names, what="the sorted keys of the history")
    told = "fit leaves the model's parameters as they were: is it a copy, or by no step, that is trained?"
    assert entry(report, "moved") is True, told
    sizes = [len(entry(batch, kind=list)) for batch in entry(report, "orders", 0, kind=list)]
    accuracies = []
    for epoch, (train, validation) in enumerate(epochs_of(report, epochs)):
        rows = rows_of(train)
        told = (
            f"An epoch runs batches of {rows} samples, not {sizes}: each once; hand batch_size on."
        )
        assert rows == sizes, told
        what = f"the list of the samples that are evaluated in epoch {epoch}"
        assert_equal(every(validation, "numbers"), IN_ORDER, what=what)
        for name, calls in (("train_loss", train), ("validation_loss", validation)):
            losses = [entry(call, "loss", kind=float) for call in calls]
            told = f"history[{name!r}] is no list of {epochs} floats."
            values = entry(history, name, kind=list, count=epochs, told=told)
            assert_mean(values[epoch], losses, rows_of(calls), f"{name} of epoch {epoch}")
        predicted = every(validation, "predicted")
        accuracies.append(sum(map(laws.same, predicted, LABELS)) / VALIDATION)
    assert_close(entry(history, "accuracy"), accuracies, what="the list of the accuracies")


def rows_of(calls: list[Any]) -> list[int]:
    return [len(entry(call, "numbers", kind=list)) for call in calls]


def epochs_of(report: Any, count: int) -> list[tuple[list[Any], list[Any]]]:
    """The calls of each epoch: those on training data, then those on validation data."""
    epochs: list[tuple[list[Any], list[Any]]] = []
    for call in entry(report, "log", kind=list):
        validating = entry(call, "validating", kind=bool)
        if not validating and (not epochs or epochs[-1][1]):
            epochs.append(([], []))
        assert epochs, "The validation data come first: train, then evaluate."
        epochs[-1][validating].append(call)
    whole = sum(all(epoch) for epoch in epochs)
    told = f"Asked for {count} epochs, fit turns to the training data {len(epochs)} times"
    told += f", and then to the validation data {whole} times."
    assert len(epochs) == count == whole, told
    return epochs
