"""Tests of fans, xavier_uniform_, kaiming_normal_ and init_weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    assert_tensor,
    entry,
    exactly,
    laws,
    promise,
    raises,
    within,
)
from grader.judge.student import Student

XAVIER, KAIMING = "xavier_uniform_", "kaiming_normal_"
# The number in the parameters and buffers of the probe's modules.
MARK = 7.0
KERNEL = (4, 5)
# At least 20,000 draws tell the mean and the deviation much better than this.
SPREAD = 0.05
# The largest draw lies at 1.73 deviations for a uniform distribution, and far beyond FAR for a normal one.
FAR, FAR_DIGITS = 2.5, 0.02
BANNED = [f"torch.nn.init.{name}" for name in ("xavier_", "kaiming_", "_calculate_")]
BY_HAND = "work out the fans and the scale yourself"


# --- fans ----------------------------------------------------------------------------------------


@promise(
    "fans",
    points=6,
    hint="fan_in = in * k and fan_out = out * k, with k = math.prod(weight.shape[2:]).",
)
def test_fans(code: Student, draw: Draw) -> Cases:
    """fans gives (in * k, out * k) as ints, k the product of the kernel's sizes."""
    for kernel in ((), (3,), (5, 2)):
        weight = draw.normal(draw.size(2, 50), draw.size(50, 99), *kernel)
        yield f"the fans of a weight {tuple(weight.shape)}", exactly(code.function("fans")(weight))


@promise(
    "fans",
    points=2,
    hint="if weight.dim() < 2: raise ValueError(f'weight ...')",
    word="the sandbox says that it raised",
)
def test_fans_errors(code: Student, draw: Draw) -> Cases:
    """Fewer than two dimensions are a ValueError that names weight."""
    for shape in ((), (5,)):
        weight = draw.normal(*shape)
        refusal = raises(ValueError, "weight", code.function("fans"), weight)
        yield f"fans of a weight of shape {shape}", refusal
    code.function("fans")(torch.ones(1, 1))  # is fine


# --- xavier_uniform_ and kaiming_normal_ ---------------------------------------------------------


@promise(
    "xavier_uniform_",
    points=7,
    hint="bound = gain * math.sqrt(6 / (fan_in + fan_out)); uniform_(-bound, bound)",
)
def test_xavier(code: Student, draw: Draw) -> Cases:
    """xavier_uniform_ draws from U(-a, a), a = sqrt(6 / (fan_in + fan_out))."""
    yield from distribution(filled(code, XAVIER, *sizes(draw)))


@promise("xavier_uniform_", points=3, hint="bound = gain * math.sqrt(6 / (fan_in + fan_out))")
def test_xavier_gain(code: Student, draw: Draw) -> Cases:
    """A gain multiplies the bound."""
    shape, gain = sizes(draw), draw.number(1.5, 2.0)
    change = ratio(filled(code, XAVIER, *shape, gain=gain), filled(code, XAVIER, *shape, gain=1.0))
    yield "the deviation with a gain, divided by that with a gain of 1,", change


@promise(
    "xavier_uniform_", points=2, hint="Take fan_in and fan_out from fans, which know of the kernel."
)
def test_xavier_kernels(code: Student, draw: Draw) -> Cases:
    """For a convolution's weight the kernel counts in both fans, and so in the bound."""
    weight = filled(code, XAVIER, draw.size(25, 28), draw.size(60, 68), *KERNEL)
    yield DEVIATION, within(deviation(weight), rtol=SPREAD)


@promise(
    "kaiming_normal_",
    points=8,
    hint="weight.normal_(0, math.sqrt(2 / fan_in)): normal_ takes the standard deviation.",
)
def test_kaiming(code: Student, draw: Draw) -> Cases:
    """kaiming_normal_ draws from N(0, std^2), std = sqrt(2 / fan_in)."""
    yield from distribution(filled(code, KAIMING, *sizes(draw)))


@promise("kaiming_normal_", points=2, hint="Take fan_in from fans, which know of the kernel.")
def test_kaiming_kernels(code: Student, draw: Draw) -> Cases:
    """For a convolution's weight the kernel counts in fan_in, and so in the deviation."""
    weight = filled(code, KAIMING, draw.size(25, 28), draw.size(60, 68), *KERNEL)
    yield DEVIATION, within(deviation(weight), rtol=SPREAD)


@promise(
    "xavier_uniform_",
    points=5,
    hint="with torch.no_grad(): return weight.uniform_(-bound, bound)",
)
def test_xavier_in_place(student: Student) -> None:
    """xavier_uniform_ fills the weight itself, Parameter or view, and returns it; a seed decides the values."""
    check_in_place(student, XAVIER)
    check_generator(student, XAVIER)
    laws.check_errors(student, XAVIER, {"weight": [(torch.ones(4),)]})


