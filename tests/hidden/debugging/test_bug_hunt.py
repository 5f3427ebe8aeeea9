"""Tests of the six functions of bug_hunt. Every test is about a bug, or comes after the test of one."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, within
from grader.judge.student import Student

TRAINING_SAMPLES, VALIDATION_SAMPLES = 24, 11
MANY_SAMPLES = 70  # more than one batch of the default size
BATCH_SIZE, EPOCHS = 4, 3  # of a fit
# The places of the loaders in the result of make_loaders.
TRAINING, VALIDATION = 0, 1
# The numbers of validation samples begin here; those of training samples are smaller.
FIRST_OF_VALIDATION = 1000
LEAST_RATE, LARGEST_RATE = 0.99999e-4, 0.100001
RTOL = 1e-5  # of means of losses
# The submodules of the probe's network: itself, and its parts.
ROOT, PARTS = [""], ["body", "body.0", "body.1"]
# The weights of a model before fit. From these, the validation loss rises.
START = torch.linspace(-1, 1, 16, dtype=torch.float64)


# --- make_loaders --------------------------------------------------------------------------------


@promise("make_loaders", points=4, hint="DataLoader(..., shuffle=True, generator=generator)")
def test_order(code: Student, draw: Draw) -> Cases:
    """Training samples are shuffled one by one, anew in each pass, and no sample comes twice."""
    numbers = new_numbers(draw)
    own, epochs = numbers.training, passes(code, numbers, TRAINING, BATCH_SIZE)
    laws.check_epochs(epochs, own, batch_size=BATCH_SIZE, shuffled=True, drop_last=None)
    for epoch in epochs:
        places = [sorted(own.index(number) for number in batch) for batch in epoch]
        neighbors = [batch for batch in places if batch[-1] - batch[0] == BATCH_SIZE - 1]
        # One or two may be chance.
        yield "the statement that batches consist of neighbors in the dataset", len(neighbors) > 2


@promise(
    "make_loaders",
    points=3,
    hint="A generator of the loader's own, and no shuffling of the validation data.",
    after="test_order",
)
def test_loaders(code: Student, draw: Draw) -> Cases:
    """Only seed decides the training order; all validation data come in the dataset's order."""
    numbers, many = new_numbers(draw), new_numbers(draw, MANY_SAMPLES)
    ask = partial(passes, code, numbers, TRAINING, BATCH_SIZE)
    laws.check_seeded(code, ask, what="the orders of three passes")
    for epoch in passes(code, numbers, VALIDATION, BATCH_SIZE):
        yield "the validation samples", [number for batch in epoch for number in batch]
    by_default = passes(code, many, TRAINING) == passes(code, many, TRAINING, 32, 0)
    assert by_default, "By default, batch_size is 32 and seed is 0."


# --- make_optimizer ------------------------------------------------------------------------------


@promise(
    "make_optimizer", points=4, hint="Usual rates are 0.1 and less for SGD, and 1e-3 for Adam."
)
def test_rates(code: Student, draw: Draw) -> Cases:
    """All trainable parameters are trained, with learning rates from 1e-4 to 0.1."""
    frozen = draw.permutation(3)[: draw.size(1, 3)].tolist()
    report = code.run("optimized", frozen)
    yield "the statement that the optimizer is one of torch.optim", entry(report, "of torch.optim")
    yield "the trainable parameters afterwards", entry(report, "trainable")
    yield "the trainable parameters that are left out", entry(report, "left out")
    rates = entry(report, "rates", kind=list)
    odd = [rate for rate in rates if not LEAST_RATE <= rate <= LARGEST_RATE]
    yield "the learning rates with which training diverges or makes no progress", odd


# --- classification_loss -------------------------------------------------------------------------


@promise(
    "classification_loss",
    points=3,
    hint="F.cross_entropy takes the logits as they are: the softmax is a part of it.",
)
def test_loss(code: Student, draw: Draw) -> Cases:
    """The loss is the mean cross-entropy of the logits, with the right gradient, also for logits of 1e4."""
    for scale in (2.0, 1e4):
        logits = draw.normal(12, 3, scale=scale, grad="logits")
        loss = code.function("classification_loss")(logits, draw.integers(12, high=3))
        yield f"the loss of logits of {scale:g} in magnitude", loss


@promise(
    "classification_loss",
    hint="Name no dtype: everything follows from the logits.",
    after="test_loss",
)
def test_loss_float64(code: Student, draw: Draw) -> Cases:
    """The loss of float64 logits has the precision of float64."""
    # A large constant in all logits does not change the loss, but shows whether it is computed in float32.
    logits, targets = 1000 + draw.normal(4, 2, dtype=torch.float64), draw.integers(4, high=2)
    yield "the loss", code.function("classification_loss")(logits, targets)


