"""Iterations of a scaler on given gradients, and training steps of a model that logs its calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LOG: list[dict[str, Any]] = []
PYTORCHS_OWN = ("amp/grad_scaler.py", "fsdp/sharded_grad_scaler.py")


# --- GradScaler ----------------------------------------------------------------------------------


def first_scale(module: Any, *arguments: Any) -> Any:
    """The result of get_scale of a new scaler."""
    return module.GradScaler(*arguments).get_scale()


def interval(module: Any) -> Any:
    """The default of growth_interval, read from the signature, because so many iterations would take long."""
    return inspect.signature(module.GradScaler).parameters["growth_interval"].default


def two_scalers(module: Any, first: float, second: float, gradients: list[Tensor]) -> list[float]:
    """The scales of two scalers after one iteration each, with their own gradients."""
    scalers = [module.GradScaler(first), module.GradScaler(second)]
    for scaler, gradient in zip(scalers, gradients, strict=True):
        parameter = nn.Parameter(torch.ones_like(gradient))
        parameter.grad = gradient
        scaler.step(torch.optim.SGD([parameter], lr=0.5))
        scaler.update()
    return [float(scaler.get_scale()) for scaler in scalers]


def scaled(module: Any, scale: float, x: Tensor) -> dict[str, Any]:
    """The scaled loss for the loss (x ** 2).sum(), and the gradient of x, or None without a graph."""
    x.requires_grad_()
    loss = module.GradScaler(scale).scale(x.square().sum())
    if loss.requires_grad:
        loss.backward()
    return {"loss": loss.detach(), "gradient": x.grad}


def unscaled(
    module: Any, scale: float, values: list[list[Tensor]], gradients: list[list[Tensor | None]]
) -> dict[str, list[Any]]:
    """The state after unscale_ of parameters with these values and gradients, both given in groups."""
    scaler = module.GradScaler(scale)
    groups = [[nn.Parameter(value) for value in group] for group in values]
    sgd = torch.optim.SGD([{"params": group} for group in groups], lr=0.5)
    parameters = list(chain(*groups))
    before = list(chain(*gradients))
    for parameter, gradient in zip(parameters, before, strict=True):
        parameter.grad = gradient
    scaler.unscale_(sgd)
    after = [parameter.grad for parameter in parameters]
    return {
        "values": [parameter.detach() for parameter in parameters],
        "gradients": after,
        "same": [old is new for old, new in zip(before, after, strict=True)],
    }


def unscaled_again(
    module: Any, scale: float, first: str, gradients: list[Tensor]
) -> list[dict[str, Any]]:
    """Make an iteration for each gradient: call the method `first`, then unscale_, then update."""
    scaler = module.GradScaler(scale)
    parameter = nn.Parameter(torch.zeros_like(gradients[0]))
    sgd = torch.optim.SGD([parameter], lr=0.5)
    reports = []
    for gradient in gradients:
        parameter.grad = gradient
        getattr(scaler, first)(sgd)
        raised = False
        try:
            scaler.unscale_(sgd)
        except RuntimeError:
            raised = True
        reports.append({"raised": raised, "gradient": parameter.grad})
        scaler.update()
    return reports


def iterated(
    module: Any,
    values: list[Tensor],
    iterations: list[Any],
    sgd_options: dict[str, Any],
    scaler_options: dict[str, Any],
) -> dict[str, list[Any]]:
    """The results, scales and values after iterations.

    An iteration is a list of gradients before scaling, and the names of the calls between backward and step.
    """
    scaler = module.GradScaler(**scaler_options)
    parameters = [nn.Parameter(value) for value in values]
    sgd = torch.optim.SGD(parameters, **sgd_options)
    report: dict[str, list[Any]] = {"stepped": [], "scales": [], "values": []}
    for gradients, before_step in iterations:
        scale = float(scaler.get_scale())
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient * scale
        if "unscale_" in before_step:
            scaler.unscale_(sgd)
        if "clip" in before_step:
            nn.utils.clip_grad_value_(parameters, 1.0)
        report["stepped"].append(scaler.step(sgd))
        scaler.update()
        report["scales"].append(float(scaler.get_scale()))
        report["values"].append(vector(parameters))
    return report


def vector(tensors: Iterable[Tensor]) -> Tensor:
    """All values in one vector."""
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def foreign(module: Any) -> list[str]:
    """The functions of PyTorch's own scaler that run in an iteration."""
    ran: list[str] = []

    def profile(frame: Any, event: str, called: Any) -> None:
        if event == "call" and frame.f_code.co_filename.endswith(PYTORCHS_OWN):
            ran.append(f"PyTorch's {frame.f_code.co_qualname}")
        if event == "c_call" and str(getattr(called, "__name__", "")).startswith("_amp_"):
            ran.append(f"torch.{called.__name__}")

    parameter = nn.Parameter(torch.ones(2))
    sgd = torch.optim.SGD([parameter], lr=0.5)
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        scaler = module.GradScaler()
        scaler.scale(parameter.sum()).backward()
        scaler.unscale_(sgd)
        scaler.step(sgd)
        scaler.update()
    finally:
        sys.setprofile(before)
    return ran


