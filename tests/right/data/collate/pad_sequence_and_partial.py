# right: pad_sequence does the padding, sets find the mistakes, no type hints at all
from collections import namedtuple
from functools import partial

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

# the given class, written the old way
PaddedBatch = namedtuple("PaddedBatch", ["sequences", "lengths", "mask", "labels"])


def pad_collate(batch, padding_value=0):
    if not batch:
        raise ValueError("cannot collate an empty batch")
    kinds = {isinstance(item, torch.Tensor) for item in batch}
    if len(kinds) == 2:
        raise ValueError("the batch has pairs and bare tensors")
    labels = None
    if kinds == {False}:
        sequences, labels = zip(*batch)
        labels = torch.LongTensor([int(y) for y in labels])
    else:
        sequences = list(batch)
    if len({s.dtype for s in sequences}) > 1:
        raise ValueError("the batch has sequences of several dtypes")
    if len({s.shape[1:] for s in sequences}) > 1:
        raise ValueError("the batch has sequences of several trailing shapes")
    lengths = torch.LongTensor([len(s) for s in sequences])
    padded = pad_sequence(list(sequences), batch_first=True, padding_value=padding_value)
    # two None's make the comparison a table
    mask = torch.arange(padded.shape[1])[None, :] < lengths[:, None]
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
    if pin_memory is None:
        pin_memory = torch.cuda.is_available()
    g = torch.Generator()
    if seed is not None:
        g.manual_seed(seed)
    return DataLoader(
        dataset,
        batch_size,
        shuffle,
        num_workers=num_workers,
        collate_fn=partial(pad_collate, padding_value=padding_value),
        pin_memory=pin_memory,
        persistent_workers=bool(num_workers),
        generator=g,
    )
