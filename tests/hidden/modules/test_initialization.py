"""Tests of fans, xavier_uniform_, kaiming_normal_ and init_weights."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

# What stands in the parameters and buffers of the probe's modules.
MARK = 7.0
EMBEDDING_STD = 0.02
# A kernel, and how many numbers it has.
KERNEL, KERNEL_SIZE = (4, 5), 20
# Of at least 20,000 draws the mean and the deviation are known to much less than this, as parts of the right
# deviation, and the largest one of a uniform distribution is nearer still to the bound.
SPREAD: Any = {"rtol": 0.0, "atol": 0.05}
LARGEST: Any = {"rtol": 0.0, "atol": 0.01}
BANNED = [f"torch.nn.init.{name}" for name in ("xavier_", "kaiming_", "_calculate_")]
BY_HAND = "work out the fans and the scale yourself"


# --- fans ----------------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("fans")
@pytest.mark.hint("fan_in = in * k and fan_out = out * k, with k = math.prod(weight.shape[2:]).")
def test_fans(student: Student) -> None:
    """fans gives (in * k, out * k) as ints, k the product of the kernel's sizes."""
    for kernel in ((), (3,), (5, 2)):
        inputs, outputs = random.sample(range(2, 99), 2)
        weight, k = torch.randn(outputs, inputs, *kernel), math.prod(kernel)
        pair = laws.check_changes_nothing(student, "fans", weight)
        what = f"the fans of a weight {tuple(weight.shape)}"
        assert_equal(pair, (inputs * k, outputs * k), what=what)


@pytest.mark.points(2)
@pytest.mark.place("fans")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if weight.dim() < 2: raise ValueError(f'weight ...')")
def test_fans_errors(student: Student) -> None:
    """Fewer than two dimensions are a ValueError that names weight."""
    calls = [(torch.ones(()),), (torch.ones(5),)]
    laws.check_errors(student, "fans", {"weight": calls}, fine=(torch.ones(1, 1),))


# --- xavier_uniform_ and kaiming_normal_ ---------------------------------------------------------


@pytest.mark.points(7)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("bound = gain * math.sqrt(6 / (fan_in + fan_out)); uniform_(-bound, bound)")
def test_xavier(student: Student) -> None:
    """xavier_uniform_ draws from U(-a, a), a = sqrt(6 / (fan_in + fan_out))."""
    outputs, inputs = new_sizes()
    values = filled(student, "xavier_uniform_", torch.zeros(outputs, inputs))
    check_uniform(values, math.sqrt(6 / (inputs + outputs)))


@pytest.mark.points(3)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("bound = gain * math.sqrt(6 / (fan_in + fan_out))")
def test_xavier_gain(student: Student) -> None:
    """A gain multiplies the bound."""
    outputs, inputs = new_sizes()
    gain = random.uniform(1.5, 2.0)
    values = filled(student, "xavier_uniform_", torch.zeros(outputs, inputs), gain)
    check_uniform(values, gain * math.sqrt(6 / (inputs + outputs)))


@pytest.mark.points(2)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("Take fan_in and fan_out from fans, which know of the kernel.")
def test_xavier_kernels(student: Student) -> None:
    """For the weight of a convolution the bound follows from fans with the kernel in them."""
    outputs, inputs = near(25), near(60)
    values = filled(student, "xavier_uniform_", torch.zeros(outputs, inputs, *KERNEL))
    check_uniform(values, math.sqrt(6 / (inputs * KERNEL_SIZE + outputs * KERNEL_SIZE)))


@pytest.mark.points(8)
@pytest.mark.place("kaiming_normal_")
@pytest.mark.hint("weight.normal_(0, math.sqrt(2 / fan_in)): normal_ takes the standard deviation.")
def test_kaiming(student: Student) -> None:
    """kaiming_normal_ draws from N(0, std^2), std = sqrt(2 / fan_in)."""
    outputs, inputs = new_sizes()
    values = filled(student, "kaiming_normal_", torch.zeros(outputs, inputs))
    check_normal(values, math.sqrt(2 / inputs))


