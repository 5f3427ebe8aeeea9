"""Datasets over arrays of several layouts, and passes over loaders."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import torch

# The global seed under which make_loaders splits, and split_indices for the suite.
STATE = 1000


def laid_out(array: Any, layout: str) -> Any:
    """The same values, lying otherwise in memory: the wire sends arrays row by row."""
    if layout == "sliced":
        return np.repeat(array, 2, axis=0)[::2]
    if layout == "beside other columns":
        return np.concatenate([array, array], axis=1)[:, : array.shape[1]]
    return np.asfortranarray(array)


def as_tuple(result: Any) -> Any:
    return tuple(result) if isinstance(result, list) else result


def items(module: Any, X: Any, y: Any, layout: str) -> list[Any]:
    """All items of a dataset."""
    dataset = module.TabularDataset(laid_out(X, layout), laid_out(y, "sliced"))
    return [as_tuple(dataset[i]) for i in range(len(X))]


def length(module: Any, X: Any, y: Any) -> Any:
    return len(module.TabularDataset(X, y))


def split(module: Any, *arguments: int) -> Any:
    """The split that make_loaders should make, also where it depends on the global random state."""
    torch.manual_seed(STATE)
    return module.split_indices(*arguments)


def standardized(module: Any, arrays: list[Any], layout: str) -> dict[str, Any]:
    """What standardize gives, and whether an array of it shares memory with an input."""
    given = [laid_out(array, layout) for array in arrays]
    result = as_tuple(module.standardize(*given))
    pairs = itertools.product(result, given)
    return {"result": result, "shared": any(np.shares_memory(new, old) for new, old in pairs)}


def passes(
    module: Any, X: Any, y: Any, arguments: list[int], plan: list[int], noise: int
) -> list[Any]:
    """The batches of passes over the loaders with these numbers, in this order.

    Before each pass the global random states are set anew, from `noise` on.
    """
    torch.manual_seed(STATE)
    made = list(module.make_loaders(X, y, *arguments))
    for loader in made:
        if getattr(loader, "num_workers", 0):  # They are free, but the sandbox is one process.
            loader.num_workers = loader.timeout = 0
    batches = []
    for seed, number in enumerate(plan, noise):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        batches.append(list(made[number]))
    return batches
