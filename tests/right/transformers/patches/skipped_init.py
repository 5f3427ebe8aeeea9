# right: slices in a loop, and a convolution made by skip_init
import torch
import torch.nn.functional as F
from torch import nn


def patchify(images, size):
    B, C, H, W = images.shape
    if H % size != 0 or W % size != 0:
        raise ValueError(f"size {size} must divide the height and width of images, {H} and {W}")
    out = [
        images[:, :, r : r + size, c : c + size].reshape(B, C * size * size)
        for r in range(0, H, size)
        for c in range(0, W, size)
    ]
    return torch.stack(out, dim=1)


def unpatchify(patches, size, height, width):
    B, N, F_ = patches.shape
    C = F_ // (size * size)
    canvas = patches.new_empty(B, C, height, width)
    it = iter(patches.unbind(1))
    for r in range(0, height, size):
        for c in range(0, width, size):
            canvas[:, :, r : r + size, c : c + size] = (
                next(it).view(B, C, size, size) if False else next(it).reshape(B, C, size, size)
            )
    return canvas


class PatchEmbedding(nn.Module):
    def __init__(self, channels: int, size: int, dim: int):
        super().__init__()
        self.shape = (dim, channels, size, size)
        self.projection = nn.Linear(in_features=channels * size**2, out_features=dim, bias=True)

    @property
    def kernel(self):
        return self.projection.weight.view(self.shape)

    def forward(self, images):
        y = F.conv2d(images, self.kernel, self.projection.bias, stride=self.shape[-1])
        return y.flatten(2).transpose(1, 2)

    def as_convolution(self):
        dim, channels, size, _ = self.shape
        conv = nn.utils.skip_init(nn.Conv2d, channels, dim, size, stride=size)
        conv.weight = nn.Parameter(self.kernel.detach())
        conv.bias = self.projection.bias
        return conv
