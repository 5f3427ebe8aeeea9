"""A small network that learns two moons, with the gradients of the student's Values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 3.8)
POINTS, WIDTH, STEPS, RATE, SIDE = 120, 16, 300, 0.04, 40
EDGES = (-1.6, 2.6, -1.2, 1.7)

_Row = Annotated[list[float], msgspec.Meta(min_length=SIDE, max_length=SIDE)]
_Points = Annotated[list[float], msgspec.Meta(min_length=POINTS, max_length=POINTS)]


class Data(msgspec.Struct):
    """The points, the loss of each step, and the network's output on a grid."""

    x: _Points
    y: _Points
    losses: Annotated[list[float], msgspec.Meta(min_length=STEPS, max_length=STEPS)]
    grid: Annotated[list[_Row], msgspec.Meta(min_length=SIDE, max_length=SIDE)]


def experiment(student: Any) -> dict[str, Any]:
    """Train on squared errors, by plain gradient descent."""
    import torch

    generator = torch.Generator().manual_seed(0)
    angles = torch.linspace(0, torch.pi, POINTS // 2)
    upper = torch.stack([angles.cos(), angles.sin()], 1)
    points = torch.cat([upper, torch.tensor([1.0, 0.4]) - upper])
    points += 0.12 * torch.randn(POINTS, 2, generator=generator)
    labels = torch.cat([torch.ones(POINTS // 2, 1), -torch.ones(POINTS // 2, 1)]).double()

    def drawn(*shape: int) -> Any:
        return torch.randn(*shape, generator=generator).double() / shape[0] ** 0.5

    shapes = (2, WIDTH), (WIDTH,), (WIDTH, WIDTH), (WIDTH,), (WIDTH, 1), (1,)
    numbers = [drawn(*shape) for shape in shapes]

    def forward(x: Any, values: list[Any]) -> Any:
        hidden = (student.Value(x.double()) @ values[0] + values[1]).relu()
        return (hidden @ values[2] + values[3]).relu() @ values[4] + values[5]

    losses = []
    for _ in range(STEPS):
        values = [student.Value(each) for each in numbers]
        error = forward(points, values) - student.Value(labels)
        loss = (error * error).sum() * (1 / POINTS)
        loss.backward()
        losses.append(float(loss.data))
        numbers = [n - RATE * value.grad for n, value in zip(numbers, values, strict=True)]
    left, right, low, high = EDGES
    across, up = torch.linspace(left, right, SIDE), torch.linspace(low, high, SIDE)
    grid = torch.stack([across.repeat(SIDE), up.repeat_interleave(SIDE)], 1)
    output = forward(grid, [student.Value(each) for each in numbers]).data.reshape(SIDE, SIDE)
    return {
        "x": points[:, 0].tolist(),
        "y": points[:, 1].tolist(),
        "losses": losses,
        "grid": output.tolist(),
    }


def draw(figure: FigureBase, data: Data) -> None:
    """The loss on the left, the points and the network's output on the right."""
    from grader.student.plots.style import COLORS

    left, right = figure.subplots(1, 2)
    left.plot(range(1, STEPS + 1), data.losses, color=COLORS[0])
    left.set(xlabel="step", ylabel="loss", title="Squared error", yscale="log")
    right.imshow(
        data.grid, extent=EDGES, origin="lower", cmap="RdBu", vmin=-2, vmax=2, aspect="auto"
    )
    half = POINTS // 2
    right.scatter(data.x[:half], data.y[:half], s=8, color=COLORS[0])
    right.scatter(data.x[half:], data.y[half:], s=8, color=COLORS[1])
    right.set(title="What the network learned")
    right.grid(visible=False)
