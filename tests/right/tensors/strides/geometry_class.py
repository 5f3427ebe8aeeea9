# right: a dataclass for the geometry of a view, bytes and addresses divided again
from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


class BadArgument(ValueError):
    pass


@dataclass(frozen=True)
class Geometry:
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, x: Tensor) -> Geometry:
        start = x.data_ptr() - x.untyped_storage().data_ptr()
        return cls(tuple(x.shape), tuple(x.stride()), start // x.element_size())

    def locate(self, index: list[int]) -> int:
        if len(index) != len(self.sizes):
            raise BadArgument(f"index {index} does not fit {self.sizes}")
        place = self.offset
        for d, entry in enumerate(index):
            if entry not in range(-self.sizes[d], self.sizes[d]):
                raise BadArgument(f"index[{d}] = {entry} is outside of {self.sizes[d]}")
            place += entry % self.sizes[d] * self.strides[d]
        return place

    def windows(self, size: int, step: int) -> Geometry:
        *sizes, n = self.sizes
        *strides, stride = self.strides
        count = (n - size + step) // step
        return replace(self, sizes=(*sizes, count, size), strides=(*strides, step * stride, stride))

    def view(self, x: Tensor) -> Tensor:
        return torch.as_strided(x, self.sizes, self.strides, x.storage_offset())


def contiguous_strides(shape: list[int]) -> tuple[int, ...]:
    if min(shape, default=0) < 0:
        raise BadArgument(f"shape {shape}: sizes are at least 0")
    if not shape:
        return ()
    rest = contiguous_strides(shape[1:])
    return ((rest[0] * (shape[1] or 1)) if rest else 1, *rest)


def storage_index(x: Tensor, index: list[int]) -> int:
    return Geometry.of(x).locate(list(index))


def shares_storage(a: Tensor, b: Tensor) -> bool:
    return a.untyped_storage() is b.untyped_storage()


def sliding_windows(x: Tensor, size: int, step: int = 1) -> Tensor:
    if not x.shape:
        raise BadArgument("x is a single number")
    if size not in range(1, x.shape[-1] + 1):
        raise BadArgument(f"size={size}")
    if step < 1:
        raise BadArgument(f"step={step}")
    return Geometry.of(x).windows(size, step).view(x)
