"""Tests of pad_collate and make_loader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_dtype,
    assert_equal,
    assert_tensor,
    entry,
    laws,
    promise,
    unordered,
)
from grader.judge.student import Student

FIELDS = ("sequences", "lengths", "mask", "labels")
# The number of items of a dataset. Two random orders agree by chance once in 24! cases, which is never.
LENGTH = 24
# A batch size that leaves a shorter batch at the end.
UNEVEN = 7


# --- pad_collate ---------------------------------------------------------------------------------


@promise(
    "pad_collate",
    points=10,
    hint="Sequences are (batch, time, ...) and the mask (batch, time), for the longest sequence's time.",
)
def test_layout(code: Student, draw: Draw) -> Cases:
    """Sequences and mask have a row for each item, as long as the longest sequence of the batch."""
    for lengths in new_lengths(draw):
        result = collated(code, new_sequences(draw, lengths))
        for name in ("sequences", "mask"):
            tensor = assert_tensor(field(result, name), what=name)
            yield f"the shape of {name} for lengths {lengths}", list(tensor.shape)


@promise(
    "pad_collate",
    points=10,
    hint="Row i of each tensor is about item i of the batch: sort nothing.",
)
def test_order(code: Student, draw: Draw) -> Cases:
    """Sequences, mask and labels are in the order of the items."""
    for lengths in new_lengths(draw):
        items = list(zip(new_sequences(draw, lengths), range(len(lengths)), strict=True))
        result = collated(code, items)
        for name in ("sequences", "mask"):
            yield f"the list of the sums of the rows of {name}", sums(result, name, lengths)
        yield "labels", any_dtype(field(result, "labels"))


@promise(
    "pad_collate",
    points=18,
    hint="Make a box of the padding value, then copy each sequence to its row's start.",
)
def test_padding(code: Student, draw: Draw) -> Cases:
    """Sequences are padded at the end, with 0 by default."""
    for lengths in new_lengths(draw):
        result = collated(code, new_sequences(draw, lengths))
        yield "the list of the rows of sequences", rows(result, "sequences", lengths)


@promise(
    "pad_collate",
    points=4,
    hint="Every entry after the last step is padding_value, whichever it is.",
)
def test_padding_value(code: Student, draw: Draw) -> Cases:
    """Padding holds padding_value, and steps that are 0 stay 0."""
    lengths = [1, 4, 3]
    batch = new_sequences(draw, lengths)
    batch[1][0] = 0
    result = collated(code, batch, padding_value=-1.5)
    what = "the list of the rows of sequences, padding_value=-1.5"
    yield what, rows(result, "sequences", lengths)


@promise(
    "pad_collate",
    points=6,
    hint="Only the first dimension is time; keep all others, shape[1:], as they are.",
)
def test_trailing_dimensions(code: Student, draw: Draw) -> Cases:
    """Sequences may have further dimensions, which stay as they are."""
    lengths = [5, 2]
    result = collated(code, [draw.normal(n, 2, 1, 3) for n in lengths])
    where = "for trailing dimensions (2, 1, 3)"
    yield f"the list of the rows of sequences {where}", rows(result, "sequences", lengths)
    mask = assert_tensor(field(result, "mask"), what="mask")
    yield f"the shape of the mask {where}", list(mask.shape)


@promise(
    "pad_collate",
    points=3,
    hint="Make the box with the dtype of the items: new_full, or dtype=sequence.dtype.",
)
def test_dtypes(code: Student, draw: Draw) -> Cases:
    """Sequences keep their dtype, whichever it is, and all of their digits."""
    large = draw.integers(3, low=2**40, high=2**50)  # of which float32 would lose digits
    for sequence in (large, draw.normal(3, dtype=torch.float64), draw.normal(3) > 0):
        result = collated(code, [sequence, sequence[:1]])
        what = f"the list of the rows of sequences of {sequence.dtype}"
        yield what, rows(result, "sequences", [3, 1])


@promise(
    "pad_collate",
    points=4,
    hint="torch.tensor of the sequences' lengths, with dtype=torch.int64.",
)
def test_lengths(code: Student, draw: Draw) -> Cases:
    """Lengths are the numbers of real steps, int64."""
    for lengths in new_lengths(draw):
        result = collated(code, new_sequences(draw, lengths))
        yield "lengths", field(result, "lengths")


@promise(
    "pad_collate",
    points=18,
    hint="Compare torch.arange(T) with the lengths as a column.",
)
def test_mask(code: Student, draw: Draw) -> Cases:
    """The mask is True on real steps and False on padding, bool."""
    for lengths in new_lengths(draw):
        result = collated(code, new_sequences(draw, lengths))
        yield (
            f"the list of the rows of the mask of lengths {lengths}",
            rows(result, "mask", lengths),
        )


@promise(
    "pad_collate",
    points=14,
    hint="A real step may hold any value; only the lengths tell which steps are padding.",
    after="test_mask",
)
def test_mask_ignores_values(code: Student, draw: Draw) -> Cases:
    """Real steps that hold the padding value are real steps."""
    lengths = [5, draw.size(2, 5), 3]
    # Some steps in the middle and all of the last sequence hold the padding value.
    batch = [draw.integers(n, high=2).float() for n in lengths[:2]] + [torch.zeros(lengths[2])]
    what = "the list of the rows of the mask, with 0 in real steps and padding_value=0"
    yield what, rows(collated(code, batch), "mask", lengths)


@promise(
    "pad_collate",
    points=5,
    hint="Take (sequence, label) pairs apart; torch.tensor makes int64 of ints.",
)
def test_labels(code: Student, draw: Draw) -> Cases:
    """Labels of (sequence, label) pairs are an int64 tensor."""
    # float32 would lose the last digit of 2**24 + 1.
    for labels in ([draw.size(3, 99), -1, 2**24 + 1, 0], [0, 0]):
        result = collated(code, [(draw.normal(3), label) for label in labels])
        yield f"the list of labels for {labels}", rows(result, "labels", [3] * len(labels))


@promise(
    "pad_collate",
    points=2,
    hint="isinstance(item, (tuple, list)), and int(label) reads an int and a 0-d tensor alike.",
)
def test_kinds_of_pairs(code: Student, draw: Draw) -> Cases:
    """A pair may be a list, a batch a tuple, and a label a 0-d tensor of any integer dtype."""
    labels = draw.integers(2, high=99).to(torch.int16)
    pairs = tuple([draw.normal(n), label] for n, label in zip((2, 3), labels, strict=True))
    result = collated(code, pairs)
    for name in ("sequences", "labels"):
        what = f"the list of the rows of {name}, of [sequence, 0-d int16 tensor] lists,"
        yield what, rows(result, name, [2, 3])


@promise(
    "pad_collate",
    points=2,
    hint="return PaddedBatch(sequences, lengths, mask, labels)",
)
def test_named_tuple(code: Student, draw: Draw) -> Cases:
    """The result is a PaddedBatch; its labels are None if the items are bare sequences."""
    result = collated(code, [draw.normal(3), draw.normal(2)])
    names = getattr(result, "fields", None)
    assert isinstance(names, dict), "pad_collate returns no PaddedBatch."
    yield "the list of fields of the result", list(names)
    yield "the entry labels of a batch without labels", field(result, "labels")


@promise(
    "pad_collate",
    points=3,
    hint="A sequence without steps is a row of padding; squeeze() drops a batch of one.",
)
def test_small_batches(code: Student, draw: Draw) -> Cases:
    """Some or all sequences may have length 0, and a batch may have one item."""
    for lengths in ([0, 3, 1, 0], [0, 0], [1]):
        result = collated(code, [(draw.normal(n, 2), 4) for n in lengths])
        for name in FIELDS:
            what = f"the list of the rows of {name} for sequences of lengths {lengths}"
            yield what, rows(result, name, lengths)


@promise(
    "pad_collate",
    hint="Copy the steps into a new tensor also where nothing has to be padded.",
    after="test_layout",
)
def test_memory(student: Student) -> None:
    """The result shares no memory with the items."""
    told = "The result shares memory with an item: a change of the batch would change the dataset."
    pair = (torch.randn(2), torch.tensor(4))
    for batch in ([torch.randn(3)], [pair]):
        laws.check_shares_no_memory(student, "pad_collate", batch, told=told)


@promise(
    "pad_collate",
    hint="Build new lists and tensors: the arguments are not yours.",
    after="test_layout",
)
def test_arguments(student: Student) -> None:
    """The batch and its tensors stay as they were."""
    pairs = [[torch.randn(n), 1] for n in (1, 3, 2)]
    laws.check_changes_nothing(student, "pad_collate", pairs, only=("values", "version"))


@promise(
    "pad_collate",
    points=2,
    hint="Assigning into a tensor broadcasts: compare shape[1:] of all sequences yourself.",
    word="the sandbox says that it raised",
)
def test_trailing_dimensions_differ(student: Student) -> None:
    """Trailing dimensions that differ are a ValueError, even if a sequence has length 0."""
    shapes: list[list[tuple[int, ...]]] = [
        [(2, 2), (3, 1)],  # assigning into a row would broadcast
        [(3, 2), (2,)],
        [(3, 2), (3, 2), (2, 3)],
        [(3, 2, 4), (3, 5, 4)],
        [(3, 2), (0, 3)],
        [(0, 2), (0, 3)],
    ]
    check_refused(student, [[torch.ones(shape) for shape in batch] for batch in shapes])


@promise(
    "pad_collate",
    points=3,
    hint="Compare the number of items, the kind of each, and the dtype of each sequence.",
    word="the sandbox says that it raised",
)
def test_refused(student: Student) -> None:
    """An empty batch, dtypes that differ, and pairs mixed with bare tensors are a ValueError."""
    bare = torch.ones(2)  # could pass for a pair
    different = [[bare, bare.double()], [bare, bare, bare.long()]]
    mixed = [[(bare, 1), bare], [bare, (bare, 1)], [bare, [bare, 1]]]
    check_refused(student, [[], (), *different, *mixed])


# --- make_loader ---------------------------------------------------------------------------------


@promise(
    "make_loader",
    points=5,
    hint="DataLoader(dataset, batch_size=..., shuffle=shuffle, ...); drop_last stays False.",
)
def test_loader_batches(student: Student) -> None:
    """Without shuffling, every item comes once and in order, up to the last short batch, even with a seed."""
    for seed in (None, 5):
        check_epochs(student, epochs=2, batch_size=UNEVEN, seed=seed)


@promise(
    "make_loader",
    hint="The defaults are in the signature of the stub; return the DataLoader.",
    word="the sandbox says what the loader is",
)
def test_loader_defaults(code: Student, draw: Draw) -> Cases:
    """make_loader returns a DataLoader, with batches of 32 and no workers by default."""
    numbers = list(range(64))
    description = code.run("described", numbers)
    assert entry(description, "is_loader") is True, "make_loader returns no DataLoader."
    yield "the number of workers by default", entry(description, "workers")
    laws.check_epochs([entry(description, "batches")], numbers, batch_size=32)


@promise(
    "make_loader",
    points=12,
    hint="Give DataLoader a collate_fn that calls pad_collate.",
)
def test_loader_collates(code: Student, draw: Draw) -> Cases:
    """The loader's batches are what pad_collate makes of the items, labels included."""
    lengths = [3, 1, 2, 4]
    items = [(draw.normal(n), draw.size()) for n in lengths]
    batches = code.run("batches", items, {"batch_size": 2})
    for i, own in enumerate((lengths[:2], lengths[2:])):
        batch = entry(batches, i)
        yield (
            "the list of the sums of the sequences of a batch",
            unordered(sums(batch, "sequences", own)),
        )
        yield "the list of labels of a batch of the loader", rows(batch, "labels", own)


