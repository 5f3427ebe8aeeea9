# right: each row is concatenated with its own padding; the loader's collate function reads its padding value from a class attribute of a top-level class with slots
import torch
from torch.utils import data as tud
from typing import NamedTuple


class PaddedBatch(NamedTuple):
    sequences: torch.Tensor
    lengths: torch.Tensor
    mask: torch.Tensor
    labels: "torch.Tensor | None"


def _check(batch):
    if len(batch) == 0:
        raise ValueError("batch has no item to pad")
    first = batch[0]
    try:
        for item in batch:
            assert isinstance(item, torch.Tensor) is isinstance(first, torch.Tensor), "mixed items"
    except AssertionError as error:
        raise ValueError(f"batch is invalid: {error}") from error


def pad_collate(batch, padding_value=0):
    _check(batch)
    labels = None
    if not isinstance(batch[0], torch.Tensor):
        labels = torch.empty(len(batch), dtype=torch.int64)
        for i, (_, label) in enumerate(batch):
            labels[i] = label
        batch = [sequence for sequence, _ in batch]
    shapes = [tuple(s.shape[1:]) for s in batch]
    dtypes = [s.dtype for s in batch]
    if shapes.count(shapes[0]) != len(shapes):
        raise ValueError("batch has trailing shapes " + ", ".join(map(str, shapes)))
    if dtypes.count(dtypes[0]) != len(dtypes):
        raise ValueError("batch has dtypes " + ", ".join(map(str, dtypes)))
    longest = 0
    for s in batch:
        if len(s) > longest:
            longest = len(s)
    rows, masks, lengths = [], [], []
    for s in batch:
        n = len(s)
        tail = torch.full_like(
            s[:1].expand(1, *s.shape[1:]) if n else s.new_empty(1, *s.shape[1:]), padding_value
        )
        tail = tail.expand(longest - n, *s.shape[1:])
        rows.append(torch.cat([s, tail], dim=0))
        masks.append([True] * n + [False] * (longest - n))
        lengths.append(n)
    return PaddedBatch(
        torch.stack(rows, dim=0),
        torch.as_tensor(lengths, dtype=torch.long),
        torch.tensor(masks, dtype=torch.bool).reshape(len(batch), longest),
        labels,
    )


class CollateWith:
    __slots__ = ("options",)

    def __init__(self, **options):
        self.options = options

    def __reduce__(self):
        return _rebuild, (self.options,)

    def __call__(self, batch):
        return pad_collate(batch, **self.options)


def _rebuild(options):
    return CollateWith(**options)


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
    pin = {None: torch.cuda.is_available(), True: True, False: False}[pin_memory]
    gen = None if seed is None else torch.Generator(device="cpu")
    if gen is not None:
        gen.manual_seed(seed)
    sampler = (
        tud.RandomSampler(dataset, generator=gen) if shuffle else tud.SequentialSampler(dataset)
    )
    batches = tud.BatchSampler(sampler, batch_size, drop_last=False)
    return tud.DataLoader(
        dataset,
        batch_sampler=batches,
        collate_fn=CollateWith(padding_value=padding_value),
        num_workers=num_workers,
        persistent_workers=num_workers >= 1,
        pin_memory=pin,
    )
