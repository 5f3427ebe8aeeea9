# right: the mask is made first (in a scripted helper) and the concatenated sequences are poured through it; an endless stream of numpy permutations
import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader

with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.script
    def step_mask(lengths: torch.Tensor, longest: int) -> torch.Tensor:
        return torch.arange(longest).unsqueeze(0) < lengths.unsqueeze(1)


class PaddedBatch(NamedTuple):
    sequences: torch.Tensor
    lengths: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor | None = None


def pad_collate(batch, padding_value=0):
    n_tensors = len([b for b in batch if torch.is_tensor(b)])
    if len(batch) == 0:
        raise ValueError("batch: no items")
    if 0 < n_tensors < len(batch):
        raise ValueError("batch: pairs and tensors are mixed")
    if n_tensors:
        seqs, labels = batch, None
    else:
        seqs = [b[0] for b in batch]
        labels = torch.from_numpy(np.array([int(b[1]) for b in batch], dtype=np.int64))
    signatures = set((str(s.dtype), tuple(s.shape[1:])) for s in seqs)
    if len(signatures) != 1:
        raise ValueError("batch: sequences of different kinds: %s" % sorted(signatures))
    lengths = torch.tensor([s.shape[0] for s in seqs], dtype=torch.int64)
    mask = step_mask(lengths, int(lengths.max()))
    flat = torch.cat(list(seqs))
    out = torch.full(
        (*mask.shape, *flat.shape[1:]), padding_value, dtype=flat.dtype, device=flat.device
    )
    out[mask] = flat
    return PaddedBatch(sequences=out, lengths=lengths, mask=mask, labels=labels)


class _Collate:
    def __init__(self, padding_value):
        self.padding_value = padding_value

    def __call__(self, items):
        return pad_collate(items, self.padding_value)


class _Order:
    def __init__(self, n, seed):
        self.n = n
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.n

    def __iter__(self):
        return iter(self.rng.permutation(self.n).tolist())


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
    sampler = _Order(len(dataset), seed) if shuffle else None
    pin = pin_memory if pin_memory is not None else torch.cuda.is_available()
    return DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=sampler,
        collate_fn=_Collate(padding_value),
        num_workers=num_workers,
        pin_memory=pin,
        persistent_workers=True if num_workers else False,
    )
