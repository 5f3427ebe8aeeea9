"""Short programs under loggers, with what is recorded and what runs."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def in_full(calls: list[Any]) -> list[Any]:
    return [[call.name, call.input_shapes, call.output_shapes] for call in calls]


def in_short(calls: Any) -> Any:
    """Return calls as "cat of [[2, 3], [1, 3]] gives [[3, 3]]", or None if they are not a list.

    The rest of an operator's name does not count. A shape () is left out, since it may be that of a number. A
    bare tuple has name and shapes in this order.
    """
    if not isinstance(calls, list):
        return None
    texts = []
    for call in calls:
        fields = call if isinstance(call, tuple) else in_full([call])[0]
        operator = str(fields[0]).removeprefix("aten").lstrip(".:").split(".")[0]
        inputs, outputs = ([list(s) for s in shapes if s] for shapes in fields[1:])
        texts.append(f"{operator} of {inputs} gives {outputs}")
    return texts


def calls(module: Any, rows: list[Any]) -> list[Any]:
    """Make the student's OperatorCalls of these names and shapes."""
    return [module.OperatorCall(*fields) for fields in rows]


def run(program: str, tensors: dict[str, Tensor]) -> Any:
    """Run a program, which is the suite's own text, and return its `result`."""
    scope = {"torch": torch, **tensors}
    exec(program, scope)
    return scope["result"]


def recorded(module: Any, program: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Return what a new logger records of a program, in short, and the program's result."""
    logger = module.OperatorLogger()
    before = len(logger.calls)
    with logger:
        result = run(program, tensors)
    return {"calls": in_short(logger.calls[before:]), "result": result}


def recorded_in_full(module: Any, program: str, tensors: dict[str, Tensor]) -> list[Any]:
    logger = module.OperatorLogger()
    before = len(logger.calls)
    with logger:
        run(program, tensors)
    return in_full(logger.calls[before:])


class Around(TorchDispatchMode):
    """A mode that notes the names of all operators."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def seen_around(module: Any, program: str, tensors: dict[str, Tensor]) -> dict[str, int]:
    """Return how often each operator runs while a logger is on."""
    with Around() as around, module.OperatorLogger():
        run(program, tensors)
    return dict(Counter(around.names))


def entered(module: Any, x: Tensor) -> dict[str, Any]:
    """Return what loggers record: one that is entered twice, one inside it, and one that is never entered."""
    first, second = module.OperatorLogger(), module.OperatorLogger()
    report = {"a new logger": in_short(first.calls)}
    with first:
        x + x
        with second:
            x * x
        x - x
    report["the outer logger"] = in_short(first.calls)
    x / x
    with first:
        x.neg()
    report["the outer logger, entered again"] = in_short(first.calls)
    report["the inner logger"] = in_short(second.calls)
    report["another new logger"] = in_short(module.OperatorLogger().calls)
    return report


def alive(module: Any) -> dict[str, Any]:
    """Return how many tensors live on, in the block and after it, though the program has dropped them all."""
    logger = module.OperatorLogger()
    with logger:
        x = torch.ones(3)
        tensors = [x, x + 1, torch.cat([x, x]), torch.add(x, 1, out=torch.empty(3))]
        references = [weakref.ref(tensor) for tensor in tensors]
        del x, tensors
        inside = living(references)
    return {"in": inside, "after": living(references), "recorded": len(logger.calls) >= 4}


def living(references: list[Any]) -> int:
    gc.collect()
    return sum(reference() is not None for reference in references)


def errors_of(call: Callable[[Callable[[], object]], object], x: Tensor) -> list[Any]:
    """Call each work, which raises. Return the type of the error that comes out, and how many modes stay on."""
    empty: dict[str, int] = {}
    works: list[Callable[[], object]] = [
        lambda: x @ x,
        lambda: x.select(0, 5),
        lambda: empty["no key"],
    ]
    ends = []
    for work in works:
        before, raised = torch._C._len_torch_dispatch_stack(), "nothing"
        try:
            call(work)
        except NotImplementedError:
            raise
        except Exception as error:  # noqa: BLE001 - it is reported
            raised = type(error).__name__
        ends.append([raised, torch._C._len_torch_dispatch_stack() - before])
    return ends


def errors_in_a_block(module: Any, x: Tensor) -> list[Any]:
    def in_a_block(work: Callable[[], object]) -> None:
        with module.OperatorLogger():
            work()

    return errors_of(in_a_block, x)


def errors_in_log_operators(module: Any, x: Tensor) -> list[Any]:
    return errors_of(module.log_operators, x)


def logged(module: Any, x: Tensor, names: list[str], shift: float) -> dict[str, Any]:
    """Return what log_operators gives for a function of an argument and a keyword.

    The function runs these operators, and drops their results. All are functions of torch, which take only
    tensors: no other object can take the place of x and record calls of its methods.
    """
    grad_modes = []

    def work(x: Tensor, *, shift: float) -> Tensor:
        grad_modes.append(torch.is_grad_enabled())
        for name in names:
            getattr(torch, name)(x)
        return torch.add(torch.t(x), shift)

    answer = module.log_operators(work, x.requires_grad_(), shift=shift)
    if not isinstance(answer, tuple) or len(answer) != 2:
        return {"pair": False}
    result, calls = answer
    return {
        "pair": True,
        "grad modes": grad_modes,
        "result": result.detach() if isinstance(result, Tensor) else None,
        "requires_grad": getattr(result, "requires_grad", None),
        "calls": in_short(calls),
    }
