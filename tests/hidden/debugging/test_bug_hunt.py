"""Tests of the six functions of bug_hunt. Every test is about a bug, or requires the test of one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.student import Student

TRAINING_SAMPLES, VALIDATION_SAMPLES = 24, 11
MANY_SAMPLES = 70  # with these a batch of the default size is not the last one
BATCH_SIZE, EPOCHS = 4, 3  # of a fit
# The places of the loaders in what make_loaders returns.
TRAINING, VALIDATION = 0, 1
# The numbers of validation samples are not below it, those of training samples are.
FIRST_OF_VALIDATION = 1000
LEAST_RATE, LARGEST_RATE = 1e-4, 0.1
# The submodules of the probe's network: itself, and its parts.
ROOT, PARTS = [""], ["body", "body.0", "body.1"]
MODULES = len(ROOT + PARTS)
LR, MOMENTUM = 0.05, 0.9  # of the probe's optimizer
# The weights of a model before fit, by which the loss of the validation data rises.
START = torch.linspace(-1, 1, 16, dtype=torch.float64)


# --- make_loaders --------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("DataLoader(..., shuffle=True, generator=generator)")
def test_order(student: Student) -> None:
    """Training samples are shuffled one by one, anew in each pass, and no sample comes twice."""
    numbers = new_numbers()
    epochs = passes(student, numbers, TRAINING, BATCH_SIZE)
    laws.check_epochs(
        epochs, numbers.training, batch_size=BATCH_SIZE, shuffled=True, drop_last=None
    )
    for epoch in epochs:
        places = [sorted(numbers.training.index(number) for number in batch) for batch in epoch]
        neighbors = [batch for batch in places if batch[-1] - batch[0] == BATCH_SIZE - 1]
        told = "Whole batches of neighbors are shuffled: each batch has one class. Shuffle samples."
        assert len(neighbors) < 3, told  # one or two are chance


@pytest.mark.points(3)
@pytest.mark.requires("test_order")
@pytest.mark.place("make_loaders")
@pytest.mark.hint("A generator of the loader's own, and no shuffling of the validation data.")
def test_loaders(student: Student) -> None:
    """seed alone decides the training order; the validation data come in order, all of them."""
    numbers = new_numbers()
    what = "the orders of three passes"
    ask = partial(passes, student, numbers, TRAINING, BATCH_SIZE)
    laws.check_seeded(student, ask, what=what)
    for epoch in passes(student, numbers, VALIDATION, BATCH_SIZE):
        samples = [number for batch in epoch for number in batch]
        assert_equal(samples, numbers.validation, what="the list of the validation samples")
    numbers = new_numbers(MANY_SAMPLES)
    default = passes(student, numbers, TRAINING)
    given = passes(student, numbers, TRAINING, 32, 0)
    assert default == given, "By default, batch_size is 32 and seed is 0."


# --- make_optimizer ------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("make_optimizer")
@pytest.mark.hint("Usual rates are 0.1 and less for SGD, and 1e-3 for Adam.")
def test_rates(student: Student) -> None:
    """All trainable parameters are trained, by learning rates from 1e-4 to 0.1."""
    names = [f"part{number}" for number in random.sample(range(100, 1000), 4)]
    # Never the last one, a parameter of the model itself.
    frozen = random.sample(names[:3], random.randint(1, 2))
    report = student.run("optimized", names, frozen)
    told = "make_optimizer gives no optimizer of torch.optim."
    assert entry(report, "of torch.optim") is True, told
    for name in names:
        for parameter in entry(report, "parts", name, kind=list):
            rate, requires_grad = fields(parameter, "rate", "requires_grad")
            told = "make_optimizer changes requires_grad of a parameter."
            assert requires_grad is (name not in frozen), told
            if name not in frozen:
                assert rate is not None, f"make_optimizer leaves out trainable parameters: {name}."
                is_number = isinstance(rate, (int, float))
                fine = is_number and 0.99999 * LEAST_RATE <= rate <= 1.00001 * LARGEST_RATE
                assert fine, f"A learning rate is {rate!r:.30}: it should be from 1e-4 to 0.1."


# --- classification_loss -------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("classification_loss")
@pytest.mark.hint("F.cross_entropy takes the logits as they are: the softmax is a part of it.")
def test_loss(student: Student) -> None:
    """The loss is the mean cross-entropy of the logits, its gradient too, also for logits of 1e4."""
    randn = partial(torch.randn, dtype=torch.float64)
    # So large a constant in all logits changes nothing, and shows an arithmetic in float32.
    for logits in (2 * randn(5, 3), 1e4 * randn(4, 3), 1000 + randn(4, 2)):
        rows, classes = logits.shape
        targets = torch.arange(rows) % classes
        right = partial(F.cross_entropy, target=targets)
        leaf = logits.clone().requires_grad_()
        loss = student.function("classification_loss")(leaf, targets)
        assert_close(loss, right(logits), what="the loss")
        laws.check_gradients(loss, {"logits": leaf}, right)


# --- train_epoch ---------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("backward adds to .grad: optimizer.zero_grad() before each backward pass.")
def test_steps(student: Student) -> None:
    """Each batch makes one step, by the gradient of its own loss and of nothing else."""
    rows = (3, 2, 4, 1)
    start, batches = weights_and_batches(rows)
    report = student.run("trained", start, batches, ROOT + PARTS)
    right, losses = training(start, batches)
    assert_close(entry(report, "weights"), right, what="the weights after 4 batches")
    assert_mean(entry(report, "value"), losses, rows, "the result of train_epoch")


@pytest.mark.points(5)
@pytest.mark.place("train_epoch")
@pytest.mark.hint("model.train() before the first batch.")
def test_train_mode(student: Student) -> None:
    """Every submodule is in training mode in every forward pass, whatever the mode was before."""
    for in_training in ([], ROOT):
        start, batches = weights_and_batches((3, 2))
        report = student.run("trained", start, batches, in_training, norm=True)
        log = log_of(report, calls=2)
        told = "train_epoch runs the model in evaluation mode, or parts of it: call model.train()."
        assert laws.same([call["modes"] for call in log], [[True] * MODULES] * 2), told
        # Of the first batch alone: which step comes after it is judged by test_steps.
        norm = partial(F.batch_norm, running_mean=None, running_var=None, training=True)
        right = outputs(start, batches[0][0], norm)
        assert_close(log[0]["logits"], right, what="the output of a model with batch norm")


# --- evaluate ------------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("evaluate")
@pytest.mark.hint("model.eval() before the first batch.")
def test_eval_mode(student: Student) -> None:
    """Every submodule is in evaluation mode in every forward pass; parameters, buffers and .grad stay."""
    # The probe adds 2 to the running mean and to the running variance, which are 0 and 1.
    mean, variance = torch.full((4,), 2.0).double(), torch.full((4,), 3.0).double()
    norm = partial(F.batch_norm, running_mean=mean, running_var=variance)
    for in_training in (ROOT + PARTS, PARTS):
        start, batches = weights_and_batches((5, 5))
        report = evaluated(student, student.made("used_network", start, in_training), batches)
        log = log_of(report, calls=2)
        told = "evaluate runs the model in training mode, or parts of it: call model.eval()."
        assert laws.same([call["modes"] for call in log], [[False] * MODULES] * 2), told
        right = [outputs(start, x, norm) for x, _ in batches]
        logits = [call["logits"] for call in log]
        assert_close(logits, right, what="the list of the outputs of a model with batch norm")


@pytest.mark.points(1)
@pytest.mark.requires("test_eval_mode")
@pytest.mark.place("evaluate")
@pytest.mark.hint("Count hits and samples over all batches, and divide once.")
def test_values(student: Student) -> None:
    """The mean loss and the accuracy over all samples are right."""
    # All of the short batch is right, so that it counts too much in a mean of the accuracies.
    rows, hits = (4, 4, 1), (random.randint(1, 3), random.randint(1, 3), 1)
    start, batches = weights_and_batches(rows)
    for i, (x, _) in enumerate(batches):
        # The last rows miss their target by one class.
        misses = torch.arange(rows[i]) >= hits[i]
        batches[i] = x, (outputs(start, x).argmax(1) + misses) % 4
    report = evaluated(student, student.made("network", start, []), batches)
    told = "evaluate returns no pair of two floats."
    loss, accuracy = entry(report, "value", kind=(list, tuple), count=2, told=told)
    assert_mean(loss, losses_of(start, batches), rows, "the loss that evaluate gives")
    assert_close(accuracy, sum(hits) / sum(rows), what="the accuracy")


@pytest.mark.points(5)
@pytest.mark.place("evaluate")
@pytest.mark.hint("@torch.no_grad() above the function, or a with block around the loop.")
def test_no_grad(student: Student) -> None:
    """Gradients are disabled while model and loss_fn run, and enabled again afterwards."""
    # The loss as a value beside these words, of batches of one size and without batch norm: it is right
    # in any mode, and for any mean.
    start, batches = weights_and_batches((3, 3))
    report = evaluated(student, student.made("network", start, []), batches)
    losses = losses_of(start, batches)
    assert_mean(entry(report, "value", 0), losses, (3, 3), "the loss that evaluate gives")
    of_model = [entry(call, "grad") for call in entry(report, "log", kind=list)]
    for name, modes in (("model", of_model), ("loss_fn", entry(report, "loss modes", kind=list))):
        assert modes, f"evaluate never runs {name}."
        told = f"Gradients are enabled while {name} runs, which builds a graph."
        assert laws.same(modes, [False] * len(modes)), told


# --- fit -----------------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("fit")
@pytest.mark.word("the sandbox says what the model draws")
@pytest.mark.hint("After torch.manual_seed(seed) the same numbers are drawn: not in the loop.")
def test_draws(student: Student) -> None:
    """The random state is never set back: what the model draws differs from epoch to epoch."""
    log = entry(fits(student).first, "log", kind=list)
    calls = [call for call in log if data_of(call) == "training"]
    draws = [number for call in calls for number in entry(call, "draw", kind=list)]
    # Pairs, since a single number may come again.
    pairs = [str(pair) for pair in itertools.pairwise(draws)]
    told = "The model draws the same numbers in each epoch: the random state is set back."
    assert pairs and len(set(pairs)) == len(pairs), told


@pytest.mark.points(3)
@pytest.mark.requires("test_draws")
@pytest.mark.place("fit")
@pytest.mark.hint("Each epoch: train_epoch, evaluate, and a float for each of the three lists.")
def test_history(student: Student) -> None:
    """Each epoch trains on the training data, evaluates on the validation data, and is recorded."""
    samples, report = fits(student).numbers.validation, fits(student).first
    told = "fit leaves the model's parameters as they were: is it a copy that is trained?"
    assert not laws.same(entry(report, "weights"), START), told
    history = entry(report, "history", kind=dict, told="fit returns no dict.")
    names = ["accuracy", "train_loss", "validation_loss"]
    assert_equal(sorted(map(str, history)), names, what="the sorted keys of the history")
    accuracies = []
    for epoch, (train, validation) in enumerate(epochs_of(report)):
        sizes = [BATCH_SIZE] * (TRAINING_SAMPLES // BATCH_SIZE)
        assert_equal(rows_of(train), sizes, what="the list of the sizes of an epoch's batches")
        what = "the list of the samples that an epoch evaluates"
        assert_equal(numbers_of(validation), samples, what=what)
        for name, calls in (("train_loss", train), ("validation_loss", validation)):
            told = f"history[{name!r}] is no list of {EPOCHS} floats."
            values = entry(history, name, kind=list, count=EPOCHS, told=told)
            losses = [entry(call, "loss", kind=float) for call in calls]
            assert_mean(values[epoch], losses, rows_of(calls), f"{name} of epoch {epoch}")
        logits = torch.cat([assert_tensor(entry(call, "logits")) for call in validation])
        labels = torch.tensor([2 + number % 2 for number in samples])  # as in the probe
        accuracies.append((logits.argmax(1) == labels).double().mean().item())
    assert_close(entry(history, "accuracy"), accuracies, what="the list of the accuracies")


@pytest.mark.points(2)
@pytest.mark.requires("test_draws")
@pytest.mark.place("fit")
@pytest.mark.hint("make_loaders(train, validation, batch_size, seed) once, before the first epoch.")
def test_orders(student: Student) -> None:
    """Each epoch has an order of its own; seed decides them all, whatever the global random state."""
    numbers, first, again, other = fits(student)
    told = "Two calls with the same seed on equal models give different histories."
    assert laws.same(entry(first, "history"), entry(again, "history")), told
    orders = [numbers_of(train) for report in (first, other) for train, _ in epochs_of(report)]
    for order in orders:
        samples = sorted(numbers.training)
        assert_equal(sorted(order), samples, what="the sorted list of an epoch's samples")
    # Where make_loaders gives the same order in each pass, fit cannot do otherwise.
    one_pass, next_pass, _ = passes(student, numbers, TRAINING, BATCH_SIZE)
    if one_pass != next_pass:
        different = len(set(map(str, orders)))
        assert_equal(different, len(orders), what="the number of orders in the epochs of two seeds")
    numbers = new_numbers(MANY_SAMPLES)
    default = student.run("fitted", START, *numbers)
    given = student.run("fitted", START, *numbers, epochs=5, batch_size=32, seed=0)
    told = "By default, epochs is 5, batch_size is 32 and seed is 0."
    assert laws.same(entry(default, "history"), entry(given, "history")), told


# --- what is drawn, what is right, and what is asked of a report ---------------------------------


class Numbers(NamedTuple):
    """A number for each sample of the training and of the validation data."""

    training: list[int]
    validation: list[int]


def new_numbers(training_samples: int = TRAINING_SAMPLES) -> Numbers:
    end = 2 * FIRST_OF_VALIDATION
    validation = random.sample(range(FIRST_OF_VALIDATION, end), VALIDATION_SAMPLES)
    return Numbers(random.sample(range(FIRST_OF_VALIDATION), training_samples), validation)


def passes(student: Student, numbers: Numbers, place: int, *options: int) -> list[list[list[int]]]:
    """The numbers of the samples in each batch of three passes over the loader at this place.

    `options` are batch_size and seed.
    """
    loader = student.made("loader", *numbers, place, *options)
    return laws.epochs_of(student, loader, 3, read=lambda batch: (1024 * batch[0][:, 0]).long())


def weights_and_batches(rows: Sequence[int]) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """New weights, and batches of so many rows."""
    batches = [(torch.randn(n, 3).double(), torch.randint(4, (n,))) for n in rows]
    return torch.randn(16).double(), batches


def outputs(weights: Tensor, x: Tensor, norm: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """The probe's network, with what normalizes in it, its hook called."""
    hidden = x @ weights[:12].reshape(4, 3).T + weights[12:]
    return 2 * torch.tanh(hidden if norm is None else norm(hidden))


