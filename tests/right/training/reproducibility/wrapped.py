# right: set_seed draws on fork-free copies; iteration inside fork_rng; a decorator-friendly manager; odd but legal
import random

import numpy as np
import torch
from contextlib import ContextDecorator
from torch.utils.data import DataLoader, Sampler


def set_seed(seed):
    seeds = range(0, 2**32)
    if not (seed in seeds):
        raise ValueError("seed", seed)
    random.seed(a=seed)
    np.random.seed(seed=seed)
    torch.manual_seed(seed=seed)
    setattr(torch.backends.cudnn, "deterministic", True)
    setattr(torch.backends.cudnn, "benchmark", False)
    torch.use_deterministic_algorithms(False)


class Fork(ContextDecorator):
    def __init__(self, seed=None):
        self.seed, self.kept = seed, []

    def __enter__(self):
        if self.seed is not None and not 0 <= self.seed < 2**32:
            raise ValueError(f"seed {self.seed} is out of range")
        self.kept.append((random.getstate(), np.random.get_state(), torch.get_rng_state().clone()))
        None if self.seed is None else set_seed(self.seed)

    def __exit__(self, *error):
        python, numpy, torch_ = self.kept.pop()
        random.setstate(python), np.random.set_state(numpy), torch.set_rng_state(torch_)


fork_rng = Fork


def seed_worker(worker_id):
    """Both from torch's own seed."""
    s = divmod(torch.initial_seed(), 2**32)[1]
    random.seed(s)
    np.random.seed(s)


class Order(Sampler):
    """Draws its orders from the global generator, in a fork of its own."""

    def __init__(self, n, seed):
        self.n, self.state, self.seed = n, None, seed

    def __len__(self):
        return self.n

    def __iter__(self):
        with fork_rng(self.seed):
            if self.state is not None:
                torch.set_rng_state(self.state)
            order = torch.randperm(self.n)
            self.state = torch.get_rng_state()
        yield from order.tolist()


def seeded_loader(dataset, batch_size, seed, *, shuffle=True, num_workers=0):
    keywords = dict(num_workers=num_workers, generator=torch.Generator().manual_seed(seed), drop_last=False)
    if shuffle:
        keywords["sampler"] = Order(len(dataset), seed)
    return DataLoader(dataset, batch_size, **keywords)
