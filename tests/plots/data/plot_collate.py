"""A padded batch, its mask, and how much of each batch of an epoch is padding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

SIZE = (7.4, 7.2)
LENGTHS = (9, 17, 24, 5, 13, 20, 2, 15)
EPOCH = 64
BATCH = 8
PADDING = 0.0


_Values = Annotated[list[float], msgspec.Meta(max_length=100)]
# Of the wrong dtype they are drawn all the same: a picture is no test.
_Flags = Annotated[list[bool | float], msgspec.Meta(max_length=100)]
_Numbers = Annotated[list[float], msgspec.Meta(max_length=100)]


class Data(msgspec.Struct):
    """A batch, and real steps and all steps of each batch of an epoch (None: not written yet)."""

    values: Annotated[list[_Values], msgspec.Meta(min_length=1, max_length=100)]
    mask: Annotated[list[_Flags], msgspec.Meta(min_length=1, max_length=100)]
    lengths: _Numbers
    labels: _Numbers | None
    epoch: Annotated[list[tuple[int, int]], msgspec.Meta(max_length=100)] | None


def experiment(student: Any) -> dict[str, Any]:
    """Eight waves of different lengths; then an epoch of sixty-four."""
    import torch

    def wave(length: int, phase: float) -> torch.Tensor:
        return torch.sin(torch.arange(length) * 0.6 + phase) + 1.5

    batch = student.pad_collate([(wave(n, i), i % 3) for i, n in enumerate(LENGTHS)], PADDING)
    return {
        "values": batch.sequences.tolist(),
        "mask": batch.mask.tolist(),
        "lengths": batch.lengths.tolist(),
        "labels": None if batch.labels is None else batch.labels.tolist(),
        "epoch": _epoch(student, [wave(1 + 7 * i % 40, i) for i in range(EPOCH)]),
    }


def _epoch(student: Any, items: list[Any]) -> list[list[int]] | None:
    try:
        loader = student.make_loader(items, BATCH, shuffle=True, padding_value=PADDING, seed=0)
    except NotImplementedError:
        return None
    return [[int(batch.mask.sum()), batch.mask.numel()] for batch in loader]


def draw(figure: FigureBase, data: Data) -> None:
    """The batch, the mask beside it, the epoch below."""
    above, below = figure.subfigures(2, 1, height_ratios=[1.35, 1])  # type: ignore[misc]  # typed as if it were one
    values, mask = above.subplots(2, 1, sharex=True)
    _draw_values(values, above, data)
    _draw_mask(mask, data)
    _draw_epoch(below.subplots(), data.epoch)


def _grid(axes: Axes, data: Data) -> None:
    rows, columns = len(data.values), max(map(len, data.values))
    axes.grid(visible=False)
    axes.set_yticks(range(rows))
    axes.set(ylabel="sequence", xlim=(-0.5, max(columns, 1) - 0.5))


def _draw_values(axes: Axes, figure: FigureBase, data: Data) -> None:
    shown = axes.imshow(data.values, aspect="auto", cmap="viridis", interpolation="nearest")
    _grid(axes, data)
    labels = (
        "" if data.labels is None else f", labels {' '.join(f'{label:g}' for label in data.labels)}"
    )
    axes.set_title(f"sequences: padded behind with {PADDING:g}{labels}")
    figure.colorbar(shown, ax=axes, label="value", pad=0.02)


def _draw_mask(axes: Axes, data: Data) -> None:
    from matplotlib.colors import ListedColormap

    from grader.student.plots.style import BLUE, VERMILION

    colors = ListedColormap(["#f2f2f2", BLUE])
    axes.imshow(data.mask, aspect="auto", cmap=colors, vmin=0, vmax=1, interpolation="nearest")
    _grid(axes, data)
    for row, length in enumerate(data.lengths):
        # Where the sequence ends, by its length: the mask has to end there, too.
        axes.plot([length - 0.5] * 2, [row - 0.5, row + 0.5], color=VERMILION, linewidth=2.5)
    axes.set(
        xlabel="time step", title="mask: True on real steps (filled); the strokes are the lengths"
    )


def _draw_epoch(axes: Axes, epoch: list[tuple[int, int]] | None) -> None:
    from grader.student.plots.style import BLUE, SKY

    if not epoch:
        axes.set_axis_off()
        axes.text(0, 0.5, "make_loader is not written yet", transform=axes.transAxes)
        return
    batches = range(1, len(epoch) + 1)
    real = [steps for steps, _ in epoch]
    padded = [every - steps for steps, every in epoch]
    axes.bar(batches, real, color=BLUE, label="real steps")
    axes.bar(
        batches, padded, bottom=real, color=SKY, hatch="///", edgecolor="white", label="padding"
    )
    share = 100 * sum(padded) / max(sum(every for _, every in epoch), 1)
    axes.grid(visible=False, axis="x")
    axes.set(xlabel="batch", ylabel="steps", xticks=list(batches))
    axes.set_title(
        f"A shuffled epoch of {EPOCH} sequences: {share:.0f} % of what is computed is padding"
    )
    axes.legend(loc="upper right", ncols=2)
    axes.margins(y=0.2)
