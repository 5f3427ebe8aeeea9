"""Exercise the learning-rate finder with live objects, and report what happened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Iterator

Batch = tuple[Tensor, Tensor]


# --- loaders -------------------------------------------------------------------------------------


class Passes:
    """A loader whose k-th pass yields the k-th list of batches, and the last list from then on."""

    def __init__(self, passes: list[list[Batch]]) -> None:
        self.passes = passes
        self.begun = 0

    def __len__(self) -> int:
        return len(self.passes[0])

    def __iter__(self) -> Iterator[Batch]:
        batches = self.passes[min(self.begun, len(self.passes) - 1)]
        self.begun += 1
        return iter(batches)


class EndlessError(Exception):
    """What ends a test that begins a loader anew again and again."""


class Empty(Passes):
    """A loader that yields nothing and is patient for a while."""

    def __init__(self) -> None:
        super().__init__([[]])

    def __iter__(self) -> Iterator[Batch]:
        if self.begun == 50:
            raise EndlessError("it begins a loader that yields nothing anew for ever")
        return super().__iter__()


def scripted(losses: list[float]) -> list[Batch]:
    """Batches for the loss `script` below: all with the same inputs, the targets say what it is."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.rand(4, 2, dtype=torch.float64, generator=generator)
    return [(inputs.clone(), torch.full((4, 1), loss, dtype=torch.float64)) for loss in losses]


