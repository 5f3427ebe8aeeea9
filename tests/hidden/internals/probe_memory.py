"""Work whose saved tensors are counted, a model and its optimizer, layers that note when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

# --- saved_bytes ----------------------------------------------------------------------------------


def work(program: str) -> Callable[..., None]:
    """A function of x, y and z that runs a program, the suite's own text, and returns nothing."""

    def run(*tensors: Tensor) -> None:
        exec(program, {"torch": torch, **dict(zip("xyz", tensors, strict=False))})

    return run


def with_gradients(tensors: list[Tensor]) -> list[Tensor]:
    """The tensors, which require a gradient where they can."""
    return [tensor.requires_grad_(tensor.is_floating_point()) for tensor in tensors]


def bytes_without(module: Any, program: str, tensors: list[Tensor], excluded: list[int]) -> Any:
    """The bytes of a program's work on these tensors, of which some are excluded."""
    leaves = with_gradients(tensors)
    exclude = (leaves[i] for i in excluded)
    return module.saved_bytes(work(program), *leaves, exclude=exclude)


def bytes_without_views(
    module: Any, program: str, tensors: list[Tensor], excluded: list[int]
) -> Any:
    """The same where views of tensors are excluded, all but their first rows."""
    leaves = with_gradients(tensors)
    exclude = (leaves[i].detach()[1:] for i in excluded)
    return module.saved_bytes(work(program), *leaves, exclude=exclude)


def layer_bytes(module: Any, x: Tensor, weight: Tensor) -> Any:
    """The bytes of a layer, with those of its weight."""
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight = nn.Parameter(weight)
    return module.saved_bytes(layer, x.requires_grad_())


