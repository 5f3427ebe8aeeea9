"""The largest tensor that attention makes over the length of a sequence, in both passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (6.6, 4.0)
LENGTHS = (32, 64, 128, 256, 512, 1024)
BLOCK, DIM = 64, 8

_Bytes = Annotated[list[float], msgspec.Meta(min_length=len(LENGTHS), max_length=len(LENGTHS))]


class Data(msgspec.Struct):
    """Bytes by length: of plain attention, and of the two passes in tiles."""

    plain: _Bytes
    forward: _Bytes
    backward: _Bytes


def experiment(student: Any) -> dict[str, Any]:
    """Calls for random queries, keys and values; an operator's largest result is noted."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Largest(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.bytes = 0

        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            for leaf in tree_leaves(result):
                if isinstance(leaf, torch.Tensor):
                    self.bytes = max(self.bytes, leaf.untyped_storage().nbytes())
            return result

    data: dict[str, list[float]] = {"plain": [], "forward": [], "backward": []}
    for length in LENGTHS:
        generator = torch.Generator().manual_seed(0)
        q, k, v, grad = (torch.randn(length, DIM, generator=generator) for _ in range(4))
        with Largest() as largest:
            torch.softmax(q @ k.T / DIM**0.5, dim=-1) @ v
        data["plain"].append(float(largest.bytes))
        with Largest() as largest:
            output, logarithms = student.flash_forward(q, k, v, BLOCK, False)
        data["forward"].append(float(largest.bytes))
        with Largest() as largest:
            student.flash_backward(grad, q, k, v, output, logarithms, BLOCK, False)
        data["backward"].append(float(largest.bytes))
    return data


def draw(figure: FigureBase, data: Data) -> None:
    """Both axes are logarithmic: a square has twice the slope."""
    from grader.student.plots.style import COLORS

    axes = figure.subplots()
    axes.plot(LENGTHS, data.plain, "--", color=COLORS[1], label="all scores at once")
    axes.plot(LENGTHS, data.forward, "o-", color=COLORS[0], label=f"forward, block={BLOCK}")
    axes.plot(LENGTHS, data.backward, "x-", color=COLORS[2], label=f"backward, block={BLOCK}")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    title = f"Never larger than a tile, or than the inputs (d={DIM})"
    axes.set(xlabel="queries and keys", ylabel="bytes of the largest tensor", title=title)
    axes.set_xticks(LENGTHS, [str(length) for length in LENGTHS])
    axes.legend()
