"""Gradient-norm monitor: watch the gradients of a run, and what initialization does to them.

The L2 norm of *all* gradients, as one long vector, says how strongly a step pulls at the weights. If it grows
by orders of magnitude, the gradients *explode*; if it falls towards 0, they *vanish*. Both often come from the
initial weights. Three are compared:

- `xavier_uniform` keeps the variance of signals and gradients from layer to layer;
- `kaiming_normal` does so behind ReLUs, which halve it;
- with `ones` the signal is multiplied by the width of each layer.

Source: Glorot and Bengio (2010), "Understanding the difficulty of training deep feedforward neural networks";
He et al. (2015), "Delving Deep into Rectifiers".

What holds for every exercise: docs/every-exercise.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol

from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.optim import Optimizer

# begin solution: imports
import torch  # isort: skip

# end solution

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
    """Return the L2 norm of all gradients of the parameters, concatenated into one vector, a float.

    A parameter whose `.grad` is None adds nothing; without any gradient the norm is 0.0. Inf and NaN come
    through.
    """
    # begin solution: combine all gradients into one norm
    # One pass over the parameters: a generator has no second one.
    gradients = [p.grad.flatten() for p in parameters if p.grad is not None]
    if not gradients:
        return 0.0
    return float(torch.linalg.vector_norm(torch.cat(gradients)))
    # end solution


def initialize(model: nn.Module, scheme: str) -> None:
    """Initialize all linear layers of a model, in place.

    For every `nn.Linear` of the model, wherever it is (the model itself, nested, of a subclass):

    - the weight is filled by the initializer of that name in `torch.nn.init` (`xavier_uniform_` for
      "xavier_uniform"), with its default arguments;
    - the bias, if the layer has one, is set to zero.

    Raises ValueError that names `scheme` and all the known schemes if it is not in SCHEMES.
    """
    # begin solution: check the scheme, then fill the weights and the biases
    if scheme not in SCHEMES:
        raise ValueError(f"unknown scheme {scheme!r}; the known ones are {', '.join(SCHEMES)}")
    fill = getattr(nn.init, f"{scheme}_")
    # modules() yields the model itself and everything nested; isinstance sees subclasses.
    for module in model.modules():
        if isinstance(module, nn.Linear):
            fill(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    # end solution


def train_with_monitor(
    model: nn.Module,
    loader: Loader,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: Optimizer,
    epochs: int,
) -> Tensor:
    """Train a model and record the gradient norm of every batch.

    Each epoch is one pass over the loader, each batch one step of the optimizer, with the model in training
    mode, also afterwards.

    Returns the norms (epochs, len(loader)), float64. `norms[e, b]` is the norm, over all the model's parameters
    (also those that the optimizer does not hold), of the gradient of batch b in epoch e alone: earlier
    gradients do not count. It is measured before the optimizer's step, which may change the gradients.

    Change no gradient. If a norm is inf or NaN, record it, let the optimizer step, and go on.

    Raises ValueError that names `epochs` if it is below 1.
    """
    # begin solution: train, and record the norm of each batch
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, not {epochs}")
    norms = torch.zeros(epochs, len(loader), dtype=torch.float64)
    model.train()
    for epoch in range(epochs):
        for batch, (inputs, targets) in enumerate(loader):
            # Both, because optimizer and model need not have the same parameters. Gradients of
            # parameters that only one of them has would otherwise add up from batch to batch.
            optimizer.zero_grad()
            model.zero_grad()
            loss_fn(model(inputs), targets).backward()
            norms[epoch, batch] = gradient_norm(model.parameters())
            optimizer.step()
    return norms
    # end solution


def compare_initializations(
    build_model: Callable[[], nn.Module],
    loader: Loader,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    lr: float = 0.01,
    epochs: int = 50,
    seed: int = 0,
) -> dict[str, Tensor]:
    """Train one model for each scheme under the same conditions; return their gradient norms.

    For each scheme, in the order of SCHEMES: seed torch with `seed`, then build a new model (which may draw
    random numbers), then initialize it, then train it with `train_with_monitor` and plain SGD with learning
    rate `lr`.

    Returns a dict, in that order, of the mean norm over the batches of each epoch, (epochs,), float64. A norm
    that is NaN or inf belongs to the mean like any other.
    """
    # begin solution: one training run for each scheme
    histories = {}
    for scheme in SCHEMES:
        # Before the model is built, because building draws random numbers, too.
        torch.manual_seed(seed)
        model = build_model()
        initialize(model, scheme)
        optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        norms = train_with_monitor(model, loader, loss_fn, optimizer, epochs)
        histories[scheme] = norms.mean(dim=1)
    return histories
    # end solution


def diagnose(norms: Tensor) -> Literal["exploding", "vanishing", "healthy"]:
    """Say in one word how the gradients did in the first five epochs (or all, if there are fewer).

    `norms` (epochs,) has at least one entry. The word is

    - "exploding" if any of these norms is inf, NaN, or above 1e3;
    - "vanishing" if all of them are below 1e-3;
    - "healthy" otherwise.
    """
    # begin solution: look at the first five norms
    early = norms[:5]
    # NaN is neither above nor below anything, so it needs a check of its own.
    if not early.isfinite().all() or (early > 1e3).any():
        return "exploding"
    if (early < 1e-3).all():
        return "vanishing"
    return "healthy"
    # end solution


def plot_gradient_norms(histories: Mapping[str, Tensor]) -> Figure:
    """Draw the gradient norm over the epochs, one line for each history.

    The figure has one Axes, with a logarithmic y axis, a label on both axes, and a legend (of the axes or of
    the figure) that names every history.

    A history is the norm of each epoch, (epochs,), of a length of its own. Its line has the key as its label,
    and the points (1, first norm), (2, second norm), ... Where a norm is inf or NaN the line has a gap: a point
    whose y is NaN.

    The figure is returned, not shown: no window opens, and figures in pyplot are as before, yours not among
    them.
    """
    # begin solution: a line for each history, on a logarithmic axis
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
    # end solution