@pytest.mark.points(2)
@pytest.mark.place("kaiming_normal_")
@pytest.mark.hint("Take fan_in from fans, which know of the kernel.")
def test_kaiming_kernels(student: Student) -> None:
    """For the weight of a convolution the deviation follows from fan_in with the kernel in it."""
    outputs, inputs = near(25), near(60)
    values = filled(student, "kaiming_normal_", torch.zeros(outputs, inputs, *KERNEL))
    check_normal(values, math.sqrt(2 / (inputs * KERNEL_SIZE)))


@pytest.mark.points(5)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("with torch.no_grad(): return weight.uniform_(-bound, bound)")
def test_xavier_in_place(student: Student) -> None:
    """It fills the weight itself, a Parameter or a view, and returns it; a seed decides the values."""
    check_in_place(student, "xavier_uniform_")
    check_generator(student, "xavier_uniform_")
    laws.check_errors(student, "xavier_uniform_", {"weight": [(torch.ones(4),)]})


@pytest.mark.points(5)
@pytest.mark.place("kaiming_normal_")
@pytest.mark.hint("with torch.no_grad(): return weight.normal_(0, std)")
def test_kaiming_in_place(student: Student) -> None:
    """It fills the weight itself, a Parameter or a view, and returns it; a seed decides the values."""
    check_in_place(student, "kaiming_normal_")
    check_generator(student, "kaiming_normal_")
    laws.check_errors(student, "kaiming_normal_", {"weight": [(torch.ones(4),)]})


# --- init_weights --------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("init_weights")
@pytest.mark.hint("isinstance(module, nn.Linear): xavier_uniform_(module.weight), bias zero.")
def test_init_linear(student: Student) -> None:
    """Linear: Xavier for the weight, zero for the bias; subclasses too."""
    for kind, bias in (("Linear", True), ("Linear", False), ("Adapter", True)):
        inputs, outputs = near(300), near(80)
        after = initialized(student, kind, inputs, outputs, bias=bias)
        check_spread_by(student, "xavier_uniform_", entry(after, "weight"), (outputs, inputs))
        if bias:
            check_constant(after, "bias", 0.0, outputs)


@pytest.mark.points(4)
@pytest.mark.place("init_weights")
@pytest.mark.hint("isinstance(module, (nn.Conv1d, nn.Conv2d)): kaiming_normal_(module.weight).")
def test_init_convolutions(student: Student) -> None:
    """Conv1d and Conv2d: Kaiming for the weight, zero for the bias; subclasses too."""
    inputs = near(60)
    after = initialized(student, "Conv1d", inputs, 45, 8)
    check_spread_by(student, "kaiming_normal_", entry(after, "weight"), (45, inputs, 8))
    check_constant(after, "bias", 0.0, 45)
    after = initialized(student, "Picture", inputs, 25, KERNEL)
    check_spread_by(student, "kaiming_normal_", entry(after, "weight"), (25, inputs, *KERNEL))
    check_constant(after, "bias", 0.0, 25)
    # With five groups an output sums up a fifth of the inputs.
    after = initialized(student, "Conv2d", 5 * inputs, 25, KERNEL, groups=5, bias=False)
    check_spread_by(student, "kaiming_normal_", entry(after, "weight"), (25, inputs, *KERNEL))


@pytest.mark.points(4)
@pytest.mark.place("init_weights")
@pytest.mark.hint("padding_idx may be 0, so ask whether it is None; fill first, then zero its row.")
def test_init_embedding(student: Student) -> None:
    """Embedding: N(0, 0.02^2), and the row of padding_idx, if there is one, is zero."""
    for kind, padding_idx in (("Embedding", None), ("Table", 5), ("Embedding", 0)):
        rows = near(700)
        after = initialized(student, kind, rows, 40, padding_idx=padding_idx)
        what = "the Embedding's weight"
        weight = assert_tensor(entry(after, "weight"), shape=(rows, 40), what=what)
        drawn = weight.any(dim=1)
        zeros = (~drawn).nonzero().flatten().tolist()
        right = [] if padding_idx is None else [padding_idx]
        what = f"the list of the rows of zeros for padding_idx={padding_idx}"
        assert_equal(zeros, right, what=what)
        check_normal(weight[drawn], EMBEDDING_STD)


