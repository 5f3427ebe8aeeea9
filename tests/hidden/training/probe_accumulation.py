"""A network that logs its passes, and calls of the student's functions with the log of them."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]

# Of the module, not of a network: copies of a network log here as well.
LOG: defaultdict[str, list[Any]] = defaultdict(list)
SAVED: weakref.WeakSet[Saved] = weakref.WeakSet()


class Saved:
    """A tensor that autograd keeps for a backward pass: it lives as long as it is kept."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        SAVED.add(self)


class Network(nn.Module):
    """Sequences (n, length, 3) to (n, 2): the mean over a sequence, and two layers."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)
        self.register_buffer("steps", torch.tensor(3.0))
        self.register_forward_pre_hook(log_call)
        self.run = logged(scale)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.run(self, x)
        return outputs


def logged(scale: float) -> Callable[[Network, Tensor], Tensor]:
    """A pass that is logged. No attribute says the scale, so that outputs come from a logged pass alone."""

    def run(network: Network, x: Tensor) -> Tensor:
        LOG["modes"].append([part.training for part in network.modules()])
        LOG["kept"].append(len(SAVED))
        with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
            hidden = (scale * network.body(x.mean(dim=1))).tanh()
            outputs: Tensor = network.head(hidden)
        if outputs.requires_grad:
            LOG["passes"].append("forward")
            outputs.register_hook(lambda _: LOG["passes"].append("backward"))
        return outputs

    return run


def log_call(network: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    LOG["calls"].append(inputs[0].detach().clone())


def mean_square(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error of outputs (n, 2) and several targets of each row (n, count, 2)."""
    return F.mse_loss(outputs.unsqueeze(1).expand_as(targets), targets)


def loss(module: Any) -> Any:
    return mean_square


def model(
    module: Any, weights: dict[str, Tensor], gradients: dict[str, Tensor], training: list[str]
) -> Network:
    """A network with these weights, and gradients from before; the modules named are in train mode."""
    made = Network(weights["scale"].item()).double()
    for name, parameter in made.named_parameters():
        parameter.data.copy_(weights[name])
        parameter.grad = gradients.get(name)
    for name, part in made.named_modules():
        part.training = name in training
    return made


def partial_model(module: Any, weights: dict[str, Tensor], gradients: dict[str, Tensor]) -> Network:
    """The same with a bias that is frozen, and a parameter that is not used."""
    made = model(module, weights, gradients, [])
    made.body.bias.requires_grad_(False)
    made.register_parameter("unused", nn.Parameter(torch.zeros(2, dtype=torch.float64)))
    return made


def sgd(module: Any, model: Network, lr: float, momentum: float) -> torch.optim.SGD:
    groups = [{"params": part.parameters()} for part in model.children()]
    return torch.optim.SGD(groups, lr=lr, momentum=momentum)


def generator(module: Any, batches: list[Batch]) -> Iterator[Batch]:
    """A loader without a length, which can be iterated once."""
    return iter(batches)


def accumulated(module: Any, model: Network, batches: list[Batch]) -> dict[str, Any]:
    """What accumulate_gradients gives, and the gradients that it leaves."""
    LOG.clear()
    SAVED.clear()
    value = module.accumulate_gradients(model, batches, mean_square)
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {"value": value, "gradients": gradients, "log": dict(LOG)}


def trained(
    module: Any,
    model: Network,
    loader: Any,
    optimizer: torch.optim.SGD,
    accumulation_steps: int,
    max_norm: float | None,
) -> dict[str, Any]:
    """What train_epoch gives, and the weights and modes that it leaves."""
    LOG.clear()
    SAVED.clear()
    value = module.train_epoch(model, loader, mean_square, optimizer, accumulation_steps, max_norm)
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    modes = [part.training for part in model.modules()]
    return {"value": value, "weights": weights, "modes": modes, "log": dict(LOG)}
