"""Tests of the gradient-norm monitor."""

from __future__ import annotations

import functools
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]
State = dict[str, Tensor]

SCHEMES = ["xavier_uniform", "kaiming_normal", "ones"]
INF, NAN = math.inf, math.nan
LARGE = 1e25  # its square is beyond float32, and within float64
randn64 = functools.partial(torch.randn, dtype=torch.float64)

# What the probe's network holds before it is initialized.
VALUE, GRADIENT = 2.5, 7.0
# Those of its layers that are not linear.
OTHER_PARAMETERS = [
    "deep.norm.weight",
    "deep.norm.bias",
    "conv.weight",
    "conv.bias",
    "table.weight",
]
# How far the spread of a random weight of so many entries may be off: six standard errors.
ENTRIES, SPREAD_RTOL = 10_000, 0.045
# The mean magnitude of uniform and of normal numbers, in standard deviations.
UNIFORM_MAGNITUDE, NORMAL_MAGNITUDE = math.sqrt(3) / 2, math.sqrt(2 / math.pi)

# The rate of the probe's optimizers, and by what a step of Rough may multiply the weight.
LR, SHRINK = 0.05, 0.9
WEIGHT, BIAS = "linear.weight", "linear.bias"
LARGEST_START = 10.0  # of a weight with which a training begins


# --- gradient_norm -------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Flatten all gradients, put them into one vector, and take its L2 norm.")
def test_gradient_norm(student: Student) -> None:
    """The norm is the L2 norm of all gradients as one vector, as exact as their dtype allows."""
    gradients = [LARGE * randn64(3, 4), LARGE * randn64(()), LARGE * randn64(5)]
    what = "the norm of three gradients in float64"
    assert_close(norm(student, gradients), norm_of(gradients), what=what, rtol=1e-7, atol=0.0)


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Skip a parameter whose .grad is None; think of a model that has no gradients.")
def test_gradient_norm_of_missing_gradients(student: Student) -> None:
    """A gradient that is None adds nothing, and without any gradient the norm is 0.0."""
    first, last = randn64(2), randn64(2, 2)
    what = "the norm of three gradients of which the second is None"
    assert_close(norm(student, [first, None, last]), norm_of([first, last]), what=what)
    assert_close(norm(student, [None, None]), 0.0, what="the norm of gradients that are all None")
    assert_close(norm(student, []), 0.0, what="the norm of no parameters")


@pytest.mark.points(2)
@pytest.mark.requires("test_gradient_norm")
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Go once through the parameters, and ask of each whether its .grad is None.")
def test_gradient_norm_of_any_parameters(student: Student) -> None:
    """The parameters may come from a generator, which has no length, and may be frozen by now."""
    gradients = [randn64(2), randn64(3, 2)]
    result = student.function("gradient_norm")(student.made("frozen_ones", gradients))
    assert_close(result, norm_of(gradients), what="the norm of frozen parameters from a generator")


@pytest.mark.points(2)
@pytest.mark.place("gradient_norm")
@pytest.mark.word("inf and NaN are the same for all inputs")
@pytest.mark.hint("Do nothing about infinity and NaN: the arithmetic carries them through.")
def test_gradient_norm_non_finite(student: Student) -> None:
    """Infinite and NaN gradients make the norm infinite and NaN."""
    for bad, right in [(INF, INF), (-INF, INF), (NAN, NAN)]:
        gradients = [torch.tensor([1.0, bad]), torch.randn(2)]
        assert_close(norm(student, gradients), right, what=f"the norm with a gradient of {bad}")


@pytest.mark.requires("test_gradient_norm")
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Compute with new tensors; functions that end in an underscore work in place.")
def test_gradient_norm_changes_nothing(student: Student) -> None:
    """The gradients stay as they are, also where they are None or infinite."""
    given = student.made("parameters", [torch.randn(3, 2), None, torch.tensor([1.0, INF])])
    laws.check_changes_nothing(student, "gradient_norm", given, only=("0.values", "0.grad"))


