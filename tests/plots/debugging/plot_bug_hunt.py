"""Training on sorted blobs: what the student's fit makes of it, beside the stub as it was handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (8.0, 3.6)
EPOCHS = 12
# Of the stub, on the same data: written down, as the stub does not run here.
STUB_LOSS = [1.556, *[1.503] * (EPOCHS - 1)]
STUB_ACCURACY = [0.25] * EPOCHS

_Line = Annotated[list[float], msgspec.Meta(min_length=EPOCHS, max_length=EPOCHS)]


class Data(msgspec.Struct):
    """Training loss and accuracy by epoch."""

    loss: _Line
    accuracy: _Line


def experiment(student: Any) -> dict[str, Any]:
    """Four blobs in the plane, sorted by class, and a small network with batch norm and dropout."""
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset

    torch.manual_seed(0)
    centers = torch.tensor([[2.0, 0.0], [0.0, 2.0], [-2.0, 0.0], [0.0, -2.0]])
    labels = torch.arange(4).repeat_interleave(100)
    blobs = [TensorDataset(centers[labels] + torch.randn(400, 2), labels) for _ in range(2)]
    layers = (nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    history = student.fit(nn.Sequential(*layers), *blobs, epochs=EPOCHS, seed=0)
    return {"loss": list(history["train_loss"]), "accuracy": list(history["accuracy"])}


def draw(figure: FigureBase, data: Data) -> None:
    """The loss on the left, the accuracy on the right."""
    from grader.student.plots.style import BLUE, GRAY

    epochs = range(1, EPOCHS + 1)
    left, right = figure.subplots(1, 2)
    panels = (
        (left, data.loss, STUB_LOSS, "training loss"),
        (right, data.accuracy, STUB_ACCURACY, "validation accuracy"),
    )
    for axes, own, stub, label in panels:
        axes.plot(epochs, stub, color=GRAY, linestyle="--", label="the stub")
        axes.plot(epochs, own, color=BLUE, marker="o", markersize=3, label="fit")
        axes.set(xlabel="epoch", ylabel=label)
        axes.legend()
