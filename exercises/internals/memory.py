"""What training keeps in memory, and how checkpointing trades it for time.

Four things fill the memory of a GPU while a model is trained: its parameters, their gradients, the state of
the optimizer (Adam keeps two numbers for each parameter), and the activations: what the forward pass saves
because the backward pass will need it. The first three can be counted from the model and the optimizer.
Activations grow with the batch and with depth; `saved_bytes` makes them visible. Checkpointing saves fewer of
them, and computes the rest again in the backward pass.

A tensor is a view of a *storage*, its block of memory (`tensor.untyped_storage()`). Several tensors may
share one, and a small view keeps all of it alive.

Your functions leave their arguments and the global random state as they were.

Source: PyTorch documentation, "Autograd mechanics: Hooks for saved tensors" and torch.utils.checkpoint;
Chen, Xu, Zhang and Guestrin 2016, Training Deep Nets with Sublinear Memory Cost.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn


def saved_bytes(f: Callable[..., object], *args: object, exclude: Iterable[Tensor] = ()) -> int:
    """Count the bytes that autograd saves for the backward pass while `f(*args)` runs.

        saved_bytes(model, x, exclude=model.parameters())  # the activations that training on x keeps

    `torch.autograd.graph.saved_tensors_hooks(pack, unpack)` makes a block in which autograd calls `pack`
    with each tensor that it saves, keeps what `pack` returns, and gives that to `unpack` when it wants the
    tensor back. Let `pack` return `tensor.detach()`: a result that is saved as it is keeps its own graph
    alive for ever.

    - `f` is called once, in the grad mode of the caller, and its result is dropped.
    - Each storage counts once, however many tensors and views of it are saved, with all of its bytes
      (`storage.nbytes()`).
    - What is freed before `f` ends counts, too. The memory of a freed storage is soon used for another one:
      that is a new storage and counts, though you have seen its address before.
    - Storages of the tensors in `exclude` (any iterable, also a generator) are not counted, whether that very
      tensor is saved or another one of the same storage: parameters exist anyway.
    - If nothing is saved, as under `torch.no_grad()`, the result is 0.
    - A backward pass inside `f` gives the same gradients as without you. An exception of `f` is passed on. No
      hook is left when the function ends, either way.

    All tensors are on the CPU, and `f` itself uses no such hooks.
    """
    # TODO: note each storage that is saved, add up their bytes.
    raise NotImplementedError("saved_bytes: note each storage that is saved, add up their bytes")


def training_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Count the bytes of all that training keeps besides the activations.

    Returns a dict with exactly these four keys:

    - "parameters": all parameters of `model`, frozen ones too, each once, however many modules share it.
    - "buffers": all buffers of `model`, also those that are not part of its state dict.
    - "gradients": the `.grad` of every parameter of `model` that has one, frozen or not.
    - "optimizer_state": every tensor in the state of `optimizer` (`optimizer.state`: a dict for each
      parameter), also the step counters, which are tensors of one number. Other entries count nothing.

    A tensor's bytes are its number of elements times the size of one, which depends on its dtype. No value is
    read: tensors may be on any device, also on the meta device, where they have no values.
    """

    # TODO: add up elements times element size for each part.
    raise NotImplementedError("training_bytes: add up elements times element size for each part")


def checkpointed_forward(layers: Iterable[nn.Module], x: Tensor) -> Tensor:
    """Apply `layers` in turn, saving only what goes into each one.

    The output is that of `for layer in layers: x = layer(x)`, each layer called as `layer(x)`, so that its
    hooks run. Each layer is checkpointed by itself: its intermediate results are not saved in the forward pass,
    but computed again in the backward pass.

    - The gradients of `x` and of every parameter are those of the plain loop, also if `x` requires no gradient
      or some layers are frozen.
    - When a layer with dropout runs again, it drops what it dropped in the forward pass. The backward pass
      leaves the global random state as it was, and the forward pass draws what the plain loop draws.
    - Each layer runs once in the forward pass and once more in the backward pass, right before its own
      gradients are computed: the last layer first, then the one before it, and so on.
    - The forward pass saves, besides the layers' parameters, at most the bytes of the layers' inputs:
      `saved_bytes(checkpointed_forward, layers, x, exclude=parameters)` shows it.
    - Under `torch.no_grad()` no graph is built. Without layers the result is `x`.

    Each layer takes one tensor and returns one, changes no input in place, and has no BatchNorm. Use
    `torch.utils.checkpoint` with `use_reentrant=False`, or an autograd Function of your own.
    """
    # TODO: checkpoint each layer by itself.
    raise NotImplementedError("checkpointed_forward: checkpoint each layer by itself")
