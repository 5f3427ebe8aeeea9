"""Reproducibility: seeds, and code that leaves the random state alone.

Three libraries have a global generator each: Python's `random`, NumPy (`np.random.rand` and the like;
`np.random.default_rng(seed)` makes another one) and torch. `random.gauss` and `np.random.randn` keep a second
number for the next call, which is part of the state. Code that draws for itself, to plot a few examples, should
leave these generators as they were.

A `DataLoader` with workers starts processes, each with its own three generators. In a worker,
`torch.initial_seed()` is a base seed that the loader draws once an epoch, plus the worker's number. The loader
draws it, and the orders, from the generator that it was given, or else from torch's global one, even without
workers and shuffling.

Source: PyTorch documentation, "Reproducibility" and "torch.utils.data".

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
import random

# end solution
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# begin solution: imports
import numpy as np
import torch

# end solution
from torch.utils.data import DataLoader, Dataset


def set_seed(seed: int) -> None:
    """Seed everything: the three global generators, and cuDNN's choice of algorithms.

    After each call they are as after `random.seed(seed)`, `np.random.seed(seed)` and `torch.manual_seed(seed)`;
    `torch.backends.cudnn.deterministic` is True and `torch.backends.cudnn.benchmark` False. What else it sets
    is up to you.

    Raises ValueError that names `seed` if it is outside 0..2**32 - 1, the seeds that NumPy takes.
    """
    # begin solution: check the seed, seed the three, set the two flags
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in 0..2**32 - 1, got {seed}")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    # end solution


@contextmanager
def fork_rng(seed: int | None = None) -> Iterator[Any]:
    """Make a context manager whose block may draw and seed without a trace in the three global generators.

        with fork_rng(0):
            rows = torch.randperm(1000)[:10]  # always the same ten, and the training goes on as ever

    After the block their whole states are what they were when it was entered, also after an exception or
    Ctrl-C. Making the manager changes nothing. Blocks may be nested.

    With a `seed`, 0 for instance, the generators are in the block as after `set_seed(seed)`; without one they
    go on from where they were. Whether the cuDNN flags come back is up to you.

    Raises ValueError that names `seed` if it is outside 0..2**32 - 1, when the manager is made or when the
    block is entered.
    """
    # begin solution: keep the states, seed, yield, put the states back
    states: Any = random.getstate(), np.random.get_state(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    try:
        if seed is not None:
            set_seed(seed)
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if devices:
            torch.cuda.set_rng_state_all(devices)
    # end solution


def seed_worker(worker_id: int) -> None:
    """Seed `random` and NumPy by torch's seed, as a `worker_init_fn` does in a new worker of a loader.

    Both are then as after seeding with `torch.initial_seed() % 2**32`, whatever `worker_id` is: in a worker it
    is part of that seed already. torch's own generator stays as it is. The function works in any process.
    """
    # begin solution: seed the two
    del worker_id  # which is part of torch.initial_seed() already
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)
    # end solution


def seeded_loader(
    dataset: Dataset[Any],
    batch_size: int,
    seed: int,
    *,
    shuffle: bool = True,
    num_workers: int = 0,
) -> DataLoader[Any]:
    """Make a DataLoader whose epochs repeat themselves for a seed, and leave the global generators alone.

    `dataset` is map-style, its items are tensors. Batches are made by the default collation, and have
    `batch_size` items; the last one of an epoch may be shorter. Each item comes once an epoch.

    - Order: without `shuffle` that of the dataset. With it every epoch has another order, which depends on
      `seed` alone: two loaders with one seed give the same first, second, third epoch, whatever happens
      meanwhile to the global generators and in other loaders. Other seeds give other orders.
    - Making the loader and iterating it (each epoch to its end) leaves the global generators as they were, in
      any case.
    - There are `num_workers` worker processes. What the items draw there from the three global generators
      depends on `seed`, `num_workers` and the epoch alone; it differs between the workers, between epochs and
      between seeds. Without workers, what items draw does not matter.
    """
    # begin solution: a loader with a generator of its own
    return DataLoader(
        dataset,
        batch_size,
        shuffle=shuffle,
        num_workers=num_workers,
        worker_init_fn=seed_worker,
        # Without it, orders and workers' seeds would be drawn from the global generator.
        generator=torch.Generator().manual_seed(seed),
    )
    # end solution
