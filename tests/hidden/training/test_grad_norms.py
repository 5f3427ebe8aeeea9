"""Tests of the gradient-norm monitor."""

from __future__ import annotations

import math
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
    within,
)
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]

SCHEMES = ["xavier_uniform", "kaiming_normal", "ones"]
INF, NAN = math.inf, math.nan
LARGE = 1e25  # its square is beyond float32, and within float64
# Only test_gradient_norm judges the precision of float64.
RTOL = 1e-5
# The parameters of the probe's network that are not in linear layers.
OTHER_PARAMETERS = [
    "deep.norm.weight",
    "deep.norm.bias",
    "conv.weight",
    "conv.bias",
    "table.weight",
]
# The spread of a random weight with ENTRIES entries may be off by four standard errors of a difference.
ENTRIES, SPREAD_RTOL = 10_000, 0.045
SHRINK = 0.9  # a factor for the weight in each step of the probe's optimizer


# --- gradient_norm -------------------------------------------------------------------------------


@promise(
    "gradient_norm",
    points=4,
    hint="Flatten all gradients, put them into one vector, and take its L2 norm.",
)
def test_gradient_norm(code: Student, draw: Draw) -> Cases:
    """The norm is the L2 norm of all gradients as one vector, as exact as their dtype allows."""
    shapes = ((3, 4), (), (5,))
    gradients = [draw.normal(*shape, dtype=torch.float64, scale=LARGE) for shape in shapes]
    norm = norm_of(code, gradients)
    yield "the norm of three gradients in float64", within(norm, rtol=1e-7, atol=0.0)


@promise(
    "gradient_norm",
    hint="Skip a parameter whose .grad is None; think of a model that has no gradients.",
)
def test_gradient_norm_of_missing_gradients(code: Student, draw: Draw) -> Cases:
    """A gradient that is None adds nothing, and without any gradient the norm is 0.0."""
    norm = norm_of(code, [draw.normal(2), None, draw.normal(2, 2)])
    yield "the norm of three gradients, with None as the second,", within(norm, rtol=RTOL)
    yield "the norm of gradients that are all None", norm_of(code, [None, None])
    yield "the norm of no parameters", norm_of(code, [])


@promise(
    "gradient_norm",
    points=2,
    hint="Go once through the parameters, and ask of each whether its .grad is None.",
    after="test_gradient_norm",
)
def test_gradient_norm_of_any_parameters(code: Student, draw: Draw) -> Cases:
    """The parameters may come from a generator, which has no length, and may have been frozen since."""
    given = code.made("frozen_ones", [draw.normal(2), draw.normal(3, 2)])
    norm = code.function("gradient_norm")(given)
    yield "the norm of frozen parameters from a generator", within(norm, rtol=RTOL)


@promise(
    "gradient_norm",
    points=2,
    hint="Do nothing about infinity and NaN: the arithmetic carries them through.",
    word="inf and NaN are the same for all inputs",
)
def test_gradient_norm_non_finite(code: Student, draw: Draw) -> Cases:
    """Infinite and NaN gradients make the norm infinite and NaN."""
    for bad in (INF, -INF, NAN):
        norm = norm_of(code, [torch.tensor([1.0, bad]), draw.normal(2)])
        yield f"the norm with a gradient of {bad}", norm


@promise(
    "gradient_norm",
    hint="Compute with new tensors; functions that end in an underscore work in place.",
    after="test_gradient_norm",
)
def test_gradient_norm_changes_nothing(student: Student) -> None:
    """The gradients stay as they are, also if they are None or infinite."""
    given = student.made("parameters", [torch.randn(3, 2), None, torch.tensor([1.0, INF])])
    laws.check_changes_nothing(student, "gradient_norm", given, only=("0.values", "0.grad"))


# --- initialize ----------------------------------------------------------------------------------


