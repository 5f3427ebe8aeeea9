"""Losses whose graphs show whether they are alive, and short epochs."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch import Tensor, nn


class Token:
    """An object that lives as long as the node of a graph that holds it."""


class Marked(torch.autograd.Function):
    """The identity; its node holds a Token."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.token = Token()
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Tensor:
        return grad_output


def means(module: Any, epochs: list[Any]) -> dict[str, Any]:
    """The epochs of a history whose updates are these pairs of loss and size."""
    history = module.LossHistory()
    for epoch in epochs:
        for loss, size in epoch:
            history.update(torch.tensor(loss), size)
        history.end_epoch()
    return {"epochs": history.epochs}


def graphs(module: Any, updates: int) -> dict[str, Any]:
    """The number of graphs that are alive after each update, when its loss is dropped."""
    history, alive = module.LossHistory(), []
    tokens: weakref.WeakSet[Token] = weakref.WeakSet()
    for i in range(updates):
        x = torch.tensor(float(i), requires_grad=True)
        loss = Marked.apply(x)  # type: ignore[no-untyped-call]
        tokens.add(loss.grad_fn.token)
        history.update(loss)
        del loss
        alive.append(len(tokens))
    history.end_epoch()
    return {"alive": alive}


def trained(module: Any, batches: list[Any]) -> dict[str, Any]:
    """An epoch of a model with one weight, 1, by SGD with the learning rate 0.5."""
    model, history = nn.Linear(1, 1, bias=False), module.LossHistory()
    nn.init.ones_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    loss_fn = nn.functional.mse_loss
    mean = module.train_epoch(model, batches, loss_fn, optimizer, history)
    return {"mean": mean, "weight": model.weight.detach()}
