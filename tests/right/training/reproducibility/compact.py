# right: compact, without types; a contextmanager over the student's own pair of functions
import random
from contextlib import contextmanager

import numpy as np
import torch
from torch.utils.data import DataLoader


def get_states():
    return random.getstate(), np.random.get_state(), torch.get_rng_state()


def set_states(states):
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])


def set_seed(seed):
    if seed < 0 or seed >= 2**32:
        raise ValueError("seed is too small or too large")
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    torch.backends.cudnn.deterministic = True
    torch.backends.cudnn.benchmark = False


@contextmanager
def fork_rng(seed=None):
    states = get_states()
    try:
        if seed is not None:
            set_seed(seed)
        yield
    finally:
        set_states(states)


def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)


def seeded_loader(dataset, batch_size, seed, *, shuffle=True, num_workers=0):
    g = torch.Generator()
    g.manual_seed(seed)
    return DataLoader(dataset, batch_size=batch_size, shuffle=shuffle, num_workers=num_workers, generator=g)