def losses_of(weights: Tensor, batches: Any) -> list[float]:
    """The loss of each batch, without batch norm."""
    return [F.cross_entropy(outputs(weights, x), y).item() for x, y in batches]


def training(weights: Tensor, batches: Any) -> tuple[Tensor, list[float]]:
    """The weights after an epoch, and the loss of each batch."""
    losses, momentum = [], torch.zeros_like(weights)
    for x, y in batches:
        leaf = weights.detach().requires_grad_()
        loss = F.cross_entropy(outputs(leaf, x), y)
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


def evaluated(student: Student, model: Any, batches: Any) -> Any:
    """A report of evaluate, which leaves all but the mode of the model as it was."""
    probe, allow = student.probe("evaluated"), ("mode", "random")
    return laws.check_changes_nothing(student, probe, model, batches, call="evaluate", allow=allow)


def log_of(report: Any, calls: int) -> list[dict[str, Any]]:
    """What the network reports of its calls, of which there are so many."""
    told = f"For a loader of {calls} batches the model is not called {calls} times."
    log = entry(report, "log", kind=list, count=calls, told=told)
    return [{name: entry(call, name) for name in ("modes", "logits")} for call in log]


class Fits(NamedTuple):
    """The numbers of the samples, and reports of fit: two with the same seed, one with another."""

    numbers: Numbers
    first: Any
    again: Any
    other: Any


