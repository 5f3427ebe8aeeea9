"""How far positions look back through one layer and through several, and how many keys a cache holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (9.0, 3.4)
TIME, WINDOW = 24, 5
DEPTHS = (1, 3)
HEADS, KV_HEADS = 4, 2

_Row = Annotated[list[float], msgspec.Meta(min_length=TIME, max_length=TIME)]
_Square = Annotated[list[_Row], msgspec.Meta(min_length=TIME, max_length=TIME)]


class Data(msgspec.Struct):
    """For each depth, how much each output depends on each input; for each step, the numbers in the cache."""

    influences: Annotated[list[_Square], msgspec.Meta(max_length=len(DEPTHS))]
    cached: _Row


def experiment(student: Any) -> dict[str, Any]:
    """Random layers on top of each other, and one layer step by step."""
    import torch

    torch.manual_seed(0)
    influences = []
    for depth in DEPTHS:
        layers = [
            student.GroupedQueryAttention(8 * HEADS, HEADS, KV_HEADS, WINDOW) for _ in range(depth)
        ]
        x = torch.randn(1, TIME, 8 * HEADS, requires_grad=True)
        y = x
        for layer in layers:
            y = layer(y)[0]
        rows = [torch.autograd.grad(y[0, i].sum(), x, retain_graph=True)[0] for i in range(TIME)]
        influence = torch.cat(rows).norm(dim=-1)
        influences.append((influence / influence.amax()).tolist())
    cached, cache = [], None
    for i in range(TIME):
        _, cache = layers[0](x[:, i : i + 1].detach(), cache)
        cached.append(float(sum(tensor.numel() for tensor in cache)))
    return {"influences": influences, "cached": cached}


def draw(figure: FigureBase, data: Data) -> None:
    """A map for each depth, and the cache beside one of plain attention."""
    from grader.student.plots.style import COLORS

    *maps, sizes = figure.subplots(1, len(DEPTHS) + 1)
    for axes, depth, influence in zip(maps, DEPTHS, data.influences, strict=False):
        axes.imshow(
            [[value > 0 and value**0.3 for value in row] for row in influence], cmap="Blues"
        )
        axes.grid(visible=False)
        title = f"{depth} layer{'s' * (depth > 1)}: {depth * (WINDOW - 1)} positions back"
        axes.set(xlabel="position of the input", ylabel="position of the output", title=title)
    steps = range(1, TIME + 1)
    plain = [2 * 8 * HEADS * step for step in steps]
    sizes.plot(steps, plain, "--", color=COLORS[1], label=f"{HEADS} heads, no window")
    label = f"{KV_HEADS} kv heads, window {WINDOW}"
    sizes.plot(steps, data.cached, color=COLORS[0], label=label)
    sizes.set(xlabel="positions so far", ylabel="numbers in the cache", title="What is kept")
    sizes.legend()
