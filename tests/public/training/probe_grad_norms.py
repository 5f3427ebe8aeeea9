"""Run the gradient-norm monitor on small examples."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def norm(module: Any, gradients: list[Tensor | None]) -> Any:
    """The norm for parameters with these gradients, some of which may be None."""
    parameters = []
    for gradient in gradients:
        parameter = nn.Parameter(torch.zeros(2 if gradient is None else gradient.shape))
        parameter.grad = gradient
        parameters.append(parameter)
    return module.gradient_norm(parameters)


def initialize(module: Any, scheme: str) -> dict[str, Tensor]:
    """The parameters of two linear layers and of a LayerNorm, whose bias is 0.5, after initialize."""
    norm = nn.LayerNorm(3)
    nn.init.constant_(norm.bias, 0.5)
    model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(norm, nn.Linear(3, 1)))
    module.initialize(model, scheme)
    return {name: each.detach() for name, each in model.named_parameters()}


def initialize_layer(module: Any, scheme: str) -> Tensor:
    """The weight after initialize, of a model that is one linear layer of a custom class."""

    class Layer(nn.Linear):
        pass

    model = Layer(400, 50)
    module.initialize(model, scheme)
    return model.weight.detach()


class Counting(list[Any]):
    """A loader that counts the passes over it."""

    passes = 0

    def __iter__(self) -> Any:
        self.passes += 1
        return super().__iter__()


def train(
    module: Any,
    weight: float,
    lr: float,
    epochs: int,
    *,
    clears: bool = False,
    stale: float | None = None,
    rows: int = 1,
) -> dict[str, Any]:
    """Train y = weight * x towards 0 at x = 1, with one batch. `stale` is an old gradient."""
    model = nn.Linear(1, 1, bias=False).double().eval()
    nn.init.constant_(model.weight, weight)
    model.weight.grad = None if stale is None else torch.full_like(model.weight, stale)
    loader = Counting([(torch.ones(rows, 1).double(), torch.zeros(rows, 1).double())])
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    if clears:
        # Not a subclass of SGD, because its step would run the hooks twice.
        optimizer.register_step_post_hook(lambda own, *_: own.zero_grad(set_to_none=False))
    modes: list[bool] = []
    model.register_forward_pre_hook(lambda own, _: modes.append(own.training))
    norms = module.train_with_monitor(model, loader, nn.functional.mse_loss, optimizer, epochs)
    modes.append(model.training)
    facts = {"norms": norms, "weight": model.weight.detach(), "modes": modes}
    return {**facts, "passes": loader.passes}


def compare(module: Any) -> dict[str, Any]:
    """The names in a comparison, the history of `ones`, and the number of different models that were built."""
    draws: list[float] = []

    def build() -> nn.Module:
        draws.append(torch.rand(()).item())
        return nn.Linear(1, 1, bias=False)

    loader = [(torch.ones(1, 1), torch.zeros(1, 1))] * 2
    histories = module.compare_initializations(
        build, loader, nn.functional.mse_loss, lr=0.25, epochs=2, seed=3
    )
    return {"names": list(histories), "ones": histories.get("ones"), "draws": len(set(draws))}
