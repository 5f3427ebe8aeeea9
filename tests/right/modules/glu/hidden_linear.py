# right: a Linear kept in a tuple (so not a submodule) whose parameters the layer registers as its own
import torch
from torch import nn


class GatedLinearUnit(nn.Module):
    def __init__(self, in_features: int, out_features: int | None = None) -> None:
        super().__init__()
        if out_features is None:
            out_features, rest = in_features // 2, in_features % 2
            if rest:
                raise ValueError("cannot halve in_features = " + repr(in_features))
        self._inner = (nn.Linear(in_features, out_features + out_features),)
        self.weight = self._inner[0].weight
        self.bias = self._inner[0].bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (linear,) = self._inner
        both = linear(x)
        half = both.shape[-1] // 2
        signal, gate = both.split([half, half], dim=-1)
        return signal / (1 + torch.exp(-gate.clamp(min=-60, max=60)))


def gradient_flow(module: nn.Module, x: torch.Tensor) -> dict[str, bool]:
    module.zero_grad(set_to_none=True)
    with torch.no_grad():
        copy = x.clone()
    total = module(copy).sum()
    if total.requires_grad:
        total.backward()
    flow = dict.fromkeys(name for name, _ in module.named_parameters())
    for name, parameter in module.named_parameters():
        flow[name] = not (parameter.grad is None)
    return flow
