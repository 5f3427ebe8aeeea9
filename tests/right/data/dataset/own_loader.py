# right: the training order is a function of seed and epoch; random.Random splits; class-heavy
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class TabularDataset(Dataset):
    def __init__(self, X, y):
        rows, classes = list(X), list(y)
        if len(rows) != len(classes):
            raise ValueError("y does not fit X")
        self.pairs = list(zip(rows, classes))

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, idx):
        row, label = self.pairs[idx]
        return torch.tensor(row.tolist(), dtype=torch.float32), torch.tensor(int(label), dtype=torch.long)


class Splitter:
    def __init__(self, seed):
        self.random = random.Random(f"split {seed}")

    def parts(self, n, *sizes):
        left = list(range(n))
        for size in sizes:
            part = self.random.sample(left, size)
            left = [i for i in left if i not in part]
            yield torch.tensor(part, dtype=torch.int64)
        yield torch.tensor(left, dtype=torch.int64)


def split_indices(n, val_size, test_size, seed=0):
    if val_size < 0:
        raise ValueError("val_size < 0")
    if test_size < 0:
        raise ValueError("test_size < 0")
    if val_size + test_size >= n:
        raise ValueError("val_size + test_size >= n")
    val, test, train = Splitter(seed).parts(n, val_size, test_size)
    return train, val, test


class Standardizer:
    def __init__(self, train):
        self.mean = np.array([column.mean() for column in train.T], dtype=train.dtype)
        deviations = [np.std(column) for column in train.T]
        self.std = np.array([1.0 if d == 0.0 else d for d in deviations], dtype=train.dtype)

    def __call__(self, array):
        return np.divide(np.subtract(array, self.mean), self.std)


def standardize(train, *others):
    standardizer = Standardizer(train)
    return (standardizer(train), *map(standardizer, others))


class EpochSampler:
    def __init__(self, n, seed):
        self.n, self.seed, self.epoch = n, seed, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        order = list(range(self.n))
        random.Random(f"{self.seed} {self.epoch}").shuffle(order)
        self.epoch += 1
        yield from order


def make_loaders(X, y, batch_size, val_size, test_size, seed=0):
    indices = [part.numpy() for part in split_indices(len(X), val_size, test_size, seed)]
    if batch_size not in range(1, len(indices[0]) + 1):
        raise ValueError(f"bad batch_size {batch_size!r}")
    standardizer = Standardizer(X[indices[0]])
    train, val, test = (TabularDataset(standardizer(X[i]), y[i]) for i in indices)
    return (
        DataLoader(train, batch_size, sampler=EpochSampler(len(train), seed), drop_last=True),
        DataLoader(val, 1),
        DataLoader(test, 1),
    )