# --- train_epoch ---------------------------------------------------------------------------------


@promise(
    "train_epoch",
    points=4,
    hint="backward adds to .grad: optimizer.zero_grad() before each backward pass.",
)
def test_steps(code: Student, draw: Draw) -> Cases:
    """Each batch makes one step, by the gradient of its own loss and of nothing else."""
    # The batches have equally many rows, because the mean may be over batches or over samples.
    report = code.run("trained", *weights_and_batches(draw, 3, 3, 3, 3), ROOT + PARTS)
    yield "the weights after 4 batches", entry(report, "weights")
    yield "the result of train_epoch", within(entry(report, "loss"), rtol=RTOL)


@promise("train_epoch", points=5, hint="model.train() before the first batch.")
def test_train_mode(code: Student, draw: Draw) -> Cases:
    """Every submodule is in training mode in every forward pass, whatever the mode was before."""
    for in_training in ([], ROOT):
        report = code.run("trained", *weights_and_batches(draw, 3, 2), in_training, norm=True)
        yield "the modes of the model and its parts", entry(report, "modes")
        # Only the first output: test_steps judges the step that follows it.
        yield "the first output of a model with batch norm", entry(report, "first logits")


# --- evaluate ------------------------------------------------------------------------------------


@promise("evaluate", points=3, hint="model.eval() before the first batch.")
def test_eval_mode(code: Student, draw: Draw) -> Cases:
    """Every submodule is in evaluation mode in every forward pass; no parameter, buffer or .grad changes."""
    for in_training in (ROOT + PARTS, PARTS):
        weights, batches = weights_and_batches(draw, 5, 5)
        report = evaluated(code, code.made("used_network", weights, in_training), batches, "modes")
        yield "the modes of the model and its parts", entry(report, "modes")
        yield "the outputs of a model with batch norm", entry(report, "logits")


@promise(
    "evaluate",
    hint="Count hits and samples over all batches, and divide once.",
    after="test_eval_mode",
)
def test_values(code: Student, draw: Draw) -> Cases:
    """The mean loss and the accuracy over all samples are right."""
    weights, batches = weights_and_batches(draw, 4, 4, 4)
    loss = entry(evaluated(code, code.made("network", weights, []), batches, "modes"), "loss")
    yield "the loss that evaluate gives", within(loss, rtol=RTOL)
    # In a mean of the batches' accuracies, short batches would count too much.
    weights, batches = weights_and_batches(draw, 20, 1, 1, 1)
    report = evaluated(code, code.made("network", weights, []), batches, "modes")
    yield "the accuracy", entry(report, "accuracy")


@promise(
    "evaluate",
    points=5,
    hint="@torch.no_grad() above the function, or a with block around the loop.",
)
def test_no_grad(code: Student, draw: Draw) -> Cases:
    """Gradients are disabled while model and loss_fn run, and enabled again afterwards."""
    # The loss is a value beside these words. The batches have one size, and there is no batch norm, so that
    # the loss is right in any mode and for any mean.
    weights, batches = weights_and_batches(draw, 3, 3)
    report = evaluated(code, code.made("network", weights, []), batches)
    yield "the loss that evaluate gives", within(entry(report, "loss"), rtol=RTOL)
    yield (
        "the statement that a graph is built while the model runs",
        entry(report, "graph of the model"),
    )
    yield (
        "the statement that a graph is built while loss_fn runs",
        entry(report, "graph of the loss"),
    )


# --- fit -----------------------------------------------------------------------------------------


@promise(
    "fit",
    points=5,
    hint="After torch.manual_seed(seed) the same numbers are drawn: not in the loop.",
    word="the sandbox says what the model draws",
)
def test_draws(code: Student, draw: Draw) -> Cases:
    """The random state is never set back: the model draws other numbers in each epoch."""
    report = fitted(code, new_numbers(draw))
    yield (
        "the count of repeated numbers among all that the model draws",
        entry(report, "drawn again"),
    )


