"""The losses of accumulated training and of training on the big batches, one on the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
ROWS, SMALL, STEPS, EPOCHS = 120, 16, 3, 6  # 8 small batches an epoch, the last one of 8 rows

_Losses = Annotated[list[float], msgspec.Meta(max_length=100)]


class Data(msgspec.Struct):
    """The loss of each step: of the student's train_epoch, and of ordinary training on big batches."""

    accumulated: _Losses
    big: _Losses


def experiment(student: Any) -> dict[str, Any]:
    """The same small network twice: groups of three small batches, and one big batch for each group."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 4, generator=generator)
    y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(ROWS, 1, generator=generator)

    def batches(size: int) -> list[Any]:
        return list(zip(x.split(size), y.split(size), strict=True))

    def train(epoch: Any) -> list[float]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return [float(loss) for _ in range(EPOCHS) for loss in epoch(model, sgd)]

    def big_epoch(model: nn.Module, sgd: Any) -> list[float]:
        losses = []
        for inputs, targets in batches(SMALL * STEPS):
            loss = nn.functional.mse_loss(model(inputs), targets)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            losses.append(loss.item())
        return losses

    def small_epoch(model: nn.Module, sgd: Any) -> Any:
        return student.train_epoch(model, batches(SMALL), nn.functional.mse_loss, sgd, STEPS)

    return {"accumulated": train(small_epoch), "big": train(big_epoch)}


def draw(figure: FigureBase, data: Data) -> None:
    """Two lines, which are one if both are the same training."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    label = f"batches of {SMALL * STEPS} rows"
    axes.plot(data.big, color=COLORS[1], linewidth=6, alpha=0.4, label=label)
    label = f"train_epoch: groups of {STEPS} batches of {SMALL} rows"
    axes.plot(data.accumulated, color=COLORS[0], marker="o", markersize=3, label=label)
    axes.set(
        xticks=range(0, len(data.big), 3),
        xlabel="optimizer step",
        ylabel="loss",
        title="Accumulated gradients make the steps of the big batch",
    )
    axes.legend()
