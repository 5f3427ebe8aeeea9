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

# begin solution: imports
from typing import Any

# end solution
from torch import Tensor, nn


# begin solution: shared by both blocks
def _named(model: nn.Module, names: Sequence[str]) -> dict[str, nn.Module]:
    """Return the modules of these names, each once. Raises ValueError for an unknown name."""
    modules = dict(model.named_modules())
    for name in names:
        if name not in modules:
            raise ValueError(f"the model has no module named {name!r}")
    return {name: modules[name] for name in names}


# end solution


def trace_shapes(model: nn.Module, x: Tensor) -> list[tuple[str, tuple[int, ...]]]:
    """List the shape that comes out of each layer when `model` is called on `x`.

    Calls the model once and returns a list with `(name, shape)` for each call of a leaf module, in the order in
    which the calls end.

    - A leaf is a module without children, of any class. A model without children is its own leaf, "".
    - A leaf that is called twice is listed twice, and one that is never called is not listed.
    - A shape is a tuple of ints (a `torch.Size` is one). Calls whose output is not a tensor are left out.

    A deep copy, no gradients, or another mode that you restore are fine, too.
    """
    # begin solution: hook each leaf, call the model, remove the hooks
    shapes: list[tuple[str, tuple[int, ...]]] = []
    handles = []

    def note(name: str) -> Any:
        # The name is an argument, because a closure in the loop would see only the last name.
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, Tensor):
                shapes.append((name, tuple(output.shape)))

        return hook

    try:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                handles.append(module.register_forward_hook(note(name)))
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return shapes
    # end solution


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
    # begin solution: hook the modules, yield, remove the hooks
    modules = _named(model, names)
    activations: dict[str, Tensor] = {}
    handles = []

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _inputs: Any, output: Tensor) -> None:
            # A copy, because a later module may write into the output itself.
            activations[name] = output.detach().clone()

        return hook

    try:
        for name, module in modules.items():
            handles.append(module.register_forward_hook(keep(name)))
        yield activations
    finally:
        for handle in handles:
            handle.remove()
    # end solution


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
    # begin solution: the same for the gradient of each output
    modules = _named(model, names)
    gradients: dict[str, Tensor] = {}
    handles = []

    def keep(name: str) -> Any:
        def hook(_module: nn.Module, _grad_inputs: Any, grad_outputs: Any) -> None:
            gradients[name] = grad_outputs[0].detach()

        return hook

    try:
        for name, module in modules.items():
            handles.append(module.register_full_backward_hook(keep(name)))
        yield gradients
    finally:
        for handle in handles:
            handle.remove()
    # end solution
