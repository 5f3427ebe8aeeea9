"""An image, its patches, and the image again where most patches are hidden, as a masked autoencoder sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

if TYPE_CHECKING:
    from matplotlib.figure import FigureBase

SIZE = (9.0, 2.9)
HEIGHT, WIDTH, PATCH = 48, 64, 8
COUNT = (HEIGHT // PATCH) * (WIDTH // PATCH)
KEPT = COUNT // 4

_Numbers = Annotated[list[float], msgspec.Meta(max_length=3 * HEIGHT * WIDTH)]


class Data(msgspec.Struct):
    """The pixels of the image and of the one put together again, and the patches, all in one row."""

    image: _Numbers
    patches: _Numbers
    masked: _Numbers


def experiment(student: Any) -> dict[str, Any]:
    """Rings of changing color; of the patches a quarter is kept."""
    import torch

    y = torch.linspace(-0.8, 1.0, HEIGHT)[:, None]
    x = torch.linspace(-1.2, 1.2, WIDTH)
    rings = torch.cos(9 * (x**2 + y**2).sqrt())
    image = torch.stack([rings, rings.abs() * (x + 1.2) / 2.4, rings * 0 + (1 - y) / 2])
    image = ((image + 1) / 2).clamp(0, 1)[None]
    patches = student.patchify(image, PATCH)
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randperm(COUNT, generator=generator)[KEPT:]
    masked = patches.index_fill(1, hidden, 0.85)
    again = student.unpatchify(masked, PATCH, HEIGHT, WIDTH)
    return {
        "image": image.flatten().tolist(),
        "patches": patches.flatten().tolist(),
        "masked": again.flatten().tolist(),
    }


def draw(figure: FigureBase, data: Data) -> None:
    """The image, a grid of its patches in their order, and the masked image."""
    import numpy as np

    def pixels(numbers: list[float], height: int, width: int) -> Any:
        return np.resize(np.clip(numbers, 0, 1), (3, height, width)).transpose(1, 2, 0)

    rows, columns, gap = HEIGHT // PATCH, WIDTH // PATCH, 2
    step, size = PATCH + gap, 3 * PATCH**2
    grid = np.ones((rows * step - gap, columns * step - gap, 3))
    for number in range(COUNT):
        top, left = number // columns * step, number % columns * step
        patch = pixels(data.patches[number * size : (number + 1) * size], PATCH, PATCH)
        grid[top : top + PATCH, left : left + PATCH] = patch
    image, masked = (pixels(numbers, HEIGHT, WIDTH) for numbers in (data.image, data.masked))
    titles = "The image", f"Its {COUNT} patches, in order", f"{KEPT} of {COUNT} patches kept"
    for axes, title, shown in zip(
        figure.subplots(1, 3), titles, (image, grid, masked), strict=True
    ):
        axes.imshow(shown)
        axes.set(title=title)
        axes.set_axis_off()
