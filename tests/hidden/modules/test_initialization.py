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

MARK = 7.0
SUBCLASSES = {"Adapter": "Linear", "Picture": "Conv2d", "Table": "Embedding", "Norm": "BatchNorm1d"}
LAYERS: Any = [("Linear", 4, 3), ("Conv1d", 2, 3, 2), ("Conv2d", 2, 3, 2), ("Embedding", 5, 3)]
LAYERS += [("Embedding", 5, 3, 1), ("LayerNorm", 3), ("BatchNorm1d", 3), ("BatchNorm2d", 3)]
FILLERS = ("xavier_uniform_", "kaiming_normal_")
BANNED = [f"torch.nn.init.{name}" for name in ("xavier_", "kaiming_", "_calculate_")]


@pytest.mark.points(6)
@pytest.mark.place("fans")
@pytest.mark.hint("fan_in = in * k and fan_out = out * k, with k = math.prod(weight.shape[2:]).")
def test_fans(student: Student) -> None:
    """fans gives (in * k, out * k) as ints, k the product of the kernel's sizes."""
    shapes = [(3, 5), (7, 2), (1, 4), (6, 3, 5), (8, 3, 5, 2), (2, 3, 4, 5, 6), (4, 9, 1, 1)]
    seen = {str(s): student.function("fans")(torch.randn(s, dtype=torch.float64)) for s in shapes}
    right = {str(s): (s[1] * math.prod(s[2:]), s[0] * math.prod(s[2:])) for s in shapes}
    what = "the dict from shapes of a weight to (fan_in, fan_out)"
    assert_equal(seen, right, what=what)
    for x in laws.kinds_of(torch.randn(3, 4, 2)):
        laws.check_changes_nothing(student, "fans", x)


@pytest.mark.points(2)
@pytest.mark.place("fans")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if weight.dim() < 2: raise ValueError(f'weight ...')")
def test_fans_errors(student: Student) -> None:
    """Fewer than two dimensions are a ValueError that names weight."""
    calls = [(torch.ones(()),), (torch.ones(1),), (torch.ones(5),)]
    laws.check_errors(student, "fans", {"weight": calls}, fine=(torch.ones(1, 1),))


@pytest.mark.points(7)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("bound = gain * math.sqrt(6 / (fan_in + fan_out)); uniform_(-bound, bound)")
def test_xavier(student: Student) -> None:
    """xavier_uniform_ draws from U(-a, a), a = sqrt(6 / (fan_in + fan_out))."""
    for shape in new_matrices():
        check_xavier(student, torch.zeros(shape))


@pytest.mark.points(3)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("bound = gain * math.sqrt(6 / (fan_in + fan_out))")
def test_xavier_gain(student: Student) -> None:
    """A gain multiplies the bound."""
    for shape, gain in zip(new_matrices(), (0.3, 5 / 3, 4.0), strict=True):
        check_xavier(student, torch.zeros(shape), gain)


@pytest.mark.points(2)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("Take fan_in and fan_out from fans, which know of the kernel.")
def test_xavier_kernels(student: Student) -> None:
    """For the weight of a convolution the bound follows from fans with the kernel in them."""
    for shape in new_kernels():
        check_xavier(student, torch.zeros(shape, dtype=torch.float64))


@pytest.mark.points(8)
@pytest.mark.place("kaiming_normal_")
@pytest.mark.hint("weight.normal_(0, math.sqrt(2 / fan_in)): normal_ takes the standard deviation.")
def test_kaiming(student: Student) -> None:
    """kaiming_normal_ draws from N(0, std^2), std = sqrt(2 / fan_in)."""
    for shape in new_matrices():
        check_kaiming(filled(student, "kaiming_normal_", torch.zeros(shape)), torch.zeros(shape))


@pytest.mark.points(2)
@pytest.mark.place("kaiming_normal_")
@pytest.mark.hint("Take fan_in from fans, which know of the kernel.")
def test_kaiming_kernels(student: Student) -> None:
    """For the weight of a convolution the deviation follows from fan_in with the kernel in it."""
    for shape in new_kernels():
        weight = torch.zeros(shape, dtype=torch.float64)
        check_kaiming(filled(student, "kaiming_normal_", weight), weight)


@pytest.mark.points(5)
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("with torch.no_grad(): return weight.uniform_(-bound, bound)")
def test_xavier_in_place(student: Student) -> None:
    """It fills the weight itself, a Parameter or a view, and returns it; a seed decides the values."""
    check_in_place(student, "xavier_uniform_")


