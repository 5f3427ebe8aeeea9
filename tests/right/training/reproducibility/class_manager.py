# right: a class as the context manager, which checks its seed as it is made; a sampler of its own; persistent workers
import os
import random

import numpy
import torch
import torch.utils.data as data


def set_seed(seed: int) -> None:
    numpy.random.seed(check(seed))
    random.seed(seed)
    torch.manual_seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    cudnn = torch.backends.cudnn
    cudnn.benchmark, cudnn.deterministic = False, True


def check(seed):
    if seed not in range(2**32):
        raise ValueError(f"Seed {seed} is not in 0..2**32 - 1")
    return seed


class fork_rng:
    def __init__(self, seed: int | None = None):
        self.seed = seed if seed is None else check(seed)

    def __enter__(self):
        self.python, self.numpy = random.getstate(), numpy.random.get_state(legacy=False)
        self.torch = torch.random.get_rng_state()
        self.flags = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
        if self.seed is not None:
            set_seed(self.seed)
        return self

    def __exit__(self, *_):
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = self.flags
        torch.random.set_rng_state(self.torch)
        numpy.random.set_state(self.numpy)
        random.setstate(self.python)
        return False


def seed_worker(worker_id: int) -> None:
    low = torch.initial_seed() & 0xFFFFFFFF
    for module in (random, numpy.random):
        module.seed(low)


class Orders(data.Sampler):
    """The permutation of each epoch is a function of seed and epoch."""

    def __init__(self, n, seed):
        self.n, self.seed, self.epoch = n, seed, -1

    def __len__(self):
        return self.n

    def __iter__(self):
        self.epoch += 1
        rng = numpy.random.default_rng([self.seed, self.epoch])
        return iter(rng.permutation(self.n).tolist())


def seeded_loader(dataset, batch_size, seed, *, shuffle=True, num_workers=0):
    return data.DataLoader(
        dataset,
        batch_size=batch_size,
        sampler=Orders(len(dataset), seed) if shuffle else None,
        num_workers=num_workers,
        persistent_workers=num_workers > 0,
        worker_init_fn=seed_worker,
        generator=torch.Generator().manual_seed(seed),
    )