@promise("kaiming_normal_", points=5, hint="with torch.no_grad(): return weight.normal_(0, std)")
def test_kaiming_in_place(student: Student) -> None:
    """kaiming_normal_ fills the weight itself, Parameter or view, and returns it; a seed decides the values."""
    check_in_place(student, KAIMING)
    check_generator(student, KAIMING)
    laws.check_errors(student, KAIMING, {"weight": [(torch.ones(4),)]})


# --- init_weights --------------------------------------------------------------------------------


@promise(
    "init_weights",
    points=4,
    hint="isinstance(module, nn.Linear): xavier_uniform_(module.weight), bias zero.",
)
def test_init_linear(code: Student, draw: Draw) -> Cases:
    """Linear: Xavier for the weight, zero for the bias; subclasses too."""
    for kind, bias in (("Linear", True), ("Linear", False), ("Adapter", True)):
        inputs, outputs = draw.size(300, 340), draw.size(80, 90)
        after = initialized(code, kind, inputs, outputs, bias=bias)
        yield from drawn_by(code, XAVIER, entry(after, "weight"), outputs, inputs)
        yield f"the bias of {kind}", after.get("bias")


@promise(
    "init_weights",
    points=4,
    hint="isinstance(module, (nn.Conv1d, nn.Conv2d)): kaiming_normal_(module.weight).",
)
def test_init_convolutions(code: Student, draw: Draw) -> Cases:
    """Conv1d and Conv2d: Kaiming for the weight, zero for the bias; subclasses too."""
    inputs = draw.size(60, 68)
    for kind, kernel in (("Conv1d", (20,)), ("Picture", KERNEL)):
        after = initialized(code, kind, inputs, 25, kernel)
        yield from drawn_by(code, KAIMING, entry(after, "weight"), 25, inputs, *kernel)
        yield f"the bias of {kind}", after.get("bias")
    # With five groups, each output sums over a fifth of the inputs.
    after = initialized(code, "Conv2d", 5 * inputs, 25, KERNEL, groups=5, bias=False)
    yield from drawn_by(code, KAIMING, entry(after, "weight"), 25, inputs, *KERNEL)


@promise(
    "init_weights",
    points=4,
    hint="padding_idx may be 0, so ask whether it is None; fill first, then zero its row.",
)
def test_init_embedding(code: Student, draw: Draw) -> Cases:
    """Embedding: N(0, 0.02^2), and the row of padding_idx, if there is one, is zero."""
    for kind, padding_idx in (("Embedding", None), ("Table", 5), ("Embedding", 0)):
        rows = draw.size(700, 790)
        after = initialized(code, kind, rows, 40, padding_idx=padding_idx)
        what = "the Embedding's weight"
        weight = assert_tensor(entry(after, "weight"), shape=(rows, 40), what=what)
        drawn = weight.any(dim=1)
        zeros = (~drawn).nonzero().flatten().tolist()
        yield f"the list of the rows of zeros for padding_idx={padding_idx}", zeros
        yield from distribution(weight[drawn])


@promise(
    "init_weights",
    points=3,
    hint="With affine=False weight and bias are None: look before you fill them.",
)
def test_init_norms(code: Student, draw: Draw) -> Cases:
    """LayerNorm, BatchNorm1d, BatchNorm2d: weight one, bias zero, if they exist."""
    for kind in ("LayerNorm", "BatchNorm1d", "BatchNorm2d", "Norm"):
        after = initialized(code, kind, draw.size(2, 99))
        for name in ("weight", "bias"):
            yield f"the {name} of {kind}", after.get(name)
    # Without parameters there is nothing to fill, and that is not an error.
    initialized(code, "BatchNorm2d", 3, affine=False)


@promise(
    "init_weights",
    points=3,
    hint="Look only at the module itself: apply visits its children, too.",
    after="test_init_linear",
)
def test_init_others(code: Student, draw: Draw) -> Cases:
    """Children, and modules of all other classes, are left alone."""
    for kind, shape in (("Adapter", (3, 4)), ("Picture", (2, 3, 2))):
        after = initialized(code, kind, *shape)
        children = {name: after.get(name) for name in ("inner.weight", "inner.bias")}
        yield f"the parameters of a child of {kind}", children
    linear, gru = code.made("layer", "Linear", 3, 2), code.made("layer", "GRU", 2, 2)
    for module in (code.made("layer", "Own"), gru, code.made("chain", linear, gru)):
        laws.check_changes_nothing(code, "init_weights", module)


@promise(
    "init_weights",
    points=3,
    hint="nn.init.zeros_(module.bias) fills it; an assignment puts another one there.",
)
def test_init_keeps(student: Student) -> None:
    """The Parameter objects, requires_grad, .grad and buffers stay; frozen parameters are set, too."""
    layers = {"Linear": (4, 3), "Conv2d": (2, 3, 2), "Embedding": (5, 3, 1), "BatchNorm1d": (3,)}
    for kind, shape in layers.items():
        frozen, allow = student.made("layer", kind, *shape, frozen=True), ("0.values", "random")
        laws.check_changes_nothing(student, "init_weights", frozen, allow=allow)
        seen = laws.observe(student, "init_weights", frozen)
        assert not seen.was_seeded(), "init_weights sets a seed: leave it alone."
        for values in parameters_after(seen).values():
            skipped = isinstance(values, Tensor) and bool((values == MARK).all())
            assert not skipped, "A frozen parameter is skipped: set it, too."


