"""The loss of a small classifier whose cross_entropy gets logits, and of one where it gets probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.4)
CLASSES, ROWS, EPOCHS, RATE = 10, 200, 120, 2.0

_Losses = Annotated[list[float], msgspec.Meta(max_length=EPOCHS)]


class Data(msgspec.Struct):
    """The loss of each epoch with logits and with probabilities; floor None: not written yet."""

    logits: _Losses
    probabilities: _Losses
    floor: float | None


def experiment(student: Any) -> dict[str, Any]:
    """Train the same layer twice, by gradient descent, on ten well separated classes."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(ROWS) % CLASSES
    x = 2 * torch.eye(CLASSES)[targets] + 0.3 * torch.randn(ROWS, CLASSES, generator=generator)

    def train(double: bool) -> list[float]:
        torch.manual_seed(0)
        model = nn.Linear(CLASSES, CLASSES)
        losses: list[float] = []
        for _ in range(EPOCHS):
            outputs = model(x)
            loss = student.cross_entropy(outputs.softmax(dim=1) if double else outputs, targets)
            gradients = torch.autograd.grad(loss, list(model.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                    parameter.sub_(RATE * gradient)
            losses.append(loss.item())
        return losses

    try:
        floor = float(student.double_softmax_floor(CLASSES))
    except NotImplementedError:
        floor = None
    return {"logits": train(False), "probabilities": train(True), "floor": floor}


def draw(figure: FigureBase, data: Data) -> None:
    """Two lines: one goes to zero, the other one gets stuck at the floor."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    epochs = range(1, len(data.logits) + 1)
    axes.plot(epochs, data.logits, color=COLORS[0], label="cross_entropy gets logits")
    label = "cross_entropy gets probabilities: a double softmax"
    axes.plot(epochs, data.probabilities, color=COLORS[1], label=label)
    if data.floor is not None:
        label = f"double_softmax_floor({CLASSES}): {data.floor:.3f}"
        axes.axhline(data.floor, color="0.4", linestyle="--", linewidth=1, label=label)
    axes.set(xlabel="epoch", ylabel="loss", title="A softmax too many")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
