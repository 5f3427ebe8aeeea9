"""Tests of the learning-rate range test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_dtype,
    assert_tensor,
    entry,
    laws,
    promise,
    raises,
    within,
)
from grader.judge.checks.promise import Loose
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]

NAN, INF = math.nan, math.inf

# A span is the first rate, the last rate, and the number of steps. In LEVEL all rates are nearly equal, so that
# their spacing does not matter.
STEPS = 6
LEVEL = (0.01, 0.01 * (1 + 1e-12), STEPS)
RISING = (0.001, 0.02, STEPS)
# The first and the last rate in tests where only the batches decide the losses.
ANY_RATES = (0.01, 1.0)

# The parameter groups of the probe's Network.
GROUPS: list[dict[str, Any]] = [
    {"params": ["line.weight", "line.bias"], "lr": 0.01, "momentum": 0.5},
    {
        "params": ["body.0.weight", "body.0.bias", "body.2.0.weight", "body.2.1.weight"],
        "lr": 0.25,
        "momentum": 0.9,
        "weight_decay": 0.125,
    },
]

# Losses that diverge at some step, and losses that never do: each is at most 4 times the lowest before it.
DIVERGING = [[8.0, 4, 2, 1, 2, 4, 5, 9, 3, 30, 200], [16.0, 10, 3, 11, 12, 3, 100, 5]]
NOT_FINITE = [[2.0, 1, NAN, 5, 1, 9, 1], [INF, 1]]
STEADY = [1.0, 2, 3, 4, 3, 4]

# A tolerance for numbers that may have been rounded to float32, in tests about something else.
ROUNDED = 1e-5
# A tolerance for the difference of two such losses.
ROUNDED_DIFFERENCE = 1e-3


# --- exponential_lrs -----------------------------------------------------------------------------


@promise(
    "exponential_lrs",
    points=18,
    hint="Space the exponents evenly, from log10(lr_min) to log10(lr_max).",
)
def test_rates(code: Student, draw: Draw) -> Cases:
    """The rates are evenly spaced in log(lr), from lr_min to lr_max."""
    rates = code.function("exponential_lrs")(1e-6 * near(draw), 10.0 * near(draw), 12)
    yield "the rates", roughly(rates)


@promise(
    "exponential_lrs",
    points=2,
    hint="Name torch.float64 where a tensor is made: converting later is too late.",
    after="test_rates",
)
def test_rates_float64(code: Student, draw: Draw) -> Cases:
    """The rates are float64, and are computed in float64."""
    rates = code.function("exponential_lrs")(1e-6 * near(draw), 10.0 * near(draw), 12)
    yield "the rates", within(rates, atol=0.0)


@promise(
    "exponential_lrs",
    hint="The defaults are in the signature of the stub.",
    after="test_rates",
    word="one answer without arguments is always right",
)
def test_default_rates(code: Student, draw: Draw) -> Cases:
    """Without arguments there are 100 rates from 1e-6 to 10."""
    yield "the rates without arguments", roughly(code.function("exponential_lrs")())


@promise(
    "exponential_lrs",
    points=3,
    hint="Check the arguments first: lr_min <= 0, lr_max <= lr_min, steps < 2.",
    word="the sandbox says that it raised",
)
def test_refuses_bad_rates(code: Student, draw: Draw) -> Cases:
    """An lr_min not above 0, an lr_max not above lr_min, or fewer than 2 steps are a ValueError."""
    function = code.function("exponential_lrs")
    bad = {"lr_min": (0.0, 1.0, 5), "lr_max": (0.1, 0.1, 5), "steps": (0.1, 1.0, 1)}
    for name, span in bad.items():
        yield f"exponential_lrs{span}", raises(ValueError, name, function, *span)


# --- lr_range_test: the steps --------------------------------------------------------------------


@promise("lr_range_test", points=3, hint="model.train() reaches every submodule.")
def test_train_mode(code: Student, draw: Draw) -> Cases:
    """The whole model is in train mode during the test, whatever mode it was in."""
    zeros = {"weight": torch.zeros(3, 1), "bias": torch.zeros(1)}
    model = code.made("network", zeros, [float(draw.size(5, 60)) for _ in range(2)], 1)
    batch = torch.zeros(4, 3).double(), torch.zeros(4, 1).double()
    losses = losses_of(code, model, code.made("sgd", model, GROUPS), "distance", [[batch]], LEVEL)
    yield (
        "losses of a model that adds a number for each of two submodules in train mode",
        roughly(losses[:1]),
    )


@promise(
    "lr_range_test",
    points=19,
    hint="At each step: rate, batch, zero_grad, loss, record, backward, step.",
)
def test_losses(code: Student, draw: Draw) -> Cases:
    """Each step trains the model, and records the loss before it."""
    losses = fitted(code, draw, LEVEL, [{"params": ["weight", "bias"], "lr": 0.03}])
    yield "the losses", roughly(losses)


@promise(
    "lr_range_test",
    points=5,
    hint="In the loop set the i-th rate, and only then take the step.",
    after=("test_rates", "test_losses"),
)
def test_rising_rates(code: Student, draw: Draw) -> Cases:
    """Step i has the i-th rate."""
    losses = fitted(code, draw, RISING, [{"params": ["weight", "bias"], "lr": 0.03}])
    yield "the losses", roughly(losses)


@promise(
    "lr_range_test",
    points=5,
    hint="Keep one iterator over the loader, and ask it for the next batch at each step.",
)
def test_next_batches(code: Student, draw: Draw) -> Cases:
    """Each step takes the next mini-batch of the loader."""
    batches = scaled(draw, [26.0, 23, 27, 21, 24, 22])
    losses = scripted(code, "losses", [batches], *ANY_RATES, 4)
    yield f"the losses where the batches' losses are {batches}", roughly(losses)


@promise(
    "lr_range_test",
    points=3,
    hint="When the iterator is used up, make a new one: iter(loader).",
    after="test_next_batches",
)
def test_loader_again(code: Student, draw: Draw) -> Cases:
    """A loader that runs out is iterated again from its start, and may shuffle anew."""
    # Batch i of pass p over the loader has the loss base + 10 p + i.
    base = 10.0 * draw.size(10, 100)
    passes = [[base + 10 * p + i for i in range(3)] for p in range(6)]
    losses = assert_tensor(scripted(code, "losses", passes, *ANY_RATES, 8), what="losses")
    yield "the places in the loader from which the steps took their batches", losses % 10
    # Code may use up a pass by looking at the loader first, so the passes need only be different.
    passed = (losses // 10).unique(return_inverse=True)[1]
    assert passed.any(), "The batches of the first pass come again: keep no batches."
    yield "the number of the pass from which each step took its batch", passed


@promise(
    "lr_range_test",
    points=2,
    hint="Zero the gradients before the backward of each step, the first one included.",
    after="test_losses",
)
def test_stale_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients from before the test do not count."""
    stale = {"weight": torch.full((3, 1), 3.0).double(), "bias": torch.full((1,), 3.0).double()}
    losses = fitted(code, draw, LEVEL, [{"params": ["weight", "bias"], "lr": 0.03}], stale)
    yield "the losses of a model that came with gradients", roughly(losses)


