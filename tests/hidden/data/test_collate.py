"""Tests of pad_collate and make_loader."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

FIELDS = ("sequences", "lengths", "mask", "labels")
INTEGERS = (torch.uint8, torch.int16, torch.int64)
# Two random orders of 24 items agree by chance once in 24! cases: never. No batch is short.
LENGTH, SIZE = 24, 6


# --- pad_collate ---------------------------------------------------------------------------------


@pytest.mark.points(24)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Make a box of the padding value, then copy each sequence to its row's start.")
def test_padding(student: Student) -> None:
    """Sequences are padded behind, to the longest of the batch, in their order."""
    for lengths in new_lengths():
        batch = [torch.randn(n) + 3 for n in lengths]
        sequences = part(student.function("pad_collate")(batch), "sequences")
        assert_close(sequences, padded(batch), what=f"sequences of lengths {lengths}")


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("What stands behind the last step is padding_value, whichever it is.")
def test_padding_value(student: Student) -> None:
    """Padding holds padding_value."""
    batch = [torch.randn(n) for n in (1, 4, 3)]
    for value in (-1.5, math.inf):
        sequences = part(student.function("pad_collate")(batch, padding_value=value), "sequences")
        right = padded(batch, value)
        assert_close(cropped(sequences, 4), right, what=f"sequences, padding_value={value}")


@pytest.mark.points(6)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Only the first dimension is time; keep all others, shape[1:], as they are.")
def test_trailing_dimensions(student: Student) -> None:
    """Sequences may have further dimensions, which stay as they are."""
    for trailing in [(3,), (2, 1, 3)]:
        batch = [torch.randn(n, *trailing) for n in (5, 2)]
        result = student.function("pad_collate")(batch)
        what = f"sequences of a batch of shapes {[tuple(each.shape) for each in batch]}"
        assert_close(part(result, "sequences"), padded(batch), what=what)
        assert_tensor(part(result, "mask"), shape=(2, 5), what="the mask of the same batch")


@pytest.mark.points(3)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Make the box with the dtype of the items: new_full, or dtype=sequence.dtype.")
def test_dtypes(student: Student) -> None:
    """Sequences of any dtype keep it, and all of their digits."""
    large = torch.randint(2**40, 2**50, (3,))
    for sequence in (
        torch.rand(3).double(),
        large,
        torch.rand(3) > 0.5,
        torch.randn(3).to(torch.complex64),
    ):
        batch = [sequence, sequence[:1]]
        sequences = part(student.function("pad_collate")(batch), "sequences")
        assert_close(sequences, padded(batch), what=f"sequences of a batch of {sequence.dtype}")


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("torch.tensor of the sequences' lengths, with dtype=torch.int64.")
def test_lengths(student: Student) -> None:
    """Lengths are the numbers of real steps, int64."""
    for lengths in new_lengths():
        result = student.function("pad_collate")([torch.randn(n) for n in lengths])
        assert_close(part(result, "lengths"), torch.tensor(lengths), what="lengths")


@pytest.mark.points(20)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Compare torch.arange(T) with the lengths as a column.")
def test_mask(student: Student) -> None:
    """The mask is True on real steps and False on padding, bool."""
    for lengths in new_lengths():
        result = student.function("pad_collate")([torch.rand(n) + 9 for n in lengths])
        check_mask(result, lengths, f"the mask of lengths {lengths}")


@pytest.mark.points(16)
@pytest.mark.requires("test_mask")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("A real step may hold any value; only the lengths say what is padding.")
def test_mask_ignores_values(student: Student) -> None:
    """Real steps that hold the padding value are real steps."""
    for value in (0, -1):
        lengths = random.sample(range(2, 9), 3)
        # Some steps in the middle and all of the last sequence hold the padding value.
        batch = [torch.randint(value, value + 2, (n,)).float() for n in lengths]
        batch[-1] = torch.full_like(batch[-1], value)
        result = student.function("pad_collate")(batch, value)
        what = f"the mask of a batch with {value} in real steps and padding_value={value}"
        check_mask(result, lengths, what)


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Take (sequence, label) pairs apart; torch.tensor makes int64 of ints.")
def test_labels(student: Student) -> None:
    """Labels of (sequence, label) pairs are an int64 tensor."""
    labels = [random.randrange(3, 99), -1, 2**24 + 1, 0]  # one of them is no float32
    batch = [(torch.randn(2 + label % 3), label) for label in labels]
    result = student.function("pad_collate")(batch)
    assert_close(part(result, "labels"), torch.tensor(labels), what="labels")


@pytest.mark.place("pad_collate")
@pytest.mark.hint("isinstance takes a tuple of types: isinstance(item, (tuple, list)).")
def test_pairs_as_lists(student: Student) -> None:
    """A pair may be a list, and a batch may be a tuple."""
    sequences = [torch.randn(2), torch.randn(3)]
    result = student.function("pad_collate")(([sequences[0], 4], [sequences[1], 5]))
    right = padded(sequences)
    assert_close(part(result, "sequences"), right, what="sequences of [sequence, label] lists")
    assert_close(part(result, "labels"), torch.tensor([4, 5]), what="labels of these lists")


@pytest.mark.place("pad_collate")
@pytest.mark.hint("int(label) reads an int and a 0-d tensor alike.")
def test_label_tensors(student: Student) -> None:
    """A label may be a 0-d tensor of any integer dtype; labels are int64."""
    for dtype in INTEGERS:
        labels = torch.randint(99, (3,))
        batch = [(torch.randn(2), label) for label in labels.to(dtype)]
        result = student.function("pad_collate")(batch)
        assert_close(part(result, "labels"), labels, what=f"labels given as {dtype} tensors")


@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("labels is a tensor if the items are pairs, else None.")
def test_without_labels(student: Student) -> None:
    """Labels are None where the items are bare sequences."""
    labels = part(student.function("pad_collate")([torch.randn(5), torch.randn(3)]), "labels")
    assert_equal(labels, None, what="labels of a batch without any")


@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("return PaddedBatch(sequences, lengths, mask, labels)")
def test_named_tuple(student: Student) -> None:
    """The result is a PaddedBatch with its four fields."""
    result = student.function("pad_collate")([torch.randn(3), torch.randn(2)])
    names = getattr(result, "fields", None)
    assert isinstance(names, dict), "pad_collate returns no PaddedBatch."
    assert_equal(list(names), list(FIELDS), what="the list of fields of the result")


@pytest.mark.points(2)
@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("A sequence of length 0 is a row of padding; its mask is False everywhere.")
def test_zero_lengths(student: Student) -> None:
    """Sequences may have length 0, and all of them at once."""
    for lengths in ([0, 3, 2], [1, 0], [0, 0]):
        batch = [torch.randn(n, 2) for n in lengths]
        result, what = student.function("pad_collate")(batch), f"for sequences of lengths {lengths}"
        assert_close(part(result, "sequences"), padded(batch), what=f"sequences {what}")
        assert_tensor(part(result, "lengths"), shape=(len(lengths),), what=f"lengths {what}")
        assert_tensor(part(result, "mask"), shape=mask_of(lengths).shape, what=f"the mask {what}")


@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("squeeze() also takes away the batch dimension if there is one item.")
def test_batch_of_one(student: Student) -> None:
    """A batch of one item is a batch."""
    for steps in (3, 1):
        sequence = torch.randn(steps)
        result = student.function("pad_collate")([(sequence, 2)])
        assert_close(part(result, "sequences"), sequence[None], what="sequences of a batch of one")
        assert_tensor(part(result, "mask"), shape=(1, steps), what="the mask of a batch of one")
        for name in ("lengths", "labels"):
            assert_tensor(part(result, name), shape=(1,), what=f"{name} of a batch of one")


@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Copy the steps into a new tensor also where nothing has to be padded.")
def test_memory(student: Student) -> None:
    """The result shares no memory with the items."""
    told = "The result shares memory with an item: a change of the batch would change the dataset."
    pair = (torch.randn(2), torch.tensor(4))
    for batch in ([torch.randn(3)], [pair], [torch.randn(2), torch.randn(2)]):
        laws.check_shares_no_memory(student, "pad_collate", batch, told=told)


@pytest.mark.requires("test_padding")
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Build new lists and tensors; what you were given is not yours.")
def test_arguments(student: Student) -> None:
    """The batch and its tensors stay as they were."""
    bare = [torch.randn(n) for n in (1, 3, 2)]
    for batch in (bare, [[sequence, 1] for sequence in bare]):
        laws.check_changes_nothing(student, "pad_collate", batch, only=("values", "version"))


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Ask first whether len(batch) is 0, and raise ValueError.")
def test_empty_batch(student: Student) -> None:
    """An empty batch is a ValueError."""
    check_refused(student, [])


@pytest.mark.place("pad_collate")
@pytest.mark.hint(
    "Assigning into a tensor broadcasts: compare shape[1:] of all sequences yourself."
)
def test_trailing_dimensions_differ(student: Student) -> None:
    """Trailing dimensions that differ are a ValueError."""
    check_refused(student, ones((2, 2), (3, 1)), ones((3, 2), (2,)), ones((2,), (2, 1)))
    check_refused(student, ones((3, 2), (3, 2), (2, 3)), ones((2, 1, 2), (2, 2)))


@pytest.mark.place("pad_collate")
@pytest.mark.hint("A sequence of length 0 has a shape, too: compare shape[1:] of all of them.")
def test_trailing_dimensions_of_empty_sequences(student: Student) -> None:
    """Trailing dimensions of sequences of length 0 count too."""
    check_refused(student, ones((3, 2), (0, 3)), ones((0, 3), (3, 2)), ones((0, 2), (0, 3)))


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Compare the dtype of each sequence with that of the first.")
def test_dtypes_differ(student: Student) -> None:
    """Dtypes that differ are a ValueError."""
    x = torch.ones(2)
    check_refused(student, [x, x.double()], [x, x, x.long()], [x.long(), x], [x.bool(), x.byte()])


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Either all items are pairs or none is; look at every item.")
def test_mixed_batch(student: Student) -> None:
    """Pairs mixed with bare tensors are a ValueError."""
    for bare in (torch.ones(2), torch.ones(3)):
        pair = (bare, 1)
        check_refused(student, [pair, bare], [bare, pair], [pair, pair, bare], [bare, [bare, 1]])


# --- make_loader ---------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("make_loader")
@pytest.mark.hint("DataLoader(dataset, batch_size=..., ...); drop_last stays False.")
def test_loader_batches(student: Student) -> None:
    """Without shuffling, items come once and in their order, the last short batch included."""
    for length, size in ((10, 4), (6, 3), (3, 8)):
        items = new_items(length)
        laws.check_epochs(epochs_of(student, items, 2, batch_size=size), items, batch_size=size)


@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says what the loader is")
@pytest.mark.hint("The defaults stand in the signature of the stub; return the DataLoader.")
def test_loader_defaults(student: Student) -> None:
    """make_loader returns a DataLoader, with batches of 32 and no workers by default."""
    items = new_items(64)
    loader = student.own("make_loader", dataset_of(student, items))
    found = student.run("described", loader)
    assert entry(found, "is_loader") is True, "make_loader returns no DataLoader."
    assert_equal(entry(found, "workers"), 0, what="the number of workers by default")
    laws.check_epochs(epochs_of(student, items, 1), items, batch_size=32)


@pytest.mark.points(12)
@pytest.mark.requires("test_labels")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Give DataLoader a collate_fn that calls pad_collate.")
def test_loader_collates(student: Student) -> None:
    """The loader's batches are what pad_collate makes of the items, labels included."""
    items = [(torch.randn(n), random.randrange(99)) for n in (3, 1, 2, 4)]
    loader = student.own("make_loader", laws.dataset_of(student, items), batch_size=2)
    batches = student.run("list_of", loader)
    right = []
    for batch in (items[:2], items[2:]):
        sequences, labels = zip(*batch, strict=True)
        right.append([padded(sequences), torch.tensor(labels)])
    check_batches(batches, right, ("sequences", "labels"), "a batch of the loader")


