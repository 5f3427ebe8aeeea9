# right: a closure does the group, a generator function makes the groups; zero_grad keeps zeros
from __future__ import annotations

from itertools import chain, islice
from typing import Callable, Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_


def groups(loader: Iterable, size: int) -> Iterator[list]:
    batches = iter(loader)
    for head in batches:
        yield list(chain([head], islice(batches, size - 1)))


def accumulate_gradients(model: torch.nn.Module, batches: Sequence, loss_fn: Callable) -> float:
    sizes = [inputs.shape[0] for inputs, _ in batches]
    if not sizes:
        raise ValueError("`batches` holds nothing")
    total = torch.zeros((), dtype=torch.float64)
    for size, (inputs, targets) in zip(sizes, batches):
        loss: Tensor = loss_fn(model(inputs), targets).mul(size).div(sum(sizes))
        torch.autograd.backward(loss)
        total += loss.detach()
    return float(total)


def train_epoch(model, loader, loss_fn, optimizer, accumulation_steps, max_norm=None):
    if accumulation_steps < 1:
        raise ValueError(f"accumulation_steps = {accumulation_steps}: one at least")
    for module in model.modules():
        module.train()

    def closure():
        optimizer.zero_grad(set_to_none=False)
        loss = accumulate_gradients(model, group, loss_fn)
        if max_norm is not None:
            clip_grad_norm_((p for g in optimizer.param_groups for p in g["params"]), max_norm, foreach=False)
        return loss

    losses = []
    for group in groups(loader, accumulation_steps):
        losses.append(optimizer.step(closure))
    return losses