@promise(
    "lr_range_test",
    points=5,
    hint="Call step() of the optimizer that you were given, and make no new one.",
    after="test_losses",
)
def test_optimizer_steps(code: Student, draw: Draw) -> Cases:
    """The steps are those of the given optimizer, with its options."""
    options = {"lr": 0.03, "momentum": 0.9, "weight_decay": 0.5}
    losses = fitted(code, draw, LEVEL, [{"params": ["weight", "bias"], **options}])
    yield "the losses for momentum and weight decay", roughly(losses)


@promise(
    "lr_range_test",
    points=6,
    hint='for group in optimizer.param_groups: group["lr"] = ...',
    after="test_losses",
)
def test_every_group(code: Student, draw: Draw) -> Cases:
    """Every parameter group gets the same rate, whatever rates they had."""
    groups = [{"params": ["weight"], "lr": 0.03}, {"params": ["bias"], "lr": 0.3}]
    losses = fitted(code, draw, LEVEL, groups)
    yield "the losses of two parameter groups", roughly(losses)


# --- lr_range_test: the early stop ---------------------------------------------------------------


@promise(
    "lr_range_test",
    points=6,
    hint="Compare with the lowest loss so far, record the loss, then stop.",
    after="test_next_batches",
)
def test_stop(code: Student, draw: Draw) -> Cases:
    """The test records a loss above 4 times the lowest before it, and then stops."""
    yield from recorded(code, draw, [*DIVERGING, STEADY])


