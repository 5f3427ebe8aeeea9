# right: the loader is a subclass of DataLoader that counts epochs (seed + epoch); time is first until the end, so the result is a transposed view
from typing import NamedTuple, Optional

import torch
from torch.utils.data import DataLoader, RandomSampler


class PaddedBatch(NamedTuple):
    sequences: torch.Tensor
    lengths: torch.Tensor
    mask: torch.Tensor
    labels: Optional[torch.Tensor]


def _split(batch):
    paired = isinstance(batch[0], (tuple, list))
    for item in batch:
        if isinstance(item, (tuple, list)) != paired:
            raise ValueError("Batch: either all items are pairs or none is")
    if not paired:
        return list(batch), None
    return [x for x, _ in batch], torch.tensor([y for _, y in batch]).long()


def pad_collate(batch, padding_value=0):
    if len(batch) < 1:
        raise ValueError("Batch is empty")
    xs, ys = _split(batch)
    head = xs[0]
    for x in xs:
        if x.ndim != head.ndim or list(x.shape)[1:] != list(head.shape)[1:]:
            raise ValueError("Batch: shapes after the first dimension differ")
        if x.dtype != head.dtype:
            raise ValueError("Batch: dtypes differ")
    lengths = torch.tensor([x.shape[0] for x in xs], dtype=torch.long)
    T = max(x.shape[0] for x in xs)
    box = torch.empty((T, len(xs)) + tuple(head.shape[1:]), dtype=head.dtype, device=head.device)
    box.fill_(padding_value)
    for b, x in enumerate(xs):
        box[: len(x), b] = x
    steps = torch.arange(T).unsqueeze(1).expand(T, len(xs))
    mask = steps < lengths  # (T, B)
    return PaddedBatch(box.transpose(0, 1), lengths, mask.t(), ys)


class PadTo:
    def __init__(self, value):
        self.value = value

    def collate(self, batch):
        return pad_collate(batch, padding_value=self.value)


class SeededLoader(DataLoader):
    def __init__(self, *args, seed, order, **kwargs):
        self.seed = seed
        self.order = order
        self.epoch = 0
        super().__init__(*args, sampler=RandomSampler(args[0], generator=order), **kwargs)

    def __iter__(self):
        self.order.manual_seed(self.seed + self.epoch)
        self.epoch += 1
        return super().__iter__()


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
    if pin_memory is None:
        pin_memory = torch.cuda.device_count() > 0
    options = {
        "batch_size": batch_size,
        "num_workers": num_workers,
        "collate_fn": PadTo(padding_value).collate,  # a bound method pickles with its object
        "pin_memory": pin_memory,
        "persistent_workers": num_workers > 0,
    }
    if shuffle and seed is not None:
        return SeededLoader(dataset, seed=seed, order=torch.Generator(), **options)
    return DataLoader(dataset, shuffle=shuffle, **options)
