"""What networks of more and more layers save for the backward pass, plain and checkpointed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (6.6, 4.2)
WIDTH, ROWS = 64, 256
DEPTHS = (1, 2, 4, 6, 8, 12)

_Counts = Annotated[list[int], msgspec.Meta(max_length=20)]


class Data(msgspec.Struct):
    """The student's saved_bytes for each depth, of the plain loop and of checkpointed_forward."""

    plain: _Counts
    checkpointed: _Counts


def experiment(student: Any) -> dict[str, Any]:
    """Blocks of a linear layer, GELU, dropout and another linear layer, each WIDTH wide."""
    import torch
    from torch import nn

    def block() -> nn.Module:
        parts = (nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH))
        return nn.Sequential(*parts)

    def plain(layers: list[nn.Module], x: Any) -> Any:
        return nn.Sequential(*layers)(x)

    def count(f: Any) -> list[int]:
        counts = []
        for depth in DEPTHS:
            layers = [block() for _ in range(depth)]
            parameters = [parameter for layer in layers for parameter in layer.parameters()]
            x = torch.ones(ROWS, WIDTH)
            counts.append(student.saved_bytes(f, layers, x, exclude=parameters))
        return counts

    return {"plain": count(plain), "checkpointed": count(student.checkpointed_forward)}


def draw(figure: FigureBase, data: Data) -> None:
    """Two lines over the number of layers, and that of the layers' inputs alone."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    kib = [depth * ROWS * WIDTH * 4 / 1024 for depth in DEPTHS]
    axes.plot(DEPTHS, kib, color=COLORS[2], linewidth=6, alpha=0.4, label="the layers' inputs")
    for i, (label, counts) in enumerate(
        {"plain loop": data.plain, "checkpointed_forward": data.checkpointed}.items()
    ):
        values = [count / 1024 for count in counts]
        axes.plot(DEPTHS, values, color=COLORS[i], marker="o", markersize=4, label=label)
    axes.set(
        xlabel="layers",
        ylabel="saved for the backward pass (KiB)",
        title="A checkpoint saves what goes into a layer, not its inside",
        ylim=(0, None),
    )
    axes.legend()
