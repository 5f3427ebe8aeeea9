"""The fixture behaves as ordinary PyTorch although the student's code is in another process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.judge.assignment import Judgment
from grader.results import Outcome

JudgeSource = Callable[..., Judgment]


STUDENT = """
from typing import NamedTuple
import torch
from torch import nn, Tensor

class Scale(nn.Module):
    def __init__(self, n, bias=True):
        super().__init__()
        self.inner = nn.Linear(n, n, bias=bias)
        self.frozen = nn.Parameter(torch.ones(n), requires_grad=False)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("scratch", torch.zeros(()), persistent=False)

    def forward(self, x, factor=1.0):
        return torch.tanh(self.inner(x)) * self.frozen * factor * (2.0 if self.training else 1.0)

class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x ** 2 * g

def cube(x):
    return Cubed.apply(x)

def pair(x, *, both):
    return {"sum": x + both[0], "product": [x * both[1]["z"]], "n": 3}

class Point(NamedTuple):
    x: Tensor
    label: str

def point(x):
    return Point(x * 2, "p")

def mutate(x):
    x.data.mul_(2)
    return x.clone()

def detached(x):
    return x.detach()

def echo(value):
    return value

def layout(x):
    return [list(x.shape), list(x.stride()), x.storage_offset(), x.is_leaf, x.clone()]

def same(net, others, named, other):
    return [others[0] is net, named["a"] is net, other is net]

def flattened(x):
    return x.view(-1)

def builtin(x):
    return torch.nn.functional.relu(x)

def hidden_builtin(x):
    try:
        return getattr(torch, "re" + "lu")(x)
    except Exception:
        return x.clamp(min=0)
"""

CASES = {
    "module_state": """
    layer = student.module("Scale", 3, bias=False)
    assert list(layer.state_dict()) == ["frozen", "calls", "inner.weight"]
    assert [n for n, p in layer.named_parameters() if p.requires_grad] == ["inner.weight"]
    assert "scratch" in dict(layer.named_buffers())
""",
    "module_gradients": """
    layer = student.module("Scale", 3).double().eval()
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    y = layer(x, factor=3.0)
    weight, bias = layer.inner.weight, layer.inner.bias
    z = x.detach().clone().requires_grad_()
    local = torch.tanh(torch.nn.functional.linear(z, weight, bias)) * 3
    assert torch.equal(y, local)
    v = torch.randn_like(y)
    wanted = torch.autograd.grad((local * v).sum(), [z, weight, bias])
    (y * v).sum().backward()
    assert layer.frozen.grad is None
    for got, want in zip([x.grad, weight.grad, bias.grad], wanted, strict=True):
        assert torch.allclose(got, want)
""",
    "module_follows_local_changes": """
    layer = student.module("Scale", 2)
    x = torch.randn(3, 2)
    doubled = layer(x)
    assert torch.allclose(doubled, 2 * layer.eval()(x))
    with torch.no_grad():
        layer.inner.weight.zero_(); layer.inner.bias.zero_()
    assert torch.equal(layer(x), torch.zeros(3, 2))
    layer.inner.weight.requires_grad_(False)
    layer(x).sum().backward()
    assert layer.inner.weight.grad is None and layer.inner.bias.grad is not None
""",
    "module_without_grad": """
    layer = student.module("Scale", 2)
    with torch.no_grad():
        assert not layer(torch.randn(3, 2)).requires_grad
""",
    "strides_are_kept": """
    x = torch.arange(24.0).reshape(4, 6)
    views = [x.t(), x[:, 1::2], x[2:], x[:1].expand(3, 6), x.t()[1:, ::3], x[:0], x[1, 2]]
    for view in [*views, x.bfloat16().t(), x.long().t()]:
        layout = student.function("layout")(view)
        assert layout[:4] == [list(view.shape), list(view.stride()), view.storage_offset(), True], layout
        assert torch.equal(layout[4], view)
    for view in (x.t(), x[:, :3], x[:1].expand(3, 6).requires_grad_()):
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            student.function("flattened")(view)
    layer = student.module("Scale", 4)
    given = x.t().detach().requires_grad_()
    layer(given).sum().backward()
    assert torch.allclose(layer(given), layer(x.t().contiguous())) and given.grad.shape == (6, 4)
""",
    "live_arguments": """
    net = student.own("Scale", 3)
    made = student.function("same")(net, [net], {"a": net}, student.own("Scale", 3))
    assert made == [True, True, False]
