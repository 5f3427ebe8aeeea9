"""Tests of the gated linear unit and gradient_flow."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import Cases, Draw, any_gradients, laws, promise, raises
from grader.judge.student import Student

GLU = "GatedLinearUnit"
OLD_GRADIENT = 7.0
# Parameters of the probe's network, and its submodules in evaluation mode ("" is the network itself).
FROZEN = ["body.0.weight", "head.bias", "unused.bias"]
EVALUATING = [[], ["body", "body.1", "unused"], ["", "body", "body.0", "cut", "head"]]


# --- the parameters ------------------------------------------------------------------------------


@promise(
    "GatedLinearUnit.__init__",
    points=3,
    hint="The layer itself owns two nn.Parameters: self.weight and self.bias.",
)
def test_parameters(code: Student, draw: Draw) -> Cases:
    """The layer has a weight and a bias, learnable, each with rows for the value and for the gate."""
    yield "the parameters", parameters_of(code, 2 * draw.size(), draw.size())


@promise(
    "GatedLinearUnit.__init__",
    points=2,
    hint="None means in_features // 2; only then does in_features have to be even.",
    after="test_parameters",
)
def test_out_features(code: Student, draw: Draw) -> Cases:
    """out_features is half of in_features by default; if it is given, in_features may be odd."""
    yield "the parameters without out_features", parameters_of(code, 2 * draw.size())
    yield (
        "the parameters for odd in_features",
        parameters_of(code, 2 * draw.size() + 1, draw.size()),
    )


@promise(
    "GatedLinearUnit.__init__",
    hint="Half of an odd number of features does not exist: raise a ValueError.",
    word="the sandbox says that it raised",
)
def test_odd_in_features(code: Student, draw: Draw) -> Cases:
    """An odd in_features without out_features is a ValueError."""
    yield "GatedLinearUnit(7)", raises(ValueError, "in_features", code.module, GLU, 7)


@promise(
    "GatedLinearUnit.__init__",
    hint="What you register as a parameter or a buffer is saved with the model.",
    after="test_parameters",
    word="the sandbox says what the state dict holds",
)
def test_nothing_else(student: Student) -> None:
    """Only weight and bias are in the state_dict."""
    laws.check_state_dict(student.module(GLU, 6, 5), ["weight", "bias"])


@promise(
    "GatedLinearUnit.__init__",
    points=3,
    hint="nn.init.uniform_(weight, -0.1, 0.1) starts it random; torch.empty holds whatever was in memory.",
)
def test_starts(student: Student) -> None:
    """A new weight is random, and weight and bias hold finite numbers."""
    laws.check_filled(student, GLU, 6, 5, names=("weight", "bias"))
    laws.check_starts_random(student, GLU, 6, 5)


# --- forward -------------------------------------------------------------------------------------


@promise(
    "GatedLinearUnit.forward",
    points=12,
    hint="Project to 2 * out_features, split in halves, and only the second is squashed.",
)
def test_forward(code: Student, draw: Draw) -> Cases:
    """The value half is multiplied by the sigmoid of the gate half."""
    layer = draw.fill(code.module(GLU, 6, 5))
    yield "the output", any_gradients(layer(draw.normal(4, 6)))


@promise(
    "GatedLinearUnit.forward",
    points=2,
    hint="Project with self.weight and self.bias as they are at each call.",
)
def test_current_values(code: Student, draw: Draw) -> Cases:
    """The layer uses the current values of weight and bias, which an optimizer may have changed."""
    layer, x = code.module(GLU, 6, 5), draw.normal(4, 6)
    layer(x)
    draw.fill(layer).eval()
    yield "the output after weight and bias were changed", any_gradients(layer(x))


@promise(
    "GatedLinearUnit.forward",
    points=3,
    hint="Count dimensions from behind: dim=-1.",
    after="test_forward",
)
def test_leading_dimensions(code: Student, draw: Draw) -> Cases:
    """Any number of leading dimensions is fine, and any of them may be 0."""
    layer = draw.fill(code.module(GLU, 6, 5))
    for leading in [(), (1,), (2, 3, 2), (3, 0)]:
        output = layer(draw.normal(*leading, 6))
        yield f"the output for x of shape {(*leading, 6)}", any_gradients(output)


@promise(
    "GatedLinearUnit.forward",
    hint="Name no dtype in forward: everything follows from x and the parameters.",
    after="test_forward",
)
def test_float64(code: Student, draw: Draw) -> Cases:
    """After layer.double() the layer works in float64, and to float64's precision."""
    layer = draw.fill(code.module(GLU, 20, 10).double(), scale=3.0)
    output = layer(draw.normal(40, 20, dtype=torch.float64))
    yield "the output", any_gradients(output)


@promise(
    "GatedLinearUnit.forward",
    hint="Use reshape where you use view, or let F.linear take x as it is.",
    after="test_forward",
)
def test_non_contiguous(code: Student, draw: Draw) -> Cases:
    """x need not be contiguous: it may be transposed, sliced or expanded."""
    layer = draw.fill(code.module(GLU, 6, 5))
    for layout, x in laws.layouts_of(draw.normal(3, 3, 6)).items():
        yield f"the output for x {layout} in memory", any_gradients(layer(x))


