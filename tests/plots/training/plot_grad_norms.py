"""Gradient norms over 50 epochs for three initializations of the same network, on the same data."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.9)
EPOCHS = 50

_Text = Annotated[str, msgspec.Meta(max_length=40)]


class History(msgspec.Struct):
    """The mean norm of each epoch, and what `diagnose` calls it (empty: not written yet)."""

    norms: Annotated[list[float], msgspec.Meta(min_length=1, max_length=10 * EPOCHS)]
    diagnosis: _Text


class Data(msgspec.Struct):
    """A history for each scheme."""

    histories: Annotated[dict[_Text, History], msgspec.Meta(min_length=1, max_length=8)]


def experiment(student: Any) -> dict[str, Any]:
    """Four hidden layers on a small regression, SGD with a learning rate of 0.01."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(256, 16, generator=generator)
    targets = torch.sin(inputs[:, :4].sum(dim=1, keepdim=True))
    batches = list(zip(inputs.split(32), targets.split(32), strict=True))

    def build() -> nn.Module:
        hidden = [layer for _ in range(3) for layer in (nn.Linear(32, 32), nn.ReLU())]
        return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), *hidden, nn.Linear(32, 1))

    found = student.compare_initializations(
        build, batches, nn.MSELoss(), lr=0.01, epochs=EPOCHS, seed=0
    )
    return {
        "histories": {
            str(name): {"norms": norms.tolist(), "diagnosis": _diagnosis(student, norms)}
            for name, norms in found.items()
        }
    }


def _diagnosis(student: Any, norms: Any) -> str:
    try:
        return str(student.diagnose(norms))
    except NotImplementedError:
        return ""


def own_figure(student: Any, data: dict[str, Any]) -> bytes:
    """The student's own figure of the same histories, as a PNG."""
    import io

    import torch

    histories = {
        name: torch.tensor(history["norms"], dtype=torch.float64)
        for name, history in data["histories"].items()
    }
    written = io.BytesIO()
    student.plot_gradient_norms(histories).savefig(written, format="png", dpi=110)
    return written.getvalue()


def draw(figure: FigureBase, data: Data) -> None:
    """One line for each scheme, between the limits beyond which gradients explode or vanish."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    markers = ("o", "s", "^", "D", "v", "P", "X", "*")
    for (name, history), color, marker in zip(
        data.histories.items(), COLORS * 2, markers, strict=False
    ):
        _draw_history(axes, name, history, color, marker)
    _draw_limits(axes)
    axes.set_yscale("log")
    axes.set(xlabel="epoch", ylabel="gradient norm, mean over the batches", xlim=(0, EPOCHS + 1))
    axes.set_title("Same network, same data, same seed: only the initialization differs")
    figure.legend(loc="outside lower left", ncols=1, handlelength=3)


def _draw_history(axes: Axes, name: str, history: History, color: str, marker: str) -> None:
    # Beyond what a logarithmic axis can show there is no more to see than that it is beyond.
    shown = [norm if 0 < norm < 1e30 else math.nan for norm in history.norms]
    verdict = f": {history.diagnosis}" if history.diagnosis else ""
    lost = sum(not math.isfinite(norm) for norm in history.norms)
    rest = f", infinite or NaN in {lost} of {len(history.norms)} epochs" if lost else ""
    epochs = range(1, len(shown) + 1)
    axes.plot(
        epochs,
        shown,
        color=color,
        marker=marker,
        markersize=3.5,
        linewidth=1.3,
        label=f"{name}{verdict}{rest}",
    )


def _draw_limits(axes: Axes) -> None:
    from grader.student.plots.style import GRAY, GROUND

    for limit, words, place in (
        (1e3, "exploding above 1e3", "bottom"),
        (1e-3, "vanishing below 1e-3", "top"),
    ):
        axes.axhline(limit, color=GRAY, linestyle="--", linewidth=0.9)
        # Set off from the line, or its ground would hide it.
        axes.annotate(
            words,
            (EPOCHS + 0.7, limit),
            xytext=(0, 3 if place == "bottom" else -3),
            textcoords="offset points",
            color=GRAY,
            ha="right",
            va=place,
            fontsize=8.5,
            bbox=GROUND,
        )
