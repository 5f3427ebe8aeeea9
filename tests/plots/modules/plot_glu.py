"""What a gated linear unit lets through, and which parameters of a small network a gradient reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 7.0)
STEPS = 81
LIMIT = 6.0
VALUES = (-2.0, -1.0, 1.0, 2.0)
PARAMETERS = ("glu.weight", "glu.bias", "frozen.weight", "unused.weight", "head.weight")

_Row = Annotated[list[float], msgspec.Meta(min_length=STEPS, max_length=STEPS)]


class Data(msgspec.Struct):
    """Outputs over a grid of value and gate, and who was reached: True, False, or None if unknown."""

    surface: Annotated[list[_Row], msgspec.Meta(min_length=STEPS, max_length=STEPS)]
    cuts: Annotated[list[_Row], msgspec.Meta(min_length=len(VALUES), max_length=len(VALUES))]
    reached: Annotated[dict[str, bool], msgspec.Meta(max_length=len(PARAMETERS))] | None


def experiment(student: Any) -> dict[str, Any]:
    """Make the layer's two projections the identity, so that its input is the value and the gate."""
    import torch

    layer = student.GatedLinearUnit(2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(2))
        layer.bias.zero_()
    gates = torch.linspace(-LIMIT, LIMIT, STEPS)

    def output(value: torch.Tensor, gate: torch.Tensor) -> list[Any]:
        grid = torch.stack(torch.broadcast_tensors(value, gate), dim=-1)
        with torch.no_grad():
            result: list[Any] = layer(grid).squeeze(-1).tolist()
        return result

    values = torch.linspace(-LIMIT / 2, LIMIT / 2, STEPS)
    return {
        "surface": output(values, gates.unsqueeze(1)),
        "cuts": output(torch.tensor(VALUES).unsqueeze(1), gates),
        "reached": _reached(student),
    }


def _reached(student: Any) -> dict[str, bool] | None:
    import torch
    from torch import nn

    class Network(nn.Module):
        """A frozen layer, and one that forward forgets."""

        def __init__(self) -> None:
            super().__init__()
            self.glu = student.GatedLinearUnit(4, 4)
            self.frozen = nn.Linear(4, 4, bias=False).requires_grad_(False)
            self.unused = nn.Linear(4, 4, bias=False)
            self.head = nn.Linear(4, 1, bias=False)

        def forward(self, x: torch.Tensor) -> Any:
            return self.head(self.frozen(self.glu(x)))

    try:
        found = student.gradient_flow(Network(), torch.randn(8, 4))
    except NotImplementedError:
        return None
    return {str(name): bool(reached) for name, reached in found.items() if name in PARAMETERS}


def draw(figure: FigureBase, data: Data) -> None:
    """Three parts: the surface, cuts through it, the parameters."""
    above, below = figure.subfigures(2, 1, height_ratios=[1.25, 1])  # type: ignore[misc]  # typed as if it were one
    _draw_surface(above.subplots(), above, data.surface)
    cuts, flow = below.subplots(1, 2, width_ratios=[1.15, 1])
    _draw_cuts(cuts, data.cuts)
    _draw_flow(flow, data.reached)


def _draw_surface(axes: Axes, figure: FigureBase, surface: list[list[float]]) -> None:
    extent = (-LIMIT / 2, LIMIT / 2, -LIMIT, LIMIT)
    limit = LIMIT / 2
    shown = axes.imshow(
        surface,
        origin="lower",
        aspect="auto",
        extent=extent,
        cmap="PuOr_r",
        vmin=-limit,
        vmax=limit,
        interpolation="bilinear",
    )
    axes.grid(visible=False)
    axes.set(xlabel="value", ylabel="gate", title="What comes out: the gate decides how much")
    figure.colorbar(shown, ax=axes, label="output", pad=0.02)


def _draw_cuts(axes: Axes, cuts: list[list[float]]) -> None:
    from grader.student.plots.style import COLORS, GROUND

    gates = [-LIMIT + 2 * LIMIT * i / (STEPS - 1) for i in range(STEPS)]
    for value, cut, color in zip(VALUES, cuts, COLORS, strict=False):
        axes.plot(gates, cut, color=color)
        # Beside its line, and not in a legend: what belongs together stands together.
        axes.annotate(
            f"value {value:g}",
            (gates[-1], cut[-1]),
            color=color,
            va="center",
            xytext=(4, 0),
            textcoords="offset points",
            fontsize=8.5,
            bbox=GROUND,
        )
    axes.set(
        xlabel="gate", ylabel="output", title="Output over the gate", xlim=(-LIMIT, LIMIT * 1.5)
    )
    axes.set_xticks([-6, -3, 0, 3, 6])


def _draw_flow(axes: Axes, reached: dict[str, bool] | None) -> None:
    from grader.student.plots.style import BLUE, VERMILION

    axes.set_title("Which parameters a gradient reaches")
    axes.set_axis_off()
    axes.set(xlim=(0, 1), ylim=(len(PARAMETERS) - 0.4, -0.6))
    if reached is None:
        axes.text(0, 0, "gradient_flow is not written yet", va="center")
        return
    for row, name in enumerate(PARAMETERS):
        there = reached.get(name)
        words = {True: "reached", False: "not reached", None: "not named"}[there]
        color = BLUE if there else VERMILION
        filled = color if there else "white"
        axes.plot(0.04, row, "o", markersize=8, color=color, markerfacecolor=filled, clip_on=False)
        axes.text(0.11, row, name, va="center", family="monospace", fontsize=9)
        axes.text(0.68, row, words, va="center", color=color)
