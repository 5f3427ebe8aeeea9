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
randn = functools.partial(torch.randn, dtype=torch.float64)

# What the probe's models hold before they are initialized.
VALUE, GRADIENT = 2.5, 7.0
# Layers of the probe's network beside four linear ones with a bias.
OTHER_LAYERS = ["no bias", "subclass", "convolution", "batch norm", "embedding"]
LINEAR_LAYERS = ["linear", "no bias", "subclass"]
# How far the spread of a weight of so many entries may be off.
ENTRIES, SPREAD_RTOL = 10_000, 0.045
# The largest of so many normal numbers is larger, in standard deviations; a uniform one is at most 1.7.
NORMAL_TAIL = 2.6

# The rate of the probe's optimizers, and what a step of Rough leaves of the parameters.
LR, SHRINK = 0.05, 0.9
WEIGHT, BIAS = "linear.weight", "linear.bias"
LARGEST_START = 10.0  # of a weight with which a training begins


# --- gradient_norm -------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Flatten all gradients, put them into one vector, and take its L2 norm.")
def test_gradient_norm(student: Student) -> None:
    """The norm is the L2 norm of all gradients as one vector, as exact as their dtype allows."""
    gradients = [LARGE * randn(3, 4), LARGE * randn(()), LARGE * randn(5)]
    what = "the norm of three gradients in float64"
    assert_close(norm(student, gradients), norm_of(gradients), what=what, rtol=1e-7, atol=0.0)


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Skip a parameter whose .grad is None; think of a model that has no gradients.")
def test_gradient_norm_of_missing_gradients(student: Student) -> None:
    """A gradient that is None adds nothing, and without any gradient the norm is 0.0."""
    first, last = randn(2), randn(2, 2)
    what = "the norm of three gradients of which the second is None"
    assert_close(norm(student, [first, None, last]), norm_of([first, last]), what=what)
    assert_close(norm(student, [None, None]), 0.0, what="the norm of gradients that are all None")
    assert_close(norm(student, []), 0.0, what="the norm of no parameters")


@pytest.mark.requires("test_gradient_norm")
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Ask whether .grad is None, not whether requires_grad is True.")
def test_gradient_norm_of_frozen_parameters(student: Student) -> None:
    """The gradients of parameters that are frozen by now count as all others."""
    gradients = [randn(2), randn(2, 2)]
    result = student.function("gradient_norm")(student.made("frozen", gradients))
    assert_close(result, norm_of(gradients), what="the norm of the gradients of frozen parameters")


