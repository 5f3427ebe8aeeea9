"""Where each position of a short sequence looks, for three masks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (9.6, 3.6)
POSITIONS = 10
PADDING = 3

_Row = Annotated[list[float], msgspec.Meta(min_length=POSITIONS, max_length=POSITIONS)]
_Weights = Annotated[list[_Row], msgspec.Meta(min_length=POSITIONS, max_length=POSITIONS)]


class Data(msgspec.Struct):
    """The weights (queries, keys) without a mask, with a causal one, and with padding in front, too."""

    everywhere: _Weights
    causal: _Weights
    padded: _Weights


def experiment(student: Any) -> dict[str, Any]:
    """The student's attention to values that are a one-hot row for each position."""
    import torch

    generator = torch.Generator().manual_seed(0)
    query = torch.randn(POSITIONS, 8, generator=generator)
    key = torch.randn(POSITIONS, 8, generator=generator)
    causal = student.causal_mask(POSITIONS, POSITIONS)
    real = torch.arange(POSITIONS) >= PADDING

    def weights(mask: Any) -> Any:
        return student.attention(query, key, torch.eye(POSITIONS), mask).tolist()

    return {
        "everywhere": weights(None),
        "causal": weights(causal),
        "padded": weights(causal & real),
    }


def draw(figure: FigureBase, data: Data) -> None:
    """One image for each mask, all with the same colors."""
    panels = {
        "no mask": data.everywhere,
        "causal": data.causal,
        f"causal, {PADDING} of padding in front": data.padded,
    }
    for index, (title, weights) in enumerate(panels.items(), start=1):
        axes = figure.add_subplot(1, len(panels), index)
        axes.imshow(weights, vmin=0, vmax=1, cmap="viridis")
        axes.grid(visible=False)
        axes.set(xlabel="key", ylabel="query", title=title)
