"""Training and validation loss over the epochs of a fit, with the best epoch marked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
PATIENCE = 12

_Numbers = Annotated[list[float], msgspec.Meta(max_length=200)]


class Data(msgspec.Struct):
    """The history of the fit, and the validation loss of the model that it left."""

    train_loss: _Numbers
    val_loss: _Numbers
    left: float


def experiment(student: Any) -> dict[str, Any]:
    """A network with many weights on few rows, some of which have a wrong label: it will overfit."""
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    torch.manual_seed(0)
    x = torch.randn(144, 6)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
    y = torch.where(torch.rand(144) < 0.15, 1 - y, y)
    train = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=16, shuffle=True)
    val = DataLoader(TensorDataset(x[48:], y[48:]), batch_size=36)
    model = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 2))
    adam = torch.optim.Adam(model.parameters(), lr=5e-3)
    loss_fn = nn.functional.cross_entropy
    history = student.fit(model, train, val, loss_fn, adam, 100, PATIENCE)
    losses = {name: [float(loss) for loss in history[name]] for name in ("train_loss", "val_loss")}
    return {**losses, "left": float(student.evaluate(model, val, loss_fn)[0])}


def draw(figure: FigureBase, data: Data) -> None:
    """Both losses; a line marks the best epoch, and a cross the loss of the model in the end."""
    from matplotlib.ticker import MaxNLocator

    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    for i, (label, losses) in enumerate(
        (("training loss", data.train_loss), ("validation loss", data.val_loss))
    ):
        epochs = range(1, len(losses) + 1)
        axes.plot(epochs, losses, color=COLORS[i], marker="o", markersize=3, label=label)
    finite = [loss if math.isfinite(loss) else math.inf for loss in data.val_loss]
    best = finite.index(min(finite)) + 1 if finite else 0
    axes.axvline(best, color="0.5", linewidth=1, linestyle="--", label=f"best epoch: {best}")
    label = "validation loss of the model afterwards"
    axes.plot(
        [best], [data.left], color="0.1", marker="x", markersize=10, linestyle="", label=label
    )
    axes.set(
        xlabel="epoch",
        ylabel="loss",
        title=f"patience={PATIENCE}, and back to the weights of the best epoch",
    )
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.legend()
