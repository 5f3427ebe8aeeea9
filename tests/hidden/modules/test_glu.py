"""What the gated linear unit and gradient_flow promise, sentence by sentence."""

from __future__ import annotations

import contextlib
import functools
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from grader.judge.checks import (
    Observation,
    assert_close,
    assert_equal,
    assert_tensor,
    check_changes_nothing,
    check_filled,
    check_finite,
    check_float64,
    check_gradients,
    check_large_inputs,
    check_layouts,
    check_leading_dimensions,
    check_parameters,
    check_shapes,
    check_state_dict,
    must_raise,
    observe,
)
from grader.judge.outcomes import StudentError
from grader.judge.student import Student

# The parameters of the probe's Network, sorted, and the fate of each.
LEARNING = ["body.0.bias", "body.0.weight", "head.bias", "head.weight", "scale"]
CUT_OFF = ["cut.bias", "cut.weight", "unused.bias", "unused.weight"]
NAMES = sorted(LEARNING + CUT_OFF)
STALE = 7.0


# --- the parameters ------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("The layer itself owns two nn.Parameters: self.weight and self.bias.")
def test_parameters(student: Student) -> None:
    """The layer has a weight and a bias, each with rows for the value and for the gate."""
    for in_features, out_features in [(6, 5), (4, 7)]:
        layer = student.module("GatedLinearUnit", in_features, out_features)
        layer_parameters(layer, in_features, out_features)


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("An nn.Parameter requires a gradient unless you tell it not to.")
def test_learnable(student: Student) -> None:
    """Weight and bias are both learnable."""
    layer = student.module("GatedLinearUnit", 6, 5)
    for name, parameter in layer.named_parameters():
        assert parameter.requires_grad, f"{name} is not learnable: its requires_grad is False."


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("What you register as a parameter or a buffer is saved with the model.")
def test_nothing_else(student: Student) -> None:
    """Nothing but weight and bias appears in the state_dict."""
    check_state_dict(student.module("GatedLinearUnit", 6, 5), ["weight", "bias"])


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("None stands for in_features // 2.")
def test_default_out_features(student: Student) -> None:
    """Without out_features the layer halves the number of features."""
    shapes = []
    for in_features in (6, 10):
        layer = student.module("GatedLinearUnit", in_features)
        shapes.append(shapes_of(layer))
    assert_equal(
        shapes,
        [layer_shapes(6, 3), layer_shapes(10, 5)],
        what="the list of parameter shapes of GatedLinearUnit(6) and GatedLinearUnit(10)",
        mistakes=lambda: {
            "Without out_features your layer keeps the number of features: None means "
            "in_features // 2, not in_features.": [layer_shapes(6, 6), layer_shapes(10, 10)],
            "Without out_features your weight has in_features // 2 rows; it needs twice as many, "
            "for the value and for the gate.": [half_shapes(6, 3), half_shapes(10, 5)],
            "Without out_features your layer doubles the number of features: None means "
            "in_features // 2.": [layer_shapes(6, 12), layer_shapes(10, 20)],
        },
    )


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("Half of an odd number of features does not exist: raise a ValueError.")
def test_odd_in_features(student: Student) -> None:
    """An odd in_features without out_features is a ValueError."""
    even = student.module("GatedLinearUnit", 6)  # that this one is fine is half of it
    new_parameter(even, "weight")
    for in_features in (7, 1):
        call = f"GatedLinearUnit({in_features})"
        with must_raise(ValueError, mentions="in_features", call=call):
            student.module("GatedLinearUnit", in_features)


