# right: a worker for the training loader
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class TabularDataset(Dataset):
    def __init__(self, X, y):
        if len(X) != len(y):
            raise ValueError("y and X have different lengths")
        self.X = torch.tensor(np.asarray(X)).to(torch.float32)
        self.y = torch.tensor(np.asarray(y)).to(torch.int64)

    def __len__(self):
        return len(self.X)

    def __getitem__(self, idx):
        return self.X[idx], self.y[idx]


def split_indices(n, val_size, test_size, seed=0):
    if val_size < 0:
        raise ValueError("val_size is negative")
    if test_size < 0:
        raise ValueError("test_size is negative")
    n_train = n - val_size - test_size
    if n_train <= 0:
        raise ValueError("val_size and test_size leave nothing to train on")
    g = torch.Generator().manual_seed(seed)
    order = torch.randperm(n, generator=g)
    return order[:n_train], order[n_train : n_train + val_size], order[n_train + val_size :]


def standardize(train, *others):
    mean = train.mean(axis=0)
    std = train.std(axis=0)
    std = np.where(std == 0, 1, std).astype(train.dtype)
    return tuple((a - mean) / std for a in (train, *others))


def make_loaders(X, y, batch_size, val_size, test_size, seed=0):
    train, val, test = (part.numpy() for part in split_indices(len(X), val_size, test_size, seed))
    if batch_size < 1:
        raise ValueError("batch_size must be at least 1")
    if batch_size > len(train):
        raise ValueError("batch_size is larger than the training set")
    parts = standardize(X[train], X[val], X[test])
    sets = [TabularDataset(a, y[rows]) for a, rows in zip(parts, (train, val, test))]
    g = torch.Generator().manual_seed(seed)
    return (
        DataLoader(sets[0], batch_size=batch_size, shuffle=True, drop_last=True, generator=g, num_workers=1),
        DataLoader(sets[1], batch_size=batch_size),
        DataLoader(sets[2], batch_size=batch_size),
    )
