"""The reference: no sandbox may ever hold a word of it."""

import torch

REFERENCE = "canary:solution:5f0c7d19e2a84b36"


def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    return factor * x


def doubled(numbers: list[float]) -> list[float]:
    return [2 * number for number in numbers]


class Scale(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.factors = torch.nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.factors * x


def steps(count: int) -> list[int]:
    return [2 * each + 1 for each in range(count)]