@promise(
    "lr_range_test",
    points=3,
    hint="NaN compares as False with everything: ask math.isfinite first.",
    after="test_next_batches",
)
def test_stop_not_finite(code: Student, draw: Draw) -> Cases:
    """The test records a loss that is not finite, and then stops."""
    yield from recorded(code, draw, NOT_FINITE)


# --- lr_range_test: the state afterwards ---------------------------------------------------------


@promise(
    "lr_range_test",
    points=24,
    hint="Clone every parameter before the test, and copy the values back in place.",
    word="the sandbox says what was before and what is left",
)
def test_restores_parameters(code: Student, draw: Draw) -> Cases:
    """Afterwards every parameter is the same object as before, with the same values."""
    parts = ("0.values", "0.parameters", "0.requires_grad", "1.parameters")
    told = "Keep copies of the parameters' values (clone), and put them back in place."
    yield from restored(code, draw, parts, "outputs", told)


@promise(
    "lr_range_test",
    points=8,
    hint="named_buffers() has them all; the state dict lacks those with persistent=False.",
    word="the sandbox says what was before and what is left",
)
def test_restores_buffers(code: Student, draw: Draw) -> Cases:
    """Afterwards every buffer is as before."""
    yield from restored(code, draw, ("0.buffers",), "buffers")


@promise(
    "lr_range_test",
    points=8,
    hint="Remember module.training of every module of model.modules().",
    word="the sandbox says what was before and what is left",
)
def test_restores_modes(code: Student, draw: Draw) -> Cases:
    """Afterwards every submodule is in its old mode."""
    yield from restored(code, draw, ("0.mode",), "added")


@promise(
    "lr_range_test",
    points=8,
    hint="Keep copy.deepcopy(optimizer.state_dict()), and load it at the end.",
    word="the sandbox says what was before and what is left",
)
def test_restores_optimizer(code: Student, draw: Draw) -> Cases:
    """Afterwards the optimizer's options and momentum are as before, and nothing is added."""
    for momenta in ({"body.2.0.weight": draw.normal(3, 3, dtype=torch.float64)}, {}):
        yield from restored(code, draw, ("1.options", "1.state"), "moved", momenta=momenta)


@promise(
    "lr_range_test",
    points=3,
    hint="Leave the loop by break, or restore in a finally clause.",
    after="test_restores_parameters",
    word="the sandbox says what was before and what is left",
)
def test_restores_after_stop(code: Student, draw: Draw) -> Cases:
    """A test that stops early restores the parameters too."""
    told = "A test that stops early restores, too."
    yield from restored(code, draw, ("0.values",), "outputs", told, third_targets=NAN)


@promise(
    "lr_range_test",
    hint="A range test needs no randomness of its own: leave torch.manual_seed alone.",
    after="test_next_batches",
)
def test_random_state(code: Student, draw: Draw) -> Cases:
    """The global random state is left alone."""
    yield from restored(code, draw, ("random",))


# --- lr_range_test: the result -------------------------------------------------------------------


@promise(
    "lr_range_test",
    points=2,
    hint="Return LRRangeTest(rates[:n], losses), both float64, for the n recorded losses.",
    after=("test_rates_float64", "test_next_batches"),
)
def test_result(code: Student, draw: Draw) -> Cases:
    """The result has the rates and losses of the steps that ran, in float64, without a graph."""
    losses = scaled(draw, [2.0, 1, 9, 1, 1])
    result = scripted(code, "result", [losses], 0.02 * near(draw), 0.5 * near(draw), 5)
    for place, name in enumerate(("learning_rates", "losses")):
        what = f"{name} of a test of 5 steps that stops early"
        yield what, within(entry(result, place), atol=0.0)
    assert entry(result, 2) is False, "The losses require a gradient: detach each one."


