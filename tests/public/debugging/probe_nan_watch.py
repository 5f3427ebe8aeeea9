"""Small models with a NaN in them, and the hooks that are left after the student's functions."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def model(module: Any, spoiled: str = "") -> nn.Sequential:
    """Two linear layers with weights of ones, and an in-place ReLU. The bias `spoiled` gets a NaN."""
    made = nn.Sequential(nn.Linear(2, 2), nn.ReLU(inplace=True), nn.Sequential(nn.Linear(2, 1)))
    for name, parameter in made.named_parameters():
        nn.init.constant_(parameter, float("nan") if name == spoiled else 1.0)
    return made


def left(model: nn.Module) -> int:
    """The number of hooks of the model's modules and parameters."""
    tables = [item for part in model.modules() for item in vars(part).items()]
    own = sum(len(parameter._backward_hooks or ()) for parameter in model.parameters())
    return own + sum(len(table) for name, table in tables if name.endswith("_hooks"))


def norms(module: Any, x: Tensor) -> Any:
    """gradient_norms after a backward pass through a model whose first bias is frozen."""
    made = model(module)
    made[0].bias.requires_grad_(False)
    made(x).sum().backward()
    return module.gradient_norms(made)


def first(module: Any, spoiled: str, x: Tensor) -> dict[str, Any]:
    made = model(module, spoiled)
    return {"value": module.first_non_finite(made, x), "left": left(made)}


def watched(module: Any, factor: float, x: Tensor) -> dict[str, Any]:
    """The error in the block when the loss is multiplied by a factor, and the hooks that are left."""
    made, text = model(module), None
    try:
        with module.watch_gradients(made):
            (made(x).sum() * factor).backward()
    except NotImplementedError:
        raise
    except RuntimeError as error:
        text = str(error)[:300]
    return {"text": text, "left": left(made)}


def backward(module: Any, x: Tensor) -> dict[str, Any]:
    x.requires_grad_()
    value = module.backward_nan(lambda: (x.sqrt() * 0).sum())
    mode = torch.is_anomaly_enabled()
    torch.autograd.set_detect_anomaly(False)
    return {"value": value, "mode": mode}