@pytest.mark.points(2)
@pytest.mark.place("gradient_norm")
@pytest.mark.word("inf and NaN are the same for all inputs")
@pytest.mark.hint("Do nothing about infinity and NaN: the arithmetic carries them through.")
def test_gradient_norm_non_finite(student: Student) -> None:
    """Infinite and NaN gradients make the norm infinite and NaN."""
    for bad, right in [(INF, INF), (-INF, INF), (NAN, NAN)]:
        gradients = [torch.tensor([1.0, bad]), torch.randn(2)]
        assert_close(norm(student, gradients), right, what=f"the norm with a gradient of {bad}")


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("A generator can be iterated once, and has no length: go through it once.")
def test_gradient_norm_of_a_generator(student: Student) -> None:
    """The parameters may come from a generator, as those of model.parameters() do."""
    gradients = [randn(2), randn(3, 2)]
    result = student.function("gradient_norm")(student.made("generator", gradients))
    assert_close(result, norm_of(gradients), what="the norm of parameters from a generator")


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
    network, seen = initialized_network(student)
    check_filled(seen, network.names("weight", "linear", "no bias"), 1.0)


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint("model.modules() begins with the model itself, model.children() does not.")
def test_initialize_the_model_itself(student: Student) -> None:
    """A model that is itself an nn.Linear is initialized."""
    seen = laws.observe(student, "initialize", new_layer(student), "ones").checked()
    check_filled(seen, ["weight"], 1.0)
    check_filled(seen, ["bias"], 0.0)


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint(
    "isinstance(module, nn.Linear) sees subclasses, type(module) == nn.Linear does not."
)
def test_initialize_subclasses(student: Student) -> None:
    """An instance of a subclass of nn.Linear is initialized, too."""
    network, seen = initialized_network(student)
    check_filled(seen, network.names("weight", "subclass"), 1.0)


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.xavier_uniform_(module.weight), with no other argument.")
def test_initialize_xavier_uniform(student: Student) -> None:
    """The scheme xavier_uniform is uniform within sqrt(6 / (fan_in + fan_out))."""
    fan_in, fan_out = new_fans()
    weight = weight_after(student, fan_in, fan_out, "xavier_uniform")
    bound = math.sqrt(6 / (fan_in + fan_out))
    measured = [spread_of(weight), weight.abs().max().item()]
    right = [bound / math.sqrt(3), bound]
    what = "the list of the weight's standard deviation and its largest magnitude"
    assert_close(measured, right, what=what, rtol=SPREAD_RTOL, atol=0.0)


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.kaiming_normal_(module.weight), with no other argument.")
def test_initialize_kaiming_normal(student: Student) -> None:
    """The scheme kaiming_normal is normal with standard deviation sqrt(2 / fan_in)."""
    fan_in, fan_out = new_fans()
    weight = weight_after(student, fan_in, fan_out, "kaiming_normal")
    spread, right = spread_of(weight), math.sqrt(2 / fan_in)
    what = "the weight's standard deviation"
    assert_close(spread, right, what=what, rtol=SPREAD_RTOL, atol=0.0)
    told = "The weight is not normal: no entry is far from 0, as if it were uniform."
    assert weight.abs().max() > NORMAL_TAIL * spread, told


@pytest.mark.place("initialize")
@pytest.mark.word("two different draws can be made up")
@pytest.mark.hint("Set no seed in initialize; compare_initializations does.")
def test_initialize_draws_anew(student: Student) -> None:
    """Each call of initialize draws other random weights."""
    first = weight_after(student, 4, 3, "xavier_uniform")
    second = weight_after(student, 4, 3, "xavier_uniform")
    told = 'Two calls of initialize(layer, "xavier_uniform") give the same weight: is a seed set?'
    assert not laws.same(first, second), told


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("zeros are the same for all models")
@pytest.mark.hint("nn.init.zeros_(module.bias), but only where module.bias is not None.")
def test_initialize_biases(student: Student) -> None:
    """Biases become zero."""
    network, seen = initialized_network(student)
    check_filled(seen, network.names("bias", "linear"), 0.0)


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that the objects are the same")
@pytest.mark.hint("The functions of torch.nn.init fill a parameter in place; call nothing else.")
def test_initialize_in_place(student: Student) -> None:
    """The parameters stay the same objects, with their .grad and requires_grad."""
    check_fills_at_all(student)
    only = ("parameters", "grad", "requires_grad")
    laws.check_changes_nothing(student, "initialize", Network().made(student), "ones", only=only)


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("what was there before and after is the sandbox's")
@pytest.mark.hint("Ask for nn.Linear, not for what has a weight, a bias or two dimensions.")
def test_initialize_leaves_the_rest(student: Student) -> None:
    """Other layers' parameters and buffers stay as they are, and so does the training mode."""
    check_fills_at_all(student)
    network, seen = initialized_network(student)
    linear = network.names("weight", *LINEAR_LAYERS) + network.names("bias", *LINEAR_LAYERS)
    others = [name for name in seen.parameters(0) if name not in linear]
    before, after = seen.before(0), seen.after(0)
    what = "the dict of what is in other layers"
    assert_equal(values_of(after, others), values_of(before, others), what=what)
    what = "the dict of the training modes"
    assert_equal(entry(after, "training"), entry(before, "training"), what=what)


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if scheme not in SCHEMES, raise a ValueError that tells both.")
def test_initialize_unknown_scheme(student: Student) -> None:
    """An unknown scheme is a ValueError that names scheme and the known ones."""
    layer = new_layer(student)
    unknown = [(layer, "orthogonal"), (layer, "xavier_normal")]
    named = dict.fromkeys(["scheme", *SCHEMES], unknown)
    laws.check_errors(student, "initialize", named, fine=(layer, "ones"))


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check the scheme before the loop over the modules begins.")
def test_initialize_refuses_before_changes(student: Student) -> None:
    """An unknown scheme is refused before anything in the model has changed."""
    check_fills_at_all(student)
    call, only = (Network().made(student), "orthogonal"), ("values", "buffers")
    told = "Check the scheme first: an unknown one is refused before anything has changed."
    laws.check_changes_nothing(
        student, "initialize", *call, raises=ValueError, only=only, told=told
    )


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
    right, _ = trained(start, [batches] * 3)
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
    seen = train_roughly(student, start, passes, epochs=2)
    _, weight = trained(start, passes, shrink=SHRINK)
    check_weight(seen, weight)


