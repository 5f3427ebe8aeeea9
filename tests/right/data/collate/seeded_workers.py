# right: every option of DataLoader that reproducibility guides name (worker_init_fn, generator), a cached CUDA check, labels through numpy, detached copies
import functools
import random
from typing import Any, NamedTuple

import numpy
import torch
from torch import Tensor
from torch.utils.data import DataLoader


class PaddedBatch(NamedTuple):
    """given"""

    sequences: Tensor
    lengths: Tensor
    mask: Tensor
    labels: Tensor | None


@functools.lru_cache(maxsize=None)
def has_cuda() -> bool:
    return torch.cuda.is_available()


def seed_worker(worker_id: int) -> None:
    worker_seed = torch.initial_seed() % 2**32
    numpy.random.seed(worker_seed)
    random.seed(worker_seed)


def pad_collate(batch: Any, padding_value: float = 0) -> PaddedBatch:
    match list(batch):
        case []:
            raise ValueError("An empty batch cannot be padded")
        case [Tensor(), *_] as items:
            if any(not isinstance(item, Tensor) for item in items):
                raise ValueError("A batch of tensors holds a pair")
            sequences, labels = items, None
        case items:
            if any(isinstance(item, Tensor) for item in items):
                raise ValueError("A batch of pairs holds a tensor")
            sequences = [item[0] for item in items]
            labels = torch.from_numpy(
                numpy.fromiter((int(item[1]) for item in items), dtype=numpy.int64)
            )
    sequences = [sequence.detach().clone() for sequence in sequences]
    dtype, trailing = sequences[0].dtype, sequences[0][0:0].shape[1:]
    for position, sequence in enumerate(sequences):
        if sequence.dtype != dtype:
            raise ValueError(f"item {position} of the batch is {sequence.dtype}, not {dtype}")
        if sequence.shape[1:] != trailing:
            raise ValueError(f"item {position} of the batch has other dimensions than item 0")
    lengths = torch.tensor([sequence.shape[0] for sequence in sequences])
    longest = max(lengths.tolist())
    positions = torch.arange(longest).repeat(len(sequences), 1)
    mask = positions.lt(lengths.view(-1, 1))
    gap = [s.new_full((longest - s.shape[0], *trailing), padding_value) for s in sequences]
    padded = torch.cat([torch.cat(pair)[None] for pair in zip(sequences, gap)])
    return PaddedBatch(padded, lengths, mask, labels)


def make_loader(
    dataset: Any,
    batch_size: int = 32,
    *,
    shuffle: bool = False,
    num_workers: int = 0,
    padding_value: float = 0,
    pin_memory: bool | None = None,
    seed: int | None = None,
) -> DataLoader:
    generator = torch.Generator()
    generator.manual_seed(seed) if seed is not None else generator.seed()
    return DataLoader(
        dataset=dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        num_workers=num_workers,
        collate_fn=functools.partial(pad_collate, padding_value=padding_value),
        worker_init_fn=seed_worker,
        generator=generator,
        drop_last=False,
        pin_memory=has_cuda() if pin_memory is None else pin_memory,
        persistent_workers=num_workers > 0,
        prefetch_factor=4 if num_workers > 0 else None,
    )