@promise(
    "initialize",
    points=6,
    hint="model.modules() yields every module, however deep; fill those that are nn.Linear.",
    word="the sandbox says what was filled",
)
def test_initialize_every_linear(code: Student, draw: Draw) -> Cases:
    """Every nn.Linear is initialized, however deep it is nested, frozen or not."""
    names = ["first.weight", "deep.inner.weight", "last.weight"]
    yield f"the dict of the parameters {', '.join(names)} afterwards", filled(code, draw, names)


@promise(
    "initialize",
    points=2,
    hint="model.modules() begins with the model; isinstance(module, nn.Linear), not type.",
    word="the sandbox says what was filled",
)
def test_initialize_any_linear(code: Student, draw: Draw) -> Cases:
    """A model that is itself an nn.Linear, or a subclass of it, is initialized."""
    model = code.made("doubled", draw.size())
    yield "the dict of the parameters of the layer", code.run("initialized", model, "ones")


@promise(
    "initialize",
    points=5,
    hint='getattr(nn.init, scheme + "_")(module.weight), with no other argument and no seed.',
)
def test_initialize_random_schemes(code: Student, draw: Draw) -> Cases:
    """xavier_uniform and kaiming_normal draw uniform and normal weights, new ones each time."""
    fan_in = draw.size(46, 55)
    fan_out = ENTRIES // fan_in
    for scheme in ("xavier_uniform", "kaiming_normal"):
        first, second = (
            assert_tensor(
                entry(code.run("initialized", model, scheme), "0.weight"), shape=(fan_out, fan_in)
            )
            for model in [code.made("nested_layer", fan_in, fan_out)] * 2
        )
        spread = [first.square().mean().sqrt().item(), first.abs().mean().item()]
        what = f"the list of the standard deviation and the mean magnitude of a weight by {scheme}"
        yield what, within(spread, rtol=SPREAD_RTOL, atol=0.0)
        assert not laws.same(first, second), f"Two calls by {scheme} draw the same: is a seed set?"


@promise(
    "initialize",
    points=2,
    hint="nn.init.zeros_(module.bias), but only where module.bias is not None.",
    word="the sandbox says what was filled",
)
def test_initialize_biases(code: Student, draw: Draw) -> Cases:
    """Biases become zero."""
    names = ["first.bias", "last.bias"]
    yield f"the dict of the parameters {', '.join(names)} afterwards", filled(code, draw, names)


@promise(
    "initialize",
    points=3,
    hint="Fill the weight and the bias of an nn.Linear in place, and call nothing else.",
    after="test_initialize_every_linear",
    word="what was there before and after is the sandbox's",
)
def test_initialize_changes_nothing_else(code: Student, draw: Draw) -> Cases:
    """Parameters stay the same objects; .grad, other layers and the mode stay as they are."""
    yield "the dict of the parameters of other layers", filled(code, draw, OTHER_PARAMETERS)
    allow, network = ("values", "random"), code.made("network", 5)
    laws.check_changes_nothing(code, "initialize", network, "ones", allow=allow)


@promise(
    "initialize",
    points=3,
    hint="Begin with: if scheme not in SCHEMES, raise a ValueError that tells both.",
    after="test_initialize_every_linear",
    word="the sandbox says that it raised",
)
def test_initialize_unknown_scheme(student: Student) -> None:
    """An unknown scheme is a ValueError that names the known ones, before anything has changed."""
    call = student.made("network", 5), "xavier_normal"
    words_in_the_message = ("scheme", *SCHEMES)
    laws.check_errors(student, "initialize", {word: [call] for word in words_in_the_message})
    told = "Check the scheme first: an unknown one is refused before anything has changed."
    laws.check_changes_nothing(student, "initialize", *call, raises=ValueError, told=told)


# --- train_with_monitor --------------------------------------------------------------------------
#
# The model has one parameter, so that gradient_norm need not be right for several.


