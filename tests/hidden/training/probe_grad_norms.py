"""Exercise the gradient-norm monitor with live models, optimizers and figures, and report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

# --- gradient_norm -------------------------------------------------------------------------------


def parameters(module: Any, values: list[Tensor], gradients: list[Tensor | None], form: str) -> Any:
    """Parameters with these values and gradients: a list, a generator, or a list of frozen ones."""
    made = [nn.Parameter(value) for value in values]
    for parameter, gradient in zip(made, gradients, strict=True):
        parameter.grad = None if gradient is None else gradient.clone()
        parameter.requires_grad_(form != "frozen")
    return (parameter for parameter in made) if form == "generator" else made


# --- initialize ----------------------------------------------------------------------------------


class ScaledLinear(nn.Linear):
    """A subclass of nn.Linear, as students meet them in other people's models."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Network(nn.Module):
    """Linear layers wherever they may be, and whatever is none."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.block = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 2)))
        self.listed = nn.ModuleList([nn.ModuleDict({"deep": nn.Linear(2, 2)})])
        self.special = ScaledLinear(3, 2)
        self.attention = nn.MultiheadAttention(2, 1)  # its out_proj is a subclass of nn.Linear
        self.convolution = nn.Conv2d(1, 2, 3)
        self.convolution1d = nn.Conv1d(2, 3, 2)
        self.layer_norm = nn.LayerNorm(3)
        self.batch_norm = nn.BatchNorm1d(3)
        self.embedding = nn.Embedding(3, 2)
        self.bilinear = nn.Bilinear(2, 2, 2)
        self.weight = nn.Parameter(torch.zeros(2, 3))
        self.bias = nn.Parameter(torch.zeros(2))


_MODELS: dict[str, Callable[[], nn.Module]] = {
    "network": Network,
    "linear": lambda: nn.Linear(4, 3),
    "without bias": lambda: nn.Sequential(nn.Linear(4, 3, bias=False), nn.Linear(3, 2)),
    "without linear": lambda: nn.Sequential(nn.Conv1d(2, 3, 2), nn.ReLU()),
}


def model(module: Any, kind: str, frozen: tuple[str, ...] = ()) -> nn.Module:
    """A model that holds numbers between 2 and 3, with gradients and half of it evaluating."""
    return _filled(_MODELS[kind](), frozen)


def wide(module: Any, fan_in: int, fan_out: int) -> nn.Module:
    """A model of one linear layer of these sizes, filled in the same way."""
    return _filled(nn.Sequential(nn.Linear(fan_in, fan_out)))


def _filled(network: nn.Module, frozen: tuple[str, ...] = ()) -> nn.Module:
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in frozen)
        parameter.grad = torch.full_like(parameter, 7.0)
    for index, submodule in enumerate(network.modules()):
        submodule.training = index % 2 == 1
    with torch.no_grad():
        for tensor in network.state_dict().values():
            if tensor.is_floating_point():
                tensor.uniform_(2.0, 3.0)
    return network


def initialize_twice(module: Any, scheme: str) -> list[Tensor]:
    """The weights of one layer after each of two initializations."""
    layer = nn.Linear(4, 3)
    weights = []
    for _ in range(2):
        module.initialize(nn.Sequential(layer), scheme)
        weights.append(layer.weight.detach().clone())
    return weights


# --- train_with_monitor --------------------------------------------------------------------------


class Fading(torch.optim.Optimizer):
    """Gradient descent that halves the gradients as it steps."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = _evaluated(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.add_(parameter.grad, alpha=-group["lr"])
                    parameter.grad.mul_(0.5)
        return loss


class Robust(torch.optim.Optimizer):
    """Gradient descent with decay that takes gradients for 0 where they are not finite."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = _evaluated(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    gradient = torch.nan_to_num(parameter.grad, 0.0, 0.0, 0.0)
                    parameter.mul_(0.9).add_(gradient, alpha=-group["lr"])
        return loss


def _evaluated(closure: Any) -> Any:
    """What a closure returns that computes the loss and the gradients, as torch's optimizers do."""
    with torch.enable_grad():
        return None if closure is None else closure()


class Scaled(nn.Module):
    """A linear layer behind a parameter that building draws and initialize leaves alone."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(3))
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x * self.scale)
        return outputs


_TRAINABLE: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)),
    "batch": lambda: nn.Sequential(
        nn.Linear(3, 4), nn.Sequential(nn.BatchNorm1d(4), nn.Tanh()), nn.Linear(4, 2)
    ),
    "line": lambda: nn.Linear(1, 1),
    "linear": lambda: nn.Sequential(nn.Linear(3, 2)),
    "scaled": Scaled,
}


class Passes:
    """A loader that yields other batches in each pass, and the first ones again after the last.

    If it shuffles, it draws the order of each pass from torch's global random state.
    """

    def __init__(self, passes: list[list[Any]], *, shuffled: bool = False) -> None:
        self._passes = passes
        self._shuffled = shuffled
        self._begun = 0

    def __len__(self) -> int:
        return len(self._passes[0])

    def __iter__(self) -> Iterator[list[Tensor]]:
        batches = self._passes[self._begun % len(self._passes)]
        self._begun += 1
        if self._shuffled:
            batches = [batches[i] for i in torch.randperm(len(batches)).tolist()]
        # Lists, as a DataLoader has them.
        return iter([[inputs.clone(), targets.clone()] for inputs, targets in batches])


def loader(module: Any, passes: list[list[Any]], shuffled: bool = False) -> Passes:
    return Passes(passes, shuffled=shuffled)


def loss(module: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """A loss that is another one with its arguments swapped."""
    return lambda outputs, targets: ((outputs - 2 * targets) ** 2).mean()


def trainable(
    module: Any,
    kind: str,
    state: dict[str, Tensor],
    training: bool = True,
    stale: float | None = None,
) -> nn.Module:
    """A model in this state; `stale` fills its gradients."""
    network = _TRAINABLE[kind]().to(next(iter(state.values())).dtype)
    network.load_state_dict(state)
    for parameter in network.parameters():
        parameter.grad = None if stale is None else torch.full_like(parameter, stale)
    return network.train(training)


def stepper(
    module: Any, network: nn.Module, kind: str, held: str, options: dict[str, float]
) -> torch.optim.Optimizer:
    """An optimizer of the parameters whose names begin with `held`."""
    held_ones = [p for name, p in network.named_parameters() if name.startswith(held)]
    own: dict[str, Any] = {"SGD": torch.optim.SGD, "Fading": Fading, "Robust": Robust}
    made: torch.optim.Optimizer = own[kind](held_ones, **options)
    return made


# --- compare_initializations ---------------------------------------------------------------------


def builder(module: Any, kind: str) -> Callable[[], nn.Module]:
    """What builds a model of this kind, in double precision."""
    return lambda: _TRAINABLE[kind]().double()


def starts(module: Any, kind: str, seed: int, schemes: list[str]) -> dict[str, dict[str, Any]]:
    """The state of a seeded, newly built model after the student's own initialize, for each scheme.

    With it come the next two permutations of five batches that the random state gives.
    """
    begun = {}
    for scheme in schemes:
        torch.manual_seed(seed)
        network = _TRAINABLE[kind]().double()
        module.initialize(network, scheme)
        state = {name: tensor.detach() for name, tensor in network.state_dict().items()}
        orders = torch.stack([torch.randperm(5) for _ in range(2)])
        begun[scheme] = {"state": state, "orders": orders}
    return begun


# --- diagnose ------------------------------------------------------------------------------------


def diagnoses(module: Any, histories: list[Tensor]) -> list[Any]:
    return [module.diagnose(history) for history in histories]
