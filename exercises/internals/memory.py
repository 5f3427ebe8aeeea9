"""What training keeps in memory, and how checkpointing trades it for time.

Four things fill the memory of a GPU while a model is trained: its parameters, their gradients, the state of
the optimizer (Adam keeps two numbers for each parameter), and the activations: what the forward pass saves
because the backward pass will need it. The first three can be counted from the model and the optimizer.
Activations grow with the batch and with depth, and are seldom looked at; `saved_bytes` makes them visible.
Checkpointing saves less of them, and computes the rest again in the backward pass.

A tensor is a view of a *storage*, its block of memory (`tensor.untyped_storage()`). Several tensors may
share one, and a small view keeps all of it alive.

You neither seed the global random state nor draw from it, and what you are given stays as it was.

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
      (`storage.nbytes()`), whatever the dtype.
    - What is freed before `f` ends counts, too. The memory of a freed storage is soon used for another one:
      that is a new storage and counts, though its address is one that you have seen.
    - Storages of the tensors in `exclude` (any iterable, a generator too) are not counted, whether it is
      the same tensor that is saved or another one of the same storage: parameters exist anyway.
    - Where nothing is saved, the result is 0: under `torch.no_grad()`, say.
    - A backward pass inside of `f` gives the gradients that it would give without you. An exception of `f`
      is passed on. No hook is left when the function ends, either way.

    All tensors are dense and on the CPU. `f` itself uses no hooks of this sort, and what a custom autograd
    Function keeps without `save_for_backward` is free: count it or not.
    """
    # TODO: note each storage that is saved, add up their bytes.
    raise NotImplementedError("saved_bytes: note each storage that is saved, add up their bytes")


def training_bytes(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Count the bytes of all that training keeps besides the activations.

    Returns a dict with exactly these four keys:

    - "parameters": all parameters of `model`, frozen ones too, each once, however many modules share it.
    - "buffers": all buffers of `model`, also those that are not part of its state dict.
    - "gradients": the `.grad` of every parameter of `model` that has one, frozen or not.
    - "optimizer_state": every tensor in the state of `optimizer` (`optimizer.state`: for each parameter a
      dict), the step counters too, which are tensors of one number. Entries that are no tensors count
      nothing; none is a list or a dict.

    A tensor's bytes are its number of elements times the size of one, which depends on its dtype. Nothing
    is changed, and nothing is read of the values: tensors may be on any device, the meta device too, where
    there are none.
    """

    # TODO: add up elements times element size for each part.
    raise NotImplementedError("training_bytes: add up elements times element size for each part")


def checkpointed_forward(layers: Iterable[nn.Module], x: Tensor) -> Tensor:
    """Apply `layers` in turn, saving only what goes into each one.

    The output is that of `for layer in layers: x = layer(x)`, each layer called as `layer(x)`, so that its
    hooks run. Each layer is checkpointed by itself: what happens inside of it is not saved in the forward
    pass, and computed again in the backward pass.

    - The gradients of `x` and of every parameter that `output.backward(...)` gives are those of the plain
      loop: also where `x` requires no gradient, and where some layers are frozen.
    - That holds for dropout, too: when a layer runs again, it drops what it dropped in the forward pass.
      The backward pass leaves the global random state as it was, and the forward pass draws what the plain
      loop draws.
    - Each layer runs once in the forward pass and once more in the backward pass, right before its own
      gradients are computed: the last layer first, then the one before it, and so on. (A layer that has
      saved nothing, or needs no gradient, need not run again.)
    - The forward pass saves, besides the layers' parameters, at most the bytes of the layers' inputs. This
      is what `saved_bytes(checkpointed_forward, layers, x, exclude=parameters)` says.
    - Under `torch.no_grad()` it is just the output. Without layers it is `x`.
    - `x` stays as it was, its `requires_grad` too.

    Each layer takes one tensor and returns one, and changes no input in place. `torch.utils.checkpoint`
    with `use_reentrant=False` is fine, and so is an autograd Function of your own. Free: layers whose
    buffers a forward pass changes (BatchNorm in training mode), a gradient of the gradient, autocast.
    """
    # TODO: checkpoint each layer by itself.
    raise NotImplementedError("checkpointed_forward: checkpoint each layer by itself")