@promise(
    "make_loader",
    points=5,
    hint="functools.partial(pad_collate, padding_value=padding_value) keeps the value.",
)
def test_loader_padding_value(code: Student, draw: Draw) -> Cases:
    """Each loader pads with its own padding_value, even if two take turns."""
    lengths, values = [3, 1, 2, 4], [-1.0, 5.0]
    items = [draw.normal(n) for n in lengths]
    batches = code.run("in_turns", items, [{"batch_size": 2, "padding_value": v} for v in values])
    for i, value in enumerate(values):
        for j, own in enumerate((lengths[:2], lengths[2:])):
            what = f"the list of the sums of the sequences of a loader with padding_value={value}"
            yield what, unordered(sums(entry(batches, i, j), "sequences", own))


@promise(
    "make_loader",
    points=8,
    hint="Hand shuffle on to DataLoader; it keeps every item.",
)
def test_shuffle(student: Student) -> None:
    """With shuffle=True every item comes once an epoch, in a random order; the last batch may be shorter."""
    check_epochs(student, shuffled=True, batch_size=UNEVEN, shuffle=True)


@promise(
    "make_loader",
    points=3,
    hint="Seed the generator once, when the loader is made, and let it run on.",
    after="test_shuffle",
)
def test_each_epoch(student: Student) -> None:
    """Each epoch is shuffled anew."""
    check_epochs(student, epochs=3, shuffled=True, batch_size=LENGTH, shuffle=True, seed=3)


