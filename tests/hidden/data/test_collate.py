"""Tests of pad_collate and make_loader."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

FIELDS = ("sequences", "lengths", "mask", "labels")
# The number of items of a dataset: two random orders agree by chance once in 24! cases, never.
LENGTH = 24
# A batch size that divides it, and one that leaves a shorter batch at the end.
EVEN, UNEVEN = 6, 7


# --- pad_collate ---------------------------------------------------------------------------------


@pytest.mark.points(24)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Make a box of the padding value, then copy each sequence to its row's start.")
def test_padding(student: Student) -> None:
    """Sequences are padded behind, to the longest of the batch, in their order."""
    for lengths in new_lengths():
        batch = [torch.randn(n) + 3 for n in lengths]
        sequences = collated(student, batch)["sequences"]
        assert_close(sequences, padded(batch), what=f"sequences of lengths {lengths}")


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("What stands behind the last step is padding_value, whichever it is.")
def test_padding_value(student: Student) -> None:
    """Padding holds padding_value, and steps that are 0 stay 0."""
    batch = [torch.randn(n) for n in (1, 4, 3)]
    batch[1][0] = 0
    sequences = cropped(collated(student, batch, padding_value=-1.5)["sequences"], 4)
    assert_close(sequences, padded(batch, -1.5), what="sequences, padding_value=-1.5")


@pytest.mark.points(6)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Only the first dimension is time; keep all others, shape[1:], as they are.")
def test_trailing_dimensions(student: Student) -> None:
    """Sequences may have further dimensions, which stay as they are."""
    batch = [torch.randn(5, 2, 1, 3), torch.randn(2, 2, 1, 3)]
    result = collated(student, batch)
    where = "of a batch with trailing dimensions (2, 1, 3)"
    assert_close(result["sequences"], padded(batch), what=f"sequences {where}")
    assert_tensor(result["mask"], shape=(2, 5), what=f"the mask {where}")


@pytest.mark.points(3)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Make the box with the dtype of the items: new_full, or dtype=sequence.dtype.")
def test_dtypes(student: Student) -> None:
    """Sequences of any dtype keep it, and all of their digits."""
    large = torch.randint(2**40, 2**50, (3,))  # of which float32 would lose digits
    for sequence in (large, torch.rand(3).double(), torch.rand(3) > 0.5):
        batch = [sequence, sequence[:1]]
        sequences = collated(student, batch)["sequences"]
        assert_close(sequences, padded(batch), what=f"sequences of a batch of {sequence.dtype}")


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("torch.tensor of the sequences' lengths, with dtype=torch.int64.")
def test_lengths(student: Student) -> None:
    """Lengths are the numbers of real steps, int64."""
    for lengths in new_lengths():
        result = collated(student, [torch.randn(n) for n in lengths])
        assert_close(result["lengths"], torch.tensor(lengths), what="lengths")


@pytest.mark.points(20)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Compare torch.arange(T) with the lengths as a column.")
def test_mask(student: Student) -> None:
    """The mask is True on real steps and False on padding, bool."""
    for lengths in new_lengths():
        result = collated(student, [torch.rand(n) + 9 for n in lengths])
        check_mask(result["mask"], lengths, f"the mask of lengths {lengths}")


@pytest.mark.points(16)
@pytest.mark.requires("test_mask")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("A real step may hold any value; only the lengths say what is padding.")
def test_mask_ignores_values(student: Student) -> None:
    """Real steps that hold the padding value are real steps."""
    lengths = random.sample(range(2, 9), 3)
    # Some steps in the middle and all of the last sequence hold the padding value.
    batch = [torch.randint(2, (n,)).float() for n in lengths[:2]] + [torch.zeros(lengths[2])]
    mask = collated(student, batch)["mask"]
    check_mask(mask, lengths, "the mask of a batch with 0 in real steps and padding_value=0")


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Take (sequence, label) pairs apart; torch.tensor makes int64 of ints.")
def test_labels(student: Student) -> None:
    """Labels of (sequence, label) pairs are an int64 tensor."""
    # float32 would lose the last digit of 2**24 + 1.
    for labels in ([random.randrange(3, 99), -1, 2**24 + 1, 0], [0, 0]):
        result = collated(student, [(torch.randn(3), label) for label in labels])
        assert_close(result["labels"], torch.tensor(labels), what=f"labels {labels}")


@pytest.mark.points(2)
@pytest.mark.place("pad_collate")
@pytest.mark.hint(
    "isinstance(item, (tuple, list)), and int(label) reads an int and a 0-d tensor alike."
)
def test_kinds_of_pairs(student: Student) -> None:
    """A pair may be a list, a batch a tuple, and a label a 0-d tensor of any integer dtype."""
    sequences, labels = [torch.randn(2), torch.randn(3)], torch.randint(99, (2,))
    pairs = [list(pair) for pair in zip(sequences, labels.to(torch.int16), strict=True)]
    result = collated(student, tuple(pairs))
    right = padded(sequences)
    assert_close(result["sequences"], right, what="sequences of [sequence, label] lists")
    what = "labels given as 0-d tensors, int16"
    assert_close(result["labels"], labels, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("return PaddedBatch(sequences, lengths, mask, labels)")
def test_named_tuple(student: Student) -> None:
    """The result is a PaddedBatch, whose labels are None where the items are bare sequences."""
    result = student.function("pad_collate")([torch.randn(3), torch.randn(2)])
    names = getattr(result, "fields", None)
    assert isinstance(names, dict), "pad_collate returns no PaddedBatch."
    assert_equal(list(names), list(FIELDS), what="the list of fields of the result")
    assert_equal(names["labels"], None, what="labels of a batch without any")


@pytest.mark.points(3)
@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("A sequence without steps is a row of padding; squeeze() drops a batch of one.")
def test_small_batches(student: Student) -> None:
    """Sequences may have length 0, all of them at once, and a batch of one item is a batch."""
    for lengths in ([0, 3, 2], [0, 0], [1]):
        batch = [torch.randn(n, 2) for n in lengths]
        result = collated(student, [(sequence, 4) for sequence in batch])
        right, where = padded(batch), f"for sequences of lengths {lengths}"
        assert_close(result["sequences"], right, what=f"sequences {where}")
        assert_tensor(result["mask"], shape=right.shape[:2], what=f"the mask {where}")
        for name in ("lengths", "labels"):
            assert_tensor(result[name], shape=right.shape[:1], what=f"{name} {where}")


@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Copy the steps into a new tensor also where nothing has to be padded.")
def test_memory(student: Student) -> None:
    """The result shares no memory with the items."""
    told = "The result shares memory with an item: a change of the batch would change the dataset."
    pair = (torch.randn(2), torch.tensor(4))
    laws.check_shares_no_memory(student, "pad_collate", [torch.randn(3)], told=told)
    laws.check_shares_no_memory(student, "pad_collate", [pair], told=told)


@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Build new lists and tensors; what you were given is not yours.")
def test_arguments(student: Student) -> None:
    """The batch and its tensors stay as they were."""
    pairs = [[torch.randn(n), 1] for n in (1, 3, 2)]
    laws.check_changes_nothing(student, "pad_collate", pairs, only=("values", "version"))


@pytest.mark.points(2)
@pytest.mark.place("pad_collate")
@pytest.mark.hint(
    "Assigning into a tensor broadcasts: compare shape[1:] of all sequences yourself."
)
def test_trailing_dimensions_differ(student: Student) -> None:
    """Trailing dimensions that differ are a ValueError, those of sequences of length 0 too."""
    check_refused(student, ones((2, 2), (3, 1)))  # assigning into a row would broadcast
    check_refused(student, ones((3, 2), (2,)))
    check_refused(student, ones((3, 2), (3, 2), (2, 3)))
    check_refused(student, ones((3, 2, 4), (3, 5, 4)))
    check_refused(student, ones((3, 2), (0, 3)))
    check_refused(student, ones((0, 2), (0, 3)))


@pytest.mark.points(3)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Compare the number of items, the kind of each, and the dtype of each sequence.")
def test_refused(student: Student) -> None:
    """An empty batch, dtypes that differ, and pairs mixed with bare tensors are a ValueError."""
    bare = torch.ones(2)  # could pass for a pair
    check_refused(student, [])
    check_refused(student, [bare, bare.double()])
    check_refused(student, [bare, bare, bare.long()])
    check_refused(student, [(bare, 1), bare])
    check_refused(student, [bare, (bare, 1)])
    check_refused(student, [bare, [bare, 1]])


# --- make_loader ---------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("make_loader")
@pytest.mark.hint("DataLoader(dataset, batch_size=..., ...); drop_last stays False.")
def test_loader_batches(student: Student) -> None:
    """Without shuffling, items come once and in their order, the last short batch included."""
    items = new_numbers(10)
    laws.check_epochs(epochs_of_numbers(student, items, 2, batch_size=4), items, batch_size=4)


@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says what the loader is")
@pytest.mark.hint("The defaults stand in the signature of the stub; return the DataLoader.")
def test_loader_defaults(student: Student) -> None:
    """make_loader returns a DataLoader, with batches of 32 and no workers by default."""
    items = new_numbers(64)
    loader = student.own("make_loader", dataset_of_numbers(student, items))
    description = student.run("described", loader)
    assert entry(description, "is_loader") is True, "make_loader returns no DataLoader."
    assert_equal(entry(description, "workers"), 0, what="the number of workers by default")
    laws.check_epochs(epochs_of_numbers(student, items, 1), items, batch_size=32)


@pytest.mark.points(12)
@pytest.mark.requires("test_labels")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Give DataLoader a collate_fn that calls pad_collate.")
def test_loader_collates(student: Student) -> None:
    """The loader's batches are what pad_collate makes of the items, labels included."""
    items = [(torch.randn(n), random.randrange(99)) for n in (3, 1, 2, 4)]
    loader = student.own("make_loader", laws.dataset_of(student, items), batch_size=2)
    batches = entry(student.run("list_of", loader), kind=list, count=2)
    for batch, own in zip(batches, (items[:2], items[2:]), strict=True):
        sequences, labels = zip(*own, strict=True)
        check_sequences(batch, padded(sequences), "a batch of the loader")
        right = torch.tensor(labels)
        assert_close(field(batch, "labels"), right, what="labels of a batch of the loader")


