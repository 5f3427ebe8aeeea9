"""A gated linear unit, and a check of which parameters of a module receive a gradient.

Source: Dauphin, Fan, Auli, Grangier (2017), "Language Modeling with Gated Convolutional Networks",
section 2: `value * sigmoid(gate)`, both of them linear in the input.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn


class GatedLinearUnit(nn.Module):
    """A linear projection to value and gate: `value * sigmoid(gate)`.

    `weight` has shape (2 * out_features, in_features) and `bias` (2 * out_features,): the first
    half of the rows makes the value, the second half the gate.
    """

    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        """Create the parameters; `out_features` is `in_features // 2` if None.

        Raises ValueError if `out_features` is None and `in_features` is odd.
        """
        super().__init__()
        if out_features is None:
            if in_features % 2 != 0:
                raise ValueError(
                    f"in_features must be even if out_features is not given, got {in_features}"
                )
            out_features = in_features // 2
        # The bound that nn.Linear uses: the projections then start at about the scale of the
        # input, whatever its width. A weight of zeros would leave the gate without a gradient,
        # since the gate's is proportional to the value, and the value would be zero.
        bound = 1.0 / math.sqrt(in_features)
        self.weight = nn.Parameter(torch.empty(2 * out_features, in_features))
        nn.init.uniform_(self.weight, -bound, bound)
        # Zeros break no symmetry, but the weight already has; every gate starts half open.
        self.bias = nn.Parameter(torch.zeros(2 * out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` of shape (..., in_features) to (..., out_features)."""
        # One product for both halves. F.linear takes any leading dimensions and any strides.
        value, gate = F.linear(x, self.weight, self.bias).chunk(2, dim=-1)
        # torch.sigmoid rather than 1 / (1 + exp(-gate)): at a gate of -1000 exp overflows to inf,
        # which the forward pass survives, and the backward pass turns into 0 * inf = NaN.
        return value * torch.sigmoid(gate)


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    """Tell for every named parameter of `module` whether a gradient reaches it from `x`.

    `x` has whatever shape the module takes, for instance (batch, features). The fresh gradients of
    the output's sum stay on the parameters.
    """
    # None, not zeros: a parameter that the backward pass misses would keep its zeros, and they
    # would look like a gradient. Unlike an optimizer's, this also clears the frozen parameters.
    module.zero_grad(set_to_none=True)
    total = module(x.detach()).sum()
    # If all parameters are frozen there is no graph, and backward() would raise.
    if total.requires_grad:
        total.backward()
    return {name: parameter.grad is not None for name, parameter in module.named_parameters()}