@promise(
    "lr_range_test",
    hint="The defaults are in the signature of the stub.",
    after="test_result",
)
def test_default_span(code: Student, draw: Draw) -> Cases:
    """By default a test has 100 rates from 1e-6 to 10."""
    rates = entry(scripted(code, "result", [[1.0] * 120]), 0)
    yield "the rates of a test by default", within(rates, atol=0.0)


@promise(
    "lr_range_test",
    hint="If a new iterator has no batch at all, raise ValueError and name the loader.",
    after="test_next_batches",
    word="the sandbox says that it raised",
)
def test_empty_loader(code: Student, draw: Draw) -> Cases:
    """A loader that yields nothing is a ValueError."""
    refused = raises(ValueError, "loader", scripted, code, "losses", [[]], *ANY_RATES, 5)
    yield "lr_range_test with an empty loader", refused


# --- suggest_lr ----------------------------------------------------------------------------------


@promise(
    "suggest_lr",
    points=24,
    hint="Walk through the losses, keep the lowest so far, stop at the first divergence.",
)
def test_suggestion(code: Student, draw: Draw) -> Cases:
    """The suggestion is one decade below the rate at which the loss begins to diverge."""
    yield from suggestions(code, draw, DIVERGING)


@promise(
    "suggest_lr",
    points=2,
    hint="Divergence is loss > factor * lowest, with the factor that was given.",
    after="test_suggestion",
)
def test_suggestion_factor(code: Student, draw: Draw) -> Cases:
    """A loss diverges if it is above factor times the lowest before it, not if it is equal to that."""
    yield from suggestions(code, draw, [[4.0, 2, 1, 1.5, 2, 4, 3, 8, 16]], factor=2.0)


@promise(
    "suggest_lr",
    points=3,
    hint="NaN compares as False with everything: ask math.isfinite first.",
    after="test_suggestion",
)
def test_suggestion_not_finite(code: Student, draw: Draw) -> Cases:
    """A loss that is NaN or infinite is divergence, also if it is the first loss."""
    yield from suggestions(code, draw, NOT_FINITE)


@promise(
    "suggest_lr",
    hint="If the loop ends without a divergence, raise ValueError.",
    after="test_suggestion",
    word="the sandbox says that it raised",
)
def test_never_diverges(code: Student, draw: Draw) -> Cases:
    """Losses that never diverge are a ValueError."""
    result = result_of(code, STEADY)
    names = "result or loss or losses"
    call = raises(ValueError, names, code.function("suggest_lr"), result)
    yield "suggest_lr for losses that never diverge", call


@promise(
    "suggest_lr",
    hint="Work on a copy where you change the losses.",
    after="test_suggestion",
    word="the sandbox says what was before and what is left",
)
def test_result_left_alone(student: Student) -> None:
    """suggest_lr leaves its result as it is."""
    result = result_of(student, [2.0, 1.5, 1, NAN, 9, 30])
    laws.check_changes_nothing(student, "suggest_lr", result, only=("0.values",))


# --- plot_lr_range_test --------------------------------------------------------------------------


@promise(
    "plot_lr_range_test",
    points=6,
    hint="figure.add_subplot(), plot(learning_rates, losses), set_xscale('log').",
)
def test_plot_curve(code: Student, draw: Draw) -> Cases:
    """The figure shows the losses over the learning rates, on a logarithmic x axis."""
    losses = draw.uniform(8, low=2, high=3, dtype=torch.float64).tolist()
    figure = laws.figure_of(code, "plot_lr_range_test", result_of(code, losses, 0.001 * near(draw)))
    curves = [curve for curve in curves_of(figure) if len(curve) == len(losses)]
    # Other lines may have the same length.
    shown = [
        curve for curve in curves if torch.allclose(curve[:, 1], torch.tensor(losses).double())
    ]
    assert curves, "The losses are not drawn in the Axes: plot them over the learning rates."
    yield "the points (x, y) of the curve of the losses", roughly([*shown, *curves][0])
    laws.check_axes(figure, x_scale="log", labels=False)


@promise(
    "plot_lr_range_test",
    hint="Work on a copy where you change the losses.",
    after="test_plot_curve",
    word="the sandbox says what was before and what is left",
)
def test_plot_leaves_result(student: Student) -> None:
    """The result stays as it is, also if a loss is infinite."""
    result = result_of(student, [3.0, 2, 1, INF])
    laws.check_changes_nothing(student, "plot_lr_range_test", result, only=("0.values",))