# --- initialize ----------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint(
    "model.modules() yields every module, however deep; fill those that are nn.Linear."
)
def test_initialize_every_linear(student: Student) -> None:
    """Every nn.Linear is initialized, however deep it is nested, frozen or not."""
    width, seen = initialized_network(student)
    names = ("first.weight", "deep.inner.weight", "last.weight")
    check_parameters(seen, {name: torch.ones(width, 3) for name in names})


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint("model.modules() begins with the model; isinstance(module, nn.Linear), not type.")
def test_initialize_any_linear(student: Student) -> None:
    """A model that is itself an nn.Linear, or a subclass of it, is initialized."""
    width = new_width()
    seen = laws.observe(student, "initialize", student.made("doubled", width), "ones").checked()
    check_parameters(seen, {"weight": torch.ones(width, 3), "bias": torch.zeros(width)})


@pytest.mark.points(5)
@pytest.mark.place("initialize")
@pytest.mark.hint(
    'getattr(nn.init, scheme + "_")(module.weight), with no other argument and no seed.'
)
def test_initialize_random_schemes(student: Student) -> None:
    """By xavier_uniform and kaiming_normal weights are uniform and normal, and drawn anew each time."""
    fan_in = random.randrange(46, 55)
    fan_out = ENTRIES // fan_in
    xavier, kaiming = math.sqrt(2 / (fan_in + fan_out)), math.sqrt(2 / fan_in)
    for scheme, deviation, magnitude in (
        ("xavier_uniform", xavier, UNIFORM_MAGNITUDE * xavier),
        ("kaiming_normal", kaiming, NORMAL_MAGNITUDE * kaiming),
    ):
        first, second = (weight_after(student, fan_in, fan_out, scheme) for _ in range(2))
        measured = [first.square().mean().sqrt().item(), first.abs().mean().item()]
        what = f"the list of the standard deviation and the mean magnitude of a weight by {scheme}"
        assert_close(measured, [deviation, magnitude], what=what, rtol=SPREAD_RTOL, atol=0.0)
        assert not laws.same(first, second), f"Two calls by {scheme} draw the same: is a seed set?"


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint("nn.init.zeros_(module.bias), but only where module.bias is not None.")
def test_initialize_biases(student: Student) -> None:
    """Biases become zero."""
    width, seen = initialized_network(student)
    check_parameters(seen, {name: torch.zeros(width) for name in ("first.bias", "last.bias")})


@pytest.mark.points(3)
@pytest.mark.requires("test_initialize_every_linear")
@pytest.mark.place("initialize")
@pytest.mark.word("what was there before and after is the sandbox's")
@pytest.mark.hint("Fill the weight and the bias of an nn.Linear in place, and call nothing else.")
def test_initialize_changes_nothing_else(student: Student) -> None:
    """Parameters stay the same objects; their .grad, other layers and the mode stay as they are."""
    _, seen = initialized_network(student)
    others = {name: seen.parameters(0)[name] for name in OTHER_PARAMETERS}
    check_parameters(seen, others)
    allow = ("values", "random")
    laws.check_changes_nothing(student, "initialize", new_network(student), "ones", allow=allow)


@pytest.mark.points(3)
@pytest.mark.requires("test_initialize_every_linear")
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if scheme not in SCHEMES, raise a ValueError that tells both.")
def test_initialize_unknown_scheme(student: Student) -> None:
    """An unknown scheme is a ValueError that names the known ones, before anything has changed."""
    call = (new_network(student), "xavier_normal")
    words_in_the_message = ("scheme", *SCHEMES)
    laws.check_errors(student, "initialize", {word: [call] for word in words_in_the_message})
    told = "Check the scheme first: an unknown one is refused before anything has changed."
    laws.check_changes_nothing(student, "initialize", *call, raises=ValueError, told=told)


# --- train_with_monitor --------------------------------------------------------------------------
#
# The model has one parameter, so that how gradient_norm adds up several is its own affair.


