"""Forbidden functions raise however they are reached, and work as usual elsewhere."""

from __future__ import annotations

import contextlib
import enum
import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from grader.sandbox.inside.absent import forbid_name, forbid_operators, is_one_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning"),
]

# Operators that no other test needs. Once forbidden, they stay wrapped in this process, but are let through.
OPERATORS = ("aten::logit", "aten::logit_", "aten::mish", "aten::pairwise_distance", "aten::asinh")


class Refused(RuntimeError):
    """Raised by the check."""


class Switch:
    """A check that can be switched on to refuse. `asked` counts its calls."""

    on = False
    asked = 0

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """Refuse within the context."""
        self.on = True
        try:
            yield
        finally:
            self.on = False

    def check(self) -> None:
        self.asked += 1
        if self.on:
            raise Refused(Refused.__name__)


SWITCH = Switch()
X = torch.tensor([[0.2, 0.5], [0.7, 0.9]])
Way = Callable[[], object]


def logit(x: Tensor) -> Tensor:
    return torch.logit(x)


def in_a_thread() -> Tensor:
    values: list[Tensor] = []
    thread = threading.Thread(target=lambda: values.append(logit(X)))
    thread.start()
    thread.join()
    return values[0] if values else X


def without_modes() -> Tensor:
    with _disable_current_modes():
        return logit(X)


def looked_up() -> Tensor:
    inner: Any = torch._C
    look_up = getattr(inner, "_dispatch_get_computed_kernel_for_dispatch_key", None)
    if look_up is None:  # before torch 2.9
        return logit(X)
    keys = inner.DispatchKeySet(inner.DispatchKey.CPU)
    value: Tensor = look_up("aten::logit", "CPU").call_boxed(keys, X)
    return value


WAYS: dict[str, Callable[[], Tensor]] = {
    "a function": lambda: torch.logit(X),
    "a method": lambda: X.logit(),
    "in place": lambda: X.clone().logit_(),
    "with out": lambda: torch.logit(X, out=torch.empty(2, 2)),
    "torch.ops": lambda: torch.ops.aten.logit.default(X),
    "a script": lambda: torch.jit.trace(logit, (X,))(X),
    "vmap": lambda: torch.func.vmap(logit)(X),
    "grad": lambda: torch.func.grad(lambda x: logit(x).sum())(X),
    "inference mode": lambda: torch.inference_mode()(logit)(X),
    "without modes": without_modes,
    "a thread": in_a_thread,
    "a kernel that is looked up": looked_up,
    "one that is made of others": lambda: torch.pairwise_distance(X, X + 1),
    "the same within vmap": lambda: torch.func.vmap(torch.pairwise_distance)(X[None], X[None] + 1),
    "an integer": lambda: torch.asinh(torch.tensor([1])),
    "a sparse tensor": lambda: torch.asinh(X.to_sparse()).to_dense(),
    "another operator's kernel": lambda: torch.arcsinh(X),
}


@pytest.fixture(scope="module")
def values() -> dict[str, Tensor]:
    """Return the value of each way before anything is forbidden."""
    values = {name: way() for name, way in WAYS.items()}
    forbid_operators(dict.fromkeys(OPERATORS, SWITCH.check))
    return values


@pytest.fixture
def forbidden(values: dict[str, Tensor]) -> Iterator[Switch]:
    SWITCH.asked = 0
    with SWITCH.refusing():
        yield SWITCH


@pytest.mark.parametrize("way", WAYS)
def test_a_forbidden_operator_is_refused(forbidden: Switch, way: str) -> None:
    # A script raises another error with the same text, and a thread prints it.
    raises = pytest.raises(RuntimeError, match=Refused.__name__)
    with contextlib.nullcontext() if way == "a thread" else raises:
        WAYS[way]()
    assert forbidden.asked


@pytest.mark.parametrize("way", WAYS)
def test_an_operator_that_is_let_through_is_unchanged(values: dict[str, Tensor], way: str) -> None:
    for _ in range(2):
        torch.testing.assert_close(WAYS[way](), values[way])


def test_gradients_of_an_operator_that_is_let_through_are_right() -> None:
    x = X.double().requires_grad_()
    assert torch.autograd.gradcheck(torch.logit, (x,))
    assert torch.autograd.gradgradcheck(torch.logit, (x,))


def test_a_missing_operator_is_ignored() -> None:
    forbid_operators({"aten::nothing": SWITCH.check})


