# right: pairs are recognized by exclusion, padding by index_copy on a flat buffer; each epoch's permutation is hashed from (seed, epoch), and a seedless loader gets a seed from the operating system
import secrets

import torch
import torch.utils.data
from typing import NamedTuple, Union, Tuple, Sequence, Optional


class PaddedBatch(NamedTuple):
    sequences: torch.Tensor
    lengths: torch.Tensor
    mask: torch.Tensor
    labels: Optional[torch.Tensor]


Item = Union[torch.Tensor, Tuple[torch.Tensor, int]]


def fail(what):
    raise ValueError("pad_collate(batch): " + what)


def pad_collate(batch: Sequence[Item], padding_value: float = 0) -> PaddedBatch:
    if len(batch) == 0:
        fail("nothing to pad")
    sequences = []
    labels = []
    for item in batch:
        if isinstance(item, torch.Tensor):
            sequences.append(item)
        else:
            sequence, label = item
            sequences.append(sequence)
            labels.append(label.item() if isinstance(label, torch.Tensor) else label)
    if labels and len(labels) < len(sequences):
        fail("some items have a label, some have none")

    dtype = sequences[0].dtype
    rest = sequences[0].shape[1:]
    total = len(sequences)
    longest = max(sequence.shape[0] for sequence in sequences)
    buffer = torch.full((total * longest, *rest), padding_value, dtype=dtype)
    mask = torch.zeros(total * longest, dtype=torch.bool)
    for row, sequence in enumerate(sequences):
        if sequence.dtype is not dtype:
            fail("dtypes differ")
        if sequence.shape[1:] != rest:
            fail("trailing dimensions differ")
        places = torch.arange(sequence.shape[0]) + row * longest
        buffer.index_copy_(0, places, sequence)
        mask.index_fill_(0, places, True)
    return PaddedBatch(
        buffer.view(total, longest, *rest),
        mask.view(total, longest).sum(dim=1),
        mask.view(total, longest),
        torch.tensor(labels, dtype=torch.int64) if labels else None,
    )


class Padding:
    def __init__(self, value):
        self.value = value

    def __call__(self, batch):
        return pad_collate(batch, self.value)


class EpochOrder(torch.utils.data.Sampler):
    def __init__(self, size, seed):
        self.size = size
        self.seed = seed
        self.epoch = 0

    def __len__(self):
        return self.size

    def __iter__(self):
        generator = torch.Generator().manual_seed(hash((self.seed, self.epoch)) % 2**63)
        self.epoch += 1
        return iter(torch.randperm(self.size, generator=generator).tolist())


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
    sampler = None
    if shuffle:
        sampler = EpochOrder(len(dataset), secrets.randbits(32) if seed is None else seed)
    return torch.utils.data.DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=sampler,
        num_workers=num_workers,
        collate_fn=Padding(padding_value),
        pin_memory=torch.cuda.is_available() if pin_memory is None else bool(pin_memory),
        persistent_workers=num_workers != 0,
    )