@pytest.mark.points(2)
@pytest.mark.requires("test_training")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("model.train() before the first batch.")
def test_train_mode(student: Student) -> None:
    """The model is trained in train mode, also where it was in eval mode before."""
    start, batches = new_state(), new_batches(2)
    start["offset"] = randn(2)
    seen = train(student, start, [batches])
    _, weight = trained(start, [batches])
    check_weight(seen, weight)


@pytest.mark.place("train_with_monitor")
@pytest.mark.word("the sandbox says which mode it is in")
@pytest.mark.hint("model.train() before the first batch, and nothing about the mode afterwards.")
def test_left_in_train_mode(student: Student) -> None:
    """The model is in train mode afterwards, with all of its submodules."""
    seen = train(student, new_state(), [new_batches(1)])
    modes = entry(seen.after(0), "training", kind=dict)
    evaluating = [name for name, mode in modes.items() if mode is not True]
    assert_equal(evaluating, [], what="the list of submodules that are in eval mode after training")


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("gradient_norm(model.parameters())")
def test_parameters_outside_the_optimizer(student: Student) -> None:
    """The norm is over all the model's parameters, not only those that the optimizer holds."""
    start, batches = {**new_state(), BIAS: randn(2)}, new_batches(1)
    seen = train(student, start, [batches])
    gradients = gradients_of(start, batches[0])
    what = "the norm of a weight and a bias, where the optimizer holds the weight alone"
    assert_close(seen.value, torch.tensor([[norm_of(gradients)]]).double(), what=what)


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Clear the gradients before each backward pass, also before the first one.")
def test_stale_gradients(student: Student) -> None:
    """Gradients from before the training do not count."""
    start, batches = new_state(), new_batches(2)
    seen = train(student, start, [batches], old_gradient=randn(2, 3))
    right, _ = trained(start, [batches])
    assert_close(seen.value, right, what="the tensor of norms of a model that had gradients before")


@pytest.mark.points(22)
@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("backward, then the norm, then the step.")
def test_norms_before_the_step(student: Student) -> None:
    """The norm is taken before the optimizer's step, which may change the gradients."""
    start, batches = new_state(), new_batches(2)
    seen = train_roughly(student, start, [batches])
    right, _ = trained(start, [batches], shrink=SHRINK)
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
    seen = train_roughly(student, start, [batches])
    right, weight = trained(start, [batches], shrink=SHRINK)
    assert_close(seen.value, right, what="the tensor of norms with infinite and NaN inputs")
    check_weight(seen, weight)