# --- names ----------------------------------------------------------------------------------------


def wrapping(function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def wrapped(*arguments: int, **keywords: int) -> int:
        return function(*arguments, **keywords)

    return wrapped


class Base:
    def shared(self) -> int:
        return 1


class Class(Base):
    def __init__(self, x: int = 1) -> None:
        super().__init__()
        self.x = x

    def method(self, *, y: int = 2) -> int:
        return self.x + y

    @staticmethod
    def static(x: int) -> int:
        return x

    @classmethod
    def own(cls, x: int) -> int:
        return cls(x).method()

    @property
    def value(self) -> int:
        return self.x

    @wrapping
    def decorated(self) -> int:
        return self.x


class Kind(enum.Enum):
    ONE = 1


class Child(Class):
    def method(self, *, y: int = 2) -> int:
        return super().method(y=y)


def function(x: int, y: int = 1) -> int:
    return x + y


METHOD, DECORATED, MADE, CHILD = vars(Class)["method"], vars(Class)["decorated"], Class(), Child()
NAMES: dict[str, tuple[str, Way]] = {
    "to make one": ("Class", Class),
    "a method of one that was made": ("Class", MADE.method),
    "a method from the class's dict": ("Class", lambda: METHOD(MADE)),
    "a static method": ("Class", lambda: Class.static(1)),
    "a class method": ("Class", lambda: Class.own(1)),
    "a property": ("Class", lambda: MADE.value),
    "a subclass": ("Class", CHILD.method),
    "a decorator's inner function": ("Class", lambda: DECORATED.__wrapped__(MADE)),
    "a partial function": ("function", functools.partial(function, 1)),
    "a copy of the name": ("function", functools.partial(map, function, [1])),
}


@pytest.fixture(scope="module")
def names() -> dict[str, Switch]:
    return {name: Switch() for name in ("Class", "Kind", "function")}


@pytest.fixture(autouse=True, scope="module")
def forbid(names: dict[str, Switch]) -> None:
    for name, switch in names.items():
        assert forbid_name(f"{__name__}.{name}", switch.check) <= {__file__}


@pytest.mark.parametrize("way", NAMES)
def test_a_forbidden_name_is_refused(names: dict[str, Switch], way: str) -> None:
    name, call = NAMES[way]

    def called() -> object:
        value = call()
        return list(value) if isinstance(value, map) else value

    before = called()
    with names[name].refusing(), pytest.raises(Refused):
        called()
    assert type(called()) is type(before)


def test_a_forbidden_name_keeps_its_parameters(names: dict[str, Switch]) -> None:
    """`torch.nn.utils.skip_init` looks them up."""
    assert str(inspect.signature(Class)) == "(x: 'int' = 1) -> 'None'"
    assert str(inspect.signature(MADE.method)) == "(*, y: 'int' = 2) -> 'int'"
    assert str(inspect.signature(MADE.decorated)) == "() -> 'int'"


def test_inherited_methods_of_a_forbidden_class_are_allowed(names: dict[str, Switch]) -> None:
    with names["Class"].refusing(), names["Kind"].refusing():
        assert MADE.shared() == 1
        assert Kind(1) is Kind.ONE


def test_a_module_deleted_from_its_package_is_forbidden_as_a_whole() -> None:
    switch = Switch()
    assert not hasattr(torch.optim, "rprop")
    forbid_name("torch.optim.rprop", switch.check)
    parameter = torch.nn.Parameter(X.clone())
    parameter.grad = X
    own = torch.optim.Rprop([parameter])
    own.step()
    with switch.refusing(), pytest.raises(Refused):
        own.step()
    with switch.refusing(), pytest.raises(Refused):
        importlib.import_module("torch.optim.rprop").rprop([], [], [], [], [])


def test_a_c_method_is_replaced_in_the_class_that_defines_it() -> None:
    switch = Switch()
    forbid_name("torch.Tensor.is_coalesced", switch.check)
    x = X.to_sparse()
    assert x.is_coalesced()
    for call in (x.is_coalesced, lambda: super(Tensor, x).is_coalesced()):
        with switch.refusing(), pytest.raises(Refused):
            call()


def test_a_file_is_recognized_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link.py"
    link.symlink_to(__file__)
    is_forbidden = is_one_of({__file__, "<string>"})
    assert is_forbidden(__file__)
    assert is_forbidden(link)
    assert not is_forbidden(tmp_path)
    assert not is_forbidden(3.5)
