"""Exercise the gated linear unit and gradient_flow with live objects, and report what happened."""

from __future__ import annotations

import itertools
import random
import sys
from typing import Any

import torch
from torch import Tensor, nn

STALE = 7.0


class Network(nn.Module):
    """A module with every fate that a parameter can have: used, cut off by a detach, not used."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.body = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
        self.cut = nn.Linear(4, 3)
        self.unused = nn.Linear(3, 3)
        self.head = nn.Linear(3, 2)
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


def seed_kept(module: Any, in_features: int, out_features: int) -> bool:
    """Whether the seed of the global random state is the same after a layer was made."""
    before = torch.initial_seed()
    module.GatedLinearUnit(in_features, out_features)
    return torch.initial_seed() == before


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


def forward_changes(module: Any, inputs: list[Tensor], out_features: int) -> list[str]:
    """What one call of forward with each input leaves changed, in one mode and the other."""
    changed = []
    for x, training in zip(inputs, itertools.cycle((True, False))):
        layer = module.GatedLinearUnit(x.shape[-1], out_features).train(training)
        for parameter in layer.parameters():
            parameter.grad = torch.full_like(parameter, STALE)
        before, given, randomness = _facts(layer), x.clone(), _randomness()
        try:
            layer(given)
        except Exception:
            if x.dim() == 2:
                raise
            continue  # which shapes forward takes is not the question here
        after = _facts(layer)
        changed += [fact for fact in before if not _same(before[fact], after.get(fact))]
        if given.shape != x.shape:
            changed.append("the shape of x")
        elif not torch.equal(given, x):
            changed.append("the values of x")
        if given.requires_grad:
            changed.append("x.requires_grad")
        changed += [f"{name}'s random state" for name in _differing(randomness, _randomness())]
    return list(dict.fromkeys(changed))


def flow(
    module: Any,
    state: dict[str, Tensor],
    x: Tensor,
    *,
    frozen: list[str] | None = None,
    stale: list[str] | None = None,
    evaluating: list[str] | None = None,
) -> dict[str, Any]:
    """What gradient_flow answers for a Network, and how it leaves the network.

    Parameters in `frozen` do not require a gradient, those in `stale` hold an old one, the
    submodules in `evaluating` (by name, "" is the network itself) are in evaluation mode.
    """
    network = _network(state, x.dtype)
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in (frozen or []))
        if name in (stale or []):
            parameter.grad = torch.full_like(parameter, STALE)
    for name, submodule in network.named_modules():
        submodule.training = name not in (evaluating or [])
    randomness = _randomness()
    answer = module.gradient_flow(network, x.clone())
    parameters = dict(network.named_parameters())
    return {
        "answer": answer,
        "gradients": {name: each.grad for name, each in parameters.items()},
        "values": {name: each.detach() for name, each in network.state_dict().items()},
        "requires_grad": {name: each.requires_grad for name, each in parameters.items()},
        "training": {name: each.training for name, each in network.named_modules()},
        "randomness": _differing(randomness, _randomness()),
    }


def flow_frozen(module: Any, state: dict[str, Tensor], x: Tensor) -> Any:
    """What gradient_flow answers where nothing can learn, or the error that it raises, as text."""
    network = _network(state, x.dtype).requires_grad_(False)
    try:
        return module.gradient_flow(network, x)
    except NotImplementedError:
        raise
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__} ({error})"


def flow_inputs(module: Any, state: dict[str, Tensor], x: Tensor) -> dict[str, Any]:
    """How gradient_flow leaves its input: a plain tensor, a leaf with a gradient, a result."""
    plain = x.clone()
    module.gradient_flow(_network(state, x.dtype), plain)
    leaf = x.clone().requires_grad_()
    leaf.grad = torch.full_like(leaf, STALE)
    module.gradient_flow(_network(state, x.dtype), leaf)
    source = x.clone().requires_grad_()
    result = source * 1.0
    module.gradient_flow(_network(state, x.dtype), result)
    return {
        "values": [plain, leaf.detach(), source.detach(), result.detach()],
        "plain_gradient": plain.grad,
        "leaf_gradient": leaf.grad,
        "source_gradient": source.grad,
        "requires_grad": [each.requires_grad for each in (plain, leaf, source, result)],
    }


def _network(state: dict[str, Tensor], dtype: torch.dtype) -> Network:
    network = Network().to(dtype)
    network.load_state_dict(state)
    return network


def _facts(layer: nn.Module) -> dict[str, Any]:
    facts: dict[str, Any] = {"the layer's training mode": layer.training}
    for name, parameter in layer.named_parameters():
        facts[f"the values of {name}"] = parameter.detach().clone()
        facts[f"{name}.requires_grad"] = parameter.requires_grad
        facts[f"{name}.grad"] = None if parameter.grad is None else parameter.grad.clone()
    return facts


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, Tensor):
        # NaN in a weight that was never filled differs from itself, but has not changed.
        return isinstance(after, Tensor) and torch.allclose(
            before, after, rtol=0.0, atol=0.0, equal_nan=True
        )
    return bool(before == after)


def _randomness() -> dict[str, Any]:
    states: dict[str, Any] = {"torch": torch.get_rng_state(), "Python": random.getstate()}
    if (numpy := sys.modules.get("numpy")) is not None:
        states["NumPy"] = [str(part) for part in numpy.random.get_state()]
    return states


def _differing(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in before if not _same(before[name], after.get(name))]