@promise(
    "GatedLinearUnit.forward",
    points=6,
    hint="Between leaves and output nothing may leave the graph: no detach, no .data.",
    after="test_forward",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients flow back to x, weight and bias, through the value and through the gate."""
    layer = draw.fill(code.module(GLU, 6, 5))
    yield "the output", layer(draw.normal(4, 6, grad="x"))


@promise(
    "GatedLinearUnit.forward",
    points=3,
    hint="Backward through 1 / (1 + exp(-gate)) meets 0 * inf; torch.sigmoid does not.",
    after="test_forward",
)
def test_large_gates(code: Student, draw: Draw) -> Cases:
    """For gates of up to 1e3 in magnitude the formula holds, and gradients are finite."""
    layer = draw.fill(code.module(GLU, 4, 8), weight=0.1, bias=400.0)
    with torch.no_grad():
        draw.leaves["bias"][:8] = 2.0  # the values stay small
    yield "the output for large gates", layer(draw.uniform(4, 4, low=-1, grad="x"))


@promise(
    "GatedLinearUnit.forward",
    hint="Compute with new tensors: no x.mul_(), no +=, on your arguments.",
    after="test_forward",
)
def test_forward_changes_nothing(student: Student) -> None:
    """Forward leaves x, the parameters, the mode and the random state as they were."""
    layer = student.module(GLU, 6, 5)
    for parameter in layer.parameters():
        parameter.grad = torch.full_like(parameter, OLD_GRADIENT)
    laws.check_changes_nothing(student, layer, torch.randn(4, 6), call="forward")


# --- gradient_flow -------------------------------------------------------------------------------


@promise(
    "gradient_flow",
    points=5,
    hint="After backward, a parameter that the output depends on has a .grad.",
    word="the sandbox says which gradients there are",
)
def test_flow_tells_who_learns(code: Student, draw: Draw) -> Cases:
    """gradient_flow distinguishes parameters that a gradient reaches from the others."""
    yield "the answer of gradient_flow", flow(code, draw)


@promise(
    "gradient_flow",
    hint="Ask whether .grad is None, not how large it is.",
    after="test_flow_tells_who_learns",
    word="the sandbox says which gradients there are",
)
def test_flow_zero_gradient(code: Student, draw: Draw) -> Cases:
    """A gradient that is all zeros is a gradient."""
    # For an input of zeros, the gradient of the first layer's weight is all zeros.
    yield "the answer of gradient_flow", flow(code, draw, scale=0.0)


@promise(
    "gradient_flow",
    points=6,
    hint="zero_grad(set_to_none=True), or parameter.grad = None for each parameter.",
    after="test_flow_tells_who_learns",
    word="the sandbox says which gradients there are",
)
def test_flow_old_gradients(code: Student, draw: Draw) -> Cases:
    """Old gradients never count."""
    yield "the answer of gradient_flow", flow(code, draw, old_gradient=OLD_GRADIENT)


@promise(
    "gradient_flow",
    points=2,
    hint="If the sum requires no gradient, there is nothing to go backward through.",
    after="test_flow_tells_who_learns",
    word="the sandbox says which gradients there are",
)
def test_flow_frozen(code: Student, draw: Draw) -> Cases:
    """A frozen parameter is False, and if all are frozen, all are False."""
    for frozen in (FROZEN, ["all"]):
        yield "the answer of gradient_flow", flow(code, draw, frozen=frozen)


@promise(
    "gradient_flow",
    points=4,
    hint="Clear the frozen parameters too: an optimizer's zero_grad may not know them.",
    after=("test_flow_old_gradients", "test_flow_frozen"),
    word="the sandbox says which gradients there are",
)
def test_flow_old_gradients_of_frozen(code: Student, draw: Draw) -> Cases:
    """The old gradient of a frozen parameter is cleared, too."""
    for frozen in (FROZEN, ["all"]):
        left = gradients_left(code, draw, frozen=frozen)
        yield (
            "the parameters with a .grad",
            sorted(n for n, grad in left.items() if grad is not None),
        )


@promise(
    "gradient_flow",
    points=3,
    hint="Look at .grad, and leave it there; hand x to the module in its own dtype.",
)
def test_flow_leaves_gradients(code: Student, draw: Draw) -> Cases:
    """The fresh gradients of the output's sum are left on the module, without old ones, in float64."""
    left = gradients_left(code, draw, dtype=torch.float64)
    yield "the gradients left on the module", {n: g for n, g in left.items() if g is not None}


@promise(
    "gradient_flow",
    points=4,
    hint="Run the module on x.detach(), without train() or eval(), a step or a seed.",
    after="test_flow_tells_who_learns",
)
def test_flow_changes_nothing_else(student: Student) -> None:
    """Parameters, requires_grad, modes, x with its .grad, and the tensors behind x are left alone."""
    data, _, leaf, computed = laws.kinds_of(torch.randn(5, 4))  # the leaf has a .grad
    for x, evaluating in zip((data, leaf, computed), EVALUATING, strict=True):
        network = student.made("network", 0, x.detach(), frozen=FROZEN, evaluating=evaluating)
        laws.check_changes_nothing(student, "gradient_flow", network, x, allow=("0.grad",))


# --- helpers of the tests ------------------------------------------------------------------------


def parameters_of(code: Student, *sizes: int) -> dict[str, Any]:
    """For each parameter of a new layer: its shape, its dtype, and whether it learns."""
    named = code.module(GLU, *sizes).named_parameters()
    return {name: [list(p.shape), str(p.dtype), p.requires_grad] for name, p in named}


def flow(code: Student, draw: Draw, *, scale: float = 1.0, **setting: Any) -> Any:
    """The answer of gradient_flow for a new network of the probe."""
    x = draw.normal(5, 4, scale=scale)
    return code.function("gradient_flow")(code.made("network", draw.seed(), x, **setting), x)


def gradients_left(
    code: Student, draw: Draw, *, dtype: torch.dtype = torch.float32, **setting: Any
) -> dict[str, Any]:
    """The gradients on a network after gradient_flow. It had old gradients before."""
    x = draw.normal(5, 4, dtype=dtype)
    network = code.made("network", draw.seed(), x, old_gradient=OLD_GRADIENT, **setting)
    return laws.observe(code, "gradient_flow", network, x).checked().gradients(0)
