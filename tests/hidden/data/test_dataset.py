"""Tests of TabularDataset, split_indices, standardize and make_loaders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

LAYOUTS = ("sliced", "beside other columns", "transposed")
# The table for make_loaders and its parts: the last training batch would be short.
ROWS, VAL, TEST = 40, 11, 6
TRAIN = ROWS - VAL - TEST
SIZE, SEED = 5, 3
# In so many splits and epochs each row comes somewhere, if it is drawn at random.
SPLITS, EPOCHS = 60, 8
# The relative error that standardize may have in float32.
LOOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


# --- TabularDataset ------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("TabularDataset.__getitem__")
@pytest.mark.hint("(self.X[idx], self.y[idx]) of a float32 and an int64 tensor.")
def test_items(student: Student) -> None:
    """An item is a row, (d,) float32, and its class, () int64, for arrays of all kinds and layouts."""
    kinds = [("float64", "int64"), ("float32", "uint8"), ("int16", "int32")]
    for layout, (floats, integers) in zip(LAYOUTS, kinds, strict=True):
        X = (9 * abs(new_table(6))).astype(floats)
        # Up to the largest numbers, but for those that are no classes any more.
        largest = min(np.iinfo(integers).max, 10**9)
        y = (np.arange(6) * (largest // 6)).astype(integers)
        rows = torch.from_numpy(X.astype("float32"))
        classes = torch.from_numpy(y.astype("int64"))
        right = list(zip(rows, classes, strict=True))
        what = f"the list of the items, rows {floats}, {layout}, and classes {integers},"
        assert_close(student.run("items", X, y, layout), right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_items")
@pytest.mark.place("TabularDataset.__len__")
@pytest.mark.hint("The number of rows, also if it is 0.")
def test_length(student: Student) -> None:
    """Its length is the number of rows, which may be 0, and the arrays are left as they are."""
    for n in (random.randint(4, 9), 0):
        found = student.run("length", new_table(n), np.arange(n))
        assert_equal(found, n, what=f"the length for {n} rows")
    laws.check_changes_nothing(student, "TabularDataset", new_table(5), np.arange(5))


@pytest.mark.place("TabularDataset.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if len(X) != len(y): raise ValueError(...)")
def test_lengths_differ(student: Student) -> None:
    """X and y of different lengths are a ValueError that names y."""
    differing = [(4, 3), (4, 5), (4, 0), (0, 1)]
    calls = [(new_table(n), np.arange(m)) for n, m in differing]
    fine = (new_table(4), np.arange(4))
    laws.check_errors(student, "TabularDataset", {"y": calls}, fine=fine)


# --- split_indices -------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("split_indices")
@pytest.mark.hint("One permutation, cut into three: no index is lost, and none comes twice.")
def test_partition(student: Student) -> None:
    """Each index is in exactly one part, and the parts have the sizes that are asked for."""
    drawn = (random.randint(30, 50), random.randint(9, 12), random.randint(3, 8))
    for n, val, test in (drawn, (10, 0, 3), (10, 3, 0), (1, 0, 0)):
        call = f"split_indices({n}, {val}, {test})"
        parts = parts_of(student.function("split_indices")(n, val, test), call)
        for part in parts:
            assert_tensor(part, dtype=torch.int64, what=f"a part of {call}")
        sizes = [tuple(part.shape) for part in parts]
        right = [(n - val - test,), (val,), (test,)]
        assert_equal(sizes, right, what=f"the list of the shapes of {call}")
        indices = sorted(torch.cat(parts).tolist())
        assert_equal(indices, list(range(n)), what=f"the sorted list of all indices of {call}")


@pytest.mark.points(6)
@pytest.mark.requires("test_partition")
@pytest.mark.place("split_indices")
@pytest.mark.hint("torch.randperm(n, generator=...), whose first val_size are one part, and so on.")
def test_at_random(student: Student) -> None:
    """Validation and test rows are drawn at random."""
    rows = random.randint(10, 14)
    split = student.function("split_indices")
    splits = [parts_of(split(rows, 3, 2, seed)) for seed in range(SPLITS)]
    for i, name in enumerate(("train", "val", "test")):
        drawn = [set(parts[i].tolist()) for parts in splits]
        told = f"Of {rows} rows some are never in the {name} part, in {SPLITS} splits: draw from all rows."
        assert set().union(*drawn) == set(range(rows)), told
        told = f"The {name} part is a block of neighbors: draw each row."
        assert any(blocks_in(part, rows) > 1 for part in drawn), told


@pytest.mark.points(4)
@pytest.mark.place("split_indices")
@pytest.mark.hint("torch.Generator().manual_seed(seed): a generator that nothing else draws from.")
def test_split_seed(student: Student) -> None:
    """The seed decides alone; the global random states have no part in it, and are left alone."""
    split = student.function("split_indices")

    def parts(*seed: int) -> list[list[int]]:
        return sorted_parts(split(ROWS, VAL, TEST, *seed))

    laws.check_seeded(student, parts, what="the list of the parts")
    assert_equal(parts(), parts(0), what="the list of the parts without a seed, as by seed=0,")
    laws.check_changes_nothing(student, "split_indices", ROWS, VAL, TEST, SEED)


@pytest.mark.points(2)
@pytest.mark.place("split_indices")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check each size alone, then whether val_size + test_size < n.")
def test_split_errors(student: Student) -> None:
    """Negative sizes, and sizes that leave nothing to train on, are ValueErrors that name them."""
    table = {
        "val_size": [(10, -1, 3)],
        "test_size": [(10, 3, -1)],
        "val_size or test_size": [(10, 5, 5), (10, 0, 10), (10, 7, 9), (0, 0, 0)],
    }
    laws.check_errors(student, "split_indices", table, fine=(10, 5, 4))


# --- standardize ---------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("standardize")
@pytest.mark.hint("mean, std = train.mean(axis=0), train.std(axis=0), and those for all arrays.")
def test_standardize(student: Student) -> None:
    """Every array is standardized column by column with the statistics of train."""
    for counts in ((6, 4), (7, 1, 0, 3)):
        arrays = [new_table(n) + i for i, n in enumerate(counts)]
        check_standardized(student, arrays)
        right = tuple(array.astype("float32") for array in standardized(*arrays))
        report = student.run("standardized", [x.astype("float32") for x in arrays], "sliced")
        assert_close(entry(report, "result"), right, what="the tuple of float32 results", **LOOSE)


@pytest.mark.points(4)
@pytest.mark.requires("test_standardize")
@pytest.mark.place("standardize")
@pytest.mark.hint("np.where(std == 0, 1, std)")
def test_constant_columns(student: Student) -> None:
    """Where a column of train is constant the difference is divided by 1, and nowhere else."""
    for value in (3.0, 0.0):
        # The last column has tiny numbers, which are not constant all the same.
        train, other = new_table(6), new_table(5)
        train[:, 1] = value
        train[:, 2] *= 1e-6
        other[:, 2] *= 1e-6
        check_standardized(student, [train, other])
    check_standardized(student, [np.full((1, 3), 2.0), new_table(5)])


@pytest.mark.points(2)
@pytest.mark.requires("test_standardize")
@pytest.mark.place("standardize")
@pytest.mark.hint("(array - mean) / std makes a new array; array -= mean changes the caller's.")
def test_arrays_are_left_alone(student: Student) -> None:
    """The inputs are unchanged, the results new arrays, whatever the layout of the inputs."""
    for layout in LAYOUTS:
        report = check_standardized(student, [new_table(6), new_table(3)], layout)
        assert entry(report, "shared") is False, "A result shares its memory with an input."
    laws.check_changes_nothing(student, "standardize", new_table(4), new_table(2))


# --- make_loaders --------------------------------------------------------------------------------


@pytest.mark.points(7)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("DataLoader(train, batch_size, shuffle=True, drop_last=True, generator=...)")
def test_training(student: Student) -> None:
    """Training batches have batch_size rows of the training part, shuffled anew in every epoch."""
    part = split(student, VAL, TEST)[0]
    epochs = rows_of_passes(student, ["train"] * EPOCHS)
    laws.check_epochs(epochs, part, batch_size=SIZE, shuffled=True, drop_last=True)
    batches = {tuple(sorted(batch)) for epoch in epochs for batch in epoch}
    told = "The same rows are together in every epoch: shuffle the rows, not the batches."
    assert len(batches) > TRAIN // SIZE, told
    seen = {row for epoch in epochs for row in flattened(epoch)}
    assert_equal(sorted(seen), part, what=f"the list of the rows that come in {EPOCHS} epochs")


@pytest.mark.points(2)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("DataLoader(val, batch_size): no shuffle, no drop_last.")
def test_evaluation(student: Student) -> None:
    """Validation and test loaders yield every row of their part once, in the same order in each pass."""
    for val, test in ((VAL, TEST), (3, 0), (0, 0)):
        parts = split(student, val, test)
        order = ["val", "test", "train", "val", "test"]
        passes = rows_of_passes(student, order, val=val, test=test)
        val_rows, test_rows, _, val_again, test_again = map(flattened, passes)
        what = "the sorted list of the rows that the {} loader yields"
        assert_equal(sorted(val_rows), parts[1], what=what.format("validation"))
        assert_equal(sorted(test_rows), parts[2], what=what.format("test"))
        told = "An evaluation loader yields another order in each pass: do not shuffle."
        assert (val_again, test_again) == (val_rows, test_rows), told


@pytest.mark.points(10)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("standardize(*(X[part] for part in parts)), with train first.")
def test_inputs(student: Student) -> None:
    """Inputs are float32, standardized with the statistics of the training rows; targets are int64."""
    train = split(student, VAL, TEST)[0]
    X = new_table(ROWS) * 3 + np.arange(ROWS)[:, None] ** 2 / 100
    y = new_classes().astype("int32")
    _, table = map(torch.from_numpy, standardized(X[train], X))
    found, right = [], []
    order = ["train", "val", "test"]
    passes = student.run("passes", X, y, [SIZE, VAL, TEST, SEED], order, 0)
    for batches in entry(passes, kind=list):
        for inputs, targets in pairs_of(batches):
            assert_tensor(targets, dtype=torch.int64, what="the targets of a batch")
            found.append(inputs)
            right.append(table[row_numbers(targets, y)].float())
    assert_close(found, right, what="the list of the inputs of the three loaders", **LOOSE)


@pytest.mark.points(3)
@pytest.mark.requires("test_training")
@pytest.mark.place("make_loaders")
@pytest.mark.hint("A generator for the training loader alone: torch.Generator().manual_seed(seed).")
def test_loader_seed(student: Student) -> None:
    """The seed decides the training batches, whatever other loaders and random states do."""
    three_epochs = ["train"] * 3
    first, again = (rows_of_passes(student, three_epochs) for _ in range(2))
    told = "Two calls with the same arguments give other training batches: the seed has to decide."
    assert again == first, told
    told = "The global random state decides the training batches: use a generator of your own."
    for global_seed in (1, 2):
        assert rows_of_passes(student, three_epochs, global_seed=global_seed) == first, told
    told = "A pass over another loader changes the training batches: share no generator."
    mixed = rows_of_passes(student, ["train", "val", "train", "test", "train"])
    assert mixed[::2] == first, told
    # Where all rows are training rows, only the order of the batches tells.
    one = rows_of_passes(student, ["train"], val=0, test=0)
    other = rows_of_passes(student, ["train"], val=0, test=0, seed=SEED + 1)
    assert one != other, "Another seed gives the same training batches."


@pytest.mark.points(1)
@pytest.mark.place("make_loaders")
@pytest.mark.word("code that does nothing leaves them alone, too")
@pytest.mark.hint("Make new arrays, and draw from generators of your own.")
def test_make_loaders_leaves_the_rest(student: Student) -> None:
    """X, y and the global random states are left as they are."""
    given = new_table(ROWS), new_classes(), SIZE, VAL, TEST
    laws.check_changes_nothing(student, "make_loaders", *given)


@pytest.mark.points(1)
@pytest.mark.place("make_loaders")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not 1 <= batch_size <= len(train): raise ValueError(...)")
def test_batch_size(student: Student) -> None:
    """A batch_size below 1, or above the number of training rows, is a ValueError that names it."""
    X, y = new_table(ROWS), np.arange(ROWS)
    table = {"batch_size": [(X, y, size, VAL, TEST) for size in (0, -1, TRAIN + 1)]}
    for size in (1, TRAIN):
        laws.check_errors(student, "make_loaders", table, fine=(X, y, size, VAL, TEST))


# --- locally -------------------------------------------------------------------------------------


def new_table(n: int) -> Any:
    return torch.randn(n, 3).double().numpy() + 2


def new_classes() -> Any:
    """A class for each row, which tells it from the others: not from 0 on, with gaps, in a drawn order."""
    return 3 * torch.randperm(ROWS).numpy() + 7


def parts_of(parts: Any, call: str = "split_indices") -> list[Tensor]:
    told = f"{call} should return a tuple of three tensors."
    parts = entry(parts, kind=(list, tuple), count=3, told=told)
    return [assert_tensor(part, what=f"a part of {call}") for part in parts]


def blocks_in(part: set[int], rows: int) -> int:
    """How many blocks of neighbors a part has, where the first row follows the last."""
    return sum((row + 1) % rows not in part for row in part)


def sorted_parts(parts: Any) -> list[list[int]]:
    return [sorted(part.flatten().tolist()) for part in parts_of(parts)]


def standardized(train: Any, *others: Any) -> list[Any]:
    mean, std = train.mean(axis=0), train.std(axis=0)
    divisor = np.where(std == 0, 1, std)
    return [(array - mean) / divisor for array in (train, *others)]


def check_standardized(student: Student, arrays: list[Any], layout: str = "sliced") -> Any:
    report = student.run("standardized", arrays, layout)
    what = f"the result for {[len(array) for array in arrays]} rows, {layout},"
    assert_close(entry(report, "result"), tuple(standardized(*arrays)), what=what)
    return report


def split(student: Student, val: int, test: int) -> list[list[int]]:
    """The parts that the student's split_indices makes for make_loaders, sorted."""
    parts = sorted_parts(student.run("split", ROWS, val, test, SEED))
    right = [len(part) for part in parts] == [ROWS - val - test, val, test]
    assert right and sorted(flattened(parts)) == list(range(ROWS)), "Fix split_indices first."
    return parts


