"""Draws of the global generators before, in and after blocks, and passes over loaders."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


def draws() -> dict[str, Any]:
    """The next uniform and normal numbers of each global generator, whose state is then restored."""
    states: Any = random.getstate(), np.random.get_state(), torch.get_rng_state()
    numbers: dict[str, Any] = {
        "Python's random": [[random.random() for _ in range(9)], random.gauss(0, 1)],
        "NumPy": [np.random.rand(9).tolist(), np.random.randn(2).tolist()],
        "torch": [torch.rand(9).tolist(), torch.randn(2).tolist()],
    }
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    return numbers


def draw() -> None:
    """Draw an odd number of normal numbers. They are made two at a time, so that one is kept for later."""
    random.random()
    random.gauss(0, 1)
    np.random.rand()
    np.random.randn()
    torch.rand(3)
    torch.randn(1)


def arrange(seed: int, draws: int = 1) -> None:
    """Seed all three generators, and draw this many times."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    for _ in range(draws):
        draw()


class Stop(Exception):
    pass


ENDINGS = {"Stop": Stop, "KeyboardInterrupt": KeyboardInterrupt}


def seeded(module: Any, seed: int, noises: list[int]) -> dict[str, Any]:
    """The draws and cuDNN's flags after set_seed, once for each random state before it."""
    report: dict[str, Any] = {"draws": [], "flags": []}
    cudnn = torch.backends.cudnn
    for noise in noises:
        arrange(noise)
        cudnn.deterministic = False
        cudnn.benchmark = True
        module.set_seed(seed)
        report["draws"].append(draws())
        flags = {"deterministic": cudnn.deterministic, "benchmark": cudnn.benchmark}
        report["flags"].append(flags)
    return report


def forked(
    module: Any,
    given: list[int],
    made: int,
    entered: int,
    draws_before: int = 1,
    ending: str = "",
) -> dict[str, Any]:
    """The draws before, in and after a block of fork_rng(*given), and the exception that comes out of it.

    The block draws, and may raise. The generators are seeded with `made` before the manager is made, and with
    `entered` before the block is entered. After the second seeding they draw `draws_before` times.
    """
    arrange(made)
    manager = module.fork_rng(*given)
    report = {"made": draws(), "raised": ""}
    arrange(entered, draws_before)
    try:
        with manager:
            report["inside"] = draws()
            draw()
            if ending:
                raise ENDINGS[ending]
    except (Stop, KeyboardInterrupt) as error:
        report["raised"] = type(error).__name__
    report["after"] = draws()
    return report


def nested(module: Any, given: list[int], entered: int, inner: int) -> dict[str, Any]:
    """The draws in and after an outer block of fork_rng(*given) and an inner one."""
    arrange(entered)
    report = {}
    with module.fork_rng(*given):
        draw()
        with module.fork_rng(inner):
            report["inner"] = draws()
            draw()
        report["after inner"] = draws()
    report["after outer"] = draws()
    return report


def fork_rng(module: Any, seed: Any) -> None:
    with module.fork_rng(seed):
        pass


def worker_seeded(module: Any, seed: int, worker_id: int, noise: int) -> dict[str, Any]:
    """The draws after seed_worker in a process whose torch was seeded with `seed` and has drawn since."""
    arrange(noise)
    torch.manual_seed(seed)
    torch.rand(3)
    torch.randn(1)
    module.seed_worker(worker_id)
    return {"initial": torch.initial_seed(), "after": draws()}


class Items(Dataset[torch.Tensor]):
    """Items [number, worker, three draws]. Without workers, the worker is -1 and the draws are zeros."""

    def __init__(self, numbers: list[int]) -> None:
        self.numbers, self.home = numbers, os.getpid()

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, i: int) -> torch.Tensor:
        worker = get_worker_info()
        if worker is None:
            return torch.tensor([self.numbers[i], -1, 0, 0, 0], dtype=torch.float64)
        number = worker.id if os.getpid() != self.home else -1
        drawn = random.random(), np.random.rand(), torch.rand(1, dtype=torch.float64).item()
        return torch.tensor([self.numbers[i], number, *drawn], dtype=torch.float64)


def passes(
    module: Any,
    numbers: list[int],
    size: int,
    seeds: list[int],
    plan: list[int],
    noises: list[int],
    **options: Any,
) -> Any:
    """The batches of each pass of a plan. A plan is a list of indices into the loaders of `seeds`.

    The first noise seeds the generators before the loaders are made, and each other noise before a pass.
    """
    first, *others = noises
    arrange(first)
    loaders = [module.seeded_loader(Items(numbers), size, seed, **options) for seed in seeds]
    report: dict[str, Any] = {"epochs": [], "made": draws(), "after": []}
    report["kinds"] = [issubclass(type(loader), DataLoader) for loader in loaders]
    for place, noise in zip(plan, others, strict=True):
        arrange(noise)
        loader = loaders[place]
        # Workers can only be forked here, even if the student asks for another way.
        if getattr(loader, "num_workers", 0) and getattr(loader, "_iterator", None) is None:
            loader.multiprocessing_context = "fork"
        report["epochs"].append(list(loader))
        report["after"].append(draws())
    return report
