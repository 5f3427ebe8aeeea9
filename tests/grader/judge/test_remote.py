"""The fixture behaves like ordinary PyTorch although the student's code runs elsewhere, and trusts no reply."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from grader.judge import remote
from grader.judge.assignment import Judgment
from grader.judge.outcomes import SandboxDied
from grader.judge.remote import RemoteModule, attach, wanted
from grader.results import Outcome
from grader.sandbox.wire.messages import Backward, Build, Built, Forward, Returned
from grader.sandbox.wire.packing import Packing

JudgeSource = Callable[..., Judgment]


# --- replies ----------------------------------------------------------------------------------------


class Session:
    """A session whose sandbox sends the given replies, each with its tensors."""

    def __init__(self, *replies: tuple[object, list[Tensor]]) -> None:
        self.replies = list(replies)
        self.asked: list[Any] = []
        self.timed = 0

    def ask(self, request: object, packing: Packing) -> tuple[object, list[Tensor]]:
        self.asked.append(request)
        return self.replies.pop(0)

    @contextlib.contextmanager
    def clock(self) -> Any:
        self.timed += 1
        yield

    def refuse_forbidden(self, name: str) -> None:
        pass


def attached(session: Session, reply: Returned, tensors: list[Tensor], *inputs: Tensor) -> Any:
    return attach(cast(Any, session), reply, tensors, list(inputs))


def leaf(*shape: int) -> Tensor:
    return torch.ones(*shape, requires_grad=True)


def test_gradients_come_from_the_sandbox_for_inputs_that_require_them() -> None:
    x, plain, y = leaf(2), torch.ones(2), torch.full((2,), 3.0)
    # The zeros of an absent gradient have no shape.
    products = [torch.tensor([5.0, 7.0]), torch.zeros(())]
    session = Session((Returned(products), products))
    value = attached(session, Returned({"y": y}, graph=4, differentiable=(0,)), [y], x, plain)
    assert value["y"] is y and y.requires_grad and session.timed == 1
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5, 7] and plain.grad is None
    (request,) = session.asked
    assert (type(request), request.graph, request.differentiable) == (Backward, 4, False)


def test_a_value_without_a_graph_or_inputs_is_returned_unchanged() -> None:
    y = torch.ones(2)
    assert attached(Session(), Returned(y), [y], leaf(2)) is y
    assert attached(Session(), Returned(y, graph=1, differentiable=(0,)), [y]) is y
    assert not y.requires_grad


@pytest.mark.parametrize(
    ("positions", "message"),
    [
        ((1,), "no such tensor"),
        ((-1,), "no such tensor"),
        ((0, 0), "no such tensor"),
        ((2,), "no such tensor"),
        ((0,), "a gradient of integers"),
    ],
)
def test_a_reply_that_differentiates_the_wrong_tensor_is_refused(
    positions: tuple[int, ...], message: str
) -> None:
    numbers = torch.ones(2, dtype=torch.int64)
    with pytest.raises(SandboxDied, match=message):
        attached(
            Session(), Returned(numbers, graph=1, differentiable=positions), [numbers], leaf(2)
        )


@pytest.mark.parametrize(
    ("products", "message"),
    [
        (None, "wrong number of gradients"),
        ([], "wrong number of gradients"),
        ([torch.ones(2), torch.ones(2)], "wrong number of gradients"),
        ([torch.ones(3)], "shape or dtype is not its input's"),
        ([torch.ones(2, dtype=torch.float64)], "shape or dtype is not its input's"),
        ([1.0], "shape or dtype is not its input's"),
    ],
)
def test_a_gradient_that_does_not_fit_its_input_is_refused(products: Any, message: str) -> None:
    y = torch.ones(2)
    session = Session((Returned(products), []))
    attached(session, Returned(y, graph=1, differentiable=(0,)), [y], leaf(2))
    with pytest.raises(SandboxDied, match=message):
        y.sum().backward()


def test_an_absent_gradient_stays_absent() -> None:
    x, y = leaf(2), torch.ones(2)
    session = Session((Returned([None]), []))
    attached(session, Returned(y, graph=1, differentiable=(0,)), [y], x)
    (gradient,) = torch.autograd.grad(y.sum(), x, allow_unused=True)
    assert gradient is None


def test_gradients_are_wanted_for_tensors_that_require_them() -> None:
    packing = Packing()
    x = leaf(1)
    packing.tensors += [torch.ones(1), x, torch.ones(1)]
    assert wanted(packing) == ([x], (1,))
    with torch.no_grad():
        assert wanted(packing) == ([], ())


# --- a module ---------------------------------------------------------------------------------------


def built(
    parameters: Any, buffers: Any = None, saved: tuple[str, ...] = (), **changes: Any
) -> tuple[RemoteModule, Session]:
    names = tuple(parameters) if isinstance(parameters, dict) else ()
    given = {"trainable": names, "training": True, **changes}
    reply = Built(9, parameters, {} if buffers is None else buffers, saved, **given)
    session = Session((reply, []))
    return RemoteModule(cast(Any, session), "Net", (3,), {"bias": True}, lambda _: None), session


def test_a_module_has_the_state_of_the_sandbox() -> None:
    net, session = built(
        {"a.b.weight": torch.ones(2), "frozen": torch.ones(1), "count": torch.ones(1).long()},
        {"seen": torch.zeros(1), "scratch": torch.zeros(1)},
        saved=("a.b.weight", "frozen", "count", "seen"),
        trainable=("a.b.weight", "count"),
        training=False,
    )
    # Integers cannot require gradients, even if a reply says so.
    learning = [name for name, each in net.named_parameters() if each.requires_grad]
    assert learning == ["a.b.weight"] and not net.training
    assert dict(net.named_buffers()).keys() == {"seen", "scratch"}
    assert net.state_dict().keys() == {"a.b.weight", "frozen", "count", "seen"}
    assert session.timed == 1, "building counts as time of the test"
    (request,) = session.asked
    assert isinstance(request, Build) and request.class_name == "Net"
    with pytest.raises(AttributeError, match="'width'; other attributes and methods exist only in"):
        _ = net.width


@pytest.mark.parametrize("handed_over", [Returned(1), Returned(None, graph=1)])
def test_a_reply_without_a_module_is_refused(handed_over: Returned) -> None:
    with pytest.raises(SandboxDied, match="no module"):
        RemoteModule(cast(Any, Session((handed_over, []))), "Net", (), {}, lambda _: None)


ONE = torch.ones(1)


@pytest.mark.parametrize(
    ("parameters", "buffers"),
    [
        ([ONE], {}),
        ({}, [ONE]),
        ({"a": 1.0}, {}),
        ({3: ONE}, {}),
        ({"": ONE}, {}),
        ({"a.": ONE}, {}),
        ({"forward": ONE}, {}),
        ({"a": ONE}, {"a": ONE}),
        ({"a": ONE}, {"a.b": ONE}),
        ({"x" * 1001: ONE}, {}),
        ({".".join("a" * 31): ONE}, {}),
    ],
)
def test_names_that_no_module_can_have_are_refused(parameters: Any, buffers: Any) -> None:
    with pytest.raises(SandboxDied, match="give each one a plain name"):
        built(parameters, buffers)


def test_the_size_of_a_module_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    built({".".join("a" * 30): ONE})
    monkeypatch.setattr(remote, "_MAX_PARAMETERS", 2)
    built({"a": ONE}, {"b": ONE})
    with pytest.raises(SandboxDied, match="more than 2 parameters and buffers"):
        built({"a": ONE, "b": ONE}, {"c": ONE})
    monkeypatch.setattr(remote, "_MAX_MODULES", 2)
    built({"a.b.w": ONE})
    with pytest.raises(SandboxDied, match="more than 2 modules"):
        built({"a.b.c.w": ONE})


def test_a_call_sends_the_current_state_and_numbers_tensors_of_its_arguments() -> None:
    net, session = built({"weight": torch.ones(2), "bias": torch.ones(2)}, {"seen": torch.ones(1)})
    names: list[tuple[str, ...]] = []
    object.__setattr__(net, "_remote", (session, 9, names.append))
    net.eval().requires_grad_(False)
    cast(Tensor, net.bias).requires_grad_()
    y, x = torch.ones(2), leaf(2)
    session.replies = [(Returned(y, 3, (0,), ("x",)), [y])] * 2
    assert net(torch.ones(2), x=x).requires_grad
    request = session.asked[-1]
    assert isinstance(request, Forward)
    assert (request.handle, request.trainable, request.training) == (9, ("bias",), False)
    # Positions count tensors of the arguments only, without the three of the state.
    assert request.wants == (1,) and names == [("x",)]
    y = torch.ones(2)
    session.replies = [(Returned(y, 3, (0,)), [y])]
    with torch.no_grad():
        assert not net(torch.ones(2), x=x).requires_grad
    assert session.asked[-1].wants == ()


# --- the student's code -----------------------------------------------------------------------------

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

def again(point, *others):
    return [type(point) is Point, point.x + 1, others]

def local(x):
    class Pair(NamedTuple):
        first: Tensor
        second: int
    return Pair(x, 3)

def second(pair):
    return pair.second

class Made(NamedTuple):
    number: int
    probe: str
    function: str
    arguments: list
    keywords: dict

def made(x):
    return Made(0, None, "mutate", [x], {})

def own_object(x):
    return [object()]

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
    "records_come_back_as_they_were": """
    x = torch.randn(2, requires_grad=True)
    point, other = (student.function(name)(x) for name in ("point", "local"))
    same, moved, others = student.function("again")(point, [point, (other,)])
    assert same and others[0][0].label == "p" and others[0][1][0].second == 3
    moved.sum().backward()
    assert torch.equal(x.grad, torch.full((2,), 2.0))
    assert student.function("second")(other) == 3 and student.function("second")(pair=other) == 3
""",
    "a_record_is_no_order_to_the_sandbox": """
    made = student.function("echo")(student.function("made")(torch.ones(2)))
    assert made.type_name == "Made" and made.function == "mutate"
""",
    "an_object_does_not_come_back": """
    with pytest.raises(TypeError, match="cannot hand your object back to your code"):
        student.function("echo")(student.function("own_object")(1))
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


def test_a_probe_gets_the_module_and_its_errors_are_distinguished(judged: JudgeSource) -> None:
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
    assert misuse.message.startswith(
        "Your code returned None: is a return missing?\nThe test then stopped: AttributeError"
    )
    three = probe.replace("echo(None)", "echo(3)")
    misuse = judged(STUDENT, suite, three).result.tests[1]
    assert misuse.message.startswith(
        "Your code returned something that could not be used: the test"
    )
    assert "returned something" not in error.message
    assert "in forward" in error.message
