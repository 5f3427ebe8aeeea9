"""Models that report how they are run, and what passes over loaders give."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

# Of the module, not of an object: copies of a model write into it as well.
LOG: list[dict[str, Any]] = []
LOSS_MODES: list[bool] = []  # whether gradients are enabled in each call of loss_fn


class Network(nn.Module):
    """(n, 3) to (n, 4); it reports each call, draws a number in it, and its hook doubles the output."""

    def __init__(self, weights: Tensor, norm: bool) -> None:
        super().__init__()
        last = nn.BatchNorm1d(4) if norm else nn.Identity()
        self.body = nn.Sequential(nn.Linear(3, 4), last)
        self.double()
        nn.utils.vector_to_parameters(weights[:16].clone(), self.body[0].parameters())
        self.register_forward_hook(lambda _, __, output: 2 * output)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.body(x).tanh()
        call = {
            "inputs": x.detach().clone(),
            "logits": 2 * logits.detach().clone(),
            "modes": [part.training for part in self.modules()],
            "grad": torch.is_grad_enabled(),
            "draw": torch.rand(3).tolist(),
        }
        LOG.append(call)
        return logits


class Batches(list[Any]):
    """A loader with a length and a dataset."""

    def __init__(self, batches: list[Any]) -> None:
        super().__init__(batches)
        self.dataset = torch.cat([inputs for inputs, _ in batches])


def items(numbers: list[int], first: int) -> list[tuple[Tensor, int]]:
    """(number / 1024, sine, cosine) and a label of two, sorted; with 2 and 3, the validation's loss rises."""
    values = torch.tensor(numbers).double()
    rows = torch.stack([values / 1024, values.sin(), values.cos()], dim=1)
    labels = [first + 2 * i // len(numbers) for i in range(len(numbers))]
    return list(zip(rows, labels, strict=True))


def numbers_of(features: Tensor) -> list[int]:
    return [round(1024 * value) for value in features[:, 0].tolist()]


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    LOSS_MODES.append(torch.is_grad_enabled())
    return nn.functional.cross_entropy(outputs, targets)


def network(weights: Tensor, training: Any, norm: bool = False) -> Network:
    made = Network(weights, norm)
    for name, part in made.named_modules():
        part.training = name in training
    LOG.clear()
    LOSS_MODES.clear()
    return made


def weights_of(model: nn.Module) -> Tensor:
    """All parameters in a row."""
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def trained(module: Any, weights: Tensor, batches: list[Any], training: Any) -> dict[str, Any]:
    """What a call of train_epoch with SGD gives and leaves."""
    model = network(weights, training, norm=len(weights) > 16)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    value = module.train_epoch(model, Batches(batches), loss_fn, sgd)
    return {"value": value, "log": list(LOG), "weights": weights_of(model)}


def evaluated(
    module: Any, weights: Tensor, batches: list[Any], training: Any, norm: bool
) -> dict[str, Any]:
    """What a call of evaluate gives and leaves; the running statistics are not those of a new model."""
    model = network(weights, training, norm)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    for buffer in model.buffers():
        buffer += 2
    before = state(model)
    value = module.evaluate(model, Batches(batches), loss_fn)
    enabled = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    return {
        "value": tuple(value) if isinstance(value, tuple) else value,  # a named tuple will do
        "log": list(LOG),
        "grads": {"model": [call["grad"] for call in LOG], "loss_fn": list(LOSS_MODES)},
        "enabled": enabled,
        "before": before,
        "after": state(model),
    }


def state(model: nn.Module) -> dict[str, Any]:
    """Copies of all parameters, buffers and gradients, and what requires a gradient."""
    values = dict(model.state_dict())
    for name, parameter in model.named_parameters():
        values[f"{name} (gradient)"] = parameter.grad
        values[f"{name} (requires_grad)"] = parameter.requires_grad
    return copy.deepcopy(values)


def passes(module: Any, numbers: list[list[int]], plan: str, **options: int) -> dict[str, Any]:
    """The batches of passes over new loaders, "t" for training, and lengths; make_loaders seeds nothing."""
    datasets = items(numbers[0], 0), items(numbers[1], 2)
    noise = torch.get_rng_state()
    training, validation = module.make_loaders(*datasets, **options)
    torch.set_rng_state(noise)
    loaders = {"t": training, "v": validation}
    if any(getattr(loader, "num_workers", 0) for loader in loaders.values()):
        return {"workers": True}
    batches: list[Any] = []
    for step in plan:
        torch.rand(len(batches) + 1)  # what others draw in between
        batches.append([(numbers_of(x), y.tolist()) for x, y in loaders[step]])
    return {"batches": batches, "lengths": [len(loaders[step]) for step in plan]}


def optimized(module: Any, names: list[str], frozen: list[str]) -> dict[str, Any]:
    """The rates of make_optimizer, and the parts of a model whose parameters it trains."""
    first, second, third, own = names
    model = nn.Sequential()
    model.add_module(first, nn.Linear(3, 4))
    model.add_module(second, nn.BatchNorm1d(4))
    model.add_module(third, nn.Sequential(nn.Linear(4, 2)))
    model.register_parameter(own, nn.Parameter(torch.ones(1)))  # of the model itself
    parameters = dict(model.named_parameters())
    for name, parameter in parameters.items():
        parameter.requires_grad_(name.partition(".")[0] not in frozen)
    before = [parameter.requires_grad for parameter in parameters.values()]
    optimizer = module.make_optimizer(model)
    trained = [id(p) for group in optimizer.param_groups for p in group["params"]]
    lacking = set()
    for name, parameter in parameters.items():
        if id(parameter) not in trained:
            lacking.add(name.partition(".")[0])
    after = [parameter.requires_grad for parameter in parameters.values()]
    return {
        "of torch.optim": isinstance(optimizer, torch.optim.Optimizer),
        "rates": [float(group["lr"]) for group in optimizer.param_groups],
        "held": [name for name in names if name not in lacking],
        "same": after == before,
    }


def fitted(
    module: Any, weights: Tensor, samples: list[list[int]], noise: int, **more: Any
) -> dict[str, Any]:
    """What a call of fit gives; the model's calls, with the student's own loss; two passes of a loader."""
    torch.manual_seed(noise)
    model = network(weights, ("",))
    datasets = items(samples[0], 0), items(samples[1], 2)
    history = module.fit(model, *datasets, **more)
    log = list(LOG)
    moved = not torch.equal(weights_of(model), weights)
    label_of = {}
    for numbers, data in zip(samples, datasets, strict=True):
        for number, (_, label) in zip(numbers, data, strict=True):
            label_of[number] = label
    for call in log:
        numbers = numbers_of(call.pop("inputs"))
        logits = call.pop("logits")
        labels = torch.tensor([label_of[number] for number in numbers])
        call["numbers"] = numbers
        call["validating"] = numbers[0] >= 1000
        call["loss"] = module.classification_loss(logits, labels).item()
        call["predicted"] = logits.argmax(1).tolist()
    loader = module.make_loaders(*datasets, 4)[0]
    return {
        "history": history,
        "log": log,
        "orders": [[x[:, 0].tolist() for x, _ in loader] for _ in range(2)],
        "moved": moved,
    }