@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("Only where out_features is None does in_features have to be even.")
def test_explicit_out_features(student: Student) -> None:
    """With an out_features of its own, in_features may be odd and out_features any size."""
    ignored = "out_features is ignored: it has to decide the number of rows."
    for in_features, out_features in [(7, 3), (1, 1), (3, 8)]:
        layer = student.module("GatedLinearUnit", in_features, out_features)
        what = f"the dict of parameter shapes of GatedLinearUnit({in_features}, {out_features})"
        mistakes = {ignored: layer_shapes(in_features, in_features // 2)}
        right = layer_shapes(in_features, out_features)
        assert_equal(shapes_of(layer), right, what=what, mistakes=mistakes)
    layer = student.module("GatedLinearUnit", in_features=7, out_features=3)
    what = "the dict of parameter shapes of GatedLinearUnit(in_features=7, out_features=3)"
    assert_equal(shapes_of(layer), layer_shapes(7, 3), what=what)


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint(
    "nn.init.uniform_(weight, -bound, bound) with bound = 1 / math.sqrt(in_features)."
)
def test_weight_starts_within_bound(student: Student) -> None:
    """No entry of a new weight is larger in magnitude than 1 / sqrt(in_features)."""
    # From narrow to wide: a fixed spread may fit a narrow layer and not a wide one.
    for in_features, out_features in [(64, 8), (2, 64), (4096, 1)]:
        layer = student.module("GatedLinearUnit", in_features, out_features)
        weight = new_parameter(layer, "weight")
        what = f"the weight of a new GatedLinearUnit({in_features}, {out_features})"
        assert_tensor(weight, shape=(2 * out_features, in_features), what=what)
        check_finite(weight, what=what, why="is it filled everywhere?")
        largest, bound = weight.abs().max().item(), 1 / math.sqrt(in_features)
        assert largest <= bound * (1 + 1e-5), (
            f"T{what[1:]} has an entry of magnitude {largest:.4g}; it starts too large, the bound is "
            f"1 / sqrt(in_features) = {bound:.4g}. {likely_start(weight, in_features, out_features)}"
        )


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("Fill weight with random numbers, and leave the seed alone.")
def test_weight_starts_random(student: Student) -> None:
    """Two new layers start with different weights."""
    layers = [student.module("GatedLinearUnit", 6, 5) for _ in range(2)]
    first, second = (new_parameter(layer, "weight") for layer in layers)
    for weight in (first, second):
        check_finite(weight, what="a new weight", why="is it filled everywhere?")
    assert first.any() or second.any(), (
        "A new weight is all zeros: the value is then zero, and no gradient reaches the gate. "
        "It has to start random."
    )
    assert not torch.equal(first, second), (
        "Two new layers start with the same weight: it has to start random, each time anew. "
        "(Is it a constant, or is a seed set on the way?)"
    )
    starts = [observe(student, "GatedLinearUnit", 6, 5) for _ in range(2)]
    assert starts[0].draws != starts[1].draws and not any(seen.was_seeded() for seen in starts), (
        "Making a layer sets the seed of the global random state: leave the seed alone."
    )


@pytest.mark.place("GatedLinearUnit.__init__")
@pytest.mark.hint("torch.empty and torch.Tensor(n, m) hold whatever was in memory: fill them.")
def test_parameters_start_finite(student: Student) -> None:
    """A new weight and a new bias hold finite numbers."""
    for in_features, out_features in [(6, 5), (64, None)]:
        names = ("weight", "bias")
        check_filled(student, "GatedLinearUnit", in_features, out_features, names=names)


# --- forward -------------------------------------------------------------------------------------


@pytest.mark.points(14)
@pytest.mark.requires("test_parameters")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Project to 2 * out_features, split in halves, and only the second is squashed.")
def test_forward(student: Student) -> None:
    """The value half is multiplied by the sigmoid of the gate half."""
    layer = student.module("GatedLinearUnit", 6, 5)
    before = [tensor.detach().clone() for tensor in layer_parameters(layer, 6, 5)]
    x = torch.randn(4, 6)
    for mode, when in (
        ("training", "when the layer was made"),
        ("evaluation", "at an earlier call of forward"),
    ):
        weight, bias = randomize(layer, 6, 5)  # new values each time: nothing is to be kept
        expected = gated(x, weight, bias)
        old = f"Your output uses the values that {{}} had {when}: use self.{{}} in forward."
        output = layer.train(mode == "training")(x)
        check_split(output, x)
        assert_close(
            output,
            expected,
            what=f"the output in {mode} mode",
            mistakes=lambda: {
                **mistaken_outputs(x, weight, bias),
                old.format("weight and bias", "weight and self.bias"): gated(x, *before),
                old.format("weight", "weight"): gated(x, before[0], bias),
                old.format("bias", "bias"): gated(x, weight, before[1]),
            },
        )
        before = [tensor.detach().clone() for tensor in (weight, bias)]


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Count dimensions from behind: dim=-1.")
def test_leading_dimensions(student: Student) -> None:
    """Any number of leading dimensions is fine, each row comes out as it does alone."""
    layer = student.module("GatedLinearUnit", 6, 5)
    check_leading_dimensions(student, layer, torch.randn(24, 6), shape=(5,), look=check_split)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Where no row comes in, no row goes out; F.linear and chunk know that.")
def test_empty_input(student: Student) -> None:
    """A leading dimension may be 0."""
    layer = student.module("GatedLinearUnit", 6, 5)
    check_shapes(student, layer, {(0, 6): (0, 5), (3, 0, 6): (3, 0, 5), (0, 2, 6): (0, 2, 5)})


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
        check_float64(layer(x), gated(x, weight, bias).detach(), scale=scale)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Use reshape where you use view, or let F.linear take x as it is.")
def test_non_contiguous(student: Student) -> None:
    """A transposed, sliced or expanded x gives what a contiguous copy of it gives."""
    check_layouts(student, student.module("GatedLinearUnit", 6, 5), torch.randn(3, 3, 6))


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("torch.sigmoid survives any gate; exp(1000) is inf.")
def test_saturated_gates(student: Student) -> None:
    """The formula holds for gates of up to 1e3 in magnitude."""
    for dtype in (torch.float32, torch.float64):
        layer, x, (weight, bias) = saturated(student, dtype)
        output = assert_tensor(layer(x), shape=(4, 8), dtype=dtype)
        why = "exp overflows to inf there, and inf / inf is NaN"
        check_finite(output, what="the output for large gates", why=why)
        value, gate = F.linear(x, weight, bias).chunk(2, dim=-1)
        assert_close(
            output,
            value * torch.sigmoid(gate),
            what=f"the output for large gates in {dtype}",
            mistakes=lambda: {
                f"Your gates are clamped to {limit}, so that none closes fully.": clamped
                for limit in (1, 5, 6, 10, 15, 20)
                for clamped in [value * torch.sigmoid(gate.clamp(-limit, limit))]
            },
        )


@pytest.mark.points(3)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Between x and the output nothing may leave the graph: no detach, no .data.")
def test_gradient_of_x(student: Student) -> None:
    """Gradients flow back to x, through the value and through the gate."""
    layer, x, weight, bias = backward_case(student)
    x.requires_grad_()
    right, mistakes = gradient_formulas(weight=weight.detach(), bias=bias.detach())
    check_gradients(layer(x), {"x": x}, lambda x: right(x=x), mistakes=mistakes("x"))


@pytest.mark.points(3)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Use self.weight and self.bias as they are: no detach, no .data, no new tensors.")
def test_gradient_of_parameters(student: Student) -> None:
    """Gradients flow back to weight and bias, in both halves."""
    layer, x, weight, bias = backward_case(student)
    right, mistakes = gradient_formulas(x=x)
    leaves = {"weight": weight, "bias": bias}
    check_gradients(
        layer(x), leaves, lambda w, b: right(weight=w, bias=b), mistakes=mistakes("weight", "bias")
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint(
    "Backward through 1 / (1 + exp(-gate)) meets 0 * inf = NaN; torch.sigmoid does not."
)
def test_saturated_gradients(student: Student) -> None:
    """Gradients are finite for gates of up to 1e3 in magnitude."""
    for dtype in (torch.float32, torch.float64):
        layer, x, (weight, bias) = saturated(student, dtype)
        x.requires_grad_()
        output = assert_tensor(layer(x), shape=(4, 8), dtype=dtype)
        why = "a sigmoid written with exp overflows at gates of -1000, torch.sigmoid does not"
        check_large_inputs(output, {"x": x, "weight": weight, "bias": bias}, why=why)


@pytest.mark.requires("test_forward")
@pytest.mark.place("GatedLinearUnit.forward")
@pytest.mark.hint("Compute with new tensors: no x.mul_(), no +=, on what you were given.")
def test_forward_changes_nothing(student: Student) -> None:
    """Forward leaves x, the parameters, the mode and the random state as they were."""
    layer = student.module("GatedLinearUnit", 6, 5)
    for parameter in randomize(layer, 6, 5):
        parameter.grad = torch.full_like(parameter, STALE)
    for training in (True, False):
        check_changes_nothing(student, layer.train(training), torch.randn(4, 6), call="forward")
    for x in (torch.randn(6), torch.randn(2, 3, 6)):
        with contextlib.suppress(StudentError):  # which shapes forward takes is not the question
            check_changes_nothing(student, layer, x, call="forward")


# --- gradient_flow -------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("After backward, a parameter that the output depends on has a .grad.")
def test_flow_tells_who_learns(student: Student) -> None:
    """gradient_flow tells the parameters that a gradient reaches from the others."""
    right = reached_by(LEARNING)
    check_answer(
        flow(student).value,
        right,
        {
            "Every parameter is True, those that forward does not use or detaches too: look at "
            ".grad after the backward pass, not at requires_grad.": reached_by(NAMES),
            "Every parameter is False: look at .grad after the backward pass, and before anything "
            "clears it.": reached_by([]),
            "Your answer is inverted: True means that a gradient arrived.": reached_by(CUT_OFF),
            "A buffer (offset) is in your answer: only parameters count.": {
                **right,
                "offset": False,
            },
            "A buffer (offset) is True in your answer: only parameters count.": {
                **right,
                "offset": True,
            },
            "Only the module's own parameters are in your answer: named_parameters() also goes "
            "into the submodules.": {"scale": True},
            "Only the parameters that a gradient reaches are in your answer: the others belong "
            "there too, as False.": dict.fromkeys(LEARNING, True),
            "Only weights are in your answer: every named parameter belongs there.": {
                name: name in LEARNING for name in NAMES if name.endswith("weight")
            },
        },
    )


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Ask whether .grad is None, not how large it is.")
def test_flow_zero_gradient(student: Student) -> None:
    """A gradient that is all zeros is a gradient."""
    # With an input of zeros the weight of the first layer has a gradient of zeros.
    told = (
        "A gradient of zeros counts as none in your answer: ask whether .grad is None, not whether it "
        "is zero."
    )
    mistake = reached_by([name for name in LEARNING if name != "body.0.weight"])
    answer = flow(student, x=torch.zeros(5, 4)).value
    check_answer(answer, reached_by(LEARNING), {told: mistake})


@pytest.mark.points(2)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("zero_grad(set_to_none=True), or parameter.grad = None for each parameter.")
def test_flow_stale_gradients(student: Student) -> None:
    """A gradient from before never counts, and is not added to the fresh one."""
    state, x = network_state(), torch.randn(5, 4)
    clean = gradients_after(flow(student, state=state, x=x))
    seen = flow(student, state=state, x=x, stale=NAMES)
    after = gradients_after(seen)
    left = after["unused.weight"]
    zeroed = isinstance(left, Tensor) and not left.any()
    told = (
        "Old gradients were set to zero, not cleared, and a zero gradient is not None: stale "
        "gradients counted."
        if zeroed
        else "Stale gradients counted: clear every .grad to None before the run."
    )
    check_answer(seen.value, reached_by(LEARNING), {told: reached_by(NAMES)})
    # Compared with what a clean module gets: whether that is right is another test.
    fresh = {name: gradient for name, gradient in clean.items() if isinstance(gradient, Tensor)}
    added = "The fresh gradients are added to the old ones, which have to be cleared first."
    back = "The old gradients are back on the module instead of the fresh ones."
    assert_close(
        {name: after[name] for name in fresh},
        fresh,
        what="the dict of the gradients left on a module with old gradients",
        mistakes={
            added: {name: gradient + STALE for name, gradient in fresh.items()},
            back: {name: torch.full_like(gradient, STALE) for name, gradient in fresh.items()},
        },
    )


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint(
    "A frozen parameter has no .grad after backward, so leave requires_grad as it is."
)
def test_flow_frozen(student: Student) -> None:
    """A frozen parameter is False."""
    frozen = ["body.0.weight", "head.bias", "unused.bias"]
    check_answer(
        flow(student, frozen=frozen).value,
        reached_by([name for name in LEARNING if name not in frozen]),
        {
            "A frozen parameter is True in your answer.": reached_by(LEARNING),
            "Frozen parameters are missing in your answer: they belong there, as False.": {
                name: name in LEARNING for name in NAMES if name not in frozen
            },
        },
    )


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint(
    "If the sum does not require a gradient, there is nothing to go backward through."
)
def test_flow_all_frozen(student: Student) -> None:
    """Where every parameter is frozen, everything is False."""
    network = made_network(student, frozen=NAMES)
    seen = observe(student, "gradient_flow", network, torch.randn(5, 4))
    assert not isinstance(seen.error, (RuntimeError, ValueError)), (
        f"Where all parameters are frozen gradient_flow raised {str(seen.error)[:200]}: there is "
        "nothing to go backward through then, which is an answer, not an error."
    )
    if seen.error is not None:
        raise seen.error
    check_answer(
        seen.value,
        reached_by([]),
        {
            "Where all are frozen your answer is empty: every name belongs there, as False.": {},
            "Where all are frozen your answer is None: every name belongs there, as False.": None,
            "Frozen parameters are True in your answer.": reached_by(LEARNING),
        },
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_flow_stale_gradients", "test_flow_all_frozen")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Clear the frozen parameters too: an optimizer's zero_grad may not know them.")
def test_flow_stale_frozen(student: Student) -> None:
    """The old gradient of a frozen parameter is cleared too."""
    told = (
        "The old gradients of frozen parameters counted: clear the gradients of the frozen "
        "parameters too."
    )
    for frozen in (["body.0.weight", "head.bias", "unused.bias"], NAMES):
        right = [name for name in LEARNING if name not in frozen]
        seen = flow(student, frozen=frozen, stale=NAMES)
        check_answer(seen.value, reached_by(right), {told: reached_by([*right, *frozen])})
        left = [name for name in frozen if gradients_after(seen)[name] is not None]
        assert not left, (
            f"After gradient_flow the frozen {left[0]} still has a .grad: clear the gradients of "
            "the frozen parameters too, to None."
        )


@pytest.mark.points(2)
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Look at .grad, and leave it there.")
def test_flow_leaves_gradients(student: Student) -> None:
    """The fresh gradients of the output's sum are left on the module."""
    state, x = network_state(), torch.randn(5, 4)
    expected, outputs = network_gradients(state, x), 5 * 2
    after = gradients_after(flow(student, state=state, x=x))
    left = "The gradients left on the module are"
    assert_close(
        {name: after[name] for name in LEARNING},
        expected,
        what="the dict of the gradients left on the module",
        mistakes=lambda: {
            "No gradient is left on the module: cleared, or never laid there?": dict.fromkeys(
                LEARNING
            ),
            f"{left} zeros: cleared at the end?": scaled(expected, 0),
            f"{left} those of the output's mean, not of its sum.": scaled(expected, 1 / outputs),
            f"{left} twice those of the sum: did backward run twice?": scaled(expected, 2),
            f"{left} those of the sum of the squares, not of the plain sum.": network_gradients(
                state, x, squared=True
            ),
            f"{left} those for an input of ones.": network_gradients(state, torch.ones_like(x)),
            f"{left} those for the first row of x alone.": network_gradients(state, x[:1]),
        },
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Run the module on x.detach(): it shares the values, but not the graph.")
def test_flow_leaves_x(student: Student) -> None:
    """x, its .grad, its requires_grad and what it was computed from are left alone."""
    plain, leaf = torch.randn(5, 4), torch.randn(5, 4, requires_grad=True)
    leaf.grad = torch.full_like(leaf, STALE)
    result = torch.randn(5, 4, requires_grad=True) * 1.0
    for x in (plain, leaf, result):
        check_changes_nothing(
            student,
            "gradient_flow",
            made_network(student),
            x,
            only=("1.values", "1.grad", "1.requires_grad"),
            told="Leave x as it is: run the module on x.detach(), which has no graph.",
        )


@pytest.mark.points(2)
@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Only the gradients change: no train() or eval(), no step, no seed.")
def test_flow_leaves_the_rest(student: Student) -> None:
    """Parameters, requires_grad, modes and the random state are left alone."""
    frozen = ["head.bias", "unused.weight"]
    for evaluating in (["body", "body.1", "unused"], ["", "body", "body.0", "cut", "head"]):
        network = made_network(student, frozen=frozen, evaluating=evaluating)
        check_changes_nothing(
            student,
            "gradient_flow",
            network,
            torch.randn(5, 4),
            allow=("0.grad", "1.values", "1.grad"),
        )


@pytest.mark.requires("test_flow_tells_who_learns")
@pytest.mark.place("gradient_flow")
@pytest.mark.hint("Hand x to the module in the dtype in which it came.")
def test_flow_float64(student: Student) -> None:
    """gradient_flow also works with a module and an x in float64."""
    state = {name: tensor.double() for name, tensor in network_state().items()}
    seen = flow(student, state=state, x=torch.randn(5, 4, dtype=torch.float64))
    check_answer(seen.value, reached_by(LEARNING), {})


# --- the layer, locally --------------------------------------------------------------------------


def gated(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The layer as it should be: (batch, in_features) to (batch, out_features)."""
    value, gate = F.linear(x, weight, bias).chunk(2, dim=-1)
    return value * torch.sigmoid(gate)


def layer_shapes(in_features: int, out_features: int) -> dict[str, list[int]]:
    return {"bias": [2 * out_features], "weight": [2 * out_features, in_features]}


def half_shapes(in_features: int, out_features: int) -> dict[str, list[int]]:
    return {"bias": [out_features], "weight": [out_features, in_features]}


def shapes_of(layer: nn.Module) -> dict[str, list[int]]:
    return {name: list(tensor.shape) for name, tensor in sorted(layer.named_parameters())}


def layer_parameters(layer: nn.Module, in_features: int, out_features: int) -> list[Tensor]:
    """The layer's weight and bias, after a look at names, shapes and dtypes."""
    right, rows = layer_shapes(in_features, out_features), 2 * out_features
    parameters = check_parameters(
        layer,
        {"weight": right["weight"], "bias": right["bias"]},
        call=f"GatedLinearUnit({in_features}, {out_features})",
        mistakes={
            "weight is transposed: its shape is (2 * out_features, in_features), as in nn.Linear.": {
                **right,
                "weight": [in_features, rows],
            },
            "weight and bias have out_features rows; they need twice as many, for the value and "
            "for the gate.": half_shapes(in_features, out_features),
            "bias has only out_features entries; the gate needs its half too.": {
                **right,
                "bias": [out_features],
            },
            "bias has a dimension too many: its shape is (2 * out_features,).": {
                **right,
                "bias": [1, rows],
            },
            "out_features is ignored: it has to decide the number of rows.": layer_shapes(
                in_features, in_features // 2
            ),
        },
    )
    for name, tensor in zip(("weight", "bias"), parameters, strict=True):
        assert_tensor(tensor, dtype=torch.float32, what=f"the {name} of a new layer")
    return parameters


def new_parameter(layer: nn.Module, name: str) -> Tensor:
    """The parameter of this name, also one of a submodule: where it belongs is another test."""
    named = dict(layer.named_parameters())
    inside = [tensor for key, tensor in named.items() if f".{key}".endswith(f".{name}")]
    assert inside, f"The layer has no parameter named {name}."
    return floating(inside[0], name).detach()


def floating(parameter: Any, name: str) -> Tensor:
    """It is a tensor that can learn: of integers one cannot even take random ones."""
    tensor = assert_tensor(parameter, what=f"the layer's {name}")
    assert tensor.is_floating_point(), f"The layer's {name} has dtype {tensor.dtype}."
    return tensor


def likely_start(weight: Tensor, in_features: int, out_features: int) -> str:
    """A sentence on where a weight that starts too large may come from; "" if unknown."""
    if weight.numel() < 100:
        return ""
    spread, largest = weight.double().std().item(), weight.abs().max().item()
    if spread == 0:
        return "Yours is the same number everywhere."
    both = in_features + 2 * out_features
    limits = {
        "uniform within 1 (torch.rand)": 1.0,
        "uniform within sqrt(in_features)": math.sqrt(in_features),
        "uniform within sqrt(2 / in_features)": math.sqrt(2 / in_features),
        "uniform within 1 / sqrt(out_features)": 1 / math.sqrt(out_features),
        "uniform within 1 / sqrt(2 * out_features)": 1 / math.sqrt(2 * out_features),
        "Xavier's uniform start": math.sqrt(6 / both),
        "Kaiming's uniform start": math.sqrt(6 / in_features),
    }
    normals = {
        "a standard normal start (torch.randn), which is not scaled": 1.0,
        "a normal start of that deviation, which has no bound": in_features**-0.5,
        "Kaiming's normal start": math.sqrt(2 / in_features),
        "Xavier's normal start": math.sqrt(2 / both),
        "a normal start of deviation 0.02, whatever the width": 0.02,
        "a normal start of deviation 0.01, whatever the width": 0.01,
    }
    likely = [name for name, limit in limits.items() if 0.97 * limit < largest <= 1.0001 * limit]
    likely += [name for name, deviation in normals.items() if abs(spread / deviation - 1) < 0.08]
    return f"Yours looks like {likely[0]}." if likely else ""


def randomize(layer: nn.Module, in_features: int, out_features: int) -> tuple[Tensor, Tensor]:
    """Give the layer new values, so that nothing depends on how it starts."""
    named = dict(layer.named_parameters())
    shapes = {"weight": (2 * out_features, in_features), "bias": (2 * out_features,)}
    with torch.no_grad():
        for name, shape in shapes.items():
            parameter = assert_tensor(named.get(name), shape=shape, what=f"the layer's {name}")
            parameter.copy_(torch.randn(shape, dtype=floating(parameter, name).dtype))
    return named["weight"], named["bias"]


def saturated(
    student: Student, dtype: torch.dtype
) -> tuple[nn.Module, Tensor, tuple[Tensor, Tensor]]:
    """A layer and an x (4, 4) whose gates lie around -990, -500, -100, -20, 20, ..., 990."""
    layer = student.module("GatedLinearUnit", 4, 8).to(dtype)
    weight, bias = randomize(layer, 4, 8)
    x = torch.rand(4, 4, dtype=dtype) * 2 - 1
    with torch.no_grad():
        weight.clamp_(-1, 1)  # so that x adds at most 4 to a gate
        bias[:8] = 2.0
        bias[8:] = torch.tensor([-990.0, -500.0, -100.0, -20.0, 20.0, 100.0, 500.0, 990.0])
    return layer, x, (weight, bias)


def backward_case(student: Student) -> tuple[nn.Module, Tensor, Tensor, Tensor]:
    """A layer, an x (4, 6), and the layer's parameters."""
    layer = student.module("GatedLinearUnit", 6, 5)
    return layer, torch.randn(4, 6), *randomize(layer, 6, 5)


def check_split(output: Any, x: Tensor) -> None:
    """Name the dimension along which the projection to 10 was split, if it was not the last one."""
    if not isinstance(output, Tensor):
        return  # the comparison that follows says so
    told = f"For x of shape {tuple(x.shape)} the output has shape {tuple(output.shape)}: "
    projected = [*x.shape[:-1], 10]
    assert list(output.shape) != projected, (
        f"{told}the projection was not split in two halves, value and gate."
    )
    for dim, size in enumerate(projected[:-1]):
        halved = [*projected[:dim], size // 2, *projected[dim + 1 :]]
        assert size % 2 or list(output.shape) != halved, (
            f"{told}the projection was split along dimension {dim}, not along the last one."
        )
    assert not output.dim() or output.shape[-1] != 10, (
        f"{told}the projection was not split along its last dimension."
    )


def mistaken_outputs(x: Tensor, weight: Tensor, bias: Tensor) -> dict[str, Tensor]:
    """What the usual misconceptions give for x (batch, in_features), by what to say of each."""
    x, weight, bias = x.detach(), weight.detach(), bias.detach()
    projected = F.linear(x, weight, bias)
    value, gate = projected.chunk(2, dim=-1)
    even, odd = projected[..., ::2], projected[..., 1::2]
    v, g = F.linear(x, weight).chunk(2, dim=-1)
    v_bias, g_bias = bias.chunk(2)
    tall = weight.reshape(weight.shape[::-1])
    opened, sigmoid, tanh, softmax = gate.sigmoid(), torch.sigmoid, torch.tanh, torch.softmax
    belong = "it belongs on the second"
    halves = "value and gate are the two halves, not every other feature"
    formulas = [
        (
            "sigmoid(value) * gate",
            sigmoid(value) * gate,
            f"the gate is on the first half, {belong}",
        ),
        ("value * gate", value * gate, "the gate has no sigmoid"),
        ("value * silu(gate)", value * F.silu(gate), "SwiGLU, the gate here is a plain sigmoid"),
        ("silu(value) * gate", F.silu(value) * gate, "SwiGLU, and on the first half"),
        ("silu(value) * sigmoid(gate)", F.silu(value) * opened, "the value stays linear"),
        ("silu(value)", F.silu(value), "the value is gated by itself"),
        ("silu(gate)", F.silu(gate), "the gate is gated by itself"),
        ("value * tanh(gate)", value * tanh(gate), "the gate is a sigmoid, not a tanh"),
        ("tanh(value) * sigmoid(gate)", tanh(value) * opened, "the value stays without a tanh"),
        ("value * softmax(gate) over the features", value * softmax(gate, -1), "use a sigmoid"),
        ("value * softmax(gate) over the batch", value * softmax(gate, 0), "use a sigmoid"),
        ("value * relu(gate)", value * F.relu(gate), "ReGLU, the gate here is a sigmoid"),
        ("relu(value) * sigmoid(gate)", F.relu(value) * opened, "the value stays linear"),
        ("value * gelu(gate)", value * F.gelu(gate), "GEGLU, the gate here is a sigmoid"),
        ("value * hardsigmoid(gate)", value * F.hardsigmoid(gate), "the gate is smooth"),
        ("value * logsigmoid(gate)", value * F.logsigmoid(gate), "no log"),
        ("value * softplus(gate)", value * F.softplus(gate), "the gate is a sigmoid"),
        ("value * exp(gate)", value * gate.exp(), "the gate is a sigmoid"),
        ("value * (gate > 0)", value * (gate > 0), "the gate is a sigmoid, which opens smoothly"),
        ("value * (1 - sigmoid(gate))", value * (1 - opened), "the gate is the wrong way around"),
        ("sigmoid(value * gate)", sigmoid(value * gate), "only the gate goes through the sigmoid"),
        ("sigmoid(value) * sigmoid(gate)", sigmoid(value) * opened, "the value stays linear"),
        ("value * sigmoid(sigmoid(gate))", value * opened.sigmoid(), "one sigmoid is enough"),
        ("value * sigmoid(gate + 1)", value * sigmoid(gate + 1), "nothing is added to the gate"),
        ("value + sigmoid(gate)", value + opened, "the gate multiplies"),
        ("value + value * sigmoid(gate)", value + value * opened, "nothing is added"),
        ("2 * value * sigmoid(gate)", 2 * value * opened, "no factor belongs there"),
        ("the value alone", value, "the gate is missing"),
        ("sigmoid(gate) alone", opened, "the value is missing"),
        ("that of an interleaved split", even * sigmoid(odd), halves),
        ("that of an interleaved split, gate first", odd * sigmoid(even), halves),
        ("that of a weight reshaped, not transposed", gated(x, tall.T, bias), "use weight.T"),
    ]
    biases = [
        ("without a bias", v * sigmoid(g)),
        ("if the bias is added after the gating", v * sigmoid(g) + v_bias),
        ("if the gate's bias is added after the gating", v * sigmoid(g) + g_bias),
        ("with a bias on the value only", value * sigmoid(g)),
        ("with a bias on the gate only", v * opened),
        ("if the value's bias is added after the gating", v * opened + v_bias),
        ("if the gate's bias is added after the sigmoid", value * (sigmoid(g) + g_bias)),
        ("if the halves of the bias are swapped", (v + g_bias) * sigmoid(g + v_bias)),
        ("if both halves get the value's bias", value * sigmoid(g + v_bias)),
        ("if the bias is added twice", (value + v_bias) * sigmoid(gate + g_bias)),
        ("if the bias is subtracted", (v - v_bias) * sigmoid(g - g_bias)),
    ]
    belongs = "bias belongs to the projection, both halves of it, before the split."
    return {
        **{f"Your output equals {name}: {why}.": output for name, output, why in formulas},
        **{f"Your output is what comes out {how}: {belongs}": output for how, output in biases},
    }


def gradient_formulas(**fixed: Tensor) -> tuple[Any, Any]:
    """The layer as a function of what is not fixed, and the same where parts of the graph are cut."""

    def layer(cut: str = "", **named: Tensor) -> Tensor:
        value, gate = F.linear(*({**fixed, **named}[n] for n in ("x", "weight", "bias"))).chunk(
            2, -1
        )
        value, gate = value.detach() if cut == "value" else value, gate.sigmoid()
        return value * (gate.detach() if cut == "gate" else gate)

    def mistakes(*names: str) -> dict[str, Any]:
        return {
            f"The gradient does not flow through the {cut}: something cuts the graph there (detach, "
            ".data, torch.no_grad()).": functools.partial(
                lambda cut, *tensors: layer(cut, **dict(zip(names, tensors, strict=True))), cut
            )
            for cut in ("gate", "value")
        }

    return layer, mistakes


# --- gradient_flow, locally ----------------------------------------------------------------------


def network_state() -> dict[str, Tensor]:
    """New values for the probe's Network, by name in sorted order."""
    shapes = {
        "body.0.bias": (3,),
        "body.0.weight": (3, 4),
        "cut.bias": (3,),
        "cut.weight": (3, 4),
        "head.bias": (2,),
        "head.weight": (2, 3),
        "offset": (2,),
        "scale": (),
        "unused.bias": (3,),
        "unused.weight": (3, 3),
    }
    return {name: torch.randn(shape) for name, shape in shapes.items()}


def network_gradients(
    state: dict[str, Tensor], x: Tensor, *, squared: bool = False
) -> dict[str, Tensor]:
    """The gradients of the sum of the Network's output (batch, 2) or of its squares, by name."""
    values = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
    hidden = torch.tanh(F.linear(x, values["body.0.weight"], values["body.0.bias"]))
    hidden = hidden + F.linear(x, values["cut.weight"], values["cut.bias"]).detach()
    output = F.linear(hidden, values["head.weight"], values["head.bias"]) * values["scale"]
    output = output + state["offset"]
    total = (output**2 if squared else output).sum()
    gradients = torch.autograd.grad(total, [values[name] for name in LEARNING])
    return dict(zip(LEARNING, gradients, strict=True))


def scaled(tensors: dict[str, Tensor], factor: float) -> dict[str, Tensor]:
    return {name: tensor * factor for name, tensor in tensors.items()}


def made_network(
    student: Student, state: dict[str, Tensor] | None = None, **setting: list[str]
) -> Any:
    """The probe's Network: which parameters are frozen or hold stale gradients, which parts evaluate."""
    lists: dict[str, list[str]] = {"frozen": [], "stale": [], "evaluating": [], **setting}
    # In the order of the names: one tensor travels faster than ten.
    values = [tensor.reshape(-1) for tensor in (state or network_state()).values()]
    return student.made("network", torch.cat(values), **lists, old_gradient=STALE)


def flow(
    student: Student,
    *,
    state: dict[str, Tensor] | None = None,
    x: Tensor | None = None,
    **setting: list[str],
) -> Observation:
    """A call of gradient_flow on a Network in this setting, with its answer as `value`."""
    network = made_network(student, state, **setting)
    seen = observe(student, "gradient_flow", network, torch.randn(5, 4) if x is None else x)
    if seen.error is not None:
        raise seen.error
    return seen


def gradients_after(seen: Observation) -> dict[str, Any]:
    return {name: seen.after(0, "parameters", name, "grad") for name in NAMES}


def reached_by(names: list[str]) -> dict[str, bool]:
    return {name: name in names for name in NAMES}


def in_order(mapping: Any) -> Any:
    """The same mapping with its names sorted: no order is promised."""
    if isinstance(mapping, dict) and all(isinstance(name, str) for name in mapping):
        return dict(sorted(mapping.items()))
    return mapping


def check_answer(answer: Any, right: dict[str, bool], mistakes: dict[str, Any]) -> None:
    assert_equal(
        in_order(answer),
        right,
        what="the answer of gradient_flow",
        mistakes=lambda: {told: in_order(mistake) for told, mistake in mistakes.items()},
    )
