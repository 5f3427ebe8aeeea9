"""Work that saves tensors, a model with its optimizer, and layers that record when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

# --- saved_bytes ----------------------------------------------------------------------------------


def work(program: str) -> Callable[..., None]:
    """Return a function of x, y and z that runs a program, the suite's own text, and returns nothing."""

    def run(*tensors: Tensor) -> None:
        exec(program, {"torch": torch, **dict(zip("xyz", tensors, strict=False))})

    return run


def bytes_without(
    module: Any, program: str, tensors: list[Tensor], excluded: list[int], begin: int
) -> Any:
    """Return saved_bytes of a program on these tensors, excluding the rows of some of them from `begin` on."""
    leaves = [tensor.requires_grad_(tensor.is_floating_point()) for tensor in tensors]
    exclude = (leaves[i].detach()[begin:] for i in excluded)
    return module.saved_bytes(work(program), *leaves, exclude=exclude)


def layer_bytes(module: Any, x: Tensor, weight: Tensor) -> Any:
    """Return saved_bytes of a layer, excluding nothing."""
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight = nn.Parameter(weight)
    return module.saved_bytes(layer, x.requires_grad_())


class Watched(nn.Module):
    """A module that records how it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def forward(self, x: Tensor) -> Tensor:
        grad = torch.is_grad_enabled()
        call = {"training": self.training, "grad mode": grad, "drawn": torch.rand(3)}
        self.calls.append(call)
        return x.exp()


def called(module: Any, x: Tensor, seed: int, gradients_on: bool) -> dict[str, Any]:
    """Return how saved_bytes calls a module, and its result."""
    watched = Watched()
    torch.manual_seed(seed)
    with torch.set_grad_enabled(gradients_on):
        count = module.saved_bytes(watched, x.requires_grad_())
    return {"calls": watched.calls, "bytes": count}


def with_backward(module: Any, x: Tensor) -> dict[str, Any]:
    """Return saved_bytes of a forward and a backward pass, and the gradient."""
    x.requires_grad_()
    count = module.saved_bytes(lambda x: (x.exp() * x.sin()).sum().backward(), x, exclude=[x])
    return {"bytes": count, "gradient": x.grad}


def with_error(module: Any, x: Tensor) -> dict[str, bool]:
    """Return whether an error in f comes out, and whether hooks are left."""

    def fail(x: Tensor) -> None:
        x.exp()
        raise IndexError("as it should be")

    raised = False
    try:
        module.saved_bytes(fail, x.requires_grad_())
    except IndexError:
        raised = True
    return {"error comes out": raised, "hooks are left": hooks_left()}


def hooks_left() -> bool:
    """Return whether hooks still handle what autograd saves. If so, it accepts no others."""
    node: Any = torch.ones(1, requires_grad=True).exp().grad_fn
    try:
        node._raw_saved_result.register_hooks(lambda tensor: tensor, lambda tensor: tensor)
    except RuntimeError:
        return True
    return False


# --- training_bytes -------------------------------------------------------------------------------


def spaced(kind: Any, device: Any) -> Tensor:
    """Make a tensor of this shape and dtype that has every second element of a storage twice its size."""
    shape, dtype, *_ = kind
    return torch.ones(*shape, 2, dtype=getattr(torch, dtype), device=device)[..., 0]


def network(module: Any, parameters: list[Any], buffers: list[Any], device: str) -> nn.Module:
    """Make a model with a submodule that has such parameters and buffers. Both share the first parameter."""
    part = nn.Module()
    for i, kind in enumerate(parameters):
        *_, trainable, has_gradient = kind
        parameter = nn.Parameter(spaced(kind, device), requires_grad=trainable)
        parameter.grad = torch.ones_like(parameter) if has_gradient else None
        part.register_parameter(f"parameter{i}", parameter)
    for i, kind in enumerate(buffers):
        part.register_buffer(f"buffer{i}", spaced(kind, device), persistent=kind[-1])
    whole = nn.Module()
    whole.add_module("part", part)
    whole.register_parameter("shared", part.get_parameter("parameter0"))
    return whole


def optimizer(module: Any, model: nn.Module, tensors: Any, others: Any) -> Any:
    """Make an optimizer of the two parameters that learn. Its state has such tensors, and other things."""
    first, second = (p for p in model.parameters() if p.requires_grad and p.grad is not None)
    made = torch.optim.SGD([first, second])
    for name, kind in tensors.items():
        made.state[first][name] = spaced(kind, first.device)
    made.state[second].update(others)
    return made


# --- checkpointed_forward -------------------------------------------------------------------------

log: list[str] = []
# How many bytes go into the layers.
inputs: list[int] = []
# What the layers compute before their dropout.
products: list[StorageWeakRef] = []


class Block(nn.Module):
    """A matrix, tanh and dropout. The log has each run, and each time that gradients reach its input."""

    def __init__(self, weight: Tensor, name: int, dropout: float) -> None:
        super().__init__()
        self.inner = nn.ParameterList([weight.clone()])
        self.name = name
        self.dropout = dropout

    @property
    def weight(self) -> Any:
        """The matrix, a parameter of a module inside."""
        return self.inner[0]

    def forward(self, x: Tensor) -> Tensor:
        log.append(f"layer {self.name} runs")
        inputs.append(x.nbytes)
        x = x.view_as(x)
        if x.requires_grad:
            x.register_hook(lambda _: log.append(f"gradients of layer {self.name}"))
        y = (x @ self.weight).tanh()
        products.append(StorageWeakRef(y.untyped_storage()))
        return nn.functional.dropout(y, self.dropout, self.training)


def blocks(
    module: Any, weights: list[Tensor], names: list[int], dropout: float, frozen: list[int]
) -> list[Block]:
    """Make layers with these weights, some of them frozen."""
    made = [Block(*named, dropout) for named in zip(weights, names, strict=True)]
    for i in frozen:
        made[i].requires_grad_(False)
    return made


def doubled(module: Any, layers: list[Block]) -> list[Block]:
    """Give the layers hooks that double their results."""
    for layer in layers:
        layer.register_forward_hook(lambda _, __, y: 2 * y)
    return layers


def evaluating(module: Any, layers: list[Block]) -> list[Block]:
    """Put the layers into evaluation mode."""
    return [layer.eval() for layer in layers]


def both_passes(
    module: Any, layers: list[Block], x: Tensor, factors: Tensor, seed: int
) -> dict[str, Any]:
    """Return output and gradients of checkpointed layers, and the random state after each pass."""
    torch.manual_seed(seed)
    y = module.checkpointed_forward(iter(layers), x)
    report: dict[str, Any] = {"output": y.detach().clone()}
    report["random state after the forward pass"] = torch.get_rng_state()
    (y * factors).sum().backward()
    report["random state after the backward pass"] = torch.get_rng_state()
    report["gradients"] = [x.grad, *(layer.weight.grad for layer in layers)]
    return report


def logged(module: Any, layers: list[Block], x: Tensor) -> dict[str, Any]:
    """Return what runs in each pass, whether more is saved than the inputs, and how many products live on."""
    parameters = {layer.weight.untyped_storage().data_ptr() for layer in layers}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage
        return tensor

    for notes in (log, inputs, products):
        notes.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = module.checkpointed_forward(layers, x)
    count = sum(storage.nbytes() for storage in saved.values())
    report: dict[str, Any] = {"forward": list(log), "saves too much": count > sum(inputs)}
    saved.clear()
    report["alive"] = sum(not product.expired() for product in products)
    log.clear()
    y.sum().backward()
    return {**report, "backward": list(log)}


def graph_under_no_grad(module: Any, layers: list[Block], x: Tensor) -> bool:
    """Return whether the output requires a gradient under no_grad."""
    with torch.no_grad():
        y: Tensor = module.checkpointed_forward(layers, x)
    return y.requires_grad