def fits(student: Student) -> Fits:
    def ask() -> Fits:
        numbers = new_numbers()
        options = {"epochs": EPOCHS, "batch_size": BATCH_SIZE}
        first, again, other = [
            student.run("fitted", START, *numbers, seed=seed, **options) for seed in (5, 5, 6)
        ]
        return Fits(numbers, first, again, other)

    return student.once("fits", ask)


def epochs_of(report: Any) -> list[tuple[list[Any], list[Any]]]:
    """The calls of each epoch: those on training data, then those on validation data."""
    log = entry(report, "log", kind=list)
    runs = [(name, list(calls)) for name, calls in itertools.groupby(log, key=data_of)]
    turns, right = [name for name, _ in runs], ["training", "validation"] * EPOCHS
    assert_equal(turns, right, what="the list of the data that fit turns to")
    calls = [calls for _, calls in runs]
    return list(zip(calls[::2], calls[1::2], strict=True))


def data_of(call: Any) -> str:
    number = entry(call, "numbers", 0, kind=int)
    return "validation" if number >= FIRST_OF_VALIDATION else "training"


def numbers_of(calls: list[Any]) -> list[Any]:
    return [number for call in calls for number in entry(call, "numbers", kind=list)]


def rows_of(calls: list[Any]) -> list[int]:
    return [len(entry(call, "numbers", kind=list)) for call in calls]
