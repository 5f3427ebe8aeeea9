"""Batches of variable length: padding, masks, and a loader that repeats itself on request.

Sentences, recordings and trajectories differ in length, but a tensor is a box: fill up the shorter sequences,
and remember what was filled. For sequences s_1, ..., s_B of lengths n_1, ..., n_B,

    sequences[b, t] = s_b[t]           and  mask[b, t] = True    where t < n_b
    sequences[b, t] = padding_value    and  mask[b, t] = False   elsewhere

The mask keeps padding out of attention scores, means and the loss. It comes from the lengths, since a real step
may well hold the padding value.

Source: PyTorch documentation, `torch.utils.data` and `torch.nn.utils.rnn.pad_sequence`.

What holds for every exercise: docs/every-exercise.md.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils.data import DataLoader, Dataset


class PaddedBatch(NamedTuple):
    """A batch of B sequences, filled up to the length T of the longest (given: leave it as it is).

    - `sequences`: `(B, T, ...)`, the sequences in their order, padding behind each.
    - `lengths`: `(B,)` int64, how many real steps each sequence has.
    - `mask`: `(B, T)` bool, True on real steps and False on padding.
    - `labels`: `(B,)` int64, or None for a batch without labels.
    """

    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Tensor | None


def pad_collate(
    batch: Sequence[Tensor | tuple[Tensor, int]], padding_value: float = 0
) -> PaddedBatch:
    """Pad the sequences of a batch behind, up to the longest of them, and return a PaddedBatch.

    `batch` is a list or tuple of B >= 1 items: a sequence `(length, ...)` of any dtype, which the result keeps,
    or a pair (tuple or list) of a sequence and a label, an int or a 0-d integer tensor. Lengths may be 0, even
    all of them. `labels` is None if the items are not pairs. No tensor of the result shares memory with the
    items.

    Raises ValueError that names `batch` if

    - it is empty;
    - trailing dimensions (all but the first) of sequences differ, in number or in size, those of length 0
      included;
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

    `dataset` is map-style, with items as `pad_collate` takes them. Every item comes exactly once in an epoch,
    in batches of `batch_size`, of which the last one may be shorter: in order, or with `shuffle` in a random
    order that is another one in each epoch.

    - The loader also works with workers that are spawned: all that it sends to them can be pickled, the collate
      function too, with any `padding_value`. Workers persist from one epoch to the next.
    - `pin_memory` None means True where CUDA is available and False elsewhere.
    - `seed` is for `shuffle`: two loaders with the same seed (0 is one too) and the same number of workers give
      the same order in their first full epoch, in their second, and so on, whatever the global random state is
      and whichever loader runs first. Other seeds give other orders. None gives any random order. This function
      draws nothing from the global random states.
    """
    # TODO: a DataLoader around pad_collate.
    raise NotImplementedError("make_loader: a DataLoader around pad_collate")
