"""Look into a model with hooks, and take them off again.

A hook is a function that a module calls for you: after each forward pass with what went in and what came
out, or in the backward pass with the gradients. So you can see what happens in the middle of a model that
somebody else wrote, without a change of its code. `module.register_forward_hook(hook)` returns a handle, and
`handle.remove()` takes this hook off, and no other one.

Three things go wrong easily. A hook that is left behind runs in every later call. A hook that returns
something replaces the output. And a hook that keeps a tensor keeps all of the graph behind it in memory.

Rules for all three functions:
- Names are those of `model.named_modules()`: "" is the model itself, "encoder.0" a part of a part.
- Every hook that you register is removed again, also where the model or the block raises (whatever it is:
  a KeyboardInterrupt, too). The exception itself passes through. This holds for hooks of modules, of
  parameters, and for PyTorch's global ones.
- Hooks of others stay and keep working, whether they were there before or come while yours are there: among
  them those of another block around or inside of yours.
- The model's outputs and the gradients of its parameters are what they are without hooks.
- What you are given stays as it is (values, `.grad`, `requires_grad`, modes), also PyTorch's global modes, and
  nothing seeds or draws from the global random state. All dtypes stay what they are.

Source: PyTorch's documentation, torch.nn.Module: register_forward_hook, register_full_backward_hook;
torch.Tensor: register_hook.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn


def trace_shapes(model: nn.Module, x: Tensor) -> list[tuple[str, tuple[int, ...]]]:
    """List the shape that comes out of each layer when `model` is called on `x`.

    Calls `model` once, as `model(x)` and not as `model.forward(x)`, which passes over the model's own hooks.
    Returns a list with `(name, shape)` for each call of a leaf module, in the order in which the calls end.

    - A leaf is a module without children, of whatever class. Containers and blocks, which have children, are
      not listed; a model without children is its own leaf, "".
    - A leaf that is called twice is listed twice, one that is not called is not.
    - A shape is a tuple of ints (a `torch.Size` is one), also () and shapes with a 0 in them.
    - A call whose output is not a tensor is left out.

    Free: whether you call the model itself or a deep copy, with gradients or without, and in which mode, as
    long as modes are afterwards what they were; what the forward pass itself changes (the statistics of a
    BatchNorm); modules that are registered under two names.
    """
    # TODO: hook each leaf, call the model, remove the hooks.
    raise NotImplementedError("trace_shapes: hook each leaf, call the model, remove the hooks")


@contextmanager
def capture_activations(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Collect the outputs of the named modules while a `with` block runs.

        with capture_activations(model, ["encoder.0", "head"]) as activations:
            model(x)
        activations["head"]  # what the module "head" returned

    Yields a dict, which is empty when the block begins. In the block, every forward pass puts the outputs of
    the named modules into it: name to output, of the latest call where there are several.

    - The values are detached, so that they keep no graph in memory.
    - They stay as the module returned them, also where a later module, or the caller, writes into the output
      itself, as `nn.ReLU(inplace=True)` does.
    - After the block the dict keeps what it has, and no later pass changes it.
    - Hooks exist only inside the block: calling `capture_activations(...)` alone registers none.

    Raises ValueError, with a message that contains the name, for a name that `model.named_modules()` does not
    have (that of a parameter or of another attribute, say), at the latest when the block begins. No hook is
    left then. A name that is given twice counts once; no names give an empty dict.

    You may write it as a class, too. The named modules return one tensor each. Free: the order of the dict; a
    copy on the CPU; using one manager twice; outputs that hooks of others replace.
    """
    # TODO: hook the modules, yield, remove the hooks.
    raise NotImplementedError("capture_activations: hook the modules, yield, remove the hooks")


@contextmanager
def capture_gradients(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Collect the gradients of the named modules' outputs while a `with` block runs.

        with capture_gradients(model, ["encoder.0", "head"]) as gradients:
            loss_fn(model(x), y).backward()
        gradients["head"]  # the gradient of the loss with respect to what "head" returned

    Yields a dict, which is empty when the block begins. In the block, every backward pass (`backward()`, or
    `torch.autograd.grad` for all parameters) puts into it, for each named module, the gradient of what was
    differentiated with respect to the module's output: of the latest backward pass, not a sum over passes.

    - It is the gradient of the output, not that of the input.
    - The values are detached, also where the backward pass itself builds a graph (`create_graph=True`).
    - The input `x` of the model need not require grad, and some parameters may be frozen.
    - A module that no gradient reaches has no entry: one whose output the loss does not use, one that does not
      depend on any parameter that requires grad, or all of them under `torch.no_grad()`.
    - After the block the dict keeps what it has, and no later forward and backward pass changes it.
    - Hooks exist only inside the block, and names that the model does not have are a ValueError: both as in
      `capture_activations`.

    Free: outputs that are changed in place, or of a module that is called several times in one pass; a backward
    pass outside of the block of its forward pass; entries of an earlier pass that the latest one does not
    reach; the order of the dict; a copy on the CPU; using one manager twice.
    """
    # TODO: the same for the gradient of each output.
    raise NotImplementedError("capture_gradients: the same for the gradient of each output")
