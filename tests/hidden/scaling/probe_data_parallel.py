"""Models and ranks for the functions of data_parallel.

Ranks are forks and take time, so several tests share one launch.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

import ranks

ranks.JOIN_SECONDS = 3.0  # shorter than for students, because tests have little time


class Net(nn.Module):
    """A linear model with `weight` and `bias`. It does not use further parameters."""

    weight: Tensor
    bias: Tensor

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(name, nn.Parameter(value.clone()))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


def values_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def gradients_of(model: nn.Module) -> dict[str, Any]:
    """The gradients by name, None for parameters without one."""
    gradients: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        gradients[name] = None if gradient is None else gradient.detach().clone()
    return gradients


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that changes if its arguments are swapped."""
    return (outputs - 2 * targets).square().mean()


def kind_of(wrapper: Any) -> str:
    own = type(wrapper)
    for kind in (nn.parallel.DistributedDataParallel, nn.DataParallel):
        if issubclass(own, kind):
            return kind.__name__
    return f"{own.__module__}.{own.__qualname__}"


# --- without a process group ---------------------------------------------------------------------


def wrap_alone(module: ModuleType, parameters: dict[str, Tensor], x: Tensor) -> tuple[str, Any]:
    wrapper = module.wrap(Net(parameters))
    output = wrapper(x) if isinstance(wrapper, nn.Module) else None
    return kind_of(wrapper), output


def average_alone(module: ModuleType, parameters: dict[str, Tensor], x: Tensor) -> None:
    model = Net(parameters)
    model(x).sum().backward()
    module.average_gradients(model)


def train(
    module: ModuleType,
    parameters: dict[str, Tensor],
    old_gradient: float,
    lr: float,
    batches: list[tuple[Tensor, Tensor]],
    modes: list[bool],
) -> dict[str, Any]:
    """The results of train steps, and the weights and modes after them. The model had old gradients before."""
    net = Net(parameters)
    model = nn.Sequential(net, nn.Dropout(0.0))
    for part, mode in zip(model.modules(), modes, strict=True):
        part.training = mode
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, old_gradient)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    returned, weights = [], []
    for inputs, targets in batches:
        returned.append(module.train_step(model, loss, optimizer, inputs, targets))
        weights.append(values_of(net))
    left = [part.training for part in model.modules()]
    return {"returned": returned, "weights": weights, "modes": left}


# --- in a process group --------------------------------------------------------------------------


def attempt(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Run one part of a launch and report its result or its error, so that the other parts go on."""
    try:
        return {"value": function(*arguments)}
    except Exception as error:  # noqa: BLE001 - the report says it
        return {"error": type(error).__name__, "message": str(error)}


def wrap_in_group(module: ModuleType, parameters: dict[str, Tensor]) -> dict[str, Any]:
    wrapper = module.wrap(Net(parameters))
    return {"kind": kind_of(wrapper), "weights": values_of(getattr(wrapper, "module", wrapper))}


def wrapped_step(
    module: ModuleType, parameters: dict[str, Tensor], lr: float, batch: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    wrapper = module.wrap(Net(parameters))
    optimizer = torch.optim.SGD(wrapper.parameters(), lr=lr)
    module.train_step(wrapper, loss, optimizer, *batch)
    return values_of(getattr(wrapper, "module", wrapper))


def plain_step(
    module: ModuleType, parameters: dict[str, Tensor], lr: float, batch: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    model = Net(parameters)
    module.train_step(model, loss, torch.optim.SGD(model.parameters(), lr=lr), *batch)
    return values_of(model)


def average(
    module: ModuleType, gradients: dict[str, Tensor | None], frozen: list[str]
) -> dict[str, Any]:
    """The gradients of a rank after average_gradients. The parameters belong to a submodule."""
    zeros = torch.zeros(2, 3, dtype=torch.float64)
    inner = nn.ParameterDict({name: zeros.clone() for name in gradients})
    for name, gradient in gradients.items():
        inner[name].requires_grad_(name not in frozen)
        inner[name].grad = gradient
    module.average_gradients(nn.Sequential(inner))
    return gradients_of(inner)


def group(
    module: ModuleType,
    parameters: list[dict[str, Tensor]],
    lr: float,
    batches: list[tuple[Tensor, Tensor]],
    cases: dict[str, Any],
) -> list[dict[str, Any]]:
    """The reports of all ranks of one launch, part by part.

    `parameters` and `batches` have an entry for each rank. A case of average_gradients has the gradients of
    each rank and the names of the frozen parameters.
    """

    def worker(rank: int, world_size: int) -> dict[str, Any]:
        del world_size
        mine, batch = parameters[rank], batches[rank]
        report = {
            "wrap": attempt(wrap_in_group, module, mine),
            "step": attempt(wrapped_step, module, mine, lr, batch),
            "plain": attempt(plain_step, module, mine, lr, batch),
        }
        for name, (gradients, frozen) in cases.items():
            report[name] = attempt(average, module, gradients[rank], frozen)
            if "error" in report[name]:
                break  # from here on the ranks could wait for each other in vain
        return report

    return ranks.launch(worker, len(batches))


def raise_unwritten(module: ModuleType, message: str) -> NoReturn:
    """Raise a rank's NotImplementedError in this process: a part is not written yet."""
    raise NotImplementedError(message)
