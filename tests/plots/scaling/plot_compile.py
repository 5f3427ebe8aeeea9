"""New graphs for each of ten batch sizes, for the three values of `dynamic`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (6.4, 4.6)
# torch.compile gives up after eight compilations of one function.
SIZES = (8, 8, 16, 24, 24, 32, 48, 8, 64, 7)

_Counts = Annotated[
    list[Annotated[int, msgspec.Meta(ge=0, le=100)]],
    msgspec.Meta(min_length=len(SIZES), max_length=len(SIZES)),
]


class Data(msgspec.Struct):
    """New graphs of each call, for `dynamic` None, False and True."""

    automatic: _Counts
    fixed: _Counts
    variable: _Counts


def experiment(student: Any) -> dict[str, Any]:
    """Count what a layer with a softmax compiles for batches of these sizes."""
    import torch

    weight = torch.ones(4, 3)

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x @ weight).softmax(-1)

    calls = [(torch.ones(size, 4),) for size in SIZES]
    return {
        name: student.compilations(f, calls, dynamic)
        for name, dynamic in {"automatic": None, "fixed": False, "variable": True}.items()
    }


def draw(figure: FigureBase, data: Data) -> None:
    """A row of bars for each value of `dynamic`."""
    from matplotlib.ticker import MaxNLocator

    from grader.student.plots.style import COLORS

    rows = {"None": data.automatic, "False": data.fixed, "True": data.variable}
    axes = figure.subplots(len(rows), sharex=True)
    for part, (name, counts), color in zip(axes, rows.items(), COLORS, strict=False):
        part.bar(range(len(SIZES)), counts, color=color)
        part.set(ylim=(0, max(1.2, *counts)), title=f"dynamic={name}: {sum(counts)} in all")
        part.set_ylabel("new graphs")
        part.grid(visible=False, axis="x")
        part.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    axes[-1].set_xticks(range(len(SIZES)), [str(size) for size in SIZES])
    axes[-1].set_xlabel("batch size of each call, in order")
    figure.suptitle("What each batch size compiles")
