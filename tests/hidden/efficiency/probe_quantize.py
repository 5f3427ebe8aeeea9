"""Linear layers, which the student's code quantizes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def linear(module: Any, weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """Make a linear layer with these numbers."""
    outputs, inputs = weight.shape
    layer = nn.Linear(inputs, outputs, bias=bias is not None, dtype=weight.dtype)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer


def state(module: Any, weight: Tensor, bias: Tensor | None) -> Any:
    """Return the state dict of the quantized layer."""
    layer = module.QuantizedLinear(linear(module, weight, bias))
    return {name: tensor.detach() for name, tensor in layer.state_dict().items()}
