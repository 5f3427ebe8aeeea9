"""DPO's loss over the margin, and its gradient: which pairs it learns from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 5.6)
POINTS, LIMIT = 161, 40.0
BETAS = (0.05, 0.1, 0.5)

_Line = Annotated[list[float], msgspec.Meta(min_length=POINTS, max_length=POINTS)]


class Data(msgspec.Struct):
    """For each beta: the loss, and how strongly it pushes the chosen answer up."""

    losses: Annotated[list[_Line], msgspec.Meta(max_length=len(BETAS))]
    pushes: Annotated[list[_Line], msgspec.Meta(max_length=len(BETAS))]


def experiment(student: Any) -> dict[str, Any]:
    """One pair after the other, where all of the margin comes from the chosen answer."""
    import torch

    data: dict[str, Any] = {"losses": [], "pushes": []}
    zero = torch.zeros(1)
    for beta in BETAS:
        losses, pushes = [], []
        for margin in torch.linspace(-LIMIT, LIMIT, POINTS):
            chosen = margin.reshape(1).requires_grad_()
            loss = student.dpo_loss(chosen, zero, zero, zero, beta)[0]
            (gradient,) = torch.autograd.grad(loss, chosen)
            losses.append(loss.item())
            pushes.append(-gradient.item())
        data["losses"].append(losses)
        data["pushes"].append(pushes)
    return data


def draw(figure: FigureBase, data: Data) -> None:
    """The loss above, the push below; a line for each beta."""
    from grader.student.plots.style import COLORS

    margins = [-LIMIT + 2 * LIMIT * i / (POINTS - 1) for i in range(POINTS)]
    losses, pushes = figure.subplots(2, 1, sharex=True)
    for beta, loss, push, color in zip(BETAS, data.losses, data.pushes, COLORS, strict=False):
        losses.plot(margins, loss, color=color, label=f"beta = {beta}")
        pushes.plot(margins, push, color=color, label=f"beta = {beta}")
    losses.set(ylabel="loss", title="The loss of a pair")
    title = "How strongly it pushes: pairs that are right already teach little"
    pushes.set(xlabel="margin over the reference", ylabel="-gradient of chosen", title=title)
    losses.legend()