@promise("xavier_uniform_", after="test_xavier_in_place")
def test_not_used(student: Student) -> None:
    """The Xavier, Kaiming and fan functions of torch.nn.init are not used, however reached."""
    for name in ("fans", XAVIER, KAIMING):
        laws.check_not_used(student, name, torch.zeros(4, 3), functions=BANNED, why=BY_HAND)
    for kind, shape in (("Linear", (4, 3)), ("Conv2d", (2, 3, 2))):
        made = student.made("layer", kind, *shape)
        laws.check_not_used(student, "init_weights", made, functions=BANNED, why=BY_HAND)


# --- helpers of the tests ------------------------------------------------------------------------


DEVIATION = "the standard deviation of the weight"


def sizes(draw: Draw) -> tuple[int, int]:
    """Numbers of outputs and inputs, different enough to tell all formulas apart."""
    return draw.size(120, 135), draw.size(300, 340)


def parameters_after(seen: laws.Observation) -> dict[str, Any]:
    """The values of a module's parameters after a call, by name."""
    facts = entry(seen.checked().after(0, "parameters"), kind=dict)
    return {name: entry(fact, "values") for name, fact in facts.items()}


def initialized(code: Student, kind: str, *shape: Any, **options: Any) -> dict[str, Any]:
    """The parameters of a module after init_weights."""
    made = code.made("layer", kind, *shape, **options)
    return parameters_after(laws.observe(code, "init_weights", made))


def filled(code: Student, name: str, *shape: int, **options: float) -> Tensor:
    """The values of a weight that was all zeros before the call."""
    seen = laws.observe(code, name, torch.zeros(shape), **options).checked()
    return assert_tensor(
        seen.after(0, "values"), shape=shape, dtype=torch.float32, what="the weight"
    )


def deviation(weight: Tensor) -> float:
    """The standard deviation of a weight, never exactly 0."""
    return weight.std().item() + 1e-12


def distribution(weight: Tensor) -> Cases:
    """Measures of a weight's distribution: its spread, its mean, and the distance of the farthest draw."""
    spread = deviation(weight)
    yield DEVIATION, within(spread, rtol=SPREAD)
    mean = round(weight.mean().item() / spread, 2)
    yield "the mean of the weight, in standard deviations,", within(mean, atol=SPREAD)
    farthest = min(round(weight.abs().max().item() / spread, 2), FAR)
    what = f"the distance of the farthest draw, up to {FAR} standard deviations,"
    yield what, within(farthest, rtol=FAR_DIGITS)


def ratio(one: Tensor, other: Tensor) -> Any:
    """The ratio of two standard deviations, rounded so that the same mistake always looks the same."""
    return within(round(deviation(one) / deviation(other), 2), rtol=SPREAD)


def drawn_by(code: Student, name: str, values: Any, *shape: int) -> Cases:
    """The spread of a weight relative to the student's own function `name`, whose formula has its own test."""
    weight = assert_tensor(values, shape=shape, what="the weight after init_weights")
    own = filled(code, name, *shape)
    told = "The weight is left as it is: fill the weight itself, not a copy of it."
    assert own.any(), told
    what = f"the standard deviation of a weight {shape}, divided by that after {name},"
    yield what, ratio(weight, own)


def check_in_place(student: Student, name: str) -> None:
    """Check that a call fills the weight itself, a Parameter or a view, and returns it."""
    for requires_grad in (True, False):
        weight = student.made("parameter", [8, 30], requires_grad=requires_grad)
        laws.check_changes_nothing(student, name, weight, allow=("0.values", "random"))
    report = student.run("view_filled", name, 80, 300)
    assert entry(report, "filled") is True, (
        "A view is still zero: fill the weight itself, not a copy of it."
    )
    assert entry(report, "beside") is False, "The memory beside a view changed: fill the view."
    assert entry(report, "same") is True, "Return the weight itself: the function has to return it."


def check_generator(student: Student, name: str) -> None:
    """Check that all draws come from PyTorch's global generator, and that a call does not seed it."""
    draws = entry(student.run("repeated", name, torch.zeros(6, 5)), kind=list, count=3)
    first, second, again = (assert_tensor(draw, shape=(6, 5)) for draw in draws)
    told = "Two calls in a row give the same values: is a seed set on the way?"
    assert not torch.equal(first, second), told
    told = "The same torch.manual_seed gives other values: draw from PyTorch's global generator."
    assert torch.equal(first, again), told
    seeded = laws.observe(student, name, torch.zeros(6, 5)).checked().was_seeded()
    assert not seeded, "It sets the seed of the global generator: leave it alone."
