"""Steps of AdamW on one parameter."""

from typing import Any

from torch import Tensor, nn


def values(module: Any, start: Tensor, grads: list[Tensor | None], options: dict[str, Any]) -> Any:
    """The values after each step, one for each gradient."""
    parameter = nn.Parameter(start.clone())
    optimizer = module.AdamW([parameter], **options)
    history = []
    for grad in grads:
        parameter.grad = grad
        optimizer.step()
        history.append(parameter.detach().clone())
    return history


def resumed(module: Any, start: Tensor, grads: list[Tensor], options: dict[str, Any]) -> Any:
    """The value after two steps. Between them, a new AdamW loads the state of the old one."""
    parameter = nn.Parameter(start.clone())
    optimizer = module.AdamW([parameter], **options)
    for grad in grads:
        parameter.grad = grad
        optimizer.step()
        state = optimizer.state_dict()
        optimizer = module.AdamW([parameter], **options)
        optimizer.load_state_dict(state)
    return parameter.detach()
