"""From arrays to batches: a dataset, a split that repeats itself, honest statistics, and three loaders.

A table of n rows with d columns, and a class for each row, is split into three parts: to train on, to choose
by (validation), and to judge by (test). What a model is judged by must not have had a part in how it was
made, and the mean of a column is a part. So statistics come from the training rows alone, and the others are
standardized with them.

Training rows come in another order in every epoch: a table is often sorted by class, and a model that sees
class after class forgets. A seed decides all of this, so that a result can be repeated; it decides alone,
whatever else in the program draws random numbers.

X is a NumPy array (n, d) and y one of shape (n,). They may be slices or transposes of other arrays. No function
changes an array that it was given, and none seeds the global random states (of PyTorch, NumPy or Python) or
draws from them, except for what a loader draws while it is iterated. Each ValueError names the argument in its
message.

Source: Hastie, Tibshirani and Friedman (2009), "The Elements of Statistical Learning", sections 7.2 and 7.10.2.
"""

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class TabularDataset(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The rows of `X` with their classes `y`, as a map-style dataset.

    `dataset[idx]`, for an int `idx` in 0..n-1, is the tuple of row `idx`, a float32 tensor `(d,)`, and its
    class, a 0-d int64 tensor. `len(dataset)` is n, which may be 0. `X` is of a float or an integer dtype, `y`
    of an integer dtype. The dataset may share memory with the arrays.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        """Keep the rows of X (n, d) and the classes y (n,).

        Raises ValueError that names `y` if `X` and `y` have different lengths.
        """
        # TODO: check the lengths, keep the arrays.
        raise NotImplementedError("TabularDataset.__init__: check the lengths, keep the arrays")

    def __len__(self) -> int:
        """The number of rows."""
        # TODO: the number of rows.
        raise NotImplementedError("TabularDataset.__len__: the number of rows")

    def __getitem__(self, idx: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Row `idx`, (d,) float32, and its class, () int64."""
        # TODO: row and class.
        raise NotImplementedError("TabularDataset.__getitem__: row and class")


def split_indices(
    n: int, val_size: int, test_size: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Split the indices 0..n-1 at random into three parts: train, val and test, int64 tensors (k,).

    Each index is in exactly one part: `val_size` of them, drawn at random, in the second, `test_size` in the
    third, and all others in the first, in any order within a part. Sizes of 0 are fine.

    The same arguments give the same split, whatever the global random states are; another seed gives another.

    Raises ValueError that names the size if `val_size` or `test_size` is negative, and one that names either of
    them if nothing is left to train on.
    """
    # TODO: check the sizes, shuffle, cut.
    raise NotImplementedError("split_indices: check the sizes, shuffle, cut")


def standardize(train: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """Standardize `train` (n, d) and each other array (m, d), column by column: (a - mean) / std.

    Mean and standard deviation are those of the columns of `train`, for the other arrays too; the variance is
    the mean of the squared deviations (divided by n, not by n - 1). Where a column of `train` is constant, the
    difference is divided by 1. Nothing is added to the std of the other columns.

    Returns new arrays, that of `train` first, then the others in their order, in the dtype that all of the
    inputs have: float64, or float32, in which a relative error of 1e-4 is fine. `train` has at least one row;
    the others may have none.
    """
    # TODO: statistics of train, for all arrays.
    raise NotImplementedError("standardize: statistics of train, for all arrays")


def make_loaders(
    X: np.ndarray, y: np.ndarray, batch_size: int, val_size: int, test_size: int, seed: int = 0
) -> tuple[DataLoader[Any], DataLoader[Any], DataLoader[Any]]:
    """Make the loaders of training, validation and test batches from floats X (n, d) and classes y (n,).

    The rows are split by `split_indices(n, val_size, test_size, seed)`, and `X` is standardized with the
    statistics of the training rows. A batch is `(inputs, targets)`, a tuple or list of two: inputs (b, d)
    float32, targets (b,) int64.

    - Training: the rows are shuffled anew in every epoch (pass over the loader). Every batch has exactly
      `batch_size` rows, an incomplete last one is left out, and no row comes twice in an epoch.
    - Validation and test: every row comes once, in the same order in every pass, the last short batch included.
      The order and the size of these batches are up to you. A size of 0 gives a loader without batches.
    - Two calls with the same arguments give the same training batches, epoch by epoch, whatever the global
      random states are and whatever passes over the other two loaders lie between the epochs. Another seed
      gives others.

    Raises ValueError that names `batch_size` if it is below 1 or above the number of training rows (there would
    be no batch).
    """
    # TODO: split, standardize, a loader for each part.
    raise NotImplementedError("make_loaders: split, standardize, a loader for each part")
