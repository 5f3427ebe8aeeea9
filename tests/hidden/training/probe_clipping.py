"""Parameters with given gradients, a model that logs its calls, and a loss whose gradients may be inf."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LOG: list[Tensor] = []  # the inputs of each forward pass; of copies of a model, too
FORMS: dict[str, Any] = {"list": list, "tuple": tuple, "generator": iter}


def parameters(module: Any, values: list[Tensor], gradients: list[Any], form: str = "list") -> Any:
    """Parameters with these gradients: a list, a tuple, a generator."""
    made = [nn.Parameter(value) for value in values]
    for parameter, gradient in zip(made, gradients, strict=True):
        parameter.grad = gradient
    return FORMS[form](made)


def clipped(
    module: Any, name: str, values: list[Tensor], gradients: list[Any], form: str, *more: Any
) -> dict[str, Any]:
    """What a call returns and leaves: the gradients, and whether they are the same objects."""
    made = parameters(module, values, gradients)
    value = getattr(module, name)(FORMS[form](made), *more)
    same = [p.grad is gradient for p, gradient in zip(made, gradients, strict=True)]
    after = [p.grad if p.grad is None else p.grad.detach() for p in made]
    return {"value": value, "gradients": after, "same": same}


class Network(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        LOG.append(x)
        for part in self.children():
            x = part(x)
        return x


def modes(model: nn.Module) -> list[bool]:
    return [part.training for part in model.modules()]


def model(
    module: Any, weights: Tensor, training: Any = (), stale: float = 0.0, whole: bool = True
) -> nn.Module:
    """(n, 3) to (n, 2), in float64; unless it is `whole`, its first bias is frozen, its last unused.

    The parts named in `training` are in training mode.
    """
    made = Network(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2, bias=False))
    if not whole:
        made[0].bias.requires_grad_(False)
    made.register_parameter("unused", None if whole else nn.Parameter(torch.zeros(2)))
    used = [p for name, p in made.double().named_parameters() if name != "unused"]
    nn.utils.vector_to_parameters(weights.clone(), used)
    for parameter in made.parameters():
        parameter.grad = torch.full_like(parameter, stale)
    for name, part in made.named_modules():
        part.training = name in training
    return made


def optimizer(module: Any, model: nn.Module) -> torch.optim.SGD:
    """SGD with momentum, in two groups."""
    first, *others = model.parameters()
    return torch.optim.SGD([{"params": [first]}, {"params": others}], lr=0.1, momentum=0.9)


def loss_fn(module: Any) -> Any:
    return loss


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A squared error, and a root whose slope is infinite where targets have a 0 in column 2."""
    slope = outputs[:, 0] - outputs[:, 0].detach()
    return F.mse_loss(outputs, targets[:, :2]) + (slope + targets[:, 2]).sqrt().mean()


def trained(
    module: Any, weights: Tensor, batches: list[Any], max_norm: float, **options: Any
) -> list[dict[str, Any]]:
    """What each of several steps of one training returns and leaves."""
    made = model(module, weights, **options)
    sgd, reports = optimizer(module, made), []
    for inputs, targets in batches:
        LOG.clear()
        value = module.train_step(made, loss, sgd, inputs, targets, max_norm)
        after = torch.cat([parameter.detach().flatten() for parameter in made.parameters()])
        report = {"value": value, "weights": after, "forwards": len(LOG), "after": modes(made)}
        reports.append(report)
    return reports