@pytest.mark.points(5)
@pytest.mark.requires("test_padding_value")
@pytest.mark.place("make_loader")
@pytest.mark.hint("functools.partial(pad_collate, padding_value=padding_value) keeps the value.")
def test_loader_padding_value(student: Student) -> None:
    """Each loader pads with its own padding_value."""
    items = [torch.randn(n) for n in (3, 1, 2)]
    values = (-1.0, 5.0)
    batches = student.run("one_batch_each", items, values)
    for i, value in enumerate(values):
        check_sequences(
            entry(batches, i), padded(items, value), f"a loader with padding_value={value}"
        )


@pytest.mark.points(8)
@pytest.mark.place("make_loader")
@pytest.mark.hint("Hand shuffle on to DataLoader; it keeps every item.")
def test_shuffle(student: Student) -> None:
    """With shuffle=True every item comes once an epoch, in a random order; the last batch may be shorter."""
    items = new_numbers(LENGTH)
    epochs = epochs_of_numbers(student, items, 1, batch_size=UNEVEN, shuffle=True)
    laws.check_epochs(epochs, items, batch_size=UNEVEN, shuffled=True)


@pytest.mark.points(3)
@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Seed the generator once, when the loader is made, and let it run on.")
def test_each_epoch(student: Student) -> None:
    """Each epoch is shuffled anew."""
    items = new_numbers(LENGTH)
    epochs = epochs_of_numbers(student, items, 3, batch_size=LENGTH, shuffle=True, seed=3)
    laws.check_epochs(epochs, items, batch_size=LENGTH, shuffled=True)