@pytest.mark.points(3)
@pytest.mark.place("init_weights")
@pytest.mark.hint("With affine=False weight and bias are None: look before you fill them.")
def test_init_norms(student: Student) -> None:
    """LayerNorm, BatchNorm1d, BatchNorm2d: weight one, bias zero, where there are any."""
    for kind in ("LayerNorm", "BatchNorm1d", "BatchNorm2d", "Norm"):
        features = random.randint(2, 99)
        after = initialized(student, kind, features)
        check_constant(after, "weight", 1.0, features)
        check_constant(after, "bias", 0.0, features)
    # Without parameters there is nothing to fill, and no error.
    initialized(student, "BatchNorm2d", 3, affine=False)


@pytest.mark.points(3)
@pytest.mark.requires("test_init_linear")
@pytest.mark.place("init_weights")
@pytest.mark.hint("Look only at the module itself: apply visits its children, too.")
def test_init_others(student: Student) -> None:
    """Children, and modules of all other classes, are left alone."""
    for kind, sizes in (("Adapter", (3, 4)), ("Picture", (2, 3, 2))):
        after = initialized(student, kind, *sizes)
        children = {name: entry(after, name) for name in ("inner.weight", "inner.bias")}
        right = {"inner.weight": torch.full((3, 2), MARK), "inner.bias": torch.full((3,), MARK)}
        assert_equal(children, right, what=f"the dict of the parameters of a child of {kind}")
    linear, gru = student.made("layer", "Linear", 3, 2), student.made("layer", "GRU", 2, 2)
    chain = student.made("chain", linear, gru)
    for module in (student.made("layer", "Own"), gru, chain):
        laws.check_changes_nothing(student, "init_weights", module)


@pytest.mark.points(3)
@pytest.mark.place("init_weights")
@pytest.mark.hint("nn.init.zeros_(module.bias) fills it; an assignment puts another one there.")
def test_init_keeps(student: Student) -> None:
    """The Parameter objects, requires_grad, .grad and buffers stay; frozen parameters are set, too."""
    for kind, sizes in (
        ("Linear", (4, 3)),
        ("Conv2d", (2, 3, 2)),
        ("Embedding", (5, 3, 1)),
        ("BatchNorm1d", (3,)),
    ):
        frozen = student.made("layer", kind, *sizes, frozen=True)
        allow = ("0.values", "random")
        laws.check_changes_nothing(student, "init_weights", frozen, allow=allow)
        seen = laws.observe(student, "init_weights", frozen)
        assert not seen.was_seeded(), "init_weights sets a seed: leave it alone."
        for name, values in parameters_after(seen).items():
            skipped = isinstance(values, Tensor) and bool((values == MARK).all())
            assert not skipped, f"The {name} of a frozen {kind} is skipped: set it, too."


@pytest.mark.requires("test_xavier_in_place")
@pytest.mark.place("xavier_uniform_")
def test_not_used(student: Student) -> None:
    """The Xavier, Kaiming and fan functions of torch.nn.init are not used, however reached."""
    for name in ("fans", "xavier_uniform_", "kaiming_normal_"):
        laws.check_not_used(student, name, torch.zeros(4, 3), functions=BANNED, why=BY_HAND)
    for kind, sizes in (("Linear", (4, 3)), ("Conv2d", (2, 3, 2))):
        made = student.made("layer", kind, *sizes)
        laws.check_not_used(student, "init_weights", made, functions=BANNED, why=BY_HAND)


# --- locally -------------------------------------------------------------------------------------