class Watched(nn.Module):
    """A module that notes how it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[dict[str, Any]] = []

    def forward(self, x: Tensor) -> Tensor:
        grad = torch.is_grad_enabled()
        call = {"training": self.training, "grad mode": grad, "drawn": torch.rand(3)}
        self.calls.append(call)
        return x.exp()


def called(module: Any, x: Tensor, seed: int, gradients_on: bool) -> dict[str, Any]:
    """How a module was called, and the bytes."""
    watched = Watched()
    torch.manual_seed(seed)
    with torch.set_grad_enabled(gradients_on):
        count = module.saved_bytes(watched, x.requires_grad_())
    return {"calls": watched.calls, "bytes": count}


def with_backward(module: Any, x: Tensor) -> dict[str, Any]:
    """The bytes of a forward and a backward pass, and the gradient."""
    x.requires_grad_()
    count = module.saved_bytes(lambda x: (x.exp() * x.sin()).sum().backward(), x, exclude=[x])
    return {"bytes": count, "gradient": x.grad}


def with_error(module: Any, x: Tensor) -> dict[str, bool]:
    """Whether the error of some work comes out, and leaves hooks behind."""

    def fail(x: Tensor) -> None:
        x.exp()
        raise IndexError("as it should be")

    try:
        module.saved_bytes(fail, x.requires_grad_())
    except IndexError:
        return {"raised": True, "hooks left": hooks_left()}
    return {"raised": False, "hooks left": hooks_left()}


def hooks_left() -> bool:
    """Whether what autograd saves now goes through hooks: then it takes no others."""
    node: Any = torch.ones(1, requires_grad=True).exp().grad_fn
    try:
        node._raw_saved_result.register_hooks(lambda tensor: tensor, lambda tensor: tensor)
    except RuntimeError:
        return True
    return False


# --- training_bytes -------------------------------------------------------------------------------


def spaced(shape: list[int], dtype: str, device: Any) -> Tensor:
    """A tensor of this shape, of every second element of a storage, which has more bytes than the tensor."""
    return torch.ones(*shape, 2, dtype=getattr(torch, dtype), device=device)[..., 0]


def network(module: Any, parameters: list[Any], buffers: list[Any], device: str) -> nn.Module:
    """A model whose submodule has such parameters and buffers; it shares the first parameter."""
    part = nn.Module()
    for i, (shape, dtype, trainable, has_gradient) in enumerate(parameters):
        parameter = nn.Parameter(spaced(shape, dtype, device), requires_grad=trainable)
        if has_gradient:
            parameter.grad = torch.ones_like(parameter)
        part.register_parameter(f"parameter{i}", parameter)
    for i, (shape, dtype, persistent) in enumerate(buffers):
        part.register_buffer(f"buffer{i}", spaced(shape, dtype, device), persistent=persistent)
    whole = nn.Module()
    whole.add_module("part", part)
    whole.register_parameter("shared", part.get_parameter("parameter0"))
    return whole


def optimizer_with_state(module: Any, model: nn.Module, tensors: Any, others: Any) -> Any:
    """An optimizer of the two parameters that learn: it keeps such tensors, by name, and other things."""
    first, second = (
        parameter
        for parameter in model.parameters()
        if parameter.requires_grad and parameter.grad is not None
    )
    made = torch.optim.SGD([first, second])
    for name, (shape, dtype) in tensors.items():
        made.state[first][name] = spaced(shape, dtype, first.device)
    made.state[second].update(others)
    return made


# --- checkpointed_forward -------------------------------------------------------------------------

log: list[str] = []
# What the layers compute before their dropout.
products: list[StorageWeakRef] = []


class Block(nn.Module):
    """A matrix, tanh and dropout; each run is noted, and when gradients reach its input."""

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
        x = x.view_as(x)
        if x.requires_grad:
            x.register_hook(lambda _: log.append(f"gradients of layer {self.name}"))
        y = (x @ self.weight).tanh()
        products.append(StorageWeakRef(y.untyped_storage()))
        return nn.functional.dropout(y, self.dropout, self.training)


def blocks(
    module: Any, weights: list[Tensor], names: list[int], dropout: float, frozen: list[int]
) -> list[Block]:
    """Layers with these weights, some of them frozen."""
    made = []
    for weight, name in zip(weights, names, strict=True):
        made.append(Block(weight, name, dropout))
    for i in frozen:
        made[i].requires_grad_(False)
    return made


def doubled(module: Any, layers: list[Block]) -> list[Block]:
    """The layers, with hooks that double what they return."""
    for layer in layers:
        layer.register_forward_hook(lambda _, __, y: 2 * y)
    return layers


def evaluating(module: Any, layers: list[Block]) -> list[Block]:
    """The layers in evaluation mode."""
    return [layer.eval() for layer in layers]


def both_passes(
    module: Any, layers: list[Block], x: Tensor, factors: Tensor, seed: int
) -> dict[str, Any]:
    """Output and gradients of checkpointed layers, and the random state after either pass."""
    torch.manual_seed(seed)
    y = module.checkpointed_forward(iter(layers), x)
    report = {"output": y.detach().clone(), "random after forward": torch.get_rng_state()}
    (y * factors).sum().backward()
    report["random after backward"] = torch.get_rng_state()
    return {**report, "gradients": [x.grad, *(layer.weight.grad for layer in layers)]}


def logged(module: Any, layers: list[Block], x: Tensor) -> dict[str, Any]:
    """What runs in either pass, and what the forward pass saves besides parameters and keeps alive."""
    parameters = {layer.weight.untyped_storage().data_ptr() for layer in layers}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            saved[storage.data_ptr()] = storage
        return tensor

    log.clear()
    products.clear()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = module.checkpointed_forward(layers, x)
    report = {"bytes": sum(storage.nbytes() for storage in saved.values()), "forward": list(log)}
    saved.clear()
    report["alive"] = sum(not product.expired() for product in products)
    log.clear()
    y.sum().backward()
    return {**report, "backward": list(log)}


def graph_under_no_grad(module: Any, layers: list[Block], x: Tensor) -> bool:
    """Whether the output requires a gradient, though no graph is asked for."""
    with torch.no_grad():
        y: Tensor = module.checkpointed_forward(layers, x)
    return y.requires_grad
