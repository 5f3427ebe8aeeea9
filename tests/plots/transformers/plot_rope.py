"""The score of a query and a key over their distance, and how far each pair is turned on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 6.0)
DIM, DISTANCES = 64, 128
BASES = (100.0, 10000.0)
STARTS = (0, 1000)  # positions of the query
PAIRS = (0, 4, 8, 16)

_Line = Annotated[list[float], msgspec.Meta(min_length=DISTANCES, max_length=DISTANCES)]


class Data(msgspec.Struct):
    """Scores by base and start, and the cosine of some pairs' angles for the last base."""

    scores: Annotated[list[list[_Line]], msgspec.Meta(max_length=len(BASES))]
    cosines: Annotated[list[_Line], msgspec.Meta(max_length=len(PAIRS))]


def experiment(student: Any) -> dict[str, Any]:
    """The scores of equal queries and keys, which without RoPE are all 1."""
    import torch

    x = torch.full((1, DIM), DIM**-0.5)
    steps = torch.arange(DISTANCES)

    def turned(positions: torch.Tensor, base: float) -> torch.Tensor:
        angles = student.rope_angles(positions, DIM, base)
        return torch.as_tensor(student.apply_rope(x.expand(len(positions), DIM), angles))

    scores = [
        [
            (turned(start + steps, base) @ turned(torch.tensor([start]), base)[0]).tolist()
            for start in STARTS
        ]
        for base in BASES
    ]
    angles = student.rope_angles(steps, DIM, BASES[-1])
    return {"scores": scores, "cosines": [angles[:, pair].cos().tolist() for pair in PAIRS]}


def draw(figure: FigureBase, data: Data) -> None:
    """Scores above, where the dots of another start lie on the line; angles below."""
    from grader.student.plots.style import COLORS

    scores, pairs = figure.subplots(2, 1, sharex=True)
    for base, (first, second), color in zip(BASES, data.scores, COLORS, strict=False):
        scores.plot(first, color=color, label=f"base {base:.0f}")
        label = f"the same, {STARTS[1]} positions later"
        scores.plot(second, ".", color=color, markersize=4, markevery=4, label=label)
    scores.set(ylabel="score", title="A score depends on the distance only")
    scores.legend()
    for pair, cosine, color in zip(PAIRS, data.cosines, COLORS, strict=False):
        pairs.plot(cosine, color=color, linewidth=1.2, label=f"pair {pair}")
    title = f"How far pairs are turned, dim={DIM}, base {BASES[-1]:.0f}"
    pairs.set(xlabel="distance of query and key", ylabel="cosine of the angle", title=title)
    pairs.set_ylim(bottom=-1.5)
    pairs.legend(loc="lower left", ncols=len(PAIRS))
