"""Tests of TabularDataset, split_indices, standardize and make_loaders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    assert_close,
    assert_equal,
    assert_tensor,
    entry,
    laws,
    promise,
    within,
)
from grader.judge.student import Student

LAYOUTS = ("sliced", "beside other columns", "transposed")
# Sizes of the table for make_loaders and of its parts. The last training batch would be short.
ROWS, VAL, TEST = 40, 11, 6
TRAIN = ROWS - VAL - TEST
SIZE, SEED = 5, 3
# If rows are drawn at random, each one gets into each part in this many splits, and into a batch in this many
# epochs.
SPLITS, EPOCHS = 60, 8
# The relative error that standardize may have in float32.
LOOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-4}


# --- TabularDataset ------------------------------------------------------------------------------


@promise(
    "TabularDataset.__getitem__",
    points=4,
    hint="(self.X[idx], self.y[idx]) of a float32 and an int64 tensor.",
)
def test_items(code: Student, draw: Draw) -> Cases:
    """An item is a row, (d,) float32, and its class, () int64, for arrays of all kinds and layouts."""
    kinds = [("float64", "int64"), ("float32", "uint8"), ("int16", "int32")]
    for layout, (floats, integers) in zip(LAYOUTS, kinds, strict=True):
        X = (9 * abs(new_table(draw, 6))).astype(floats)
        # Up to the largest number of the dtype, but not far beyond what a class may be.
        largest = min(np.iinfo(integers).max, 10**9)
        y = (np.arange(6) * (largest // 6)).astype(integers)
        what = f"the list of the items, rows {floats}, {layout}, and classes {integers},"
        yield what, code.run("items", X, y, layout)


@promise(
    "TabularDataset.__len__",
    points=2,
    hint="The number of rows, also if it is 0.",
    after="test_items",
)
def test_length(code: Student, draw: Draw) -> Cases:
    """The length is the number of rows, which may be 0, and the arrays are left as they are."""
    for n in (draw.size(4, 10), 0):
        yield f"the length for {n} rows", code.run("length", new_table(draw, n), np.arange(n))
    laws.check_changes_nothing(code, "TabularDataset", new_table(draw, 5), np.arange(5))


@promise(
    "TabularDataset.__init__",
    hint="if len(X) != len(y): raise ValueError(...)",
    word="the sandbox says that it raised",
)
def test_lengths_differ(student: Student) -> None:
    """X and y of different lengths are a ValueError that names y."""
    differing = [(4, 3), (4, 5), (4, 0), (0, 1)]
    calls = [(np.ones((n, 3)), np.arange(m)) for n, m in differing]
    fine = (np.ones((4, 3)), np.arange(4))
    laws.check_errors(student, "TabularDataset", {"y": calls}, fine=fine)


# --- split_indices -------------------------------------------------------------------------------


@promise(
    "split_indices",
    points=5,
    hint="One permutation, cut into three: no index is lost, and none comes twice.",
)
def test_partition(code: Student, draw: Draw) -> Cases:
    """Each index is in exactly one part, and the parts have the sizes that are asked for."""
    drawn = (draw.size(30, 50), draw.size(9, 13), draw.size(3, 9))
    for sizes in (drawn, (10, 0, 3), (10, 3, 0), (1, 0, 0)):
        call = f"split_indices{sizes}"
        parts = parts_of(code.function("split_indices")(*sizes), call)
        yield f"the list of the dtypes of {call}", [str(part.dtype) for part in parts]
        yield f"the list of the shapes of {call}", [list(part.shape) for part in parts]
        yield f"the sorted list of all indices of {call}", sorted(flattened(sorted_parts(parts)))


@promise(
    "split_indices",
    points=6,
    hint="torch.randperm(n, generator=...): its first val_size entries are one part, and so on.",
    after="test_partition",
)
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


@promise(
    "split_indices",
    points=4,
    hint="torch.Generator().manual_seed(seed): a generator that nothing else draws from.",
)
def test_split_seed(student: Student) -> None:
    """Only the seed decides the split, and the global random states are left alone."""
    split = student.function("split_indices")

    def parts(*seed: int) -> list[list[int]]:
        return sorted_parts(split(ROWS, VAL, TEST, *seed))

    laws.check_seeded(student, parts, what="the list of the parts")
    assert_equal(parts(), parts(0), what="the list of the parts without a seed, as by seed=0,")
    laws.check_changes_nothing(student, "split_indices", ROWS, VAL, TEST, SEED)


@promise(
    "split_indices",
    points=2,
    hint="Check each size alone, then whether val_size + test_size < n.",
    word="the sandbox says that it raised",
)
def test_split_errors(student: Student) -> None:
    """Negative sizes, and sizes that leave nothing to train on, are ValueErrors that name them."""
    table = {
        "val_size": [(10, -1, 3)],
        "test_size": [(10, 3, -1)],
        "val_size or test_size": [(10, 5, 5), (10, 0, 10), (10, 7, 9), (0, 0, 0)],
    }
    laws.check_errors(student, "split_indices", table, fine=(10, 5, 4))


# --- standardize ---------------------------------------------------------------------------------


@promise(
    "standardize",
    points=6,
    hint="mean, std = train.mean(axis=0), train.std(axis=0), and use them for all arrays.",
)
def test_standardize(code: Student, draw: Draw) -> Cases:
    """Every array is standardized column by column with the statistics of train."""
    for counts in ((6, 4), (7, 1, 0, 3)):
        arrays = [new_table(draw, n) + i for i, n in enumerate(counts)]
        yield f"the result for {counts} rows", entry(standardized(code, arrays), "result")
        arrays = [array.astype("float32") for array in arrays]
        result = entry(standardized(code, arrays), "result")
        yield "the tuple of float32 results", within(result, **LOOSE)


@promise(
    "standardize",
    points=4,
    hint="np.where(std == 0, 1, std)",
    after="test_standardize",
)
def test_constant_columns(code: Student, draw: Draw) -> Cases:
    """Columns that are constant in train are divided by 1, and no others are."""
    for value in (3.0, 0.0):
        # The last column has tiny numbers, but is not constant.
        tiny = np.array([1, 1, 1e-6])
        train, other = new_table(draw, 6) * tiny, new_table(draw, 5) * tiny
        train[:, 1] = value
        what = f"the result for a column of {value} and one of tiny numbers"
        yield what, entry(standardized(code, [train, other]), "result")
    report = standardized(code, [np.full((1, 3), 2.0), new_table(draw, 5)])
    yield "the result for a train of one row", entry(report, "result")


@promise(
    "standardize",
    points=2,
    hint="(array - mean) / std makes a new array; array -= mean changes the caller's.",
    after="test_standardize",
)
def test_arrays_are_left_alone(code: Student, draw: Draw) -> Cases:
    """The inputs are unchanged, and the results are new arrays, whatever the layout of the inputs."""
    for layout in LAYOUTS:
        report = standardized(code, [new_table(draw, 6), new_table(draw, 3)], layout)
        yield f"the result for arrays {layout}", entry(report, "result")
        assert entry(report, "shared") is False, "A result shares its memory with an input."
    laws.check_changes_nothing(code, "standardize", new_table(draw, 4), new_table(draw, 2))


# --- make_loaders --------------------------------------------------------------------------------


@promise(
    "make_loaders",
    points=7,
    hint="DataLoader(train, batch_size, shuffle=True, drop_last=True, generator=...)",
)
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


@promise(
    "make_loaders",
    points=2,
    hint="DataLoader(val, batch_size): no shuffle, no drop_last.",
)
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


@promise(
    "make_loaders",
    points=10,
    hint="standardize(*(X[part] for part in parts)), with train first.",
)
def test_inputs(student: Student) -> None:
    """Inputs are float32, standardized with the statistics of the training rows; targets are int64."""
    parts = split(student, VAL, TEST)
    X = new_rows() * 3 + np.arange(ROWS)[:, None] ** 2 / 100
    y = new_classes().astype("int32")
    # The right inputs follow from the student's own split_indices and standardize, which other tests judge.
    table, result = torch.zeros(ROWS, 3), standardized(student, [X[part] for part in parts])
    for i, part in enumerate(parts):
        rows = entry(result, "result", i, kind=np.ndarray)
        assert rows.shape == (len(part), 3), "Fix standardize first."
        table[part] = torch.from_numpy(rows).float()
    found, right = [], []
    passes = student.run("passes", X, y, [SIZE, VAL, TEST, SEED], ["train", "val", "test"], 0)
    for batches in entry(passes, kind=list):
        for inputs, targets in pairs_of(batches):
            assert_tensor(targets, dtype=torch.int64, what="the targets of a batch")
            found.append(inputs)
            right.append(table[row_numbers(targets, y)])
    assert_close(found, right, what="the list of the inputs of the three loaders", **LOOSE)


@promise(
    "make_loaders",
    points=3,
    hint="A generator for the training loader alone: torch.Generator().manual_seed(seed).",
    after="test_training",
)
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
    # If all rows are training rows, only the order of the batches depends on the seed.
    one = rows_of_passes(student, ["train"], val=0, test=0)
    other = rows_of_passes(student, ["train"], val=0, test=0, seed=SEED + 1)
    assert one != other, "Another seed gives the same training batches."


@promise(
    "make_loaders",
    hint="Make new arrays, and draw from generators of your own.",
    word="code that does nothing leaves them alone, too",
)
def test_make_loaders_leaves_the_rest(student: Student) -> None:
    """X, y and the global random states are left as they are."""
    given = new_rows(), new_classes(), SIZE, VAL, TEST
    laws.check_changes_nothing(student, "make_loaders", *given)


@promise(
    "make_loaders",
    hint="if not 1 <= batch_size <= len(train): raise ValueError(...)",
    word="the sandbox says that it raised",
)
def test_batch_size(student: Student) -> None:
    """A batch_size below 1, or above the number of training rows, is a ValueError that names it."""
    X, y = np.ones((ROWS, 3)), np.arange(ROWS)
    table = {"batch_size": [(X, y, size, VAL, TEST) for size in (0, -1, TRAIN + 1)]}
    for size in (1, TRAIN):
        laws.check_errors(student, "make_loaders", table, fine=(X, y, size, VAL, TEST))


# --- helpers of the tests ------------------------------------------------------------------------


def new_table(draw: Draw, n: int) -> Any:
    """Draw a float64 table of n rows and 3 columns, with means around 2."""
    return draw.normal(n, 3, dtype=torch.float64).numpy() + 2


def new_rows() -> Any:
    """Make the table for make_loaders."""
    return torch.randn(ROWS, 3).double().numpy()


def new_classes() -> Any:
    """Make a different class for each row. Classes do not begin at 0, have gaps, and are in random order."""
    return 3 * torch.randperm(ROWS).numpy() + 7


def parts_of(parts: Any, call: str = "split_indices") -> list[Tensor]:
    told = f"{call} should return a tuple of three tensors."
    parts = entry(parts, kind=(list, tuple), count=3, told=told)
    return [assert_tensor(part, what=f"a part of {call}") for part in parts]


def blocks_in(part: set[int], rows: int) -> int:
    """Count the blocks of neighbors in a part. The first row is a neighbor of the last."""
    return sum((row + 1) % rows not in part for row in part)


def sorted_parts(parts: Any) -> list[list[int]]:
    return [sorted(part.flatten().long().tolist()) for part in parts_of(parts)]


def standardized(code: Student, arrays: list[Any], layout: str = "sliced") -> Any:
    """Return the result of standardize, and whether it shares memory with the arrays."""
    return code.run("standardized", arrays, layout)


def split(student: Student, val: int, test: int) -> list[list[int]]:
    """Return the parts that the student's split_indices makes for make_loaders, each sorted."""
    parts = sorted_parts(student.run("split", ROWS, val, test, SEED))
    assert set(flattened(parts)) <= set(range(ROWS)), "Fix split_indices first."
    return parts


