# right: NumPy draws; items are converted one by one; batches collated as lists
import numpy as np
import torch
import torch.utils.data as data


class TabularDataset(data.Dataset):
    def __init__(self, X, y):
        if X.shape[0] != y.shape[0]:
            raise ValueError("X and y differ in length")
        self.rows = X
        self.labels = y

    def __getitem__(self, idx):
        row = self.rows[idx].astype(np.float32)
        return torch.from_numpy(row), torch.tensor(int(self.labels[idx]))

    def __len__(self):
        return self.rows.shape[0]


def split_indices(n, val_size, test_size, seed=0):
    for name, size in {"val_size": val_size, "test_size": test_size}.items():
        if size < 0:
            raise ValueError(f"{name} = {size} is negative")
    if n - (val_size + test_size) <= 0:
        raise ValueError(f"val_size={val_size}, test_size={test_size}: no row left of {n}")
    order = np.random.default_rng(seed).permutation(n)
    val, test, train = np.split(order, [val_size, val_size + test_size])
    return tuple(torch.as_tensor(np.sort(part)).long() for part in (train, val, test))


def standardize(train, *others):
    mean, std = np.mean(train, axis=0, dtype=np.float64), np.std(train, axis=0, dtype=np.float64)
    constant = (train == train[0]).all(axis=0)
    scale = np.where(constant, 1.0, std)
    return tuple(((a - mean) / scale).astype(train.dtype) for a in (train,) + others)


class Epochs(data.Sampler):
    """Another permutation in each pass, of a RandomState of its own."""

    def __init__(self, n, seed):
        self.n, self.state = n, np.random.RandomState(seed)

    def __iter__(self):
        return iter(self.state.permutation(self.n).tolist())

    def __len__(self):
        return self.n


def make_loaders(X, y, batch_size, val_size, test_size, seed=0):
    parts = [part.numpy() for part in split_indices(X.shape[0], val_size, test_size, seed)]
    n_train = parts[0].size
    if not 0 < batch_size <= n_train:
        raise ValueError(f"batch_size {batch_size} for {n_train} training rows")
    arrays = standardize(*[X[part] for part in parts])
    sets = [TabularDataset(a, y[part]) for a, part in zip(arrays, parts)]
    sampler = data.BatchSampler(Epochs(n_train, seed), batch_size, drop_last=True)
    return (
        data.DataLoader(sets[0], batch_sampler=sampler),
        data.DataLoader(sets[1], batch_size=max(1, len(sets[1]))),
        data.DataLoader(sets[2], batch_size=max(1, len(sets[2]))),
    )