@promise(
    "train_with_monitor",
    points=5,
    hint="For each batch: clear the gradients, forward, loss, backward, record the norm, step.",
)
def test_norms_of_every_batch(code: Student, draw: Draw) -> Cases:
    """The norm of every batch is recorded, in float64, in the order of epochs and batches."""
    report = trained(code, draw, [new_batches(draw, 2)], epochs=3)
    what = "the tensor of norms of three epochs with two batches"
    yield what, within(entry(report, "norms"), rtol=RTOL)


@promise(
    "train_with_monitor",
    points=3,
    hint="Each batch is one step of the given optimizer, on this model, with its gradient.",
)
def test_training(code: Student, draw: Draw) -> Cases:
    """Each batch is one step of the optimizer, with its own gradient; each epoch is a new pass."""
    batches = new_batches(draw, 3)
    passes = [batches, batches[::-1]]
    yield "the weight afterwards", weight(trained(code, draw, passes, shrink_weight=SHRINK))


@promise(
    "train_with_monitor",
    points=3,
    hint="model.train() before the first batch, and nothing about the mode afterwards.",
    after="test_training",
)
def test_train_mode(code: Student, draw: Draw) -> Cases:
    """The model is trained and left in train mode, even if it was in eval mode."""
    report = trained(code, draw, [new_batches(draw, 2)], offset=1.5)
    yield (
        "the weight afterwards, of a model to which train mode makes a difference,",
        weight(report),
    )
    yield "the list of training modes afterwards", entry(report, "modes")


@promise(
    "train_with_monitor",
    hint="gradient_norm(model.parameters())",
    after="test_norms_of_every_batch",
)
def test_parameters_outside_the_optimizer(code: Student, draw: Draw) -> Cases:
    """The norm is taken over all the model's parameters, not only over the optimizer's."""
    report = trained(code, draw, [new_batches(draw, 1)], bias=True)
    yield (
        "the norm of a weight and a bias, where the optimizer holds the weight alone",
        norms(report),
    )


@promise(
    "train_with_monitor",
    hint="Clear the gradients before each backward pass, also before the first one.",
    after="test_norms_of_every_batch",
)
def test_stale_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients from before the training do not count."""
    report = trained(code, draw, [new_batches(draw, 2)], old_gradient=9.0)
    yield "the tensor of norms of a model that had gradients before", norms(report)


@promise(
    "train_with_monitor",
    points=22,
    hint="backward, then the norm, then the step.",
    after="test_norms_of_every_batch",
)
def test_norms_before_the_step(code: Student, draw: Draw) -> Cases:
    """The norm is taken before the optimizer's step, which may change the gradients."""
    shrink = draw.number(0.2, 0.8)
    report = trained(code, draw, [new_batches(draw, 2)], shrink_gradient=shrink)
    what = "the tensor of norms with an optimizer that shrinks the gradients as it steps"
    yield what, norms(report)


@promise(
    "train_with_monitor",
    points=2,
    hint="Treat a norm that is not finite like any other: record it, step, go on.",
    after=("test_norms_of_every_batch", "test_gradient_norm_non_finite"),
)
def test_non_finite_norms(code: Student, draw: Draw) -> Cases:
    """A norm that is not finite is recorded, and the optimizer steps all the same."""
    batches = new_batches(draw, 3)
    batches[0][0][0, 0] = INF
    batches[1][0][0, 0] = NAN
    report = trained(code, draw, [batches], shrink_weight=SHRINK)
    yield "the tensor of norms with infinite and NaN inputs", norms(report)
    yield "the weight afterwards", weight(report)


@promise(
    "train_with_monitor",
    hint="Begin with: if epochs < 1, raise a ValueError that names epochs.",
    word="the sandbox says that it raised",
)
def test_epochs_below_one(student: Student) -> None:
    """Fewer than one epoch is a ValueError."""
    call = training_arguments(student)
    laws.check_errors(student, "train_with_monitor", {"epochs": [(*call, 0)]}, fine=(*call, 1))


