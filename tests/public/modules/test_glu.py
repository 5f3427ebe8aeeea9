"""Small examples for the gated linear unit and gradient_flow."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, laws, must_raise, promise
from grader.judge.student import Student

# For one feature out of three: the first row makes the value, the second one the gate.
WEIGHT = torch.tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 0.0]])


@promise(
    "GatedLinearUnit.__init__",
    hint="self.weight and self.bias are nn.Parameters with 2 * out_features rows.",
)
def test_example_parameters(student: Student) -> None:
    """GatedLinearUnit(4, 3) has a weight of shape (6, 4) and a bias of shape (6,)."""
    layer = student.module("GatedLinearUnit", 4, 3)
    shapes = {name: list(tensor.shape) for name, tensor in layer.named_parameters()}
    right = {"weight": [6, 4], "bias": [6]}
    for name in right:
        if name not in shapes:
            laws.parameter_named(layer, name)
    assert_equal(shapes, right, what="the dict of the layer's parameter shapes", ordered=False)


@promise(
    "GatedLinearUnit.__init__",
    hint="out_features=None stands for in_features // 2, if there is such a half.",
)
def test_example_halving(student: Student) -> None:
    """GatedLinearUnit(6) makes 3 features out of 6."""
    layer = student.module("GatedLinearUnit", 6)
    laws.check_parameters(layer, {"weight": (6, 6)}, call="GatedLinearUnit(6)")


@promise(
    "GatedLinearUnit.__init__",
    hint="Half of an odd number of features does not exist: raise a ValueError.",
)
def test_example_odd(student: Student) -> None:
    """GatedLinearUnit(5) is a ValueError, and GatedLinearUnit(5, 3) is fine."""
    with must_raise(ValueError, mentions="in_features", call="GatedLinearUnit(5)"):
        student.module("GatedLinearUnit", 5)
    student.module("GatedLinearUnit", 5, 3)


@promise(
    "GatedLinearUnit.__init__",
    hint="nn.init.uniform_(self.weight, -0.1, 0.1), say, and zeros for the bias.",
    after="test_example_parameters",
)
def test_example_start(student: Student) -> None:
    """A new weight is random, and weight and bias are filled."""
    laws.check_starts_random(student, "GatedLinearUnit", 16, 3)
    laws.check_filled(student, "GatedLinearUnit", 16, 3, names=("weight", "bias"))


@promise(
    "GatedLinearUnit.forward",
    points=4,
    hint="value = x[0] + 2 * x[2] + 1 and gate = x[1] in this example; sigmoid(0) is 0.5.",
)
def test_example_forward(student: Student) -> None:
    """The value is multiplied by the sigmoid of the gate."""
    layer = student.module("GatedLinearUnit", 3, 1)
    set_parameters(layer, weight=WEIGHT, bias=torch.tensor([1.0, 0.0]))
    x = torch.tensor([[-1.0, 0.0, 1.0], [1.0, 1.0986123, 1.0]])  # sigmoid(1.0986123) is 0.75
    assert_close(layer(x), torch.tensor([[1.0], [3.0]]))


@promise(
    "GatedLinearUnit.forward",
    hint="Split along the last dimension, dim=-1, whatever comes before it.",
    after="test_example_forward",
)
def test_example_batches(student: Student) -> None:
    """Value and gate lie along the last dimension, also for x of shape (4, 2, 3)."""
    layer, x = student.module("GatedLinearUnit", 3, 2), torch.randn(4, 2, 3)
    layer(x)  # only the current weight counts, not that of the first call
    weight, bias = torch.randn(4, 3), torch.randn(4)
    set_parameters(layer, weight=weight, bias=bias)
    rows = nn.functional.linear(x, weight, bias)
    assert_close(
        layer(x),
        rows[..., :2] * rows[..., 2:].sigmoid(),
        what="the output for x of shape (4, 2, 3)",
    )


@promise(
    "GatedLinearUnit.forward",
    points=2,
    hint="d(value * sigmoid(gate)) / d value is sigmoid(gate).",
    after="test_example_forward",
)
def test_example_gradients(student: Student) -> None:
    """Gradients reach x, weight and bias."""
    layer = student.module("GatedLinearUnit", 3, 1)
    set_parameters(layer, weight=WEIGHT, bias=torch.tensor([1.0, 0.0]))
    x = torch.tensor([[-1.0, 1.0986123, 1.0]], requires_grad=True)
    output = assert_tensor(layer(x), shape=(1, 1))
    assert output.requires_grad, "The output does not require a gradient: something cuts the graph."
    output.sum().backward()
    # value = 2 and sigmoid(gate) = 0.75: the derivative is 0.75 by the value, 2 * 0.75 * 0.25 by the gate.
    by_projection = torch.tensor([0.75, 0.375])
    named = {name.rpartition(".")[2]: tensor for name, tensor in layer.named_parameters()}
    assert_close(x.grad, by_projection[None] @ WEIGHT, what="x.grad")
    assert_close(named["bias"].grad, by_projection, what="bias.grad")
    assert_close(
        named["weight"].grad, torch.outer(by_projection, x[0].detach()), what="weight.grad"
    )


@promise(
    "gradient_flow",
    points=6,
    hint="Clear every .grad to None, run, backward, and see which .grad is not None.",
)
def test_example_flow(student: Student) -> None:
    """A used parameter is True; a frozen or unused one is False."""
    right = {
        "first.bias": True,
        "first.weight": False,  # frozen
        "second.bias": True,
        "second.weight": True,
        "spare.weight": False,  # not used
    }
    for stale in (False, True):
        answer = student.run("flow", frozen=["first.weight"], stale=stale)
        after = " when each parameter has an old gradient" if stale else ""
        assert_equal(answer, right, ordered=False, what=f"the answer of gradient_flow{after}")


@promise(
    "gradient_flow", hint="module(x.detach()).sum().backward(), if anything requires a gradient."
)
def test_example_flow_left(student: Student) -> None:
    """The gradients of the output's sum stay on the module, and x.grad is as before."""
    assert_equal(
        [student.run("left", frozen=False), student.run("left", frozen=True)],
        [[4.0, None], [None, None]],
        what="the lists of second.bias.grad and x.grad (all free, all frozen) after 4 rows",
    )


def set_parameters(layer: nn.Module, *, weight: Tensor, bias: Tensor) -> None:
    """Give the layer these values."""
    named = {name.rpartition(".")[2]: tensor for name, tensor in layer.named_parameters()}
    with torch.no_grad():
        for name, values in (("weight", weight), ("bias", bias)):
            if name not in named:
                laws.parameter_named(layer, name)
            assert_tensor(named[name], shape=tuple(values.shape), what=f"the layer's {name}")
            named[name].copy_(values)
