"""Exercise the gradient-norm monitor with live models, optimizers and figures, and report."""

from __future__ import annotations

import inspect
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from torch import Tensor, nn

STALE = 7.0

# --- gradient_norm -------------------------------------------------------------------------------


def norm(
    module: Any, values: list[Tensor], gradients: list[Tensor | None], form: str = "list"
) -> dict[str, Any]:
    """The norm of parameters with these values and gradients, and their gradients afterwards.

    They come as a list, from a generator, or frozen: with requires_grad switched off.
    """
    parameters = [nn.Parameter(value) for value in values]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = None if gradient is None else gradient.clone()
        parameter.requires_grad_(form != "frozen")
    given = (each for each in parameters) if form == "generator" else parameters
    answer = module.gradient_norm(given)
    return {"norm": answer, "gradients": [each.grad for each in parameters]}


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
    "wide": lambda: nn.Sequential(nn.Linear(50, 200)),
}


def initialize(
    module: Any,
    model: str,
    schemes: list[str],
    *,
    facts: list[str],
    frozen: list[str] | None = None,
    catching: bool = False,
) -> dict[str, Any]:
    """What initialize makes, for each scheme, of a model that holds other numbers beforehand.

    Every gradient is full of STALE. `facts` are those to report of the model before and after, and
    gradients afterwards alone. With `catching`, an exception is reported beside what it leaves, but
    for an unwritten part.
    """
    network = _MODELS[model]()
    parameters = dict(network.named_parameters())
    for name, parameter in parameters.items():
        parameter.requires_grad_(name not in (frozen or []))
        parameter.grad = torch.full_like(parameter, STALE)
    for index, submodule in enumerate(network.modules()):
        submodule.training = index % 2 == 1
    reports = {}
    for scheme in schemes:
        with torch.no_grad():
            for tensor in network.state_dict().values():
                if tensor.is_floating_point():
                    tensor.uniform_(2.0, 3.0)
        before, raised = _facts(network, [each for each in facts if each != "gradients"]), None
        try:
            module.initialize(network, scheme)
        except NotImplementedError:
            raise
        except Exception as error:
            if not catching:
                raise
            raised = type(error).__name__
        now = dict(network.named_parameters())
        same = {name: now.get(name) is each for name, each in parameters.items()}
        reports[scheme] = {
            "raised": raised,
            "before": before,
            "after": _facts(network, facts),
            "same": same,
        }
    return reports


def refuse(module: Any, model: str, scheme: str) -> None:
    """Ask initialize for a scheme, and let it raise whatever it raises."""
    module.initialize(_MODELS[model](), scheme)


def _facts(network: nn.Module, facts: list[str]) -> dict[str, Any]:
    parameters = dict(network.named_parameters())
    known: dict[str, Callable[[], dict[str, Any]]] = {
        "values": lambda: {n: each.detach().clone() for n, each in network.state_dict().items()},
        "requires_grad": lambda: {name: each.requires_grad for name, each in parameters.items()},
        "gradients": lambda: {name: each.grad for name, each in parameters.items()},
        "training": lambda: {name: each.training for name, each in network.named_modules()},
    }
    return {fact: known[fact]() for fact in facts}


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


_OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "fading": Fading,
    "robust": Robust,
}


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


