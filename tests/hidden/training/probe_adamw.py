"""Run the student's AdamW on parameters with given gradients, and report what it made of them."""

import io
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

Grads = list[list[Tensor | None]]


def made(
    module: Any, values: list[Tensor], options: dict[str, Any], groups: Any = None,
    generator: bool = False,
) -> Any:  # fmt: skip
    """An AdamW over parameters of these values; `groups` are options of a group for each of them."""
    parameters = [nn.Parameter(value.clone()) for value in values]
    given: Any = iter(parameters) if generator else parameters
    if groups is not None:
        given = [{"params": [p], **own} for p, own in zip(parameters, groups, strict=True)]
    return module.AdamW(given, **options), parameters


def steps(optimizer: Any, parameters: list[Any], grads: Grads, changes: Any = None) -> Any:
    """What each step leaves; `changes` are options of groups to set before a step, by its number."""
    report: dict[str, list[Any]] = {"history": [], "grads": [], "same": []}
    for number, row in enumerate(grads):
        for index, name, value in (changes or {}).get(number, ()):
            optimizer.param_groups[index][name] = value
        for parameter, grad in zip(parameters, row, strict=True):
            parameter.grad = None if grad is None else grad.clone()
        own = [parameter.grad for parameter in parameters]
        optimizer.step()
        report["history"].append(vector(parameters))
        report["grads"].append([p.grad for p in parameters])
        report["same"] += [p.grad is grad for p, grad in zip(parameters, own, strict=True)]
    return report


def vector(tensors: Sequence[Tensor]) -> Tensor:
    """All values as one vector."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def trained(
    module: Any, values: list[Tensor], grads: Grads, options: Any, groups: Any = None,
    changes: Any = None, generator: bool = False,
) -> Any:  # fmt: skip
    """What the steps of a new AdamW leave, and the options in its groups before them."""
    optimizer, parameters = made(module, values, options, groups, generator)
    options = [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]
    report = steps(optimizer, parameters, grads, changes)
    held = [p for group in optimizer.param_groups for p in group["params"]]
    like = [(p.shape, p.dtype) for p in parameters], [(v.shape, v.dtype) for v in values]
    flags = {
        "keep their requires_grad": [p.requires_grad for p in parameters],
        "are leaves": [p.is_leaf for p in parameters],
        "are those that were given": [a is b for a, b in zip(held, parameters, strict=True)],
        "have their shape and dtype": [a == b for a, b in zip(*like, strict=True)],
    }
    return {**report, "options": options, "flags": flags}


def bases(module: Any) -> list[str]:
    """Of what AdamW is a class; its steps are callable by name from here on."""
    module.steps_of_AdamW = lambda *given: trained(module, *given)["history"]
    return [f"{base.__module__}.{base.__qualname__}" for base in module.AdamW.__mro__[1:]]


def resumed(
    module: Any, values: list[Tensor], before: Grads, after: Grads, options: Any, groups: Any
) -> Any:
    """The last steps of a training, and of one that was saved and loaded into a new AdamW before them."""
    optimizer, parameters = made(module, values, options, groups)
    steps(optimizer, parameters, before)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    try:
        state = torch.load(file, weights_only=True)
    except Exception as error:  # noqa: BLE001 (whatever does not load is a finding)
        return {"refused": f"{error}"[:200]}
    at = [parameter.detach().clone() for parameter in parameters]
    other, copies = made(module, at, options, None if groups is None else [{}] * len(at))
    other.load_state_dict(state)
    on, again = (
        steps(*pair, after)["history"] for pair in ((optimizer, parameters), (other, copies))
    )
    return {"refused": None, "at": at, "on": on, "again": again}


def closed(
    module: Any, options: Any, values: Tensor, old: Tensor | None, grad: Tensor, result: Any
) -> Any:
    """A step with a closure that sets a gradient and returns `result`, after an older gradient."""
    optimizer, (parameter,) = made(module, [values], options)
    parameter.grad = old
    calls: list[dict[str, Any]] = []

    def closure() -> Any:
        values = vector([parameter]).clone()
        calls.append({"autograd": torch.is_grad_enabled(), "values": values})
        parameter.grad = grad.clone()
        return result

    returned = optimizer.step(closure)
    left = {"values": vector([parameter]).clone(), "autograd": torch.is_grad_enabled()}
    return {"calls": calls, "returned": returned, **left, "bare": optimizer.step()}
