"""Live parameters, models, optimizers and loaders for the gradient-norm monitor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

Batch = tuple[Tensor, Tensor]


# --- gradient_norm -------------------------------------------------------------------------------


def parameters(module: Any, gradients: list[Tensor | None]) -> list[nn.Parameter]:
    """Parameters with these gradients."""
    made = []
    for gradient in gradients:
        like = torch.zeros(2) if gradient is None else gradient
        parameter = nn.Parameter(torch.zeros_like(like))
        parameter.grad = gradient
        made.append(parameter)
    return made


def generator(module: Any, gradients: list[Tensor | None]) -> Iterator[nn.Parameter]:
    return iter(parameters(module, gradients))


def frozen(module: Any, gradients: list[Tensor | None]) -> list[nn.Parameter]:
    made = parameters(module, gradients)
    for parameter in made:
        parameter.requires_grad = False
    return made


# --- initialize ----------------------------------------------------------------------------------


class ScaledLinear(nn.Linear):
    """A subclass of nn.Linear, as students meet them in other people's models."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Network(nn.Module):
    """Linear layers wherever they may be, and parameters that belong to none."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.block = nn.Sequential(nn.Linear(3, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 2)))
        self.listed = nn.ModuleList([nn.ModuleDict({"deep": nn.Linear(2, 2)})])
        self.without_bias = nn.Linear(2, 3, bias=False)
        self.special = ScaledLinear(3, 2)
        self.attention = nn.MultiheadAttention(2, 1)  # its out_proj is a subclass of nn.Linear
        self.convolution = nn.Conv2d(1, 2, 3)
        self.layer_norm = nn.LayerNorm(3)
        self.batch_norm = nn.BatchNorm1d(3)
        self.embedding = nn.Embedding(3, 2)
        self.bilinear = nn.Bilinear(2, 2, 2)
        self.weight = nn.Parameter(torch.zeros(2, 3))
        self.bias = nn.Parameter(torch.zeros(2))


def network(module: Any, frozen: list[str]) -> nn.Module:
    """A Network full of numbers, with gradients; those named are frozen, and half of it evaluates."""
    made = _filled(Network())
    for name in frozen:
        made.get_parameter(name).requires_grad_(False)
    for index, submodule in enumerate(made.modules()):
        submodule.training = index % 2 == 1
    return made


def linear_layer(module: Any) -> nn.Module:
    return _filled(nn.Linear(4, 3))


def wide(module: Any, fan_in: int, fan_out: int) -> nn.Module:
    return _filled(nn.Sequential(nn.Linear(fan_in, fan_out)))


def _filled(model: nn.Module) -> nn.Module:
    """The model with a 2.5 in every parameter, and a 7 in every gradient."""
    for parameter in model.parameters():
        nn.init.constant_(parameter, 2.5)
        parameter.grad = torch.full_like(parameter, 7.0)
    return model


def initialize_twice(module: Any, scheme: str) -> list[Tensor]:
    """The weights of one layer after each of two initializations."""
    layer = nn.Linear(4, 3)
    weights = []
    for _ in range(2):
        module.initialize(nn.Sequential(layer), scheme)
        weights.append(layer.weight.detach().clone())
    return weights


# --- train_with_monitor --------------------------------------------------------------------------


class Passes:
    """A loader that yields other batches in each pass, and the first ones again after the last."""

    def __init__(self, passes: list[list[Batch]]) -> None:
        self.passes = passes
        self.begun = 0

    def __len__(self) -> int:
        return len(self.passes[0])

    def __iter__(self) -> Iterator[Batch]:
        batches = self.passes[self.begun % len(self.passes)]
        self.begun += 1
        return iter(batches)


class Shuffled(list[Batch]):
    """A loader that draws the order of each pass from torch's global random state."""

    def __iter__(self) -> Iterator[Batch]:
        order = torch.randperm(len(self)).tolist()
        return iter([self[i] for i in order])


def loader(module: Any, passes: list[list[Batch]]) -> Passes:
    return Passes(passes)


def shuffled(module: Any, batches: list[Batch]) -> Shuffled:
    return Shuffled(batches)


def loss(module: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """A loss that is another one with its arguments swapped."""
    return lambda outputs, targets: (outputs - 2 * targets).square().mean()


def linear(module: Any, weight: Tensor, gradient: Tensor | None) -> nn.Module:
    """A model of one parameter, with this gradient from before."""
    made = nn.Linear(3, 2, bias=False)
    made.weight = nn.Parameter(weight)
    made.weight.grad = gradient
    return made


def normed(module: Any, state: dict[str, Tensor]) -> nn.Module:
    """A model with batch normalization, in eval mode."""
    made = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
    made.load_state_dict(state)
    return made.eval()


def sgd(
    module: Any, model: nn.Module, names: list[str], lr: float, momentum: float
) -> torch.optim.SGD:
    """SGD of the parameters of these names."""
    held = [model.get_parameter(name) for name in names]
    return torch.optim.SGD(held, lr=lr, momentum=momentum)


class Rough(torch.optim.Optimizer):
    """Shrinks the parameters as it steps, takes what is not finite for 0, and halves the gradients."""

    def __init__(self, parameters: Any, lr: float, keep: float) -> None:
        super().__init__(parameters, {"lr": lr, "keep": keep})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        with torch.enable_grad():
            loss = None if closure is None else closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = torch.nan_to_num(parameter.grad, 0.0, 0.0, 0.0)
                parameter.mul_(group["keep"]).sub_(group["lr"] * gradient)
                parameter.grad.mul_(0.5)
        return loss


def rough(module: Any, model: nn.Module, lr: float, keep: float) -> Rough:
    return Rough(model.parameters(), lr, keep)


# --- compare_initializations ---------------------------------------------------------------------


class Scaled(nn.Module):
    """A linear layer behind a buffer that building draws and initialize leaves alone."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.randn(3))
        self.linear = nn.Linear(3, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.linear(x * self.scale)
        return outputs


def builder(module: Any) -> Callable[[], nn.Module]:
    return lambda: Scaled().double()


def starts(module: Any, seed: int, schemes: list[str]) -> list[dict[str, Tensor]]:
    """What each scheme begins with: scale and weight after the student's own initialize.

    With it come the next two orders of five batches that the random state gives.
    """
    begun = []
    for scheme in schemes:
        torch.manual_seed(seed)
        made = Scaled().double()
        module.initialize(made, scheme)
        orders = torch.stack([torch.randperm(5) for _ in range(2)])
        weight = made.linear.weight.detach()
        begun.append({"scale": made.scale, "weight": weight, "orders": orders})
    return begun


# --- diagnose ------------------------------------------------------------------------------------


def diagnoses(module: Any, histories: list[Tensor]) -> list[Any]:
    return [module.diagnose(history) for history in histories]
