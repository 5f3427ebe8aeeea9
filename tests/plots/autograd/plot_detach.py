"""A parameter of net that jumps, and that of target_net, which soft updates move after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.2, 3.8)
STEPS = 120
TAUS = (0.02, 0.1)

_Line = Annotated[list[float], msgspec.Meta(min_length=STEPS, max_length=STEPS)]


class Data(msgspec.Struct):
    """Over the steps: the parameter of net, and that of target_net for each tau."""

    net: _Line
    targets: Annotated[list[_Line], msgspec.Meta(min_length=len(TAUS), max_length=len(TAUS))]


def experiment(student: Any) -> dict[str, Any]:
    """A soft update at each step; the parameter jumps to 1, and later back to 0.4."""
    import torch
    from torch import nn

    def network(value: float) -> nn.Linear:
        layer = nn.Linear(1, 1, bias=False)
        nn.init.constant_(layer.weight, value)
        return layer

    own = [0.0 if step < 10 else 1.0 if step < 70 else 0.4 for step in range(STEPS)]
    targets = []
    for tau in TAUS:
        target_net, values = network(0.0), []
        for value in own:
            student.soft_update(target_net, network(value), tau)
            values.append(float(target_net.weight.detach()))
        targets.append(values)
    assert all(torch.tensor(values).isfinite().all() for values in targets), "no finite numbers"
    return {"net": own, "targets": targets}


def draw(figure: FigureBase, data: Data) -> None:
    """Both targets follow the jumps of net, the more slowly the smaller tau is."""
    from grader.student.plots.style import BLUE, GRAY, VERMILION

    axes = figure.subplots()
    axes.step(range(STEPS), data.net, where="post", color=GRAY, label="net")
    for tau, values, color in zip(TAUS, data.targets, (BLUE, VERMILION), strict=True):
        axes.plot(range(STEPS), values, color=color, label=f"target_net, tau = {tau:g}")
    axes.set(xlabel="step", ylabel="the parameter", title="A target network follows slowly")
    axes.legend()
