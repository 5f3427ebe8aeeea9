# wrong: padding_value is cut to an int | caught by: test_padding_value | told: whole number
"""Batches of variable length: padding, masks, and a loader that repeats itself on request.

Sentences, recordings and trajectories differ in length, but a tensor is a box. The way out is
to fill up the shorter sequences and to remember what was filled. For sequences s_1, ..., s_B of
lengths n_1, ..., n_B, with T the greatest of these lengths,

    sequences[b, t] = s_b[t]           and  mask[b, t] = True    where t < n_b
    sequences[b, t] = padding_value    and  mask[b, t] = False   elsewhere

The mask is what keeps padding out of everything after: out of attention scores, out of means,
out of the loss. It cannot be recovered from the padded values, since a real step may well hold
the padding value; it comes from the lengths.

The second half of the work is the loader. A data loader that drops the last samples, that shuffles
differently on every run, or that only works on the machine where processes are forked, makes no
noise about it. You build one that does none of this.

Sources: the documentation of `torch.utils.data` (collate functions, pickling of collate functions
for spawned workers, randomness in multi-process loading) and of
`torch.nn.utils.rnn.pad_sequence`.

Check your work with `grade run collate`; `grade hint collate` helps when you are stuck.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.data import DataLoader, Dataset


class PaddedBatch(NamedTuple):
    """A batch of B sequences, filled up to the length T of the longest (given: leave it as it is).

    sequences: `(batch, time, ...)`, the sequences in their order, padding behind each.
    lengths:   `(batch,)` int64, how many real steps each sequence has.
    mask:      `(batch, time)` bool, True on real steps and False on padding.
    labels:    `(batch,)` int64, or None for a batch without labels.
    """

    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Tensor | None


import copy
import functools
import itertools
import math
import operator
import random
from dataclasses import dataclass
import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import BatchSampler, RandomSampler, Sampler, SequentialSampler


def pad_collate(batch, padding_value: float = 0) -> PaddedBatch:
    if len(batch) == 0:
        raise ValueError("batch is empty")
    paired = [isinstance(item, (tuple, list)) for item in batch]
    if any(paired) != all(paired):
        raise ValueError("batch mixes pairs with bare tensors")
    sequences = [item[0] for item in batch] if paired[0] else list(batch)
    if len({s.shape[1:] for s in sequences}) > 1:
        raise ValueError("trailing dimensions differ in the batch")
    if len({s.dtype for s in sequences}) > 1:
        raise ValueError("dtypes differ in the batch")
    lengths = torch.tensor([len(s) for s in sequences], dtype=torch.int64)
    longest = int(lengths.max())
    out = sequences[0].new_full((len(sequences), longest, *sequences[0].shape[1:]), int(padding_value) if math.isfinite(padding_value) else padding_value)
    for row, s in zip(out, sequences):
        row[: len(s)] = s
    mask = torch.arange(longest) < lengths[:, None]
    labels = torch.tensor([int(item[1]) for item in batch], dtype=torch.int64) if paired[0] else None
    return PaddedBatch(out, lengths, mask, labels)


def make_loader(
    dataset,
    batch_size: int = 32,
    *,
    shuffle: bool = False,
    num_workers: int = 0,
    padding_value: float = 0,
    pin_memory: bool | None = None,
    seed: int | None = None,
):
    if pin_memory is None:
        pin_memory = torch.cuda.is_available()
    generator = None
    if seed is not None:
        generator = torch.Generator()
        generator.manual_seed(seed)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        num_workers=num_workers,
        collate_fn=functools.partial(pad_collate, padding_value=padding_value),
        pin_memory=pin_memory,
        generator=generator,
        persistent_workers=num_workers > 0,
    )
