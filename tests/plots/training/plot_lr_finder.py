"""The range test's loss over the learning rate, and what training with the suggestion is like."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 6.6)
STEPS = 100
TRAINED = 60
FACTORS = (0.1, 1.0, 10.0)

_Line = Annotated[list[float], msgspec.Meta(min_length=1, max_length=STEPS)]


class Data(msgspec.Struct):
    """The range test, the suggestion, and the losses of a run with each factor of it, or None."""

    rates: _Line
    losses: _Line
    suggestion: float | None
    runs: Annotated[dict[str, _Line], msgspec.Meta(max_length=len(FACTORS))]


def experiment(student: Any) -> dict[str, Any]:
    """A small network on a small regression; then three short runs from the same start."""
    import copy

    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(512, 8, generator=generator)
    targets = torch.tanh(2 * inputs @ torch.randn(8, 1, generator=generator))
    batches = list(zip(inputs.split(64), targets.split(64), strict=True))
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
    )
    start = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    found = student.lr_range_test(model, optimizer, nn.MSELoss(), batches, 1e-5, 10.0, STEPS)
    suggestion = _suggestion(student, found)
    runs = {}
    for factor in FACTORS if suggestion is not None else ():
        runs[f"{factor:g}"] = _train(copy.deepcopy(start), batches, factor * (suggestion or 0.0))
    return {
        "rates": found.learning_rates.tolist(),
        "losses": found.losses.tolist(),
        "suggestion": suggestion,
        "runs": runs,
    }


def _suggestion(student: Any, found: Any) -> float | None:
    try:
        return float(student.suggest_lr(found))
    except (NotImplementedError, ValueError):  # ValueError: the losses never diverge
        return None


def _train(model: Any, batches: list[Any], rate: float) -> list[float]:
    import itertools

    import torch

    losses = []
    for inputs, targets in itertools.islice(itertools.cycle(batches), TRAINED):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        losses.append(loss.item())
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad
    return losses


def own_figure(student: Any, data: dict[str, Any]) -> bytes:
    """The student's own figure of the same range test, as a PNG."""
    import io

    import torch

    rates, losses = (torch.tensor(data[key], dtype=torch.float64) for key in ("rates", "losses"))
    figure = student.plot_lr_range_test(student.LRRangeTest(rates, losses), data["suggestion"])
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()


def draw(figure: FigureBase, data: Data) -> None:
    """The range test above, the three runs below."""
    test, runs = figure.subplots(2, 1)
    _draw_test(test, data)
    _draw_runs(runs, data)


def _draw_test(axes: Axes, data: Data) -> None:
    from grader.student.plots.style import BLUE, GRAY, VERMILION

    finite = [loss for loss in data.losses if math.isfinite(loss) and loss > 0]
    lowest = min(finite, default=1.0)
    axes.plot(
        data.rates[: len(data.losses)],
        data.losses[: len(data.rates)],
        color=BLUE,
        marker=".",
        markersize=4,
        linewidth=1.3,
        label="loss of each mini-batch",
    )
    axes.axhline(4 * lowest, color=GRAY, linestyle=":", label="4 times the lowest loss")
    if data.suggestion is not None:
        axes.axvline(
            data.suggestion,
            color=VERMILION,
            linestyle="--",
            label=f"suggested: {data.suggestion:.2g}",
        )
    axes.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="loss")
    _number_ticks(axes)
    axes.set_title(f"Range test: {len(data.losses)} steps, the rate grows from step to step")
    axes.legend(loc="lower left")


def _draw_runs(axes: Axes, data: Data) -> None:
    from grader.student.plots.style import GREEN, ORANGE, PURPLE, VERMILION

    axes.set_title(f"{TRAINED} steps from the same start with the suggestion, and around it")
    if data.suggestion is None:
        axes.set_axis_off()
        axes.text(
            0,
            0.5,
            "No suggestion: suggest_lr is not written yet, or found no divergence",
            transform=axes.transAxes,
        )
        return
    looks = zip(
        ("0.1", "1", "10"), (ORANGE, VERMILION, PURPLE, GREEN), (":", "-", "--"), strict=False
    )
    for factor, color, style in looks:
        losses = [loss if 0 < loss < 1e6 else math.nan for loss in data.runs.get(factor, [])]
        words = "the suggestion" if factor == "1" else f"{factor} times it"
        rate = float(factor) * data.suggestion
        axes.plot(
            range(1, len(losses) + 1), losses, style, color=color, label=f"{words}: {rate:.2g}"
        )
    axes.set(yscale="log", xlabel="step", ylabel="loss", xlim=(0, TRAINED + 1))
    _number_ticks(axes)
    # Below the axes: losses may be anywhere in them.
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def _number_ticks(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis: 0.2, 0.5, 1, and not 2 x 10^-1."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.4g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
