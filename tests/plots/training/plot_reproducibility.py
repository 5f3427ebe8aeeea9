"""The losses of two trainings with one seed, and of one with another; and the orders of the epochs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (9.0, 4.2)
ROWS, EPOCHS = 24, 8

_Numbers = Annotated[list[float], msgspec.Meta(max_length=100)]
_Orders = Annotated[list[_Numbers], msgspec.Meta(max_length=20)]


class Data(msgspec.Struct):
    """The loss of each step of three trainings, of seeds 0, 0 and 1, and the rows of each epoch of one."""

    first: _Numbers
    again: _Numbers
    other: _Numbers
    orders: _Orders


def experiment(student: Any) -> dict[str, Any]:
    """A small network with dropout on shuffled batches, seeded by the student's functions."""
    import torch
    from torch import nn

    x = torch.linspace(-2, 2, ROWS)[:, None]
    orders: list[list[float]] = []

    def train(seed: int) -> list[float]:
        student.set_seed(seed)
        model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))
        sgd = torch.optim.SGD(model.parameters(), lr=0.05)
        loader = student.seeded_loader(torch.arange(ROWS), 6, seed)
        losses = []
        orders.clear()
        for _ in range(EPOCHS):
            orders.append([])
            for rows in loader:
                loss = nn.functional.mse_loss(model(x[rows]), torch.sin(2 * x[rows]))
                sgd.zero_grad()
                loss.backward()
                sgd.step()
                losses.append(loss.item())
                orders[-1] += rows.tolist()
        return losses

    return {"other": train(1), "first": train(0), "again": train(0), "orders": orders}


def draw(figure: FigureBase, data: Data) -> None:
    """Two lines on each other and a third beside them; each epoch a row of an image."""
    from grader.student.plots.style import COLORS

    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    left.plot(data.first, color=COLORS[1], linewidth=6, alpha=0.4, label="seed 0")
    left.plot(data.again, color=COLORS[0], label="seed 0, once more")
    left.plot(data.other, color=COLORS[2], linestyle="--", label="seed 1")
    left.set(xlabel="step", ylabel="loss", title="A seed repeats a training")
    left.legend()
    right.imshow(data.orders, aspect="auto", cmap="viridis")
    right.set(xlabel="position", ylabel="epoch", title="The row that comes at each position")
    right.grid(visible=False)
