"""What training keeps in memory, and how checkpointing trades it for time.

Parameters, gradients and the state of the optimizer fill the memory, and the *activations*: what the forward
pass saves for the backward pass. They grow with the batch and with depth. Checkpointing saves fewer of them,
and computes the rest again in the backward pass.

A tensor is a view of a *storage*, its block of memory (`tensor.untyped_storage()`). Several tensors may share
one, and a small view keeps all of it alive.

Source: PyTorch documentation, "Autograd mechanics: Hooks for saved tensors" and torch.utils.checkpoint; Chen,
Xu, Zhang and Guestrin (2016), "Training Deep Nets with Sublinear Memory Cost".

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

# begin solution: imports
from torch.utils.checkpoint import checkpoint

# end solution


def saved_bytes(f: Callable[..., object], *args: object, exclude: Iterable[Tensor] = ()) -> int:
    """Count the bytes that autograd saves for the backward pass while `f(*args)` runs.

        saved_bytes(model, x, exclude=model.parameters())  # the activations that training on x keeps

    `torch.autograd.graph.saved_tensors_hooks(pack, unpack)` makes a block in which autograd calls `pack` with
    each tensor that it saves, keeps what `pack` returns, and gives that to `unpack` when it wants the tensor
    back. Let `pack` return `tensor.detach()`: a saved result would keep its own graph alive.

    - `f` is called once, in the grad mode of the caller, and its result is dropped.
    - Each storage counts once, however many tensors and views of it are saved, with all of its bytes
      (`storage.nbytes()`).
    - What is freed before `f` ends counts, too, and so does a new storage at its address.
    - Storages of the tensors in `exclude` are not counted, whichever of their tensors is saved: parameters
      exist anyway.
    - If nothing is saved, as under `torch.no_grad()`, the result is 0.
    - A backward pass inside `f` gives the same gradients as without you. No hook is left when the function
      ends, also after an exception of `f`.

    All tensors are on the CPU, and `f` itself uses no such hooks.
    """
    # begin solution: note each storage that is saved, add up their bytes
    excluded = {tensor.untyped_storage().data_ptr() for tensor in exclude}
    # Keep the storages themselves, not only addresses: a freed storage could pass its address on to another.
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        f(*args)
    return sum(storage.nbytes() for address, storage in saved.items() if address not in excluded)
    # end solution


def training_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Count the bytes of all that training keeps besides the activations.

    Returns a dict with exactly these four keys:

    - "parameters": all parameters of `model`, frozen ones too, each once, however many modules share it.
    - "buffers": all buffers of `model`, also those that are not part of its state dict.
    - "gradients": the `.grad` of every parameter of `model` that has one, frozen or not.
    - "optimizer_state": every tensor in the state of `optimizer` (`optimizer.state`: a dict for each
      parameter), also the step counters. Other entries count nothing.

    A tensor's bytes are its number of elements times the size of one. No value is read: tensors may be on any
    device, also on the meta device, where they have no values.
    """

    # begin solution: add up elements times element size for each part
    def total(tensors: Iterable[object]) -> int:
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))

    parameters = list(model.parameters())
    states = optimizer.state.values()
    return {
        "parameters": total(parameters),
        "buffers": total(model.buffers()),
        "gradients": total(parameter.grad for parameter in parameters),
        "optimizer_state": total(value for state in states for value in state.values()),
    }
    # end solution


def checkpointed_forward(layers: Iterable[nn.Module], x: Tensor) -> Tensor:
    """Apply `layers` in turn, saving only what goes into each one.

    The output is that of `for layer in layers: x = layer(x)`. Each layer is checkpointed by itself: its
    intermediate results are not saved in the forward pass, but computed again in the backward pass.

    - The gradients of `x` and of every parameter are those of the plain loop, also if `x` requires no gradient
      or some layers are frozen.
    - When a layer with dropout runs again, it drops what it dropped before. The forward pass draws what the
      plain loop draws, and the backward pass leaves the global random state as it was.
    - Each layer runs once in the forward pass and once more in the backward pass, right before its own
      gradients are computed: the last layer first.
    - The forward pass saves, besides the layers' parameters, at most the bytes of the layers' inputs:
      `saved_bytes(checkpointed_forward, layers, x, exclude=parameters)` shows it.
    - Under `torch.no_grad()` no graph is built. Without layers the result is `x`.

    Each layer takes one tensor and returns one, changes no input in place, and has no BatchNorm. Use
    `torch.utils.checkpoint` with `use_reentrant=False`, or an autograd Function of your own.
    """
    # begin solution: checkpoint each layer by itself
    for layer in layers:
        # The reentrant kind gives no gradients if x requires none.
        x = checkpoint(layer, x, use_reentrant=False)
    return x
    # end solution