def near(size: int) -> int:
    """At random, this size or up to an eighth more."""
    return size + random.randint(0, size // 8)


def new_sizes() -> tuple[int, int]:
    """How many outputs and inputs a matrix has: so different that all formulas can be told apart."""
    return near(120), near(300)


def parameters_after(seen: laws.Observation) -> dict[str, Any]:
    """The values of a module's parameters after a call, by name."""
    facts = entry(seen.checked().after(0, "parameters"), kind=dict)
    return {name: entry(fact, "values") for name, fact in facts.items()}


def filled(student: Student, name: str, weight: Tensor, *gain: float) -> Tensor:
    """What a call leaves in a weight."""
    values = laws.observe(student, name, weight, *gain).checked().after(0, "values")
    return assert_tensor(values, shape=weight.shape, dtype=weight.dtype, what="the weight")


def initialized(student: Student, kind: str, *sizes: Any, **options: Any) -> dict[str, Any]:
    """The parameters of a module after init_weights."""
    made = student.made("layer", kind, *sizes, **options)
    return parameters_after(laws.observe(student, "init_weights", made))


def check_uniform(values: Tensor, bound: float) -> None:
    """The values are uniform between -bound and bound."""
    largest = values.abs().max().item() / bound
    assert_close(round(largest, 2), 1.0, what="the largest value, divided by a,", **LARGEST)
    check_spread(values, bound / 3**0.5)


def check_normal(values: Tensor, std: float) -> None:
    """The values are normal with this standard deviation."""
    check_spread(values, std)
    assert values.abs().max().item() > 2.5 * std, (
        "No value is beyond 2.5 standard deviations: draw from a normal distribution."
    )


def check_spread(values: Tensor, std: float) -> None:
    """The values have mean zero and this standard deviation.

    They are rounded, so that the same mistake looks the same, whatever is drawn.
    """
    spread, mean = values.std().item() / std, values.mean().item() / std
    what = "the standard deviation of the weight, divided by the right one,"
    assert_close(round(spread, 2), 1.0, what=what, **SPREAD)
    what = "the mean of the weight, divided by the standard deviation,"
    assert_close(round(mean, 2), 0.0, what=what, **SPREAD)


def check_spread_by(student: Student, name: str, values: Any, shape: tuple[int, ...]) -> None:
    """The values are spread as by the student's own function, whose formula has its own test."""
    tensor = assert_tensor(values, shape=shape, what="the weight after init_weights")
    own = filled(student, name, torch.zeros(shape))
    assert own.any(), (
        f"{name} leaves the weight as it is: fill the weight itself, not a copy of it."
    )
    what = f"the standard deviation of a weight {shape}, divided by that after {name},"
    ratio = tensor.std().item() / own.std().item()
    assert_close(round(ratio, 2), 1.0, what=what, **SPREAD)


def check_constant(after: Mapping[str, Any], name: str, value: float, size: int) -> None:
    """A parameter is this number everywhere."""
    assert_close(entry(after, name), torch.full((size,), value), what=f"the {name}")


def check_in_place(student: Student, name: str) -> None:
    """A call fills the weight itself, a Parameter or a view, and returns it."""
    for requires_grad in (True, False):
        weight = student.made("parameter", [8, 30], requires_grad=requires_grad)
        laws.check_changes_nothing(student, name, weight, allow=("0.values", "random"))
    report = student.run("view_filled", name, 80, 300)
    values = assert_tensor(entry(report, "values"), shape=(80, 300), what="a view after the call")
    assert values.any(), "A view is still zero: fill the weight itself, not a copy of it."
    beside = entry(report, "beside")
    assert_equal(beside, torch.zeros(300, 80).double(), what="the memory beside a view")
    assert entry(report, "same") is True, f"{name} has to return the weight itself."


def check_generator(student: Student, name: str) -> None:
    """All draws come from PyTorch's global generator, of which a call does not set the seed."""
    draws = entry(student.run("repeated", name, torch.zeros(6, 5)), kind=list, count=3)
    first, second, again = (assert_tensor(draw, shape=(6, 5)) for draw in draws)
    told = "Two calls in a row give the same values: is a seed set on the way?"
    assert not torch.equal(first, second), told
    told = "The same torch.manual_seed gives other values: draw from PyTorch's global generator."
    assert torch.equal(first, again), told
    seeded = laws.observe(student, name, torch.zeros(6, 5)).checked().was_seeded()
    assert not seeded, f"{name} sets the seed of the global generator: leave it alone."
