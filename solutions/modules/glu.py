"""Build a gated linear unit, and find out which parameters of a module receive a gradient.

A gated linear unit (GLU) projects its input twice and lets one projection decide how much of the other passes:

    value = x @ W_value.T + b_value
    gate  = x @ W_gate.T  + b_gate
    output = value * sigmoid(gate)

Both projections live in one `weight` and one `bias`, so that a single matrix product computes both. The path
through `value` is linear: a gradient passes it without being squashed.

Source: Dauphin, Fan, Auli, Grangier (2017), "Language Modeling with Gated Convolutional Networks", section 2.

What holds for every exercise: docs/every-exercise.md.
"""

import torch
from torch import nn

# begin solution: imports
import math  # isort: skip
import torch.nn.functional as F  # isort: skip

# end solution


class GatedLinearUnit(nn.Module):
    """A linear projection to value and gate: `value * sigmoid(gate)`.

    Parameters, both learnable `nn.Parameter`s, under exactly these names:

    - `weight` of shape (2 * out_features, in_features). Rows `[:out_features]` make the value, rows
      `[out_features:]` the gate. It starts with any finite random numbers.
    - `bias` of shape (2 * out_features,), in the same order. It starts with any finite numbers.

    Nothing else is in the layer's `state_dict()`.
    """

    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        """Create `weight` and `bias`. If `out_features` is None it is `in_features // 2`.

        Raises ValueError that names `in_features` if `out_features` is None and `in_features` is odd.
        """
        super().__init__()
        # begin solution: create weight and bias
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
        # Zeros are fine here, because the weight already breaks the symmetry. Every gate starts half open.
        self.bias = nn.Parameter(torch.zeros(2 * out_features))
        # end solution

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` of shape (..., in_features) to `value * sigmoid(gate)`, (..., out_features).

        Project `x` to `2 * out_features`, split the result along its last dimension into value (the first half)
        and gate (the second half), then gate the value. Gradients reach `x`, `weight` and `bias`, and are
        finite for gates of up to 1e3 in magnitude.

        Not allowed: PyTorch's own operator (`F.glu`, `nn.GLU`, `torch.ops.aten.glu`). `torch.sigmoid` and
        `F.linear` are fine.
        """
        # begin solution: project, split, gate
        # One product for both halves. F.linear takes any leading dimensions and any strides.
        value, gate = F.linear(x, self.weight, self.bias).chunk(2, dim=-1)
        # torch.sigmoid rather than 1 / (1 + exp(-gate)): at a gate of -1000 exp overflows to inf,
        # which the forward pass survives, and the backward pass turns into 0 * inf = NaN.
        return value * torch.sigmoid(gate)
        # end solution


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    """Tell for every named parameter of `module` whether a gradient reaches it.

    A parameter that no gradient reaches never learns, and nothing warns you.

    1. Set each parameter's `.grad` to None, that of frozen ones (`requires_grad=False`), too, so that an old
       gradient never counts.
    2. Run the module on `x`, detached from the graph that `x` may come from. It returns one tensor.
    3. Backward from the sum of the output.
    4. Return a dict from each name in `module.named_parameters()` to True if its `.grad` is now not None, else
       False. A gradient that is all zeros is a gradient.

    If all parameters are frozen, everything is False, without an error. The fresh gradients stay on the
    parameters.
    """
    # begin solution: clear, run, backward, look
    # None, not zeros: a parameter that the backward pass misses would keep its zeros, and they
    # would look like a gradient. Unlike an optimizer's, this also clears the frozen parameters.
    module.zero_grad(set_to_none=True)
    total = module(x.detach()).sum()
    # If all parameters are frozen there is no graph, and backward() would raise.
    if total.requires_grad:
        total.backward()
    return {name: parameter.grad is not None for name, parameter in module.named_parameters()}
    # end solution
