# right: NumPy's cosine and its float64 scalars; a lambda with defaults; autograd.grad instead of backward
import itertools

import numpy as np
import torch
from torch.optim import lr_scheduler


def warmup_cosine(
    step: int, total_steps: int, warmup_steps: int = 0, min_factor: float = 0.0
) -> float:
    assert_range("total_steps", total_steps, 1, np.inf)
    assert_range("warmup_steps", warmup_steps, 0, total_steps)
    assert_range("min_factor", min_factor, 0, 1)
    assert_range("step", step, 0, np.inf)
    rising = np.arange(1, warmup_steps + 1) / max(warmup_steps, 1)
    falling = np.linspace(0, np.pi, total_steps - warmup_steps, endpoint=False)
    table = np.concatenate([rising, min_factor + (1 - min_factor) * (1 + np.cos(falling)) / 2])
    return table[step] if step < total_steps else min_factor


def assert_range(name, value, low, high):
    if value < low or value > high:
        raise ValueError(f"{name}={value} is not from {low} to {high}")


def warmup_cosine_scheduler(optimizer, total_steps, warmup_steps=0, min_factor=0.0, last_epoch=-1):
    return lr_scheduler.LambdaLR(
        optimizer=optimizer,
        lr_lambda=lambda n, t=total_steps, w=warmup_steps, m=min_factor: float(
            warmup_cosine(n, t, w, m)
        ),
        last_epoch=last_epoch,
    )


def train_with_schedule(model, loader, loss_fn, optimizer, scheduler, epochs):
    if epochs < 1:
        raise ValueError(f"epochs={epochs}")
    for module in model.modules():
        module.training = True
    parameters = [p for p in model.parameters() if p.requires_grad]
    rates = []
    for x, y in itertools.chain.from_iterable(loader for _ in range(epochs)):
        gradients = torch.autograd.grad(loss_fn(model(x), y), parameters)
        for p, g in zip(parameters, gradients):
            p.grad = g
        rates += [group["lr"] for group in optimizer.param_groups[:1]]
        optimizer.step()
        scheduler.step()
    return rates
