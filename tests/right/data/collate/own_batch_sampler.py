# right: a batch sampler of its own (Python's random), CUDA asked once at import, F.pad and stack, a class as collate function
from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

HAS_CUDA = torch.cuda.is_available()
print("CUDA:", HAS_CUDA)


class PaddedBatch(NamedTuple):
    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Tensor | None


@dataclass
class Collator:
    padding_value: float

    def __call__(self, batch):
        return pad_collate(batch, self.padding_value)


class ShuffledBatches(Sampler):
    """Batches of indices; a fresh shuffle of the same list each time it is iterated."""

    def __init__(self, n: int, batch_size: int, seed: int | None):
        self.order = list(range(n))
        self.batch_size = batch_size
        self.random = random.Random(seed)

    def __len__(self) -> int:
        return -(-len(self.order) // self.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        self.random.shuffle(self.order)
        order = list(self.order)
        for start in range(0, len(order), self.batch_size):
            yield order[start : start + self.batch_size]


def _pad(sequence: Tensor, longest: int, padding_value: float) -> Tensor:
    missing = longest - sequence.size(0)
    # F.pad counts dimensions from the last; time is the first
    widths = [0, 0] * (sequence.dim() - 1) + [0, missing]
    return F.pad(sequence, widths, value=padding_value)


def pad_collate(
    batch: Sequence[Tensor | tuple[Tensor, int]], padding_value: float = 0
) -> PaddedBatch:
    items = list(batch)
    if items == []:
        raise ValueError("batch must not be empty")
    pairs = sum(isinstance(item, (tuple, list)) for item in items)
    if pairs not in (0, len(items)):
        raise ValueError(f"{pairs} of {len(items)} items of batch are pairs, the others are not")
    if pairs:
        sequences = [item[0] for item in items]
        labels = torch.stack([torch.as_tensor(item[1]).to(torch.int64) for item in items])
    else:
        sequences, labels = items, None
    for s in sequences[1:]:
        if s.dtype is not sequences[0].dtype or s.size()[1:] != sequences[0].size()[1:]:
            raise ValueError(f"batch is not uniform: {s.dtype} {tuple(s.size())}")
    sizes = [s.size(0) for s in sequences]
    longest = max(sizes)
    padded = torch.stack([_pad(s, longest, padding_value) for s in sequences])
    mask = torch.zeros(len(sizes), longest, dtype=torch.bool)
    for i in range(len(sizes)):
        mask[i, : sizes[i]] = True
    return PaddedBatch(padded, torch.tensor(sizes), mask, labels)


def make_loader(
    dataset,
    batch_size: int = 32,
    *,
    shuffle: bool = False,
    num_workers: int = 0,
    padding_value: float = 0,
    pin_memory: bool | None = None,
    seed: int | None = None,
) -> DataLoader:
    options = dict(
        num_workers=num_workers,
        collate_fn=Collator(padding_value),
        pin_memory=HAS_CUDA if pin_memory is None else pin_memory,
    )
    if num_workers > 0:
        options.update(persistent_workers=True, prefetch_factor=2)
    if shuffle:
        batches = ShuffledBatches(len(dataset), batch_size, seed)
        return DataLoader(dataset, batch_sampler=batches, **options)
    return DataLoader(dataset, batch_size=batch_size, **options)


if __name__ == "__main__":
    print(pad_collate([torch.ones(2), torch.ones(3)]))
