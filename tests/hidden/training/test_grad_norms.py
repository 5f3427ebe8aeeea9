"""Tests of the gradient-norm monitor."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]

SCHEMES = ["xavier_uniform", "kaiming_normal", "ones"]
INF, NAN = math.inf, math.nan

# The linear layers of the probe's Network, with and without a bias, and the subclasses among them.
WITH_BIAS = ["first", "block.0", "block.1.1", "listed.0.deep"]
LINEAR = [*WITH_BIAS, "without_bias"]
SUBCLASSES = ["special", "attention.out_proj"]
FROZEN = ["first.bias", "block.0.weight"]

# How a weight of about this many entries may differ from what it is drawn from.
ENTRIES, SPREAD_RTOL = 10_000, 0.045
NORMAL_TAIL = 2.6  # the largest of so many normal numbers lies beyond, in standard deviations

LR, MOMENTUM, KEEP = 0.05, 0.9, 0.9  # of the optimizers
NORMED = ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight", "2.bias"]
STALE = 7.0


# --- gradient_norm -------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Flatten all gradients, put them into one vector, and take its L2 norm.")
def test_gradient_norm(student: Student) -> None:
    """The norm is the L2 norm of all gradients as one vector."""
    # Squares of about 1e25 are beyond float32, and within float64.
    for dtype, scale, rtol in [(torch.float64, 1e25, 1e-7), (torch.float32, 1.0, 1.3e-6)]:
        gradients = [scale * torch.randn(shape, dtype=dtype) for shape in [(3, 4), (), (5,)]]
        assert_close(
            norm(student, gradients),
            norm_of(gradients),
            what=f"the norm of three gradients in {dtype}",
            rtol=rtol,
            atol=0.0,
        )


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("Skip a parameter whose .grad is None; think of a model that has no gradients.")
def test_gradient_norm_of_missing_gradients(student: Student) -> None:
    """A gradient that is None adds nothing, and without any gradient the norm is 0.0."""
    first, last = torch.randn(2).double(), torch.randn(2, 2).double()
    assert_close(
        norm(student, [first, None, last]),
        norm_of([first, last]),
        what="the norm of three gradients of which the second is None",
    )
    assert_close(norm(student, [None, None]), 0.0, what="the norm of gradients that are all None")
    assert_close(norm(student, []), 0.0, what="the norm of no parameters")
    assert_close(
        norm(student, [first, last], "frozen"),
        norm_of([first, last]),
        what="the norm of parameters that are frozen and still have gradients",
    )


@pytest.mark.points(2)
@pytest.mark.place("gradient_norm")
@pytest.mark.word("inf and NaN are the same for all inputs")
@pytest.mark.hint("Do nothing about infinity and NaN: the arithmetic carries them through.")
def test_gradient_norm_non_finite(student: Student) -> None:
    """Infinite and NaN gradients make the norm infinite and NaN."""
    for bad, expected in [(INF, INF), (-INF, INF), (NAN, NAN)]:
        gradients = [torch.tensor([1.0, bad]), torch.randn(2)]
        assert_close(norm(student, gradients), expected, what=f"the norm with a gradient of {bad}")


@pytest.mark.place("gradient_norm")
@pytest.mark.hint("A generator can be iterated once, and has no length: go through it once.")
def test_gradient_norm_of_a_generator(student: Student) -> None:
    """The parameters may come from a generator, as those of model.parameters() do."""
    gradients = [torch.randn(2).double(), torch.randn(3, 2).double()]
    assert_close(
        norm(student, gradients, "generator"),
        norm_of(gradients),
        what="the norm of parameters from a generator",
    )


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
    weights = parameters_after(initialized(student), [f"{name}.weight" for name in LINEAR])
    right = {name: torch.ones_like(weight) for name, weight in weights.items()}
    assert_close(weights, right, what='the dict of weights after the scheme "ones"')


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint("model.modules() begins with the model itself, model.children() does not.")
def test_initialize_the_model_itself(student: Student) -> None:
    """A model that is itself an nn.Linear is initialized."""
    seen = laws.observe(student, "initialize", student.made("linear_layer"), "ones").checked()
    assert_close(
        parameters_after(seen, ["weight", "bias"]),
        {"weight": torch.ones(3, 4), "bias": torch.zeros(3)},
        what='the dict of parameters of an nn.Linear after initialize(linear, "ones")',
    )


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says what was filled")
@pytest.mark.hint(
    "isinstance(module, nn.Linear) sees subclasses, type(module) == nn.Linear does not."
)
def test_initialize_subclasses(student: Student) -> None:
    """An instance of a subclass of nn.Linear is initialized, too."""
    weights = parameters_after(initialized(student), [f"{name}.weight" for name in SUBCLASSES])
    right = {name: torch.ones_like(weight) for name, weight in weights.items()}
    assert_close(weights, right, what="the dict of weights of subclasses of nn.Linear")


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.xavier_uniform_(module.weight), with no other argument.")
def test_initialize_xavier_uniform(student: Student) -> None:
    """The scheme xavier_uniform is uniform within sqrt(6 / (fan_in + fan_out))."""
    fan_in, fan_out = new_fans()
    bound = math.sqrt(6 / (fan_in + fan_out))
    weight = weight_after(student, fan_in, fan_out, "xavier_uniform")
    assert_close(
        [spread(weight), weight.abs().max().item()],
        [bound / math.sqrt(3), bound],
        what="the list of the weight's standard deviation and its largest magnitude",
        rtol=SPREAD_RTOL,
        atol=0.0,
    )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.hint("nn.init.kaiming_normal_(module.weight), with no other argument.")
def test_initialize_kaiming_normal(student: Student) -> None:
    """The scheme kaiming_normal is normal with standard deviation sqrt(2 / fan_in)."""
    fan_in, fan_out = new_fans()
    weight = weight_after(student, fan_in, fan_out, "kaiming_normal")
    assert_close(
        spread(weight),
        math.sqrt(2 / fan_in),
        what="the weight's standard deviation",
        rtol=SPREAD_RTOL,
        atol=0.0,
    )
    assert weight.abs().max() > NORMAL_TAIL * spread(weight), (
        "The weight is not normal: no entry is far from 0, as if it were uniform."
    )


@pytest.mark.place("initialize")
@pytest.mark.word("two different draws can be made up")
@pytest.mark.hint("Set no seed in initialize; compare_initializations does.")
def test_initialize_draws_anew(student: Student) -> None:
    """Each call of initialize draws other random weights."""
    for scheme in SCHEMES[:2]:
        pair = entry(student.run("initialize_twice", scheme), kind=list, count=2)
        first, second = (assert_tensor(weight, what="the weight") for weight in pair)
        assert not laws.same(first, second), (
            f'Two calls of initialize(layer, "{scheme}") give the same weight: is a seed set in '
            "initialize? It may only draw from torch's random state as it is."
        )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("zeros are the same for all models")
@pytest.mark.hint("nn.init.zeros_(module.bias), but only where module.bias is not None.")
def test_initialize_biases(student: Student) -> None:
    """Biases become zero."""
    biases = parameters_after(initialized(student), [f"{name}.bias" for name in WITH_BIAS])
    right = {name: torch.zeros_like(bias) for name, bias in biases.items()}
    assert_close(biases, right, what="the dict of biases")


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that the objects are the same")
@pytest.mark.hint("The functions of torch.nn.init fill a parameter in place; call nothing else.")
def test_initialize_in_place(student: Student) -> None:
    """The parameters stay the same objects, with their .grad and requires_grad."""
    check_fills(student)
    network, only = student.made("network", FROZEN), ("parameters", "grad", "requires_grad")
    laws.check_changes_nothing(student, "initialize", network, "ones", only=only)


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("what was there before and after is the sandbox's")
@pytest.mark.hint("Ask for nn.Linear, not for what has a weight, a bias or two dimensions.")
def test_initialize_leaves_the_rest(student: Student) -> None:
    """Other layers' parameters and buffers stay as they are, and so does the training mode."""
    check_fills(student)
    seen = initialized(student)
    linear = tuple(f"{name}." for name in [*LINEAR, *SUBCLASSES])
    others = [name for name in map(str, seen.parameters(0)) if not name.startswith(linear)]
    before, after = seen.before(0), seen.after(0)
    assert_equal(
        [values_of(after, others), entry(after, "training")],
        [values_of(before, others), entry(before, "training")],
        what="the list of what is in other layers, and of the training modes",
    )


