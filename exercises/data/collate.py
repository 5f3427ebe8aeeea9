"""Batches of variable length: padding, masks, and a loader that repeats itself on request.

Sentences, recordings and trajectories differ in length, but a tensor is a box. The way out is
to fill up the shorter sequences and to remember what was filled. For sequences s_1, ..., s_B of
lengths n_1, ..., n_B, with T the greatest of these lengths,

    sequences[b, t] = s_b[t]           and  mask[b, t] = True    where t < n_b
    sequences[b, t] = padding_value    and  mask[b, t] = False   elsewhere

The mask keeps padding out of everything that follows: attention scores, means, the loss. It cannot
be recovered from the padded values, since a real step may well hold the padding value; it comes
from the lengths.

The second half of the work is the loader. A data loader that drops the last samples, that shuffles
differently on every run, or that works only where processes are forked does so silently. You build
one that does none of this.

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


def pad_collate(
    batch: Sequence[Tensor | tuple[Tensor, int]], padding_value: float = 0
) -> PaddedBatch:
    """Pad the sequences of a batch behind, up to the longest of them.

    Args:
        batch: B >= 1 items in a list or tuple. An item is a sequence `(length, ...)`, or a pair
            `(sequence, label)`, where a pair is a tuple or a list, and the label an int or a
            0-d integer tensor. A sequence may have any dtype and any number of further dimensions.
            Lengths may be 0, even all of them (then T is 0).
        padding_value: what stands where a sequence has no step.

    Returns:
        A PaddedBatch:
        `sequences` `(batch, longest length, ...)` in the dtype of the items and in their order;
        `lengths` `(batch,)` int64; `mask` `(batch, longest length)` bool, True on real steps,
        whatever values they hold; `labels` `(batch,)` int64 where the items are pairs, else None.
        None of these tensors shares memory with the items, and the batch and its tensors stay as
        they were.

    Raises:
        ValueError: with the word "batch" in its message, if
            - the batch is empty;
            - trailing dimensions (all but the first) of sequences differ, in number or in size,
              those of length 0 included;
            - dtypes of sequences differ;
            - some items are pairs and some are bare tensors.
    """
    # TODO: pad behind, and tell real steps from padding.
    raise NotImplementedError("pad_collate: pad behind, and tell real steps from padding")


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
    """Build a DataLoader over `dataset` that yields PaddedBatch objects made by `pad_collate`.

    Every item of the dataset comes exactly once in an epoch, in batches of `batch_size`, of which
    the last one may be shorter. The loader also works with workers that are spawned: everything
    that it sends to them has to be picklable, the collate function too, with any padding value.

    Args:
        dataset: map-style (it has a length and is indexed by 0, 1, ...); its items are
            `(length, ...)` sequences, or `(sequence, label)` pairs, as `pad_collate` takes them.
        batch_size: how many items a batch has.
        shuffle: False: the items come in the dataset's order. True: in a random order, shuffled
            anew in each epoch.
        num_workers: how many worker processes load the items, 0 for none. Workers persist from one
            epoch to the next.
        padding_value: what `pad_collate` pads with.
        pin_memory: as DataLoader's `pin_memory`; None means True where CUDA is available and False
            elsewhere.
        seed: for `shuffle`: two loaders with the same seed (0 is a seed too) and the same number
            of workers give the same order in their first full epoch, in their second, and so on,
            whatever the global random state is and whichever loader runs first; with other seeds
            they give other orders. None: any random order. The global random states of torch,
            NumPy and Python are not seeded, and this function draws nothing from them.

    Returns:
        A `torch.utils.data.DataLoader` (or a subclass of it).
    """
    # TODO: a DataLoader around pad_collate.
    raise NotImplementedError("make_loader: a DataLoader around pad_collate")
