"""Tests of the gated linear unit and gradient_flow."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

# The parameters of the probe's Network, sorted, and what becomes of each.
LEARNING = ["body.0.bias", "body.0.weight", "head.bias", "head.weight", "scale"]
CUT_OFF = ["cut.bias", "cut.weight", "unused.bias", "unused.weight"]
NAMES = sorted(LEARNING + CUT_OFF)
FROZEN = ["body.0.weight", "head.bias", "unused.bias"]
# Submodules that are in evaluation mode; "" is the network itself.
EVALUATING = [[], ["body", "body.1", "unused"], ["", "body", "body.0", "cut", "head"]]

OLD_GRADIENT = 7.0
LARGE_GATES = torch.tensor([-990.0, -500.0, -100.0, -20.0, 20.0, 100.0, 500.0, 990.0])
# Values so large that a gate that alone was rounded to float32 shows in them.
LARGE_VALUES = 1e3


# --- the parameters ------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("The layer itself owns two nn.Parameters: self.weight and self.bias.")
def test_parameters(student: Student) -> None:
    """The layer has a weight and a bias, learnable, each with rows for the value and for the gate."""
    in_features, out_features = 2 * new_size(), new_size()
    layer = student.module("GatedLinearUnit", in_features, out_features)
    check_parameters(layer, in_features, out_features)


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.word("the sandbox says what the state dict holds")
@pytest.mark.hint("What you register as a parameter or a buffer is saved with the model.")
def test_nothing_else(student: Student) -> None:
    """Nothing but weight and bias appears in the state_dict."""
    laws.check_state_dict(student.module("GatedLinearUnit", 6, 5), ["weight", "bias"])


@pytest.mark.points(2)
@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("None stands for in_features // 2; only then does in_features have to be even.")
def test_out_features(student: Student) -> None:
    """Without out_features the layer halves in_features, which with one may also be odd."""
    half, odd, out_features = new_size(), 2 * new_size() + 1, new_size()
    check_parameters(student.module("GatedLinearUnit", 2 * half), 2 * half, half)
    layer = student.module("GatedLinearUnit", in_features=odd, out_features=out_features)
    check_parameters(layer, odd, out_features)


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Half of an odd number of features does not exist: raise a ValueError.")
def test_odd_in_features(student: Student) -> None:
    """An odd in_features without out_features is a ValueError."""
    laws.check_errors(student, "GatedLinearUnit", {"in_features": [(7,)]}, fine=(6,))


@pytest.mark.points(2)
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("nn.init.uniform_(weight, -bound, bound), bound = 1 / math.sqrt(in_features).")
def test_weight_starts(student: Student) -> None:
    """A new weight is random, and no entry is larger in magnitude than 1 / sqrt(in_features)."""
    # A fixed spread may fit a narrow layer and not a wide one.
    for in_features, out_features in [(4096, 1), (2, new_size())]:
        layer = student.module("GatedLinearUnit", in_features, out_features)
        weight = laws.parameter_named(layer, "weight")
        what = f"the weight of a new GatedLinearUnit({in_features}, {out_features})"
        assert_tensor(weight, shape=(2 * out_features, in_features), what=what)
        fans, formula = (in_features, 2 * out_features), "1 / sqrt(in_features)"
        laws.check_starts_within(weight, in_features**-0.5, fans=fans, what=what, formula=formula)
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
    assert_close(layer(x), gated(x, weight, bias))


@pytest.mark.points(2)
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Project with self.weight and self.bias as they are at each call.")
def test_current_values(student: Student) -> None:
    """The current values of weight and bias count, as an optimizer has changed them."""
    layer, x = student.module("GatedLinearUnit", 6, 5), torch.randn(4, 6)
    layer(x)
    weight, bias = randomize(layer, 6, 5)
    what = "the output after weight and bias were changed, in evaluation mode"
    assert_close(layer.eval()(x), gated(x, weight, bias), what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Count dimensions from behind: dim=-1.")
def test_leading_dimensions(student: Student) -> None:
    """Any number of leading dimensions is fine, and any of them may be 0."""
    layer, weight, bias = random_layer(student)
    for leading in [(), (1,), (2, 3, 2), (3, 0)]:
        x = torch.randn(*leading, 6)
        what = f"the output for x of shape {tuple(x.shape)}"
        assert_close(layer(x), gated(x, weight, bias), what=what)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Name no dtype in forward: everything follows from x and the parameters.")
def test_float64(student: Student) -> None:
    """After layer.double() the layer works in float64, and to float64's precision."""
    # Wide enough that a few of the sums cancel, where the rounding of float32 shows.
    layer, weight, bias = random_layer(student, 20, 10, torch.float64)
    with torch.no_grad():
        weight[:10] *= LARGE_VALUES
        bias[:10] *= LARGE_VALUES
    x = torch.randn(40, 20, dtype=torch.float64)
    laws.check_float64(layer(x), gated(x, weight, bias).detach(), scale=LARGE_VALUES)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Use reshape where you use view, or let F.linear take x as it is.")
