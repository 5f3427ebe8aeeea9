# right: batching_gap writes the values of all buffers back into the same tensors
import torch
from torch import nn


class BatchNorm1d(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1):
        super().__init__()
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(num_features))
        self.bias = nn.Parameter(torch.zeros(num_features))
        self.register_buffer("running_mean", torch.zeros(num_features))
        self.register_buffer("running_var", torch.ones(num_features))
        self.register_buffer("num_batches_tracked", torch.tensor(0))

    def forward(self, x):
        if x.dim() not in (2, 3):
            raise ValueError("x must have 2 or 3 dimensions")
        if x.shape[1] != self.weight.shape[0]:
            raise ValueError("x has another number of features")
        shape = [1, -1] + [1] * (x.dim() - 2)
        dims = [0] if x.dim() == 2 else [0, 2]
        if self.training:
            m = x.numel() // x.shape[1]
            if m < 2:
                raise ValueError("x has too few values")
            mean = x.mean(dims)
            var = ((x - mean.view(shape)) ** 2).mean(dims)
            with torch.no_grad():
                unbiased = var * m / (m - 1)
                self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean
                self.running_var = (1 - self.momentum) * self.running_var + self.momentum * unbiased
                self.num_batches_tracked += 1
        else:
            mean, var = self.running_mean, self.running_var
        x = (x - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps)
        return x * self.weight.view(shape) + self.bias.view(shape)


@torch.no_grad()
def batching_gap(module, x, batch_size):
    if batch_size < 1:
        raise ValueError("batch_size")
    saved = [(b, b.clone()) for b in module.buffers()]

    def restore():
        for b, v in saved:
            b.copy_(v)

    try:
        whole = module(x)
        outs = []
        for i in range(0, x.size(0), batch_size):
            restore()
            outs.append(module(x[i : i + batch_size]))
    finally:
        restore()
    return float((whole - torch.cat(outs)).abs().max())
