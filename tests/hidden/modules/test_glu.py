"""Tests of the gated linear unit and gradient_flow."""

from __future__ import annotations

import functools
import random

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws
from grader.judge.student import Student

# The parameters of the probe's Network, sorted, and the fate of each.
LEARNING = ["body.0.bias", "body.0.weight", "head.bias", "head.weight", "scale"]
CUT_OFF = ["cut.bias", "cut.weight", "unused.bias", "unused.weight"]
NAMES = sorted(LEARNING + CUT_OFF)
FROZEN = ["body.0.weight", "head.bias", "unused.bias"]
STALE = 7.0


# --- the parameters ------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("The layer itself owns two nn.Parameters: self.weight and self.bias.")
def test_parameters(student: Student) -> None:
    """The layer has a weight and a bias, each with rows for the value and for the gate."""
    in_features, out_features = 2 * new_size(), new_size()
    layer = student.module("GatedLinearUnit", in_features, out_features)
    check_parameters(layer, in_features, out_features)


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.word("the sandbox says which parameters are learnable")
@pytest.mark.hint("An nn.Parameter requires a gradient unless you tell it not to.")
def test_learnable(student: Student) -> None:
    """Weight and bias are both learnable."""
    layer = student.module("GatedLinearUnit", 6, 5)
    for name, parameter in layer.named_parameters():
        assert parameter.requires_grad, f"{name} is not learnable: its requires_grad is False."


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.word("the sandbox says what the state dict holds")
@pytest.mark.hint("What you register as a parameter or a buffer is saved with the model.")
def test_nothing_else(student: Student) -> None:
    """Nothing but weight and bias appears in the state_dict."""
    laws.check_state_dict(student.module("GatedLinearUnit", 6, 5), ["weight", "bias"])


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("None stands for in_features // 2.")
def test_default_out_features(student: Student) -> None:
    """Without out_features the layer halves the number of features."""
    out_features = new_size()
    layer = student.module("GatedLinearUnit", 2 * out_features)
    check_parameters(layer, 2 * out_features, out_features)


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Half of an odd number of features does not exist: raise a ValueError.")
def test_odd_in_features(student: Student) -> None:
    """An odd in_features without out_features is a ValueError."""
    # That an even one is fine is half of it.
    laws.parameter_named(student.module("GatedLinearUnit", 6), "weight")
    laws.check_errors(student, "GatedLinearUnit", {"in_features": [(7,)]})


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("Only where out_features is None does in_features have to be even.")
def test_explicit_out_features(student: Student) -> None:
    """With an out_features of its own, in_features may be odd and out_features any size."""
    in_features, out_features = 2 * new_size() + 1, new_size()
    layer = student.module("GatedLinearUnit", in_features=in_features, out_features=out_features)
    check_parameters(layer, in_features, out_features)


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("nn.init.uniform_(weight, -bound, bound), bound = 1 / math.sqrt(in_features).")
def test_weight_starts_within_bound(student: Student) -> None:
    """No entry of a new weight is larger in magnitude than 1 / sqrt(in_features)."""
    # From narrow to wide: a fixed spread may fit a narrow layer and not a wide one.
    for n, m in [(new_size(), 8), (2, 64), (4096, 1)]:
        weight = laws.parameter_named(student.module("GatedLinearUnit", n, m), "weight")
        what = f"the weight of a new GatedLinearUnit({n}, {m})"
        assert_tensor(weight, shape=(2 * m, n), what=what)
        formula = "1 / sqrt(in_features)"
        laws.check_starts_within(weight, n**-0.5, fans=(n, 2 * m), what=what, formula=formula)


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("Fill weight with random numbers, and leave the seed alone.")
def test_weight_starts_random(student: Student) -> None:
    """Two new layers start with different weights."""
    laws.check_starts_random(student, "GatedLinearUnit", 6, 5)


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("torch.empty and torch.Tensor(n, m) hold whatever was in memory: fill them.")
def test_parameters_start_finite(student: Student) -> None:
    """A new weight and a new bias hold finite numbers."""
    laws.check_filled(student, "GatedLinearUnit", 6, new_size(), names=("weight", "bias"))


# --- forward -------------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Project to 2 * out_features, split in halves, and only the second is squashed.")
def test_forward(student: Student) -> None:
    """The value half is multiplied by the sigmoid of the gate half."""
    layer, weight, bias = random_layer(student)
    x = torch.randn(4, 6)
    right = gated(x, weight, bias)
    assert_close(layer(x), right)
    assert_close(layer.eval()(x), right, what="the output in evaluation mode")


