"""Histograms of the activations of a deep network, layer by layer, for two scales of its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.6)
LAYERS, BINS = 5, 41
SCALES = {"small": 0.6, "large": 1.8}

_Counts = Annotated[list[float], msgspec.Meta(min_length=BINS, max_length=BINS)]
_Layers = Annotated[list[_Counts], msgspec.Meta(min_length=LAYERS, max_length=LAYERS)]


class Data(msgspec.Struct):
    """For each scale of the weights, the shares of the activations of each tanh in bins from -1 to 1."""

    small: _Layers
    large: _Layers


def experiment(student: Any) -> dict[str, Any]:
    """Capture what each tanh of a network gives for random inputs."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(256, 64, generator=generator)
    names = [str(2 * i + 1) for i in range(LAYERS)]

    def shares(scale: float) -> list[list[float]]:
        layers: list[nn.Module] = []
        for _ in range(LAYERS):
            layers += [nn.Linear(64, 64, bias=False), nn.Tanh()]
        model = nn.Sequential(*layers)
        with torch.no_grad():
            for weight in model.parameters():
                weight.copy_(torch.randn(64, 64, generator=generator) * scale / 64**0.5)
        with student.capture_activations(model, names) as activations:
            model(x)
        return [
            (torch.histc(activations[name], BINS, -1, 1) / activations[name].numel()).tolist()
            for name in names
        ]

    return {name: shares(scale) for name, scale in SCALES.items()}


def draw(figure: FigureBase, data: Data) -> None:
    """A row for each scale, a histogram for each layer."""
    from grader.student.plots.style import COLORS

    rows = figure.subplots(2, LAYERS, sharex=True, sharey="row")
    centers = [-1 + (2 * i + 1) / BINS for i in range(BINS)]
    for axes, (name, layers), color in zip(
        rows, {"small": data.small, "large": data.large}.items(), COLORS, strict=False
    ):
        for i, (part, counts) in enumerate(zip(axes, layers, strict=True)):
            part.bar(centers, counts, width=2 / BINS, color=color)
            part.set(title=f"tanh {i + 1}" if name == "small" else "")
        axes[0].set_ylabel(f"{name} weights\nshare of the activations")
        axes[LAYERS // 2].set_xlabel("" if name == "small" else "activation")
    figure.suptitle("What each layer gives: all near 0, or all at the ends")