@pytest.mark.points(5)
@pytest.mark.place("kaiming_normal_")
@pytest.mark.hint("with torch.no_grad(): return weight.normal_(0, std)")
def test_kaiming_in_place(student: Student) -> None:
    """It fills the weight itself, a Parameter or a view, and returns it; a seed decides the values."""
    check_in_place(student, "kaiming_normal_")


@pytest.mark.points(4)
@pytest.mark.place("init_weights")
@pytest.mark.hint("isinstance(module, nn.Linear): xavier_uniform_(module.weight), bias zero.")
def test_init_linear(student: Student) -> None:
    """Linear: Xavier for the weight, zero for the bias; subclasses too."""
    for kind, options in (("Linear", {}), ("Adapter", {}), ("Linear", {"bias": False})):
        fan_in, fan_out = near(300), near(80)
        after = initialized(student, kind, fan_in, fan_out, **options)
        what = f"The weight of {shown(kind)}({fan_in}, {fan_out})"
        check_by(student, "xavier_uniform_", after.get("weight"), (fan_out, fan_in), what)
        check_constant(after, "bias", 0.0, kind)


@pytest.mark.points(4)
@pytest.mark.place("init_weights")
@pytest.mark.hint("isinstance(module, (nn.Conv1d, nn.Conv2d)): kaiming_normal_(module.weight).")
def test_init_convolutions(student: Student) -> None:
    """Conv1d and Conv2d: Kaiming for the weight, zero for the bias; subclasses too."""
    for kind, kernel, shape in (
        ("Conv1d", 8, (45, near(60), 8)),
        ("Conv2d", (4, 5), (25, near(60), 4, 5)),
        ("Picture", 4, (25, near(60), 4, 4)),
    ):
        for groups, bias in ((1, True), (1, False), (5, True)):
            sizes = (shape[1] * groups, shape[0], kernel)
            after = initialized(student, kind, *sizes, groups=groups, bias=bias)
            what = f"The weight of {shown(kind)}{sizes} with groups={groups}"
            check_by(student, "kaiming_normal_", after.get("weight"), shape, what)
            check_constant(after, "bias", 0.0, kind)


@pytest.mark.points(4)
@pytest.mark.place("init_weights")
@pytest.mark.hint("padding_idx may be 0, so ask whether it is None; fill first, then zero its row.")
def test_init_embedding(student: Student) -> None:
    """Embedding: N(0, 0.02^2), and the row of padding_idx, if there is one, is zero."""
    for kind, index in (("Embedding", None), ("Embedding", 0), ("Embedding", 5), ("Table", -1)):
        rows = near(700)
        after = initialized(student, kind, rows, 40, padding_idx=index)
        weight = assert_tensor(after.get("weight"), shape=(rows, 40), what="the Embedding's weight")
        others = [i for i in range(rows) if index is None or i != index % rows]
        what = f"The weight of {shown(kind)}({rows}, 40, padding_idx={index}), but for that row,"
        wrong = {"The variance is 0.02: the standard deviation should be.": 0.02**0.5}
        wrong["The standard deviation is 1, as PyTorch's: it should be 0.02."] = 1.0
        check_spread(weight[others], 0.02, wrong, what)
        told = f"The row of padding_idx={index} is not zero: set it to zero after the draw."
        assert index is None or not weight[index].any(), told
        told = f"Another row than that of padding_idx={index} is zero."
        assert weight[others].any(dim=1).all(), told


@pytest.mark.points(3)
@pytest.mark.place("init_weights")
@pytest.mark.hint("With affine=False weight and bias are None: look before you fill them.")
def test_init_norms(student: Student) -> None:
    """LayerNorm, BatchNorm1d, BatchNorm2d: weight one, bias zero, where there are any."""
    for kind, *off in (
        *(("LayerNorm", "bias"), ("LayerNorm", "elementwise_affine"), ("BatchNorm2d", "affine")),
        *(("LayerNorm",), ("BatchNorm1d",), ("BatchNorm2d",), ("Norm",)),
    ):
        options = dict.fromkeys(off, False)
        features = random.randint(2, 99)
        after = initialized(student, kind, features, **options)
        for name, value in (("weight", 1.0), ("bias", 0.0)):
            check_constant(after, name, value, kind, features)