def test_non_contiguous(student: Student) -> None:
    """x need not be contiguous: it may be transposed, sliced or expanded."""
    layer, weight, bias = random_layer(student)
    layouts = laws.layouts_of(torch.randn(3, 3, 6))
    for layout in ("transposed", "sliced", "expanded"):
        x, what = layouts[layout], f"the output for x {layout} in memory"
        assert_close(layer(x), gated(x, weight, bias), what=what)


@pytest.mark.points(6)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Between leaves and output nothing may leave the graph: no detach, no .data.")
def test_gradients(student: Student) -> None:
    """Gradients flow back to x, weight and bias, through the value and through the gate."""
    layer, weight, bias = random_layer(student)
    x = torch.randn(4, 6, requires_grad=True)
    laws.check_gradients(layer(x), {"x": x, "weight": weight, "bias": bias}, gated)


@pytest.mark.points(3)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Backward through 1 / (1 + exp(-gate)) meets 0 * inf; torch.sigmoid does not.")
def test_large_gates(student: Student) -> None:
    """For gates of up to 1e3 in magnitude the formula holds, and gradients are finite."""
    layer, weight, bias = random_layer(student, 4, len(LARGE_GATES))
    with torch.no_grad():
        weight.clamp_(-1, 1)  # so that x adds at most 4 to a gate
        bias[:8] = 2.0
        bias[8:] = LARGE_GATES
    x = (torch.rand(4, 4) * 2 - 1).requires_grad_()
    output = layer(x)
    assert_close(output, gated(x, weight, bias), what="the output for large gates")
    why = "a sigmoid written with exp overflows at gates of -1000, torch.sigmoid does not"
    laws.check_large_inputs(output, {"x": x, "weight": weight, "bias": bias}, why=why)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Compute with new tensors: no x.mul_(), no +=, on what you were given.")
def test_forward_changes_nothing(student: Student) -> None:
    """Forward leaves x, the parameters, the mode and the random state as they were."""
    layer, *parameters = random_layer(student)
    for parameter in parameters:
        parameter.grad = torch.full_like(parameter, OLD_GRADIENT)
    laws.check_changes_nothing(student, layer, torch.randn(4, 6), call="forward")


# --- gradient_flow -------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("After backward, a parameter that the output depends on has a .grad.")
def test_flow_tells_who_learns(student: Student) -> None:
    """gradient_flow tells the parameters that a gradient reaches from the others."""
    check_answer(answer(student), LEARNING)


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("Ask whether .grad is None, not how large it is.")
def test_flow_zero_gradient(student: Student) -> None:
    """A gradient that is all zeros is a gradient."""
    # With an input of zeros the weight of the first layer has a gradient of zeros.
    check_answer(answer(student, torch.zeros(5, 4)), LEARNING)


@pytest.mark.points(6)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("zero_grad(set_to_none=True), or parameter.grad = None for each parameter.")
def test_flow_old_gradients(student: Student) -> None:
    """A gradient from before never counts."""
    check_answer(answer(student, old_gradient=OLD_GRADIENT), LEARNING)


@pytest.mark.points(2)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("If the sum requires no gradient, there is nothing to go backward through.")
def test_flow_frozen(student: Student) -> None:
    """A frozen parameter is False, and if all are frozen everything is."""
    for frozen in (FROZEN, NAMES, LEARNING):
        right = [name for name in LEARNING if name not in frozen]
        check_answer(answer(student, frozen=frozen), right)


@pytest.mark.points(4)
@pytest.mark.requires("test_flow_old_gradients", "test_flow_frozen")
@pytest.mark.place("gradient_flow")
@pytest.mark.word("the sandbox says which gradients there are")
@pytest.mark.hint("Clear the frozen parameters too: an optimizer's zero_grad may not know them.")
def test_flow_old_gradients_of_frozen(student: Student) -> None:
    """The old gradient of a frozen parameter is cleared, too."""
    for frozen in (FROZEN, NAMES):
        x = torch.randn(5, 4)
        network = new_network(student, x, frozen=frozen, old_gradient=OLD_GRADIENT)
        seen = laws.observe(student, "gradient_flow", network, x).checked()
        check_answer(seen.value, [name for name in LEARNING if name not in frozen])
        gradients = seen.gradients(0)
        left = [name for name in frozen if gradients[name] is not None]
        assert_equal(left, [], what="the list of the frozen parameters that still have a .grad")


