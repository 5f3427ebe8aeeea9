"""Run differs_from_torch with a right relu, so that it is judged by itself."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def differs(module: Any, x: Tensor) -> Any:
    """Return differs_from_torch(x), with clamp in the place of the student's relu."""
    relu = module.relu

    def clamped(x: Tensor) -> Tensor:
        return x.clamp(min=0)

    module.relu = module.ReLUFunction.apply = clamped
    try:
        return module.differs_from_torch(x)
    finally:
        module.relu = relu
        del module.ReLUFunction.apply
