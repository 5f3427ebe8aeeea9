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
        # TODO: create weight and bias.
        raise NotImplementedError("GatedLinearUnit.__init__: create weight and bias")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` of shape (..., in_features) to `value * sigmoid(gate)`, (..., out_features).

        Project `x` to `2 * out_features`, split the result along its last dimension into value (the first half)
        and gate (the second half), then gate the value. Gradients reach `x`, `weight` and `bias`, and are
        finite for gates of up to 1e3 in magnitude.

        Not allowed: PyTorch's own operator (`F.glu`, `nn.GLU`, `torch.ops.aten.glu`). `torch.sigmoid` and
        `F.linear` are fine.
        """
        # TODO: project, split, gate.
        raise NotImplementedError("GatedLinearUnit.forward: project, split, gate")


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
    # TODO: clear, run, backward, look.
    raise NotImplementedError("gradient_flow: clear, run, backward, look")
