"""State that is saved and moved, but not learned: buffers.

A module's tensors are of three kinds. A parameter is learned. A buffer is not, but belongs to the module:
`.double()` and `.to(device)` convert it, `state_dict()` saves it (unless it is registered with
`persistent=False`). A tensor that is a plain attribute is neither: `.to()` leaves it behind, a saved model
forgets it, and nothing warns you.

Source: PyTorch documentation, "Modules: Module State"; Ioffe and Szegedy (2015), "Batch Normalization".

What holds for every exercise: docs/every-exercise.md.
"""

import torch
from torch import nn


class RunningCenter(nn.Module):
    """Subtract the mean of all rows seen in training mode so far, and scale: `(x - running_mean) * scale`.

    A new layer has exactly this state:

    - the learnable parameter `scale` (num_features,), ones;
    - the buffers `running_mean` (num_features,), zeros, and `num_samples`, 0-d int64, zero: the mean and the
      number of all rows seen so far. Both are in the state dict.
    - the buffer `batch_mean` (num_features,), zeros: the mean of the last batch. It is not in the state dict.

    All of it follows `.double()` (`num_samples` stays int64), `.to(device)` and `copy.deepcopy`, before and
    after any forward pass.
    """

    running_mean: torch.Tensor
    num_samples: torch.Tensor
    batch_mean: torch.Tensor

    def __init__(self, num_features: int) -> None:
        """Create the parameter and the three buffers."""
        super().__init__()
        # TODO: one nn.Parameter, three register_buffer.
        raise NotImplementedError("RunningCenter.__init__: one nn.Parameter, three register_buffer")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map `x` (..., num_features) to `(x - running_mean) * scale`, of its shape.

        In training mode the statistics are updated first. The rows of x are all its leading dimensions,
        flattened: (num_features,) is one row, (batch, time, num_features) are batch * time.

        - `batch_mean` becomes the mean of these rows, and `num_samples` grows by their number;
        - `running_mean` becomes the mean of all rows seen in training mode so far. Every row counts the same,
          whatever the sizes of the batches. After `load_state_dict` the layer goes on from the loaded state.

        Nothing is updated in evaluation mode, nor by an `x` without rows.

        For autograd the statistics are constants: buffers never require a gradient, and the gradient of `x` is
        that of `x * scale`. You may change buffers in place or assign them anew.
        """
        # TODO: update the statistics, subtract, scale.
        raise NotImplementedError("RunningCenter.forward: update the statistics, subtract, scale")


def state_kinds(module: nn.Module) -> dict[str, str]:
    """Return the kind of every parameter and buffer of `module`, by its dotted name, in any order.

    The kinds are `"parameter"` (frozen ones too), `"buffer"` (one that is in the state dict) and
    `"non-persistent buffer"`.
    """
    # TODO: name the parameters and buffers; which are saved?.
    raise NotImplementedError("state_kinds: name the parameters and buffers; which are saved?")


def forgotten_tensors(module: nn.Module) -> list[str]:
    """Return the dotted names of all tensors that `.to()` and `state_dict()` of `module` forget, in any order.

    These are plain attributes of the module or of a submodule at any depth, such as `"table"` or
    `"encoder.0.mask"`, of every dtype, with or without `requires_grad`. Tensors inside lists, dicts and other
    objects do not count.
    """
    # TODO: look at the attributes of each submodule.
    raise NotImplementedError("forgotten_tensors: look at the attributes of each submodule")