@pytest.mark.points(2)
@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if scheme not in SCHEMES, raise a ValueError that tells both.")
def test_initialize_unknown_scheme(student: Student) -> None:
    """An unknown scheme is a ValueError that names scheme and the known ones."""
    check_fills(student)
    linear = student.made("linear_layer")
    unknown = [(linear, "orthogonal"), (linear, "xavier_normal")]
    known = {scheme: [(linear, "orthogonal")] for scheme in SCHEMES}
    laws.check_errors(student, "initialize", {"scheme": unknown, **known})


@pytest.mark.place("initialize")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check the scheme before the loop over the modules begins.")
def test_initialize_refuses_before_changes(student: Student) -> None:
    """An unknown scheme is refused before anything in the model has changed."""
    check_fills(student)
    laws.check_changes_nothing(
        student,
        "initialize",
        *(student.made("network", FROZEN), "orthogonal"),
        raises=ValueError,
        only=("values", "buffers"),
        told="Check the scheme first: an unknown one is refused before anything has changed.",
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
    model, batches = new_linear(), new_batches(2)
    assert_close(
        train(student, model, [batches], epochs=3).value,
        trained(model, [batches] * 3),
        what="the tensor of norms of three epochs with two batches",
    )


@pytest.mark.points(3)
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint(
    "Each batch is one step of the given optimizer, on this model, with its gradient."
)
def test_training(student: Student) -> None:
    """Each batch is one step of the optimizer, by its gradient; each epoch is a new pass."""
    model, batches = new_linear(), new_batches(3)
    passes = [batches, batches[::-1]]
    seen = train(student, model, passes, epochs=2, momentum=MOMENTUM)
    trained(model, passes, momentum=MOMENTUM)
    assert_close(
        values_of(seen.after(0), ["weight"]),
        {"weight": model.weight.detach()},
        what="the dict of the model's parameters after training",
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_training")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("model.train() before the first batch.")
def test_train_mode(student: Student) -> None:
    """The model is trained in train mode, also where it was in eval mode before."""
    model, batches = new_normed(), new_batches(2)
    seen = train_normed(student, model, batches, NORMED)
    trained(model, [batches])
    right = {name: tensor.detach() for name, tensor in model.state_dict().items()}
    assert_close(
        values_of(seen.after(0), list(right)),
        right,
        what="the state dict of a model with batch normalization after training",
    )


@pytest.mark.place("train_with_monitor")
@pytest.mark.word("the sandbox says which mode it is in")
@pytest.mark.hint("model.train() before the first batch, and nothing about the mode afterwards.")
def test_left_in_train_mode(student: Student) -> None:
    """The model is in train mode afterwards, with all of its submodules."""
    seen = train_normed(student, new_normed(), new_batches(1), NORMED)
    modes = entry(seen.after(0), "training", kind=dict)
    evaluating = [name for name, mode in modes.items() if mode is not True]
    assert_equal(evaluating, [], what="the list of submodules that are in eval mode after training")


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("gradient_norm(model.parameters())")
def test_parameters_outside_the_optimizer(student: Student) -> None:
    """The norm is over all the model's parameters, not only those that the optimizer holds."""
    model, batches = new_normed(), new_batches(1)
    assert_close(
        train_normed(student, model, batches, ["2.weight", "2.bias"]).value,
        trained(model, [batches]),
        what="the norm with an optimizer that holds the last layer only",
    )


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Clear the gradients before each backward pass, also before the first one.")
def test_stale_gradients(student: Student) -> None:
    """Gradients from before the training do not count."""
    model, batches = new_linear(), new_batches(2)
    model.weight.grad = torch.full_like(model.weight, STALE)
    assert_close(
        train(student, model, [batches]).value,
        trained(model, [batches]),
        what="the tensor of norms of a model that had gradients before",
    )


@pytest.mark.points(22)
@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("backward, then the norm, then the step.")
def test_norms_before_the_step(student: Student) -> None:
    """The norm is taken before the optimizer's step, which may change the gradients."""
    model, batches = new_linear(), new_batches(2)
    assert_close(
        train_roughly(student, model, batches).value,
        trained(model, [batches] * 2, keep=KEEP),
        what="the tensor of norms with an optimizer that halves the gradients as it steps",
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_norms_of_every_batch", "test_gradient_norm_non_finite")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Treat a norm that is not finite like any other: record it, step, go on.")
def test_non_finite_norms(student: Student) -> None:
    """A norm that is not finite is recorded, and the optimizer steps all the same."""
    model, batches = new_linear(), new_batches(3)
    batches[0][0][0, 0] = INF
    batches[1][0][0, 0] = NAN
    seen = train_roughly(student, model, batches)
    norms = trained(model, [batches] * 2, keep=KEEP)
    assert_close(seen.value, norms, what="the tensor of norms with infinite and NaN inputs")
    assert_close(
        values_of(seen.after(0), ["weight"]),
        {"weight": model.weight.detach()},
        what="the dict of the model's parameters after training with infinite and NaN inputs",
    )


@pytest.mark.place("train_with_monitor")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Begin with: if epochs < 1, raise a ValueError that names epochs.")
def test_epochs_below_one(student: Student) -> None:
    """Fewer than one epoch is a ValueError."""
    call = training_of(student, new_linear(), [new_batches(1)])
    table = {"epochs": [(*call, 0), (*call, -1)]}
    laws.check_errors(student, "train_with_monitor", table, fine=(*call, 1))


@pytest.mark.requires("test_norms_of_every_batch")
@pytest.mark.place("train_with_monitor")
@pytest.mark.hint("Set no seed in train_with_monitor, and draw no random numbers of your own.")
def test_random_state_kept(student: Student) -> None:
    """Training seeds nothing, and draws no random numbers where the model draws none."""
    call = training_of(student, new_linear(), [new_batches(1)])
    laws.check_changes_nothing(student, "train_with_monitor", *call, 1, only=("random",))


# --- compare_initializations ---------------------------------------------------------------------


@pytest.mark.place("compare_initializations")
@pytest.mark.word("the keys are the same for all inputs")
@pytest.mark.hint("A dict that is filled in the order of SCHEMES.")
def test_compare_schemes(student: Student) -> None:
    """The result has one entry for each scheme, in the order of SCHEMES."""
    result = compare(student, new_batches(1), epochs=1)
    keys = list(entry(result, kind=dict, told="compare_initializations should return a dict."))
    assert_equal(keys, SCHEMES, what="the list of keys of compare_initializations")


@pytest.mark.points(4)
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("torch.optim.SGD(model.parameters(), lr=lr), and the mean over the batches.")
def test_compare_initializations(student: Student) -> None:
    """Each value is the mean norm of every epoch of training with plain SGD at the given rate."""
    batches, seed, lr = new_batches(5), new_seed(), 0.03
    result = compare(student, batches, lr=lr, epochs=2, seed=seed)
    first, _, _ = starts(student, seed)
    norms = trained(first.model, [batches] * 2, lr=lr)
    assert_close(
        entry(result, SCHEMES[0], default=None),
        norms.mean(dim=1),
        what='the means for "xavier_uniform"',
    )


@pytest.mark.points(5)
@pytest.mark.requires("test_compare_initializations")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("For each scheme: torch.manual_seed(seed), then build, initialize, train.")
def test_compare_seeds_each_scheme(student: Student) -> None:
    """Every scheme begins with the seed, then builds a new model, initializes it, and trains."""
    batches, seed = new_batches(5), new_seed()
    shuffled = student.made("shuffled", batches)
    builder, loss = student.made("builder"), student.made("loss")
    result = student.function("compare_initializations")(
        builder, shuffled, loss, lr=LR, epochs=2, seed=seed
    )
    means = []
    for begun in starts(student, seed):
        passes = [[batches[i] for i in order] for order in begun.orders]
        means.append(trained(begun.model, passes).mean(dim=1))
    assert_close(
        [entry(result, scheme, default=None) for scheme in SCHEMES],
        means,
        what="the list of the means of all schemes, with a loader that shuffles",
    )


@pytest.mark.requires("test_compare_seeds_each_scheme")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("lr=0.01, epochs=50, seed=0, as in the stub.")
def test_compare_defaults(student: Student) -> None:
    """By default there are 50 epochs at a learning rate of 0.01, with the seed 0."""
    batches = new_batches(1)
    first, _, _ = starts(student, 0)
    norms = trained(first.model, [batches] * 50, lr=0.01)
    assert_close(
        entry(compare(student, batches), SCHEMES[0], default=None),
        norms.mean(dim=1),
        what='the means for "xavier_uniform" with the defaults',
    )


@pytest.mark.requires("test_compare_initializations", "test_gradient_norm_non_finite")
@pytest.mark.place("compare_initializations")
@pytest.mark.hint("norms.mean(dim=1) is NaN where a norm is, and that is expected.")
def test_compare_non_finite(student: Student) -> None:
    """An epoch with a norm that is not finite has a mean that is not finite."""
    batches = new_batches(2)
    batches[1][0][0, 0] = NAN
    assert_close(
        entry(compare(student, batches, epochs=1), "ones", default=None),
        torch.tensor([NAN], dtype=torch.float64),
        what='the means for "ones", where the second of two norms is NaN',
    )


# --- diagnose ------------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("One norm above 1e3 is enough; exactly 1e3 is not above.")
def test_diagnose_exploding(student: Student) -> None:
    """One norm above 1e3 is exploding, and 1e3 itself is not."""
    check_verdicts(
        student,
        [
            [1001.0, 1.0, 1.0, 1.0, 1.0],
            [1.0, 1.0, 1.0, 1.0, 1100.0],
            [1e-4, 1e-4, 1e4, 1e-4, 1e-4],
            [500.0, 900.0, 999.0, 800.0, 990.0],
            [1000.0, 1000.0, 1000.0, 1000.0, 1000.0],
        ],
    )


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("All of the norms have to be below 1e-3; exactly 1e-3 is not below.")
def test_diagnose_vanishing(student: Student) -> None:
    """Vanishing is where all norms are below 1e-3, and 1e-3 itself is not."""
    check_verdicts(
        student,
        [
            [1e-4, 5e-4, 9e-4, 2e-4, 1e-4],
            [0.0, 0.0, 0.0, 0.0, 0.0],
            [2e-3, 1e-4, 1e-4, 1e-4, 1e-4],
            [1e-4, 1e-4, 1e-4, 1e-4, 2e-3],
            [2.0, 1.0, 1.0, 1.0, 1e-4],
            [1e-3, 1e-3, 1e-3, 1e-3, 1e-3],
        ],
    )


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("NaN is neither above nor below a limit: ask torch.isfinite.")
def test_diagnose_non_finite(student: Student) -> None:
    """A norm that is infinite or NaN is exploding; the tensor is left as it is."""
    histories = [
        [NAN, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, NAN],
        [INF, 1.0, 1.0, 1.0, 1.0],
        [1e-4, 1e-4, NAN, 1e-4, 1e-4],
    ]
    check_verdicts(student, histories)
    norms = torch.tensor(random.choice(histories), dtype=torch.float64)
    laws.check_changes_nothing(student, "diagnose", norms, only=("0.values",))


@pytest.mark.points(2)
@pytest.mark.place("diagnose")
@pytest.mark.hint("norms[:5]")
def test_diagnose_first_five(student: Student) -> None:
    """Only the first five epochs count."""
    low, sound, high = 1e-4, 1.0, 5e3
    check_verdicts(
        student,
        [
            [sound] * 5 + [high] * 3,
            [sound] * 5 + [NAN] * 3,
            [sound] * 4 + [high] + [sound] * 3,
            [low] * 5 + [sound] * 3,
            [low] * 4 + [sound] + [low] * 7,
        ],
    )


@pytest.mark.requires("test_diagnose_exploding", "test_diagnose_vanishing")
@pytest.mark.place("diagnose")
@pytest.mark.hint("A slice may reach behind the end, an index may not.")
def test_diagnose_short_histories(student: Student) -> None:
    """Where there are fewer than five epochs, all of them count."""
    check_verdicts(student, [[5e3], [1e-4], [1.0], [1e-4, 1e-4], [1.0, 2.0, 5e3], [1e-4, 1.0]])


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
    return [
        (torch.randn(4 + i, 3).double(), torch.randn(4 + i, 2).double() + 3 * target)
        for i, target in zip(range(count), (5, 2, 7, 4, 3), strict=False)
    ]


def new_linear() -> nn.Linear:
    """The probe's model of one parameter."""
    return nn.Linear(3, 2, bias=False).double()


def new_normed() -> nn.Module:
    """The probe's model with batch normalization."""
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()


def trained(
    model: nn.Module,
    passes: list[list[Batch]],
    *,
    lr: float = LR,
    momentum: float = 0.0,
    keep: float = 1.0,
) -> Tensor:
    """Train a model of the judge's, and return the norms `(epochs, batches)`.

    By hand and without torch.optim, whose import takes longer than all of the tests together. What is
    not finite in a gradient counts as 0 in its step; `keep` is what a step leaves of the parameters.
    """
    model.train()
    parameters = list(model.parameters())
    speeds = [torch.zeros_like(parameter) for parameter in parameters]
    norms = []
    for batches in passes:
        for inputs, targets in batches:
            loss = (model(inputs) - 2 * targets).square().mean()
            gradients = torch.autograd.grad(loss, parameters)
            norms.append(norm_of(gradients))
            with torch.no_grad():
                for parameter, gradient, speed in zip(parameters, gradients, speeds, strict=True):
                    speed.mul_(momentum).add_(gradient.nan_to_num(0.0, 0.0, 0.0))
                    parameter.mul_(keep).sub_(lr * speed)
    return torch.tensor(norms, dtype=torch.float64).reshape(len(passes), -1)


# --- calls of the student's functions ------------------------------------------------------------


def norm(student: Student, gradients: list[Any], kind: str = "parameters") -> Any:
    return student.function("gradient_norm")(student.made(kind, gradients))


def initialized(student: Student) -> laws.Observation:
    """What initialize makes of the probe's Network with the scheme "ones", which several tests look at."""

    def initialize() -> laws.Observation:
        network = student.made("network", FROZEN)
        return laws.observe(student, "initialize", network, "ones").checked()

    return student.once("network", initialize)


def check_fills(student: Student) -> None:
    """A function that does nothing leaves all as it was: it has to fill a weight."""
    weights = parameters_after(initialized(student), ["first.weight"])
    assert laws.same(weights["first.weight"], torch.ones(3, 4)), (
        'initialize(model, "ones") does not fill the weight of the first nn.Linear with ones yet.'
    )


def values_of(facts: Any, names: list[str]) -> dict[str, Any]:
    """The values of parameters and buffers in what was observed of a model."""
    known = {**entry(facts, "parameters", kind=dict), **entry(facts, "buffers", kind=dict)}
    return {name: entry(known, name, "values", default=None) for name in names}


def parameters_after(seen: laws.Observation, names: list[str]) -> dict[str, Tensor]:
    """The named parameters of a model, float32 as it was made, after the call."""
    return {
        name: assert_tensor(value, dtype=torch.float32, what=f"the {name}")
        for name, value in values_of(seen.after(0), names).items()
    }


def new_fans() -> tuple[int, int]:
    """The sizes of a linear layer, about four times as high as wide."""
    fan_in = random.randrange(46, 55)
    return fan_in, ENTRIES // fan_in


def weight_after(student: Student, fan_in: int, fan_out: int, scheme: str) -> Tensor:
    """The weight of a linear layer of these sizes after initialize."""
    model = student.made("wide", fan_in, fan_out)
    seen = laws.observe(student, "initialize", model, scheme).checked()
    weight = parameters_after(seen, ["0.weight"])["0.weight"]
    return assert_tensor(weight, shape=(fan_out, fan_in), what="the weight after initialize")


def spread(weight: Tensor) -> float:
    """The standard deviation from 0."""
    return weight.double().square().mean().sqrt().item()


def training_of(
    student: Student, model: nn.Linear, passes: list[list[Batch]], momentum: float = 0.0
) -> tuple[Made, ...]:
    """The arguments of train_with_monitor, but for epochs: a copy of the model, and SGD."""
    made = student.made("linear", model.weight.detach(), model.weight.grad)
    sgd = student.made("sgd", made, ["weight"], LR, momentum)
    return made, student.made("loader", passes), student.made("loss"), sgd


def train(
    student: Student,
    model: nn.Linear,
    passes: list[list[Batch]],
    *,
    epochs: int = 1,
    momentum: float = 0.0,
) -> laws.Observation:
    """What training a copy of the model gives."""
    call = training_of(student, model, passes, momentum)
    return laws.observe(student, "train_with_monitor", *call, epochs).checked()


def train_roughly(student: Student, model: nn.Linear, batches: list[Batch]) -> laws.Observation:
    """What two epochs with the probe's Rough optimizer give."""
    made = student.made("linear", model.weight.detach(), None)
    loader, rough = student.made("loader", [batches]), student.made("rough", made, LR, KEEP)
    call = (made, loader, student.made("loss"), rough, 2)
    return laws.observe(student, "train_with_monitor", *call).checked()


def train_normed(
    student: Student, model: nn.Module, batches: list[Batch], held: list[str]
) -> laws.Observation:
    """What an epoch of a copy of the model gives, of which the optimizer holds these parameters."""
    made = student.made("normed", dict(model.state_dict()))
    loader, sgd = student.made("loader", [batches]), student.made("sgd", made, held, LR, 0.0)
    call = (made, loader, student.made("loss"), sgd, 1)
    return laws.observe(student, "train_with_monitor", *call).checked()


def compare(student: Student, batches: list[Batch], **options: Any) -> Any:
    """What compare_initializations gives for the probe's builder."""
    builder, loader = student.made("builder"), student.made("loader", [batches])
    loss = student.made("loss")
    return student.function("compare_initializations")(builder, loader, loss, **options)


class Start:
    """What the training of a scheme begins with, and the orders of five batches that are drawn next."""

    def __init__(self, report: Any) -> None:
        scale = assert_tensor(entry(report, "scale"), shape=(3,), dtype=torch.float64)
        weight = assert_tensor(entry(report, "weight"), shape=(2, 3), dtype=torch.float64)
        orders = assert_tensor(entry(report, "orders"), shape=(2, 5), dtype=torch.int64)
        self.model = Scaled(scale.detach(), weight.detach())
        self.orders = (orders % 5).tolist()


class Scaled(nn.Module):
    """The probe's Scaled."""

    def __init__(self, scale: Tensor, weight: Tensor) -> None:
        super().__init__()
        self.scale = scale
        self.weight = nn.Parameter(weight.clone())

    def forward(self, x: Tensor) -> Tensor:
        return (x * self.scale) @ self.weight.T


def starts(student: Student, seed: int) -> list[Start]:
    """How each scheme begins, by the student's own initialize: its mistakes cost points once."""
    begun = entry(student.run("starts", seed, SCHEMES), kind=list, count=len(SCHEMES))
    return [Start(report) for report in begun]


# --- verdicts and figures ------------------------------------------------------------------------


def verdict(history: list[float]) -> str:
    """What diagnose should say."""
    early = history[:5]
    if any(not math.isfinite(norm) or norm > 1e3 for norm in early):
        return "exploding"
    return "vanishing" if all(norm < 1e-3 for norm in early) else "healthy"


def check_verdicts(student: Student, histories: list[list[float]]) -> None:
    """Compare what diagnose says of each history, in a drawn order."""
    random.shuffle(histories)
    tensors = [torch.tensor(history, dtype=torch.float64) for history in histories]
    assert_equal(
        student.run("diagnoses", tensors),
        [verdict(history) for history in histories],
        what=f"the list of answers for {histories}",
    )


def plotted(student: Student) -> tuple[dict[str, Tensor], Any]:
    """Three histories and their figure, drawn once for all tests."""

    def plot() -> tuple[dict[str, Tensor], Any]:
        histories = {
            "xavier_uniform": torch.rand(4, dtype=torch.float64) + 0.5,
            "deep, lr=0.1": torch.rand(7, dtype=torch.float64) * 100 + 2,
            "Third": torch.rand(2, dtype=torch.float64) * 1e-10,
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