@pytest.mark.points(3)
@pytest.mark.requires("test_init_linear")
@pytest.mark.place("init_weights")
@pytest.mark.hint("Look only at the module itself: apply visits its children, too.")
def test_init_others(student: Student) -> None:
    """Children, and modules of all other classes, are left alone."""
    named: list[Any] = [("Bilinear", 2, 3, 4), ("PReLU",), ("EmbeddingBag", 5, 3), ("GRU", 2, 3)]
    named += [("MultiheadAttention", 4, 2), ("Picture", 2, 3, 2), ("Table", 5, 3), ("Norm", 3)]
    for kind, *sizes in (("Adapter", 300, 80), ("Own",), *named):
        after = initialized(student, kind, *sizes)
        for name in sorted(after, key=lambda name: "." not in name):
            own = kind in SUBCLASSES and name in ("weight", "bias")
            told = f"init_weights changes {name} of a module of the class {kind}: leave it alone."
            if "." in name:
                told = f"init_weights changes {name}, a child's parameter: apply calls it for each child."
            assert own or is_all(after[name], MARK), told
    children = [student.made("layer", "Linear", 3, 2), student.made("layer", "LayerNorm", 2)]
    told = "A Sequential and its children stay as they are: apply calls init_weights for each."
    chain = student.made("chain", *children)
    laws.check_changes_nothing(student, "init_weights", chain, only=("0.values",), told=told)
    laws.check_changes_nothing(student, "init_weights", chain)


@pytest.mark.points(3)
@pytest.mark.place("init_weights")
@pytest.mark.hint("nn.init.zeros_(module.bias) fills it; an assignment puts another one there.")
def test_init_keeps(student: Student) -> None:
    """The Parameter objects, requires_grad, .grad and buffers stay; frozen parameters are set, too."""
    for kind, *sizes in LAYERS:
        for frozen in (False, True):
            made = student.made("layer", kind, *sizes, frozen=frozen)
            allow = ("0.values", "random")
            laws.check_changes_nothing(student, "init_weights", made, allow=allow)
            seeded = laws.observe(student, "init_weights", made).was_seeded()
            assert not seeded, f"With an nn.{kind}, init_weights sets a seed: leave it alone."
        after = initialized(student, kind, *sizes, frozen=True, double=True)
        for name, values in after.items():
            line = f"The {name} of a frozen nn.{kind} is skipped: set it, too."
            assert not is_all(values, MARK), line
            assert_tensor(values, dtype=torch.float64, what=f"the {name} of a float64 nn.{kind}")


@pytest.mark.requires("test_xavier_in_place")
@pytest.mark.place("xavier_uniform_")
@pytest.mark.hint("Work out the fans and the bound yourself; uniform_ and normal_ are fine.")
def test_not_used(student: Student) -> None:
    """The Xavier, Kaiming and fan functions of torch.nn.init are not used, however reached."""
    why = "work out the fans and the scale yourself"
    for name in ("fans", *FILLERS):
        laws.check_not_used(student, name, torch.zeros(4, 3), functions=BANNED, why=why)
    for kind, *sizes in LAYERS:
        made = student.made("layer", kind, *sizes)
        laws.check_not_used(student, "init_weights", made, functions=BANNED, why=why)