@promise(
    "fit",
    points=3,
    hint="Each epoch: train_epoch, evaluate, and a float for each of the three lists.",
    after="test_draws",
)
def test_history(code: Student, draw: Draw) -> Cases:
    """Each epoch trains on the training data, evaluates on the validation data, and is recorded."""
    report = fitted(code, new_numbers(draw))
    yield "the statement that fit trains the given model and not a copy", entry(report, "trained")
    yield "the data that fit turns to", entry(report, "turns")
    yield "the sizes of the batches of each epoch", entry(report, "sizes")
    yield "the samples that each epoch evaluates", entry(report, "evaluated")
    history = entry(report, "history", kind=dict, told="fit returns no dict.")
    yield "the sorted keys of the history", sorted(map(str, history))
    # The optimizer and the kind of mean are free, so the history is compared with the calls in the same run.
    kept = entry(report, "kept", kind=list, count=2 * EPOCHS)
    told = "A list of the history has not one float for each epoch."
    accuracies = entry(history, "accuracy", kind=list, count=EPOCHS, told=told)
    right = all(map(is_accuracy, accuracies, kept[1::2]))
    yield "the statement that the accuracies are computed on the validation data", right
    for name, calls in (("train_loss", kept[::2]), ("validation_loss", kept[1::2])):
        values = entry(history, name, kind=list, count=EPOCHS, told=told)
        yield f"the statement that {name} has the mean losses", all(map(is_mean, values, calls))


@promise(
    "fit",
    points=2,
    hint="make_loaders(train, validation, batch_size, seed) once, before the first epoch.",
    after="test_draws",
)
def test_orders(code: Student, draw: Draw) -> Cases:
    """Each epoch has its own order; seed decides all orders, whatever the global random state is."""
    numbers, many = new_numbers(draw), new_numbers(draw, MANY_SAMPLES)
    first, again, other = (fitted(code, numbers, seed) for seed in (5, 5, 6))
    is_same = laws.same(entry(first, "history"), entry(again, "history"))
    yield "the statement that the same seed gives the same history", is_same
    orders = [order for report in (first, other) for order in entry(report, "orders", kind=list)]
    yield "the sorted samples of each epoch", [sorted(order) for order in orders]
    # If make_loaders gives the same order in each pass, that is not the fault of fit.
    one_pass, next_pass, _ = passes(code, numbers, TRAINING, BATCH_SIZE)
    repeated = len(orders) - len(set(map(str, orders))) if one_pass != next_pass else 0
    yield "the count of repeated orders in the epochs of two seeds", repeated
    default = code.run("fitted", START, *many)
    given = code.run("fitted", START, *many, epochs=5, batch_size=32, seed=0)
    by_default = laws.same(entry(default, "history"), entry(given, "history"))
    assert by_default, "By default, epochs is 5, batch_size is 32 and seed is 0."


# --- helpers of the tests ------------------------------------------------------------------------


class Numbers(NamedTuple):
    """A number for each sample of the training and of the validation data."""

    training: list[int]
    validation: list[int]


def new_numbers(draw: Draw, training_samples: int = TRAINING_SAMPLES) -> Numbers:
    training = draw.permutation(FIRST_OF_VALIDATION)[:training_samples]
    validation = FIRST_OF_VALIDATION + draw.permutation(FIRST_OF_VALIDATION)[:VALIDATION_SAMPLES]
    return Numbers(training.tolist(), validation.tolist())


def passes(code: Student, numbers: Numbers, place: int, *options: int) -> list[list[list[int]]]:
    """Return the numbers of the samples in each batch of three passes over the loader at this place.

    `options` are batch_size and seed.
    """
    loader = code.made("loader", *numbers, place, *options)
    return laws.epochs_of(code, loader, 3, read=lambda batch: (1024 * batch[0][:, 0]).long())


def weights_and_batches(draw: Draw, *rows: int) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Draw weights, and a batch for each number of rows."""
    batches = [
        (draw.normal(count, 3, dtype=torch.float64), draw.integers(count, high=4)) for count in rows
    ]
    return draw.normal(16, dtype=torch.float64), batches


def evaluated(code: Student, model: Any, batches: Any, *allow: str) -> Any:
    """Return the probe's report of evaluate, which may change modes and random states, but nothing else.

    Only `test_no_grad` judges `modes`, the global ones such as whether gradients are enabled.
    """
    probe, allow = code.probe("evaluated"), ("mode", "random", *allow)
    return laws.check_changes_nothing(code, probe, model, batches, call="evaluate", allow=allow)


def fitted(code: Student, numbers: Numbers, seed: int = 5) -> Any:
    options = {"epochs": EPOCHS, "batch_size": BATCH_SIZE, "seed": seed}
    return code.run("fitted", START, *numbers, **options)


def is_mean(value: Any, calls: Any) -> bool:
    """Return whether the value is the mean loss of these calls, over batches or over samples."""
    means = [entry(calls, name, kind=float) for name in ("over batches", "over samples")]
    return isinstance(value, float) and any(abs(value - mean) <= RTOL * abs(mean) for mean in means)


def is_accuracy(value: Any, calls: Any) -> bool:
    """Return whether the value is the accuracy of these calls."""
    right = entry(calls, "accuracy", kind=float)
    return isinstance(value, float) and abs(value - right) <= RTOL
