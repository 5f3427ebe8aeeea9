"""Run AdamW on parameters with given gradients, and report their values."""

from __future__ import annotations

import functools
import io
import operator
from typing import Any

import torch
from torch import Tensor, nn

Grads = list[list[Tensor | None]]  # one row for each step
Options = dict[str, Any]
NAMES = ["betas", "decoupled_weight_decay", "eps", "lr", "weight_decay"]


def bases(module: Any) -> list[str]:
    """The names of the classes that AdamW inherits from."""
    return [f"{base.__module__}.{base.__qualname__}" for base in module.AdamW.__mro__[1:]]


def add_training_function(module: Any) -> None:
    """Add a function, steps_of_AdamW, to the student's module, because only functions in it can be watched."""
    module.steps_of_AdamW = functools.partial(trained, module)


def trained(module: Any, values: list[Tensor], grads: Grads, options: Options) -> Tensor:
    """The values after each step, one row for each."""
    parameters = parameters_of(values)
    return steps(module.AdamW(parameters, **options), parameters, grads)


def trained_from_a_generator(
    module: Any, values: list[Tensor], grads: Grads, options: Options
) -> Tensor:
    """The values after each step, with parameters from a generator, such as `model.parameters()`."""
    parameters = parameters_of(values)
    return steps(module.AdamW((p for p in parameters), **options), parameters, grads)


def trained_in_groups(
    module: Any,
    values: list[Tensor],
    grads: Grads,
    options: Options,
    own: list[Options],
    changes: list[dict[int, Options]],
) -> dict[str, Any]:
    """The options in the groups, and the values after each step. Each parameter has its own group and options.

    `changes` has the options to change before each step, by the index of the group.
    """
    parameters = parameters_of(values)
    groups = [{"params": [p], **more} for p, more in zip(parameters, own, strict=True)]
    optimizer = module.AdamW(groups, **options)
    keys = [{name: name in group for name in NAMES} for group in optimizer.param_groups]
    history = []
    for row, before_step in zip(grads, changes, strict=True):
        for index, changed in before_step.items():
            optimizer.param_groups[index].update(changed)
        history.append(steps(optimizer, parameters, [row]))
    return {"options in the groups": keys, "values after each step": torch.cat(history)}


def resumed(
    module: Any, values: list[Tensor], before: Grads, after: Grads, options: Options
) -> dict[str, Any]:
    """The change of the values in the last steps, and the same after saving and loading state and values."""
    parameters = parameters_of(values)
    optimizer = module.AdamW(parameters, **options)
    steps(optimizer, parameters, before)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    try:
        state = torch.load(file, weights_only=True)
    except Exception as error:  # noqa: BLE001 (any error is a finding)
        return {"refused": str(error)[:200]}
    start = vector(parameters)
    copies = parameters_of([parameter.detach() for parameter in parameters])
    other = module.AdamW(copies, **options)
    other.load_state_dict(state)
    return {
        "refused": None,
        "went on": steps(optimizer, parameters, after) - start,
        "loaded": steps(other, copies, after) - start,
    }


def closed(
    module: Any, options: Options, values: Tensor, grad: Tensor, result: Any
) -> dict[str, Any]:
    """Make a step with a closure that replaces an old gradient and returns `result`, and a step without."""
    (parameter,) = parameters_of([values])
    parameter.grad = -grad
    # The other group has a parameter without a gradient. The closure must not run for each group.
    groups = [{"params": [parameter]}, {"params": parameters_of([values])}]
    optimizer = module.AdamW(groups, **options)
    seen: list[Any] = []

    def closure() -> Any:
        seen.append([torch.is_grad_enabled(), parameter.detach().clone()])
        parameter.grad = grad
        return result

    returned = optimizer.step(closure)
    return {
        "autograd and values in each call of the closure": seen,
        "result of step(closure)": returned,
        "values afterwards": parameter.detach().clone(),
        "autograd afterwards": torch.is_grad_enabled(),
        "result of step()": optimizer.step(),
    }


def left(
    module: Any, values: list[Tensor], grads: list[Tensor], options: Options
) -> dict[str, Any]:
    """The state of gradients and parameters after a step."""
    parameters = parameters_of(values)
    optimizer = module.AdamW(parameters, **options)
    own = [grad.clone() for grad in grads]
    for parameter, grad in zip(parameters, own, strict=True):
        parameter.grad = grad
    optimizer.step()
    left_there = [parameter.grad for parameter in parameters]
    held = optimizer.param_groups[0]["params"]
    return {
        "gradients": left_there,
        "the gradients are the same tensors": [*map(operator.is_, left_there, own)],
        "the parameters require a gradient": [p.requires_grad for p in parameters],
        "the parameters are leaves": [p.is_leaf for p in parameters],
        "the groups hold the parameters": [*map(operator.is_, held, parameters)],
    }


# --- helpers -------------------------------------------------------------------------------------


def parameters_of(values: list[Tensor]) -> list[nn.Parameter]:
    return [nn.Parameter(value.clone()) for value in values]


def steps(optimizer: Any, parameters: list[nn.Parameter], grads: Grads) -> Tensor:
    """Make a step for each row of gradients, and return all values after each step as one row."""
    history = []
    for row in grads:
        for parameter, grad in zip(parameters, row, strict=True):
            parameter.grad = None if grad is None else grad.clone()
        optimizer.step()
        history.append(vector(parameters))
    return torch.stack(history)


def vector(parameters: list[nn.Parameter]) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in parameters])