@pytest.mark.points(5)
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint(
    "For each batch: clear the gradients, forward, loss, backward, record the norm, step."
)
def test_norms_of_every_batch(student: Student) -> None:
    """The norm of every batch is recorded, in float64, in the order of epochs and batches."""
    start, batches = new_state(), new_batches(2)
    seen = train(student, start, [batches], epochs=3)
    right, _ = train_by_hand(start, [batches] * 3)
    assert_close(seen.value, right, what="the tensor of norms of three epochs with two batches")


@pytest.mark.points(3)
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint(
    "Each batch is one step of the given optimizer, on this model, with its gradient."
)
def test_training(student: Student) -> None:
    """Each batch is one step of the optimizer, by its gradient; each epoch is a new pass."""
    start, batches = new_state(), new_batches(3)
    passes = [batches, batches[::-1]]
    seen = train(student, start, passes, epochs=2, shrink_weight=SHRINK)
    _, weight = train_by_hand(start, passes, shrink_weight=SHRINK)
    check_parameters(seen, {WEIGHT: weight})


@pytest.mark.points(3)
@pytest.mark.requires("test_training")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("model.train() before the first batch, and nothing about the mode afterwards.")
def test_train_mode(student: Student) -> None:
    """The model is trained in train mode, also where it was in eval mode, and is left in it."""
    start, batches = {**new_state(), "offset": randn64(2)}, new_batches(2)
    seen = train(student, start, [batches])
    _, weight = train_by_hand(start, [batches])
    check_parameters(seen, {WEIGHT: weight})
    modes = entry(seen.after(0), "training", kind=dict)
    assert_equal(modes, dict.fromkeys(modes, True), what="the dict of training modes afterwards")


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("gradient_norm(model.parameters())")
def test_parameters_outside_the_optimizer(student: Student) -> None:
    """The norm is over all the model's parameters, not only those that the optimizer holds."""
    start, batches = {**new_state(), BIAS: randn64(2)}, new_batches(1)
    seen = train(student, start, [batches])
    right = torch.tensor([[norm_of(gradients_of(start, batches[0]))]]).double()
    what = "the norm of a weight and a bias, where the optimizer holds the weight alone"
    assert_close(seen.value, right, what=what)


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Clear the gradients before each backward pass, also before the first one.")
def test_stale_gradients(student: Student) -> None:
    """Gradients from before the training do not count."""
    start, batches = new_state(), new_batches(2)
    seen = train(student, start, [batches], old_gradient=randn64(2, 3))
    right, _ = train_by_hand(start, [batches])
    assert_close(seen.value, right, what="the tensor of norms of a model that had gradients before")


@pytest.mark.points(22)
@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("backward, then the norm, then the step.")
def test_norms_before_the_step(student: Student) -> None:
    """The norm is taken before the optimizer's step, which may change the gradients."""
    start, batches = new_state(), new_batches(2)
    seen = train(student, start, [batches], shrink_gradient=random.uniform(0.2, 0.8))
    right, _ = train_by_hand(start, [batches])
    what = "the tensor of norms with an optimizer that shrinks the gradients as it steps"
    assert_close(seen.value, right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_norms_of_every_batch", "test_gradient_norm_non_finite")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Treat a norm that is not finite like any other: record it, step, go on.")
def test_non_finite_norms(student: Student) -> None:
    """A norm that is not finite is recorded, and the optimizer steps all the same."""
    start, batches = new_state(), new_batches(3)
    batches[0][0][0, 0] = INF
    batches[1][0][0, 0] = NAN
    seen = train(student, start, [batches], shrink_weight=SHRINK)
    right, weight = train_by_hand(start, [batches], shrink_weight=SHRINK)
    assert_close(seen.value, right, what="the tensor of norms with infinite and NaN inputs")
    check_parameters(seen, {WEIGHT: weight})


