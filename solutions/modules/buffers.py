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
        # begin solution: one nn.Parameter, three register_buffer
        self.scale = nn.Parameter(torch.ones(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("num_samples", torch.zeros((), dtype=torch.int64))
        # Only for inspection, so it is not saved: a loaded layer makes a new one with its next batch.
        self.register_buffer("batch_mean", torch.zeros(num_features), persistent=False)
        # end solution

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
        # begin solution: update the statistics, subtract, scale
        rows = x.detach().reshape(-1, x.shape[-1])
        if self.training and len(rows):
            self.batch_mean = rows.mean(dim=0)
            self.num_samples = self.num_samples + len(rows)
            # Move the old mean towards the batch's mean, by the share of the new rows.
            step = len(rows) / self.num_samples
            self.running_mean = self.running_mean + (self.batch_mean - self.running_mean) * step
        return (x - self.running_mean) * self.scale
        # end solution


def state_kinds(module: nn.Module) -> dict[str, str]:
    """Return the kind of every parameter and buffer of `module`, by its dotted name, in any order.

    The kinds are `"parameter"` (frozen ones too), `"buffer"` (one that is in the state dict) and
    `"non-persistent buffer"`.
    """
    # begin solution: name the parameters and buffers; which are saved?
    kinds = {name: "parameter" for name, _ in module.named_parameters()}
    saved = module.state_dict()
    for name, _ in module.named_buffers():
        kinds[name] = "buffer" if name in saved else "non-persistent buffer"
    return kinds
    # end solution


def forgotten_tensors(module: nn.Module) -> list[str]:
    """Return the dotted names of all tensors that `.to()` and `state_dict()` of `module` forget, in any order.

    These are plain attributes of the module or of a submodule at any depth, such as `"table"` or
    `"encoder.0.mask"`, of every dtype, with or without `requires_grad`. Tensors inside lists, dicts and other
    objects do not count.
    """
    # begin solution: look at the attributes of each submodule
    # Parameters and buffers are not in vars(): nn.Module keeps them in dicts of its own.
    return [
        f"{prefix}.{name}".lstrip(".")
        for prefix, submodule in module.named_modules()
        for name, value in vars(submodule).items()
        if isinstance(value, torch.Tensor)
    ]
    # end solution
