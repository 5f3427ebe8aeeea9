"""What a scale saves of a model's gradients in float16, and how a scaler finds its scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 5.6)
EXPONENTS = range(25)
STEPS, INTERVAL, LARGEST = 120, 10, 2.0**14  # above it, a scale makes the gradients inf

_Numbers = Annotated[list[float], msgspec.Meta(max_length=200)]


class Data(msgspec.Struct):
    """The lost part for each scale, and the scale of each step with the steps that were skipped."""

    lost: _Numbers
    scales: _Numbers
    skipped: _Numbers


def experiment(student: Any) -> dict[str, Any]:
    """The gradients of a small deep network, and a scaler on gradients that overflow above a limit."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(32, 1))
    (1e-4 * model(torch.randn(64, 32)).square().mean()).backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    lost = [float(student.underflow_fraction(gradients, 2.0**n)) for n in EXPONENTS]

    scaler = student.GradScaler(init_scale=2.0**10, growth_interval=INTERVAL)
    weight = nn.Parameter(torch.zeros(1))
    sgd = torch.optim.SGD([weight], lr=0.0)
    scales, skipped = [], []
    for step in range(STEPS):
        scales.append(float(scaler.get_scale()))
        weight.grad = torch.tensor([float("inf") if scales[-1] > LARGEST else 1.0])
        if not scaler.step(sgd):
            skipped.append(float(step))
        scaler.update()
    return {"lost": lost, "scales": scales, "skipped": skipped}


def draw(figure: FigureBase, data: Data) -> None:
    """The lost part above, the scale over the steps below."""
    from grader.student.plots.style import COLORS

    above, below = figure.subplots(2)
    scales = [2.0**n for n in EXPONENTS]
    above.plot(scales, data.lost, color=COLORS[0], marker="o", markersize=3)
    above.set_xscale("log", base=2)
    above.set(
        xlabel="scale", ylabel="lost in float16", title="A larger scale saves small gradients"
    )
    below.step(range(len(data.scales)), data.scales, where="post", color=COLORS[0], label="scale")
    heights = [data.scales[int(step)] for step in data.skipped]
    below.plot(data.skipped, heights, "x", color=COLORS[1], label="skipped step")
    below.set_yscale("log", base=2)
    below.set(xlabel="step", ylabel="scale", title="The scaler tries larger scales, and backs off")
    below.legend()