""",
    "gradcheck_untouched": """
    x = torch.randn(3, dtype=torch.float64, requires_grad=True)
    cube = student.function("cube")
    assert torch.autograd.gradcheck(cube, x)
    assert torch.autograd.gradgradcheck(cube, x)
""",
    "third_derivative": """
    x = torch.tensor(2.0, requires_grad=True)
    y = student.function("cube")(x)
    for wanted in (12.0, 12.0, 6.0):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
        assert y.item() == wanted
""",
    "structures": """
    x, b, z = (torch.randn(2, requires_grad=True) for _ in range(3))
    out = student.function("pair")(x, both=(b, {"z": z}))
    assert out["n"] == 3 and torch.equal(out["sum"], x + b)
    out["product"][0].sum().backward()
    assert torch.equal(z.grad, x) and b.grad is None or not b.grad.any()
""",
    "records": """
    x = torch.randn(2, requires_grad=True)
    point = student.function("point")(x)
    assert point.type_name == "Point" and point.label == "p"
    point.x.sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))
""",
    "mutations_are_seen_and_not_mirrored": """
    x = torch.ones(2)
    student.function("mutate")(x)
    assert student.mutated == ["x"] and torch.equal(x, torch.ones(2))
""",
    "detached_has_no_gradient": """
    assert not student.function("detached")(torch.ones(2, requires_grad=True)).requires_grad
""",
    "values_survive_the_wire": """
    import math, numpy
    echo = student.function("echo")
    for value in (None, True, 3, -2.5, "text", b"bytes", [1, [2]], (1, (2,)), {"a": {1: 2}}, math.inf):
        got = echo(value)
        assert got == value and type(got) is type(value), (got, value)
    assert math.isnan(echo(math.nan))
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float16, torch.complex64):
        for tensor in (torch.ones(2, 3).to(dtype), torch.ones(()).to(dtype), torch.ones(0, 2).to(dtype)):
            got = echo(tensor)
            assert got.dtype == dtype and torch.equal(got, tensor)
    strided = torch.arange(12.0).reshape(3, 4).T[::2].expand(2, 2, 3)
    assert torch.equal(echo(strided), strided)
    array = numpy.arange(6, dtype=">f4").reshape(2, 3)
    assert numpy.array_equal(echo(array), array)
""",
    "forbidden_in_the_source": """
    student.function("builtin")(torch.ones(2))
""",
    "forbidden_as_it_runs": """
    student.function("hidden_builtin")(torch.ones(2))
""",
}
FORBIDDEN = """
[[exercise.forbidden]]
inside = ["builtin"]
names = ["torch.nn.functional.relu"]
reason = "clamp"
[[exercise.forbidden]]
inside = ["hidden_builtin"]
operators = ["aten::relu"]
reason = "clamp"
"""


@pytest.mark.parametrize("case", CASES)
def test_remote_torch(judged: JudgeSource, case: str) -> None:
    suite = f'def test_case(student):\n    """A case"""{CASES[case]}'
    (test,) = judged(STUDENT, suite, extra=FORBIDDEN).result.tests
    if case.startswith("forbidden"):
        assert test.outcome is Outcome.FAILED
        assert "relu is not allowed here: clamp." in test.message
        assert test.place is not None
        assert STUDENT.split("\n")[test.place.line - 1].strip().startswith("return")
    else:
        assert test.outcome is Outcome.PASSED, test.message


def test_probe_gets_the_module_and_its_errors_are_told_apart(judged: JudgeSource) -> None:
    probe = (
        "def scaled(module, factor):\n    return module.echo(3) * factor\n"
        "def misuse(module):\n    return module.echo(None).shape\n"
        "def student_error(module):\n    return module.cube(None)\n"
    )
    suite = """
def test_value(student):
    '''A'''
    assert student.run("scaled", 2) == 6

def test_misuse(student):
    '''B'''
    student.run("misuse")

def test_error(student):
    '''C'''
    student.run("student_error")
"""
    value, misuse, error = judged(STUDENT, suite, probe).result.tests
    assert value.outcome is Outcome.PASSED
    assert (
        "Your code returned None (is a return missing?): the test's own code raised AttributeError"
        in misuse.message
    )
    three = probe.replace("echo(None)", "echo(3)")
    misuse = judged(STUDENT, suite, three).result.tests[1]
    assert misuse.message.startswith(
        "Your code returned something that could not be used: the test"
    )
    assert "returned something" not in error.message
    assert "in forward" in error.message