@promise(
    "plot_lr_range_test",
    hint="set_xlabel and set_ylabel.",
    word="labels are the same for all results",
)
def test_plot_labels(student: Student) -> None:
    """Both axes have a label."""
    result = result_of(student, [3.0, 2, 1, 9])
    laws.check_axes(laws.figure_of(student, "plot_lr_range_test", result))


@promise(
    "plot_lr_range_test",
    points=5,
    hint="if suggestion is not None: axes.axvline(suggestion)",
)
def test_plot_suggestion(code: Student, draw: Draw) -> Cases:
    """A suggestion is marked by a vertical line; without a suggestion there is no line."""
    suggestion = 0.003 * near(draw)
    result = result_of(code, [3.0, 2, 1, 9])
    lines = verticals(laws.figure_of(code, "plot_lr_range_test", result, suggestion))
    assert lines, "There is no vertical line at the suggestion."
    nearest = min(lines, key=lambda x: abs(x - suggestion))
    yield "the x of the vertical line", roughly(nearest)
    # Lines such as error bars are vertical, too, so the figure without a suggestion is counted as well.
    without = verticals(laws.figure_of(code, "plot_lr_range_test", result))
    told = "Without a suggestion there is a vertical line all the same."
    assert len(without) < len(lines), told


@promise(
    "plot_lr_range_test",
    points=3,
    hint="matplotlib.figure.Figure() makes a figure that pyplot knows nothing of.",
    after="test_plot_curve",
    word="the sandbox says which figures are open",
)
def test_plot_pyplot(student: Student) -> None:
    """pyplot's figures are as they were, and no window is opened."""
    result = result_of(student, [3.0, 2, 1, 9])
    laws.check_leaves_pyplot(student, "plot_lr_range_test", result, 0.004)


# --- numbers -------------------------------------------------------------------------------------


def near(draw: Draw) -> float:
    """A drawn factor from 1 to 1.25 with few bits, so that products and 4 times a product are exact."""
    return 1 + draw.size(0, 32) / 128


def scaled(draw: Draw, losses: list[float]) -> list[float]:
    factor = near(draw)
    return [factor * loss for loss in losses]


def roughly(value: Any) -> Loose:
    """Compare without the dtype, and to the precision of float32."""
    return any_dtype(within(value, rtol=ROUNDED, atol=0.0))


# --- range tests ---------------------------------------------------------------------------------


def regression(draw: Draw) -> dict[str, Tensor]:
    """A linear regression that is far from its optimum, so that the loss falls slowly."""
    return {
        "inputs": draw.uniform(4, 3, low=0.5, high=1.5, dtype=torch.float64),
        "targets": draw.uniform(4, 1, low=4.0, high=5.0, dtype=torch.float64),
        "weight": draw.uniform(3, 1, dtype=torch.float64),
        "bias": draw.uniform(1, dtype=torch.float64),
    }


def losses_of(
    code: Student,
    model: Made,
    optimizer: Made,
    loss: str,
    passes: list[list[Batch]],
    span: Sequence[float],
) -> Tensor:
    """The losses of a range test, as a tensor."""
    loss_fn, loader = code.made(loss), code.made("loader", passes)
    losses = code.run("losses", model, optimizer, loss_fn, loader, *span)
    losses = assert_tensor(losses, what="losses of the result").flatten()
    assert len(losses), "No loss is recorded."
    return losses


def fitted(
    code: Student,
    draw: Draw,
    span: Sequence[float],
    groups: list[dict[str, Any]],
    gradients: dict[str, Tensor] | None = None,
) -> Tensor:
    """The losses of a range test of the regression, with SGD for these groups."""
    data = regression(draw)
    batch = data.pop("inputs"), data.pop("targets")
    model = code.made("line", data, gradients or {})
    optimizer = code.made("sgd", model, groups)
    return losses_of(code, model, optimizer, "square_loss", [[batch] * STEPS], span)


