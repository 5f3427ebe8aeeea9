"""Tests of the learning-rate range test."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_tensor, entry, laws, must_raise
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]

NAN, INF = math.nan, math.inf

# A span is the first rate, the last rate, and the number of steps: here of the regression,
STEPS = 6
SPAN = (0.001, 0.02, STEPS)
# and of a test in which hardly anything is learned.
TINY_SPAN = (1e-12, 1e-11, 2)
# The first and the last rate where the batches alone decide about the losses.
ANY_RATES = (0.01, 1.0)
PARAMETERS = ["weight", "bias"]

# The parameter groups of the probe's Network.
GROUPS: list[dict[str, Any]] = [
    {"params": ["line.weight", "line.bias"], "lr": 0.0625, "momentum": 0.5},
    {
        "params": ["body.0.weight", "body.0.bias", "body.2.0.weight", "body.2.1.weight"],
        "lr": 0.25,
        "momentum": 0.9,
        "weight_decay": 0.125,
    },
]
# How exact the first decrease of the loss has to be, as a sign that the model was trained.
DECREASE_RTOL = 1e-4

# Losses, and the place of the first one that diverges.
DIVERGING = [([8.0, 4, 2, 1, 2, 4, 5, 9, 3, 30, 200], 6), ([16.0, 10, 3, 11, 12, 3, 100, 5], 6)]
NOT_FINITE = [([2.0, 1, NAN, 5, 1, 9, 1], 2), ([INF, 1], 0)]
# Losses that never diverge: at most 4 times the lowest before.
STEADY = [1.0, 2, 3, 4, 3, 4]

# How near the points of a figure are to those of the result.
POINT_RTOL = 1e-5


# --- exponential_lrs -----------------------------------------------------------------------------


@pytest.mark.points(18)
@pytest.mark.place("exponential_lrs")
@pytest.mark.hint("Space the exponents evenly, from log10(lr_min) to log10(lr_max), in float64.")
def test_rates(student: Student) -> None:
    """The rates are evenly spaced in log(lr), from lr_min to lr_max."""
    span = (near(1e-6), near(10.0), 12)
    rates = student.function("exponential_lrs")(*span)
    assert_close(rates, geometric(*span), what=f"exponential_lrs{span}", atol=0.0)


@pytest.mark.requires("test_rates")
@pytest.mark.place("exponential_lrs")
@pytest.mark.word("one answer without arguments is always right")
@pytest.mark.hint("The defaults stand in the signature of the stub.")
def test_default_rates(student: Student) -> None:
    """Without arguments there are 100 rates from 1e-6 to 10."""
    rates = student.function("exponential_lrs")()
    assert_close(rates, geometric(1e-6, 10.0, 100), what="exponential_lrs()", atol=0.0)


@pytest.mark.points(3)
@pytest.mark.place("exponential_lrs")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check the arguments first: lr_min <= 0, lr_max <= lr_min, steps < 2.")
def test_refuses_bad_rates(student: Student) -> None:
    """An lr_min not above 0, an lr_max not above lr_min, or fewer than 2 steps are a ValueError."""
    table = {
        "lr_min": [(0.0, 1.0, 5)],
        "lr_max": [(0.1, 0.1, 5)],
        "steps": [(0.1, 1.0, 1)],
    }
    laws.check_errors(student, "exponential_lrs", table, fine=(0.1, 1.0, 5))


# --- lr_range_test: the steps --------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("model.train() reaches every submodule.")
def test_train_mode(student: Student) -> None:
    """The whole model is in train mode during the test, whatever mode it came in."""
    readings = [float(reading) for reading in random.sample(range(5, 60), 2)]
    zeros = {"weight": torch.zeros(3, 1), "bias": torch.zeros(1)}
    model = student.made("network", zeros, readings, 1)
    batch = torch.zeros(4, 3).double(), torch.zeros(4, 1).double()
    optimizer = student.made("sgd", model, GROUPS)
    result = range_test(student, model, optimizer, "distance", [[batch]], TINY_SPAN)
    what = "losses of a model that adds a number for each of two submodules in train mode"
    assert_close(losses_of(result), torch.full((2,), sum(readings)).double(), what=what)


@pytest.mark.points(26)
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("At each step: rate, batch, zero_grad, loss, record, backward, step.")
def test_losses(student: Student) -> None:
    """Each step trains with its own rate, and the loss before it is recorded."""
    data = new_regression()
    rates, losses = fitted(student, data, [{"params": PARAMETERS, "lr": 0.03}])
    assert_close(losses, descend(data, rates), what="losses")


@pytest.mark.points(6)
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Keep one iterator over the loader, and ask it for the next batch at each step.")
def test_next_batches(student: Student) -> None:
    """Each step takes the next mini-batch of the loader."""
    batches = scaled([26.0, 23, 27, 21, 24, 22])
    losses = losses_of(scripted(student, [batches], *ANY_RATES, 4))
    what = f"losses where the batches' losses are {batches}"
    assert_close(losses, doubles(batches[:4]), what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("When the iterator is used up, make a new one: iter(loader).")
def test_loader_again(student: Student) -> None:
    """A loader that runs out is iterated again from its start, and may shuffle anew."""
    # The batch at place i of pass p over the loader has the loss base + 10 p + i.
    base = 10.0 * random.randint(10, 99)
    passes = [[base + 10 * p + i for i in range(3)] for p in range(6)]
    losses = losses_of(scripted(student, passes, *ANY_RATES, 8))
    what = "the list of the places in the loader from which the steps took their batches"
    assert_close(losses % 10, doubles([0, 1, 2, 0, 1, 2, 0, 1]), what=what)
    # A look at the loader beforehand may have used up a pass, so the passes need only be others.
    firsts_of_passes = losses[[0, 3, 6]].tolist()
    assert len(set(firsts_of_passes)) == 3, (
        "The batches of the first pass come again: keep no batches."
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_losses")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Zero the gradients before the backward of each step, the first one included.")
def test_stale_gradients(student: Student) -> None:
    """Gradients from before the test do not count."""
    data = new_regression()
    stale = {name: torch.full_like(data[name], 3.0) for name in PARAMETERS}
    rates, losses = fitted(student, data, [{"params": PARAMETERS, "lr": 0.03}], stale)
    assert_close(losses, descend(data, rates), what="losses of a model that came with gradients")


@pytest.mark.points(6)
@pytest.mark.requires("test_losses")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Set the rate in each of optimizer.param_groups, and call optimizer.step().")
def test_optimizer_steps(student: Student) -> None:
    """The steps are those of the given optimizer, with its options, at the rate in each group."""
    data, options = new_regression(), {"momentum": 0.9, "weight_decay": 0.5}
    groups = [{"params": [name], "lr": 0.03, **options} for name in PARAMETERS]
    rates, losses = fitted(student, data, groups)
    what = "losses of two parameter groups with momentum and weight decay"
    assert_close(losses, descend(data, rates, **options), what=what)


# --- lr_range_test: the early stop ---------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.requires("test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Ask math.isfinite; compare with the lowest loss so far, then update that.")
def test_stop(student: Student) -> None:
    """It stops, after recording it, at a loss that is not finite or above 4 times the lowest before."""
    for case, last in [*DIVERGING, *NOT_FINITE, (STEADY, len(STEADY) - 1)]:
        losses = scaled(case)
        recorded = losses_of(scripted(student, [losses], *ANY_RATES, len(losses)))
        what = f"the recorded losses for the losses {losses}"
        assert_close(recorded, doubles(losses[: last + 1]), what=what)


# --- lr_range_test: what it leaves ---------------------------------------------------------------


@pytest.mark.points(24)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Clone every parameter before the test, and copy the values back in place.")
def test_restores_parameters(student: Student) -> None:
    """Afterwards every parameter is what it was: the same object, with the same values."""
    parts = ("0.values", "0.parameters", "0.requires_grad", "1.parameters")
    told = "Keep copies of the parameters' values (clone), and put them back in place."
    check_restores(student, parts, "outputs", told)


@pytest.mark.points(8)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("named_buffers() has them all; the state dict lacks those with persistent=False.")
def test_restores_buffers(student: Student) -> None:
    """Afterwards every buffer is what it was."""
    check_restores(student, ("0.buffers",), "buffers")


@pytest.mark.points(5)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Remember module.training of every module of model.modules().")
def test_restores_modes(student: Student) -> None:
    """Afterwards every submodule is in the mode that it was in."""
    check_restores(student, ("0.mode",), "added")


@pytest.mark.points(9)
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Keep copy.deepcopy(optimizer.state_dict()), and load it at the end.")
def test_restores_optimizer(student: Student) -> None:
    """Afterwards the optimizer's options and momentum are what they were, and nothing is added."""
    for momenta in ({"body.2.0.weight": torch.randn(3, 3).double()}, {}):
        check_restores(student, ("1.options", "1.state"), "moved", momenta=momenta)


