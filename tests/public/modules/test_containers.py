"""Small examples for MLP, ResidualStack and plain_containers; probe_containers.py has their models."""

from __future__ import annotations

import torch

from grader.judge.checks import assert_close, assert_equal, laws, must_raise, promise
from grader.judge.student import Student


@promise(
    "MLP",
    points=2,
    hint="self.layers = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)) for [2, 3, 1].",
)
def test_example_mlp(student: Student) -> None:
    """MLP([2, 3, 1]) has the parameters of two Linears, and a ReLU only between them."""
    layer = student.module("MLP", [2, 3, 1])
    right = {"layers.0.weight": [3, 2], "layers.0.bias": [3]}
    right |= {"layers.2.weight": [1, 3], "layers.2.bias": [1]}
    assert_equal(
        {name: list(tensor.shape) for name, tensor in layer.named_parameters()},
        right,
        what="the dict of parameter shapes of MLP([2, 3, 1])",
        ordered=False,
    )
    tensors = dict(zip(right, laws.check_parameters(layer, right), strict=True))
    with torch.no_grad():
        tensors["layers.0.weight"].copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        tensors["layers.2.weight"].copy_(torch.tensor([[1.0, 2.0, -2.0]]))
        tensors["layers.0.bias"].zero_()
        tensors["layers.2.bias"].zero_()
    # The hidden layer is [3, -4, -1] and [1, 0, 1]; after the ReLU it is [3, 0, 0] and [1, 0, 1].
    x = torch.tensor([[3.0, -4.0], [1.0, 0.0]])
    assert_close(layer(x), torch.tensor([[3.0], [-1.0]]))


@promise(
    "MLP.__init__", hint="A Linear needs two widths: check their number before you create a layer."
)
def test_example_one_width(student: Student) -> None:
    """A single width is a ValueError that names widths, and two are fine."""
    laws.parameter_named(student.module("MLP", [4, 3]), "layers.0.weight")
    with must_raise(ValueError, mentions="widths", call="MLP([4])"):
        student.module("MLP", [4])


@promise("ResidualStack.forward", points=2, hint="With x = 1: 1 + 2 * 1 = 3, then 3 + 10 * 3 = 33.")
def test_example_stack(student: Student) -> None:
    """Blocks that multiply by 2 and by 10 turn 1 into 33, and into 3 if the second one is skipped."""
    stack, x = student.module("ResidualStack", student.made("times", 2.0, 10.0)), torch.ones(1)
    assert_close(stack(x), torch.tensor([33.0]))
    assert_close(stack(x, skip=[1]), torch.tensor([3.0]))
    laws.check_changes_nothing(student, stack, x, call="forward")


@promise(
    "ResidualStack.forward",
    hint="Two blocks have the indices 0 and 1: check skip before you call a block.",
)
def test_example_unknown_block(student: Student) -> None:
    """An index in skip that no block has is a ValueError that names skip."""
    stack = student.module("ResidualStack", student.made("times", 2.0, 10.0))
    with must_raise(ValueError, mentions="skip", call="forward(x, skip=[2]) of two blocks"):
        stack(torch.ones(1), skip=[2])


@promise(
    "plain_containers",
    hint='The model has heads = {"left": nn.Linear}, its encoder has layers = [nn.Linear, ...].',
)
def test_example_plain(student: Student) -> None:
    """The model's dict "heads" and the list "encoder.layers" are found, and nothing else."""
    names = student.function("plain_containers")(student.made("hiding"))
    right = ["encoder.layers", "heads"]
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    value = sorted(names) if is_list else names
    assert_equal(value, right, what="the sorted result")
