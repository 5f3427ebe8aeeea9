"""Exercise the gradient-norm monitor on small examples, and report."""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn


def norm(module: Any, gradients: list[Tensor | None]) -> Any:
    """The norm of parameters with these gradients, or with none."""
    parameters = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(2 if gradient is None else gradient.shape))
        parameter.grad = gradient
        parameters.append(parameter)
    return module.gradient_norm(parameters)


def initialize(module: Any, scheme: str) -> dict[str, Tensor]:
    """The parameters of two linear layers, one inside the other's container, after initialize."""
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Linear(3, 1)))
    module.initialize(model, scheme)
    return {name: each.detach() for name, each in model.named_parameters()}


def train(module: Any, weight: float, lr: float, epochs: int) -> dict[str, Any]:
    """Train y = weight * x towards 0 at x = 1, one batch of one sample."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, weight)
    loader = [(torch.ones(1, 1).double(), torch.zeros(1, 1).double())]
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    norms = module.train_with_monitor(model, loader, nn.functional.mse_loss, optimizer, epochs)
    return {"norms": norms, "weight": model.weight.detach()}


def plot(module: Any, histories: dict[str, Tensor]) -> dict[str, Any]:
    """What is on the figure of these histories."""
    figure = module.plot_gradient_norms(histories)
    facts: dict[str, Any] = {"type": type(figure).__name__, "axes": None}
    if isinstance(figure, Figure):
        facts["axes"] = len(figure.axes)
        facts["scales"] = [axes.get_yscale() for axes in figure.axes]
        facts["labels"] = [line.get_label() for axes in figure.axes for line in axes.get_lines()]
    return facts