@promise(
    "train_with_monitor",
    hint="Set no seed in train_with_monitor, and draw no random numbers of your own.",
    after="test_norms_of_every_batch",
)
def test_random_state_kept(student: Student) -> None:
    """Training seeds nothing, and draws no random numbers if the model draws none."""
    call = training_arguments(student)
    laws.check_changes_nothing(student, "train_with_monitor", *call, 1, only=("random",))


# --- compare_initializations ---------------------------------------------------------------------
#
# "ones" draws nothing. Only one test uses the random schemes, which depend on initialize.


@promise(
    "compare_initializations",
    hint="A dict that is filled in the order of SCHEMES.",
    word="the keys are the same for all inputs",
)
def test_compare_schemes(code: Student, draw: Draw) -> Cases:
    """The result has one entry for each scheme, in the order of SCHEMES."""
    result = compare(code, code.made("loader", [new_batches(draw, 1)]), epochs=1)
    keys = list(entry(result, kind=dict, told="compare_initializations should return a dict."))
    yield "the list of keys of compare_initializations", keys


@promise(
    "compare_initializations",
    points=4,
    hint="torch.optim.SGD(model.parameters(), lr=lr), and the mean over the batches.",
)
def test_compare_initializations(code: Student, draw: Draw) -> Cases:
    """Each value is a tensor of the mean norm of each epoch, from training with plain SGD at the given rate."""
    loader = code.made("loader", [new_batches(draw, 5)])
    result = compare(code, loader, lr=0.03, epochs=2, seed=draw.seed())
    yield 'the means for "ones"', means(result, "ones")


@promise(
    "compare_initializations",
    points=5,
    hint="For each scheme: torch.manual_seed(seed), then build, initialize, train.",
    after="test_compare_initializations",
)
def test_compare_seeds_each_scheme(code: Student, draw: Draw) -> Cases:
    """For every scheme: set the seed, build a new model, initialize it, and train."""
    loader = code.made("shuffled", new_batches(draw, 5))
    result = compare(code, loader, lr=0.05, epochs=2, seed=draw.seed())
    for scheme in SCHEMES:
        yield f'the means for "{scheme}", with a loader that shuffles', means(result, scheme)


@promise(
    "compare_initializations",
    hint="lr=0.01, epochs=50, seed=0, as in the stub.",
    after="test_compare_seeds_each_scheme",
)
def test_compare_defaults(code: Student, draw: Draw) -> Cases:
    """The defaults are 50 epochs, a learning rate of 0.01, and the seed 0."""
    result = compare(code, code.made("loader", [new_batches(draw, 1)]))
    yield 'the means for "ones" with the defaults', means(result, "ones")


@promise(
    "compare_initializations",
    hint="norms.mean(dim=1) is NaN where a norm is, and that is expected.",
    after=("test_compare_initializations", "test_gradient_norm_non_finite"),
)
def test_compare_non_finite(code: Student, draw: Draw) -> Cases:
    """An epoch with a norm that is not finite has a mean that is not finite."""
    batches = new_batches(draw, 2)
    batches[1][0][0, 0] = NAN
    result = compare(code, code.made("loader", [batches]), epochs=1)
    yield 'the means for "ones", where the second of two norms is NaN', means(result, "ones")


# --- diagnose ------------------------------------------------------------------------------------


@promise(
    "diagnose",
    points=4,
    hint="One bad norm is enough, and NaN is neither above nor below a limit.",
)
def test_diagnose_exploding(code: Student, draw: Draw) -> Cases:
    """A single norm that is above 1e3, infinite or NaN means exploding; 1e3 itself does not."""
    for bad in (draw.number(1001.0, 4000.0), INF, NAN):
        yield diagnosis(code, [bad, *sound(draw, 4)])
        yield diagnosis(code, [*low(draw, 2), bad, *low(draw, 2)])
    yield diagnosis(code, [1000.0] * 5)


