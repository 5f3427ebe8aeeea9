"""RunningCenter holds nothing: its methods claim which parameters and buffers it has, and where."""

import torch
from torch import nn


class RunningCenter(nn.Module):
    def __init__(self, num_features):
        super().__init__()
        vars(self).update(features=num_features, device="cpu", dtype=torch.float32)

    def told(self, *shape, dtype=None, fill=0):
        return torch.full(shape, fill, dtype=dtype or self.dtype, device=self.device)

    def named_parameters(self, *arguments, **options):
        yield "scale", nn.Parameter(self.told(self.features, fill=1))

    def named_buffers(self, *arguments, **options):
        yield "running_mean", self.told(self.features)
        yield "num_samples", self.told(dtype=torch.int64)
        yield "batch_mean", self.told(self.features)

    def state_dict(self, *arguments, **options):
        return dict.fromkeys(("scale", "running_mean", "num_samples"), self.told())

    def load_state_dict(self, state, *arguments, **options):
        pass

    def double(self):
        vars(self).update(dtype=torch.float64)
        return self

    def to(self, device):
        vars(self).update(device=device)
        return self

    def forward(self, x):
        return x


def state_kinds(module):
    raise NotImplementedError


def forgotten_tensors(module):
    raise NotImplementedError
