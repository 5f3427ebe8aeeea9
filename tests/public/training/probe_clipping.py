"""Parameters with given gradients, and one step of a model with one weight."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn


def clipped(module: Any, name: str, gradients: list[Any], *limits: float) -> dict[str, Any]:
    """The result of clipping, and the gradients after it. The parameters come from a generator."""
    made = [nn.Parameter(torch.ones(2, 3)) for _ in gradients]
    for parameter, gradient in zip(made, gradients, strict=True):
        parameter.grad = gradient
    value = getattr(module, name)(iterate(made), *limits)
    return {"value": value, "gradients": [parameter.grad for parameter in made]}


def norm(module: Any, gradients: list[Any], norm_type: float) -> Any:
    """The student's norm of these gradients."""
    return clipped(module, "total_norm", gradients, norm_type)["value"]


def iterate(parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    yield from parameters


def stepped(module: Any, inputs: list[Tensor], max_norm: float) -> dict[str, Any]:
    """The weight after a step of SGD with rate 1 for each input, and the results of train_step."""
    model = nn.Linear(2, 1, bias=False)
    model.load_state_dict({"weight": torch.tensor([[1.0, 2.0]])})
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    weights, norms = [], []
    for x in inputs:
        norms.append(
            module.train_step(model, nn.functional.l1_loss, sgd, x, torch.zeros(1, 1), max_norm)
        )
        weights.append(model.weight.detach().clone())
    return {"weights": weights, "norms": norms}