@pytest.mark.points(3)
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Look at .grad, and leave it there; hand x to the module in its own dtype.")
def test_flow_leaves_gradients(student: Student) -> None:
    """The fresh gradients of the output's sum are left on the module, without old ones, in float64."""
    x = torch.randn(5, 4, dtype=torch.float64)
    network = new_network(student, x, old_gradient=OLD_GRADIENT)
    seen = laws.observe(student, "gradient_flow", network, x).checked()
    left = {name: seen.gradients(0)[name] for name in LEARNING}
    what = "the dict of the gradients left on the module"
    assert_close(left, network_gradients(seen, x), what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Run the module on x.detach(), without train() or eval(), a step or a seed.")
def test_flow_changes_nothing_else(student: Student) -> None:
    """Parameters, requires_grad, modes, x with its .grad and what x was computed from are left alone."""
    data, _, leaf, computed = laws.kinds_of(torch.randn(5, 4))  # the leaf has a .grad
    for x, evaluating in zip((data, leaf, computed), EVALUATING, strict=True):
        network = new_network(student, x.detach(), frozen=FROZEN, evaluating=evaluating)
        laws.check_changes_nothing(student, "gradient_flow", network, x, allow=("0.grad",))


# --- locally -------------------------------------------------------------------------------------


def gated(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The layer as it should be."""
    value, gate = F.linear(x, weight, bias).chunk(2, dim=-1)
    return value * torch.sigmoid(gate)


def new_size() -> int:
    """A number of features that no answer can know beforehand."""
    return random.randrange(8, 64)


def check_parameters(layer: nn.Module, in_features: int, out_features: int) -> None:
    """A layer of these sizes has its weight and bias, learnable and in float32."""
    call = f"a GatedLinearUnit of {in_features} in_features and {out_features} out_features"
    shapes = {"weight": (2 * out_features, in_features), "bias": (2 * out_features,)}
    for name, parameter in zip(
        shapes, laws.check_parameters(layer, shapes, call=call), strict=True
    ):
        assert_tensor(parameter, dtype=torch.float32, what="a parameter of a new layer")
        assert parameter.requires_grad, f"{name} is not learnable: its requires_grad is False."


def randomize(layer: nn.Module, in_features: int, out_features: int) -> tuple[Tensor, Tensor]:
    """Give the layer new values, so that nothing depends on how it starts: its weight and bias.

    They may also be those of a module inside: where they belong is judged by test_parameters.
    """
    own = {name.rpartition(".")[2]: tensor for name, tensor in layer.named_parameters()}
    rows = 2 * out_features
    weight = assert_tensor(own.get("weight"), shape=(rows, in_features), what="the layer's weight")
    bias = assert_tensor(own.get("bias"), shape=(rows,), what="the layer's bias")
    with torch.no_grad():
        for parameter in (weight, bias):
            parameter.copy_(torch.randn(parameter.shape, dtype=parameter.dtype))
    return weight, bias


def random_layer(
    student: Student,
    in_features: int = 6,
    out_features: int = 5,
    dtype: torch.dtype = torch.float32,
) -> tuple[nn.Module, Tensor, Tensor]:
    """A layer with new values: itself, its weight and its bias."""
    layer = student.module("GatedLinearUnit", in_features, out_features).to(dtype)
    return layer, *randomize(layer, in_features, out_features)


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


def new_network(student: Student, like: Tensor, **setting: Any) -> Made:
    """A Network with new values, some of it frozen, in evaluation mode or with an old gradient."""
    return student.made("network", int(torch.randint(2**31, ())), like, **setting)


def answer(student: Student, x: Tensor | None = None, **setting: Any) -> Any:
    """The answer of gradient_flow for a new Network."""
    x = torch.randn(5, 4) if x is None else x
    return student.function("gradient_flow")(new_network(student, x, **setting), x)


def check_answer(flow: Any, right: list[str]) -> None:
    """The answer is True for the names in `right` and False for all others, in any order."""
    expected = {name: name in right for name in NAMES}
    assert_equal(flow, expected, what="the answer of gradient_flow", ordered=False)
