"""What loggers hold after short programs, and what ran around them."""

from __future__ import annotations

import functools
import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def number_of_modes() -> int:
    """How many modes are on."""
    return torch._C._len_torch_dispatch_stack()


def row(call: Any) -> list[Any]:
    """The name and the shapes of a call; a bare tuple has them in this order."""
    if isinstance(call, tuple):
        return list(call)
    return [call.name, call.input_shapes, call.output_shapes]


def rows(calls: Any) -> Any:
    """The names and the shapes of recorded calls; None if they are no list."""
    return [row(call) for call in calls] if isinstance(calls, list) else None


def calls(module: Any, rows: list[Any]) -> list[Any]:
    """The student's OperatorCalls of these names and shapes."""
    return [module.OperatorCall(*fields) for fields in rows]


def run(program: str, tensors: dict[str, Tensor]) -> Any:
    """The `result` of a program, which is the suite's own text."""
    scope = {"torch": torch, **tensors}
    exec(program, scope)
    return scope["result"]


def recorded(module: Any, program: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """What a new logger holds after a program, and the result of that."""
    logger = module.OperatorLogger()
    before = len(logger.calls)
    with logger:
        result = run(program, tensors)
    own = logger.calls[before:]
    have_names = all(hasattr(call, "name") for call in own)
    return {"calls": rows(own), "have names": have_names, "result": result}


class Around(TorchDispatchMode):
    """A mode that notes the names of all operators."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def seen_around(module: Any, program: str, tensors: dict[str, Tensor]) -> dict[str, int]:
    """How often each operator runs while a logger is on."""
    with Around() as around, module.OperatorLogger():
        run(program, tensors)
    return dict(Counter(around.names))


def entered(module: Any, x: Tensor) -> dict[str, Any]:
    """What loggers hold: one around a second one, and entered again; a third one, never entered."""
    first, second = module.OperatorLogger(), module.OperatorLogger()
    report = {"new": rows(list(first.calls))}
    with first:
        report["x + x"] = x + x
        with second:
            x * x
        x - x
    report["outer"] = rows(list(first.calls))
    x / x
    with first:
        x.neg()
    report["entered again"] = rows(first.calls)
    report["inner"] = rows(second.calls)
    report["last"] = rows(module.OperatorLogger().calls)
    return report


def alive(module: Any) -> dict[str, Any]:
    """How many tensors live on, in the block and after it, when the program has dropped them all."""
    logger = module.OperatorLogger()
    with logger:
        x = torch.ones(3)
        tensors = [x, x + 1, torch.cat([x, x]), torch.add(x, 1, out=torch.empty(3))]
        references = [weakref.ref(tensor) for tensor in tensors]
        del x, tensors
        inside = living(references)
    count = {"in the block": inside, "after the block": living(references)}
    return {"alive": count, "calls": len(logger.calls)}


def living(references: list[Any]) -> int:
    """How many of these objects are still there."""
    gc.collect()
    return sum(reference() is not None for reference in references)


def ended(work: Callable[[], object]) -> dict[str, Any]:
    """The type of the error that comes out of some work, and how many modes are on then."""
    before = number_of_modes()
    raised = "nothing"
    try:
        work()
    except NotImplementedError:
        raise
    except Exception as error:  # noqa: BLE001 - it is reported
        raised = type(error).__name__
    return {"raised": raised, "modes": number_of_modes() - before}


def failing(x: Tensor) -> list[Callable[[], object]]:
    """Work in which an operator raises, or the code itself."""
    empty: dict[str, int] = {}
    return [lambda: x @ x, lambda: x.select(0, 5), lambda: empty["no key"]]


def errors_in_a_block(module: Any, x: Tensor) -> list[dict[str, Any]]:
    """What comes out of a logger's block."""

    def in_a_block(work: Callable[[], object]) -> None:
        with module.OperatorLogger():
            work()

    return [ended(functools.partial(in_a_block, work)) for work in failing(x)]


def errors_in_log_operators(module: Any, x: Tensor) -> list[dict[str, Any]]:
    """What comes out of log_operators."""
    return [ended(functools.partial(module.log_operators, work)) for work in failing(x)]


def logged(module: Any, x: Tensor, names: list[str], shift: float) -> dict[str, Any]:
    """What log_operators gives for a function of an argument and a keyword.

    The function runs these operators, and drops their results. All are functions of torch: no object but a
    tensor can stand for x, and write down its methods.
    """
    grad_modes = []

    def work(x: Tensor, *, shift: float) -> Tensor:
        grad_modes.append(torch.is_grad_enabled())
        for name in names:
            getattr(torch, name)(x)
        return torch.add(torch.t(x), shift)

    answer = module.log_operators(work, x.requires_grad_(), shift=shift)
    if not isinstance(answer, tuple) or len(answer) != 2:
        return {"is a pair": False}
    result, calls = answer
    return {
        "is a pair": True,
        "result": result,
        "requires_grad": getattr(result, "requires_grad", None),
        "calls": rows(calls),
        "grad modes": grad_modes,
    }
