"""Datasets over arrays of several layouts, and passes over loaders."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import torch

# The global seed under which make_loaders runs, and split_indices when the suite calls it.
GLOBAL_SEED = 1000


def laid_out(array: Any, layout: str) -> Any:
    """Return the same values with another memory layout, because the wire sends arrays row by row."""
    if layout == "sliced":
        return np.repeat(array, 2, axis=0)[::2]
    if layout == "beside other columns":
        return np.concatenate([array, array], axis=1)[:, : array.shape[1]]
    return np.asfortranarray(array)  # transposed


def as_tuple(result: Any) -> Any:
    return tuple(result) if isinstance(result, list) else result


def items(module: Any, X: Any, y: Any, layout: str) -> list[Any]:
    """Return all items of a dataset."""
    dataset = module.TabularDataset(laid_out(X, layout), laid_out(y, "sliced"))
    return [as_tuple(dataset[i]) for i in range(len(X))]


def length(module: Any, X: Any, y: Any) -> Any:
    return len(module.TabularDataset(X, y))


def split(module: Any, *arguments: int) -> Any:
    """Return the split that make_loaders should make, even if it depends on the global random state."""
    torch.manual_seed(GLOBAL_SEED)
    return module.split_indices(*arguments)


def standardized(module: Any, arrays: list[Any], layout: str) -> dict[str, Any]:
    """Return the result of standardize, and whether an array in it shares memory with an input."""
    given = [laid_out(array, layout) for array in arrays]
    result = as_tuple(module.standardize(*given))
    pairs = itertools.product(result, given)
    return {"result": result, "shared": any(np.shares_memory(new, old) for new, old in pairs)}


def passes(
    module: Any, X: Any, y: Any, sizes_and_seed: list[int], order: list[str], global_seed: int
) -> list[Any]:
    """Return the batches of passes over the loaders "train", "val" and "test" in this order.

    Before each pass the global random states are seeded: first with `global_seed`, then with the next number,
    and so on.
    """
    torch.manual_seed(GLOBAL_SEED)
    made = module.make_loaders(X, y, *sizes_and_seed)
    loaders = dict(zip(("train", "val", "test"), made, strict=True))
    for loader in loaders.values():
        # Workers are allowed, but the sandbox is one process.
        if getattr(loader, "num_workers", 0):
            loader.num_workers = loader.timeout = 0
    batches = []
    for seed, name in enumerate(order, global_seed):
        torch.manual_seed(seed)
        np.random.seed(seed)
        random.seed(seed)
        batches.append(list(loaders[name]))
    return batches
