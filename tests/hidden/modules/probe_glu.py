"""Exercise the gated linear unit and gradient_flow with live objects, and report what happened."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

STALE = 7.0


class Linear(nn.Linear):
    """One that nobody fills with random numbers, since its values come from the judge."""

    def reset_parameters(self) -> None:
        """Leave whatever is in memory."""


class Network(nn.Module):
    """A module with every fate that a parameter can have: used, cut off by a detach, not used."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.body = nn.Sequential(Linear(4, 3), nn.Tanh())
        self.cut = Linear(4, 3)
        self.unused = Linear(3, 3)
        self.head = Linear(3, 2)
        self.register_buffer("offset", torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.body(x) + self.cut(x).detach()
        output: Tensor = self.head(hidden) * self.scale + self.offset
        return output


def fresh(module: Any, in_features: int, out_features: int | None) -> dict[str, Tensor]:
    """The parameters of a new layer, in memory that holds NaN wherever nobody has written."""
    torch.set_deterministic_debug_mode("warn")  # makes torch.empty and its kin fill with NaN
    try:
        layer = module.GatedLinearUnit(in_features, out_features)
    finally:
        torch.set_deterministic_debug_mode("default")
    return {name: each.detach() for name, each in layer.state_dict().items()}


def start(module: Any, seed: int, in_features: int, out_features: int) -> dict[str, Any]:
    """The seed of torch's random state after a layer was made, and what it draws next."""
    _seed(seed)
    module.GatedLinearUnit(in_features, out_features)
    return {"seed": torch.default_generator.initial_seed(), "draws": _draws()}


def state_names(module: Any, in_features: int, out_features: int) -> list[str]:
    """The keys of a layer's state_dict."""
    return list(module.GatedLinearUnit(in_features, out_features).state_dict())


def layouts(module: Any, x: Tensor, out_features: int) -> dict[str, list[Tensor | None]]:
    """Outputs and gradients for `x` of shape (a, b, in_features), each layout beside a plain copy.

    What comes first is made from the strided tensor, what comes second from its contiguous copy.
    """
    layer = module.GatedLinearUnit(x.shape[-1], out_features)
    strided = {
        "transposed": x.transpose(0, 1),
        "stored feature by feature": x.permute(2, 0, 1).contiguous().permute(1, 2, 0),
        "sliced": torch.cat([x, x], dim=-1)[..., ::2],
        "expanded": x[:, :1].expand_as(x),
    }
    results: dict[str, list[Tensor | None]] = {}
    for layout, tensor in strided.items():
        results[layout] = []
        for each in (tensor.detach(), tensor.detach().clone(memory_format=torch.contiguous_format)):
            output = layer(each.requires_grad_())
            if output.requires_grad:
                output.sum().backward()
            results[layout] += [output.detach(), each.grad]
    return results


def forward_leaves(
    module: Any, inputs: list[Tensor], values: dict[str, Tensor], out_features: int, seed: int
) -> list[dict[str, Any] | None]:
    """What there is after one call of forward with each input, in one mode and the other.

    Beforehand the parameters hold `values` and old gradients, and the random states are seeded. None
    where forward does not take an input of more or fewer dimensions than two.
    """
    reports: list[dict[str, Any] | None] = []
    for x, training in zip(inputs, itertools.cycle((True, False))):
        layer = module.GatedLinearUnit(x.shape[-1], out_features).train(training)
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_()
            if name in values:
                parameter.data.copy_(values[name])
            parameter.grad = torch.full_like(parameter, STALE)
        given = x.clone()
        _seed(seed)
        try:
            layer(given)
        except Exception:
            if x.dim() == 2:
                raise
            reports.append(None)  # which shapes forward takes is not the question here
            continue
        parameters = dict(layer.named_parameters())
        reports.append(
            {
                "draws": _draws(),
                "training": layer.training,
                "x": given.detach(),
                "x.requires_grad": given.requires_grad,
                "values": {name: each.detach() for name, each in parameters.items()},
                "requires_grad": {name: each.requires_grad for name, each in parameters.items()},
                "gradients": {name: each.grad for name, each in parameters.items()},
            }
        )
    return reports


def flow(
    module: Any,
    state: Tensor,
    x: Tensor,
    *,
    parts: list[str],
    frozen: list[str] | None = None,
    stale: list[str] | None = None,
    evaluating: list[str] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """What gradient_flow answers for a Network, and the wanted `parts` of how it leaves the network.

    Parameters in `frozen` do not require a gradient, those in `stale` hold an old one, the
    submodules in `evaluating` (by name, "" is the network itself) are in evaluation mode. The random
    states are seeded with `seed`.
    """
    network = _network(state)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in (frozen or []))
        if name in (stale or []):
            parameter.grad = torch.full_like(parameter, STALE)
    for name, submodule in network.named_modules():
        submodule.training = name not in (evaluating or [])
    _seed(seed)
    answer = module.gradient_flow(network, x.clone())
    parameters = dict(network.named_parameters())
    report: dict[str, Callable[[], Any]] = {
        "gradients": lambda: {name: each.grad for name, each in parameters.items()},
        "values": lambda: {name: each.detach() for name, each in network.state_dict().items()},
        "requires_grad": lambda: {name: each.requires_grad for name, each in parameters.items()},
        "training": lambda: {name: each.training for name, each in network.named_modules()},
        "draws": _draws,
    }
    return {"answer": answer, **{part: report[part]() for part in parts}}


def flow_frozen(module: Any, state: Tensor, x: Tensor) -> Any:
    """What gradient_flow answers where nothing can learn, or the error that it raises, as text."""
    network = _network(state).requires_grad_(False)
    try:
        return module.gradient_flow(network, x)
    except NotImplementedError:
        raise
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__} ({error})"


def flow_inputs(module: Any, state: Tensor, x: Tensor) -> dict[str, Any]:
    """How gradient_flow leaves its input: a plain tensor, a leaf with a gradient, a result."""
    plain = x.clone()
    module.gradient_flow(_network(state), plain)
    leaf = x.clone().requires_grad_()
    leaf.grad = torch.full_like(leaf, STALE)
    module.gradient_flow(_network(state), leaf)
    source = x.clone().requires_grad_()
    result = source * 1.0
    module.gradient_flow(_network(state), result)
    return {
        "values": [plain, leaf.detach(), source.detach(), result.detach()],
        "plain_gradient": plain.grad,
        "leaf_gradient": leaf.grad,
        "source_gradient": source.grad,
        "requires_grad": [each.requires_grad for each in (plain, leaf, source, result)],
    }


def _network(state: Tensor) -> Network:
    """A Network with these values, one after the other in the order of their names."""
    network = Network()
    if state.dtype is not torch.float32:
        network.to(state.dtype)
    for _, each in sorted(network.state_dict().items()):
        each.copy_(state[: each.numel()].view(each.shape))
        state = state[each.numel() :]
    return network


def _seed(seed: int) -> None:
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)


def _draws() -> dict[str, list[float]]:
    """The next numbers of every global random state: the judge knows those that follow a seed."""
    return {
        "torch": torch.rand(2, dtype=torch.float64).tolist(),
        "Python": [random.random()],
        "NumPy": [np.random.random_sample()],
    }
