"""The gradient norm of each block of a deep stack, with skip connections and without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
BLOCKS = 30

_Norms = Annotated[list[float], msgspec.Meta(min_length=BLOCKS, max_length=BLOCKS)]


class Data(msgspec.Struct):
    """The norm of the gradient of each block's bias: of the student's stack, and of the plain chain."""

    stack: _Norms
    chain: _Norms


def experiment(student: Any) -> dict[str, Any]:
    """One backward pass through the same blocks, Linear and tanh, in the stack and in a row."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    layers = [nn.Linear(32, 32) for _ in range(BLOCKS)]
    with torch.no_grad():
        for layer in layers:
            layer.weight.copy_(torch.randn(32, 32, generator=generator) * 0.6 / 32**0.5)
            layer.bias.zero_()
    blocks = [nn.Sequential(layer, nn.Tanh()) for layer in layers]
    x, target = torch.randn(2, 64, 32, generator=generator)

    def norms(model: nn.Module) -> list[float]:
        for layer in layers:
            layer.bias.grad = None
        (model(x) - target).square().mean().backward()
        gradients = [layer.bias.grad for layer in layers]
        return [0.0 if grad is None else float(grad.norm()) for grad in gradients]

    return {"stack": norms(student.ResidualStack(blocks)), "chain": norms(nn.Sequential(*blocks))}


def draw(figure: FigureBase, data: Data) -> None:
    """One line for each model, over the blocks from the input to the output."""
    axes = figure.subplots()
    _draw_line(axes, data.stack, "with skip connections (ResidualStack)", 0)
    _draw_line(axes, data.chain, "without (nn.Sequential)", 1)
    axes.set(
        yscale="log",
        xlabel="block, from the input to the output",
        ylabel="norm of the gradient of its bias",
        title="What reaches the first blocks of a deep stack",
    )
    axes.legend()


def _draw_line(axes: Axes, norms: list[float], label: str, number: int) -> None:
    from grader.student.plots.style import COLORS

    # A block that no gradient reaches is a gap.
    shown = [norm if norm > 0 else float("nan") for norm in norms]
    axes.plot(range(len(shown)), shown, marker="o", markersize=3, label=label, color=COLORS[number])
