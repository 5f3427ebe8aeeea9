"""Small examples for pad_collate and make_loader."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, promise
from grader.judge.student import Student

FIELDS = ("sequences", "lengths", "mask", "labels")


def field(result: Any, name: str) -> Any:
    """A field of the result, also of a plain tuple. Only one test judges whether it is a PaddedBatch."""
    told = "pad_collate returned no PaddedBatch."
    return entry(result, name, names=FIELDS, told=told)


def steps_of(student: Student, options: dict[str, Any]) -> list[Any]:
    """The steps in each batch of a loader over [0], ..., [4], as the probe reads them."""
    found = student.run("steps_of", options)
    assert isinstance(found, list), "The loader could not be looked at."
    for each in found:
        assert isinstance(each, list), f"The loader gives {each}, it should give a PaddedBatch."
    return found


@promise(
    "pad_collate",
    points=6,
    hint="Make a box full of padding_value, and copy each sequence to its row's start.",
)
def test_example_padding(student: Student) -> None:
    """[1, 2, 3] and [4] become the rows [1, 2, 3] and [4, 0, 0]."""
    result = student.function("pad_collate")([torch.tensor([1, 2, 3]), torch.tensor([4])])
    kind = getattr(result, "type_name", type(result).__name__)
    told = f"pad_collate returned an object of type {kind}, it should return a PaddedBatch."
    assert list(getattr(result, "fields", {})) == list(FIELDS), told
    assert_close(field(result, "sequences"), torch.tensor([[1, 2, 3], [4, 0, 0]]), what="sequences")
    assert_close(field(result, "lengths"), torch.tensor([3, 1]), what="lengths")
    assert_equal(field(result, "labels"), None, what="labels (there are none in the batch)")


@promise(
    "pad_collate",
    points=6,
    hint="The mask asks whether a step's number is below the length of its sequence.",
)
def test_example_mask(student: Student) -> None:
    """Of [0, 7, 8] and [5], padded with 0, only the last two steps of the second are padding."""
    result = student.function("pad_collate")([torch.tensor([0, 7, 8]), torch.tensor([5])])
    wanted = torch.tensor([[True, True, True], [True, False, False]])
    assert_close(field(result, "mask"), wanted, what="the mask")


@promise(
    "pad_collate",
    points=110,
    hint="Row i holds item i: its steps first, where the mask is True, and then padding.",
)
def test_example_mean(student: Student) -> None:
    """The sum of a row where the mask is True, divided by its length, is the mean of that item."""
    batch = [torch.randn(size) + 2 for size in [*torch.randint(1, 9, (5,)).tolist(), 9, 3, 1]]
    result = student.function("pad_collate")(batch, padding_value=7)
    sequences, mask, lengths = (field(result, name) for name in ("sequences", "mask", "lengths"))
    # Too many steps are fine here. test_example_padding judges their number.
    sequences = assert_tensor(sequences, what="sequences of 8 items")
    steps = sequences.shape[1] if sequences.dim() == 2 else 9
    assert_tensor(sequences, shape=(8, max(steps, 9)), what="sequences of 8 items")
    assert_tensor(mask, shape=(8, max(steps, 9)), what="the mask")
    assert_tensor(lengths, shape=(8,), what="lengths")
    assert_close(
        (sequences * mask.float()).sum(dim=1) / lengths.float(),
        torch.stack([item.mean() for item in batch]),
        what="the mean of each item's steps, as sequences, mask and lengths have it,",
    )


@promise("pad_collate", hint="Separate sequences and labels first; then all is as without labels.")
def test_example_labels(student: Student) -> None:
    """The labels 2 and 5 of two pairs become the int64 tensor [2, 5]."""
    batch = [(torch.tensor([1.5, 2.5]), 2), (torch.tensor([3.5]), 5)]
    result = student.function("pad_collate")(batch, padding_value=-0.5)
    labels = field(result, "labels")
    assert labels is not None, "labels are None, though the items are (sequence, label) pairs."
    assert_close(labels, torch.tensor([2, 5]), what="labels")
    wanted = torch.tensor([[1.5, 2.5], [3.5, -0.5]])
    assert_close(field(result, "sequences"), wanted, what="sequences with padding_value=-0.5")
    small = student.function("pad_collate")([[torch.zeros(2), torch.tensor(3, dtype=torch.int16)]])
    assert_close(
        field(small, "labels"), torch.tensor([3]), what="labels of one list [sequence, label]"
    )


@promise(
    "pad_collate",
    points=3,
    hint="torch.full((len(batch), T, *batch[0].shape[1:]), padding_value, dtype=...)",
)
def test_example_edges(student: Student) -> None:
    """There may be one sequence, short ones, or ones with several dimensions; the batch stays as it was."""
    pad = student.function("pad_collate")
    boxes: dict[tuple[int, ...], list[tuple[int, ...]]]
    boxes = {(1, 3, 2): [(3, 2)], (2, 2): [(2,), (0,)], (1, 1): [(1,)]}
    for shape, shapes in boxes.items():
        sequences = field(pad([torch.ones(size) for size in shapes]), "sequences")
        assert_tensor(sequences, shape=shape, what=f"sequences made of the shapes {shapes}")
    batch = [(torch.ones(2), 1), (torch.ones(3), 2)]
    laws.check_changes_nothing(student, "pad_collate", batch, only=("values", "version"))


@promise(
    "pad_collate",
    hint="The first sequence's dtype and shape[1:] are those of the batch; compare all with it.",
)
def test_example_refused(student: Student) -> None:
    """An empty batch, other dtypes or dimensions, and pairs among bare tensors are a ValueError."""
    two = torch.ones(2)
    unlike = [[two, two.long()], [torch.ones(2, 3), torch.ones(2, 1)], [], [(two, 1), two]]
    laws.check_errors(student, "pad_collate", {"batch": [(batch,) for batch in unlike]})


@promise(
    "make_loader",
    points=8,
    hint="Give DataLoader your pad_collate as collate_fn, and keep its last batch.",
)
def test_example_loader(student: Student) -> None:
    """Five items [0], [1], ... with batch_size=2 come as [0, 1], [2, 3], [4]."""
    whole = steps_of(student, {})
    assert whole, (
        "Of five items nothing comes in batches of 32: keep the last batch, which is shorter."
    )
    assert len(whole) == 1, "batch_size is 32 by default."
    assert_equal(
        steps_of(student, {"batch_size": 2}), [[0, 1], [2, 3], [4]], what="the list of batches"
    )


def indices(batches: list[Any]) -> list[Any]:
    return [each for batch in batches for each in batch]


@promise(
    "make_loader",
    points=16,
    hint="A torch.Generator of its own, seeded once, decides a loader's order.",
)
def test_example_seed(student: Student) -> None:
    """Two loaders with shuffle=True and the same seed give the same order, which the seed decides."""
    orders = []
    for seed in (0, 1, 2):
        options = {"batch_size": 5, "shuffle": True, "seed": seed}
        first, second = (indices(steps_of(student, options)) for _ in range(2))
        items = [item for item in first if isinstance(item, (int, float))]
        assert all(item in items for item in range(5)), (
            f"The loader gives {first}, which is not all of the items [0], ..., [4]."
        )
        assert laws.same(second, first), (
            f"Two loaders with shuffle=True and seed={seed} give different orders: the seed has to decide "
            f"the order, but one gives {first} and the other {second}."
        )
        orders.append(first)
        assert indices(steps_of(student, {**options, "shuffle": False})) == list(range(5)), (
            "A seed alone does not shuffle: without shuffle=True the order is the dataset's."
        )
    assert orders[1:] != orders[:-1], f"The seeds 0, 1 and 2 all give the order {orders[0]}."
    epochs = [student.run("steps_of", {**options, "seed": seed}, 2) for seed in (0, 1, 2)]
    assert any(
        laws.same(each[:1], each[1:]) is False for each in epochs if isinstance(each, list)
    ), (
        "The second epoch of a loader has the order of the first: with shuffle=True it is drawn anew."
    )
    assert orders != [[0, 1, 2, 3, 4]] * 3, (
        "With shuffle=True the items come in the dataset's own order for three seeds: does shuffle reach "
        "the loader?"
    )