@pytest.mark.points(2)
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Project with self.weight and self.bias as they are at each call.")
def test_current_values(student: Student) -> None:
    """The current values of weight and bias count, as an optimizer has changed them."""
    layer, x = student.module("GatedLinearUnit", 6, 5), torch.randn(4, 6)
    for _ in range(2):
        weight, bias = randomize(layer, 6, 5)
        what = "the output after weight and bias were changed"
        assert_close(layer(x), gated(x, weight, bias), what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Count dimensions from behind: dim=-1.")
def test_leading_dimensions(student: Student) -> None:
    """Any number of leading dimensions is fine, each row comes out as it does alone."""
    layer = student.module("GatedLinearUnit", 6, 5)
    laws.check_leading_dimensions(student, layer, torch.randn(24, 6), shape=(5,))


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("F.linear and chunk take inputs without rows as they are.")
def test_empty_input(student: Student) -> None:
    """A leading dimension may be 0."""
    layer = student.module("GatedLinearUnit", 6, 5)
    laws.check_shapes(student, layer, {(0, 6): (0, 5), (3, 0, 6): (3, 0, 5)})


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Name no dtype in forward: everything follows from x and the parameters.")
def test_float64(student: Student) -> None:
    """After layer.double() the layer works in float64, and to float64's precision."""
    # Wide enough that a few of the sums cancel, where the rounding of float32 shows.
    layer = student.module("GatedLinearUnit", 20, 10).double()
    weight, bias = randomize(layer, 20, 10)
    x = torch.randn(40, 20, dtype=torch.float64)
    for scale in (1.0, 1e3):  # large values show a gate that alone was rounded
        with torch.no_grad():
            weight[:10] *= scale
            bias[:10] *= scale
        laws.check_float64(layer(x), gated(x, weight, bias).detach(), scale=scale)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Use reshape where you use view, or let F.linear take x as it is.")
def test_non_contiguous(student: Student) -> None:
    """A transposed, sliced or expanded x gives what a contiguous copy of it gives."""
    laws.check_layouts(student, student.module("GatedLinearUnit", 6, 5), torch.randn(3, 3, 6))


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("torch.sigmoid survives any gate; exp(1000) is inf.")
def test_saturated_gates(student: Student) -> None:
    """The formula holds for gates of up to 1e3 in magnitude."""
    for dtype in (torch.float32, torch.float64):
        layer, x, weight, bias = saturated(student, dtype)
        output = assert_tensor(layer(x), shape=(4, 8), dtype=dtype)
        why = "exp overflows to inf there, and inf / inf is NaN"
        laws.check_finite(output, what="the output for large gates", why=why)
        what = f"the output for large gates in {dtype}"
        assert_close(output, gated(x, weight, bias), what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Between x and the output nothing may leave the graph: no detach, no .data.")
def test_gradient_of_x(student: Student) -> None:
    """Gradients flow back to x, through the value and through the gate."""
    layer, weight, bias = random_layer(student)
    x = torch.randn(4, 6, requires_grad=True)
    right = functools.partial(gated, weight=weight.detach(), bias=bias.detach())
    laws.check_gradients(layer(x), {"x": x}, right)


@pytest.mark.points(3)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Use self.weight and self.bias as they are: no detach, no .data, no new tensors.")
def test_gradient_of_parameters(student: Student) -> None:
    """Gradients flow back to weight and bias, in both halves."""
    layer, weight, bias = random_layer(student)
    x = torch.randn(4, 6)
    leaves = {"weight": weight, "bias": bias}
    laws.check_gradients(layer(x), leaves, functools.partial(gated, x))


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Backward through 1 / (1 + exp(-gate)) meets 0 * inf; torch.sigmoid does not.")
def test_saturated_gradients(student: Student) -> None:
    """Gradients are finite for gates of up to 1e3 in magnitude."""
    for dtype in (torch.float32, torch.float64):
        layer, x, weight, bias = saturated(student, dtype)
        x.requires_grad_()
        output = assert_tensor(layer(x), shape=(4, 8), dtype=dtype)
        why = "a sigmoid written with exp overflows at gates of -1000, torch.sigmoid does not"
        laws.check_large_inputs(output, {"x": x, "weight": weight, "bias": bias}, why=why)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Compute with new tensors: no x.mul_(), no +=, on what you were given.")
def test_forward_changes_nothing(student: Student) -> None:
    """Forward leaves x, the parameters, the mode and the random state as they were."""
    layer = student.module("GatedLinearUnit", 6, 5)
    for parameter in randomize(layer, 6, 5):
        parameter.grad = torch.full_like(parameter, STALE)
    x = torch.randn(4, 6)
    laws.check_changes_nothing(student, layer, x, call="forward")
    laws.check_changes_nothing(student, layer.eval(), x, call="forward")


# --- gradient_flow -------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("After backward, a parameter that the output depends on has a .grad.")
def test_flow_tells_who_learns(student: Student) -> None:
    """gradient_flow tells the parameters that a gradient reaches from the others."""
    check_answer(flow(student), LEARNING)


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("Ask whether .grad is None, not how large it is.")
def test_flow_zero_gradient(student: Student) -> None:
    """A gradient that is all zeros is a gradient."""
    # With an input of zeros the weight of the first layer has a gradient of zeros.
    check_answer(flow(student, torch.zeros(5, 4)), LEARNING)


@pytest.mark.points(6)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("old and fresh gradients are both the sandbox's")
@pytest.mark.hint("zero_grad(set_to_none=True), or parameter.grad = None for each parameter.")
def test_flow_stale_gradients(student: Student) -> None:
    """A gradient from before never counts, and is not added to the fresh one."""
    x, seed = torch.randn(5, 4), new_seed()
    clean = flow(student, x, seed).checked().gradients(0)
    seen = flow(student, x, seed, stale=NAMES).checked()
    # Compared with what a clean module gets: whether that is right is another test.
    fresh = {name: gradient for name, gradient in clean.items() if isinstance(gradient, Tensor)}
    left = {name: seen.gradients(0)[name] for name in fresh}
    assert_close(left, fresh, what="the dict of the gradients left on a module with old gradients")
    check_answer(seen, LEARNING)


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("A frozen parameter has no .grad after backward: leave requires_grad as it is.")
def test_flow_frozen(student: Student) -> None:
    """A frozen parameter is False."""
    right = [name for name in LEARNING if name not in FROZEN]
    check_answer(flow(student, frozen=FROZEN), right)


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("If the sum requires no gradient, there is nothing to go backward through.")
def test_flow_all_frozen(student: Student) -> None:
    """If every parameter is frozen, everything is False."""
    check_answer(flow(student, frozen=NAMES), [])


@pytest.mark.points(4)
@pytest.mark.requires("test_flow_stale_gradients", "test_flow_all_frozen")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("Clear the frozen parameters too: an optimizer's zero_grad may not know them.")
def test_flow_stale_frozen(student: Student) -> None:
    """The old gradient of a frozen parameter is cleared, too."""
    for frozen in (FROZEN, NAMES):
        right = [name for name in LEARNING if name not in frozen]
        seen = flow(student, frozen=frozen, stale=NAMES)
        check_answer(seen, right)
        gradients = seen.gradients(0)
        left = [name for name in frozen if gradients[name] is not None]
        assert_equal(left, [], what="the list of the frozen parameters that still have a .grad")


@pytest.mark.points(2)
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Look at .grad, and leave it there.")
def test_flow_leaves_gradients(student: Student) -> None:
    """The fresh gradients of the output's sum are left on the module."""
    x = torch.randn(5, 4)
    seen = flow(student, x).checked()
    after = seen.gradients(0)
    left = {name: after[name] for name in LEARNING}
    right = network_gradients(seen, x)
    assert_close(left, right, what="the dict of the gradients left on the module")


@pytest.mark.points(2)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Run the module on x.detach(): it shares the values, but not the graph.")
def test_flow_leaves_x(student: Student) -> None:
    """x, its .grad, its requires_grad and what it was computed from are left alone."""
    told = "Leave x as it is: run the module on x.detach(), which has no graph."
    only = ("1.values", "1.grad", "1.requires_grad")
    for x in laws.kinds_of(torch.randn(5, 4)):
        network = student.made("network", new_seed(), x.detach())
        laws.check_changes_nothing(student, "gradient_flow", network, x, only=only, told=told)


@pytest.mark.points(2)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Only the gradients change: no train() or eval(), no step, no seed.")
def test_flow_leaves_the_rest(student: Student) -> None:
    """Parameters, requires_grad, modes and the random state are left alone."""
    frozen, allow = ["head.bias", "cut.weight"], ("0.grad", "1.values", "1.grad")
    for evaluating in (["body", "body.1", "unused"], ["", "body", "body.0", "cut", "head"]):
        x = torch.randn(5, 4)
        network = student.made("network", new_seed(), x, frozen=frozen, evaluating=evaluating)
        laws.check_changes_nothing(student, "gradient_flow", network, x, allow=allow)


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("Hand x to the module in the dtype in which it came.")
def test_flow_float64(student: Student) -> None:
    """gradient_flow also works with a module and an x in float64."""
    check_answer(flow(student, torch.randn(5, 4, dtype=torch.float64)), LEARNING)


# --- locally -------------------------------------------------------------------------------------


def gated(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The layer as it should be."""
    value, gate = F.linear(x, weight, bias).chunk(2, dim=-1)
    return value * torch.sigmoid(gate)


def new_size() -> int:
    """A number of features that no answer can know beforehand."""
    return random.randrange(8, 64)


def shapes(rows: int, in_features: int) -> dict[str, list[int]]:
    return {"weight": [rows, in_features], "bias": [rows]}


def check_parameters(layer: nn.Module, in_features: int, out_features: int) -> None:
    """A layer of these sizes has its weight and bias, in float32."""
    call = f"a GatedLinearUnit of {in_features} in_features and {out_features} out_features"
    right = shapes(2 * out_features, in_features)
    for parameter in laws.check_parameters(layer, right, call=call):
        assert_tensor(parameter, dtype=torch.float32, what="a parameter of a new layer")


def own_parameters(layer: nn.Module, in_features: int, out_features: int) -> list[Tensor]:
    """The weight and bias of a layer, or of a module inside: test_parameters says where they belong."""
    own = {name.rpartition(".")[2]: tensor for name, tensor in layer.named_parameters()}
    return [
        assert_tensor(own.get(name), shape=shape, what=f"the layer's {name}")
        for name, shape in shapes(2 * out_features, in_features).items()
    ]


def randomize(layer: nn.Module, in_features: int, out_features: int) -> tuple[Tensor, Tensor]:
    """Give the layer new values, so that nothing depends on how it starts: its weight and bias."""
    weight, bias = own_parameters(layer, in_features, out_features)
    with torch.no_grad():
        for parameter in (weight, bias):
            parameter.copy_(torch.randn(parameter.shape, dtype=parameter.dtype))
    return weight, bias


def saturated(student: Student, dtype: torch.dtype) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A layer, an x (4, 4) whose gates lie around -990 to 990, and the layer's parameters."""
    layer = student.module("GatedLinearUnit", 4, 8).to(dtype)
    weight, bias = randomize(layer, 4, 8)
    with torch.no_grad():
        weight.clamp_(-1, 1)  # so that x adds at most 4 to a gate
        bias[:8] = 2.0
        bias[8:] = torch.tensor([-990.0, -500.0, -100.0, -20.0, 20.0, 100.0, 500.0, 990.0])
    return layer, torch.rand(4, 4, dtype=dtype) * 2 - 1, weight, bias


def random_layer(student: Student) -> tuple[nn.Module, Tensor, Tensor]:
    """A layer of 6 in_features and 5 out_features with new values: its weight and bias."""
    layer = student.module("GatedLinearUnit", 6, 5)
    return layer, *randomize(layer, 6, 5)


# The parameters that a Network's output depends on.
NETWORK = {
    "body.0.weight": (3, 4),
    "body.0.bias": (3,),
    "cut.weight": (3, 4),
    "cut.bias": (3,),
    "head.weight": (2, 3),
    "head.bias": (2,),
    "scale": (),
    "offset": (2,),
}


def network_gradients(seen: laws.Observation, x: Tensor) -> dict[str, Tensor]:
    """The gradients of the sum of the Network's output (batch, 2), by name."""
    values = {
        name: assert_tensor(
            seen.parameters(0).get(name), shape=shape, dtype=x.dtype, what=f"the network's {name}"
        ).requires_grad_()
        for name, shape in NETWORK.items()
    }
    hidden = torch.tanh(F.linear(x, values["body.0.weight"], values["body.0.bias"]))
    hidden = hidden + F.linear(x, values["cut.weight"], values["cut.bias"]).detach()
    output = F.linear(hidden, values["head.weight"], values["head.bias"]) * values["scale"]
    total = (output + values["offset"]).sum()
    gradients = torch.autograd.grad(total, [values[name] for name in LEARNING])
    return dict(zip(LEARNING, gradients, strict=True))


def new_seed() -> int:
    return int(torch.randint(2**31, ()))


def flow(
    student: Student, x: Tensor | None = None, seed: int | None = None, **setting: list[str]
) -> laws.Observation:
    """A call of gradient_flow on a Network of this seed, some of it frozen, stale or evaluating."""
    x = torch.randn(5, 4) if x is None else x
    seed = new_seed() if seed is None else seed
    network = student.made("network", seed, x, old_gradient=STALE, **setting)
    return laws.observe(student, "gradient_flow", network, x)


def reached_by(names: list[str]) -> dict[str, bool]:
    return {name: name in names for name in NAMES}


def check_answer(seen: laws.Observation, right: list[str]) -> None:
    """The answer is True for the names in `right` and False for all others, in any order."""
    what = "the answer of gradient_flow"
    assert_equal(seen.checked().value, reached_by(right), what=what, ordered=False)
