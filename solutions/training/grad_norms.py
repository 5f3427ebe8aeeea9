"""Gradient-norm monitor: watch the gradients of a run, and what initialization does to them.

A training step moves the weights against the gradient of the loss. One number says how strongly
it pulls: the L2 norm of *all* gradients g_1 ... g_k of the model, as if they were one long vector,

    norm = sqrt(sum over parameters i and elements j of g_ij ** 2)

If this norm grows by orders of magnitude, the gradients *explode*: the loss jumps about or becomes
NaN. If it falls towards 0, they *vanish*: nothing is learned any more. Both show in the first few
epochs, and both often come from the initial weights. So you measure the norm, record it for each
batch of a training run, and compare three initializations:

- `xavier_uniform` keeps the variance of signals and gradients the same from layer to layer (Glorot
  and Bengio 2010, Understanding the difficulty of training deep feedforward neural networks)
- `kaiming_normal` does so behind ReLUs, which halve the variance
  (He et al. 2015, Delving Deep into Rectifiers)
- `ones` is what goes wrong otherwise: all units of a layer compute the same, and the signal is
  multiplied by the width of each layer

On exploding and vanishing gradients: Pascanu, Mikolov and Bengio 2013, On the difficulty of
training recurrent neural networks.

Write the six functions below in their order: the later ones use the earlier ones. Everything works
in float32 and float64. Only compare_initializations seeds the global random state; nothing but the
models and initialize draws from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, Protocol

from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.optim import Optimizer

# begin solution: what the solution needs besides
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
    """Given: what we ask of a loader; a DataLoader is one, and so is a list of batches.

    It has a length (its number of batches), can be iterated again, once for each epoch (it may
    shuffle anew each time), and yields pairs `(inputs, targets)` of tensors.
    """

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]: ...


def gradient_norm(parameters: Iterable[Tensor]) -> float:
    """Return the L2 norm of all gradients of the parameters, concatenated into one vector.

    - A parameter whose `.grad` is None adds nothing; without any gradient the norm is 0.0.
    - With infinite or NaN gradients the norm is infinite or NaN, too.
    - `parameters` may be a generator, such as `model.parameters()`, which can be iterated only
      once.
    - No gradient is changed.

    Args:
        parameters: tensors of any shapes.

    Returns:
        The norm as a Python float, as exact as the dtype of the gradients allows.
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

    For every `nn.Linear` of the model, wherever it is (the model itself, nested in other modules,
    an instance of a subclass of `nn.Linear`):

    - the weight is filled by the initializer of that name in `torch.nn.init`, with its default
      arguments: "xavier_uniform" -> `xavier_uniform_`, "kaiming_normal" -> `kaiming_normal_`,
      "ones" -> `ones_`;
    - the bias, if the layer has one, is set to zero.

    The parameters stay the same objects (an optimizer may hold them already), with the same `.grad`
    and `requires_grad`. Nothing else in the model changes: no other layer's parameters, no
    buffers, no training mode.

    Raises:
        ValueError: `scheme` is not in SCHEMES. The message contains the word "scheme" and all the
            known names. It is raised before anything in the model has changed.
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

    Each epoch is one pass over the loader. Each batch is one step of the optimizer, on the loss
    `loss_fn(model(inputs), targets)`, with the model in train mode.

    `norms[e, b]` is the norm, over all the model's parameters (also those that the optimizer does
    not hold), of the gradient of batch b in epoch e alone: gradients from an earlier batch or from
    before the training do not count. It is measured after the backward pass and before the
    optimizer's step, since an optimizer may change the gradients as it steps.

    You only watch: the gradients that the optimizer gets are those of the batch, not clipped or
    otherwise changed. If a norm is infinite or NaN, record it as it is, let the optimizer step,
    and go on. The model itself is trained when you return, and in train mode.

    Args:
        model: any module, in any mode.
        loader: yields `(inputs, targets)`; see Loader.
        loss_fn: takes `(outputs, targets)`, in this order, and returns a 0-d tensor.
        optimizer: an optimizer over parameters of the model.
        epochs: how often to go over the loader, at least 1.

    Returns:
        The norms `(epochs, len(loader))`, float64.

    Raises:
        ValueError: `epochs` is less than 1; the message contains the word "epochs".
    """
    # begin solution: train, and record the norm of each batch
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

    For each scheme, in the order of SCHEMES: seed torch with `seed`, then build a new model, then
    initialize it, then train it with `train_with_monitor` and plain SGD (no momentum, no weight
    decay) with learning rate `lr`. So the schemes differ in nothing but the initialization.

    Args:
        build_model: returns a new model each time it is called; it may draw random numbers.
        loader: yields `(inputs, targets)`; see Loader.
        loss_fn: takes `(outputs, targets)`.
        lr: learning rate of SGD.
        epochs: passes over the loader for each scheme.
        seed: seed of torch's global random state.

    Returns:
        For each scheme, in the order of SCHEMES, the mean norm over the batches of each epoch,
        `(epochs,)`, float64. A norm that is NaN or infinite belongs to the mean like any other.
    """
    # begin solution: one training run for each scheme
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
    # end solution


def diagnose(norms: Tensor) -> Literal["exploding", "vanishing", "healthy"]:
    """Say in one word how the gradients did in the first five epochs.

    Only the first five norms count, or all of them if there are fewer:

    - "exploding" if any of them is infinite, NaN, or above 1e3;
    - "vanishing" if all of them are below 1e-3;
    - "healthy" otherwise.

    Args:
        norms: the norm of each epoch `(epochs,)`, float32 or float64, at least one. The tensor is
            left as it is.
    """
    # begin solution: look at the first five norms
    early = norms[:5]
    # NaN is neither above nor below anything, so it has to be asked for.
    if not early.isfinite().all() or (early > 1e3).any():
        return "exploding"
    if (early < 1e-3).all():
        return "vanishing"
    return "healthy"
    # end solution


def plot_gradient_norms(histories: Mapping[str, Tensor]) -> Figure:
    """Draw the gradient norm over the epochs, one line for each history.

    The figure has one Axes, with a logarithmic y axis, a label on the x axis, a label on the y
    axis, and a legend (of the axes or of the figure) that names every history.

    Each history is one line: its label is its key, its points are the epochs 1, 2, ... n and the
    norms. Histories may differ in length. Where a norm is infinite or NaN the line has a gap. (A
    point whose y is NaN is such a gap; a point left out is not, for the line then joins its
    neighbors.)

    The figure is returned, not shown: no window opens, no new figure is left open in pyplot, and
    figures that the caller has open in pyplot are neither closed nor drawn on.

    Args:
        histories: for each name the norm of each epoch `(epochs,)`, at least one history. The
            tensors are left as they are.
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
