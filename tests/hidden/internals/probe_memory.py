"""Work whose saved tensors are counted, a model and its optimizer, layers that note when they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

log: list[str] = []
products: list[StorageWeakRef] = []  # of the layers, before dropout
MODES = {True: torch.enable_grad, False: torch.no_grad}


WORK: dict[str, Callable[..., Any]] = {
    "exp": torch.exp,
    "sin": torch.sin,
    "x * x": lambda x: x * x,
    "x.sin() + x.cos() * x": lambda x: x.sin() + x.cos() * x,
    "gather": lambda x, index: x.gather(0, index),
    "where": lambda x, mask: torch.where(mask, x, 0.0),
    "x[1:3].sin()": lambda x: x[1:3].sin(),
    "four views": lambda x: (x[1:].sin(), x[:, 0].cos(), x.t().sin(), x.flatten()[2:5].cos()),
    "x.expand(50, *x.shape).sin()": lambda x: x.expand(50, *x.shape).sin(),
    "linear": torch.nn.functional.linear,
    "60 times sin": lambda x: [len((x + i).sin()) for i in range(60)],
    "backward": lambda x: (x.exp() * x.sin()).sum().backward(),
    "an error": lambda x: [x.exp()][1],
    "exp with gradients": torch.enable_grad()(lambda x: x.exp()),
}
FORMS = {"itself": lambda x: x, "a part": lambda x: x.detach()[1:], "transposed": torch.t}


def measured(module: Any, name: str, tensors: list[Tensor], **how: Any) -> dict[str, Any]:
    """The bytes of some work on tensors, and what the call did and left."""
    calls: list[Any] = []
    tensors = [tensors[0], *(nn.Parameter(t, requires_grad=False) for t in tensors[1:])]
    for tensor in tensors:
        tensor.requires_grad_(how.get("needs", True) and tensor.is_floating_point())

    class Work(nn.Module):
        def forward(self, *arguments: Any) -> Any:
            same = [*map(id, arguments)] == [*map(id, tensors)] and self.training
            calls.append([same, torch.is_grad_enabled(), torch.equal(torch.get_rng_state(), state)])
            return WORK[name](*arguments)

    work, state = Work(), torch.get_rng_state()
    work.weights = nn.ParameterList(t for t in tensors if isinstance(t, nn.Parameter))
    raised, value, keywords = False, None, {}
    if "exclude" in how:
        view = FORMS[how.get("form", "itself")]
        keywords["exclude"] = (view(tensors[i]) for i in how["exclude"])
    with MODES[how.get("grad", True)]():
        try:
            value = module.saved_bytes(work, *tensors, **keywords)
        except IndexError:
            raised = True
        report = {"value": value, "calls": calls, "raised": raised}
        report["grad"] = torch.is_grad_enabled()
    return {**report, "left": hooks_left(), "gradients": [tensor.grad for tensor in tensors]}


def hooks_left() -> bool:
    """Whether what autograd saves now goes through hooks: then it takes no others."""
    node: Any = torch.ones(1, requires_grad=True).exp().grad_fn
    try:
        node._raw_saved_result.register_hooks(lambda tensor: tensor, lambda tensor: tensor)
    except RuntimeError:
        return True
    return False


def tensor(shape: Any, dtype: str, device: Any) -> Tensor:
    """A tensor of this shape, every second element of a longer storage."""
    return torch.ones(*shape, 2, dtype=getattr(torch, dtype), device=device)[..., 0]


def network(
    module: Any, parameters: Any, buffers: Any, tied: bool = False, device: str = "cpu"
) -> nn.Module:
    """A model of such parameters (shape, dtype, trainable, with a gradient) and buffers."""
    made, part = nn.Module(), nn.Module()
    made.add_module("part", part)
    for i, (shape, dtype, trainable, gradient) in enumerate(parameters):
        parameter = nn.Parameter(tensor(shape, dtype, device), requires_grad=bool(trainable))
        parameter.grad = torch.ones_like(parameter) if gradient else None
        (made, part)[i % 2].register_parameter(f"p{i}", parameter)
        if tied:
            part.register_parameter(f"tied{i}", parameter)
    for i, (shape, dtype, persistent) in enumerate(buffers):
        buffer = tensor(shape, dtype, device)
        (made, part)[i % 2].register_buffer(f"b{i}", buffer, persistent=bool(persistent))
    return made


def optimizer(
    module: Any, model: Any, name: str, options: Any, steps: int, states: Any = ()
) -> Any:
    """An optimizer of torch after some steps, with more entries in its state.

    It lacks a parameter of the model that has no gradient.
    """
    lacking = [id(p) for p in model.parameters() if p.grad is None][:1]
    parameters = [p for p in model.parameters() if id(p) not in lacking]
    made = getattr(torch.optim, name)(parameters, **options)
    for _ in range(steps):
        made.step()
    for parameter, state in zip(parameters, states, strict=False):
        for key, value in state.items():
            if isinstance(value, (list, tuple)):
                value = tensor(value[0], value[1], parameter.device)
            made.state[parameter][key] = value
    return made


class Block(nn.Module):
    """A matrix, tanh and dropout; each run is noted."""

    def __init__(self, index: int, weight: Tensor, dropout: float) -> None:
        super().__init__()
        self.weight, self.index, self.dropout = nn.Parameter(weight.clone()), index, dropout

    def forward(self, x: Tensor) -> Tensor:
        log.append(f"layer {self.index} runs")
        if (x := x.view_as(x)).requires_grad:
            x.register_hook(lambda _: log.append(f"gradients of {self.index}"))
        y = (x @ self.weight).tanh()
        products.append(StorageWeakRef(y.untyped_storage()))
        return nn.functional.dropout(y, self.dropout, self.training)


def blocks(
    module: Any, weights: Any, dropout: float = 0.0, frozen: Any = (), train: bool = True
) -> list[Block]:
    """Frozen layers whose number is even have a buffer instead of a parameter."""
    made = [Block(i, weight, dropout).train(train) for i, weight in enumerate(weights)]
    for i in frozen:
        weight = made[i].requires_grad_(False).weight.detach()
        if i % 2 == 0:
            del made[i].weight
            made[i].register_buffer("weight", weight)
    return made


def passed(
    module: Any, layers: list[Block], x: Tensor, order: list[int], seed: int, **how: Any
) -> dict[str, Any]:
    """The output and the gradients of checkpointed layers, what ran when, what was saved and drawn."""
    for layer in layers:
        layer.register_forward_hook(lambda _, __, y: y * how.get("scale", 1))
    own = {layer.weight.untyped_storage().data_ptr() for layer in layers}
    saved: dict[int, Any] = {}

    def pack(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage()
        return tensor

    log.clear()
    products.clear()
    x.requires_grad_(how.get("needs", True))
    torch.manual_seed(seed)
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with MODES[how.get("grad", True)](), hooks:
        y = module.checkpointed_forward((layers[i] for i in order), x)
    count = sum(storage.nbytes() for address, storage in saved.items() if address not in own)
    saved.clear()
    alive = sum(not product.expired() for product in products)
    report = {"bytes": count, "alive": alive, "forward": list(log), "needs": x.requires_grad}
    report |= {"output": y.detach().clone(), "attached": y.requires_grad}
    report["random"] = torch.get_rng_state()
    log.clear()
    if y.requires_grad:
        (y * torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view_as(y)).sum().backward()
    report |= {"backward": list(log), "random afterwards": torch.get_rng_state()}
    return {**report, "gradients": [x.grad, *(layer.weight.grad for layer in layers)]}