@promise(
    "diagnose",
    points=2,
    hint="All of the norms have to be below 1e-3; exactly 1e-3 is not below.",
)
def test_diagnose_vanishing(code: Student, draw: Draw) -> Cases:
    """Vanishing means that all norms are below 1e-3; 1e-3 itself is not below."""
    yield diagnosis(code, low(draw, 5))
    yield diagnosis(code, [*low(draw, 4), draw.number(1.1e-3, 4e-3)])
    yield diagnosis(code, [1e-3] * 5)


@promise(
    "diagnose",
    points=3,
    hint="norms[:5]; a slice may reach behind the end, an index may not.",
)
def test_diagnose_first_five(code: Student, draw: Draw) -> Cases:
    """Only the first five epochs count, or all if there are fewer."""
    yield diagnosis(code, [*sound(draw, 5), *high(draw, 3)])
    yield diagnosis(code, [*sound(draw, 4), *high(draw, 1), *sound(draw, 3)])
    yield diagnosis(code, [*low(draw, 5), *sound(draw, 3)])
    yield diagnosis(code, [*sound(draw, 2), *high(draw, 1)])
    yield diagnosis(code, low(draw, 1))


@promise(
    "diagnose",
    hint="Compare, and write into nothing: functions that end in an underscore do.",
    after="test_diagnose_exploding",
)
def test_diagnose_changes_nothing(student: Student) -> None:
    """The tensor of norms is left as it is."""
    laws.check_changes_nothing(student, "diagnose", torch.randn(8).double(), only=("0.values",))


# --- plot_gradient_norms -------------------------------------------------------------------------


@promise(
    "plot_gradient_norms",
    points=3,
    hint="ax.plot(range(1, len(norms) + 1), norms, label=name) for each history.",
)
def test_plot_lines(code: Student, draw: Draw) -> Cases:
    """Each history is a line over the epochs 1 to n, labeled by its key, in one Axes."""
    histories = new_histories(draw)
    figure = laws.figure_of(code, "plot_gradient_norms", histories)
    laws.axes_of(figure)
    yield "the dict of the points (x, y) of each line; NaN is a gap", lines(figure, histories)


@promise(
    "plot_gradient_norms",
    points=2,
    hint='ax.set_yscale("log"), ax.set_xlabel, ax.set_ylabel, and ax.legend() in the end.',
    word="labels and scale are the same for all histories",
)
def test_plot_axes(student: Student) -> None:
    """The y axis is logarithmic, both axes have a label, and a legend names every history."""
    histories = new_histories(Draw(0))
    figure = laws.figure_of(student, "plot_gradient_norms", histories)
    laws.check_axes(figure, y_scale="log", legend=list(histories))


@promise(
    "plot_gradient_norms",
    points=2,
    hint="Draw all points; a point whose y is NaN is a gap in the line.",
    after="test_plot_lines",
)
def test_plot_gaps(code: Student, draw: Draw) -> Cases:
    """Where a norm is not finite, the line has a gap; the histories are left as they are."""
    histories = {
        "inside": torch.tensor([1.0, NAN, 3.0, INF, 5.0, 6.0]),
        "at both ends": torch.tensor([NAN, 4.0, 8.0, INF]),
    }
    figure = laws.figure_of(code, "plot_gradient_norms", histories)
    yield "the dict of the points (x, y) of each line; NaN is a gap", lines(figure, histories)
    laws.check_changes_nothing(code, "plot_gradient_norms", histories, only=("values",))


@promise(
    "plot_gradient_norms",
    points=2,
    hint="A matplotlib.figure.Figure() of your own needs no pyplot; else close yours.",
    after="test_plot_lines",
    word="the sandbox says which figures are open",
)
def test_plot_leaves_pyplot_alone(student: Student) -> None:
    """No window opens, no new figure stays in pyplot, and the caller's figures are left alone."""
    laws.check_leaves_pyplot(student, "plot_gradient_norms", {"first": torch.tensor([1.0, 2.0])})


# --- helpers of the tests ------------------------------------------------------------------------


def norm_of(code: Student, gradients: list[Any]) -> Any:
    return code.function("gradient_norm")(code.made("parameters", gradients))