@pytest.mark.points(14)
@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint(
    "torch.Generator().manual_seed(seed) is a generator that nothing else draws from."
)
def test_seed(student: Student) -> None:
    """Two loaders with the same seed give the same order, whatever else draws random numbers."""
    seed = random.randrange(1, 10**6)
    options = {"batch_size": 12, "shuffle": True, "seed": seed}
    items = [torch.tensor([number]) for number in new_numbers(LENGTH)]
    report = student.run("in_turns", items, options)
    first, second = (orders_of(entry(report, i, kind=list)) for i in range(2))
    what = f"the list of the orders of a second loader with seed={seed}, as against a first one's,"
    assert_equal(second, first, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_seed")
@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("Ask whether seed is None, not whether it is true, and seed with no constant.")
def test_other_seeds(student: Student) -> None:
    """0 is a seed like any other, and other seeds give other orders."""
    items = new_numbers(LENGTH)

    def orders(seed: int) -> Any:
        return epochs_of_numbers(student, items, 2, batch_size=LENGTH, shuffle=True, seed=seed)

    laws.check_seeded(student, orders, seeds=(0, 42), what="the order of the items")


@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Hand shuffle on to DataLoader as it is, whether there is a seed or not.")
def test_seed_without_shuffle(student: Student) -> None:
    """A seed alone does not shuffle."""
    items = new_numbers(LENGTH)
    epochs = epochs_of_numbers(student, items, 1, batch_size=EVEN, seed=5)
    laws.check_epochs(epochs, items, batch_size=EVEN)


@pytest.mark.points(3)
@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.hint("torch.manual_seed changes the random numbers of the whole program.")
def test_global_state(student: Student) -> None:
    """The global random states are neither seeded nor drawn from."""
    told = "A generator of the loader's own would leave it alone."
    dataset = dataset_of_numbers(student, new_numbers(LENGTH))
    for seed in (3, None):
        laws.check_changes_nothing(
            student, "make_loader", dataset, only=("random",), told=told, shuffle=True, seed=seed
        )


@pytest.mark.points(8)
@pytest.mark.requires("test_padding_value")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Lambdas and inner functions do not pickle; a partial of pad_collate does.")
def test_pickling(student: Student) -> None:
    """What the loader sends to spawned workers pickles, with any padding value."""
    items, value = [torch.randn(n) for n in (3, 1, 2)], random.uniform(0.1, 0.9)
    options = {"batch_size": 3, "padding_value": value}
    [batch] = entry(student.run("through_pickle", items, options), kind=list, count=1)
    check_sequences(batch, padded(items, value), f"a loader with padding_value={value}")


@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says what the loader is")
@pytest.mark.hint("Only None asks torch.cuda.is_available().")
def test_pin_memory(student: Student) -> None:
    """pin_memory is taken as given, None means only where CUDA is available."""
    for cuda, where in ((False, "without CUDA"), (True, "with CUDA")):
        pinned = student.run("pinned", cuda, [None, True, False])
        what = f"pin_memory of loaders made with None, True and False on a machine {where}"
        assert_equal(pinned, [cuda, True, False], what=what)


@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says which worker loaded an item")
@pytest.mark.hint("Hand num_workers on to DataLoader.")
def test_workers(student: Student) -> None:
    """So many worker processes as num_workers says load the items, each item once an epoch."""
    first_loader, second_loader = loaded_by_a_worker(student)
    for epoch in (*first_loader, *second_loader):
        right = list(range(LENGTH))
        assert_equal(sorted(epoch["index"]), right, what="the sorted list of the items that come")
        told = "With num_workers=1 the items are not loaded by that worker."
        assert set(epoch["worker"]) == {0}, told


@pytest.mark.requires("test_workers")
@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says which worker loaded an item")
@pytest.mark.hint("persistent_workers=num_workers > 0")
def test_workers_persist(student: Student) -> None:
    """Workers persist from one epoch to the next."""
    first_loader, _ = loaded_by_a_worker(student)
    second_epoch = first_loader[1]
    told = "A new worker is started for the second epoch: workers should persist."
    assert sorted(second_epoch["loaded before"]) == list(range(LENGTH, 2 * LENGTH)), told


@pytest.mark.points(2)
@pytest.mark.requires("test_workers")
@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("Give DataLoader the generator whether there are workers or not.")
def test_workers_repeat(student: Student) -> None:
    """With workers, too, a seed decides the order of each epoch."""
    first, second = ([epoch["index"] for epoch in epochs] for epochs in loaded_by_a_worker(student))
    told = (
        "Two loaders with a worker and the same seed give different orders: the generator has to be "
        "there with workers, too."
    )
    assert first == second, told


# --- locally -------------------------------------------------------------------------------------


def new_lengths() -> list[list[int]]:
    """The lengths of the items of two batches, in no order."""
    more = random.randrange(30)
    return [[2 + more, 5 + more, 3 + more], [4 + more, 1, 1, 6 + more]]


def padded(sequences: Sequence[Tensor], value: float = 0) -> Tensor:
    """The sequences in one tensor, padded behind."""
    steps, first = max(map(len, sequences)), sequences[0]
    box = torch.full((len(sequences), steps, *first.shape[1:]), value, dtype=first.dtype)
    for row, sequence in zip(box, sequences, strict=True):
        row[: len(sequence)] = sequence
    return box


def collated(student: Student, batch: Sequence[Any], **options: Any) -> dict[str, Any]:
    """The fields of what pad_collate makes of a batch."""
    result = student.function("pad_collate")(batch, **options)
    return {name: field(result, name, "pad_collate returns no PaddedBatch.") for name in FIELDS}


def field(
    batch: Any,
    name: str,
    told: str = "A batch of the loader is no PaddedBatch: give DataLoader a collate_fn.",
) -> Any:
    """A field of a batch, also of one whose only fault is that it is no named tuple."""
    return entry(batch, name, names=FIELDS, told=told)


def check_mask(mask: Any, lengths: list[int], what: str) -> None:
    steps = max(lengths)
    right = torch.arange(steps) < torch.tensor(lengths).unsqueeze(1)
    assert_close(cropped(mask, steps), right, what=what)


def check_sequences(batch: Any, right: Tensor, of: str) -> None:
    """The sequences of a loader's batch."""
    sequences = cropped(field(batch, "sequences"), right.shape[1])
    assert_close(sequences, right, what=f"sequences of {of}")


def cropped(value: Any, steps: int) -> Any:
    """Sequences or a mask without steps that are too many, which test_padding judges."""
    return value[:, :steps] if isinstance(value, Tensor) and value.dim() > 1 else value


def ones(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.ones(shape) for shape in shapes]


def check_refused(student: Student, batch: Sequence[Any]) -> None:
    """This batch is a ValueError that names it, and not every batch is one."""
    fine = [torch.ones(2), torch.ones(3)]
    laws.check_errors(student, "pad_collate", {"batch": [(batch,)]}, fine=(fine,))


def new_numbers(length: int) -> list[int]:
    """Different numbers, by which the items of a dataset are known."""
    return random.sample(range(1, 10**6), length)


def dataset_of_numbers(student: Student, numbers: list[int]) -> Any:
    """A dataset of sequences of one step, each of which holds a number."""
    return laws.dataset_of(student, [torch.tensor([number]) for number in numbers])


def epochs_of_numbers(student: Student, numbers: list[int], count: int, **options: Any) -> Any:
    """The numbers in each batch of so many epochs of the student's loader over these numbers."""
    loader = student.own("make_loader", dataset_of_numbers(student, numbers), **options)
    return laws.epochs_of(student, loader, count, read=numbers_in)


def numbers_in(batch: Any) -> Tensor:
    """The numbers in a batch; that it comes from pad_collate is judged elsewhere."""
    sequences = batch if isinstance(batch, Tensor) else field(batch, "sequences")
    return assert_tensor(sequences, what="sequences of a batch").flatten()


def orders_of(epochs: list[Any]) -> list[list[int]]:
    """The numbers of each epoch in the order in which they came."""
    orders = []
    for epoch in epochs:
        numbers = [numbers_in(batch) for batch in entry(epoch, kind=list)]
        orders.append(torch.cat(numbers).tolist())
    return orders


def loaded_by_a_worker(student: Student) -> list[list[dict[str, list[int]]]]:
    """Two epochs of each of two loaders with the same seed and a worker: what the items tell.

    That is their index, the worker that loaded them, and how many it had loaded before.
    """

    def ask() -> list[list[dict[str, list[int]]]]:
        options = {"batch_size": LENGTH, "shuffle": True, "seed": 4, "num_workers": 1}
        report = student.run("workers", LENGTH, options)
        return [
            [told_by(epoch) for epoch in entry(report, loader, kind=list, count=2)]
            for loader in range(2)
        ]

    return student.once("workers", ask)


def told_by(epoch: Any) -> dict[str, list[int]]:
    """What the items of the probe's Witness tell, by column."""
    items = assert_tensor(epoch, shape=(LENGTH, 3), what="the items of an epoch")
    columns = ("index", "worker", "loaded before")
    return dict(zip(columns, items.t().tolist(), strict=True))