def script(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss with the value that the targets say, and with a gradient all the same."""
    return targets.mean() + (outputs - outputs.detach()).mean()


# --- models --------------------------------------------------------------------------------------


class Line(nn.Module):
    """Linear regression: the weights and the bias are for groups of their own."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight.clone())
        self.bias = nn.Parameter(bias.clone())

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight + self.bias


class Gauge(nn.Module):
    """Adds `reading` in train mode, nothing in eval mode, and then what the one inside adds."""

    def __init__(self, reading: float, inside: nn.Module) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.reading = reading
        self.inside = inside

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inside(x + 0 * self.weight + self.reading * float(self.training))
        return y


class Counter(nn.Module):
    """Counts its calls in train mode in a buffer that the state dict does not hold."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(2), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.add_(1.0)
        return x


class Network(nn.Module):
    """Layers within layers, with every sort of parameter and buffer."""

    def __init__(self) -> None:
        super().__init__()
        inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), Counter())
        self.body = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), inner)
        self.head = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.body(x))
        return y


# --- what a range test returned ------------------------------------------------------------------


def report(result: Any) -> dict[str, Any]:
    """The two parts of a result by name, or by place where it has two and no names."""
    names = ("learning_rates", "losses")
    named = all(hasattr(result, name) for name in names)
    parts = [None, None]
    if named:
        parts = [getattr(result, name) for name in names]
    elif isinstance(result, (tuple, list)) and len(result) == 2:
        parts = list(result)
    return {
        "type": None if result is None else type(result).__name__,
        "named": named,
        "learning_rates": parts[0],
        "losses": parts[1],
        "requires_grad": [isinstance(part, Tensor) and part.requires_grad for part in parts],
    }


# --- lr_range_test: probes -----------------------------------------------------------------------


def run_scripts(module: Any, cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run a range test over the losses of each case: `passes`, and `options` for the test."""
    return [run_script(module, **case) for case in cases]


def run_script(module: Any, passes: list[list[float]], options: dict[str, Any]) -> dict[str, Any]:
    """Run a range test, and report also which arguments of its first loss required a gradient."""
    model = Line(torch.zeros(2, 1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = Passes([scripted(losses) for losses in passes])
    arguments: list[list[bool]] = []

    def loss_fn(outputs: Tensor, targets: Tensor) -> Tensor:
        arguments.append([outputs.requires_grad, targets.requires_grad])
        return script(outputs, targets)

    result = module.lr_range_test(model, optimizer, loss_fn, loader, **options)
    return {**report(result), "loss_arguments": (arguments or [[]])[0]}


def run_regression(
    module: Any,
    data: dict[str, Tensor],
    groups: list[dict[str, Any]],
    options: dict[str, Any],
    stale: float | None = None,
) -> dict[str, Any]:
    """Run a range test of a linear regression that sees the same batch at every step.

    Each of the `groups` names its parameters and has its own options of SGD. `stale` is what the
    gradients hold beforehand.
    """
    model = Line(data["weight"], data["bias"])
    if stale is not None:
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, stale)
    named = dict(model.named_parameters())
    optimizer = torch.optim.SGD(
        [{**group, "params": [named[name] for name in group["params"]]} for group in groups],
        lr=0.03,
    )
    loader = Passes([[(data["inputs"], data["targets"])] * 10])
    loss_fn = nn.functional.mse_loss
    return report(module.lr_range_test(model, optimizer, loss_fn, loader, **options))


def run_gauges(module: Any, readings: list[float], training: bool) -> dict[str, Any]:
    """Run a range test whose losses are 100 plus the readings of all submodules in train mode."""
    model: nn.Module = nn.Identity()
    for reading in reversed(readings):
        model = Gauge(reading, model)
    model.train(training)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    zeros = torch.zeros(2, 1, dtype=torch.float64)
    loader = Passes([[(zeros, zeros + 100.0)] * 3])
    return report(
        module.lr_range_test(
            model, optimizer, lambda x, y: (x + y).mean(), loader, lr_min=0.01, lr_max=0.1, steps=3
        )
    )


def run_empty(module: Any) -> None:
    """Run a range test over a loader that yields nothing."""
    model = Line(torch.zeros(2, 1), torch.zeros(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    module.lr_range_test(model, optimizer, script, Empty(), 0.01, 1.0, 5)


def network(module: Any, modes: dict[str, bool]) -> Network:
    """A network of random numbers with one frozen parameter, whose modules are in these modes."""
    made = Network()
    with torch.no_grad():
        for tensor in [*made.parameters(), *made.buffers()]:
            tensor.copy_(torch.randint(3, 9, tensor.shape) + torch.rand(tensor.shape))
    made.get_parameter("body.0.bias").requires_grad_(False)
    for name, part in made.named_modules():
        part.training = modes.get(name, True)
    return made


def stepper(module: Any, model: Network, kind: str, used: list[str]) -> torch.optim.Optimizer:
    """An optimizer of two groups, the network's body and head, with Adam's state for those `used`."""
    rates = {"lr": 0.25, "weight_decay": 0.125}, {"lr": 0.0625, "weight_decay": 0.0}
    own: dict[str, Any] = {"momentum": 0.875} if kind == "SGD" else {}
    made: torch.optim.Optimizer = getattr(torch.optim, kind)(
        [{**rates[0], **own, "params": model.body.parameters()},
         {**rates[1], **own, "params": model.head.parameters()}], lr=0.1,
    )  # fmt: skip
    state = {
        number: {
            "step": torch.tensor(5.0),
            "exp_avg": torch.randn(parameter.shape),
            "exp_avg_sq": torch.rand(parameter.shape),
        }
        for number, (name, parameter) in enumerate(model.named_parameters())
        if name in used
    }
    made.load_state_dict({**made.state_dict(), "state": state})
    return made


def range_test(
    module: Any, model: nn.Module, optimizer: torch.optim.Optimizer, losses: list[float]
) -> dict[str, Any]:
    """Run a range test that records these losses.

    Reported are also the outputs that each loss was computed from, and the optimizer's groups and the
    parameters that it has state for.
    """
    outputs: list[Tensor] = []

    def loss_fn(predictions: Tensor, targets: Tensor) -> Tensor:
        outputs.append(predictions.detach().clone())
        return script(predictions, targets)

    loader = Passes([[(x.float(), y.float()) for x, y in scripted(losses)]])
    options = {"lr_min": 0.01, "lr_max": 0.5, "steps": len(losses)}
    result = module.lr_range_test(model, optimizer, loss_fn, loader, **options)
    after = optimizer.state_dict()
    return {
        "result": report(result),
        "outputs": outputs[:10],
        "groups": after["param_groups"],
        "state": list(after["state"]),
    }
