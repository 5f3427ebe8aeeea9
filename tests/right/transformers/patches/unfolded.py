# right: Tensor.unfold, the way back by the positions of pixels, copies under no_grad
import torch
import torch.nn as nn


def patchify(images: torch.Tensor, size: int) -> torch.Tensor:
    b, c, h, w = images.shape
    if h % size != 0 or w % size != 0:
        raise ValueError(f"images are {h}x{w}")
    windows = images.unfold(2, size, size).unfold(3, size, size)
    return windows.permute(0, 2, 3, 1, 4, 5).contiguous().view(b, -1, c * size * size)


def unpatchify(patches: torch.Tensor, size: int, height: int, width: int) -> torch.Tensor:
    b, n, length = patches.shape
    c = length // size**2
    where = patchify(torch.arange(c * height * width).view(1, c, height, width), size).flatten()
    return patches.flatten(1)[:, where.argsort()].view(b, c, height, width)


class PatchEmbedding(nn.Module):
    def __init__(self, channels, size, dim):
        super(PatchEmbedding, self).__init__()
        self.channels, self.patch_size, self.dim = channels, size, dim
        self.projection = nn.Linear(channels * size * size, dim)

    def forward(self, images):
        return self.projection(patchify(images, self.patch_size))

    @torch.no_grad()
    def as_convolution(self):
        p = self.patch_size
        conv = nn.Conv2d(self.channels, self.dim, p, p)
        conv.weight.copy_(self.projection.weight.unflatten(1, (self.channels, p, p)))
        conv.bias.copy_(self.projection.bias)
        return conv
