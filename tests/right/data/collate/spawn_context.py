# right: asks for spawned workers, an error class of its own, a named tuple as collate function, indices that are tensors
import torch
from torch.utils.data import DataLoader, Sampler
from typing import *


class PaddedBatch(NamedTuple):
    sequences: torch.Tensor
    lengths: torch.Tensor
    mask: torch.Tensor
    labels: Optional[torch.Tensor]


class BatchError(ValueError):
    def __init__(self, why):
        super().__init__(f"Bad batch ({why})")


def pad_collate(batch, padding_value=0):
    if len(batch) == 0:
        raise BatchError("empty")
    labels = [item[1] for item in batch if not torch.is_tensor(item)]
    if len(labels) not in (0, len(batch)):
        raise BatchError("mixed")
    seqs = [item if torch.is_tensor(item) else item[0] for item in batch]
    for a, b in zip(seqs, seqs[1:]):
        if a.dtype != b.dtype:
            raise BatchError("dtypes")
        if a.shape[1:] != b.shape[1:]:
            raise BatchError("shapes")
    lengths = torch.as_tensor([len(s) for s in seqs], device=seqs[0].device)
    steps = torch.arange(int(lengths.max()), device=lengths.device)
    mask = steps[None] < lengths[:, None]
    rows = torch.where(mask, steps, 0)
    out = torch.stack(
        [s[r] if len(s) else s.new_zeros(len(r), *s.shape[1:]) for s, r in zip(seqs, rows)]
    )
    out[~mask] = padding_value
    return PaddedBatch(out, lengths, mask, torch.tensor(list(map(int, labels))) if labels else None)


class Collate(NamedTuple):
    padding_value: float

    def __call__(self, batch):
        return pad_collate(batch, self.padding_value)


class Shuffle(Sampler):
    def __init__(self, data, generator):
        self.data, self.generator = data, generator

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        return iter(torch.randperm(len(self.data), generator=self.generator))


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
    generator = torch.Generator()
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
    extra = dict(multiprocessing_context="spawn", persistent_workers=True) if num_workers else {}
    return DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=Shuffle(dataset, generator) if shuffle else None,
        num_workers=num_workers,
        collate_fn=Collate(padding_value),
        pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory,
        **extra,
    )
