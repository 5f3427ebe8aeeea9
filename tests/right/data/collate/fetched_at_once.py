# right: the dataset is wrapped and fetched batch by batch (__getitems__), the next epoch's order is drawn at the end of this one, __iter__ is a generator
from __future__ import annotations
import copy
import functools
import itertools
import random
import torch
from torch.utils.data import DataLoader, Dataset
from typing import NamedTuple


class PaddedBatch(NamedTuple):
    sequences: torch.Tensor
    lengths: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor | None


def same(values):
    first, *rest = values
    return all(value == first for value in rest)


def pad_collate(batch, padding_value=0):
    batch = [tuple(item) if isinstance(item, (list, tuple)) else (item,) for item in batch]
    if not batch:
        raise ValueError("Batch has no items.")
    if not same([len(item) for item in batch]):
        raise ValueError("Batch: labels for some only.")
    columns = list(zip(*batch))
    if not same([(x.dtype, x.shape[1:]) for x in columns[0]]):
        raise ValueError("Batch: unlike sequences.")
    x0 = columns[0][0]
    T = functools.reduce(max, (x.shape[0] for x in columns[0]))
    out = copy.deepcopy(x0.detach())
    out = torch.zeros_like(out[:0]).new_empty((len(batch), T) + tuple(x0.shape[1:]))
    mask = torch.empty(len(batch), T, dtype=torch.bool)
    for b, x in enumerate(columns[0]):
        n = x.shape[0]
        out[b, :n], out[b, n:] = x, padding_value
        mask[b, :n], mask[b, n:] = True, False
    lengths = mask.sum(-1)
    labels = torch.tensor([*map(int, columns[1])]) if len(columns) > 1 else None
    return PaddedBatch(out, lengths, mask, labels)


def _collate(padding_value, batch):
    return pad_collate(batch, padding_value)


class Whole(Dataset):
    def __init__(self, inner):
        self.inner = inner

    def __len__(self):
        return len(self.inner)

    def __getitem__(self, i):
        return self.inner[i]

    def __getitems__(self, indices):
        return [self.inner[i] for i in indices]


class Orders:
    def __init__(self, n, seed):
        self.rng = random.Random() if seed is None else random.Random(seed)
        self.n, self.next = n, None
        self.draw()

    def draw(self):
        self.next = self.rng.sample(range(self.n), self.n)

    def __len__(self):
        return self.n

    def __iter__(self):
        yield from self.next
        self.draw()


class Loader(DataLoader):
    def __iter__(self):
        for batch in super().__iter__():
            yield batch


def make_loader(
    dataset,
    batch_size=32,
    *,
    shuffle=False,
    num_workers=0,
    padding_value=0,
    pin_memory=None,
    seed=None,
):
    sampler = Orders(len(dataset), seed) if shuffle else range(len(dataset))
    if pin_memory not in (True, False):
        pin_memory = torch.cuda.is_available()
    return Loader(
        Whole(dataset),
        batch_size,
        sampler=sampler,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        pin_memory=pin_memory,
        collate_fn=functools.partial(_collate, padding_value),
    )
