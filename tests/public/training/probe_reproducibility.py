"""Draws of the global generators around the student's calls, and the orders of a loader."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader


def draw() -> dict[str, float]:
    """The next normal number of each global generator."""
    normal = random.gauss(0, 1), float(np.random.randn()), torch.randn(1).item()
    return dict(zip(("Python's random", "NumPy", "torch"), normal, strict=True))


def scramble() -> None:
    """Seed all three with another number, and leave the second of two normal numbers in each."""
    random.seed(99), np.random.seed(99), torch.manual_seed(99)
    draw()


def seeded(module: Any, seed: int) -> dict[str, float]:
    """The draws after set_seed."""
    scramble()
    module.set_seed(seed)
    return draw()


def forked(module: Any, seed: int | None, fails: bool) -> list[Any]:
    """The draws without a block, in a block, and after it."""
    scramble()
    expected = draw()
    scramble()
    inside: dict[str, float] = {}
    try:
        with module.fork_rng() if seed is None else module.fork_rng(seed):
            inside = draw()
            if fails:
                raise KeyError
    except KeyError:
        pass
    return [expected, inside, draw()]


def worker_seeded(module: Any, torch_seed: int, worker_id: int) -> dict[str, float]:
    scramble()
    torch.manual_seed(torch_seed)
    module.seed_worker(worker_id)
    return {"Python's random": random.random(), "NumPy": float(np.random.rand())}


def orders(module: Any, seed: int, noise: int) -> dict[str, Any]:
    """Two epochs of a loader in another global random state, and whether that is left alone."""
    loader: DataLoader[Any] = module.seeded_loader(list(range(10)), 4, seed)
    torch.manual_seed(noise)
    epochs = [[batch.tolist() for batch in loader] for _ in range(2)]
    after = torch.rand(1).item()
    torch.manual_seed(noise)
    return {"epochs": epochs, "left alone": after == torch.rand(1).item()}
