"""The strides are asked of a tensor, by the method of the class that torch.Tensor inherits from."""

import torch


def contiguous_strides(shape):
    return super(torch.Tensor, torch.empty(tuple(shape))).stride()


def storage_index(x, index):
    raise NotImplementedError


def shares_storage(a, b):
    raise NotImplementedError


def sliding_windows(x, size, step=1):
    return super(torch.Tensor, x).unfold(-1, size, step)
