"""A network that logs its passes, and calls of the student's functions that report with the log."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]

# Global, so that copies of a network log here as well.
LOG: defaultdict[str, list[Any]] = defaultdict(list)
SAVED: weakref.WeakSet[Saved] = weakref.WeakSet()


class Saved:
    """A tensor that autograd keeps for a backward pass. It lives as long as autograd keeps it."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        SAVED.add(self)


class Network(nn.Module):
    """A network from sequences (n, length, 3) to (n, 2): the mean over a sequence, then two layers.

    `gain` takes part only in rows that begin with a number above 4.5. Other batches give it no gradient.
    """

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)
        self.gain = nn.Parameter(torch.ones(2))
        self.register_buffer("steps", torch.tensor(3.0))
        self.register_forward_pre_hook(log_call)
        self.run = logged(scale)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.run(self, x)
        return outputs


def logged(scale: float) -> Callable[[Network, Tensor], Tensor]:
    """A forward pass that is logged. No attribute has the scale, so that nobody gets the outputs without it."""

    def run(network: Network, x: Tensor) -> Tensor:
        LOG["modes"].append([part.training for part in network.modules()])
        LOG["kept"].append(len(SAVED))
        with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
            hidden = (scale * network.body(x.mean(dim=1))).tanh()
            outputs: Tensor = network.head(hidden)
            gained = x[:, 0, :1] > 4.5
            if gained.any():
                outputs = torch.where(gained, network.gain * outputs, outputs)
        if outputs.requires_grad:
            LOG["passes"].append("forward")
            outputs.register_hook(lambda _: LOG["passes"].append("backward"))
        return outputs

    return run


def log_call(network: nn.Module, inputs: tuple[Tensor, ...]) -> None:
    LOG["calls"].append(inputs[0].detach().clone())


def mean_square(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error of outputs (n, 2) and several targets for each row (n, count, 2)."""
    return F.mse_loss(outputs.unsqueeze(1).expand_as(targets), targets)


def loss(module: Any) -> Any:
    return mean_square


def model(
    module: Any,
    seed: int,
    *,
    gradients: bool = False,
    frozen: tuple[str, ...] = (),
    training: tuple[str, ...] = (),
) -> Network:
    """A new network, with old gradients if `gradients`. Only modules in `training` are in train mode."""
    torch.default_generator.manual_seed(seed)
    made = Network(torch.rand(()).item() + 0.5).double()
    for name, parameter in made.named_parameters():
        parameter.data.normal_()
        parameter.grad = torch.randn_like(parameter) if gradients else None
        parameter.requires_grad_(name not in frozen)
    for name, part in made.named_modules():
        part.training = name in training
    return made


def sgd(module: Any, model: Network) -> torch.optim.SGD:
    """SGD with momentum, except for `gain`: unlike None, zeros would move it with momentum."""
    parts = (model.body, model.head)
    groups: list[dict[str, Any]] = [{"params": p.parameters(), "momentum": 0.9} for p in parts]
    return torch.optim.SGD([*groups, {"params": [model.gain]}], lr=1e-4)


def generator(module: Any, batches: list[Batch]) -> Iterator[Batch]:
    """A loader without a length, which can be iterated only once."""
    return iter(batches)


def accumulated(module: Any, model: Network, batches: list[Batch]) -> dict[str, Any]:
    """The result of accumulate_gradients, the gradients after it, and the log."""
    LOG.clear()
    SAVED.clear()
    return {
        "value": module.accumulate_gradients(model, batches, mean_square),
        "gradients": {name: parameter.grad for name, parameter in model.named_parameters()},
        **{name: LOG[name] for name in ("calls", "passes", "kept")},
    }


def trained(
    module: Any,
    model: Network,
    loader: Any,
    optimizer: torch.optim.SGD,
    accumulation_steps: int,
    max_norm: float | None,
) -> dict[str, Any]:
    """The result of train_epoch, the weights after it, and the log."""
    LOG.clear()
    SAVED.clear()
    return {
        "value": module.train_epoch(
            model, loader, mean_square, optimizer, accumulation_steps, max_norm
        ),
        "weights": {name: parameter.detach() for name, parameter in model.named_parameters()},
        "passes": LOG["passes"],
        "modes": [*LOG["modes"], [part.training for part in model.modules()]],
    }
