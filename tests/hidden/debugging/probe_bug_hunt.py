"""Models that report how they are run, and reports of the six functions."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import torch
from torch import Tensor, nn

# The numbers of validation samples begin here; those of training samples are smaller.
VALIDATION = 1000
# The calls of all models. It belongs to the module, not to a model, so that copies write into it, too.
LOG: list[dict[str, Any]] = []
LOSS_MODES: list[bool] = []  # whether gradients are enabled in each call of loss_fn


class Network(nn.Module):
    """Map (n, 3) to (n, 4). Each call is reported and draws random numbers, and a hook doubles the output."""

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
            "numbers": [round(1024 * value) for value in x[:, 0].tolist()],
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
    """Make a model with the submodules in `training` in training mode, and clear the logs."""
    model = Network(weights, norm)
    for name, part in model.named_modules():
        part.training = name in training
    LOG.clear()
    LOSS_MODES.clear()
    return model


def used_network(module: Any, weights: Tensor, training: list[str]) -> Network:
    """Make a model with batch norm, old gradients, and running statistics that differ from the initial ones."""
    model = network(module, weights, training, norm=True)
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 7.0)
    for buffer in model.buffers():
        buffer += 2
    return model


def weights_of(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def dataset(numbers: list[int]) -> list[tuple[Tensor, int]]:
    """Make samples of features (number / 1024, sine, cosine) and a label: 0 or 1, for validation 2 or 3."""
    values = torch.tensor(numbers).double()
    features = torch.stack([values / 1024, values.sin(), values.cos()], dim=1)
    return list(zip(features, map(label_of, numbers), strict=True))


def label_of(number: int) -> int:
    return number % 2 + 2 * (number >= VALIDATION)


def loader(module: Any, train: list[int], validation: list[int], place: int, *options: int) -> Any:
    """Return the loader at this place in the result of make_loaders. Put the random state back."""
    before = torch.get_rng_state()
    loaders = module.make_loaders(dataset(train), dataset(validation), *options)
    torch.set_rng_state(before)
    len(loaders[place])  # raises where a loader has no length
    return loaders[place]


def optimized(module: Any, frozen: list[int]) -> dict[str, Any]:
    """Return the trainable parameters, those that the optimizer leaves out, and the learning rates."""
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Linear(4, 2)))
    model.register_parameter("own", nn.Parameter(torch.ones(1)))  # of the model itself
    for number in frozen:
        model[number].requires_grad_(False)
    optimizer = module.make_optimizer(model)
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    trainable = {name: p for name, p in model.named_parameters() if p.requires_grad}
    return {
        "of torch.optim": issubclass(type(optimizer), torch.optim.Optimizer),
        "trainable": list(trainable),
        "left out": [name for name, p in trainable.items() if id(p) not in held],
        "rates": [float(group["lr"]) for group in optimizer.param_groups],
    }


def trained(
    module: Any, weights: Tensor, batches: list[Any], training: list[str], norm: bool = False
) -> dict[str, Any]:
    """Call train_epoch with SGD. Return its result, the weights afterwards, and how the model ran."""
    model = network(module, weights, training, norm)
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    value = module.train_epoch(model, Batches(batches), loss_fn, sgd)
    return {
        "loss": value,
        "weights": weights_of(model),
        "modes": [call["modes"] for call in LOG],
        "first logits": LOG[0]["logits"],
    }


def evaluated(module: Any, model: nn.Module, batches: list[Any]) -> dict[str, Any]:
    """Call evaluate. Return its results, and how it ran the model and the loss."""
    loss, accuracy = module.evaluate(model, Batches(batches), loss_fn)
    return {
        "loss": loss,
        "accuracy": accuracy,
        "modes": [call["modes"] for call in LOG],
        "logits": [call["logits"] for call in LOG],
        "graph of the model": any(call["grad"] for call in LOG) or not LOG,
        "graph of the loss": any(LOSS_MODES) or not LOSS_MODES,
    }


def fitted(
    module: Any, weights: Tensor, train: list[int], validation: list[int], **options: int
) -> dict[str, Any]:
    """Call fit. Return its history, and how it ran the model in each epoch."""
    model = network(module, weights, [""])
    history = module.fit(model, dataset(train), dataset(validation), **options)
    turns = [
        (name, list(calls))
        for name, calls in itertools.groupby(LOG, lambda call: call["numbers"][0] >= VALIDATION)
    ]
    draws = [draw for is_validation, calls in turns if not is_validation for draw in drawn(calls)]
    return {
        "history": history,
        "trained": not torch.equal(weights_of(model), weights),
        "turns": ["validation" if is_validation else "training" for is_validation, _ in turns],
        "sizes": [[len(c["numbers"]) for c in calls] for is_val, calls in turns if not is_val],
        "orders": [numbers_of(calls) for is_val, calls in turns if not is_val],
        "evaluated": [numbers_of(calls) for is_val, calls in turns if is_val],
        "drawn again": len(draws) - len(set(draws)),
        "kept": [kept(module, calls) for _, calls in turns],
    }


def numbers_of(calls: list[Any]) -> list[int]:
    return [number for call in calls for number in call["numbers"]]


def drawn(calls: list[Any]) -> list[Any]:
    """Return the numbers that a model draws, in pairs, since a single number may come again by chance."""
    return list(itertools.pairwise(number for call in calls for number in call["draw"]))


def kept(module: Any, calls: list[Any]) -> dict[str, float]:
    """Return what a history may have for these calls: mean losses over batches and samples, and accuracy."""
    labels = [torch.tensor([label_of(number) for number in call["numbers"]]) for call in calls]
    pairs = [(call["logits"], own) for call, own in zip(calls, labels, strict=True)]
    losses = [module.classification_loss(*pair).item() for pair in pairs]
    sizes = [len(own) for own in labels]
    hits = sum(int((logits.argmax(1) == own).sum()) for logits, own in pairs)
    return {
        "over batches": sum(losses) / len(losses),
        "over samples": sum(map(operator.mul, losses, sizes)) / sum(sizes),
        "accuracy": hits / sum(sizes),
    }
