"""The factors of some schedules over the steps, and the rates that a training used as dots on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.2)
TOTAL, EPOCHS, BATCHES = 60, 9, 8  # the training lasts longer than the schedule
SETTINGS = [(10, 0.1), (0, 0.0), (30, 0.3)]  # warmup_steps and min_factor

_Numbers = Annotated[list[float], msgspec.Meta(max_length=200)]


class Data(msgspec.Struct):
    """The factors of each setting at each step, and the rates of the training's steps."""

    factors: Annotated[list[_Numbers], msgspec.Meta(max_length=9)]
    rates: _Numbers


def experiment(student: Any) -> dict[str, Any]:
    """The student's factors, and a training of a small model with base rate 1 and the first setting."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    steps = range(EPOCHS * BATCHES + 8)
    factors = [
        [float(student.warmup_cosine(i, TOTAL, *setting)) for i in steps] for setting in SETTINGS
    ]
    model = nn.Linear(2, 1)
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = student.warmup_cosine_scheduler(sgd, TOTAL, *SETTINGS[0])
    loader = [(torch.randn(4, 2), torch.randn(4, 1)) for _ in range(BATCHES)]
    loss_fn = nn.functional.smooth_l1_loss
    rates = student.train_with_schedule(model, loader, loss_fn, sgd, scheduler, EPOCHS)
    return {"factors": factors, "rates": [float(rate) for rate in rates]}


def draw(figure: FigureBase, data: Data) -> None:
    """A line for each setting; the dots lie on the first one."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    for i, (factors, (warmup, low)) in enumerate(zip(data.factors, SETTINGS, strict=True)):
        label = f"warmup_steps={warmup}, min_factor={low}"
        axes.plot(factors, color=COLORS[i], linewidth=1.5, label=label)
    label = "rates of a training, base rate 1"
    axes.plot(data.rates, color=COLORS[0], marker="o", markersize=3, linestyle="", label=label)
    axes.axvline(TOTAL, color="0.7", linewidth=0.8, zorder=0)
    axes.set(
        xlabel="step",
        ylabel="factor of the base learning rate",
        title=f"Up in even steps, down along half a cosine, until total_steps={TOTAL}",
    )
    axes.legend()
