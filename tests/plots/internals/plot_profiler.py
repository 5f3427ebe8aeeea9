"""Where the time of a training step goes: its top operators, by their self time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 4.6)
COUNT = 10

_Name = Annotated[str, msgspec.Meta(max_length=80)]
_Operator = tuple[_Name, int, float]


class Data(msgspec.Struct):
    """Name, calls and self time in microseconds of each operator, the largest first."""

    operators: Annotated[list[_Operator], msgspec.Meta(max_length=COUNT)]


def experiment(student: Any) -> dict[str, Any]:
    """Ten training steps of a small network, after three that warm up."""
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters())
    inputs, targets = torch.randn(128, 64), torch.randint(10, (128,))

    def train(steps: int) -> None:
        for _ in range(steps):
            student.train_step(model, nn.functional.cross_entropy, optimizer, inputs, targets)

    train(3)
    stats = student.profile_operators(lambda: train(10), COUNT)
    return {"operators": [[s.name[:80], s.calls, s.self_cpu_time] for s in stats]}


def draw(figure: FigureBase, data: Data) -> None:
    """A bar for each operator, with its number of calls."""
    from grader.student.plots.style import CAPTION, COLORS, machine_words

    figure.supxlabel(f"One run on {machine_words()}: another run, other times.", **CAPTION)
    axes = figure.subplots()
    names = [f"{name} ({calls}x)" for name, calls, _ in data.operators]
    times = [time / 1000 for *_, time in data.operators]
    axes.barh(range(len(names)), times, color=COLORS[0])
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="self CPU time of ten training steps (ms)", title="Where the time goes")
