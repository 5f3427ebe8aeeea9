"""A layer as a convolution."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def convolved(module: Any, weight: Tensor, bias: Tensor, images: Tensor, size: int) -> Any:
    """The output of as_convolution() for images, from a layer with this weight and bias."""
    layer = module.PatchEmbedding(images.shape[1], size, len(bias))
    with torch.no_grad():
        layer.projection.weight.copy_(weight)
        layer.projection.bias.copy_(bias)
    return layer.as_convolution()(images).detach()