@promise(
    "make_loader",
    points=14,
    hint="torch.Generator().manual_seed(seed) is a generator that nothing else draws from.",
    after="test_shuffle",
    word="the orders of two loaders are both the sandbox's",
)
def test_seed(student: Student) -> None:
    """Two loaders with the same seed give the same order, whatever else draws random numbers."""
    options = {"batch_size": UNEVEN, "shuffle": True, "seed": torch.randint(1, 10**6, ()).item()}
    items = [torch.tensor([number]) for number in new_numbers()]
    loaders = student.run("in_turns", items, [options, options], epochs=2)
    first, second = (
        [numbers_in(batch) for batch in entry(loaders, i, kind=list)] for i in range(2)
    )
    what = (
        "the list of the batches of a second loader with the same seed, as against a first one's,"
    )
    assert_equal(second, first, what=what)


@promise(
    "make_loader",
    points=2,
    hint="Ask whether seed is None, not whether it is true, and seed with no constant.",
    after="test_seed",
    word="the orders of two loaders are both the sandbox's",
)
def test_other_seeds(student: Student) -> None:
    """0 is a seed like any other, and other seeds give other orders."""
    numbers = new_numbers()

    def orders(seed: int) -> Any:
        options = {"batch_size": LENGTH, "shuffle": True, "seed": seed}
        return epochs_of(student, numbers, 2, **options)

    laws.check_seeded(student, orders, seeds=(0, 42), what="the order of the items")


