# right: torch.jit.script and torch.cummin; full state dicts plus a walk over non-persistent buffers; ExitStack callbacks
"""LR range test with a few TorchScript helpers."""

import contextlib
import copy
from typing import NamedTuple, Optional

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn


class LRRangeTest(NamedTuple):
    learning_rates: Tensor
    losses: Tensor


@torch.jit.script
def first_divergence(losses: Tensor, factor: float) -> int:
    """Index of the first diverging loss, -1 if there is none."""
    lowest = torch.cummin(losses, 0).values
    above = torch.cat([torch.zeros_like(losses[:1]) > 0, losses[1:] > factor * lowest[:-1]])
    bad = torch.logical_or(above, torch.logical_not(torch.isfinite(losses)))
    where = torch.nonzero(bad)
    if where.numel() == 0:
        return -1
    return int(where[0, 0].item())


def exponential_lrs(lr_min: float = 1e-6, lr_max: float = 10.0, steps: int = 100) -> Tensor:
    problems = []
    if lr_min <= 0:
        problems.append("lr_min must be positive")
    if lr_max <= lr_min:
        problems.append("lr_max must be above lr_min")
    if steps < 2:
        problems.append("steps must be >= 2")
    if problems:
        raise ValueError("; ".join(problems))
    ends = torch.tensor([lr_min, lr_max], dtype=torch.float64).log2()
    return torch.exp2(
        torch.lerp(ends[0], ends[1], torch.linspace(0, 1, steps, dtype=torch.float64))
    )


def lr_range_test(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss_fn,
    loader,
    lr_min: float = 1e-6,
    lr_max: float = 10.0,
    steps: int = 100,
) -> LRRangeTest:
    rates = exponential_lrs(lr_min, lr_max, steps)
    losses = torch.full((steps,), float("nan"), dtype=torch.float64)
    with contextlib.ExitStack() as cleanup:
        cleanup.callback(optimizer.load_state_dict, copy.deepcopy(optimizer.state_dict()))
        cleanup.callback(model.load_state_dict, copy.deepcopy(model.state_dict()))
        for module in model.modules():
            cleanup.callback(setattr, module, "training", module.training)
            for name in module._non_persistent_buffers_set:
                buffer = getattr(module, name)
                cleanup.callback(setattr, module, name, buffer.clone())
        model.train()
        iterator = None
        for i in range(steps):
            batch = next(iterator, None) if iterator is not None else None
            if batch is None:
                iterator = iter(loader)
                batch = next(iterator, None)
            if batch is None:
                raise ValueError("The loader does not yield a single batch.")
            inputs, targets = batch
            for group in optimizer.param_groups:
                group["lr"] = rates[i].item()
            with torch.enable_grad():
                optimizer.zero_grad()
                loss = loss_fn(model(inputs), targets)
                losses[i] = loss.detach()
                loss.backward()
            optimizer.step()
            if first_divergence(losses[: i + 1], 4.0) >= 0:
                break
    return LRRangeTest(rates[: i + 1], losses[: i + 1])


def suggest_lr(result: LRRangeTest, factor: float = 4.0) -> float:
    i = first_divergence(result.losses, float(factor))
    if i < 0:
        raise ValueError(f"The losses do not diverge (factor {factor}).")
    return result.learning_rates[i].item() * 0.1


def plot_lr_range_test(result: LRRangeTest, suggestion: Optional[float] = None) -> Figure:
    figure = Figure()
    axes = figure.subplots()
    shown = torch.isfinite(result.losses)
    axes.plot(result.learning_rates[shown].tolist(), result.losses[shown].tolist(), ".-")
    axes.semilogx()
    figure.supxlabel("learning rate")
    figure.supylabel("loss")
    if suggestion is not None:
        axes.plot((suggestion,) * 2, axes.get_ylim(), color="tab:orange")
    return figure
