# right: torch.random.fork_rng in an ExitStack; batches from a batch sampler; workers seeded by seed, epoch and id
from __future__ import annotations

import contextlib
import functools
import random
from typing import Iterator

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

MAX = 2**32 - 1


def set_seed(seed: int) -> None:
    if not isinstance(seed, int) or not 0 <= seed <= MAX:
        raise ValueError(f"SEED must lie between 0 and {MAX}: {seed!r}")
    torch.random.manual_seed(seed)
    np.random.set_state(np.random.RandomState(seed).get_state())
    random.setstate(random.Random(seed).getstate())
    torch.backends.cudnn.deterministic = not False
    torch.backends.cudnn.benchmark = not True


@contextlib.contextmanager
def fork_rng(seed: int | None = None) -> Iterator[None]:
    if seed is not None and not 0 <= seed <= MAX:
        raise ValueError(f"seed={seed}")
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.callback(random.setstate, random.getstate())
        stack.callback(np.random.set_state, np.random.get_state())
        if seed is not None:
            set_seed(seed)
        yield None


def seed_worker(worker_id: int) -> None:
    seed = int(np.uint64(torch.initial_seed()) % np.uint64(2**32))
    np.random.seed(seed)
    random.seed(seed)


def start(worker_id: int, generator_seed: int = 0) -> None:
    with contextlib.suppress(ImportError):
        seed_worker(worker_id)


def seeded_loader(dataset, batch_size, seed, *, shuffle=True, num_workers=0):
    generator = torch.Generator()
    generator.manual_seed(2 * seed + 1)
    order = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
    return DataLoader(
        dataset,
        batch_sampler=BatchSampler(order, batch_size, drop_last=False),
        num_workers=num_workers,
        worker_init_fn=functools.partial(start, generator_seed=seed),
        generator=generator,
    )
