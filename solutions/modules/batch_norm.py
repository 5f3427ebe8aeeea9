"""Write BatchNorm1d by hand, and measure what it does to small batches.

Batch normalization gives each feature mean 0 and variance 1 over the batch at hand, and then scales and shifts
it. In training the output for one row depends on the rows beside it; in evaluation a running average of the
statistics takes their place.

Two variances are in play: the *biased* one, the sum of squared deviations divided by their number m, and the
*unbiased* one, divided by m - 1.

Source: Ioffe and Szegedy (2015), "Batch Normalization: Accelerating Deep Network Training by Reducing Internal
Covariate Shift", section 3 (algorithms 1 and 2).

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
import copy

import torch

# end solution
from torch import Tensor, nn


class BatchNorm1d(nn.Module):
    """Batch normalization of (N, num_features) or (N, num_features, L), as `nn.BatchNorm1d` does it.

    The state is that of `nn.BatchNorm1d(num_features)`, so that state dicts load both ways:

    - parameters: `weight`, ones, and `bias`, zeros, both (num_features,);
    - buffers: `running_mean`, zeros, `running_var`, ones, both (num_features,), and `num_batches_tracked`, a
      0-d int64 tensor, zero. They never require grad.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        """Create the parameters and buffers; `eps` and `momentum` are kept for `forward`."""
        super().__init__()
        # begin solution: create weight, bias and the three buffers
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        # end solution

    def forward(self, x: Tensor) -> Tensor:
        """Normalize each feature of `x`; the result has the shape of `x`.

        In training mode, with the mean and the variance of each feature over all other dimensions, m values
        each:

        - The result is `(x - mean) / sqrt(var + eps) * weight + bias`, with the biased variance. Take it from
          the deviations `x - mean`: the mean of the squares less the square of the mean loses its digits where
          data lie far from zero.
        - Then `running = (1 - momentum) * running + momentum * batch's` for `running_mean` and `running_var`,
          with the unbiased variance, and `num_batches_tracked` grows by one.

        In evaluation mode `running_mean` and `running_var` take the place of mean and variance, and nothing is
        updated.

        The gradient of `x` flows through the batch's mean and variance, too, as in `nn.BatchNorm1d`.

        Raises ValueError that names `x`, and leaves the state as it is:

        - for an `x` that does not have 2 or 3 dimensions, or has another number of features;
        - in training mode for m below 2, as in a batch of one row. (In evaluation mode an empty batch is up to
          you.)

        Not allowed: PyTorch's own normalization (`F.batch_norm`, `nn.BatchNorm1d`, and those by instance,
        group, layer or RMS).
        """
        # begin solution: choose the statistics, normalize, update
        if x.dim() not in (2, 3) or x.shape[1] != len(self.weight):
            raise ValueError(
                f"x must be (N, {len(self.weight)}) or with an L, got {tuple(x.shape)}"
            )
        shape = (1, -1) if x.dim() == 2 else (1, -1, 1)
        if self.training:
            m = x.shape[0] * x.shape[2:].numel()
            if m < 2:
                raise ValueError(f"x has {m} values for each feature: a variance needs 2")
            dims = (0,) if x.dim() == 2 else (0, 2)
            mean = x.mean(dims)
            variance = (x - mean.view(shape)).square().mean(dims)
            with torch.no_grad():
                self.running_mean.lerp_(mean, self.momentum)
                self.running_var.lerp_(variance * (m / (m - 1)), self.momentum)
                self.num_batches_tracked += 1
        else:
            mean, variance = self.running_mean, self.running_var
        scaled = (x - mean.view(shape)) / torch.sqrt(variance.view(shape) + self.eps)
        return scaled * self.weight.view(shape) + self.bias.view(shape)
        # end solution


def batching_gap(module: nn.Module, x: Tensor, batch_size: int) -> float:
    """Measure how much the output of `module` depends on the batches in which the rows of `x` come.

    Returns, as a Python float, the largest absolute difference between `module(x)` and the results of `module`
    on consecutive batches of `batch_size` rows of `x` (the last one may be shorter), put together.

    - Every pass runs in the modes in which the module is, and starts from its state of now, not from what the
      previous pass left in its buffers.
    - Afterwards the module is as it was, also when it raises an error. `module.state_dict()` holds the tensors
      themselves, not copies.

    `x` (N, ...) has at least one row. The module gives one tensor with a row for each row of `x`, draws no
    random numbers, and can be deep-copied.

    Raises ValueError that names `batch_size` if it is below 1. One above N gives one batch.
    """
    # begin solution: run a deep copy for each pass, and compare
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")
    with torch.no_grad():
        whole = copy.deepcopy(module)(x)
        parts = torch.cat([copy.deepcopy(module)(batch) for batch in x.split(batch_size)])
    return float((whole - parts).abs().max())
    # end solution
