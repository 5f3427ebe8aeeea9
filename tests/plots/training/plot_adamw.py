"""Two weights, one with gradients 10000 times the other's, under decoupled decay and under L2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.6, 4.2)
STEPS, SCALES = 200, (1.0, 1e4)
TITLES = {"decoupled": "decoupled_weight_decay=True", "l2": "decoupled_weight_decay=False (L2)"}

_Line = Annotated[list[float], msgspec.Meta(max_length=STEPS + 1)]


class Data(msgspec.Struct):
    """For each kind of decay, each weight over the steps."""

    decoupled: Annotated[list[_Line], msgspec.Meta(max_length=len(SCALES))]
    l2: Annotated[list[_Line], msgspec.Meta(max_length=len(SCALES))]


def experiment(student: Any) -> dict[str, Any]:
    """Start both weights at 1, with noise for gradients that says nothing about where to go."""
    import torch

    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(STEPS, generator=generator).tolist()

    def weights(decoupled: bool) -> list[list[float]]:
        parameters = [torch.nn.Parameter(torch.tensor(1.0)) for _ in SCALES]
        options = {"weight_decay": 1.0, "decoupled_weight_decay": decoupled}
        optimizer = student.AdamW(parameters, lr=0.01, **options)
        lines = [[1.0] for _ in SCALES]
        for number in noise:
            for parameter, scale in zip(parameters, SCALES, strict=True):
                parameter.grad = torch.tensor(number * scale)
            optimizer.step()
            for parameter, line in zip(parameters, lines, strict=True):
                line.append(parameter.item())
        return lines

    return {"decoupled": weights(True), "l2": weights(False)}


def draw(figure: FigureBase, data: Data) -> None:
    """A panel for each kind of decay, a line for each weight."""
    from grader.student.plots.style import COLORS

    panels = figure.subplots(1, 2, sharey=True)
    for axes, (kind, title) in zip(panels, TITLES.items(), strict=True):
        for i, (line, scale) in enumerate(zip(getattr(data, kind), SCALES, strict=False)):
            width, label = (4, 1.5)[i], f"gradients of size {scale:g}"
            axes.plot(line, color=COLORS[i], linewidth=width, alpha=(0.5, 1.0)[i], label=label)
        axes.axhline(0, color="0.6", linewidth=0.8)
        axes.set(xlabel="step", title=title)
    panels[0].set_ylabel("weight")
    panels[1].legend(loc="lower left")
