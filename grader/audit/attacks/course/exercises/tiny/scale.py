"""The exercise that an attack pretends to solve."""

import torch


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Return x times the factor."""
    raise NotImplementedError("scale: multiply")


def doubled(numbers: list[float]) -> list[float]:
    """Return the numbers, each one doubled."""
    raise NotImplementedError("doubled: multiply")


class Scale(torch.nn.Module):
    """Multiplies by one learnable factor, 1 at first."""

    def __init__(self, size: int) -> None:
        super().__init__()
        raise NotImplementedError("Scale.__init__: the factors")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError("Scale.forward: multiply")


def steps(count: int) -> list[int]:
    """Return 1, 3, 5 and so on, `count` of them."""
    raise NotImplementedError("steps: count")
