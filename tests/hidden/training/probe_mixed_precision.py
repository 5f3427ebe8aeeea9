"""Run scripts on a scaler, and training steps of a model that logs its calls."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LOG: list[dict[str, Any]] = []
PYTORCHS_OWN = ("amp/grad_scaler.py", "fsdp/sharded_grad_scaler.py")


def scaled(module: Any, scale: float, x: Tensor) -> dict[str, Any]:
    """The scaled loss for the loss (x ** 2).sum(), and the gradient that comes of it."""
    loss = x.requires_grad_().square().sum()
    result = module.GradScaler(scale).scale(loss)
    graph = isinstance(result, Tensor) and result.requires_grad
    grad = torch.autograd.grad(result.sum(), x)[0] if graph else None
    value = result.detach() if isinstance(result, Tensor) else result
    return {"value": value, "grad": grad, "loss": loss.detach()}


def scripted(
    module: Any, values: list[Tensor], script: list[Any], *given: Any, scaled: bool = False,
    groups: bool = False,
) -> list[dict[str, Any]]:  # fmt: skip
    """How each call of a script on one scaler leaves everything; SGD with momentum.

    A call is the name of a method; a list of gradients is set, and "spoil" fills them with ones. Gradients
    are `scaled` as those of a scaled loss. With `groups` the first parameter is a group of its own.
    """
    scaler = module.GradScaler(*given)
    params = [nn.Parameter(value.clone()) for value in values]
    parts: Any = [{"params": params[:1]}, {"params": params[1:]}] if groups else params
    sgd = torch.optim.SGD(parts, lr=0.5, momentum=0.5)
    reports: list[dict[str, Any]] = []
    held: list[Any] = []
    for call in script:
        value, raised = None, False
        if isinstance(call, list):
            scale = number(scaler.get_scale()) if scaled else 1.0
            held = [None if gradient is None else gradient * scale for gradient in call]
            for parameter, gradient in zip(params, held, strict=True):
                parameter.grad = gradient
        elif call == "spoil":
            for parameter in params:
                if parameter.grad is not None:
                    parameter.grad.fill_(1.0)
        else:
            method = getattr(scaler, call.removeprefix("again "))
            try:
                value = method() if call in ("update", "get_scale") else method(sgd)
            except RuntimeError as error:
                # Everything but the error that is asked for is the student's to read.
                if not call.startswith("again ") or type(error) is not RuntimeError:
                    raise
                raised = True
        report = {"value": value, "raised": raised, "scale": number(scaler.get_scale())}
        # Of a set gradient and of update nothing but the scale is asked; tensors cost time.
        if isinstance(call, str) and call.endswith(("unscale_", "step")):
            report["same"] = all(p.grad is g for p, g in zip(params, held, strict=False))
            report["grads"] = [None if p.grad is None else p.grad.clone() for p in params]
            report["values"] = [p.detach().clone() for p in params]
        if call == "step":
            report["momenta"] = [m if m is None else m.clone() for m in momenta(sgd, params)]
        reports.append(report)
    return reports


def number(scale: Any) -> Any:
    """The scale as a number: what get_scale should return is judged by a test of its own."""
    return scale.item() if isinstance(scale, Tensor) and scale.numel() == 1 else scale


def two_scalers(module: Any, gradients: list[float], *scales: float) -> list[Any]:
    """The scales of two scalers, after an iteration of each, with these gradients."""
    scalers = [module.GradScaler(scale) for scale in scales]
    for scaler, gradient in zip(scalers, gradients, strict=True):
        parameter = nn.Parameter(torch.ones(1))
        parameter.grad = torch.full((1,), gradient)
        scaler.step(torch.optim.SGD([parameter], lr=0.5))
        scaler.update()
    return [number(scaler.get_scale()) for scaler in scalers]


def momenta(sgd: torch.optim.SGD, params: list[Any]) -> list[Any]:
    return [sgd.state.get(parameter, {}).get("momentum_buffer") for parameter in params]


def interval(module: Any) -> Any:
    """The default of growth_interval as it stands in the signature, if it does."""
    given = inspect.signature(module.GradScaler).parameters.get("growth_interval")
    return given.default if given is not None and type(given.default) is int else None


def foreign(module: Any) -> list[str]:
    """What of PyTorch's own scaler runs in an iteration."""
    ran: dict[str, None] = {}

    def profile(frame: Any, event: str, called: Any) -> None:
        if event == "call" and frame.f_code.co_filename.endswith(PYTORCHS_OWN):
            ran[f"PyTorch's {frame.f_code.co_qualname}"] = None
        elif event == "c_call" and str(getattr(called, "__name__", "")).startswith("_amp_"):
            ran[f"torch.{called.__name__}"] = None

    x = nn.Parameter(torch.ones(2))
    sgd = torch.optim.SGD([x], lr=0.5)
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        scaler = module.GradScaler()
        scaler.scale(x.sum()).backward()
        scaler.unscale_(sgd)
        scaler.step(sgd)
        scaler.update()
    finally:
        sys.setprofile(before)
    return list(ran)


class Network(nn.Module):
    """(n, 3) to (n, 2), in float32."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        LOG.append({"call": "model", **modes()})
        LOG[-1]["dtype"] = str(self.body.weight.dtype)
        output: Tensor = self.head(self.body(x).tanh())
        return output


def modes() -> dict[str, Any]:
    dtype = str(torch.get_autocast_dtype("cpu"))
    return {"autocast": torch.is_autocast_enabled("cpu"), "into": dtype}


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    LOG.append({"call": "loss_fn", **modes()})
    return F.mse_loss(outputs, targets[:, :2])


def trained(
    module: Any,
    weights: Tensor,
    batches: list[Any],
    scaling: dict[str, float] | None,
    max_norm: float | None = None,
    training: bool = True,
) -> list[dict[str, Any]]:
    """What each of several steps of one training returns and leaves."""
    model = Network().train(training)
    nn.utils.vector_to_parameters(weights.clone(), model.parameters())
    params = list(model.parameters())
    for parameter in params:
        parameter.grad = torch.full_like(parameter, 70.0)
    groups: list[dict[str, Any]] = [{"params": params[:1]}, {"params": params[1:]}]
    sgd = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    scaler, reports = None if scaling is None else module.GradScaler(**scaling), []
    for inputs, targets in batches:
        LOG.clear()
        state = torch.get_rng_state()
        value = module.train_step(model, loss, sgd, inputs, targets, scaler, max_norm)
        moved = [
            p * 0 if m is None else m for p, m in zip(params, momenta(sgd, params), strict=True)
        ]
        left = {
            "autocast": torch.is_autocast_enabled("cpu"),
            "training": model.training,
            "dtypes": sorted({str(t.dtype) for p in params for t in (p, p.grad) if t is not None}),
            "random state as before": torch.equal(state, torch.get_rng_state()),
        }
        scale = None if scaler is None else number(scaler.get_scale())
        report = {"value": value, "weights": vector(params), "momentum": vector(moved)}
        reports.append({**report, "scale": scale, "log": list(LOG), "left": left})
    return reports


def vector(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors])