@pytest.mark.place("train_with_monitor")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if epochs < 1, raise a ValueError that names epochs.")
def test_epochs_below_one(student: Student) -> None:
    """Fewer than one epoch is a ValueError."""
    call = training_arguments(student, new_state(), [new_batches(1)])
    laws.check_errors(student, "train_with_monitor", {"epochs": [(*call, 0)]}, fine=(*call, 1))


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Set no seed in train_with_monitor, and draw no random numbers of your own.")
def test_random_state_kept(student: Student) -> None:
    """Training seeds nothing, and draws no random numbers where the model draws none."""
    call = training_arguments(student, new_state(), [new_batches(1)])
    laws.check_changes_nothing(student, "train_with_monitor", *call, 1, only=("random",))


# --- compare_initializations ---------------------------------------------------------------------


@pytest.mark.place("compare_initializations")
@pytest.mark.word("the keys are the same for all inputs")
@pytest.mark.hint("A dict that is filled in the order of SCHEMES.")
def test_compare_schemes(student: Student) -> None:
    """The result has one entry for each scheme, in the order of SCHEMES."""
    result = compare(student, student.made("loader", [new_batches(1)]), epochs=1)
    keys = list(entry(result, kind=dict, told="compare_initializations should return a dict."))
    assert_equal(keys, SCHEMES, what="the list of keys of compare_initializations")


@pytest.mark.points(4)
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("torch.optim.SGD(model.parameters(), lr=lr), and the mean over the batches.")
def test_compare_initializations(student: Student) -> None:
    """Each value is the mean norm of every epoch of training with plain SGD at the given rate."""
    batches, seed, lr = new_batches(5), new_seed(), 0.03
    loader = student.made("loader", [batches])
    result = compare(student, loader, lr=lr, epochs=2, seed=seed)
    start, _ = starts(student, seed)[0]
    norms, _ = train_by_hand(start, [batches] * 2, lr=lr)
    means = entry(result, SCHEMES[0], default=None)
    assert_close(means, norms.mean(dim=1), what=f'the means for "{SCHEMES[0]}"')


@pytest.mark.points(5)
@pytest.mark.requires("test_compare_initializations")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("For each scheme: torch.manual_seed(seed), then build, initialize, train.")
def test_compare_seeds_each_scheme(student: Student) -> None:
    """Every scheme begins with the seed, then builds a new model, initializes it, and trains."""
    batches, seed = new_batches(5), new_seed()
    loader = student.made("shuffled", batches)
    result = compare(student, loader, lr=LR, epochs=2, seed=seed)
    right = []
    for start, orders in starts(student, seed):
        passes = [[batches[i] for i in order] for order in orders]
        norms, _ = train_by_hand(start, passes)
        right.append(norms.mean(dim=1))
    means = [entry(result, scheme, default=None) for scheme in SCHEMES]
    what = "the list of the means of all schemes, with a loader that shuffles"
    assert_close(means, right, what=what)


@pytest.mark.requires("test_compare_seeds_each_scheme")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("lr=0.01, epochs=50, seed=0, as in the stub.")
def test_compare_defaults(student: Student) -> None:
    """By default there are 50 epochs at a learning rate of 0.01, with the seed 0."""
    batches = new_batches(1)
    result = compare(student, student.made("loader", [batches]))
    start, _ = starts(student, 0)[0]
    norms, _ = train_by_hand(start, [batches] * 50, lr=0.01)
    means = entry(result, SCHEMES[0], default=None)
    assert_close(means, norms[:, 0], what=f'the means for "{SCHEMES[0]}" with the defaults')


@pytest.mark.requires("test_compare_initializations", "test_gradient_norm_non_finite")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("norms.mean(dim=1) is NaN where a norm is, and that is expected.")
def test_compare_non_finite(student: Student) -> None:
    """An epoch with a norm that is not finite has a mean that is not finite."""
    batches = new_batches(2)
    batches[1][0][0, 0] = NAN
    result = compare(student, student.made("loader", [batches]), epochs=1)
    means = entry(result, "ones", default=None)
    what = 'the means for "ones", where the second of two norms is NaN'
    assert_close(means, torch.tensor([NAN]).double(), what=what)