@pytest.mark.place("train_with_monitor")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if epochs < 1, raise a ValueError that names epochs.")
def test_epochs_below_one(student: Student) -> None:
    """Fewer than one epoch is a ValueError."""
    call = small_training(student)
    table = {"epochs": [(*call, 0), (*call, -1)]}
    laws.check_errors(student, "train_with_monitor", table, fine=(*call, 1))


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Set no seed in train_with_monitor, and draw no random numbers of your own.")
def test_random_state_kept(student: Student) -> None:
    """Training seeds nothing, and draws no random numbers where the model draws none."""
    call = small_training(student)
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
    norms, _ = trained(start, [batches] * 2, lr=lr)
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
        norms, _ = trained(start, passes)
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
    norms, _ = trained(start, [batches] * 50, lr=0.01)
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


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("One norm above 1e3 is enough; exactly 1e3 is not above.")
def test_diagnose_exploding(student: Student) -> None:
    """One norm above 1e3 is exploding, and 1e3 itself is not."""
    check_diagnosis(student, [1001.0, *sound(4)], "exploding")
    check_diagnosis(student, [*low(2), *high(1), *low(2)], "exploding")
    check_diagnosis(student, [1000.0] * 5, "healthy")


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("All of the norms have to be below 1e-3; exactly 1e-3 is not below.")
def test_diagnose_vanishing(student: Student) -> None:
    """Vanishing is where all norms are below 1e-3, and 1e-3 itself is not."""
    check_diagnosis(student, low(5), "vanishing")
    check_diagnosis(student, [*low(4), random.uniform(1.1e-3, 4e-3)], "healthy")
    check_diagnosis(student, [1e-3] * 5, "healthy")


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("NaN is neither above nor below a limit: ask torch.isfinite.")
def test_diagnose_non_finite(student: Student) -> None:
    """A norm that is infinite or NaN is exploding."""
    check_diagnosis(student, [INF, *sound(4)], "exploding")
    check_diagnosis(student, [*low(2), NAN, *low(2)], "exploding")
    check_diagnosis(student, sound(5), "healthy")


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("norms[:5]")
def test_diagnose_first_five(student: Student) -> None:
    """Only the first five epochs count."""
    check_diagnosis(student, [*sound(5), *high(3)], "healthy")
    check_diagnosis(student, [*sound(4), *high(1), *sound(3)], "exploding")
    check_diagnosis(student, [*low(5), *sound(3)], "vanishing")


@pytest.mark.requires("test_diagnose_exploding", "test_diagnose_vanishing")
@pytest.mark.place("diagnose")
@pytest.mark.hint("A slice may reach behind the end, an index may not.")
def test_diagnose_short_histories(student: Student) -> None:
    """Where there are fewer than five epochs, all of them count."""
    check_diagnosis(student, [*sound(2), *high(1)], "exploding")
    check_diagnosis(student, low(1), "vanishing")
    check_diagnosis(student, [*low(1), *sound(1)], "healthy")


@pytest.mark.requires("test_diagnose_exploding")
@pytest.mark.place("diagnose")
@pytest.mark.hint("Compare, and write into nothing: functions that end in an underscore do.")
def test_diagnose_changes_nothing(student: Student) -> None:
    """The tensor of norms is left as it is."""
    laws.check_changes_nothing(student, "diagnose", randn(8), only=("0.values",))


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
        "in the end": torch.tensor([2.0, 4.0, 8.0, INF, NAN]),
        "in the beginning": torch.tensor([NAN, 4.0, 8.0]),
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


# --- locally: norms and training -----------------------------------------------------------------


def norm_of(tensors: Any) -> float:
    """The L2 norm of all tensors as one vector."""
    return math.sqrt(sum(float(tensor.double().square().sum()) for tensor in tensors))


def new_seed() -> int:
    return random.randrange(2**31)


def new_batches(count: int) -> list[Batch]:
    """Batches of different sizes and norms, the largest and smallest neither first nor last."""
    shifts = (5, 2, 7, 4, 3)
    return [(randn(4 + i, 3), randn(4 + i, 2) + 3 * shifts[i]) for i in range(count)]


def new_state() -> State:
    """A state of the probe's Scaled without a bias, which is the same in both modes."""
    return {"scale": randn(3), "offset": torch.zeros(2).double(), WEIGHT: randn(2, 3)}


def gradients_of(state: State, batch: Batch) -> list[Tensor]:
    """The gradients of the probe's loss, mean((outputs - 2 targets)²), by the weight and the bias."""
    inputs, targets = batch
    x = inputs * state["scale"]
    outputs = x @ state[WEIGHT].T + state["offset"]
    if BIAS in state:
        outputs = outputs + state[BIAS]
    by_outputs = 2 * (outputs - 2 * targets) / outputs.numel()
    return [by_outputs.T @ x, by_outputs.sum(0)] if BIAS in state else [by_outputs.T @ x]


