"""Layers with weights that you can follow by hand."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def shared_heads(module: Any) -> Any:
    """The output for one position of a layer whose two kv heads have the values 10 and 20."""
    layer = module.GroupedQueryAttention(4, 4, 2, 8)
    with torch.no_grad():
        layer.value.weight.copy_(torch.tensor([[10.0], [20.0]]).expand(2, 4) / 4)
        layer.output.weight.copy_(torch.eye(4))
    return layer(torch.ones(1, 1, 4))[0].flatten().detach()


def rolling(module: Any, pieces: list[Tensor]) -> list[Any]:
    """The output and the cached values for each piece, if the values are x and all weights are equal."""
    layer, cache, answers = module.GroupedQueryAttention(1, 1, 1, 2), None, []
    with torch.no_grad():
        for name, parameter in layer.named_parameters():
            parameter.fill_(1.0 if name in ("value.weight", "output.weight") else 0.0)
        for piece in pieces:
            output, cache = layer(piece.view(1, -1, 1), cache)
            answers.append([output.flatten(), cache[1].flatten().clone()])
    return answers
