"""Run the student's AdamW on parameters with given gradients, and report what it made of them."""

import functools
import io
from typing import Any

import torch
from torch import Tensor, nn

Grads = list[list[Tensor | None]]  # a row for each step


def parameters_of(values: list[Tensor]) -> list[nn.Parameter]:
    return [nn.Parameter(value.clone()) for value in values]


def make_step(optimizer: Any, parameters: list[nn.Parameter], grads: list[Tensor | None]) -> Tensor:
    """The values of all parameters, in a row, after a step with these gradients."""
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = None if grad is None else grad.clone()
    optimizer.step()
    return vector(parameters)


def vector(parameters: list[nn.Parameter]) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in parameters])


def bases(module: Any) -> list[str]:
    """The names of the classes that AdamW inherits from."""
    return [f"{base.__module__}.{base.__qualname__}" for base in module.AdamW.__mro__[1:]]


def add_training_function(module: Any) -> None:
    """Give the student's module a function, steps_of_AdamW: what is watched are functions of that module."""
    module.steps_of_AdamW = functools.partial(trained, module)


def trained(
    module: Any, values: list[Tensor], grads: Grads, options: dict[str, Any]
) -> list[Tensor]:
    """The values after each step."""
    parameters = parameters_of(values)
    optimizer = module.AdamW(parameters, **options)
    return [make_step(optimizer, parameters, row) for row in grads]


def trained_from_a_generator(
    module: Any, values: list[Tensor], grads: Grads, options: dict[str, Any]
) -> list[Tensor]:
    """The values after each step, where the parameters came as those of `model.parameters()` do."""
    parameters = parameters_of(values)
    optimizer = module.AdamW((parameter for parameter in parameters), **options)
    return [make_step(optimizer, parameters, row) for row in grads]


def trained_in_groups(
    module: Any,
    values: list[Tensor],
    grads: Grads,
    options: dict[str, Any],
    own: list[dict[str, Any]],
    changes: list[dict[int, dict[str, Any]]],
) -> dict[str, Any]:
    """The values after each step, each parameter a group with options of its own.

    Before a step its `changes` are made in the groups: options by the place of a group.
    """
    parameters = parameters_of(values)
    groups = [{"params": [p], **more} for p, more in zip(parameters, own, strict=True)]
    optimizer = module.AdamW(groups, **options)
    keys = [sorted(group) for group in optimizer.param_groups]
    history = []
    for row, before_step in zip(grads, changes, strict=True):
        for index, changed in before_step.items():
            optimizer.param_groups[index].update(changed)
        history.append(make_step(optimizer, parameters, row))
    return {"history": history, "keys": keys}


def resumed(
    module: Any, values: list[Tensor], before: Grads, after: Grads, options: dict[str, Any]
) -> dict[str, Any]:
    """The last steps of a training, and of one that was saved and loaded into a new AdamW before them."""
    parameters = parameters_of(values)
    optimizer = module.AdamW(parameters, **options)
    for row in before:
        make_step(optimizer, parameters, row)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    try:
        state = torch.load(file, weights_only=True)
    except Exception as error:  # noqa: BLE001 (whatever does not load is a finding)
        return {"refused": str(error)[:200]}
    start = vector(parameters)
    copies = parameters_of([parameter.detach() for parameter in parameters])
    other = module.AdamW(copies, **options)
    other.load_state_dict(state)
    return {
        "refused": None,
        "start": start,
        "went on": [make_step(optimizer, parameters, row) for row in after],
        "loaded": [make_step(other, copies, row) for row in after],
    }


def closed(
    module: Any, options: dict[str, Any], values: Tensor, old: Tensor, grad: Tensor, result: Any
) -> dict[str, Any]:
    """A step with a closure that replaces the old gradient and returns `result`, and one without."""
    (parameter,) = parameters_of([values])
    parameter.grad = old
    # Another group, of a parameter without a gradient: the closure is not called for each group.
    groups = [{"params": [parameter]}, {"params": parameters_of([values])}]
    optimizer = module.AdamW(groups, **options)
    calls: list[dict[str, Any]] = []

    def closure() -> Any:
        before = parameter.detach().clone()
        calls.append({"autograd": torch.is_grad_enabled(), "values": before})
        parameter.grad = grad
        return result

    returned = optimizer.step(closure)
    after = parameter.detach().clone()
    enabled = torch.is_grad_enabled()
    without = optimizer.step()
    return {
        "calls": calls,
        "returned": returned,
        "values": after,
        "autograd": enabled,
        "returned without a closure": without,
    }


def left(
    module: Any, values: list[Tensor], grads: list[Tensor], options: dict[str, Any]
) -> dict[str, Any]:
    """How a step leaves gradients and parameters."""
    parameters = parameters_of(values)
    optimizer = module.AdamW(parameters, **options)
    for parameter, grad in zip(parameters, grads, strict=True):
        parameter.grad = grad.clone()
    own = [parameter.grad for parameter in parameters]
    optimizer.step()
    held = optimizer.param_groups[0]["params"]
    return {
        "gradients": [parameter.grad for parameter in parameters],
        "same gradients": [p.grad is grad for p, grad in zip(parameters, own, strict=True)],
        "parameters": {
            "keep their requires_grad": all(p.requires_grad for p in parameters),
            "are leaves": all(p.is_leaf for p in parameters),
            "are those that were given": all(
                a is b for a, b in zip(held, parameters, strict=False)
            ),
        },
    }