def trained(
    state: State, passes: list[list[Batch]], *, lr: float = LR, shrink: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The norms `(epochs, batches)` of a training without a bias, and the weight afterwards.

    What is not finite in a gradient counts as 0 in its step.
    """
    weight, norms = state[WEIGHT], []
    for batches in passes:
        for batch in batches:
            (gradient,) = gradients_of({**state, WEIGHT: weight}, batch)
            norms.append(norm_of([gradient]))
            weight = shrink * weight - lr * gradient.nan_to_num(0.0, 0.0, 0.0)
    return torch.tensor(norms, dtype=torch.float64).reshape(len(passes), -1), weight


# --- calls of the student's functions ------------------------------------------------------------


def norm(student: Student, gradients: list[Any]) -> Any:
    return student.function("gradient_norm")(student.made("parameters", gradients))


class Network:
    """The kinds of the layers of the probe's network, by their names: drawn, and some in others."""

    def __init__(self) -> None:
        block, inner, other = (new_name() for _ in range(3))
        nested = [f"{block}.", f"{block}.{inner}.", f"{other}."]
        others = [(path, "linear") for path in nested]
        others += [(random.choice(nested), kind) for kind in OTHER_LAYERS]
        random.shuffle(others)
        # What changes a model before it refuses a scheme shows in a bias that comes first.
        self.kinds = {path + new_name(): kind for path, kind in [("", "linear"), *others]}

    def names(self, parameter: str, *kinds: str) -> list[str]:
        """The names of this parameter in all layers of these kinds."""
        return [f"{name}.{parameter}" for name, kind in self.kinds.items() if kind in kinds]

    def made(self, student: Student) -> Made:
        """The network, in which a bias and a weight are frozen."""
        frozen = [self.names("bias", "linear")[0], self.names("weight", "linear")[1]]
        return student.made("network", self.kinds, frozen, VALUE, GRADIENT)


def new_name() -> str:
    return f"layer_{random.randrange(10**6)}"


def new_layer(student: Student) -> Made:
    return student.made("layer", 4, 3, VALUE, GRADIENT)


def initialized_network(student: Student) -> tuple[Network, laws.Observation]:
    """A network, and what initialize makes of it with the scheme "ones", once for several tests."""

    def initialize() -> tuple[Network, laws.Observation]:
        network = Network()
        return network, laws.observe(student, "initialize", network.made(student), "ones").checked()

    return student.once("network", initialize)


def check_filled(seen: laws.Observation, names: list[str], value: float) -> None:
    """These parameters hold the value everywhere after the call, in the shape that they had."""
    before, after = seen.parameters(0), values_of(seen.after(0), names)
    right = {name: torch.full_like(before[name], value) for name in names}
    assert_close(after, right, what=f"the dict of the parameters {', '.join(names)}")


def check_fills_at_all(student: Student) -> None:
    """A function that does nothing leaves all as it was, and so proves nothing."""
    network, seen = initialized_network(student)
    check_filled(seen, network.names("weight", "linear"), 1.0)


def weight_after(student: Student, fan_in: int, fan_out: int, scheme: str) -> Tensor:
    """The weight of a linear layer of these sizes after initialize."""
    model = student.made("nested_layer", fan_in, fan_out, VALUE, GRADIENT)
    seen = laws.observe(student, "initialize", model, scheme).checked()
    weight = values_of(seen.after(0), ["0.weight"])["0.weight"]
    return assert_tensor(weight, shape=(fan_out, fan_in), what="the weight after initialize")


def values_of(facts: Any, names: list[str]) -> dict[str, Any]:
    """The values of parameters and buffers in what was observed of a model."""
    known = {**entry(facts, "parameters", kind=dict), **entry(facts, "buffers", kind=dict)}
    return {name: entry(known, name, "values", default=None) for name in names}


def new_fans() -> tuple[int, int]:
    """The sizes of a linear layer, about four times as high as wide."""
    fan_in = random.randrange(46, 55)
    return fan_in, ENTRIES // fan_in


def spread_of(weight: Tensor) -> float:
    """The standard deviation from 0."""
    return weight.double().square().mean().sqrt().item()


def small_training(student: Student) -> list[Made]:
    """A model, a loader of one batch, a loss and SGD."""
    model = student.made("scaled", new_state(), None)
    optimizer = student.made("sgd", model, [WEIGHT], LR)
    return [model, student.made("loader", [new_batches(1)]), student.made("loss"), optimizer]


def train(
    student: Student,
    state: State,
    passes: list[list[Batch]],
    epochs: int = 1,
    old_gradient: Tensor | None = None,
) -> laws.Observation:
    """What training a model of this state gives, with SGD of its weight alone."""
    model = student.made("scaled", state, old_gradient)
    optimizer = student.made("sgd", model, [WEIGHT], LR)
    return observe_training(student, model, passes, optimizer, epochs)


def train_roughly(
    student: Student, state: State, passes: list[list[Batch]], epochs: int = 1
) -> laws.Observation:
    """The same with the probe's Rough optimizer."""
    model = student.made("scaled", state, None)
    optimizer = student.made("rough", model, LR, SHRINK, random.uniform(0.2, 0.8))
    return observe_training(student, model, passes, optimizer, epochs)


def observe_training(
    student: Student, model: Made, passes: list[list[Batch]], optimizer: Made, epochs: int
) -> laws.Observation:
    loader, loss = student.made("loader", passes), student.made("loss")
    call = (model, loader, loss, optimizer, epochs)
    return laws.observe(student, "train_with_monitor", *call).checked()


def check_weight(seen: laws.Observation, right: Tensor) -> None:
    """The model itself has this weight after training."""
    after = values_of(seen.after(0), [WEIGHT])
    assert_close(after, {WEIGHT: right}, what="the dict of the model's parameters after training")


def compare(student: Student, loader: Made, **options: Any) -> Any:
    """What compare_initializations gives for the probe's builder."""
    builder, loss = student.made("builder"), student.made("loss")
    return student.function("compare_initializations")(builder, loader, loss, **options)


def starts(student: Student, seed: int) -> list[tuple[State, list[list[int]]]]:
    """What each scheme begins with, and the orders of five batches in the two passes that follow.

    It is the student's own initialize that made it: its mistakes cost points once.
    """
    # What building draws after the seed: a scale of the sandbox's could be 0, and all norms with it.
    scale = torch.randn(3, generator=torch.Generator().manual_seed(seed)).double()
    begun = []
    for report in entry(student.run("starts", seed, SCHEMES, 5), kind=list, count=len(SCHEMES)):
        weight = assert_tensor(entry(report, "weight"), shape=(2, 3), dtype=torch.float64)
        told = "After initialize a weight is NaN, or far larger than any of the schemes makes it."
        assert (weight.abs() <= LARGEST_START).all(), told
        orders = assert_tensor(entry(report, "orders"), shape=(2, 5), dtype=torch.int64)
        begun.append(({**new_state(), "scale": scale, WEIGHT: weight}, (orders % 5).tolist()))
    return begun


# --- diagnoses and figures -----------------------------------------------------------------------


def high(count: int) -> list[float]:
    return [10 ** random.uniform(3.1, 5.0) for _ in range(count)]


def low(count: int) -> list[float]:
    return [10 ** random.uniform(-8.0, -3.1) for _ in range(count)]


def sound(count: int) -> list[float]:
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
    """Compare the points (n, 2) of each line; what is not finite is not drawn."""
    points, right = {}, {}
    for name, line in laws.lines_of(figure, list(histories)).items():
        norms = histories[name].double()
        n = len(norms)
        padding = line[n:, 1]
        points[name] = torch.where(line.isfinite(), line, NAN)
        if padding.isnan().all():
            points[name] = points[name][:n]
        heights = torch.where(norms.isfinite(), norms, NAN)
        right[name] = torch.stack([torch.arange(1, n + 1).double(), heights], dim=1)
    what = "the dict of the points (x, y) of each line; NaN is a gap"
    assert_close(points, right, what=what, rtol=1e-6, atol=0.0)
