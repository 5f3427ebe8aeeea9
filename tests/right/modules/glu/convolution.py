# right: a convolution of kernel 1 as the projection, a sigmoid by exp(-|gate|), NumPy's random numbers, hooks that see who gets a gradient
from typing import Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features: int, out_features: Optional[int] = None, *, device=None):
        super().__init__()
        if out_features is None:
            if in_features % 2:
                raise ValueError(f"in_features = {in_features}: should be even")
            out_features = in_features // 2
        bound = 1 / np.sqrt(in_features)
        start = np.random.uniform(-bound, bound, size=(2 * out_features, in_features))
        self.weight = nn.Parameter(torch.from_numpy(start).float().to(device))
        self.bias = nn.Parameter(torch.zeros(2 * out_features, device=device))

    def forward(self, x):
        rows = x.reshape(x.shape[:-1].numel(), x.shape[-1], 1)
        projected = F.conv1d(rows, self.weight[:, :, None], self.bias)[:, :, 0]
        projected = projected.reshape(x.shape[:-1] + (-1,)) if x.numel() else self._nothing(x)
        value, gate = projected.chunk(2, dim=-1)
        small = torch.exp(-gate.abs())
        opened = torch.where(gate < 0, small / (1 + small), 1 / (1 + small))
        return value * opened

    def _nothing(self, x):
        return x.new_zeros(x.shape[:-1] + self.bias.shape)


def gradient_flow(module, x):
    module.zero_grad()
    reached, hooks = set(), []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            hook = lambda _, name=name: reached.add(name)
            hooks.append(parameter.register_post_accumulate_grad_hook(hook))
    output = module(x.detach())
    if output.requires_grad:
        output.sum().backward()
    for hook in hooks:
        hook.remove()
    return {name: name in reached for name, _ in module.named_parameters()}
