"""The losses of one training, and of two that were interrupted: with and without the optimizer's state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
EPOCHS, STOP = 24, 10

_Losses = Annotated[list[float], msgspec.Meta(max_length=100)]


class Data(msgspec.Struct):
    """The loss of each epoch: of the whole training, and after the stop of the two that were resumed."""

    whole: _Losses
    resumed: _Losses
    without: _Losses


def experiment(student: Any) -> dict[str, Any]:
    """A small network with momentum and noise, saved after some epochs, and resumed by new objects."""
    import tempfile
    from pathlib import Path

    import torch
    from torch import nn

    x = torch.linspace(-1, 1, 90).reshape(30, 3)
    y = torch.sin(3 * x.sum(1, keepdim=True))

    def new() -> tuple[Any, Any]:
        model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
        return model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.95)

    def train(model: Any, sgd: Any, epochs: int) -> list[float]:
        losses = []
        for _ in range(epochs):
            loss = nn.functional.mse_loss(model(x + 0.1 * torch.randn(30, 3)), y)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            losses.append(loss.item())
        return losses

    torch.manual_seed(0)
    model, sgd = new()
    whole = train(model, sgd, STOP)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.pt"
        student.save_checkpoint(path, model, sgd, STOP - 1)
        whole += train(model, sgd, EPOCHS - STOP)
        model, sgd = new()
        first = student.load_checkpoint(path, model, sgd)
        resumed = train(model, sgd, EPOCHS - first)
        model, sgd = new()
        student.load_checkpoint(path, model)
        without = train(model, sgd, EPOCHS - STOP)
    return {"whole": whole, "resumed": resumed, "without": without}


def draw(figure: FigureBase, data: Data) -> None:
    """One line, a second one on it if all is restored, and a third that starts anew."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    axes.plot(data.whole, color=COLORS[1], linewidth=6, alpha=0.4, label="never interrupted")
    for losses, color, label in (
        (data.resumed, COLORS[0], "resumed by load_checkpoint"),
        (data.without, COLORS[2], "only the model was loaded: no momentum, other noise"),
    ):
        axes.plot(range(STOP, STOP + len(losses)), losses, color=color, label=label)
    axes.axvline(STOP - 0.5, color="gray", linestyle="--", linewidth=1)
    axes.set(xlabel="epoch", ylabel="loss", title="Resumed bit for bit, or almost")
    axes.legend()
