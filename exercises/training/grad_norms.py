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
    # TODO: combine all gradients into one norm.
    raise NotImplementedError("gradient_norm: combine all gradients into one norm")


def initialize(model: nn.Module, scheme: str) -> None:
    """Initialize all linear layers of a model, in place.

    For every `nn.Linear` of the model, wherever it is (the model itself, nested, of a subclass):

    - the weight is filled by the initializer of that name in `torch.nn.init` (`xavier_uniform_` for
      "xavier_uniform"), with its default arguments;
    - the bias, if the layer has one, is set to zero.

    Raises ValueError that names `scheme` and all the known schemes if it is not in SCHEMES.
    """
    # TODO: check the scheme, then fill the weights and the biases.
    raise NotImplementedError("initialize: check the scheme, then fill the weights and the biases")


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
    # TODO: train, and record the norm of each batch.
    raise NotImplementedError("train_with_monitor: train, and record the norm of each batch")


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
    # TODO: one training run for each scheme.
    raise NotImplementedError("compare_initializations: one training run for each scheme")


def diagnose(norms: Tensor) -> Literal["exploding", "vanishing", "healthy"]:
    """Say in one word how the gradients did in the first five epochs (or all, if there are fewer).

    `norms` (epochs,) has at least one entry. The word is

    - "exploding" if any of these norms is inf, NaN, or above 1e3;
    - "vanishing" if all of them are below 1e-3;
    - "healthy" otherwise.
    """
    # TODO: look at the first five norms.
    raise NotImplementedError("diagnose: look at the first five norms")


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
    # TODO: a line for each history, on a logarithmic axis.
    raise NotImplementedError("plot_gradient_norms: a line for each history, on a logarithmic axis")
