# right: loops over slices, and a forward that is a convolution
import torch
from torch import nn
from torch.nn import functional as F


def corners(height, width, size):
    return [(y, x) for y in range(0, height, size) for x in range(0, width, size)]


def patchify(images, size):
    height, width = images.shape[2:]
    if height % size or width % size:
        raise ValueError("images cannot be cut")
    cut = [images[:, :, y : y + size, x : x + size] for y, x in corners(height, width, size)]
    return torch.stack([patch.flatten(1) for patch in cut], dim=1)


def unpatchify(patches, size, height, width):
    channels = patches.shape[2] // (size * size)
    images = patches.new_zeros(patches.shape[0], channels, height, width)
    for number, (y, x) in enumerate(corners(height, width, size)):
        patch = patches[:, number].unflatten(1, (channels, size, size))
        images[:, :, y : y + size, x : x + size] = patch
    return images


class PatchEmbedding(nn.Module):
    def __init__(self, channels, size, dim):
        super().__init__()
        self.shape = dim, channels, size, size
        self.projection = nn.Linear(channels * size**2, dim)

    def forward(self, images):
        weight = self.projection.weight.view(self.shape)
        return F.conv2d(images, weight, self.projection.bias, stride=self.shape[-1]).flatten(2).mT

    def as_convolution(self):
        dim, channels, size, _ = self.shape
        conv = nn.Conv2d(channels, dim, kernel_size=(size, size), stride=(size, size))
        conv.weight = nn.Parameter(self.projection.weight.view(self.shape))
        conv.bias = self.projection.bias
        return conv
