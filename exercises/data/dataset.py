"""From arrays to batches: a dataset, a split that repeats itself, honest statistics, and three loaders.

A table is split into three parts: to train on, to choose by (validation), and to judge by (test). What a model
is judged by must have no part in how it was made, so statistics come from the training rows alone.

X is a NumPy array (n, d) of n rows, y one of their classes (n,). They may be slices or transposes of other
arrays. Only a loader that is iterated may draw from the global random states.

Source: Hastie, Tibshirani and Friedman (2009), "The Elements of Statistical Learning", sections 7.2 and 7.10.2.

What holds for every exercise: docs/every-exercise.md.
"""

from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class TabularDataset(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """The rows of `X` with their classes `y`, as a map-style dataset.

    `dataset[idx]`, for an int `idx` in 0..n-1, is the tuple of row `idx`, a float32 tensor (d,), and its class,
    a 0-d int64 tensor. n may be 0. `X` is of a float or an integer dtype, `y` of an integer dtype.
    """

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        """Keep the rows and the classes.

        Raises ValueError that names `y` if `X` and `y` have different lengths.
        """
        # TODO: check the lengths, keep the arrays.
        raise NotImplementedError("TabularDataset.__init__: check the lengths, keep the arrays")

    def __len__(self) -> int:
        """The number of rows."""
        # TODO: the number of rows.
        raise NotImplementedError("TabularDataset.__len__: the number of rows")

    def __getitem__(self, idx: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Row `idx` and its class."""
        # TODO: row and class.
        raise NotImplementedError("TabularDataset.__getitem__: row and class")


def split_indices(
    n: int, val_size: int, test_size: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Split the indices 0..n-1 at random into three parts: train, val and test, int64 tensors (k,).

    Each index is in exactly one part: `val_size` of them in the second, `test_size` in the third, and all
    others in the first, in any order within a part. Sizes of 0 are fine. The same arguments give the same
    split, whatever the global random states are; another seed gives another.

    Raises ValueError that names `val_size` or `test_size` if it is negative, and one that names either of them
    if nothing is left to train on.
    """
    # TODO: check the sizes, shuffle, cut.
    raise NotImplementedError("split_indices: check the sizes, shuffle, cut")


def standardize(train: np.ndarray, *others: np.ndarray) -> tuple[np.ndarray, ...]:
    """Standardize `train` (n, d) and each other array (m, d), column by column: (a - mean) / std.

    Mean and standard deviation (divided by n, not by n - 1) are those of the columns of `train`, for the other
    arrays too. Where a column of `train` is constant, divide by 1. Add nothing to the other stds.

    Returns a tuple of new arrays, `train` first, in the dtype that all inputs have: float64, or float32, in
    which a relative error of 1e-4 is fine. `train` has at least one row; the others may have none.
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

    - Training: the rows are shuffled anew in every epoch. Every batch has exactly `batch_size` rows, an
      incomplete last one is left out, and no row comes twice in an epoch.
    - Validation and test: every row comes once, in the same order in every pass, the last short batch included.
      The order and the size of these batches are up to you. A size of 0 gives a loader without batches.
    - Two calls with the same arguments give the same training batches, epoch by epoch, whatever the global
      random states are and whatever passes over the other loaders lie between. Another seed gives others.

    Raises ValueError that names `batch_size` if it is below 1 or above the number of training rows.
    """
    # TODO: split, standardize, a loader for each part.
    raise NotImplementedError("make_loaders: split, standardize, a loader for each part")
