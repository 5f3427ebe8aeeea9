"""The graphs that live on after each batch: with losses.append(loss), and with the student's history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.2, 3.8)
BATCHES = 20

_Counts = Annotated[list[int], msgspec.Meta(min_length=BATCHES, max_length=BATCHES)]


class Data(msgspec.Struct):
    """The number of live graphs after each batch."""

    appended: _Counts
    history: _Counts


def experiment(student: Any) -> dict[str, Any]:
    """The same losses twice, each dropped after its batch: one of them is in a list, one in a history."""
    import weakref

    import torch

    class Marked(torch.autograd.Function):
        """The identity; its node holds a function, which lives as long as the graph."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.token = lambda: None
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output

    def live_graphs(keep: Any) -> list[int]:
        tokens: weakref.WeakSet[Any] = weakref.WeakSet()
        counts = []
        for i in range(BATCHES):
            x = torch.tensor(1 / (i + 1), requires_grad=True)
            loss = Marked.apply(x)  # type: ignore[no-untyped-call]
            tokens.add(loss.grad_fn.token)
            keep(loss)
            del loss
            counts.append(len(tokens))
        return counts

    losses: list[Any] = []
    appended = live_graphs(losses.append)
    return {"appended": appended, "history": live_graphs(student.LossHistory().update)}


def draw(figure: FigureBase, data: Data) -> None:
    """A line that grows with every batch, and one that should stay at 0."""
    from matplotlib.ticker import MaxNLocator

    from grader.student.plots.style import BLUE, VERMILION

    axes, batches = figure.subplots(), range(1, BATCHES + 1)
    axes.plot(batches, data.appended, color=VERMILION, marker="o", label="losses.append(loss)")
    axes.plot(batches, data.history, color=BLUE, marker="o", label="LossHistory")
    axes.set(
        xticks=range(0, BATCHES + 1, 5),
        xlabel="batch",
        ylabel="graphs in memory",
        title="A history that keeps no graph",
    )
    axes.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes.legend()