@pytest.mark.points(5)
@pytest.mark.requires("test_padding_value")
@pytest.mark.place("make_loader")
@pytest.mark.hint("functools.partial(pad_collate, padding_value=padding_value) keeps the value.")
def test_loader_padding_value(student: Student) -> None:
    """Each loader pads with its own padding_value."""
    items = [torch.randn(n) for n in (3, 1, 2)]
    values = (-1.0, 5.0)
    options = [{"batch_size": 3, "padding_value": value} for value in values]
    loaders = entry(student.run("two_loaders", items, options), kind=list, count=2)
    for batches, value in zip(loaders, values, strict=True):
        what = f"a batch of a loader with padding_value={value}"
        check_batches(batches, [[padded(items, value)]], ("sequences",), what)


@pytest.mark.points(8)
@pytest.mark.place("make_loader")
@pytest.mark.hint("Hand shuffle on to DataLoader; it keeps every item.")
def test_shuffle(student: Student) -> None:
    """With shuffle=True every item comes once an epoch, in a random order."""
    for seed in (None, 7):
        items = new_items(LENGTH)
        epochs = epochs_of(student, items, 1, batch_size=SIZE, shuffle=True, seed=seed)
        laws.check_epochs(epochs, items, batch_size=SIZE, shuffled=True)