@promise(
    "make_loader",
    points=3,
    hint="torch.manual_seed changes the random numbers of the whole program.",
    after="test_shuffle",
)
def test_global_state(student: Student) -> None:
    """The global random states are neither seeded nor drawn from."""
    told = "If the loader had its own generator, it would leave it alone."
    dataset = dataset_of(student, new_numbers())
    for seed in (3, None):
        laws.check_changes_nothing(
            student, "make_loader", dataset, only=("random",), told=told, shuffle=True, seed=seed
        )


@promise(
    "make_loader",
    points=8,
    hint="Lambdas and inner functions do not pickle; a partial of pad_collate does.",
)
def test_pickling(code: Student, draw: Draw) -> Cases:
    """All that the loader sends to spawned workers can be pickled, with any padding value."""
    lengths, value = [3, 1, 2, 5], draw.number(0.1, 0.9)
    items = [draw.normal(n) for n in lengths]
    batch = entry(code.run("through_pickle", items, {"padding_value": value}), 0)
    what = f"the list of the sums of the sequences of a loader with padding_value={value}"
    yield what, unordered(sums(batch, "sequences", lengths))


@promise(
    "make_loader",
    hint="Only None asks torch.cuda.is_available().",
    word="the sandbox says what the loader is",
)
def test_pin_memory(code: Student, draw: Draw) -> Cases:
    """pin_memory is taken as given; None means True only where CUDA is available."""
    for cuda, where in ((False, "without CUDA"), (True, "with CUDA")):
        what = f"pin_memory of loaders made with None, True and False on a machine {where}"
        yield what, code.run("pinned", cuda, [None, True, False])


@promise(
    "make_loader",
    hint="Hand num_workers on to DataLoader.",
    after="test_shuffle",
    word="the sandbox says which worker loaded an item",
)
def test_workers(code: Student, draw: Draw) -> Cases:
    """The items are loaded by num_workers worker processes, each item once an epoch."""
    for epoch in (0, 1):
        items = entry(seen_by_a_worker(code), 0, epoch)
        yield "the sorted list of the items that come", sorted_numbers(entry(items, "index"))
        what = "the list of the numbers of the workers that load the items, with num_workers=1"
        yield what, entry(items, "worker")


@promise(
    "make_loader",
    hint="persistent_workers=num_workers > 0",
    after="test_workers",
    word="the sandbox says which worker loaded an item",
)
def test_workers_persist(student: Student) -> None:
    """Workers persist from one epoch to the next."""
    loaded = sorted_numbers(entry(seen_by_a_worker(student), 0, 1, "loaded before"))
    told = "A new worker is started for the second epoch: workers should persist."
    assert loaded == list(range(LENGTH, 2 * LENGTH)), told


@promise(
    "make_loader",
    points=2,
    hint="Give DataLoader the generator whether there are workers or not.",
    after="test_workers",
    word="the orders of two loaders are both the sandbox's",
)
def test_workers_repeat(student: Student) -> None:
    """A seed decides the order of each epoch with workers, too."""
    first, second = (
        [entry(seen_by_a_worker(student), loader, epoch, "index") for epoch in range(2)]
        for loader in range(2)
    )
    told = (
        "Two loaders with a worker and the same seed give different orders: the generator has to be "
        "there with workers, too."
    )
    assert first == second, told