# --- diagnose ------------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("diagnose")
@pytest.mark.hint("One bad norm is enough, and NaN is neither above nor below a limit.")
def test_diagnose_exploding(student: Student) -> None:
    """One norm that is above 1e3, infinite or NaN is exploding, and 1e3 itself is not."""
    for bad in (random.uniform(1001.0, 4000.0), INF, NAN):
        check_diagnosis(student, [bad, *sound(4)], "exploding")
        check_diagnosis(student, [*low(2), bad, *low(2)], "exploding")
    check_diagnosis(student, [1000.0] * 5, "healthy")


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("All of the norms have to be below 1e-3; exactly 1e-3 is not below.")
def test_diagnose_vanishing(student: Student) -> None:
    """Vanishing is where all norms are below 1e-3, and 1e-3 itself is not."""
    check_diagnosis(student, low(5), "vanishing")
    check_diagnosis(student, [*low(4), random.uniform(1.1e-3, 4e-3)], "healthy")
    check_diagnosis(student, [1e-3] * 5, "healthy")


@pytest.mark.points(3)
@pytest.mark.place("diagnose")
@pytest.mark.hint("norms[:5]; a slice may reach behind the end, an index may not.")
def test_diagnose_first_five(student: Student) -> None:
    """Only the first five epochs count, or all where there are fewer."""
    check_diagnosis(student, [*sound(5), *high(3)], "healthy")
    check_diagnosis(student, [*sound(4), *high(1), *sound(3)], "exploding")
    check_diagnosis(student, [*low(5), *sound(3)], "vanishing")
    check_diagnosis(student, [*sound(2), *high(1)], "exploding")
    check_diagnosis(student, low(1), "vanishing")


@pytest.mark.requires("test_diagnose_exploding")
@pytest.mark.place("diagnose")
@pytest.mark.hint("Compare, and write into nothing: functions that end in an underscore do.")
def test_diagnose_changes_nothing(student: Student) -> None:
    """The tensor of norms is left as it is."""
    laws.check_changes_nothing(student, "diagnose", randn64(8), only=("0.values",))


# --- plot_gradient_norms -------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint("ax.plot(range(1, len(norms) + 1), norms, label=name) for each history.")
def test_plot_lines(student: Student) -> None:
    """Each history is a line over the epochs 1 to n, labeled by its key, in one Axes."""
    histories, figure = plotted(student)
    laws.axes_of(figure)
    check_lines(figure, histories)


@pytest.mark.points(2)
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.word("labels and scale are the same for all histories")
@pytest.mark.hint('ax.set_yscale("log"), ax.set_xlabel, ax.set_ylabel, and ax.legend() in the end.')
def test_plot_axes(student: Student) -> None:
    """The y axis is logarithmic, both axes have a label, and a legend names every history."""
    histories, figure = plotted(student)
    laws.check_axes(figure, y_scale="log", legend=list(histories))


@pytest.mark.points(2)
@pytest.mark.requires("test_plot_lines")
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.hint("Draw all points; a point whose y is NaN is a gap in the line.")
def test_plot_gaps(student: Student) -> None:
    """Where a norm is not finite the line has a gap; the histories are left as they are."""
    histories = {
        "inside": torch.tensor([1.0, NAN, 3.0, INF, 5.0, 6.0]),
        "at both ends": torch.tensor([NAN, 4.0, 8.0, INF]),
    }
    check_lines(laws.figure_of(student, "plot_gradient_norms", histories), histories)
    laws.check_changes_nothing(student, "plot_gradient_norms", histories, only=("values",))


@pytest.mark.points(2)
@pytest.mark.requires("test_plot_lines")
@pytest.mark.place("plot_gradient_norms")
@pytest.mark.word("the sandbox says which figures are open")
@pytest.mark.hint("A matplotlib.figure.Figure() of your own needs no pyplot; else close yours.")
def test_plot_leaves_pyplot_alone(student: Student) -> None:
    """No window opens, no new figure stays in pyplot, and the caller's figures are left alone."""
    laws.check_leaves_pyplot(student, "plot_gradient_norms", {"first": torch.tensor([1.0, 2.0])})


