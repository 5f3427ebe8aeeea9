"""What TabularDataset, split_indices, standardize and make_loaders promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
LAYOUTS = ("", "sliced", "beside other columns", "transposed")
# Of the tables for make_loaders: 23 rows to train on, so that the last batch of five is short.
ROWS, SIZE, VAL, TEST = 40, 5, 11, 6
TRAIN = ROWS - VAL - TEST


class Epoch(NamedTuple):
    """What a loader yields in a pass, and the class of each row of its table, by which it is known."""

    batches: Any
    classes: list[int]


@pytest.mark.points(4)
@pytest.mark.place("TabularDataset.__getitem__")
@pytest.mark.hint("(self.X[idx], self.y[idx]) of a float32 and an int64 tensor.")
def test_items(student: Student) -> None:
    """An item is a row, (d,) float32, and its class, () int64, for arrays of all kinds and layouts."""
    for i, dtype in enumerate((*FLOATS, *INTEGERS)):
        kind, X = INTEGERS[i % len(INTEGERS)], (9 * abs(new_table(6))).astype(dtype)
        # Up to the largest numbers, but for those that are no classes any more.
        y = (np.arange(6) * (min(np.iinfo(kind).max, 10**9) // 6)).astype(kind)
        classes = [torch.tensor(c) for c in y.tolist()]
        right = [(torch.from_numpy(X[i].astype("float32")), c) for i, c in enumerate(classes)]
        for layout in LAYOUTS:
            what = f"the list of the items, rows {dtype} {layout} and classes {y.dtype},"
            report = student.run("items", X, y, layout)
            assert_close(entry(report, "items"), right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_items")
@pytest.mark.place("TabularDataset.__len__")
@pytest.mark.hint("The number of rows, also if it is 0.")
def test_length(student: Student) -> None:
    """Its length is the number of rows, which may be 0, and the arrays are left as they are."""
    for n in (7, 1, 0):
        report = student.run("items", new_table(n), np.arange(n))
        assert_equal(entry(report, "length"), n, what=f"the length for {n} rows")
    for dtype in ("float64", "float32"):
        given = new_table(5).astype(dtype), np.arange(5)
        laws.check_changes_nothing(student, "TabularDataset", *given)


@pytest.mark.place("TabularDataset.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if len(X) != len(y): raise ValueError(...)")
def test_lengths_differ(student: Student) -> None:
    """X and y of different lengths are a ValueError that names y."""
    pairs = [(4, 3), (4, 5), (4, 0), (0, 1), (1, 4), (4, 4)]
    *calls, fine = [(new_table(n), np.arange(m)) for n, m in pairs]
    laws.check_errors(student, "TabularDataset", {"y": calls}, fine=fine)


@pytest.mark.points(5)
@pytest.mark.place("split_indices")
@pytest.mark.hint("One permutation, cut into three: no index is lost, and none comes twice.")
def test_partition(student: Student) -> None:
    """Each index is in exactly one part, and the parts have the sizes that are asked for."""
    drawn = (random.randint(30, 50), random.randint(9, 12), random.randint(3, 8))
    for n, val, test in (drawn, (10, 0, 3), (10, 3, 0), (5, 0, 0), (1, 0, 0), (9, 4, 4)):
        call, rest = f"split_indices({n}, {val}, {test})", n - val - test
        parts = student.function("split_indices")(n, val, test)
        told = f"{call} should return a tuple of three tensors."
        parts = entry(parts, kind=(list, tuple), count=3, told=told)
        parts = [assert_tensor(part, dtype=torch.int64, what=f"a part of {call}") for part in parts]
        sizes, what = [tuple(part.shape) for part in parts], f"the list of the shapes of {call}"
        assert_equal(sizes, [(rest,), (val,), (test,)], what=what)
        indices = sorted(torch.cat(parts).tolist())
        lost = len(set(indices)) < n and set(indices) < set(range(n))
        assert not lost, "Some indices are lost, and others come twice: the parts overlap."
        assert_equal(indices, list(range(n)), what=f"the sorted list of all indices of {call}")


@pytest.mark.points(6)
@pytest.mark.requires("test_partition")
@pytest.mark.place("split_indices")
@pytest.mark.hint("torch.randperm(n, generator=...), whose first val_size are one part, and so on.")
def test_at_random(student: Student) -> None:
    """Validation and test rows are drawn at random."""
    rows = random.randint(10, 14)
    splits = entry(student.run("splits", 60, rows, 3, 2), kind=list, count=60)
    for i, name in enumerate(("train", "val", "test")):
        drawn = [set(in_order(parts, i).tolist()) for parts in splits]
        told = f"The {name} part is the same for all seeds: draw its rows."
        assert any(part != drawn[0] for part in drawn), told
        told = f"The {name} part is a block of neighbors: draw each row."
        ends = [sum((row + 1) % rows not in part for row in part) for part in drawn]
        assert max(ends) > 1, told
        told = (
            f"Of {rows} rows some are never in the {name} part, in 60 splits: draw from all rows."
        )
        assert set(range(rows)) == set().union(*drawn), told


@pytest.mark.points(4)
@pytest.mark.place("split_indices")
@pytest.mark.hint("torch.Generator().manual_seed(seed): a generator that nothing else draws from.")
def test_split_seed(student: Student) -> None:
    """The seed decides alone; the global random states have no part in it, and are left alone."""
    call = student.function("split_indices")
    for i, name in enumerate(("train", "val", "test")):

        def part(*seed: int, i: int = i) -> Tensor:
            return in_order(call(40, 11, 6, *seed), i)

        laws.check_seeded(student, part, what=f"the {name} part")
        assert_equal(part(), part(0), what=f"the sorted {name} part without a seed, as by seed=0,")
    for arguments in ((40, 11, 6), (40, 11, 6, 3)):
        laws.check_changes_nothing(student, "split_indices", *arguments)


@pytest.mark.points(2)
@pytest.mark.place("split_indices")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check each size alone, then whether val_size + test_size < n.")
def test_split_errors(student: Student) -> None:
    """Negative sizes, and sizes that leave nothing to train on, are ValueErrors that name them."""
    table = {
        "val_size": [(10, -1, 3), (10, -2, 0)],
        "test_size": [(10, 3, -1), (10, 0, -4)],
        "val_size or test_size": [(10, 5, 5), (10, 10, 0), (10, 0, 10), (10, 7, 9), (0, 0, 0)],
    }
    laws.check_errors(student, "split_indices", table, fine=(10, 5, 4))


@pytest.mark.points(6)
@pytest.mark.place("standardize")
@pytest.mark.hint("mean, std = train.mean(axis=0), train.std(axis=0), and those for all arrays.")
def test_standardize(student: Student) -> None:
    """Every array is standardized column by column with the statistics of train."""
    for counts in ((6, 4), (5,), (7, 1, 0, 3)):
        arrays = [new_table(n) + i for i, n in enumerate(counts)]
        check_standardized(student, arrays)
        report = student.run("standardized", [x.astype("float32") for x in arrays], "")
        right = tuple(x.astype("float32") for x in standardized(*arrays))
        what = "the tuple of the float32 results"
        assert_close(entry(report, "result"), right, what=what, rtol=1e-4, atol=1e-4)


@pytest.mark.points(4)
@pytest.mark.requires("test_standardize")
@pytest.mark.place("standardize")
@pytest.mark.hint("np.where(std == 0, 1, std)")
def test_constant_columns(student: Student) -> None:
    """Where a column of train is constant the difference is divided by 1, and nowhere else."""
    for n, value in ((6, 3.0), (1, -2.0), (4, 0.0)):
        # The last column has tiny numbers, which are not constant all the same.
        train, other = (new_table(n) * (1, 1, 1e-6) for n in (n, 5))
        train[:, 1] = value
        check_standardized(student, [train.round() if n == 1 else train, other])


@pytest.mark.points(2)
@pytest.mark.requires("test_standardize")
@pytest.mark.place("standardize")
@pytest.mark.hint("(array - mean) / std makes a new array; array -= mean changes the caller's.")
def test_arrays_are_left_alone(student: Student) -> None:
    """The inputs are unchanged, the results new arrays, whatever the layout of the inputs."""
    for layout in LAYOUTS:
        arrays = [new_table(6), new_table(3)]
        report = student.run("standardized", arrays, layout)
        right = tuple(standardized(*arrays))
        assert_close(entry(report, "result"), right, what=f"the result for arrays {layout}")
        assert entry(report, "shared") is False, "A result shares its memory with an input."
    for arrays in ([new_table(4)], [new_table(4), new_table(2), new_table(0)]):
        laws.check_changes_nothing(student, "standardize", *arrays)


@pytest.mark.points(7)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("DataLoader(train, batch_size, shuffle=True, drop_last=True, generator=...)")
def test_training(student: Student) -> None:
    """Training batches have batch_size rows of the training part, shuffled anew in every epoch."""
    for size in (SIZE, 11, TRAIN, 1):
        part = split(student)[0]
        epochs = [ids(epoch) for epoch in passes(student, "0" * 8, size)]
        told = "Training batches have rows that split_indices puts into another part."
        assert {i for epoch in epochs for i in flattened(epoch)} <= set(part), told
        laws.check_epochs(epochs, part, batch_size=size, shuffled=True, drop_last=True)
        batches = {tuple(sorted(tuple(sorted(batch)) for batch in epoch)) for epoch in epochs}
        told = "The same rows are together in every epoch: shuffle the rows, not the batches."
        assert len(batches) > 1 or size in (1, TRAIN), told
        told = "In 8 epochs some training rows never come: the same ones are left out each time."
        assert {i for epoch in epochs for i in flattened(epoch)} == set(part), told


@pytest.mark.points(2)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("DataLoader(val, batch_size): no shuffle, no drop_last.")
def test_evaluation(student: Student) -> None:
    """Validation and test loaders yield every row of their part once, in the same order in each pass."""
    for val, test in ((VAL, TEST), (3, 0), (0, 2), (0, 0)):
        parts = split(student, val, test)
        for number, name in ((1, "validation"), (2, "test")):
            made = passes(student, f"{number}{number}0{number}", SIZE, val, test)
            first, second, _, third = (flattened(ids(epoch)) for epoch in made)
            what = f"the sorted list of the rows that the {name} loader yields"
            told = (
                f"The {name} loader yields as many rows as the other should: val comes before test."
            )
            assert not first or len(first) != len(parts[3 - number]), told
            told = f"The {name} loader yields {len(first)} of {len(parts[number])} rows: drop none."
            assert len(first) >= len(parts[number]), told
            assert_equal(sorted(first), parts[number], what=what)
            told = f"The {name} loader yields another order in each pass: do not shuffle."
            assert first == second == third, told


@pytest.mark.points(10)
@pytest.mark.place("make_loaders")
@pytest.mark.hint("standardize(*(X[part] for part in parts)), with train first.")
def test_inputs(student: Student) -> None:
    """Inputs are float32, standardized with the statistics of the training rows; targets are int64."""
    parts = split(student)
    X = new_table(ROWS) * 3 + np.arange(ROWS)[:, None] ** 2 / 100
    table = standardized(X[parts[0]], X)[1]
    for dtype, whole in (("float64", "int64"), ("float32", "int32")):
        epochs = passes(student, "012", X=X.astype(dtype), y=new_classes().astype(whole))
        rows = []
        for epoch in epochs:
            batches = batches_of(epoch)
            for _, targets in batches:
                assert_tensor(targets, dtype=torch.int64, what="the targets of a batch")
            rows.append([inputs for inputs, _ in batches])
        right = [
            [torch.from_numpy(table[batch]).float() for batch in ids(epoch)] for epoch in epochs
        ]
        what = "the list of the inputs of the three loaders"
        assert_close(rows, right, what=what, rtol=1e-4, atol=1e-4)


@pytest.mark.points(3)
@pytest.mark.requires("test_training")
@pytest.mark.place("make_loaders")
@pytest.mark.hint("A generator for the training loader alone: torch.Generator().manual_seed(seed).")
def test_loader_seed(student: Student) -> None:
    """The seed decides the training batches, whatever other loaders and random states do."""
    for val, test in ((VAL, TEST), (0, 0)):

        def epochs(plan: str, noise: int, seed: int = 3, sizes: Any = (val, test)) -> Any:
            made = passes(student, plan, SIZE, *sizes, seed, noise=noise)
            numbers = [step for step in plan if step.isdigit()]
            return [ids(e) for e, number in zip(made, numbers, strict=True) if number == "0"]

        first = epochs("000", 1)
        told = (
            "Two calls with the same arguments give other training batches: the seed has to decide."
        )
        assert epochs("000", 1) == first, told
        told = "The global random state decides the training batches: use a generator of your own."
        assert epochs("000", 2) == first, told
        told = "A pass over another loader changes the training batches: share no generator."
        assert epochs("1020bc0", 1) == first, told
        told = "Another seed gives the same training batches."
        assert epochs("000", 1, seed=4)[0] != first[0], told


@pytest.mark.points(1)
@pytest.mark.place("make_loaders")
@pytest.mark.word("code that does nothing leaves them alone, too")
@pytest.mark.hint("Make new arrays, and draw from generators of your own.")
def test_make_loaders_leaves_the_rest(student: Student) -> None:
    """X, y and the global random states are left as they are."""
    for dtype in ("float64", "float32"):
        given = new_table(ROWS).astype(dtype), new_classes(), SIZE, VAL, TEST
        laws.check_changes_nothing(student, "make_loaders", *given)


@pytest.mark.points(1)
@pytest.mark.place("make_loaders")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not 1 <= batch_size <= len(train): raise ValueError(...)")
def test_batch_size(student: Student) -> None:
    """A batch_size below 1, or above the number of training rows, is a ValueError that names it."""
    sizes, given = (0, -1, TRAIN + 1, ROWS, TRAIN), (new_table(ROWS), np.arange(ROWS))
    *calls, fine = [(*given, size, VAL, TEST) for size in sizes]
    laws.check_errors(student, "make_loaders", {"batch_size": calls}, fine=fine)


def new_table(n: int) -> Any:
    return torch.randn(n, 3).double().numpy() + 2


def new_classes() -> Any:
    """A class for each row, which tells it from the others: not from 0 on, with gaps, in a drawn order."""
    return 3 * torch.randperm(ROWS).numpy() + 7


def standardized(train: Any, *others: Any, std: Any = None) -> list[Any]:
    """Arrays by the statistics of train, or by another std."""
    std = np.where(train.std(axis=0) == 0, 1, train.std(axis=0)) if std is None else std
    with np.errstate(all="ignore"):
        return [(array - train.mean(axis=0)) / std for array in (train, *others)]


def check_standardized(student: Student, arrays: list[Any]) -> None:
    """The results are right."""
    sizes = [len(array) for array in arrays]
    actual, what = student.run("standardized", arrays, ""), f"the result for {sizes} rows"
    assert_close(entry(actual, "result"), tuple(standardized(*arrays)), what=what)


def in_order(parts: Any, i: int) -> Tensor:
    return assert_tensor(entry(parts, i)).flatten().long().sort().values


def split(student: Student, val: int = VAL, test: int = TEST) -> list[list[int]]:
    """The parts that split_indices makes, sorted."""
    made = student.run("split", ROWS, val, test, 3)
    parts: list[list[int]] = [in_order(made, i).tolist() for i in range(3)]
    right = [len(part) for part in parts] == [ROWS - val - test, val, test]
    assert right and sorted(flattened(parts)) == list(range(ROWS)), "Fix split_indices first."
    return parts


def passes(
    student: Student, plan: str, *arguments: int, X: Any = None, y: Any = None, noise: int = 0
) -> list[Epoch]:
    """What the loaders of a table yield whose classes tell the numbers of its rows."""
    X = new_table(ROWS) if X is None else X
    y = new_classes() if y is None else y
    given = [*arguments, *(SIZE, VAL, TEST, 3)[len(arguments) :]]
    made = entry(student.run("passes", X, y, given, plan, noise), kind=list)
    return [Epoch(batches, y.tolist()) for batches in made]


def batches_of(epoch: Epoch) -> list[tuple[Tensor, Tensor]]:
    """The batches of a pass: pairs of inputs (b, 3) and classes of y; test_inputs judges dtypes."""
    batches = entry(epoch.batches, kind=list)
    for batch in batches:
        inputs, targets = entry(batch, kind=(list, tuple), count=2, told="A batch is no pair.")
        targets = assert_tensor(targets, what="the targets of a batch").flatten()
        assert_tensor(inputs, shape=(len(targets), 3), what="the inputs of a batch")
        told = "Targets are no classes of y."
        assert set(targets.tolist()) <= set(epoch.classes), told
    return list(batches)


def ids(epoch: Epoch) -> list[list[int]]:
    """The row numbers in the batches of a pass."""
    row = {number: i for i, number in enumerate(epoch.classes)}
    return [[row[int(c)] for c in targets.flatten()] for _, targets in batches_of(epoch)]


def flattened(epoch: Sequence[Sequence[int]]) -> list[int]:
    return [i for batch in epoch for i in batch]