def loss_of(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss that is another one with its arguments swapped."""
    return ((outputs - 2 * targets) ** 2).mean()


def train(
    module: Any,
    model: str,
    state: dict[str, Tensor],
    passes: list[list[Any]],
    epochs: int,
    *,
    optimizer: str = "sgd",
    options: dict[str, float],
    training: bool = True,
    stale: float | None = None,
    held: str = "",
    seed: int = 0,
) -> dict[str, Any]:
    """What train_with_monitor records, how it leaves the model, and what is drawn next.

    The random states are seeded with `seed` before. `stale` fills the gradients beforehand; the
    optimizer holds the parameters whose names begin with `held`.
    """
    network = _TRAINABLE[model]().to(next(iter(state.values())).dtype)
    network.load_state_dict(state)
    network.train(training)
    for parameter in network.parameters():
        parameter.grad = None if stale is None else torch.full_like(parameter, stale)
    learning = [each for name, each in network.named_parameters() if name.startswith(held)]
    stepper = _OPTIMIZERS[optimizer](learning, **options)
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed)
    norms = module.train_with_monitor(network, Passes(passes), loss_of, stepper, epochs)
    return {
        "norms": norms,
        "state": {name: each.detach() for name, each in network.state_dict().items()},
        "training": {name: each.training for name, each in network.named_modules()},
        "draws": {
            "torch": torch.rand(2, dtype=torch.float64).tolist(),
            "Python": [random.random()],
            "NumPy": [np.random.random_sample()],
        },
    }


# --- compare_initializations ---------------------------------------------------------------------


def starts(
    module: Any, model: str, seed: int, schemes: list[str], *, orders: int = 0, count: int = 0
) -> dict[str, dict[str, Tensor]]:
    """The parameters of a seeded, newly built model after the student's own initialize.

    With them come the next `orders` permutations of `count` batches that the random state gives.
    """
    states = {}
    for scheme in schemes:
        torch.manual_seed(seed)
        network = _TRAINABLE[model]().double()
        module.initialize(network, scheme)
        states[scheme] = {name: each.detach() for name, each in network.state_dict().items()}
        drawn = [torch.randperm(count) for _ in range(orders)]
        states[scheme]["orders"] = torch.stack(drawn) if drawn else torch.empty(0)
    return states


def compare(
    module: Any,
    model: str,
    batches: list[Any],
    *,
    before: int = 0,
    shuffled: bool = False,
    **options: Any,
) -> Any:
    """What compare_initializations returns, called in the random state of the seed `before`."""
    torch.manual_seed(before)
    return module.compare_initializations(
        lambda: _TRAINABLE[model]().double(),
        Passes([batches], shuffled=shuffled),
        loss_of,
        **options,
    )


def default_of(module: Any, function: str, parameter: str) -> Any:
    """The default of a parameter as the signature has it, None where it has none."""
    try:
        return inspect.signature(getattr(module, function)).parameters[parameter].default
    except (KeyError, TypeError, ValueError):
        return None


# --- diagnose ------------------------------------------------------------------------------------


def diagnose(module: Any, histories: list[list[float]]) -> dict[str, Any]:
    """What diagnose says of each history, in both dtypes, and what is then in the tensors."""
    answers: dict[str, list[Any]] = {}
    given: dict[str, list[Tensor]] = {}
    for dtype in (torch.float64, torch.float32):
        name = str(dtype).removeprefix("torch.")
        given[name] = [torch.tensor(history, dtype=dtype) for history in histories]
        answers[name] = [module.diagnose(each) for each in given[name]]
    return {"answers": answers, "given": given}


# --- plot_gradient_norms -------------------------------------------------------------------------


def plot(module: Any, histories: dict[str, Tensor]) -> dict[str, Any]:
    """What the figure of these histories holds."""
    plt.close("all")  # whoever draws on the current figure is told so by another test
    figure = module.plot_gradient_norms(histories)
    facts = _figure_facts(figure)
    facts["histories"] = list(histories.values())
    plt.close("all")
    return facts


def _figure_facts(figure: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"type": type(figure).__name__, "figure": isinstance(figure, Figure)}
    if not facts["figure"]:
        return facts
    axes = figure.axes
    facts["axes"] = len(axes)
    facts["lines"] = [_line_facts(line) for each in axes for line in each.get_lines()]
    facts["x scales"] = [each.get_xscale() for each in axes]
    facts["y scales"] = [each.get_yscale() for each in axes]
    facts["x labels"] = [each.get_xlabel() or figure.get_supxlabel() for each in axes]
    facts["y labels"] = [each.get_ylabel() or figure.get_supylabel() for each in axes]
    artists = [child for each in (*axes, figure) for child in each.get_children()]
    legends = [artist for artist in artists if isinstance(artist, Legend)]
    facts["legends"] = [[text.get_text() for text in legend.get_texts()] for legend in legends]
    return facts


def _line_facts(line: Any) -> dict[str, Any]:
    return {
        "label": line.get_label(),
        "x": _numbers(line.get_xdata(orig=False)),
        "y": _numbers(line.get_ydata(orig=False)),
    }


def _numbers(data: Any) -> list[float]:
    return [float(number) for number in np.ma.filled(np.ma.asarray(data, dtype=float), np.nan)]


def pyplot(module: Any, histories: dict[str, Tensor]) -> dict[str, Any]:
    """How a caller's figures fare in pyplot, which figures are new there, and what was shown."""
    plt.close("all")
    callers = [plt.figure(), plt.figure()]
    for figure in callers:
        figure.text(0.5, 0.5, "mine")
    before = {"open": plt.get_fignums(), "contents": [_contents(each) for each in callers]}
    shown: list[str] = []
    shows = plt.show, Figure.show
    plt.show = lambda *_, **__: shown.append("plt.show")
    Figure.show = lambda *_, **__: shown.append("Figure.show")  # type: ignore[method-assign]  # a spy
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            module.plot_gradient_norms(histories)
    finally:
        plt.show, Figure.show = shows  # type: ignore[method-assign]  # the spies go
    # Whoever imported the function show itself is told by the backend that it cannot show.
    if any("cannot be shown" in str(warning.message) for warning in caught):
        shown.append("show")
    after = {"open": plt.get_fignums(), "contents": [_contents(each) for each in callers]}
    plt.close("all")
    return {"before": before, "after": after, "shown": shown}


def _contents(figure: Figure) -> list[str]:
    return [type(child).__name__ for child in figure.get_children()]