# --- helpers of the tests ------------------------------------------------------------------------


def new_lengths(draw: Draw) -> tuple[list[int], list[int]]:
    """Draw the lengths of the items of two batches, which are not sorted.

    The longest exceeds the number of items, so that the shape of a batch shows whether time comes first.
    """
    short, middle, long = draw.size(1, 4), draw.size(4, 7), draw.size(7, 12)
    return [short, long, middle], [middle, short, short, long]


def new_sequences(draw: Draw, lengths: Sequence[int]) -> list[Tensor]:
    """Draw sequences of these lengths, without zeros."""
    return [draw.uniform(n, low=1, high=9) for n in lengths]


def collated(code: Student, batch: Sequence[Any], **options: Any) -> Any:
    """Return the result of pad_collate for a batch."""
    return code.function("pad_collate")(batch, **options)


def field(batch: Any, name: str) -> Any:
    """Return a field of a batch, even if the batch is a plain tuple."""
    told = "This is not a PaddedBatch: pad_collate returns one, and a loader's collate_fn calls it."
    return entry(batch, name, names=FIELDS, told=told)


def rows(batch: Any, name: str, lengths: Sequence[int]) -> Any:
    """Return the rows of a field, in any order, of a batch of items of these lengths.

    Time may come first here, and there may be too many steps: test_layout judges both, test_order the order.
    """
    return unordered(_rows(batch, name, lengths))


def sums(batch: Any, name: str, lengths: Sequence[int]) -> Any:
    """Return the sum of each row of a field, wherever its padding is and whatever its dtype is."""
    found = _rows(batch, name, lengths)
    return [row.double().sum() for row in found] if isinstance(found, list) else found


def _rows(batch: Any, name: str, lengths: Sequence[int]) -> Any:
    value, count, steps = field(batch, name), len(lengths), max(lengths)
    if not isinstance(value, Tensor) or not value.dim():
        return value
    if name in ("sequences", "mask") and value.dim() > 1:
        if value.shape[:2] == (steps, count):
            value = value.transpose(0, 1)
        value = value[:, :steps]
    return list(value)


def check_refused(student: Student, batches: Sequence[Any]) -> None:
    """Check that each of these batches is a ValueError that names it, and that a right batch is not."""
    fine = [torch.ones(2), torch.ones(3)]
    table = {"batch": [(batch,) for batch in batches]}
    laws.check_errors(student, "pad_collate", table, fine=(fine,))


def new_numbers() -> list[int]:
    """Make numbers for the items of a dataset, all different and in random order."""
    return (torch.randperm(LENGTH) + torch.randint(100, ())).tolist()


def dataset_of(student: Student, numbers: list[int]) -> Any:
    """Make a dataset of sequences of one step, each of which holds one of the numbers."""
    return laws.dataset_of(student, [torch.tensor([number]) for number in numbers])


def epochs_of(student: Student, numbers: list[int], count: int, **options: Any) -> Any:
    """Return the numbers in each batch, for some epochs of the student's loader over these numbers."""
    loader = student.own("make_loader", dataset_of(student, numbers), **options)
    return laws.epochs_of(student, loader, count, read=numbers_in)


def check_epochs(
    student: Student, *, epochs: int = 1, shuffled: bool = False, **options: Any
) -> None:
    """Check that each epoch of the student's loader yields every number once, in batches of the right size."""
    numbers, size = new_numbers(), options["batch_size"]
    seen = epochs_of(student, numbers, epochs, **options)
    laws.check_epochs(seen, numbers, batch_size=size, shuffled=shuffled)


def numbers_in(batch: Any) -> list[Any]:
    """Return the numbers in a batch. Other tests judge whether it comes from pad_collate."""
    sequences = batch if isinstance(batch, Tensor) else field(batch, "sequences")
    sequences = assert_tensor(sequences, what="the entry sequences of a batch")
    return sequences.flatten().tolist()


def seen_by_a_worker(code: Student) -> Any:
    """Return what the items tell in two epochs of each of two loaders with the same seed and one worker."""
    options = {"batch_size": LENGTH, "shuffle": True, "seed": 4, "num_workers": 1}
    return code.once("workers", lambda: code.run("workers", LENGTH, options))


def sorted_numbers(values: Any) -> list[int]:
    """Return the ints of a list, sorted."""
    return sorted(entry(values, i, kind=int) for i in range(len(entry(values, kind=list))))