@pytest.mark.points(3)
@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Seed the generator once, when the loader is made, and let it run on.")
def test_each_epoch(student: Student) -> None:
    """Each epoch is shuffled anew."""
    for seed in (3, None):
        items = new_items(LENGTH)
        epochs = epochs_of(student, items, 3, batch_size=LENGTH, shuffle=True, seed=seed)
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
    check_repeats(student, random.randrange(1, 10**6))


@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("Ask whether seed is None, not whether it is true.")
def test_seed_zero(student: Student) -> None:
    """0 is a seed like any other."""
    check_repeats(student, 0)


@pytest.mark.requires("test_seed")
@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("The generator is seeded with seed, not with a constant.")
def test_other_seeds(student: Student) -> None:
    """Other seeds give other orders."""
    items = new_items(LENGTH)

    def orders(seed: int) -> Any:
        return epochs_of(student, items, 2, batch_size=LENGTH, shuffle=True, seed=seed)

    laws.check_seeded(student, orders, seeds=(1, 42, 43), what="the order of the items")


@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Hand shuffle on to DataLoader as it is, whether there is a seed or not.")
def test_seed_without_shuffle(student: Student) -> None:
    """A seed alone does not shuffle."""
    items = new_items(LENGTH)
    epochs = epochs_of(student, items, 1, batch_size=SIZE, seed=5)
    laws.check_epochs(epochs, items, batch_size=SIZE)


