"""Noise becomes a mixture of four normal distributions: points at five times, and the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 5.2)
POINTS, BATCH, UPDATES, STEPS = 400, 256, 250, 20
TIMES = (0.0, 0.25, 0.5, 0.75, 1.0)

_Coordinates = Annotated[list[float], msgspec.Meta(min_length=POINTS, max_length=POINTS)]
_Points = Annotated[list[_Coordinates], msgspec.Meta(min_length=2, max_length=2)]


class Data(msgspec.Struct):
    """The points at each time, x and y apart; data to compare with; the loss of each update."""

    points: Annotated[list[_Points], msgspec.Meta(min_length=len(TIMES), max_length=len(TIMES))]
    data: _Points
    losses: Annotated[list[float], msgspec.Meta(min_length=UPDATES, max_length=UPDATES)]


def experiment(student: Any) -> dict[str, Any]:
    """Train a small network on the mixture, and follow its velocity."""
    import torch
    from torch import nn

    class Velocity(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2)
            self.layers = nn.Sequential(*layers)
            self.seen: list[torch.Tensor] = []

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> Any:
            if not self.training:
                self.seen.append(x.detach().clone())
            return self.layers(torch.cat([x, t.reshape(-1, 1)], dim=1))

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)

    def mixture(rows: int) -> torch.Tensor:
        angle = torch.randint(4, (rows,), generator=generator) * (torch.pi / 2)
        centers = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
        return centers + 0.15 * torch.randn(rows, 2, generator=generator)

    model, losses = Velocity(), []
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(UPDATES):
        loss = student.flow_matching_loss(model, mixture(BATCH), generator)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    last = student.sample(model, torch.randn(POINTS, 2, generator=generator), STEPS)
    path = [*model.seen, last]
    points = [path[round(time * (len(path) - 1))].T.tolist() for time in TIMES]
    return {"points": points, "data": mixture(POINTS).T.tolist(), "losses": losses}


def draw(figure: FigureBase, data: Data) -> None:
    """Points from noise to samples and the data beside them above, the loss below."""
    from grader.student.plots.style import COLORS

    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.3], squeeze=False)[:, 0]
    titles = [f"t = {time:g}" for time in TIMES]
    panels = above.subplots(1, len(TIMES) + 1, sharex=True, sharey=True)
    for axes, title, (x, y) in zip(
        panels, [*titles, "data"], [*data.points, data.data], strict=True
    ):
        axes.plot(x, y, ".", color=COLORS[title == "data"], markersize=2)
        axes.set(title=title, aspect="equal", xlim=(-3, 3), ylim=(-3, 3), xticks=[], yticks=[])
    axes = below.subplots()
    axes.plot(data.losses, color=COLORS[0], linewidth=0.8)
    axes.set(xlabel="update", ylabel="loss", title="The loss never gets to 0: many lines cross")