# --- gradients and models ------------------------------------------------------------------------


def norm_of(tensors: Any) -> float:
    """The L2 norm of all tensors as one vector."""
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))


def norm(student: Student, gradients: list[Any]) -> Any:
    return student.function("gradient_norm")(student.made("parameters", gradients))


def new_width() -> int:
    """A size that no answer can know beforehand."""
    return random.randrange(8, 64)


def new_network(student: Student, width: int = 5) -> Made:
    return student.made("network", width, VALUE, GRADIENT)


def initialized_network(student: Student) -> tuple[int, laws.Observation]:
    """The width of a network, and what initialize makes of it by "ones", once for several tests."""

    def initialize() -> tuple[int, laws.Observation]:
        width = new_width()
        network = new_network(student, width)
        return width, laws.observe(student, "initialize", network, "ones").checked()

    return student.once("network", initialize)


def weight_after(student: Student, fan_in: int, fan_out: int, scheme: str) -> Tensor:
    """The weight of a linear layer of these sizes after initialize."""
    model = student.made("nested_layer", fan_in, fan_out)
    seen = laws.observe(student, "initialize", model, scheme).checked()
    weight = entry(seen.after(0, "parameters"), "0.weight", "values", default=None)
    return assert_tensor(weight, shape=(fan_out, fan_in), what="the weight after initialize")


def check_parameters(seen: laws.Observation, right: State) -> None:
    """These parameters of the model have these values after the call."""
    facts = seen.after(0, "parameters")
    after = {name: entry(facts, name, "values", default=None) for name in right}
    assert_close(after, right, what=f"the dict of the parameters {', '.join(right)} afterwards")


# --- training ------------------------------------------------------------------------------------


def new_seed() -> int:
    return random.randrange(2**31)


def new_batches(count: int) -> list[Batch]:
    """Batches of different sizes and norms, the largest and smallest neither first nor last."""
    shifts = (5, 2, 7, 4, 3)
    return [(randn64(4 + i, 3), randn64(4 + i, 2) + 3 * shifts[i]) for i in range(count)]


def new_state() -> State:
    """A state of the probe's Scaled without a bias, which is the same in both modes."""
    return {"scale": randn64(3), "offset": torch.zeros(2).double(), WEIGHT: randn64(2, 3)}


def gradients_of(state: State, batch: Batch) -> list[Tensor]:
    """The gradients of the probe's loss, mean((outputs - 2 targets)²), by the weight and the bias."""
    inputs, targets = batch
    x = inputs * state["scale"]
    outputs = x @ state[WEIGHT].T + state["offset"] + state.get(BIAS, 0.0)
    by_outputs = 2 * (outputs - 2 * targets) / outputs.numel()
    gradients = [by_outputs.T @ x]
    if BIAS in state:
        gradients.append(by_outputs.sum(0))
    return gradients


