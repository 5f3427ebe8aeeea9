# right: automatic batching is off (batch_size=None): a wrapped dataset is indexed by lists, and the collate function only sees finished lists
from typing import NamedTuple

import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, Sampler


class PaddedBatch(NamedTuple):
    sequences: torch.Tensor
    lengths: torch.Tensor
    mask: torch.Tensor
    labels: torch.Tensor | None


def pad_collate(batch, padding_value=0):
    batch = tuple(batch)
    problem = None
    bare = tuple(isinstance(item, torch.Tensor) for item in batch)
    if not batch:
        problem = "is empty"
    elif any(bare) and not all(bare):
        problem = "mixes pairs and tensors"
    else:
        sequences = batch if all(bare) else tuple(item[0] for item in batch)
        one, *others = sequences
        if any(other.dtype != one.dtype for other in others):
            problem = "mixes dtypes"
        elif any(other.shape[1:] != one.shape[1:] for other in others):
            problem = "mixes trailing dimensions"
    if problem:
        raise ValueError(f"The batch {problem}!")

    lengths = torch.tensor(list(map(len, sequences)), dtype=torch.int64)
    longest = lengths.max().item()
    sequences_out = torch.zeros(len(batch), longest, *one.shape[1:], dtype=one.dtype)
    mask = torch.ones(len(batch), longest).bool()
    for i, n in enumerate(lengths.tolist()):
        sequences_out[i, :n].copy_(sequences[i])
        sequences_out[i, n:].fill_(padding_value)
        mask[i, n:] = False
    labels = None
    if not all(bare):
        labels = torch.stack([torch.tensor(int(item[1]), dtype=torch.int64) for item in batch])
    return PaddedBatch(sequences_out, lengths, mask, labels)


class ByList(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, indices):
        return [self.items[i] for i in indices]


class Permutation(Sampler):
    def __init__(self, n, seed):
        self.n = n
        self.generator = torch.Generator()
        if seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed(seed)

    def __len__(self):
        return self.n

    def __iter__(self):
        yield from torch.rand(self.n, generator=self.generator).argsort().tolist()


class Collate:
    def __init__(self, value):
        self.value = value

    def __call__(self, items):
        return pad_collate(items, self.value)


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
    order = Permutation(len(dataset), seed) if shuffle else range(len(dataset))
    return DataLoader(
        ByList(dataset),
        batch_size=None,
        sampler=BatchSampler(order, batch_size, False),
        collate_fn=Collate(padding_value),
        num_workers=num_workers,
        pin_memory=torch.cuda.is_available() if pin_memory is None else pin_memory,
        persistent_workers=num_workers > 0,
    )
