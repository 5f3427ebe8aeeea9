"""What loggers hold after short programs, and what ran around them, raw."""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

around: list[Any] = []
depth = torch._C._len_torch_dispatch_stack  # how many modes are on


class Around(TorchDispatchMode):
    """A mode outside of the logger's, which notes in `around` which operators come, with which shapes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = torch.utils._pytree.tree_leaves((args, kwargs))
        around.append([str(func), [tuple(x.shape) for x in leaves if isinstance(x, Tensor)]])
        return func(*args, **(kwargs or {}))


def raw(calls: Any) -> Any:
    """The fields of each call of a logger or a list, a bare tuple as it is; None if there is no list."""
    calls, names = getattr(calls, "calls", calls), ("name", "input_shapes", "output_shapes")
    if not isinstance(calls, list):
        return None
    return [
        call
        if type(call) is tuple and len(call) == 3
        else [getattr(call, name, "no OperatorCall") for name in names]
        for call in calls
    ]


def recorded(module: Any, programs: list[str], tensors: dict[str, Tensor]) -> list[Any]:
    """For each program what a new logger holds, what ran around it, and its `result`."""
    reports = []
    for program in programs:
        scope = {"torch": torch, **{name: tensor.clone() for name, tensor in tensors.items()}}
        logger = module.OperatorLogger()
        before = len(raw(logger) or ())
        around.clear()
        with Around(), logger:  # type: ignore[no-untyped-call]
            exec(program, scope)  # the suite's own text
        calls, result = raw(logger), scope["result"]
        items = result if isinstance(result, tuple) else (result,)
        values = [item.detach() if isinstance(item, Tensor) else item for item in items]
        reports.append(
            {"calls": calls and calls[before:], "around": list(around), "values": values}
        )
    return reports


def entered(module: Any, x: Tensor) -> list[Any]:
    """What loggers hold: one around the second, and entered again; the second; a third."""
    first, second = module.OperatorLogger(), module.OperatorLogger()
    new = raw(first)
    with first:
        total = x + x
        with second:
            x * x
        x - x
    between = raw(first)
    x / x
    with first:
        x.neg()
    return [total, new, between, raw(first), raw(second), raw(module.OperatorLogger())]


def stopped(module: Any, name: str, x: Tensor) -> list[Any]:
    """What comes out where an operator or the code raises in a logger's block, and the modes then."""
    reports, before = list[Any](), depth()
    stop, missing = (lambda: sys.exit("stop")), (lambda: dict[str, int]()["no key"])
    for work in (lambda: x @ x, lambda: x.select(0, 5), missing, stop):
        came: Any = None
        try:
            if name == "log_operators":
                module.log_operators(work)
            else:
                with module.OperatorLogger():
                    work()
        except NotImplementedError:
            raise
        except BaseException as caught:  # noqa: BLE001 - it is reported
            came = caught
        text = f"{type(came).__name__}: {came}"[:300] if came is not None else "no error"
        reports.append([text, depth() - before])
    return reports


def alive(module: Any, n: int) -> dict[str, Any]:
    """How many tensors live on, in the block and after it, when the program has dropped them all."""
    logger = module.OperatorLogger()
    with logger:
        x = torch.ones(n)
        tensors = [x, x + 1, torch.cat([x, x]), torch.add(x, 1, out=torch.empty(n))]
        references = [weakref.ref(tensor) for tensor in tensors]
        del x, tensors
        inside = sum(map(living, references))
    return {"in": inside, "after": sum(map(living, references)), "calls": raw(logger)}


def living(reference: Any) -> bool:
    return reference() is not None and gc.collect() >= 0 and reference() is not None


def logged(module: Any, x: Tensor) -> dict[str, Any]:
    """log_operators of a function, of some that run no operator, and of the first one again."""
    seen, marker, before = list[Any](), torch.ones(2, requires_grad=True), depth()
    plain: list[Any] = [marker, (marker,), [[]]]

    def work(*args: Any, **kwargs: Any) -> Any:
        seen.append([len(args), sorted(kwargs), args[0] is x, kwargs["other"] is marker])
        return {"sum": args[0].t() + kwargs["scale"], "grad mode": torch.is_grad_enabled()}

    answers = [
        module.log_operators(work, x, 7, scale=2, other=marker),
        *[module.log_operators(lambda value=value: value) for value in plain],
        module.log_operators(work, x, scale=2, other=marker),
    ]
    x + x
    good = all(isinstance(answer, tuple) and len(answer) == 2 for answer in answers)
    first, *others, last = [result for result, _ in answers] if good else [None] * 5
    own = ["own" if a is b else "other" for a, b in zip(others, plain, strict=True)]
    report = {"seen": seen, "pair": good, "results": [first, *own, last], "modes": depth() - before}
    return {**report, "calls": [raw(calls) for _, calls in answers] if good else []}


def rows(module: Any, lines: list[Any]) -> Any:
    """The student's OperatorCalls of these names and shapes."""
    return [module.OperatorCall(*line) for line in lines]
