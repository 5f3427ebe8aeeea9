"""Gradient-norm monitor: watch the gradients of a run, and what initialization does to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol

import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.optim import Optimizer

__all__ = [
    "SCHEMES",
    "compare_initializations",
    "diagnose",
    "gradient_norm",
    "initialize",
    "plot_gradient_norms",
    "train_with_monitor",
]

# Given: the initializations that we compare; in torch.nn.init they have a "_" behind their names.
SCHEMES = ("xavier_uniform", "kaiming_normal", "ones")


class Loader(Protocol):
    """Given: what we ask of a loader; a DataLoader is one, and so is a list of batches."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]: ...


def gradient_norm(parameters: Iterable[Tensor]) -> float:
    """Return the L2 norm of all gradients of the parameters, concatenated into one vector."""
    # One pass over the parameters: a generator has no second one.
    gradients = [p.grad.flatten() for p in parameters if p.grad is not None]
    if not gradients:
        return 0.0
    return float(torch.linalg.vector_norm(torch.cat(gradients)))


def initialize(model: nn.Module, scheme: str) -> None:
    """Initialize all linear layers of a model, in place."""
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}; the known ones are {', '.join(SCHEMES)}")
    fill = getattr(nn.init, f"{scheme}_")
    # modules() yields the model itself and everything nested; isinstance sees subclasses.
    for module in model.modules():
        if isinstance(module, nn.Linear):
            fill(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def train_with_monitor(
    model: nn.Module,
    loader: Loader,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: Optimizer,
    epochs: int,
) -> Tensor:
    """Train a model and record the gradient norm of every batch, `(epochs, len(loader))`."""
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, not {epochs}")
    norms = torch.zeros(epochs, len(loader), dtype=torch.float64)
    model.train()
    for epoch in range(epochs):
        for batch, (inputs, targets) in enumerate(loader):
            # Both, since the optimizer need not hold exactly the model's parameters: what it
            # does not hold would else add up from batch to batch, and so would what only it holds.
            optimizer.zero_grad()
            model.zero_grad()
            loss_fn(model(inputs), targets).backward()
            norms[epoch, batch] = gradient_norm(model.parameters())
            optimizer.step()
    return norms


def compare_initializations(
    build_model: Callable[[], nn.Module],
    loader: Loader,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    lr: float = 0.01,
    epochs: int = 50,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Train one model for each scheme, and return the mean norm of each epoch, `(epochs,)`."""
    histories = {}
    for scheme in SCHEMES:
        # Before the model is built, since building draws random numbers, too.
        torch.manual_seed(seed)
        model = build_model()
        initialize(model, scheme)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        norms = train_with_monitor(model, loader, loss_fn, optimizer, epochs)
        histories[scheme] = norms.mean(dim=1)
    return histories


def diagnose(norms: Tensor) -> Literal["exploding", "vanishing", "healthy"]:
    """Say in one word how the gradients did in the first five epochs."""
    early = norms[:5]
    # NaN is neither above nor below anything, so it has to be asked for.
    if not early.isfinite().all() or (early > 1e3).any():
        return "exploding"
    if (early < 1e-3).all():
        return "vanishing"
    return "healthy"


def plot_gradient_norms(histories: Mapping[str, Tensor]) -> Figure:
    """Draw the gradient norm over the epochs, one line for each history."""
    # Not plt.subplots(): pyplot keeps every figure that it makes, until someone closes it.
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    for name, norms in histories.items():
        epochs = range(1, len(norms) + 1)
        # A NaN in the data is a gap in the line. The markers show a point between two gaps.
        heights = norms.where(norms.isfinite(), torch.nan)
        axes.plot(epochs, heights.tolist(), marker=".", label=name)
    axes.set_yscale("log")
    axes.set_xlabel("epoch")
    axes.set_ylabel("gradient norm (mean over the batches)")
    axes.legend()
    return figure
