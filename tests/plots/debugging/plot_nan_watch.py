"""The norm of each parameter's gradient in a deep network of sigmoids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
LAYERS = 10


class Data(msgspec.Struct):
    """The names and norms of the weights, from the input to the output."""

    names: Annotated[list[str], msgspec.Meta(min_length=LAYERS, max_length=LAYERS)]
    norms: Annotated[list[float], msgspec.Meta(min_length=LAYERS, max_length=LAYERS)]


def experiment(student: Any) -> dict[str, Any]:
    """Measure the gradients after one backward pass."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(32, 32), nn.Sigmoid()]
    model = nn.Sequential(*layers)
    model(torch.randn(64, 32)).square().mean().backward()
    norms = student.gradient_norms(model)
    names = [name for name in norms if name.endswith("weight")]
    return {"names": names, "norms": [float(norms[name]) for name in names]}


def draw(figure: FigureBase, data: Data) -> None:
    """A bar for each weight on a logarithmic axis."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    axes.bar(data.names, data.norms, color=COLORS[0])
    axes.set(yscale="log", xlabel="parameter, from input to output", ylabel="norm of the gradient")
    axes.tick_params(axis="x", labelrotation=45)
    axes.grid(visible=False, axis="x")
    figure.suptitle("Ten layers of sigmoids: the gradient vanishes towards the input")
