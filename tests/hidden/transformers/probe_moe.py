"""The number of tokens that each expert computes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def rows(module: Any, router: Tensor, x: Tensor, k: int) -> list[int]:
    """The number of rows in all inputs of each expert, for a layer with this router."""
    experts, dim = router.shape
    layer = module.MoE(dim, experts, k)
    with torch.no_grad():
        layer.router.weight.copy_(router)
    counts = [0] * experts

    def counting(number: int) -> Any:
        def hook(expert: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            counts[number] += inputs[0].shape[:-1].numel()

        return hook

    for number, expert in enumerate(layer.experts):
        expert.register_forward_pre_hook(counting(number))
    layer(x)
    return counts
