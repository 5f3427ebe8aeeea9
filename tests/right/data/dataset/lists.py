# right: batches are lists made by a collate function of its own; argsort of random keys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class TabularDataset(Dataset):
    def __init__(self, X, y):
        self.X, self.y = torch.as_tensor(X).float(), torch.as_tensor(y).long()
        if self.X.shape[0] != self.y.shape[0]:
            raise ValueError("X, y: not the same length")

    def __len__(self):
        return self.X.size(0)

    def __getitem__(self, idx):
        return self.X[idx].clone(), self.y[idx].clone()


def split_indices(n, val_size, test_size, seed=0):
    if val_size < 0 or test_size < 0:
        raise ValueError(f"val_size={val_size} and test_size={test_size} must not be negative")
    if not val_size + test_size < n:
        raise ValueError("val_size is too large")
    g = torch.Generator().manual_seed(seed)
    keys = torch.rand(n, generator=g, dtype=torch.float64)
    rank = keys.argsort().argsort()
    index = torch.arange(n)
    return (
        index[rank >= val_size + test_size],
        index[rank < val_size],
        index[(rank >= val_size) & (rank < val_size + test_size)],
    )


def standardize(train, *others):
    t = torch.from_numpy(np.ascontiguousarray(train))
    std, mean = torch.std_mean(t, dim=0, correction=0)
    std = torch.where(std == 0, torch.ones_like(std), std)
    return tuple(((torch.from_numpy(np.array(a)) - mean) / std).numpy() for a in (train, *others))


def collate(pairs):
    rows, classes = zip(*pairs)
    return [torch.stack(rows), torch.stack(classes)]


def make_loaders(X, y, batch_size, val_size, test_size, seed=0):
    i, j, k = (part.numpy() for part in split_indices(len(X), val_size, test_size, seed))
    if batch_size < 1 or batch_size > i.shape[0]:
        raise ValueError(f"batch_size: 1 to {i.shape[0]}")
    a, b, c = standardize(X[i], X[j], X[k])
    generator = torch.Generator().manual_seed(seed)
    train = DataLoader(TabularDataset(a, y[i]), batch_size, True, drop_last=True, generator=generator, collate_fn=collate)
    return train, *(DataLoader(TabularDataset(*pair), 7, collate_fn=collate) for pair in ((b, y[j]), (c, y[k])))
