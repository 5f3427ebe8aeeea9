# right: as in PyTorch's notes, with torch.random.fork_rng inside and a message that says manual_seed
import random
from contextlib import contextmanager

import numpy
import torch
from torch.utils.data import DataLoader


def set_seed(seed):
    if seed < 0 or seed > 2**32 - 1:
        raise ValueError(f"manual_seed out of range: {seed}")
    random.seed(seed)
    numpy.random.seed(seed)
    torch.manual_seed(seed)
    torch.cuda.manual_seed_all(seed)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True


@contextmanager
def fork_rng(seed=None):
    py_state = random.getstate()
    np_state = numpy.random.get_state()
    try:
        with torch.random.fork_rng():
            if seed is not None:
                set_seed(seed)
            yield
    finally:
        random.setstate(py_state)
        numpy.random.set_state(np_state)


def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    numpy.random.seed(worker_seed)
    random.seed(worker_seed)


def seeded_loader(dataset, batch_size, seed, *, shuffle=True, num_workers=0):
    g = torch.Generator()
    g.manual_seed(seed)
    return DataLoader(
        dataset,
        batch_size=batch_size,
        shuffle=shuffle,
        num_workers=num_workers,
        worker_init_fn=seed_worker,
        generator=g,
    )