@pytest.mark.points(3)
@pytest.mark.requires("test_restores_parameters")
@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Leave the loop by break, or restore in a finally clause.")
def test_restores_after_stop(student: Student) -> None:
    """A test that stops early restores the parameters too."""
    told = "A test that stops early restores, too."
    check_restores(student, ("0.values",), "outputs", told, third_targets=NAN)


@pytest.mark.requires("test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("A range test needs no randomness of its own: leave torch.manual_seed alone.")
def test_random_state(student: Student) -> None:
    """The global random state is left alone."""
    check_restores(student, ("random",))


# --- lr_range_test: the result -------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.requires("test_rates", "test_next_batches")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("Return LRRangeTest(rates[:n], losses), both float64, for the n recorded losses.")
def test_result(student: Student) -> None:
    """The result holds the rates and losses of the steps that were run, in float64, without a graph."""
    span, losses = (near(0.02), near(0.5)), scaled([2.0, 1, 9, 1, 1])
    result = scripted(student, [losses], *span, 5)
    # As many as there are: whether the test stops where it should is the affair of other tests.
    n = len(losses_of(result))
    what = "the list of learning_rates and losses of a test of 5 steps that stops early"
    right = [geometric(*span, 5)[:n], doubles(losses)[:n]]
    assert_close([rates_of(result), entry(result, "losses")], right, what=what, atol=0.0)
    assert entry(result, "attached") is False, "The losses require a gradient: detach each one."


@pytest.mark.requires("test_result")
@pytest.mark.place("lr_range_test")
@pytest.mark.hint("The defaults stand in the signature of the stub.")
def test_default_span(student: Student) -> None:
    """By default a test has 100 rates from 1e-6 to 10."""
    result = scripted(student, [[1.0] * 120])
    what = "the rates of a test by default"
    assert_close(rates_of(result), geometric(1e-6, 10.0, 100), what=what, atol=0.0)


@pytest.mark.place("lr_range_test")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If a new iterator has no batch at all, raise ValueError and name the loader.")
def test_empty_loader(student: Student) -> None:
    """A loader that yields nothing is a ValueError."""
    losses = losses_of(scripted(student, [[3.0, 2.0]], *ANY_RATES, 2))
    assert len(losses) > 0, "No loss is recorded."
    with must_raise(ValueError, mentions="loader", call="lr_range_test with an empty loader"):
        scripted(student, [[]], *ANY_RATES, 5)


# --- suggest_lr ----------------------------------------------------------------------------------


@pytest.mark.points(24)
@pytest.mark.place("suggest_lr")
@pytest.mark.hint("Walk through the losses, keep the lowest so far, stop at the first divergence.")
def test_suggestion(student: Student) -> None:
    """The suggestion is one decade below the rate at which the loss begins to diverge."""
    check_suggestions(student, DIVERGING)


@pytest.mark.points(2)
@pytest.mark.requires("test_suggestion")
@pytest.mark.place("suggest_lr")
@pytest.mark.hint("Divergence is loss > factor * lowest, with the factor that was given.")
def test_suggestion_factor(student: Student) -> None:
    """A loss diverges above factor times the lowest before it, not at exactly that."""
    check_suggestions(student, [([4.0, 2, 1, 1.5, 2, 4, 3, 8, 16], 5)], factor=2.0)


@pytest.mark.points(3)
@pytest.mark.requires("test_suggestion")
@pytest.mark.place("suggest_lr")
@pytest.mark.hint("NaN compares as False with everything: ask math.isfinite first.")
def test_suggestion_not_finite(student: Student) -> None:
    """A loss that is NaN or infinite is divergence, the first one too."""
    check_suggestions(student, NOT_FINITE)


@pytest.mark.place("suggest_lr")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If the loop ends without a divergence, raise ValueError.")
def test_never_diverges(student: Student) -> None:
    """Losses that never diverge are a ValueError."""
    table = {"result or loss or losses": [(result_of(student, STEADY),)]}
    fine = (result_of(student, [3.0, 1, 2, 30]),)
    laws.check_errors(student, "suggest_lr", table, fine=fine)


@pytest.mark.requires("test_suggestion")
@pytest.mark.place("suggest_lr")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Work on a copy where you change the losses.")
def test_result_left_alone(student: Student) -> None:
    """suggest_lr leaves its result as it is."""
    result = result_of(student, [2.0, 1.5, 1, NAN, 9, 30])
    laws.check_changes_nothing(student, "suggest_lr", result, only=("0.values",))


# --- plot_lr_range_test --------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("figure.add_subplot(), plot(learning_rates, losses), set_xscale('log').")
def test_plot_curve(student: Student) -> None:
    """The figure shows the losses over the learning rates, on a logarithmic x axis."""
    points, figure = drawn(student)
    what = "the points (x, y) of the curve of the losses"
    assert_close(the_curve(figure, points), points, what=what, rtol=POINT_RTOL, atol=0.0)
    laws.check_axes(figure, x_scale="log", labels=False)


@pytest.mark.requires("test_plot_curve")
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.word("the sandbox says what was before and what is left")
@pytest.mark.hint("Work on a copy where you change the losses.")
def test_plot_leaves_result(student: Student) -> None:
    """The result stays as it is, also where a loss is infinite."""
    result = result_of(student, [3.0, 2, 1, INF])
    laws.check_changes_nothing(student, "plot_lr_range_test", result, only=("0.values",))


@pytest.mark.place("plot_lr_range_test")
@pytest.mark.word("labels are the same for all results")
@pytest.mark.hint("set_xlabel and set_ylabel.")
def test_plot_labels(student: Student) -> None:
    """Both axes have a label."""
    _, figure = drawn(student)
    laws.check_axes(figure)


@pytest.mark.points(5)
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.hint("if suggestion is not None: axes.axvline(suggestion)")
def test_plot_suggestion(student: Student) -> None:
    """A suggestion is marked by a vertical line, and without one there is none."""
    suggestion, losses = near(0.003), [3.0, 2, 1, 9]
    result = result_of(student, losses)
    lines = verticals(laws.figure_of(student, "plot_lr_range_test", result, suggestion))
    assert lines, "There is no vertical line at the suggestion."
    nearest = min(lines, key=lambda x: abs(x - suggestion))
    what = "the x of the vertical line"
    assert_close(nearest, suggestion, what=what, rtol=POINT_RTOL, atol=0.0)
    # Error bars are vertical, too, with a suggestion and without.
    without = verticals(laws.figure_of(student, "plot_lr_range_test", result))
    told = "Without a suggestion there is a vertical line all the same."
    assert len(without) < len(lines), told


@pytest.mark.points(3)
@pytest.mark.place("plot_lr_range_test")
@pytest.mark.word("the sandbox says which figures are open")
@pytest.mark.hint("matplotlib.figure.Figure() makes a figure that pyplot knows nothing of.")
def test_plot_pyplot(student: Student) -> None:
    """pyplot's figures are as they were, and no window is opened."""
    drawn(student)  # what draws nothing leaves all as it was
    result = result_of(student, [3.0, 2, 1, 9])
    laws.check_leaves_pyplot(student, "plot_lr_range_test", result, 0.004)


# --- locally: what is right ----------------------------------------------------------------------


def near(value: float) -> float:
    """A drawn number that is at most a quarter above this one."""
    return value * (1 + random.randint(0, 31) / 128)


def scaled(losses: list[float]) -> list[float]:
    """The losses times a drawn factor, of so few bits that 4 times a loss is still exactly that."""
    factor = near(1.0)
    return [factor * loss for loss in losses]


def doubles(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def geometric(lr_min: float, lr_max: float, steps: int) -> Tensor:
    """The rates as they should be."""
    i = torch.arange(steps, dtype=torch.float64)
    return lr_min * (lr_max / lr_min) ** (i / (steps - 1))


def new_regression() -> dict[str, Tensor]:
    """A linear regression that is far from its optimum, so that the loss falls slowly."""
    return {
        "inputs": torch.rand(4, 3, dtype=torch.float64) + 0.5,
        "targets": torch.rand(4, 1, dtype=torch.float64) + 4.0,
        "weight": torch.rand(3, 1, dtype=torch.float64),
        "bias": torch.rand(1, dtype=torch.float64),
    }


def parameters_of(data: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: data[name] for name in PARAMETERS}


def descend(
    data: dict[str, Tensor], rates: list[float], momentum: float = 0.0, weight_decay: float = 0.0
) -> Tensor:
    """The losses of the regression, which SGD trains by one step for each rate."""
    inputs, targets = data["inputs"], data["targets"]
    weight, bias = data["weight"], data["bias"]
    velocity, bias_velocity, losses = torch.zeros(()), torch.zeros(()), []
    for rate in rates:
        rest = inputs @ weight + bias - 2 * targets
        losses.append(rest.square().mean())
        by_outputs = 2 * rest / rest.numel()
        velocity = momentum * velocity + inputs.T @ by_outputs + weight_decay * weight
        bias_velocity = momentum * bias_velocity + by_outputs.sum(0) + weight_decay * bias
        weight, bias = weight - rate * velocity, bias - rate * bias_velocity
    return torch.stack(losses)


# --- range tests ---------------------------------------------------------------------------------


def range_test(
    student: Student,
    model: Made,
    optimizer: Made,
    loss: str,
    passes: list[list[Batch]],
    span: Sequence[float],
) -> Any:
    """The fields of a range test's result, with this span of rates, or the default one where it is empty."""
    loss_fn, loader = student.made(loss), student.made("loader", passes)
    return student.run("range_test", model, optimizer, loss_fn, loader, *span)


def rates_of(result: Any) -> Tensor:
    """The rates `(n,)` of a result."""
    return assert_tensor(entry(result, "learning_rates"), what="learning_rates of the result")


def losses_of(result: Any) -> Tensor:
    """The losses `(n,)` in float64; what holds them is the affair of test_result."""
    losses = entry(result, "losses")
    if isinstance(losses, list) and all(isinstance(loss, float) for loss in losses):
        losses = doubles(losses)
    losses = assert_tensor(losses, what="losses of the result")
    told = "losses of the result should be floating and have one dimension."
    assert losses.dim() == 1 and losses.is_floating_point(), told
    return losses.detach().double()


def fitted(
    student: Student,
    data: dict[str, Tensor],
    groups: list[dict[str, Any]],
    gradients: dict[str, Tensor] | None = None,
) -> tuple[list[float], Tensor]:
    """The rates and losses of a range test of the regression, with SGD of these groups.

    The rates are the reported ones: whether these are right is the affair of other tests.
    """
    model = student.made("line", parameters_of(data), gradients or {})
    optimizer = student.made("sgd", model, groups)
    batches = [(data["inputs"], data["targets"])]
    result = range_test(student, model, optimizer, "square_loss", [batches], SPAN)
    what = "losses of a test that has no reason to stop"
    losses = assert_tensor(losses_of(result), shape=(STEPS,), what=what)
    rates = assert_tensor(rates_of(result), shape=(STEPS,), what="learning_rates of the same test")
    return rates.tolist(), losses


def scripted(student: Student, passes: list[list[float]], *span: float) -> Any:
    """The result of a range test whose k-th pass over the loader has batches of these losses."""
    # The inputs are zeros, and so are the outputs: the loss is the target. Training does not change that, for
    # the optimizer holds the weight alone, which has a gradient of zeros.
    x = torch.zeros(1, 1, dtype=torch.float64)
    zeros = {"weight": torch.zeros(1, 1).double(), "bias": torch.zeros(1).double()}
    model = student.made("line", zeros, {})
    optimizer = student.made("sgd", model, [{"params": ["weight"], "lr": 0.1}])
    batches = [[(x, torch.full_like(x, loss)) for loss in losses] for losses in passes]
    return range_test(student, model, optimizer, "distance", batches, span)


# What comes of the probe's Network and its optimizer after a range test that restored them.
AFTERWARDS = {
    "outputs": "the outputs of the model's layer after the test",
    "buffers": "the numbers in all buffers of the model after the test",
    "added": "what the submodules that are in train mode after the test add to the outputs",
    "moved": "by how much two steps of the optimizer after the test move a weight",
}
# Two gauges have 2 numbers each; a batch norm of 3 features has two buffers of them, and counts the batches.
NUMBERS_IN_BUFFERS = 2 * 2 + 2 * 3 + 1


def check_restores(
    student: Student,
    parts: Sequence[str],
    shown: str = "",
    told: str = "",
    *,
    momenta: dict[str, Tensor] | None = None,
    third_targets: float = 1.0,
) -> None:
    """A range test trains the probe's Network, and leaves these parts as they were; something shows it.

    SGD has these momenta already; the targets of the third batch are multiplied by `third_targets`.
    """
    data, count = new_regression(), random.randint(3, 99)
    readings = [random.uniform(0.1, 0.5) for _ in range(2)]
    model = student.made("network", parameters_of(data), readings, count)
    optimizer = student.made("sgd", model, GROUPS, momenta)
    x, y = data["inputs"], data["targets"]
    loader = student.made("loader", [[(x, y), (x, y), (x, third_targets * y), (x, y)]])
    inputs, gradient = torch.rand_like(x), torch.rand_like(data["weight"])
    call = (model, optimizer, student.made("squared_error"), loader, list(SPAN), inputs, gradient)
    probe = student.probe("range_test_and_after")
    result = laws.check_restores(student, probe, *call, call="lr_range_test", only=parts, told=told)
    # A model that was not trained is as it was, too. The first two losses are of the same batch.
    decrease = losses_of(result)[:2].diff()
    in_train_mode = {**data, "targets": y / 2, "bias": data["bias"] + sum(readings)}
    what = "by how much the second loss on a batch differs from the first"
    right = descend(in_train_mode, [SPAN[0]] * 2).diff()
    assert_close(decrease, right, what=what, rtol=DECREASE_RTOL)
    # What the sandbox says of before and after may be made up: what comes of it is computed here.
    outputs = inputs @ data["weight"] + data["bias"]
    momentum, lr = GROUPS[0]["momentum"], GROUPS[0]["lr"]
    rights = {
        "outputs": outputs,
        "buffers": torch.full((NUMBERS_IN_BUFFERS,), count).double(),
        "added": torch.full_like(outputs, readings[0]),
        "moved": lr * (2 + momentum) * gradient,
    }
    if shown:
        assert_close(entry(result, shown), rights[shown], what=AFTERWARDS[shown])


# --- results and figures -------------------------------------------------------------------------


def rates_for(losses: list[float]) -> Tensor:
    return geometric(near(1e-4), 10.0, len(losses))


def result_of(student: Student, losses: list[float], rates: Tensor | None = None) -> Made:
    """An LRRangeTest of these losses."""
    rates = rates_for(losses) if rates is None else rates
    return student.own("LRRangeTest", rates, doubles(losses))


def check_suggestions(
    student: Student, cases: list[tuple[list[float], int]], **factor: float
) -> None:
    """The suggestion is one decade below the rate of the first loss that diverges."""
    for losses, first in cases:
        rates = rates_for(losses)
        suggestion = student.function("suggest_lr")(result_of(student, losses, rates), **factor)
        right = rates[first].item() / 10
        assert_close(suggestion, right, what=f"the suggestion for the losses {losses}", atol=0.0)


def drawn(student: Student) -> tuple[Tensor, Any]:
    """The finite points (n, 2) of a result, and its figure without a suggestion, drawn once for all."""

    def plot() -> tuple[Tensor, Any]:
        losses = [2 + random.random() for _ in range(8)] + [INF]
        rates = rates_for(losses)
        finite_points = torch.stack([rates, doubles(losses)], dim=1)[:-1]
        result = result_of(student, losses, rates)
        return finite_points, laws.figure_of(student, "plot_lr_range_test", result)

    return student.once("plot", plot)


def curves_of(figure: Any) -> list[Tensor]:
    """What is drawn in the only Axes, as tensors (points, 2)."""
    return [laws.points_of(line) for line in entry(laws.axes_of(figure), "lines", kind=list)]


def the_curve(figure: Any, points: Tensor) -> Tensor:
    """The curve that shows these points, or else the first one that is long enough.

    It comes without what is drawn of the last loss, which is infinite.
    """
    curves = [curve[: len(points)] for curve in curves_of(figure) if len(curve) >= len(points)]
    assert curves, "The losses are not drawn in the Axes: plot them over the learning rates."
    for curve in curves:
        if torch.allclose(curve, points, rtol=POINT_RTOL):
            return curve
    return curves[0]


def verticals(figure: Any) -> list[float]:
    """The x of each vertical line in the axes."""
    places = []
    for curve in curves_of(figure):
        x, y = curve.unbind(dim=1)
        if len(x) > 1 and (x == x[0]).all() and (y != y[0]).any():
            places.append(x[0].item())
    return places
