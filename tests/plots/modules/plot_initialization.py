"""The standard deviation of the activations over twenty layers, for each initialization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.4)
LAYERS, WIDTH = 20, 256
NAMES = ("xavier_uniform_", "xavier_uniform_, gain = sqrt(2)", "kaiming_normal_", "N(0, 0.02^2)")

_Spreads = Annotated[list[float], msgspec.Meta(min_length=LAYERS, max_length=LAYERS)]


class Data(msgspec.Struct):
    """For each initialization the standard deviation behind each layer; empty if it is not written yet."""

    spreads: Annotated[dict[str, _Spreads], msgspec.Meta(min_length=1, max_length=len(NAMES))]


def experiment(student: Any) -> dict[str, Any]:
    """Send one batch through twenty layers, each a matrix and a ReLU."""
    import torch

    torch.manual_seed(0)
    x = torch.randn(512, WIDTH)
    fills = (
        student.xavier_uniform_,
        lambda weight: student.xavier_uniform_(weight, 2**0.5),
        student.kaiming_normal_,
        lambda weight: weight.normal_(0.0, 0.02),
    )
    spreads = {}
    for name, fill in zip(NAMES, fills, strict=True):
        try:
            spreads[name] = _spreads(x, fill)
        except NotImplementedError:
            continue
    return {"spreads": spreads}


def _spreads(x: Any, fill: Any) -> list[float]:
    import torch

    found = []
    for _ in range(LAYERS):
        weight = torch.zeros(WIDTH, WIDTH)
        fill(weight)
        x = torch.relu(x @ weight.T)
        found.append(float(x.std()))
    return found


def draw(figure: FigureBase, data: Data) -> None:
    """One line for each initialization, over the layers."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    for name, color in zip(NAMES, COLORS, strict=False):
        spreads = data.spreads.get(name, [])
        # What is zero or not finite is a gap.
        shown = [spread if 0 < spread < float("inf") else float("nan") for spread in spreads]
        if shown:
            layers = range(1, len(shown) + 1)
            axes.plot(layers, shown, marker="o", markersize=3, label=name, color=color)
    axes.set(
        yscale="log",
        xlabel="layer",
        ylabel="standard deviation of its output",
        title="A signal on its way through twenty layers with ReLU",
    )
    axes.set_xticks([1, 5, 10, 15, 20])
    axes.legend()
