"""Models that report how they are run, and what the six functions make of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

# Of the module, not of an object: copies of a model write into it as well.
LOG: list[dict[str, Any]] = []
LOSS_MODES: list[bool] = []  # whether gradients are enabled in each call of loss_fn


class Network(nn.Module):
    """(n, 3) to (n, 4); it reports each call, draws numbers in it, and its hook doubles the output."""

    def __init__(self, weights: Tensor, norm: bool) -> None:
        super().__init__()
        normalization = nn.BatchNorm1d(4) if norm else nn.Identity()
        self.body = nn.Sequential(nn.Linear(3, 4), normalization)
        self.double()
        nn.utils.vector_to_parameters(weights.clone(), self.body[0].parameters())
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


def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
    LOSS_MODES.append(torch.is_grad_enabled())
    return nn.functional.cross_entropy(outputs, targets)


def network(module: Any, weights: Tensor, training: list[str], norm: bool = False) -> Network:
    """A model of which the submodules in `training` are in training mode; the logs begin anew."""
    model = Network(weights, norm)
    for name, part in model.named_modules():
        part.training = name in training
    LOG.clear()
    LOSS_MODES.clear()
    return model


def used_network(module: Any, weights: Tensor, training: list[str]) -> Network:
    """A model with batch norm that has gradients, and 2 is added to its running statistics."""
    model = network(module, weights, training, norm=True)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    for buffer in model.buffers():
        buffer += 2
    return model


def weights_of(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def dataset(numbers: list[int]) -> list[tuple[Tensor, int]]:
    """Features (number / 1024, sine, cosine) and labels, which are 0 and 1, for validation 2 and 3."""
    values = torch.tensor(numbers).double()
    features = torch.stack([values / 1024, values.sin(), values.cos()], dim=1)
    return list(zip(features, map(label_of, numbers), strict=True))


def label_of(number: int) -> int:
    return number % 2 + 2 * (number >= 1000)


def loader(module: Any, train: list[int], validation: list[int], place: int, *options: int) -> Any:
    """The loader at this place in what make_loaders returns, which leaves the random state alone."""
    before = torch.get_rng_state()
    loaders = module.make_loaders(dataset(train), dataset(validation), *options)
    torch.set_rng_state(before)
    len(loaders[place])  # raises where a loader has no length
    return loaders[place]


def optimized(module: Any, names: list[str], frozen: list[str]) -> dict[str, Any]:
    """Of each part of a model its parameters: their learning rates, and whether they require a gradient."""
    first, second, third, own = names
    model = nn.Sequential()
    model.add_module(first, nn.Linear(3, 4))
    model.add_module(second, nn.BatchNorm1d(4))
    model.add_module(third, nn.Sequential(nn.Linear(4, 2)))
    model.register_parameter(own, nn.Parameter(torch.ones(1)))  # of the model itself
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.partition(".")[0] not in frozen)
    optimizer = module.make_optimizer(model)
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    parts: dict[str, Any] = {name: [] for name in names}
    for name, parameter in model.named_parameters():
        report = {"rate": rates.get(id(parameter)), "requires_grad": parameter.requires_grad}
        parts[name.partition(".")[0]].append(report)
    return {"parts": parts, "of torch.optim": issubclass(type(optimizer), torch.optim.Optimizer)}


def trained(
    module: Any, weights: Tensor, batches: list[Any], training: list[str], norm: bool = False
) -> dict[str, Any]:
    """What a call of train_epoch with SGD gives and leaves."""
    model = network(module, weights, training, norm)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    value = module.train_epoch(model, Batches(batches), loss_fn, sgd)
    return {"value": value, "log": list(LOG), "weights": weights_of(model)}


def evaluated(module: Any, model: nn.Module, batches: list[Any]) -> dict[str, Any]:
    """What a call of evaluate gives, and how it runs the model and the loss."""
    value = module.evaluate(model, Batches(batches), loss_fn)
    value = tuple(value) if isinstance(value, tuple) else value  # a named tuple will do
    return {"value": value, "log": list(LOG), "loss modes": list(LOSS_MODES)}


def fitted(
    module: Any, weights: Tensor, train: list[int], validation: list[int], **options: int
) -> dict[str, Any]:
    """What a call of fit gives and leaves; of each call of the model the student's own loss."""
    model = network(module, weights, [""])
    history = module.fit(model, dataset(train), dataset(validation), **options)
    calls = list(LOG)
    for call in calls:
        call["numbers"] = [round(1024 * value) for value in call["inputs"][:, 0].tolist()]
        targets = torch.tensor([label_of(number) for number in call["numbers"]])
        call["loss"] = module.classification_loss(call["logits"], targets).item()
    return {"history": history, "log": calls, "weights": weights_of(model)}
