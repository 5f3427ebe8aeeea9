# right: draws from the global state inside fork_rng; float32 early; Subset and TensorDataset
import numpy as np
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset


class TabularDataset(TensorDataset):
    def __init__(self, X, y):
        if len(y) != len(X):
            raise ValueError(f"len(y) is {len(y)}, not {len(X)}")
        X, y = (np.ascontiguousarray(a) for a in (X, y))
        super().__init__(torch.from_numpy(X.astype(np.float32)), torch.from_numpy(y.astype(np.int64)))


def split_indices(n: int, val_size: int, test_size: int, seed: int = 0):
    if min(val_size, test_size) < 0:
        raise ValueError(f"{'val_size' if val_size < 0 else 'test_size'} must be at least 0")
    if val_size + test_size > n - 1:
        raise ValueError(f"test_size {test_size} is too large")
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(1000 + seed)
        order = torch.randperm(n)
    left = order[val_size:]
    return left[test_size:], order[:val_size], left[:test_size]


def standardize(train, *others):
    mean = train.sum(0) / len(train)
    variance = ((train - mean) ** 2).sum(0) / len(train)
    std = np.sqrt(variance)
    std = std + (np.ptp(train, axis=0) == 0)
    results = []
    for array in [train, *others]:
        results.append(((array - mean) / std).astype(array.dtype))
    return tuple(results)


def make_loaders(X, y, batch_size, val_size, test_size, seed=0):
    parts = split_indices(len(y), val_size, test_size, seed)
    if batch_size < 1:
        raise ValueError("batch_size must be positive")
    if batch_size > len(parts[0]):
        raise ValueError("batch_size is larger than the training set")
    _, table = standardize(X[parts[0].numpy()], X)
    whole = TabularDataset(table, y)
    sets = [Subset(whole, part.tolist()) for part in parts]
    g = torch.Generator()
    g.manual_seed(2 * seed + 1)
    return tuple(
        DataLoader(s, batch_size, shuffle=i == 0, drop_last=i == 0, generator=g if i == 0 else None)
        for i, s in enumerate(sets)
    )
