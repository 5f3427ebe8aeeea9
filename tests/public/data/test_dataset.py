"""Small examples for TabularDataset, split_indices, standardize and make_loaders."""

from __future__ import annotations

import numpy as np
import torch

from grader.judge.checks import (
    assert_close,
    assert_equal,
    assert_tensor,
    entry,
    laws,
    must_raise,
    promise,
)
from grader.judge.student import Student

X = np.array([[float(i), 10.0 * i * i, 7.0] for i in range(12)])
Y = np.arange(12)


@promise(
    "TabularDataset",
    hint="torch.from_numpy(X).to(torch.float32), and y the same way with torch.int64.",
)
def test_example_dataset(student: Student) -> None:
    """Item 2 of a dataset is row 2 as float32 and class 2 as a 0-d int64 tensor."""
    row, target = torch.tensor([2.0, 40.0, 7.0]), torch.tensor(2)
    item = student.run("item", X, Y, 2)
    assert_close(item, (row, target), what="dataset[2]")


@promise("TabularDataset", hint="if len(X) != len(y): raise ValueError(...)")
def test_example_lengths(student: Student) -> None:
    """12 rows and 11 classes are a ValueError that names y."""
    with must_raise(ValueError, mentions="y", call="TabularDataset of 12 rows and 11 classes"):
        student.run("item", X, Y[:11], 2)


@promise(
    "split_indices",
    points=2,
    hint="torch.randperm(n, generator=torch.Generator().manual_seed(seed)), cut into three.",
)
def test_example_split(student: Student) -> None:
    """12 rows are split into 7 for training, 3 and 2, and each row is in one part."""
    parts = entry(student.function("split_indices")(12, 3, 2), kind=(list, tuple), count=3)
    parts = [assert_tensor(part, what="a part") for part in parts]
    assert_equal([part.numel() for part in parts], [7, 3, 2], what="the list of the sizes")
    indices = sorted(torch.cat([part.flatten() for part in parts]).tolist())
    assert_equal(indices, list(range(12)), what="the sorted list of all indices")


@promise(
    "standardize",
    points=2,
    hint="The mean of train's first column is 2, its std 1; the second column is constant.",
)
def test_example_standardize(student: Student) -> None:
    """Rows [1, 5], [3, 5], twice, become [-1, 0], [1, 0]; with their statistics [4, 6] becomes [2, 1]."""
    rows = np.array([[1.0, 5], [3, 5], [1, 5], [3, 5]])
    result = student.function("standardize")(rows, np.array([[4.0, 6]]))
    result = tuple(result) if isinstance(result, list) else result
    train = np.array([[-1.0, 0], [1, 0], [-1, 0], [1, 0]])
    assert_close(result, (train, np.array([[2.0, 1]])), what="the result")


@promise(
    "make_loaders",
    points=5,
    hint="Standardize by the training rows; shuffle=True and drop_last=True for them alone.",
)
def test_example_loaders(student: Student) -> None:
    """7 training rows make 3 batches of 2, in another order each time; the others yield all rows."""
    report = student.run("loaded", X, Y, 2, 3, 2)
    parts = [entry(part, kind=list) for part in entry(report, "parts", kind=list, count=3)]
    rows = [row for part in parts for row in part if isinstance(row, int)]
    assert sorted(rows) == list(range(12)), "Fix split_indices first."
    epochs = entry(report, "epochs", kind=list)
    batches = [entry(batch, kind=list) for epoch in epochs for batch in entry(epoch, kind=list)]
    drawn = {row for batch in batches for row in batch if isinstance(row, int)}
    strays = drawn - {row for row in parts[0] if isinstance(row, int)}
    told = "of split_indices(12, 3, 2), called again with the same arguments."
    assert not strays, f"The training batches have rows that are not in the training part {told}"
    laws.check_epochs(epochs, sorted(parts[0]), batch_size=2, shuffled=True, drop_last=True)
    every, others = sorted([*parts[1], *parts[2]]), entry(report, "others", kind=list)
    others = sorted(row for row in others if isinstance(row, int))
    assert_equal(others, every, what="the sorted list of the other loaders' rows")
    mean, std = X[parts[0]].mean(axis=0), np.add(X[parts[0]].std(axis=0), (0, 0, 1))
    right, what = (
        torch.from_numpy((X[every] - mean) / std).float().sum(0),
        "the sum of the others' inputs",
    )
    assert_close(entry(report, "sum"), right, what=what, rtol=1e-4, atol=1e-3)
