"""Build a gated linear unit, and find out which parameters of a module receive a gradient.

A gated linear unit (GLU) projects its input twice and lets one projection decide how much of
the other passes:

    value = x @ W_value.T + b_value
    gate  = x @ W_gate.T  + b_gate
    output = value * sigmoid(gate)

Both projections live in one `weight` and one `bias`: the first half of the rows belongs to the
value, the second half to the gate, so that a single matrix product computes both.

The path through `value` is linear, so a gradient passes it without being squashed as it would be by
a tanh, while the sigmoid still makes the layer nonlinear. The relatives of this layer (SwiGLU,
GEGLU) sit in most of today's transformers.

Source: Dauphin, Fan, Auli, Grangier (2017), "Language Modeling with Gated Convolutional Networks",
section 2. Theirs convolves, yours is the linear one.

What you write works in float32 and in float64. It leaves what it is given as it was: the values,
`.grad` and `requires_grad` of tensors, and whether a module is in training or evaluation mode. It
sets no seed.
"""

import torch
from torch import nn


class GatedLinearUnit(nn.Module):
    """A linear projection to value and gate: `value * sigmoid(gate)`.

    Parameters, both learnable `nn.Parameter`s, under exactly these names:

    - `weight` of shape (2 * out_features, in_features). Rows `[:out_features]` make the value, rows
      `[out_features:]` the gate. It starts with any finite random numbers.
    - `bias` of shape (2 * out_features,), in the same order. It starts with any finite numbers.

    Nothing else appears in the layer's `state_dict()`. A new layer is float32; `layer.double()` turns
    it into float64.
    """

    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        """Create `weight` and `bias`.

        `in_features` is the size of the last dimension of the input, `out_features` that of the
        output. If `out_features` is None it is `in_features // 2`.

        Raises ValueError, with a message that names `in_features`, if `out_features` is None and
        `in_features` is odd.
        """
        super().__init__()
        # TODO: create weight and bias.
        raise NotImplementedError("GatedLinearUnit.__init__: create weight and bias")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` of shape (..., in_features) to `value * sigmoid(gate)`, (..., out_features).

        Project `x` with `weight` and `bias` to `2 * out_features`, split the result along its last
        dimension into value (the first half) and gate (the second half), then gate the value.

        - `...` is any number of leading dimensions: (in_features,), (batch, in_features),
          (batch, time, in_features), and so on. Any of them may be 0.
        - `x` and the output have the dtype of the layer's parameters. `x` need not be contiguous.
        - Gradients reach `x`, `weight` and `bias`, and are finite for gates of up to 1e3 in
          magnitude.

        Write the gate yourself: PyTorch's own operator (`F.glu`, `nn.GLU`, `torch.ops.aten.glu`) is
        not allowed here. `torch.sigmoid` and `F.linear` are fine.
        """
        # TODO: project, split, gate.
        raise NotImplementedError("GatedLinearUnit.forward: project, split, gate")


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    """Tell for every named parameter of `module` whether a gradient reaches it.

    A parameter that no gradient reaches never learns, and nothing warns you: a forgotten `detach`,
    a layer that `forward` does not use, a frozen weight. This function finds out for any module:

    1. Set each parameter's `.grad` to None, that of frozen ones (`requires_grad=False`), too, so
       that an old gradient never counts.
    2. Run the module on `x`, detached from the graph that `x` may come from. `x` has whatever
       shape the module takes, for instance (batch, features), and the module returns one tensor.
    3. Backward from the sum of the output.
    4. Return a dict from each name in `module.named_parameters()` to True if its `.grad` is now not
       None, False otherwise. A gradient that is all zeros is a gradient: True.

    A frozen parameter is False. If all of them are frozen, everything is False: there is nothing to
    go backward through then, and that is not an error.

    The fresh gradients stay on the module's parameters. All else is as it was: the parameters'
    values and `requires_grad`, the mode of every submodule, and `x` with its `.grad`.
    """
    # TODO: clear, run, backward, look.
    raise NotImplementedError("gradient_flow: clear, run, backward, look")
