"""Batches of variable length: padding, masks, and a loader that repeats itself on request."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset


class PaddedBatch(NamedTuple):
    """A batch of B sequences, filled up to the length T of the longest.

    sequences: `(batch, time, ...)`, the sequences in their order, padding behind each.
    lengths:   `(batch,)` int64, how many real steps each sequence has.
    mask:      `(batch, time)` bool, True on real steps and False on padding.
    labels:    `(batch,)` int64, or None for a batch without labels.
    """

    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Tensor | None


def pad_collate(
    batch: Sequence[Tensor | tuple[Tensor, int]], padding_value: float = 0
) -> PaddedBatch:
    """Pad the sequences of a batch behind, up to the longest of them; see the exercise."""
    if len(batch) == 0:
        raise ValueError("batch is empty, it needs at least one item")
    sequences, labels = _take_apart(batch)
    first = sequences[0]
    for sequence in sequences:
        # Assigning into the box would broadcast (n, 1) and convert dtypes without a word.
        if sequence.shape[1:] != first.shape[1:]:
            raise ValueError(
                "batch has sequences of different trailing dimensions: "
                f"{tuple(first.shape[1:])} and {tuple(sequence.shape[1:])}"
            )
        if sequence.dtype != first.dtype:
            raise ValueError(f"batch has different dtypes: {first.dtype} and {sequence.dtype}")

    lengths = torch.tensor([sequence.shape[0] for sequence in sequences], dtype=torch.int64)
    longest = int(lengths.max())
    # A fresh box of the items' dtype and device: nothing in it can share memory with an item.
    padded = first.new_full((len(sequences), longest, *first.shape[1:]), padding_value)
    for row, sequence in zip(padded, sequences, strict=True):
        row[: sequence.shape[0]] = sequence
    # From the lengths, not from the values: a real step may hold the padding value.
    mask = torch.arange(longest) < lengths.unsqueeze(1)
    return PaddedBatch(padded, lengths, mask, labels)


def _take_apart(
    batch: Sequence[Tensor | tuple[Tensor, int]],
) -> tuple[list[Tensor], Tensor | None]:
    """Return the sequences of a batch, and its labels as an int64 tensor if it has any."""
    bare = [item for item in batch if isinstance(item, Tensor)]
    if len(bare) == len(batch):
        return bare, None
    if bare:
        raise ValueError("batch mixes (sequence, label) pairs with bare tensors")
    sequences = [item[0] for item in batch]
    # int() takes an int and a 0-d tensor of any integer dtype, and keeps nothing of either.
    return sequences, torch.tensor([int(item[1]) for item in batch], dtype=torch.int64)


def make_loader(
    dataset: Dataset[Any],
    batch_size: int = 32,
    *,
    shuffle: bool = False,
    num_workers: int = 0,
    padding_value: float = 0,
    pin_memory: bool | None = None,
    seed: int | None = None,
) -> DataLoader[Any]:
    """Build a DataLoader over `dataset` that yields PaddedBatch objects; see the exercise."""
    generator = None
    if seed is not None:  # not `if seed`: 0 is a seed
        # A generator of the loader's own: the order depends on nothing else, and disturbs nothing.
        generator = torch.Generator().manual_seed(seed)
    if pin_memory is None:
        pin_memory = torch.cuda.is_available()
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        num_workers=num_workers,
        # A partial of a module's function pickles; a lambda or an inner function does not.
        collate_fn=functools.partial(pad_collate, padding_value=padding_value),
        pin_memory=pin_memory,
        persistent_workers=num_workers > 0,  # with no workers, DataLoader refuses True
        generator=generator,
    )