def rows_of_passes(
    student: Student,
    order: list[str],
    val: int = VAL,
    test: int = TEST,
    seed: int = SEED,
    global_seed: int = 0,
) -> list[list[list[int]]]:
    """The numbers of the rows in each batch of the probe's passes over loaders in this order."""
    X, y = new_table(ROWS), new_classes()
    report = student.run("passes", X, y, [SIZE, val, test, seed], order, global_seed)
    passes = entry(report, kind=list, count=len(order))
    return [[row_numbers(targets, y) for _, targets in pairs_of(batches)] for batches in passes]


def pairs_of(batches: Any) -> list[tuple[Tensor, Tensor]]:
    """The batches of a pass: inputs (b, 3) and targets of as many rows."""
    pairs = []
    for batch in entry(batches, kind=list):
        inputs, targets = entry(batch, kind=(list, tuple), count=2, told="A batch is no pair.")
        rows = assert_tensor(targets, what="the targets of a batch").numel()
        assert_tensor(inputs, shape=(rows, 3), what="the inputs of a batch")
        pairs.append((inputs, targets))
    return pairs


def row_numbers(targets: Tensor, y: Any) -> list[int]:
    """The rows of the table whose classes these are."""
    numbers = {number: row for row, number in enumerate(y.tolist())}
    classes = targets.flatten().tolist()
    assert set(classes) <= set(numbers), "Targets are no classes of y."
    return [numbers[number] for number in classes]


def flattened(epoch: Sequence[Sequence[int]]) -> list[int]:
    return [row for batch in epoch for row in batch]
