"""How often each token comes, under several settings, from most likely to least likely."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (7.4, 5.2)
TOKENS, ROWS = 16, 20000
SETTINGS: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5},
    {"temperature": 2.0},
    {"top_k": 5},
    {"top_p": 0.8},
    {"temperature": 2.0, "top_k": 8, "top_p": 0.8},
]

_Shares = Annotated[list[float], msgspec.Meta(min_length=TOKENS, max_length=TOKENS)]


class Data(msgspec.Struct):
    """The share of each token for each setting."""

    shares: Annotated[list[_Shares], msgspec.Meta(max_length=len(SETTINGS))]


def experiment(student: Any) -> dict[str, Any]:
    """Draw many tokens from logits that fall evenly."""
    import torch

    logits = torch.linspace(0.0, -5.0, TOKENS).expand(ROWS, TOKENS)
    shares = []
    for setting in SETTINGS:
        generator = torch.Generator().manual_seed(0)
        tokens = student.sample(logits, generator=generator, **setting)
        shares.append((torch.bincount(tokens, minlength=TOKENS) / ROWS).tolist())
    return {"shares": shares}


def draw(figure: FigureBase, data: Data) -> None:
    """Bars for each setting, on one scale."""
    from grader.student.plots.style import COLORS

    panels = figure.subplots(2, 3, sharex=True, sharey=True).flatten()
    for axes, setting, shares in zip(panels, SETTINGS, data.shares, strict=True):
        axes.bar(range(TOKENS), shares, color=COLORS[0])
        title = "\n".join(f"{name} = {value}" for name, value in setting.items())
        axes.set_title(title or "as the model says", fontsize="small")
    for axes in panels[3:]:
        axes.set_xlabel("token")
    for axes in panels[::3]:
        axes.set_ylabel("share of 20,000")
