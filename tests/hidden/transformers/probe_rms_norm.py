"""Gradients of the norm with a replaced backward, and for a given incoming gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def gradients_of_rms_norm(module: Any, x: Tensor, of_x: Tensor, of_weight: Tensor) -> Any:
    """The gradients of rms_norm while RMSNormFunction.backward returns `of_x` and `of_weight`."""
    weight = torch.ones_like(of_weight).requires_grad_()
    return replaced(module, lambda x: module.rms_norm(x, weight), x, weight, of_x, of_weight)


def gradients_of_layer(module: Any, x: Tensor, of_x: Tensor, of_weight: Tensor) -> Any:
    """The gradients of a layer while RMSNormFunction.backward returns `of_x` and `of_weight`."""
    layer = module.RMSNorm(x.shape[-1])
    return replaced(module, layer, x, layer.weight, of_x, of_weight)


def replaced(
    module: Any,
    call: Callable[[Tensor], Tensor],
    x: Tensor,
    weight: Tensor,
    of_x: Tensor,
    of_weight: Tensor,
) -> Any:
    """The gradients of x and weight while RMSNormFunction.backward returns `of_x` and `of_weight`."""
    function = module.RMSNormFunction
    own = function.__dict__["backward"]
    function.backward = staticmethod(lambda ctx, grad_output: (of_x, of_weight, None))
    try:
        return torch.autograd.grad(call(x.requires_grad_()).sum(), [x, weight])
    finally:
        function.backward = own


def gradient_of(module: Any, x: Tensor, incoming: Tensor) -> Any:
    """The gradient of x, with a weight of ones, for exactly this incoming gradient."""
    x = x.requires_grad_()
    output = module.rms_norm(x, torch.ones_like(x[0]))
    (gradient,) = torch.autograd.grad((output * incoming).sum(), x)
    return gradient
