# right: plain and short; most of the wrong answers are changes of it
import functools
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader


class PaddedBatch(NamedTuple):
    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Tensor | None


def pad_collate(batch, padding_value=0):
    if len(batch) == 0:
        raise ValueError("batch is empty")
    pairs = [isinstance(item, (tuple, list)) for item in batch]
    if any(pairs) and not all(pairs):
        raise ValueError("batch mixes pairs with bare tensors")
    labels = None
    sequences = list(batch)
    if pairs[0]:
        sequences = [item[0] for item in batch]
        labels = torch.tensor([int(item[1]) for item in batch], dtype=torch.int64)
    first = sequences[0]
    for sequence in sequences:
        if sequence.shape[1:] != first.shape[1:]:
            raise ValueError("batch has different trailing dimensions")
        if sequence.dtype != first.dtype:
            raise ValueError("batch has different dtypes")
    lengths = torch.tensor([len(sequence) for sequence in sequences], dtype=torch.int64)
    longest = int(lengths.max())
    padded = first.new_full((len(sequences), longest, *first.shape[1:]), padding_value)
    for i, sequence in enumerate(sequences):
        padded[i, : len(sequence)] = sequence
    mask = torch.arange(longest) < lengths[:, None]
    return PaddedBatch(padded, lengths, mask, labels)


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
    generator = None
    if seed is not None:
        generator = torch.Generator().manual_seed(seed)
    if pin_memory is None:
        pin_memory = torch.cuda.is_available()
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        num_workers=num_workers,
        collate_fn=functools.partial(pad_collate, padding_value=padding_value),
        pin_memory=pin_memory,
        persistent_workers=num_workers > 0,
        generator=generator,
    )
