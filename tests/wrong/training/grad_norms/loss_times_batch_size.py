# wrong: the loss is multiplied by the size of the batch | caught by: test_training | told: multiplied by the size of the batch
from __future__ import annotations

import math

import torch
from matplotlib.figure import Figure
from torch import nn

SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")


def gradient_norm(parameters) -> float:
    total = 0.0
    for p in parameters:
        if p.grad is not None:
            total += p.grad.detach().double().norm().item() ** 2
    return math.sqrt(total)


def initialize(model, scheme) -> None:
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}: known are {', '.join(SCHEMES)}")
    fill = getattr(nn.init, scheme + "_")
    for module in model.modules():
        if isinstance(module, nn.Linear):
            fill(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def train_with_monitor(model, loader, loss_fn, optimizer, epochs):
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    norms = torch.zeros(epochs, len(loader), dtype=torch.float64)
    model.train()
    for e in range(epochs):
        for b, (inputs, targets) in enumerate(loader):
            model.zero_grad()
            loss = loss_fn(model(inputs), targets)
            (loss * len(inputs)).backward()
            norms[e, b] = gradient_norm(model.parameters())
            optimizer.step()
    return norms


def compare_initializations(build_model, loader, loss_fn, lr=0.01, epochs=50, seed=0):
    result = {}
    for scheme in SCHEMES:
        torch.manual_seed(seed)
        model = build_model()
        initialize(model, scheme)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        norms = train_with_monitor(model, loader, loss_fn, optimizer, epochs)
        result[scheme] = norms.mean(dim=1)
    return result


def diagnose(norms) -> str:
    first = norms[:5]
    if not torch.isfinite(first).all() or (first > 1e3).any():
        return "exploding"
    if (first < 1e-3).all():
        return "vanishing"
    return "healthy"


def plot_gradient_norms(histories) -> Figure:
    figure = Figure()
    axes = figure.subplots()
    for name, norms in histories.items():
        values = norms.detach().double()
        values = torch.where(torch.isfinite(values), values, math.nan)
        axes.plot(range(1, len(values) + 1), values.tolist(), label=name)
    axes.set_yscale("log")
    axes.set_xlabel("epoch")
    axes.set_ylabel("gradient norm")
    axes.legend()
    return figure
