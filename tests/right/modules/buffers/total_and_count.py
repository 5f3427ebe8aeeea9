# right: the total made from mean and count, buffers assigned anew, private sets of PyTorch
from __future__ import annotations

import torch
from torch import Tensor, nn


class RunningCenter(nn.Module):
    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.scale = nn.parameter.Parameter(torch.full((num_features,), 1.0))
        zeros = torch.zeros(num_features)
        self.register_buffer("running_mean", zeros.clone())
        self.register_buffer("num_samples", torch.zeros(size=(), dtype=torch.long))
        self.register_buffer("batch_mean", zeros.clone(), False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.numel():
            self._update(x)
        return self.scale * (x - self.running_mean)

    @torch.no_grad()
    def _update(self, x: Tensor) -> None:
        flat = x.flatten(0, -2) if x.dim() > 1 else x[None]
        total = self.running_mean * self.num_samples + flat.sum(0)
        self.num_samples = self.num_samples + flat.size(0)
        self.running_mean = total / self.num_samples
        self.batch_mean = flat.mean(0)


def state_kinds(module: nn.Module) -> dict[str, str]:
    kinds = {}
    for prefix, part in module.named_modules():
        dot = prefix + "." if prefix else ""
        for name, parameter in part._parameters.items():
            if parameter is not None:
                kinds[dot + name] = "parameter"
        for name, buffer in part._buffers.items():
            if buffer is None:
                continue
            lost = name in part._non_persistent_buffers_set
            kinds[dot + name] = "non-persistent buffer" if lost else "buffer"
    return kinds


def forgotten_tensors(module: nn.Module) -> list[str]:
    return sorted(_walk(module, ""))


def _walk(module: nn.Module, prefix: str):
    for name, value in module.__dict__.items():
        if torch.is_tensor(value):
            yield prefix + name
    for name, child in module.named_children():
        yield from _walk(child, f"{prefix}{name}.")