def scripted(code: Student, probe: str, passes: list[list[float]], *span: float) -> Any:
    """A probe's report on a range test. In pass k over the loader, the batches have the losses `passes[k]`."""
    # Inputs and outputs are zeros, so the loss is the target. Training does not change that, because the
    # optimizer has only the weight, whose gradient is zero.
    x = torch.zeros(1, 1, dtype=torch.float64)
    zeros = {"weight": torch.zeros(1, 1).double(), "bias": torch.zeros(1).double()}
    model = code.made("line", zeros, {})
    optimizer = code.made("sgd", model, [{"params": ["weight"], "lr": 0.1}])
    batches = [[(x, torch.full_like(x, loss)) for loss in losses] for losses in passes]
    loader = code.made("loader", batches)
    return code.run(probe, model, optimizer, code.made("distance"), loader, *span)


def recorded(code: Student, draw: Draw, tables: list[list[float]]) -> Cases:
    """The recorded losses, for batches with the losses of each table."""
    for table in tables:
        losses = scaled(draw, table)
        found = scripted(code, "losses", [losses], *ANY_RATES, len(losses))
        yield f"the recorded losses for the losses {losses}", roughly(found)


# The parts of the probe's report on model and optimizer after a range test that restored them.
AFTERWARDS = {
    "outputs": "the outputs of the model's layer after the test",
    "buffers": "the numbers in all buffers of the model after the test",
    "added": "the sum that the submodules in train mode after the test add to the outputs",
    "moved": "by how much two steps of the optimizer after the test move a weight",
}


def restored(
    code: Student,
    draw: Draw,
    parts: Sequence[str],
    shown: str = "",
    told: str = "",
    *,
    momenta: dict[str, Tensor] | None = None,
    third_targets: float = 1.0,
) -> Cases:
    """Check that a range test trains the probe's Network and restores `parts`, and yield the part `shown`.

    SGD has `momenta` already. The targets of the third batch are multiplied by `third_targets`.
    """
    data = regression(draw)
    x, y = data.pop("inputs"), data.pop("targets") - 3
    model = code.made("network", data, [draw.number(0.1, 0.5) for _ in range(2)], draw.size())
    optimizer = code.made("sgd", model, GROUPS, momenta)
    loader = code.made("loader", [[(x, y), (x, y), (x, third_targets * y), *[(x, y)] * STEPS]])
    inputs, gradient = draw.uniform(4, 3).double(), draw.uniform(3, 1).double()
    call = (model, optimizer, code.made("product"), loader, list(LEVEL), inputs, gradient)
    probe = code.probe("losses_and_after")
    result = laws.check_restores(code, probe, *call, call="lr_range_test", only=parts, told=told)
    # A model that was never trained would also be as before.
    losses = assert_tensor(entry(result, "losses"), what="losses of the result").flatten()
    decrease = within(losses[:2].diff(), rtol=ROUNDED_DIFFERENCE)
    yield "the difference of the first two losses on a batch", decrease
    # The sandbox's comparison of before and after could be forged, so the resulting numbers are compared, too.
    if shown:
        yield AFTERWARDS[shown], entry(result, shown)


# --- results and figures -------------------------------------------------------------------------


def result_of(code: Student, losses: list[float], first: float = 0.001) -> Made:
    """An LRRangeTest with these losses, and with rates that double from step to step."""
    rates = first * 2.0 ** torch.arange(len(losses), dtype=torch.float64)
    return code.own("LRRangeTest", rates, torch.tensor(losses, dtype=torch.float64))


def suggestions(code: Student, draw: Draw, tables: list[list[float]], **factor: float) -> Cases:
    """The suggestion for each table of losses."""
    for losses in tables:
        suggestion = code.function("suggest_lr")(
            result_of(code, losses, 0.001 * near(draw)), **factor
        )
        yield f"the suggestion for the losses {losses}", within(suggestion, rtol=ROUNDED, atol=0.0)


def curves_of(figure: Any) -> list[Tensor]:
    """The lines in the only Axes, as tensors (points, 2)."""
    return [laws.points_of(line) for line in laws.axes_of(figure).lines]


def verticals(figure: Any) -> list[float]:
    """The x of each vertical line in the axes."""
    places = []
    for curve in curves_of(figure):
        x, y = curve.unbind(dim=1)
        if len(x) > 1 and (x == x[0]).all() and (y != y[0]).any():
            places.append(x[0].item())
    return places
