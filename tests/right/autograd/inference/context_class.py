# right: a class with __enter__ and __exit__, inference_mode inside, clones outside
from __future__ import annotations

import torch


class evaluating:
    """Modes by name, inference mode for the block."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model

    def __enter__(self) -> evaluating:
        self.modes = {name: module.training for name, module in self.model.named_modules()}
        self.model.train(False)
        self.guard = torch.inference_mode()
        self.guard.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self.guard.__exit__(*details)
        for name, module in self.model.named_modules():
            module.training = self.modes[name]


def predict(model: torch.nn.Module, loader) -> torch.Tensor:
    with evaluating(model):
        parts = [model(batch[0]) for batch in loader]
    if len(parts) == 0:
        raise ValueError("no batch in the loader")
    return torch.cat([ordinary(part) for part in parts], dim=0)


def ordinary(x: torch.Tensor) -> torch.Tensor:
    if not x.is_inference():
        return x
    with torch.inference_mode(mode=False), torch.no_grad():
        copy = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        copy.copy_(x)
        return copy