def rows_of_passes(
    student: Student,
    order: list[str],
    val: int = VAL,
    test: int = TEST,
    seed: int = SEED,
    global_seed: int = 0,
) -> list[list[list[int]]]:
    """Return the numbers of the rows in each batch of the probe's passes, over loaders in this order."""
    X, y = new_rows(), new_classes()
    report = student.run("passes", X, y, [SIZE, val, test, seed], order, global_seed)
    passes = entry(report, kind=list, count=len(order))
    return [[row_numbers(targets, y) for _, targets in pairs_of(batches)] for batches in passes]


def pairs_of(batches: Any) -> list[tuple[Tensor, Tensor]]:
    """Return the batches of a pass as pairs of inputs (b, 3) and b targets. Fail if they are anything else."""
    pairs = []
    for batch in entry(batches, kind=list):
        inputs, targets = entry(batch, kind=(list, tuple), count=2, told="A batch is not a pair.")
        rows = assert_tensor(targets, what="the targets of a batch").numel()
        assert_tensor(inputs, shape=(rows, 3), what="the inputs of a batch")
        pairs.append((inputs, targets))
    return pairs


def row_numbers(targets: Tensor, y: Any) -> list[int]:
    """Return the row of the table to which each of these classes belongs."""
    numbers = {number: row for row, number in enumerate(y.tolist())}
    classes = targets.flatten().tolist()
    assert set(classes) <= set(numbers), "Targets are not classes of y."
    return [numbers[number] for number in classes]


def flattened(epoch: Sequence[Sequence[int]]) -> list[int]:
    return [row for batch in epoch for row in batch]