# --- train_step ----------------------------------------------------------------------------------


class Network(nn.Module):
    """A network from (n, 3) to (n, 2), in float32, with its weights given as one vector."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)
        nn.utils.vector_to_parameters(weights, self.parameters())
        for parameter in self.parameters():
            parameter.grad = torch.full_like(parameter, 70.0)  # an old gradient

    def forward(self, x: Tensor) -> Tensor:
        LOG.append({"call": "model", "weight": str(self.body.weight.dtype), **autocast()})
        output: Tensor = self.head(self.body(x).tanh())
        return output


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    """Log the call, and compare the outputs with twice the targets."""
    LOG.append({"call": "loss_fn", **autocast()})
    return F.mse_loss(outputs, 2 * targets)


def autocast() -> dict[str, Any]:
    """Whether autocast is on, and its dtype."""
    dtype = str(torch.get_autocast_dtype("cpu"))
    return {"autocast": torch.is_autocast_enabled("cpu"), "to": dtype}


def sgd_of(model: Network) -> torch.optim.SGD:
    """SGD with momentum and two parameter groups."""
    groups = [{"params": model.body.parameters()}, {"params": model.head.parameters()}]
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9)


def trained(
    module: Any,
    weights: Tensor,
    batches: list[Any],
    scaler_options: dict[str, float] | None,
    max_norm: float | None = None,
) -> dict[str, list[Any]]:
    """The losses, scales and weights of several steps."""
    model = Network(weights)
    sgd = sgd_of(model)
    scaler = None
    if scaler_options is not None:
        scaler = module.GradScaler(**scaler_options)
    report: dict[str, list[Any]] = {"losses": [], "scales": [], "weights": []}
    for inputs, targets in batches:
        loss = module.train_step(model, loss_fn, sgd, inputs, targets, scaler, max_norm)
        report["losses"].append(loss)
        report["weights"].append(vector(model.parameters()))
        if scaler is not None:
            report["scales"].append(float(scaler.get_scale()))
    return report


def logged(module: Any, weights: Tensor, batch: list[Tensor]) -> dict[str, Any]:
    """The calls of the model and of loss_fn in a step, and the state after it."""
    model = Network(weights).eval()
    sgd = sgd_of(model)
    scaler = module.GradScaler()
    state = torch.get_rng_state()
    LOG.clear()
    module.train_step(model, loss_fn, sgd, *batch, scaler)
    parameters = list(model.parameters())
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    left = {
        "autocast": torch.is_autocast_enabled("cpu"),
        "training": model.training,
        "dtypes of parameters and gradients": sorted(
            {str(tensor.dtype) for tensor in (*parameters, *gradients)}
        ),
        "random state as before": torch.equal(state, torch.get_rng_state()),
    }
    return {"calls": LOG, "left": left}
