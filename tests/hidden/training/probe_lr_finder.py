"""Exercise the learning-rate finder with live objects, and report what happened."""

from __future__ import annotations

import copy
import random
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
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
    """A loader that yields nothing was begun anew again and again."""


class Empty(Passes):
    """A loader that yields nothing and is patient for a while."""

    def __init__(self) -> None:
        super().__init__([[]])

    def __iter__(self) -> Iterator[Batch]:
        if self.begun == 50:
            raise EndlessError
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


def run_empty(module: Any) -> str:
    """Run a range test over a loader that yields nothing, and say what came of it."""
    model = Line(torch.zeros(2, 1), torch.zeros(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    try:
        module.lr_range_test(model, optimizer, script, Empty(), 0.01, 1.0, 5)
    except EndlessError:
        return "endless"
    return "returned"


def leave_as_found(
    module: Any,
    parameters: dict[str, Tensor],
    buffers: dict[str, Tensor],
    frozen: list[str],
    modes: dict[str, bool],
    optimizer_name: str,
    groups: list[dict[str, Any]],
    state: dict[int, dict[str, Tensor]],
    losses: list[float],
) -> dict[str, Any]:
    """Put a network and its optimizer into this state, run a range test, and report the state.

    The optimizer has two groups with the options of `groups`, the network's body and its head, and
    `state` for some of the parameters, by their numbers. Reported are also the outputs that each
    loss was computed from, and which objects (by id) the parameters are before and after, and those
    that the optimizer holds.
    """
    model = Network()
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            tensor.copy_({**parameters, **buffers}[name])
    for name in frozen:
        model.get_parameter(name).requires_grad_(False)
    for name, each in model.named_modules():
        each.training = modes[name]
    parts = (model.body, model.head)
    optimizer = getattr(torch.optim, optimizer_name)(
        [{**group, "params": part.parameters()} for group, part in zip(groups, parts, strict=True)],
        lr=0.1,
    )
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    groups_before = copy.deepcopy(optimizer.state_dict()["param_groups"])
    # Kept until the end, so that no id is given twice.
    objects = list(model.parameters())
    batches = [(x.float(), y.float()) for x, y in scripted(losses)]
    outputs: list[Tensor] = []

    def loss_fn(found: Tensor, targets: Tensor) -> Tensor:
        outputs.append(found.detach().clone())
        return script(found, targets)

    result = module.lr_range_test(
        model, optimizer, loss_fn, Passes([batches]), lr_min=0.01, lr_max=0.5, steps=len(losses)
    )
    return {
        "result": report(result),
        "outputs": outputs[:10],
        "parameters": {name: each.detach() for name, each in model.named_parameters()},
        "frozen": [name for name, each in model.named_parameters() if not each.requires_grad],
        "objects_before": [id(each) for each in objects],
        "objects": [id(each) for each in model.parameters()],
        "held": [id(each) for group in optimizer.param_groups for each in group["params"]],
        "buffers": dict(model.named_buffers()),
        "modes": {name: each.training for name, each in model.named_modules()},
        "optimizer_before": {"param_groups": groups_before},
        "optimizer": optimizer.state_dict(),
    }


def global_random_state(module: Any) -> list[dict[str, bytes]]:
    """Run a range test that nothing random belongs to; the states of generators before and after."""
    before = random_states()
    options = {"lr_min": 0.01, "lr_max": 1.0, "steps": 4}
    run_script(module, [[4.0, 3.0, 2.0, 1.0]], options)
    return [before, random_states()]


def random_states() -> dict[str, bytes]:
    state: Any = np.random.get_state()
    return {
        "torch": torch.default_generator.get_state().numpy().tobytes(),
        "numpy": state[1].tobytes() + state[2].to_bytes(4, "little"),
        "random": array("I", random.getstate()[1]).tobytes(),
    }


# --- suggest_lr ----------------------------------------------------------------------------------


def suggest(module: Any, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Call suggest_lr for each case of `rates`, `losses` and `options`; report what it left."""
    suggestions, left = [], []
    for case in cases:
        result = module.LRRangeTest(case["rates"], case["losses"])
        suggestions.append(module.suggest_lr(result, **case["options"]))
        left.append([result.learning_rates, result.losses])
    return {"suggestions": suggestions, "left": left}


def suggest_error(module: Any, rates: Tensor, losses: Tensor) -> str | None:
    """The message of the ValueError of suggest_lr, None if there is none."""
    try:
        module.suggest_lr(module.LRRangeTest(rates, losses))
    except ValueError as error:
        return str(error)
    return None


def empty_error(module: Any) -> str | None:
    """The message of the ValueError over a loader that yields nothing, None if there is none."""
    try:
        run_empty(module)
    except ValueError as error:
        return str(error)
    return None


# --- plot_lr_range_test --------------------------------------------------------------------------


def plot(module: Any, rates: Tensor, losses: Tensor, *suggestion: float | None) -> dict[str, Any]:
    """Plot a result, with a suggestion or without the argument, and read the figure."""
    result = module.LRRangeTest(rates, losses)
    figure = module.plot_lr_range_test(result, *suggestion)
    return {**read_figure(figure), "left": [result.learning_rates, result.losses]}


def read_figure(figure: Any) -> dict[str, Any]:
    from matplotlib.figure import Figure

    if not isinstance(figure, Figure):
        return {"type": None if figure is None else type(figure).__name__, "axes": []}
    axes = [read_axes(each) for each in figure.axes]
    if len(axes) == 1:
        # A label of the whole figure labels its only Axes.
        axes[0]["xlabel"] = axes[0]["xlabel"] or figure.get_supxlabel()
        axes[0]["ylabel"] = axes[0]["ylabel"] or figure.get_supylabel()
    return {"type": "Figure", "axes": axes}


def read_axes(axes: Any) -> dict[str, Any]:
    from matplotlib.collections import LineCollection, PathCollection

    # Without a style and without markers nothing of a line is to be seen.
    drawn = [
        line
        for line in axes.lines
        if line.get_linestyle() != "None" or line.get_marker() not in ("None", "none", "", " ")
    ]
    curves = [points(line.get_xydata()) for line in drawn]
    for each in axes.collections:
        if isinstance(each, LineCollection):
            curves += [points(segment) for segment in each.get_segments()]
        elif isinstance(each, PathCollection):
            curves.append(points(each.get_offsets()))
    return {
        "xscale": axes.get_xscale(),
        "yscale": axes.get_yscale(),
        "xlabel": axes.get_xlabel(),
        "ylabel": axes.get_ylabel(),
        "curves": curves,
    }


def points(pairs: Any) -> Tensor:
    """A tensor (points, 2) of what matplotlib holds; NaN where it masks a point."""
    filled = np.ma.filled(np.ma.asarray(pairs, dtype=np.float64), np.nan)
    return torch.from_numpy(np.array(filled, dtype=np.float64).reshape(-1, 2))


def plot_beside_others(
    module: Any, rates: Tensor, losses: Tensor, suggestion: float
) -> dict[str, Any]:
    """Plot while the caller has figures open, of one text each.

    Reports pyplot's registry before and after, the figure, which object it and each of the caller's
    is (by id), how many Axes and texts the latter have afterwards, and how often `show` was called.
    """
    import matplotlib.pyplot as plt
    from matplotlib.figure import Figure

    plt.close("all")
    theirs = [plt.figure(), plt.figure()]
    for figure in theirs:
        figure.text(0.5, 0.5, "a figure of the caller")
    before = plt.get_fignums()
    shown: list[bool] = []
    owners: list[Any] = [plt, Figure]
    originals = [owner.show for owner in owners]
    for owner in owners:
        # By hand: unittest.mock would bring asyncio into every sandbox.
        owner.show = lambda *_, **__: shown.append(True)
    try:
        figure = module.plot_lr_range_test(module.LRRangeTest(rates, losses), suggestion)
        after = plt.get_fignums()
        facts = read_figure(figure)
    finally:
        for owner, original in zip(owners, originals, strict=True):
            owner.show = original
        plt.close("all")
    return {
        "before": before,
        "after": after,
        "theirs": [[id(each), len(each.axes), len(each.texts)] for each in theirs],
        "returned": id(figure),
        "shown": len(shown),
        "figure": facts,
    }
