"""How likely the found sequences are for each width, and how long for each length penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 3.6)
MODELS, VOCAB, STEPS = 60, 6, 6
WIDTHS = (1, 2, 3, 4, 6, 8, 16)
PENALTIES = (0.0, 0.5, 1.0, 1.5, 2.0)

_Widths = Annotated[list[float], msgspec.Meta(min_length=len(WIDTHS), max_length=len(WIDTHS))]
_Penalties = Annotated[
    list[float], msgspec.Meta(min_length=len(PENALTIES), max_length=len(PENALTIES))
]


class Data(msgspec.Struct):
    """Means over the models."""

    log_probs: _Widths
    lengths: _Penalties


def experiment(student: Any) -> dict[str, Any]:
    """Search in random models, with token 0 as eos."""
    import torch

    generator = torch.Generator().manual_seed(0)
    tables = 1.5 * torch.randn(MODELS, STEPS + 1, VOCAB, VOCAB, generator=generator)

    def found(width: int, penalty: float) -> list[Any]:
        results = []
        for table in tables:

            def step(tokens: Any, table: Any = table) -> Any:
                return table[torch.arange(tokens.shape[1]), tokens].sum(1)

            results.append(student.beam_search(step, torch.tensor([1]), width, STEPS, 0, penalty))
        return results

    return {
        "log_probs": [sum(float(r[1]) for r in found(width, 0.0)) / MODELS for width in WIDTHS],
        "lengths": [sum(len(r[0]) - 1 for r in found(4, each)) / MODELS for each in PENALTIES],
    }


def draw(figure: FigureBase, data: Data) -> None:
    """The widths on the left, the penalties on the right."""
    from grader.student.plots.style import COLORS

    left, right = figure.subplots(1, 2)
    left.plot(WIDTHS, data.log_probs, "o-", color=COLORS[0])
    left.set(xlabel="width", ylabel="mean log-probability", title="More beams find likelier ends")
    right.plot(PENALTIES, data.lengths, "o-", color=COLORS[1])
    right.set(xlabel="length_penalty", ylabel="mean length", title="Without a penalty, short wins")