@pytest.mark.points(3)
@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.hint("torch.manual_seed changes the random numbers of the whole program.")
def test_global_state(student: Student) -> None:
    """The global random states are neither seeded nor drawn from."""
    told = "A generator of the loader's own would leave it alone."
    dataset = dataset_of(student, new_items(LENGTH))
    plain: dict[str, Any] = {}
    for options in ({"shuffle": True, "seed": 3}, plain):
        laws.check_changes_nothing(
            student, "make_loader", dataset, only=("random",), told=told, **options
        )


@pytest.mark.points(8)
@pytest.mark.requires("test_padding_value")
@pytest.mark.place("make_loader")
@pytest.mark.hint("Lambdas and inner functions do not pickle; a partial of pad_collate does.")
def test_pickling(student: Student) -> None:
    """What the loader sends to spawned workers pickles, with any padding value."""
    items = [torch.randn(n) for n in (3, 1, 2, 4)]
    for value in (0, random.uniform(0.1, 0.9)):
        options = {"batch_size": 2, "padding_value": value}
        batches = student.run("through_pickle", items, options)
        right = [[padded(items[:2], value)], [padded(items[2:], value)]]
        check_batches(batches, right, ("sequences",), f"a batch with padding_value={value}")


@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says what the loader is")
@pytest.mark.hint("Only None asks torch.cuda.is_available().")
def test_pin_memory(student: Student) -> None:
    """pin_memory is taken as given, None means only where CUDA is available."""
    for cuda, where in ((False, "without CUDA"), (True, "with CUDA")):
        found = student.run("pinned", cuda, [None, True, False])
        what = f"pin_memory of loaders made with None, True and False on a machine {where}"
        assert_equal(found, [cuda, True, False], what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_shuffle")
@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says which worker loaded an item")
@pytest.mark.hint("num_workers, persistent_workers=num_workers > 0, and the generator as without.")
def test_workers(student: Student) -> None:
    """Workers load the items, persist, and repeat the order of a seed."""
    options = {"batch_size": LENGTH, "shuffle": True, "seed": 4, "num_workers": 1}
    orders = []
    for epochs in entry(student.run("workers", LENGTH, options), kind=list, count=2):
        index, worker, loaded = [], [], []
        for epoch in entry(epochs, kind=list, count=2):
            columns = assert_tensor(epoch, shape=(LENGTH, 3), what="the items of an epoch").t()
            index.append(columns[0].tolist())
            worker += columns[1].tolist()
            loaded.append(columns[2].sort().values.tolist())
        assert set(worker) == {0}, "With num_workers=1 the items are not loaded by that worker."
        new = "A new worker is started for the second epoch: workers should persist."
        assert loaded[1] == list(range(LENGTH, 2 * LENGTH)), new
        assert sorted(index[0]) == list(range(LENGTH)), "With workers, not all of the items come."
        orders.append(index)
    assert orders[0] == orders[1], (
        "Two loaders with a worker and the same seed give different orders: the generator has to be "
        "there with workers, too."
    )


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


def mask_of(lengths: Sequence[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def check_mask(result: Any, lengths: list[int], what: str) -> None:
    mask = cropped(part(result, "mask"), max(lengths))
    assert_close(mask, mask_of(lengths), what=what)


def cropped(value: Any, steps: int) -> Any:
    """Sequences or a mask without steps that are too many, which test_padding judges."""
    return value[:, :steps] if isinstance(value, Tensor) and value.dim() > 1 else value


def part(result: Any, name: str) -> Any:
    """A field of the result, also of one whose only fault is that it is no named tuple."""
    return entry(result, name, names=FIELDS, told="pad_collate returns no PaddedBatch.")


def ones(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.ones(shape) for shape in shapes]


def check_refused(student: Student, *batches: Sequence[Any]) -> None:
    table = {"batch": [(batch,) for batch in batches]}
    laws.check_errors(student, "pad_collate", table, fine=([torch.ones(2), torch.ones(3)],))


def new_items(length: int) -> list[int]:
    """Numbers for the items of a dataset, each of which is known by its own."""
    return random.sample(range(1, 10**6), length)


def dataset_of(student: Student, items: list[int]) -> Any:
    """A dataset of sequences of one step."""
    return laws.dataset_of(student, [torch.tensor([number]) for number in items])


def epochs_of(student: Student, items: list[int], count: int, **options: Any) -> Any:
    """The numbers in each batch of so many epochs of a loader."""
    loader = student.own("make_loader", dataset_of(student, items), **options)
    return laws.epochs_of(student, loader, count, read=numbers_in)


def numbers_in(batch: Any) -> Tensor:
    """The numbers in a batch; that it comes from pad_collate is judged elsewhere."""
    told = "A batch of the loader is no PaddedBatch."
    sequences = (
        batch if isinstance(batch, Tensor) else entry(batch, "sequences", names=FIELDS, told=told)
    )
    return assert_tensor(sequences, what="sequences of a batch").flatten()


def flattened(epoch: Any) -> list[int]:
    return [number for batch in entry(epoch, kind=list) for number in numbers_in(batch).tolist()]


def check_batches(
    batches: Any, right: list[list[Tensor]], names: tuple[str, ...], what: str
) -> None:
    """The batches of a loader have these tensors in their fields of these names."""
    told = "A batch of the loader is no PaddedBatch: give DataLoader a collate_fn."
    batches = entry(batches, kind=list, count=len(right))
    for batch, values in zip(batches, right, strict=True):
        for name, value in zip(names, values, strict=True):
            own = entry(batch, name, names=FIELDS, told=told)
            assert_close(cropped(own, value.shape[-1]), value, what=f"{name} of {what}")


def check_repeats(student: Student, seed: int) -> None:
    """Two loaders with this seed give the same orders, also where they take turns."""
    options = {"batch_size": 12, "shuffle": True, "seed": seed}
    items = [torch.tensor([number]) for number in new_items(LENGTH)]
    loaders = entry(student.run("in_turns", items, options), kind=list, count=2)
    first, second = ([flattened(epoch) for epoch in entry(epochs, kind=list)] for epochs in loaders)
    what = f"the list of the orders of a second loader with seed={seed}, as against a first one's,"
    assert_equal(second, first, what=what)
