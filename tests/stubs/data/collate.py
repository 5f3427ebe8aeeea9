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


def pad_collate(
    batch: Sequence[Tensor | tuple[Tensor, int]], padding_value: float = 0
) -> PaddedBatch:
    """Pad the sequences of a batch behind, up to the longest of them.

    Args:
        batch: B >= 1 items in a list or tuple. An item is a sequence `(length, ...)`, or a pair
            `(sequence, label)`, where a pair is a tuple or a list, and the label an int or a
            0-d integer tensor. A sequence may have any dtype, and any number of further
            dimensions (also none), which are the same for all of the batch. A length may be 0,
            also that of every sequence of the batch (then T is 0).
        padding_value: what stands where a sequence has no step.

    Returns:
        A PaddedBatch:
        `sequences` `(batch, longest length, ...)` in the dtype of the items and in their order;
        `lengths` `(batch,)` int64; `mask` `(batch, longest length)` bool, True on real steps,
        whatever values they hold; `labels` `(batch,)` int64 where the items are pairs, else None.
        None of these tensors shares memory with the items, a batch of one item included, and the
        batch and its tensors stay as they were. On a GPU, lengths, mask and labels may live on the
        CPU or beside the sequences.

    Raises:
        ValueError: with the word "batch" in its message, if
            - the batch is empty;
            - trailing dimensions (all but the first) of sequences differ, in number or in size;
            - dtypes of sequences differ (a sequence of length 0 has both, too, and they count);
            - some items are pairs and some are bare tensors.
    """
    # TODO: check the batch, take pairs apart, fill up, and build the mask from the lengths.
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

    Every item of the dataset comes exactly once in an epoch, in batches of `batch_size`, the last
    batch shorter if the dataset's length asks for it. The loader works with workers that are
    forked and with workers that are spawned; for the latter, everything that the loader sends to
    its workers has to be picklable, the collate function too, with any padding value.

    Args:
        dataset: map-style (it has a length and is indexed by 0, 1, ...); its items are
            `(length, ...)` sequences, or `(sequence, label)` pairs, as `pad_collate` takes them.
        batch_size: how many items a batch has.
        shuffle: False: the items come in the dataset's order. True: in a random order, shuffled
            anew in each epoch.
        num_workers: how many worker processes load the items, 0 for none. Workers, if any, persist
            from one epoch to the next.
        padding_value: what `pad_collate` pads with.
        pin_memory: as DataLoader's `pin_memory`: True and False are taken as given (also where
            CUDA is not, or is, available); None means True where CUDA is available and False
            elsewhere.
        seed: for `shuffle`: two loaders with the same seed (0 is a seed too) and the same number
            of workers give the same order in their first full epoch, in their second, and so on,
            whatever the global random state is and whichever loader runs first; with other seeds
            they give other orders. None: a random order of no promise. Neither this function nor,
            where a seed is given, the loader's shuffling seeds the global random states of torch,
            numpy or Python, and this function draws nothing from them.

    Returns:
        A `torch.utils.data.DataLoader` (or a subclass of it).
    """
    # TODO: a picklable collate function, a generator of the loader's own, and DataLoader's options.
    raise NotImplementedError("make_loader: a DataLoader around pad_collate")
