"""What a call changed in place: tensors before and after it, and what the function calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

__all__ = ["names_of", "state_of"]


def state_of(tensor: torch.Tensor) -> tuple[object, ...]:
    """What a call must leave as it is. Not the version counter: `.data` and NumPy go around it."""
    values = tensor.detach()
    if values.dtype.itemsize == 2 and values.is_floating_point():
        values = values.float()  # NumPy has no bfloat16
    return values.numpy().tobytes(), values.shape, tensor.requires_grad, tensor.grad is None


def names_of(
    function: Callable[..., Any],
    arguments: list[Any],
    keywords: dict[str, Any],
    changed: list[torch.Tensor],
) -> tuple[str, ...]:
    """What the function itself calls the arguments that hold the changed tensors."""
    target = getattr(function, "forward", function)
    try:
        bound = inspect.signature(target).bind(*arguments, **keywords).arguments
    except (TypeError, ValueError):
        bound = {f"args[{i}]": each for i, each in enumerate(arguments)} | keywords
    return tuple(
        name for name, value in bound.items() if any(_holds(value, each) for each in changed)
    )


def _holds(value: Any, tensor: torch.Tensor) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds(each, tensor) for each in value)
    if isinstance(value, dict):
        return any(_holds(each, tensor) for each in value.values())
    return value is tensor
