"""Models whose velocity is known."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Velocity(nn.Module):
    """A model whose velocity is a function of x and t, with t as a column."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, t: Tensor) -> Any:
        return self.function(x, t.reshape(-1, 1).to(x.dtype))


def example_loss(module: Any, x1: Tensor, off: float) -> Any:
    """The loss of a model that knows x1 and is off by a number."""
    model = Velocity(lambda x, t: (x1 - x) / (1 - t) + off)
    loss = module.flow_matching_loss(model, x1)
    return loss.detach() if isinstance(loss, Tensor) else loss


def example_sample(module: Any, x0: Tensor, steps: int) -> Any:
    """The samples if the velocity is 8 * t."""
    return module.sample(Velocity(lambda x, t: 8 * t + 0 * x), x0, steps).detach()