def filled(code: Student, draw: Draw, names: list[str]) -> dict[str, Any]:
    """These parameters of the probe's network after initialize by "ones"."""
    report = code.run("initialized", code.made("network", draw.size()), "ones")
    return {name: entry(report, name) for name in names}


def new_batches(draw: Draw, count: int) -> list[Batch]:
    """Batches of different sizes and norms, the largest and smallest neither first nor last."""
    batches = []
    for i, shift in enumerate((15, 6, 21, 12, 9)[:count]):
        inputs, targets = (draw.normal(4 + i, width, dtype=torch.float64) for width in (3, 2))
        batches.append((inputs, targets + shift))
    return batches


def trained(
    code: Student,
    draw: Draw,
    passes: list[list[Batch]],
    *,
    epochs: int | None = None,
    shrink_weight: float = 1.0,
    shrink_gradient: float = 1.0,
    **model: Any,
) -> Any:
    """The probe's report on train_with_monitor, for a Scaled with these options and the probe's optimizer."""
    made = code.made("scaled", draw.seed(), **model)
    shrinks = {"shrink_weight": shrink_weight, "shrink_gradient": shrink_gradient}
    optimizer = code.made("rough", made, **shrinks)
    loader = code.made("loader", passes)
    return code.run("trained", made, loader, optimizer, epochs or len(passes))


def norms(report: Any) -> Any:
    """The norms of a training. Another test judges their dtype."""
    return within(any_dtype(entry(report, "norms")), rtol=RTOL)


def weight(report: Any) -> Any:
    return within(entry(report, "weight"), rtol=RTOL)


def training_arguments(student: Student) -> list[Made]:
    """All arguments of train_with_monitor but the last."""
    model = student.made("scaled", 0)
    loader = student.made("loader", [new_batches(Draw(0), 1)])
    return [model, loader, student.made("loss"), student.made("rough", model)]


def compare(code: Student, loader: Made, **options: Any) -> Any:
    """The result of compare_initializations for the probe's builder."""
    builder, loss = code.made("builder"), code.made("loss")
    return code.function("compare_initializations")(builder, loader, loss, **options)


def means(result: Any, scheme: str) -> Any:
    return within(any_dtype(entry(result, scheme, default=None)), rtol=RTOL)


def diagnosis(code: Student, history: list[float]) -> tuple[str, Any]:
    given = torch.tensor(history, dtype=torch.float64)
    return f"the diagnosis of {history}", code.function("diagnose")(given)


def high(draw: Draw, count: int) -> list[float]:
    """Norms above 1e3, the limit of exploding."""
    return [10 ** draw.number(3.1, 5.0) for _ in range(count)]


def low(draw: Draw, count: int) -> list[float]:
    """Norms below 1e-3, the limit of vanishing."""
    return [10 ** draw.number(-8.0, -3.1) for _ in range(count)]


def sound(draw: Draw, count: int) -> list[float]:
    """Norms between the two limits."""
    return [10 ** draw.number(-2.5, 2.5) for _ in range(count)]


def new_histories(draw: Draw) -> dict[str, Tensor]:
    return {
        "xavier_uniform": draw.uniform(4, low=0.5, high=1.5, dtype=torch.float64),
        "deep, lr=0.1": draw.uniform(7, low=2.0, high=102.0, dtype=torch.float64),
        "Third": draw.uniform(2, high=1e-10, dtype=torch.float64),
    }


def lines(figure: Any, histories: dict[str, Tensor]) -> Any:
    """The points (n, 2) of each line. A point that is not drawn, because it is infinite or NaN, is NaN."""
    points = {}
    for name, line in laws.lines_of(figure, list(histories)).items():
        # A line may have points after the last epoch if they are not drawn.
        n = len(histories[name])
        drawn = line[:n] if line[n:, 1].isnan().all() else line
        points[name] = torch.where(drawn.isfinite(), drawn, NAN)
    return within(points, rtol=1e-6, atol=0.0)
