"""Outputs of a Router, its trace and the student's script of it, over the mean of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (6.4, 4.0)
POINTS = 81

_Line = Annotated[list[float], msgspec.Meta(min_length=POINTS, max_length=POINTS)]


class Data(msgspec.Struct):
    """The output for each mean from -1 to 1."""

    router: _Line
    trace: _Line
    script: _Line


def experiment(student: Any) -> dict[str, Any]:
    """A router that doubles or negates; its trace has seen a batch whose mean is above 0."""
    import warnings

    import torch

    router = student.Router(1, 1)
    with torch.no_grad():
        for layer, factor in ((router.positive, 2.0), (router.negative, -1.0)):
            layer.weight.fill_(factor)
            layer.bias.zero_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trace = torch.jit.trace(router, torch.ones(2, 1))
        models = {"router": router, "trace": trace, "script": student.to_torchscript(router)}
    means = torch.linspace(-1, 1, POINTS)
    return {
        name: [model(mean.expand(2, 1))[0, 0].item() for mean in means]
        for name, model in models.items()
    }


def draw(figure: FigureBase, data: Data) -> None:
    """A line for each model; the script should lie on the router."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    means = [-1 + 2 * i / (POINTS - 1) for i in range(POINTS)]
    lines = {"Router": data.router, "its trace": data.trace, "its script": data.script}
    styles = (("-", 5), ("-", 2), ("--", 2))
    for (name, line), color, (style, width) in zip(lines.items(), COLORS, styles, strict=False):
        axes.plot(means, line, style, color=color, label=name, linewidth=width)
    axes.set(xlabel="mean of the batch", ylabel="output", title="A trace keeps one branch")
    axes.legend()