def train_by_hand(
    state: State, passes: list[list[Batch]], *, lr: float = LR, shrink_weight: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The right norms `(epochs, batches)` of a training without a bias, and the weight afterwards.

    Each step is that of the probe's Rough: an entry of the gradient that is not finite counts as 0.
    """
    weight, norms = state[WEIGHT], []
    for batches in passes:
        for batch in batches:
            (gradient,) = gradients_of({**state, WEIGHT: weight}, batch)
            norms.append(norm_of([gradient]))
            weight = shrink_weight * weight - lr * gradient.nan_to_num(0.0, 0.0, 0.0)
    return torch.tensor(norms, dtype=torch.float64).reshape(len(passes), -1), weight


def training_arguments(
    student: Student,
    state: State,
    passes: list[list[Batch]],
    *,
    old_gradient: Tensor | None = None,
    shrink_weight: float = 1.0,
    shrink_gradient: float = 1.0,
) -> list[Made]:
    """A model of this state, a loader, a loss, and the probe's optimizer of the weight alone."""
    model = student.made("scaled", state, old_gradient)
    optimizer = student.made("rough", model, LR, shrink_weight, shrink_gradient)
    return [model, student.made("loader", passes), student.made("loss"), optimizer]


def train(
    student: Student, state: State, passes: list[list[Batch]], epochs: int = 1, **options: Any
) -> laws.Observation:
    """What train_with_monitor returns for these arguments, and how it leaves the model."""
    call = training_arguments(student, state, passes, **options)
    return laws.observe(student, "train_with_monitor", *call, epochs).checked()


def compare(student: Student, loader: Made, **options: Any) -> Any:
    """What compare_initializations gives for the probe's builder."""
    builder, loss = student.made("builder"), student.made("loss")
    return student.function("compare_initializations")(builder, loader, loss, **options)


def starts(student: Student, seed: int) -> list[tuple[State, list[list[int]]]]:
    """For each scheme the state in which training begins, and the orders of five batches that are drawn next.

    The weight is what the student's own initialize draws: its mistakes cost points in its own tests alone.
    """
    # The scale is the first that building draws. It is drawn here again: with a scale of 0 from the sandbox
    # all norms would be 0.
    scale = torch.randn(3, generator=torch.Generator().manual_seed(seed)).double()
    states_and_orders = []
    for report in entry(student.run("starts", seed, SCHEMES, 5), kind=list, count=len(SCHEMES)):
        weight = assert_tensor(entry(report, "weight"), shape=(2, 3), dtype=torch.float64)
        told = "After initialize a weight is NaN, or far larger than any of the schemes makes it."
        assert (weight.abs() <= LARGEST_START).all(), told
        orders = assert_tensor(entry(report, "orders"), shape=(2, 5), dtype=torch.int64)
        state = {**new_state(), "scale": scale, WEIGHT: weight}
        states_and_orders.append((state, (orders % 5).tolist()))  # % 5, so that each is a position
    return states_and_orders


# --- diagnoses and figures -----------------------------------------------------------------------


def high(count: int) -> list[float]:
    """Norms above the limit of exploding ones, 1e3."""
    return [10 ** random.uniform(3.1, 5.0) for _ in range(count)]


def low(count: int) -> list[float]:
    """Norms below the limit of vanishing ones, 1e-3."""
    return [10 ** random.uniform(-8.0, -3.1) for _ in range(count)]


def sound(count: int) -> list[float]:
    """Norms between the two limits."""
    return [10 ** random.uniform(-2.5, 2.5) for _ in range(count)]


def check_diagnosis(student: Student, history: list[float], right: str) -> None:
    diagnosis = student.function("diagnose")(torch.tensor(history, dtype=torch.float64))
    assert_equal(diagnosis, right, what=f"the diagnosis of {history}")


def plotted(student: Student) -> tuple[dict[str, Tensor], Any]:
    """Three histories and their figure, drawn once for all tests."""

    def plot() -> tuple[dict[str, Tensor], Any]:
        histories = {
            "xavier_uniform": torch.rand(4).double() + 0.5,
            "deep, lr=0.1": torch.rand(7).double() * 100 + 2,
            "Third": torch.rand(2).double() * 1e-10,
        }
        return histories, laws.figure_of(student, "plot_gradient_norms", histories)

    return student.once("figure", plot)


def check_lines(figure: Any, histories: dict[str, Tensor]) -> None:
    """Compare the points (n, 2) of each line; a point that is infinite or NaN is not drawn."""
    points, right = {}, {}
    for name, line in laws.lines_of(figure, list(histories)).items():
        norms = histories[name].double()
        n = len(norms)
        # A line may go on behind the last epoch, as far as nothing is drawn there.
        drawn = line[:n] if line[n:, 1].isnan().all() else line
        points[name] = torch.where(drawn.isfinite(), drawn, NAN)
        epochs = torch.arange(1, n + 1).double()
        right[name] = torch.stack([epochs, torch.where(norms.isfinite(), norms, NAN)], dim=1)
    what = "the dict of the points (x, y) of each line; NaN is a gap"
    assert_close(points, right, what=what, rtol=1e-6, atol=0.0)
