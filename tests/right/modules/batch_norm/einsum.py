# right: einsum and matrix products for the sums, statistics in float64, one class for both kinds of statistics
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Statistics(NamedTuple):
    mean: Tensor
    var: Tensor


class BatchNorm1d(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        ones, zeros = torch.ones(num_features), torch.zeros(num_features)
        self.register_parameter("weight", nn.Parameter(ones.clone()))
        self.register_parameter("bias", nn.Parameter(zeros.clone()))
        self.register_buffer("running_mean", zeros.clone())
        self.register_buffer("running_var", ones.clone())
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.int64))
        self._eps, self._rate = eps, momentum

    def _batch(self, x):
        m = x.shape[0] * x.shape[2]
        if m < 2:
            raise ValueError(f"x: {m} values are too few in training")
        d = x.double()
        mean = torch.einsum("ncl->c", d) / m
        dev = d - mean[:, None]
        squares = torch.einsum("ncl,ncl->c", dev, dev)
        for own, new in ((self.running_mean, mean), (self.running_var, squares / (m - 1))):
            own.copy_((own * (1 - self._rate) + self._rate * new.detach()).to(own.dtype))
        self.num_batches_tracked += 1
        return Statistics(mean, squares / m)

    def forward(self, x):
        if x.dim() == 2:
            return self.forward(x[:, :, None])[:, :, 0]
        if x.dim() != 3 or x.shape[1] != self.bias.numel():
            raise ValueError(f"x of shape {list(x.shape)} does not fit")
        s = self._batch(x) if self.training else Statistics(self.running_mean, self.running_var)
        factor = self.weight / torch.sqrt(s.var + self._eps)
        out = (x - s.mean[:, None]) * factor[:, None] + self.bias[:, None]
        return out.to(x.dtype)


@torch.no_grad()
def batching_gap(module, x, batch_size):
    if batch_size < 1:
        raise ValueError("batch_size < 1")
    import copy

    kept = copy.deepcopy(module)
    rows = [row for part in x.split(batch_size) for row in copy.deepcopy(kept)(part)]
    return float(torch.linalg.vector_norm(kept(x) - torch.stack(rows), ord=float("inf")))
