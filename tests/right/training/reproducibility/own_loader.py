# right: a DataLoader subclass that counts its epochs and seeds a generator for each; fork_rng as a closure class
import random
import numpy as np
import torch
from torch.utils.data import DataLoader
from contextlib import AbstractContextManager


class Rng:
    """The three global generators as one object."""

    @property
    def state(self):
        return {
            "torch": torch.default_generator.get_state(),
            "numpy": np.random.get_state(),
            "python": random.getstate(),
        }

    @state.setter
    def state(self, state):
        torch.default_generator.set_state(state["torch"])
        np.random.set_state(state["numpy"])
        random.setstate(state["python"])

    def seed(self, seed):
        for seeder in (random.seed, np.random.seed, torch.manual_seed):
            seeder(seed)


RNG = Rng()


def set_seed(seed):
    if seed < 0:
        raise ValueError("a negative seed")
    if seed.bit_length() > 32:
        raise ValueError("a seed of more than 32 bits")
    RNG.seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)


class Fork(AbstractContextManager):
    def __init__(self, seed):
        self.seed = seed
        self.stack = []

    def __enter__(self):
        self.stack.append(RNG.state)
        if self.seed is not None:
            try:
                set_seed(self.seed)
            except BaseException:
                self.stack.pop()
                raise
        return RNG

    def __exit__(self, kind, error, trace):
        RNG.state = self.stack.pop()


def fork_rng(seed=None):
    return Fork(seed)


def seed_worker(worker_id):
    s = torch.initial_seed() % (1 << 32)
    np.random.seed(s), random.seed(s)


class SeededLoader(DataLoader):
    epoch = 0

    def __iter__(self):
        self.generator.manual_seed(self.own_seed * 1_000_003 + self.epoch)
        self.epoch += 1
        return super().__iter__()


def seeded_loader(dataset, batch_size, seed, *, shuffle=True, num_workers=0):
    loader = SeededLoader(
        dataset, batch_size, shuffle, num_workers=num_workers, worker_init_fn=seed_worker, generator=torch.Generator()
    )
    loader.own_seed = seed
    return loader
