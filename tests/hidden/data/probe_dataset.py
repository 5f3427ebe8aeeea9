"""Datasets over arrays of all layouts, and passes over loaders in any order, raw."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import torch

FIRST = 1000  # the global seed of a call without noise


def laid_out(array: Any, layout: str) -> Any:
    """The same values, lying otherwise in memory: the wire sends arrays row by row."""
    if layout == "sliced":
        return np.repeat(array, 2, axis=0)[::2]
    if layout == "beside other columns":
        return np.concatenate([array, array], axis=1)[:, : array.shape[1]]
    return np.asfortranarray(array) if layout == "transposed" else array


def items(module: Any, X: Any, y: Any, layout: str = "") -> dict[str, Any]:
    """The length and all items of a dataset."""
    y = np.repeat(y, 2)[::2] if layout == "sliced" else y
    dataset = module.TabularDataset(laid_out(X, layout), y)
    made = [dataset[i] for i in range(len(X))]
    pairs = [tuple(item) if isinstance(item, list) else item for item in made]
    return {"length": len(dataset), "items": pairs}


def split(module: Any, *arguments: int) -> Any:
    """The split that make_loaders should make, in the random state in which `passes` makes it."""
    disturb(FIRST)
    return module.split_indices(*arguments)


def splits(module: Any, seeds: int, *sizes: int) -> list[Any]:
    """The splits of these sizes by the first seeds."""
    return [module.split_indices(*sizes, seed) for seed in range(seeds)]


def standardized(module: Any, arrays: list[Any], layout: str) -> dict[str, Any]:
    """What standardize gives, and which of its arrays share memory with an input."""
    given = [laid_out(array, layout) for array in arrays]
    result = module.standardize(*given)
    made = [array for array in result if isinstance(array, np.ndarray)]
    shared = any(np.shares_memory(new, old) for new in made for old in given)
    return {"result": tuple(result) if isinstance(result, list) else result, "shared": shared}


def passes(module: Any, X: Any, y: Any, arguments: Any, plan: str, noise: int = 0) -> list[Any]:
    """The batches of each pass of a plan over new loaders: "0" the training loader, "1", "2" the others.

    A letter for a number begins a pass and leaves it after a batch; it is not reported. With a noise
    other random numbers are drawn before each pass.
    """
    disturb(noise or FIRST)
    loaders = list(module.make_loaders(X, y, *arguments))
    for loader in loaders:
        if getattr(loader, "num_workers", 0):  # They are free, but the sandbox is one process.
            loader.num_workers = loader.timeout = 0
    reports = []
    for i, step in enumerate(plan):
        disturb(noise + i if noise else 0)
        if step in "bc":
            list(itertools.islice(loaders["abc".index(step)], 1))
        else:
            reports.append(list(loaders[int(step)]))
    return reports


def disturb(noise: int) -> None:
    if noise:
        torch.manual_seed(noise)
        np.random.seed(noise)
        random.seed(noise)
