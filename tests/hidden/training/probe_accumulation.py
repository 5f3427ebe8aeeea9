"""A model, a loader and an optimizer that log what happens to them, and runs that report the log."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Of the module, not of an object: copies of a model write into it as well.
LOG: list[dict[str, Any]] = []
SAVED: weakref.WeakSet[Saved] = weakref.WeakSet()


class Saved:
    """A tensor that autograd keeps for a backward pass: it lives as long as it is kept."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        SAVED.add(self)


class Network(nn.Module):
    """(n, ..., 3) to (n, 2): the mean over the middle, a layer with tanh, another layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)
        self.register_buffer("steps", torch.tensor(3.0))

    def forward(self, x: Tensor) -> Tensor:
        kinds = [event["event"] for event in LOG]
        pending = kinds.count("graph") - kinds.count("backward")
        seen = {"inputs": x.detach().clone(), "held": len(SAVED), "pending": pending}
        modes = [part.training for part in self.modules()]
        LOG.append({"event": "forward", "training": modes, **seen})
        with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
            output: Tensor = self.head(self.body(x.reshape(len(x), -1, 3).mean(1)).tanh())
        if output.requires_grad:
            LOG.append({"event": "graph"})
            output.register_hook(lambda _: LOG.append({"event": "backward"}))
        return output


class Descent(torch.optim.SGD):
    """SGD that logs the gradients of each step."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        result = None if closure is None else torch.enable_grad()(closure)()
        LOG.append({"event": "step", "gradient": gradient(self.param_groups[0]["params"])})
        super().step()
        return result


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error of targets (n, ..., 2), all of them for the one output of their row."""
    targets = targets.reshape(len(outputs), -1, 2)
    return F.mse_loss(outputs.unsqueeze(1).expand_as(targets), targets)


def gradient(parameters: Iterable[Tensor]) -> Tensor:
    return vector(torch.zeros_like(p) if p.grad is None else p.grad for p in parameters)


def vector(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def model(
    module: Any, weights: Tensor, grads: Any = None, training: Any = (), whole: bool = True,
    hook: bool = False,
) -> Network:  # fmt: skip
    """A Network of these weights and gradients; unless it is `whole`, a bias is frozen and a parameter unused.

    With `hook` one doubles the output.
    """
    made = Network().to(weights.dtype)
    nn.utils.vector_to_parameters(weights, made.parameters())
    if not whole:
        made.body.bias.requires_grad_(False)
        made.register_parameter("unused", nn.Parameter(weights.new_zeros(2)))
    for parameter in sorted_parameters(made) if grads is not None else ():
        part, grads = grads[: parameter.numel()], grads[parameter.numel() :]
        parameter.grad = part.reshape(parameter.shape).clone()
    for name, part in made.named_modules():
        part.training = name in training
    if hook:
        made.register_forward_hook(doubled)
    return made


def sorted_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Those of body and head, then the unused one."""
    own = [p for name, p in model.named_parameters() if name == "unused"]
    return [p for name, p in model.named_parameters() if name != "unused"] + own


def doubled(_: nn.Module, __: Any, output: Tensor) -> Tensor:
    LOG.append({"event": "hook"})
    return output * 2


def optimizer(module: Any, model: nn.Module) -> Descent:
    return Descent(model.parameters(), lr=1e-4, momentum=0.9)


def loader(module: Any, batches: list[Any], generator: bool = False) -> Any:
    """A loader with a length, or a generator, which has none."""

    class Loader:
        def __len__(self) -> int:
            return len(batches)

        def __iter__(self) -> Iterator[Any]:
            LOG.append({"event": "pass"})
            yield from batches

    return iter(Loader()) if generator else Loader()


def accumulated(module: Any, model: Network, batches: Any) -> dict[str, Any]:
    """What a call of accumulate_gradients gives and leaves."""
    LOG.clear()
    SAVED.clear()
    value = module.accumulate_gradients(model, batches, loss_fn)
    without = [parameter.grad is None for parameter in sorted_parameters(model)]
    left = gradient(sorted_parameters(model))
    return {"value": value, "log": list(LOG), "gradient": left, "without": without}


def trained(module: Any, model: Network, loader: Any, optimizer: Descent, *more: Any) -> Any:
    """What a call of train_epoch gives and leaves."""
    LOG.clear()
    SAVED.clear()
    value = module.train_epoch(model, loader, F.mse_loss, optimizer, *more)
    states = [(p, optimizer.state.get(p, {})) for p in model.parameters()]
    momentum = vector(state.get("momentum_buffer", p * 0) for p, state in states)
    modes = [part.training for part in model.modules()]
    left = {"training": modes, "weights": vector(model.parameters()), "momentum": momentum}
    return {"value": value, "log": list(LOG), **left}
