"""Draws of the global generators before, in and after blocks, and passes over loaders, raw."""

from __future__ import annotations

import os
import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


def draws() -> dict[str, Any]:
    """The next uniform and normal numbers of each global generator, which is put back where it was."""
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
    """Draw so that each generator has a normal number in hand."""
    random.random(), np.random.rand(), torch.rand(3)
    random.gauss(0, 1), np.random.randn(), torch.randn(1)


def arrange(seed: int) -> None:
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
    draw()


def seeded(module: Any, seed: int) -> dict[str, Any]:
    """The draws after set_seed, a second time too, and cuDNN's flags each time."""
    report: dict[str, Any] = {"draws": [], "flags": []}
    cudnn = torch.backends.cudnn
    for i in range(2):
        arrange(100 + i)
        cudnn.deterministic, cudnn.benchmark = False, True
        module.set_seed(seed)
        report["draws"].append(draws())
        report["flags"].append([cudnn.deterministic, cudnn.benchmark])
    return report


class Stop(Exception):
    pass


def around(module: Any, inside: str) -> dict[str, Any]:
    """The draws before a block; called where no student's code runs."""
    arrange(8)
    if inside == "seeds":  # else a normal number is in hand
        draw()
    return draws()


def forked(module: Any, seed: int | None, inside: str) -> dict[str, Any]:
    """The draws around a block and in it, which draws, and then "seeds", "nests", or raises an exception."""
    arrange(7)
    report: dict[str, Any] = {"start": draws()}
    given = {} if seed is None else {"seed": seed}
    manager = module.fork_rng(seed) if inside else module.fork_rng(**given)
    report["made"] = draws()
    arrange(8)
    if inside == "seeds":  # else a normal number is in hand
        draw()
    report["before"], report["raised"] = draws(), None
    try:
        with manager:
            report["inside"] = draws()
            draw()
            if inside == "seeds":
                arrange(9)
            if inside == "nests":
                report["outer"] = draws()
                with module.fork_rng(5):
                    report["nested"] = draws()
                    draw()
                    with module.fork_rng():
                        arrange(3)
                report["outer after"] = draws()
            report["left"] = draws()
            errors = {"Stop": Stop, "KeyboardInterrupt": KeyboardInterrupt}
            if inside in errors:
                raise errors[inside]
    except (Stop, KeyboardInterrupt) as error:
        report["raised"] = type(error).__name__
    return report | {"after": draws()}


def fork_rng(module: Any, seed: Any) -> None:
    with module.fork_rng(seed):
        pass


def worker_seeded(module: Any, seed: int, worker_id: int) -> dict[str, Any]:
    """The draws before and after seed_worker in a process whose torch has this seed."""
    arrange(3)
    torch.manual_seed(seed)
    torch.rand(2), torch.randn(1)
    before = draws()
    module.seed_worker(worker_id)
    return {"initial": torch.initial_seed(), "before": before, "after": draws()}


class Items(Dataset[torch.Tensor]):
    """Items [i, number of the worker, what it draws from the three generators]; 0 without workers."""

    def __init__(self, length: int) -> None:
        self.length, self.home = length, os.getpid()

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> torch.Tensor:
        worker = get_worker_info()
        if worker is None:
            return torch.tensor([i, -1, 0, 0, 0], dtype=torch.float64)
        number = worker.id if os.getpid() != self.home else -1
        numbers = random.random(), np.random.rand(), torch.rand(1, dtype=torch.float64).item()
        return torch.tensor([i, number, *numbers], dtype=torch.float64)


def passes(
    module: Any, length: int, size: int, seeds: list[int], plan: str, noise: int, **options: Any
) -> Any:
    """The batches of each pass of a plan over loaders of these seeds, which are made first: "0" the first one.

    With a noise other random numbers are drawn before each pass.
    """
    arrange(noise)
    before = draws()
    loaders = [module.seeded_loader(Items(length), size, seed, **options) for seed in seeds]
    report: dict[str, Any] = {"epochs": [], "before": before, "made": draws(), "changed": []}
    report["kinds"] = [isinstance(loader, DataLoader) for loader in loaders]
    for i, step in enumerate(plan):
        if noise:
            arrange(noise + i)
        before = draws()
        loader = loaders[int(step)]
        # Here workers can only be forked, also where the student asks for another way.
        if getattr(loader, "num_workers", 0) and getattr(loader, "_iterator", None) is None:
            loader.multiprocessing_context = "fork"
        report["epochs"].append(list(loader))
        report["changed"].append(draws() != before)
    return report