def near(size: int) -> int:
    return size + random.randint(0, size // 8)


def new_matrices() -> list[tuple[int, int]]:
    """Shapes of at least 20,000 elements, whose fans tell all formulas apart."""
    return [(near(120), near(300)), (near(400), near(60)), (near(150), near(200))]


def new_kernels() -> list[tuple[int, ...]]:
    """The same for convolutions: the kernel counts as well."""
    return [(near(30), near(90), 8), (near(25), near(60), 4, 5), (near(12), near(20), 5, 4, 7)]


def scales(weight: Tensor) -> tuple[int, int, int, int]:
    """fan_in and fan_out, with and without the kernel."""
    kernel = math.prod(weight.shape[2:])
    return weight.shape[1] * kernel, weight.shape[0] * kernel, weight.shape[1], weight.shape[0]


def filled(student: Student, name: str, weight: Tensor, *gain: float) -> Tensor:
    """What a call leaves in a weight."""
    seen = laws.observe(student, name, weight, *gain).checked()
    what = f"A weight of shape {tuple(weight.shape)} after {name}"
    values = seen.after(0, "values")
    values = assert_tensor(values, shape=weight.shape, dtype=weight.dtype, what=what)
    check_filled(values, what)
    return values


def check_by(student: Student, name: str, values: Any, shape: tuple[int, ...], what: str) -> None:
    """The values are spread as by the student's own function, whose formula has its own test."""
    tensor = assert_tensor(values, shape=shape, what=what)
    check_filled(tensor, what)
    own = filled(student, name, torch.zeros(shape))
    spreads = tensor.std().item(), own.std().item()
    line = f"{what} has the standard deviation {spreads[0]:.4g}, and not {spreads[1]:.4g}"
    assert abs(spreads[0] / spreads[1] - 1) < 0.05, f"{line} as by {name}: call it."
    largest = tensor.abs().max().item() / own.abs().max().item()
    assert abs(largest - 1) < 0.3, f"{what} has another distribution than by {name}: call it."


def check_xavier(student: Student, weight: Tensor, gain: float | None = None) -> None:
    """xavier_uniform_ fills the weight as it should, with this gain."""
    arguments = () if gain is None else (gain,)
    values = filled(student, "xavier_uniform_", weight, *arguments)
    with_gain = f" with gain {gain:.4g}" if gain else ""
    what = f"A weight of shape {tuple(weight.shape)} after xavier_uniform_{with_gain}"
    check_uniform(values, weight, gain or 1.0, what)


def check_uniform(tensor: Tensor, weight: Tensor, gain: float, what: str) -> None:
    """The values are Xavier's uniform ones for such a weight."""
    fan_in, fan_out, n, m = scales(weight)
    total, bound = fan_in + fan_out, gain * math.sqrt(6 / (fan_in + fan_out))
    wrong = {
        "That is the standard deviation, sqrt(2 / ...): the bound is sqrt(6 / ...).": bound
        / 3**0.5,
        "The kernel's sizes are left out of the fans.": gain * math.sqrt(6 / (n + m)),
        "The gain is ignored.": bound / gain,
        "The gain is under the root: it multiplies the root.": bound / gain**0.5,
        "The gain is squared.": bound * gain,
        "The bound is divided by the gain: multiply by it.": bound / gain**2,
        "The root is missing: a = gain * sqrt(6 / (fan_in + fan_out)).": gain * 6 / total,
        "The root is of 6 alone: it belongs to the whole quotient.": gain * 6**0.5 / total,
        "Divide by fan_in + fan_out, not by fan_in alone.": gain * math.sqrt(6 / fan_in),
        "Divide by fan_in + fan_out, not by fan_out alone.": gain * math.sqrt(6 / fan_out),
        "The root is sqrt(3 / ...), as for Kaiming or LeCun: it is sqrt(6 / ...).": bound / 2**0.5,
        "The bound is 1 / sqrt(fan_in), as PyTorch's Linear starts.": fan_in**-0.5,
    }
    tensor = tensor.double()
    largest = tensor.abs().max().item()
    told = [line for line, other in wrong.items() if abs(largest / other - 1) < 0.005]
    told = told if abs(largest / bound - 1) > 0.005 else []
    assert 0.99 * bound < largest <= bound * (1 + 1e-6), " ".join(
        [*told[:1], f"{what} lies within {largest:.5g}, and the bound a is {bound:.5g}."]
    )
    check_moments(tensor, bound, bound / 3**0.5, what)


def check_kaiming(tensor: Tensor, weight: Tensor) -> None:
    """The values are Kaiming's normal ones for such a weight."""
    what = f"A weight of shape {tuple(weight.shape)} after kaiming_normal_"
    fan_in, fan_out, n, _ = scales(weight)
    std = math.sqrt(2 / fan_in)
    wrong = {
        "fan_in and fan_out are swapped: Kaiming divides by fan_in.": math.sqrt(2 / fan_out),
        "The kernel's sizes are left out of fan_in.": math.sqrt(2 / n),
        "That is the variance, 2 / fan_in: normal_ takes its root, the deviation.": 2 / fan_in,
        "The normal distribution is cut off at two deviations: draw from all of it.": 0.8796 * std,
        "Divide by fan_in alone, not by fan_in + fan_out as Xavier does.": (
            math.sqrt(2 / (fan_in + fan_out))
        ),
        "Divide by fan_in alone, not by the mean of both fans.": math.sqrt(4 / (fan_in + fan_out)),
        "The 2 is missing: a ReLU halves the signal.": math.sqrt(1 / fan_in),
        "The 6 belongs to a uniform distribution: it is a 2 here.": math.sqrt(6 / fan_in),
        "The root is of 2 alone: it belongs to the whole quotient.": 2**0.5 / fan_in,
    }
    check_spread(tensor, std, wrong, what)


def check_spread(tensor: Tensor, std: float, wrong: Mapping[str, float], what: str) -> None:
    """The values are normal with this standard deviation; `wrong` names others."""
    check_filled(tensor, what)
    tensor = tensor.double()
    spread = tensor.std().item()
    told = [line for line, other in wrong.items() if abs(spread / other - 1) < 0.02]
    assert abs(spread / std - 1) < 0.05, " ".join(
        [*told[:1], f"{what} has the standard deviation {spread:.4g}, and should have {std:.4g}."]
    )
    check_moments(tensor, std, std, what)
    largest = tensor.abs().max().item()
    line = f"{what} has no value beyond {largest / std:.2f} standard deviations"
    assert largest > 2.5 * std, f"{line}: draw from a normal distribution, not from a uniform one."


def check_filled(tensor: Tensor, what: str) -> None:
    assert tensor.any(), f"{what} is still zero: fill the weight itself, not a copy of it."
    assert not is_all(tensor, MARK), f"{what} is as it was before: set it."


def check_moments(tensor: Tensor, scale: float, std: float, what: str) -> None:
    """Mean zero and this standard deviation, each within 5 % of the scale."""
    mean, spread = tensor.mean().item(), tensor.std().item()
    assert abs(mean) < 0.05 * scale, f"{what} has the mean {mean:.4g}: it should be 0."
    line = f"{what} has the standard deviation {spread:.4g}, and should have {std:.4g}"
    assert abs(spread - std) < 0.05 * scale, f"{line}: is the distribution another one?"
    told = f"{what} holds the same numbers many times: draw each element by itself, cut none off."
    assert tensor.unique().numel() > 0.95 * tensor.numel(), told


def check_in_place(student: Student, name: str) -> None:
    """A call fills the weight itself, whatever it is."""
    allow = ("0.values", "random")
    for kind in ("Parameter", "frozen", "view"):
        for dtype in (torch.float32, torch.float64):
            made = student.made("weight", kind, [80, 300], torch.empty(0, dtype=dtype))
            report = student.run("filled", name, made)
            shown = f"The weight, a {'transposed ' * (kind == 'view')}{kind}, after {name}"
            values = entry(report, "values")
            check_filled(assert_tensor(values, shape=(80, 300), dtype=dtype, what=shown), shown)
            assert entry(report, "same") is True, f"{name} has to return the weight itself."
            attached = f"{shown} is the result of operations: fill it under torch.no_grad()."
            assert entry(report, "grad_fn") is False or kind == "view", attached
            assert_equal(entry(report, "rest"), 0.0, what=f"the memory beside {shown}")
            if kind != "view":
                laws.check_changes_nothing(student, name, made, allow=allow)
    for bad in (torch.ones(()), torch.ones(4)):
        laws.check_errors(student, name, {"weight": [(bad,)]})
    # From PyTorch's global generator, which is not seeded.
    report = entry(student.run("repeated", name, torch.zeros(6, 5)), kind=list, count=3)
    first, second, again = (assert_tensor(draw, shape=(6, 5)) for draw in report)
    told = "Two calls in a row give the same values: is a seed set on the way?"
    assert not torch.equal(first, second), told
    told = "The same torch.manual_seed gives other values: draw from PyTorch's global generator."
    assert torch.equal(first, again), told
    seen = laws.observe(student, name, torch.zeros(6, 5)).checked()
    assert not seen.was_seeded(), f"{name} sets the seed of the global generator: leave it alone."


def initialized(student: Student, kind: str, *sizes: Any, **options: Any) -> dict[str, Any]:
    """All parameters and buffers after init_weights; a buffer that changed is a mistake."""
    made = student.made("layer", kind, *sizes, **options)
    seen = laws.observe(student, "init_weights", made)
    none = "NoneType" in str(seen.error) and False in options.values()
    told = "A parameter that is None (bias=False, affine=False) has to be skipped"
    assert not none, f"{told}. The code raised {seen.error}."
    seen.checked()
    for name in entry(seen.after(0, "buffers"), kind=dict):
        values = seen.after(0, "buffers", name, "values")
        assert is_all(values, MARK), f"The buffer {name} is changed: set only parameters."
    facts = entry(seen.after(0, "parameters"), kind=dict)
    return {name: entry(fact, "values") for name, fact in facts.items()}


def shown(kind: str) -> str:
    return f"a subclass of nn.{SUBCLASSES[kind]}" if kind in SUBCLASSES else f"nn.{kind}"


def is_all(tensor: Any, value: float) -> bool:
    return isinstance(tensor, Tensor) and bool((tensor == value).all())


def check_constant(
    state: Mapping[str, Any], name: str, value: float, kind: str, size: int | None = None
) -> None:
    """A parameter is this number everywhere, if the module has it."""
    if name in state:
        what = f"the {name} of {shown(kind)}"
        tensor = assert_tensor(state[name], shape=None if size is None else (size,), what=what)
        assert_close(tensor, torch.full_like(tensor, value), what=what)
