"""Cut images into patches, as a vision transformer reads them, and put them together again.

A transformer reads a sequence of vectors. An image becomes one if it is cut into square patches of `size` *
`size` pixels, of which each is written out as a vector. Here is an image of one channel, and its patches for
size = 2:

     0  1  2  3
     4  5  6  7        [0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]
     8  9 10 11
    12 13 14 15

The patches come row by row, as you read. Within a patch the channels come first: all rows of its first channel,
then all rows of the next. A convolution stores its weights in this order. That is why a linear layer on patches
and a convolution that steps from patch to patch are the same thing.

Not allowed in `patchify` and `unpatchify`: `F.unfold`, `F.fold`, `F.pixel_shuffle`, `F.pixel_unshuffle`, and
convolutions. `torch.Tensor.unfold` is fine.

Source: Dosovitskiy et al. (2021), "An Image is Worth 16x16 Words", section 3.1.

What holds for every exercise: docs/every-exercise.md.
"""

from torch import Tensor, nn


def patchify(images: Tensor, size: int) -> Tensor:
    """Return the patches of each image: (batch, patches, channels * size * size).

    `images` is (batch, channels, height, width). Height and width may differ.

    Raises ValueError that names `images` if `size` does not divide height and width.
    """
    # begin solution: split axes, bring them in order, join
    batch, channels, height, width = images.shape
    if height % size != 0 or width % size != 0:
        raise ValueError(f"images of {height} * {width} pixels have no patches of size {size}")
    grid = images.reshape(batch, channels, height // size, size, width // size, size)
    # From (batch, channel, patch row, row, patch column, column): first the patch's place, then its contents.
    grid = grid.permute(0, 2, 4, 1, 3, 5)
    return grid.reshape(batch, grid.shape[1] * grid.shape[2], channels * size * size)
    # end solution


def unpatchify(patches: Tensor, size: int, height: int, width: int) -> Tensor:
    """Return the images whose patches these are: (batch, channels, height, width), the inverse of `patchify`.

    `patches` is (batch, patches, channels * size * size), as many as images of this height and width have.
    """
    # begin solution: split, bring axes back in order, join
    rows, columns = height // size, width // size
    grid = patches.reshape(len(patches), rows, columns, patches.shape[-1] // size**2, size, size)
    return grid.permute(0, 3, 1, 4, 2, 5).reshape(len(patches), -1, height, width)
    # end solution


class PatchEmbedding(nn.Module):
    """A linear layer on the patches of images: the first layer of a vision transformer.

    Its only part is `projection`, an `nn.Linear` with a bias. Nothing else is in the state dict.
    """

    def __init__(self, channels: int, size: int, dim: int) -> None:
        """Make the layer for patches of `size` * `size` pixels with these channels, with `dim` outputs."""
        super().__init__()
        # begin solution: a linear layer
        self.channels, self.size = channels, size
        self.projection = nn.Linear(channels * size * size, dim)
        # end solution

    def forward(self, images: Tensor) -> Tensor:
        """Return one vector for each patch of `images` (batch, channels, height, width): (batch, patches, dim).

        Gradients reach the images and the layer.
        """
        # begin solution: project the patches
        result: Tensor = self.projection(patchify(images, self.size))
        return result
        # end solution

    def as_convolution(self) -> nn.Conv2d:
        """Return an `nn.Conv2d` that gives the same numbers: (batch, dim, height // size, width // size).

        Its output at (row, column) is that of `forward` for the patch there. This is how published weights are
        stored. Its dtype is up to you, and so is whether its parameters share memory with the layer's.
        """
        # begin solution: kernels, and a stride
        dim = self.projection.out_features
        convolution = nn.Conv2d(self.channels, dim, self.size, stride=self.size)
        kernels = self.projection.weight.reshape(convolution.weight.shape)
        convolution.load_state_dict({"weight": kernels, "bias": self.projection.bias})
        return convolution
        # end solution
