# right: plain and short; most of the wrong answers are changes of it
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class TabularDataset(Dataset):
    def __init__(self, X, y):
        if len(X) != len(y):
            raise ValueError(f"y has {len(y)} entries, X {len(X)} rows")
        self.X = torch.tensor(X, dtype=torch.float32)
        self.y = torch.tensor(y, dtype=torch.int64)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, idx):
        return self.X[idx], self.y[idx]


def split_indices(n, val_size, test_size, seed=0):
    if val_size < 0:
        raise ValueError(f"val_size is {val_size}")
    if test_size < 0:
        raise ValueError(f"test_size is {test_size}")
    rest = n - val_size - test_size
    if rest < 1:
        raise ValueError("val_size and test_size leave nothing")
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=generator)
    return order[:rest], order[rest : rest + val_size], order[rest + val_size :]


def standardize(train, *others):
    mean = train.mean(axis=0)
    std = train.std(axis=0)
    std[std == 0] = 1
    return tuple((array - mean) / std for array in (train, *others))


def make_loaders(X, y, batch_size, val_size, test_size, seed=0):
    parts = split_indices(len(X), val_size, test_size, seed)
    train, val, test = (part.numpy() for part in parts)
    if batch_size < 1 or batch_size > len(train):
        raise ValueError(f"batch_size is {batch_size}")
    arrays = standardize(X[train], X[val], X[test])
    generator = torch.Generator().manual_seed(seed)
    loader = DataLoader(
        TabularDataset(arrays[0], y[train]), batch_size=batch_size, shuffle=True, drop_last=True, generator=generator
    )
    val_loader = DataLoader(TabularDataset(arrays[1], y[val]), batch_size=batch_size)
    test_loader = DataLoader(TabularDataset(arrays[2], y[test]), batch_size=batch_size)
    return loader, val_loader, test_loader
