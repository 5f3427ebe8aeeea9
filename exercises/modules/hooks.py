"""Look into a model with hooks, and take them off again.

A module calls its hooks after each forward pass, or in the backward pass. `module.register_forward_hook(hook)`
returns a handle; `handle.remove()` takes off this hook and no other. A hook that is left behind runs in every
later call, one that returns something replaces the output, and one that keeps a tensor keeps its whole graph in
memory.

Every hook that you register is removed again, also after an exception or Ctrl-C. Other hooks keep working,
those of a block around or inside yours, too. Outputs and gradients are what they are without hooks.

Source: PyTorch documentation, torch.nn.Module: register_forward_hook, register_full_backward_hook.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn


def trace_shapes(model: nn.Module, x: Tensor) -> list[tuple[str, tuple[int, ...]]]:
    """List the shape that comes out of each layer when `model` is called on `x`.

    Calls the model once and returns a list with `(name, shape)` for each call of a leaf module, in the order in
    which the calls end.

    - A leaf is a module without children, of any class. A model without children is its own leaf, "".
    - A leaf that is called twice is listed twice, and one that is never called is not listed.
    - A shape is a tuple of ints (a `torch.Size` is one). Calls whose output is not a tensor are left out.

    A deep copy, no gradients, or another mode that you restore are fine, too.
    """
    # TODO: hook each leaf, call the model, remove the hooks.
    raise NotImplementedError("trace_shapes: hook each leaf, call the model, remove the hooks")


@contextmanager
def capture_activations(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Collect the outputs of the named modules while a `with` block runs.

        with capture_activations(model, ["encoder.0", "head"]) as activations:
            model(x)
        activations["head"]  # what the module "head" returned

    Yields a new dict, which is empty when the block begins. In the block, every forward pass puts into it the
    output of each named module, which is one tensor; of several calls the latest counts.

    - The values are detached, and stay as the module returned them, even if a later `nn.ReLU(inplace=True)`
      changes the output.
    - After the block the dict keeps what it has, and later passes do not change it.
    - Hooks exist only inside the block: calling `capture_activations(...)` alone registers none.

    Raises ValueError, with the name in its message, for a name that the model does not have, at the latest when
    the block begins. No hook is left then.
    """
    # TODO: hook the modules, yield, remove the hooks.
    raise NotImplementedError("capture_activations: hook the modules, yield, remove the hooks")


@contextmanager
def capture_gradients(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Collect the gradients of the named modules' outputs while a `with` block runs.

    Used as `capture_activations` is, with the same rules for the dict, the hooks and unknown names. Every
    backward pass in the block puts into the dict the gradient with respect to the output (not the input) of
    each named module: that of the latest pass, not a sum over passes.

    - The input of the model need not require grad, and some parameters may be frozen.
    - A module that no gradient reaches has no entry: the loss does not use its output, or the output depends on
      nothing that requires grad, or the pass runs under `torch.no_grad()`.

    Each named module is called once in a pass, and its output is not changed in place.
    """
    # TODO: the same for the gradient of each output.
    raise NotImplementedError("capture_gradients: the same for the gradient of each output")
