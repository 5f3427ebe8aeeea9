"""Models that know the velocity or record how they are called."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn


class Known(nn.Module):
    """The velocity (x1 - x) / (1 - t) of a path to x1, plus the parameter `off`."""

    def __init__(self, x1: Tensor, off: Tensor) -> None:
        super().__init__()
        self.x1, self.off = x1, nn.Parameter(off)

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        self.x, self.t = x.detach(), t.detach()
        return (self.x1 - x) / (1 - column(t, x)) + self.off


class Linear(nn.Module):
    """A velocity that is linear in x. The model records the times."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix, self.times = nn.Parameter(matrix), list[Tensor]()

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        self.times.append(t.detach().clone())
        return x @ self.matrix


class Network(nn.Module):
    """A model with dropout. It raises an error if `breaks` is True."""

    def __init__(self, seed: int, width: int, breaks: bool = False) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(width, width, generator=generator))
        self.first, self.second = nn.Dropout(0.5), nn.Dropout(0.5)
        self.breaks = breaks

    def forward(self, x: Tensor, t: Tensor) -> Any:
        if self.breaks:
            raise ArithmeticError("the model breaks")
        return self.second(torch.tanh(self.first(x) @ self.weight + column(t, x)))


def column(t: Tensor, x: Tensor) -> Tensor:
    """Reshape the times so that they broadcast along the rows of x."""
    return t.reshape(-1, *[1] * (x.dim() - 1)).to(x.dtype)


def network(module: Any, seed: int) -> nn.Module:
    """Make a model for points of three numbers, in training mode."""
    return Network(seed, 3)


def known(module: Any, x1: Tensor, off: Tensor) -> Any:
    """Return the loss of a model that knows x1, and the gradient of `off`."""
    model = Known(x1, off)
    loss = module.flow_matching_loss(model, x1)
    if isinstance(loss, Tensor) and loss.requires_grad:
        loss.backward()
        loss = loss.detach()
    return {"loss": loss, "gradient": model.off.grad}


def drawn(module: Any, x1: Tensor, edges: Tensor) -> Any:
    """Return the shape of the times, and the shares of times and of noise that are below these edges."""
    model = Known(x1, torch.zeros_like(x1))
    module.flow_matching_loss(model, x1)
    t = column(model.t, x1)
    noise = (model.x - t * x1) / (1 - t)
    return {
        "shape": list(model.t.shape),
        "times": (model.t.reshape(-1, 1) < edges).double().mean(0),
        "noise": (noise[..., None] < edges).double().mean(0),
        "both columns": (noise.amax(1, keepdim=True) < edges).double().mean(0),
        "rising": (model.t.flatten().diff() > 0).double().mean(),
    }


def repeated(module: Any, x1: Tensor, seeds: list[int], around: list[int]) -> Any:
    """Return whether a seed decides the loss and the global state stays, whatever the global seed is."""
    before, model = torch.get_rng_state(), Linear(torch.eye(2))
    losses, without, untouched = [], [], []
    for seed, outside in zip(seeds, around, strict=False):
        generator = torch.Generator().manual_seed(seed)
        state = torch.manual_seed(outside).get_state()
        losses.append(float(module.flow_matching_loss(model, x1, generator)))
        untouched.append(torch.equal(state, torch.get_rng_state()))
        torch.manual_seed(seed)
        without.append(float(module.flow_matching_loss(model, x1)))
    torch.set_rng_state(before)
    return {
        "same": [each == losses[0] for each in losses],
        "same without a generator": [each == without[0] for each in without],
        "untouched": untouched,
    }


def followed(module: Any, matrix: Tensor, x0: Tensor, steps: int) -> Any:
    """Return the samples of a linear model, and the times with which it was called."""
    model = Linear(matrix)
    samples = module.sample(model, x0, steps)
    return {"samples": samples.detach(), "times": model.times}


def sampled(module: Any, seed: int, x0: Tensor, steps: int) -> Any:
    """Return the samples of a model with dropout."""
    return module.sample(Network(seed, 3), x0, steps).detach()


def modes(module: Any, name: str, training: list[bool], x: Tensor, breaks: bool = False) -> Any:
    """Return the modes of a model and its submodules after sampling or a loss. Before, they are `training`."""
    model = Network(0, 2, breaks)
    for each, mode in zip(model.modules(), training, strict=True):
        each.training = mode
    with suppress(ArithmeticError):
        module.sample(model, x, 2) if name == "sample" else module.flow_matching_loss(model, x)
    return [each.training for each in model.modules()]
