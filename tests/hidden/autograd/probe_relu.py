"""differs_from_torch beside a relu that is right, so that it is judged by itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def differs(module: Any, x: Tensor) -> Any:
    """The answer of differs_from_torch where clamp stands in for the student's relu."""
    relu = module.relu

    def clamped(x: Tensor) -> Tensor:
        return x.clamp(min=0)

    module.relu = module.ReLUFunction.apply = clamped
    try:
        return module.differs_from_torch(x)
    finally:
        module.relu = relu
        del module.ReLUFunction.apply
