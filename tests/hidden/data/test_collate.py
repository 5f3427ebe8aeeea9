"""What pad_collate and make_loader promise, sentence by sentence.

What has a test of its own is not judged again by the others where this can be helped: many of
them compare with what the student's own code gives for a plainer case.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.student import Student

FIELDS = ("sequences", "lengths", "mask", "labels")
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

# With 23 items, two random orders agree by chance once in 23! cases: never.
LENGTH, SIZE = 23, 5

NO_COLLATE_FUNCTION = (
    "The loader has no collate function of yours: DataLoader's own one stacks the items, which "
    "fails where their lengths differ."
)


# --- the expected values, and what is read from a result ------------------------------------------


def new_lengths() -> list[list[int]]:
    """The lengths of the items of two batches, in no order."""
    more = random.randrange(30)
    return [[2 + more, 5 + more, 3 + more], [4 + more, 1 + more, 1 + more, 6 + more]]


def longest(sequences: Sequence[Tensor]) -> int:
    return max(len(sequence) for sequence in sequences)


def padded(sequences: Sequence[Tensor], value: float = 0, front: bool = False) -> Tensor:
    """The sequences in one tensor, padded behind (or in front)."""
    steps, first = longest(sequences), sequences[0]
    box = torch.full((len(sequences), steps, *first.shape[1:]), value, dtype=first.dtype)
    for row, sequence in zip(box, sequences, strict=True):
        start = steps - len(sequence) if front else 0
        row[start : start + len(sequence)] = sequence
    return box


def mask_of(lengths: Sequence[int]) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)


def part(result: Any, name: str) -> Any:
    """A field of the result, also of one whose only fault is that it is no named tuple."""
    told = f"pad_collate returned {kind_of(result)}, it should return a PaddedBatch."
    return entry(result, name, names=FIELDS, told=told)


def kind_of(value: Any) -> str:
    name = str(getattr(value, "type_name", type(value).__name__))
    return f"a {name} that is no NamedTuple" if name.endswith("PaddedBatch") else f"a {name}"


def cropped(result: Any, name: str, steps: int) -> Any:
    """The sequences or the mask without steps that are too many, which test_padding judges."""
    value = part(result, name)
    return value[:, :steps] if isinstance(value, Tensor) and value.dim() > 1 else value


def loosely(value: Any) -> Any:
    """Numbers as an int64 tensor, whatever they came in: their dtypes have tests of their own."""
    if isinstance(value, list) and value and all(isinstance(n, (int, float)) for n in value):
        value = torch.tensor(value)
    return value.long() if isinstance(value, Tensor) and not value.is_complex() else value


def elements(value: Tensor) -> Tensor:
    """The elements in ascending order: where they stand has tests of its own."""
    plain = torch.view_as_real(value) if value.is_complex() else value
    return plain.flatten().to(torch.float64).sort().values


def check_holds(result: Any, sequences: Sequence[Tensor]) -> None:
    """Check that all real steps are in the result; where they stand has tests of its own.

    What holds for a result without content proves nothing.
    """
    found = assert_tensor(part(result, "sequences"), what="sequences")
    wanted = torch.cat([sequence.flatten() for sequence in sequences])
    assert not found.is_complex() and bool(torch.isin(wanted, found.to(wanted.dtype)).all()), (
        "Steps of the items are missing in the result: copy each sequence to its row first."
    )


def check_some_held(result: Any, sequences: Sequence[Tensor]) -> None:
    """The same of one of the sequences at least: which of them come first has a test of its own."""
    found = assert_tensor(part(result, "sequences"), what="sequences")
    assert not found.is_complex() and any(
        bool(torch.isin(each, found.to(each.dtype)).all()) for each in sequences
    ), "Steps of the items are missing in the result: copy each sequence to its row first."


def check_taken(pad_collate: Callable[..., Any], batch: list[Any]) -> None:
    """Check that a batch that is in order comes back padded, before others are to be refused."""
    result = pad_collate(batch)
    check_holds(result, [each if isinstance(each, Tensor) else each[0] for each in batch])


def check_steps(result: Any, sequences: Sequence[Tensor]) -> None:
    """Check the number of steps, with words for the usual wrong ones."""
    shape = tuple(assert_tensor(part(result, "sequences"), what="sequences").shape)
    lengths = [len(sequence) for sequence in sequences]
    if len(shape) < 2 or shape[0] != len(lengths) or shape[1] == max(lengths):
        return
    did = f"padded to length {shape[1]}"
    if shape[1] < max(lengths):
        name = {min(lengths): "the shortest one", lengths[0]: "the first one"}.get(shape[1])
        did = f"cut to length {shape[1]}" + (f", the length of {name}" if name else "")
    raise AssertionError(
        f"Sequences of lengths {lengths} are {did}; "
        f"the longest sequence of the batch has length {max(lengths)}."
    )


# --- pad_collate: sequences -----------------------------------------------------------------------


@pytest.mark.points(24)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Make a box of the padding value, then copy each sequence to its row's start.")
def test_padding(student: Student) -> None:
    """Sequences are padded behind, to the longest of the batch, in their order."""
    batches = [[torch.randn(n) + 3 for n in ns] for ns in ([4, 1, 1, 6, 2], [2, 5, 3])]
    results = [student.function("pad_collate")(batch) for batch in batches]
    for result, batch in zip(results, batches, strict=True):
        check_steps(result, batch)

    # Where the second of the first batch's sequences, of length 1, is padded.

    assert_close(
        [part(result, "sequences") for result in results],
        [padded(batch) for batch in batches],
        what="sequences",
    )


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("What stands behind the last step is padding_value, whichever it is.")
def test_padding_value(student: Student) -> None:
    """Padding holds padding_value."""
    pad_collate = student.function("pad_collate")
    floats = [torch.randn(n) for n in (4, 3, 1)]
    integers = [torch.randint(1, 50, (n,)) for n in (2, 1)]
    cases = [(floats, -1.5), (integers, -100), (floats, math.inf)]
    results = [pad_collate(floats, -1.5), pad_collate(integers, padding_value=-100)]
    results.append(pad_collate(floats, padding_value=math.inf))
    found = [cropped(result, "sequences", n) for result, n in zip(results, (4, 2, 4), strict=True)]

    right = [padded(*case) for case in cases]
    assert_close(found, right, what="sequences")


@pytest.mark.points(6)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Only the first dimension is time; keep all others, shape[1:], as they are.")
def test_trailing_dimensions(student: Student) -> None:
    """Sequences may have further dimensions, which stay as they are."""
    pad_collate = student.function("pad_collate")
    lengths = [5, 4, 2]
    own = part(pad_collate([torch.randn(n) for n in lengths]), "lengths")
    for trailing in [(3,), (2, 4), (1,), (2, 1, 3)]:
        batch = [torch.randn(n, *trailing) for n in lengths]
        shapes = f"a batch of (length, {', '.join(map(str, trailing))}) sequences"
        result = pad_collate(batch)
        assert_close(
            cropped(result, "sequences", max(lengths)),
            padded(batch),
            what=f"sequences of {shapes}",
        )
        assert_equal(
            part(result, "lengths"),
            own,
            what=f"lengths of {shapes}, as against those of (length,) sequences",
        )
        mask = cropped(result, "mask", max(lengths))
        assert_tensor(mask, shape=(len(batch), max(lengths)), what=f"the mask of {shapes}")


@pytest.mark.points(3)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Make the box with the dtype of the items: new_full, or dtype=sequence.dtype.")
def test_dtypes(student: Student) -> None:
    """Sequences of any dtype keep it, and all of their digits."""
    for dtype in (*FLOATS, *INTEGERS, torch.bool, torch.complex64):
        name = str(dtype).removeprefix("torch.")
        batch = [numbers(n, dtype) for n in (3, 1)]
        found = cropped(student.function("pad_collate")(batch), "sequences", 3)
        found = assert_tensor(found, dtype=dtype, what=f"sequences of a batch of {name}")
        wanted = elements(padded(batch))
        assert_equal(elements(found), wanted, what=f"the sorted elements of a batch of {name}")


def numbers(n: int, dtype: torch.dtype) -> Tensor:
    """Random numbers that use the digits of a dtype, as far as float64 has them too."""
    if dtype not in INTEGERS:
        return (1 + 5 * torch.rand(n, dtype=torch.float64)).to(dtype)
    return torch.randint(1, min(torch.iinfo(dtype).max, 2**50), (n,)).to(dtype)


# --- pad_collate: lengths, mask, labels -----------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("torch.tensor of the sequences' lengths, with dtype=torch.int64.")
def test_lengths(student: Student) -> None:
    """Lengths are the numbers of real steps, int64."""
    wanted = new_lengths()
    results = [student.function("pad_collate")([torch.randn(n) for n in ns]) for ns in wanted]

    assert_close(
        [part(result, "lengths") for result in results],
        [torch.tensor(ns) for ns in wanted],
        what="lengths",
    )


@pytest.mark.points(20)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Compare torch.arange(T) with the lengths as a column.")
def test_mask(student: Student) -> None:
    """The mask is True on real steps and False on padding, bool."""
    wanted = new_lengths()
    results = [student.function("pad_collate")([torch.rand(n) + 9 for n in ns]) for ns in wanted]
    masks = [mask_of(ns) for ns in wanted]
    found = [cropped(r, "mask", max(ns)) for r, ns in zip(results, wanted, strict=True)]
    assert_close(found, masks, what="the mask")


@pytest.mark.points(16)
@pytest.mark.place("pad_collate")
@pytest.mark.word("both masks are the sandbox's")
@pytest.mark.hint("A real step may hold any value; only the lengths say what is padding.")
def test_mask_ignores_values(student: Student) -> None:
    """Real steps that hold the padding value are real steps."""
    pad_collate = student.function("pad_collate")
    zeros = [torch.zeros(4), torch.tensor([0.0, 1.0, 0.0]), torch.tensor([2.0, 0.0])]
    minus = [torch.full((3,), -1), torch.tensor([2, -1]), torch.tensor([-1])]
    for batch, value in ((zeros, 0), (minus, -1)):
        ordinary, result = (pad_collate([s + k for s in batch], value) for k in (7, 0))
        what = f"of a batch with {value} in real steps, as against any other values"
        mask = assert_tensor(part(ordinary, "mask"), what="the mask")
        assert len(set(mask.flatten().tolist())) == 2, (
            "The mask of a batch with padding is the same everywhere: it has to tell real steps from "
            "padding, whatever their values are."
        )
        assert_equal(
            part(result, "mask"),
            part(ordinary, "mask"),
            what=f"the mask {what}",
        )
        assert_equal(
            part(result, "lengths"),
            part(ordinary, "lengths"),
            what=f"lengths {what}",
        )


@pytest.mark.points(4)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("Take (sequence, label) pairs apart; torch.tensor makes int64 of ints.")
def test_labels(student: Student) -> None:
    """Labels of (sequence, label) pairs are an int64 tensor."""
    # One of them is no float32.
    given = [[random.randrange(3, 99), -1, 2**24 + 1, 0], [0, 0, 0, 0]]
    wanted = [torch.tensor(labels) for labels in given]
    lengths = (2, 4, 1, 3)
    found = []
    for labels in given:
        batch = [(torch.randn(n), label) for n, label in zip(lengths, labels, strict=True)]
        found.append(part(student.function("pad_collate")(batch), "labels"))
    assert_close(
        found,
        wanted,
        what="labels",
    )


@pytest.mark.place("pad_collate")
@pytest.mark.hint("isinstance takes a tuple of types: isinstance(item, (tuple, list)).")
def test_pairs_as_lists(student: Student) -> None:
    """A pair may be a list, and a batch may be a tuple, which makes no difference."""
    pad_collate = student.function("pad_collate")
    bare = [torch.randn(2), torch.randn(3)]
    pairs = [(each, 4) for each in bare]
    for batch in (bare, pairs):
        own = pad_collate(batch)
        check_holds(own, bare)
        what = "the result for a tuple of items, as against a list of them"
        assert_equal(pad_collate(tuple(batch)), own, what=what)
    what = "the result for [sequence, label] lists, as against (sequence, label) tuples"
    assert_equal(pad_collate([list(pair) for pair in pairs]), own, what=what)


@pytest.mark.place("pad_collate")
@pytest.mark.hint("int(label) reads an int and a 0-d tensor alike.")
def test_label_tensors(student: Student) -> None:
    """A label may be a 0-d tensor of any integer dtype, which makes no difference."""
    pad_collate = student.function("pad_collate")
    sequences = [torch.randn(n) for n in (3, 2, 1)]
    ints = pad_collate(list(zip(sequences, (7, 0, 6), strict=True)))
    check_holds(ints, sequences)
    own = part(ints, "labels")
    assert own is not None, "Labels are None, though the items are (sequence, label) pairs."
    for dtype in INTEGERS:
        labels = torch.tensor([7, 0, 6], dtype=dtype).unbind()
        assert_equal(
            part(pad_collate(list(zip(sequences, labels, strict=True))), "labels"),
            own,
            what=f"labels given as 0-d {dtype} tensors, as against ints",
        )


@pytest.mark.place("pad_collate")
@pytest.mark.hint("labels is a tensor if the items are pairs, else None.")
def test_without_labels(student: Student) -> None:
    """Labels are None where the items are bare sequences."""
    for lengths in ([5, 3, 2], [2, 2], [1]):
        batch = [torch.randn(n) for n in lengths]
        result = student.function("pad_collate")(batch)
        check_holds(result, batch)
        labels = part(result, "labels")
        assert labels is None, (
            f"Without labels in the items, labels should be None, not {kind_of(labels)}."
        )


@pytest.mark.place("pad_collate")
@pytest.mark.hint("return PaddedBatch(sequences, lengths, mask, labels)")
def test_named_tuple(student: Student) -> None:
    """The result is a PaddedBatch with its four fields."""
    batch = [torch.randn(3), torch.randn(2)]
    result = student.function("pad_collate")(batch)
    fields = getattr(result, "fields", None)
    assert isinstance(fields, dict), f"The result is {kind_of(result)}, it should be a PaddedBatch."
    assert_equal(list(fields), list(FIELDS), what="the list of fields of the result")
    check_holds(result, batch)


# --- pad_collate: edges ---------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("pad_collate")
@pytest.mark.hint("A sequence of length 0 is a row of padding; its mask is False everywhere.")
def test_zero_lengths(student: Student) -> None:
    """Sequences may have length 0, and all of them at once."""
    pad_collate = student.function("pad_collate")
    for lengths in ([3, 2, 0], [1, 0]):
        batch = [torch.randn(n) for n in lengths]
        result = pad_collate(batch)
        rows = cropped(result, "sequences", max(lengths))
        rows = assert_tensor(rows, what=f"sequences of lengths {lengths}")
        shape = tuple(part(result, "sequences").shape)
        assert shape != (len(batch) - 1, max(lengths)), (
            f"Sequences of lengths {lengths} come back in the shape {shape}: "
            "the one of length 0 is left out, it should be a row of padding."
        )
        assert rows.dim() == 2 and len(rows) == len(batch), (
            f"Sequences of lengths {lengths} come back in the shape {shape}, "
            f"expected {(len(batch), max(lengths))}."
        )
        wanted = elements(padded(batch))
        assert_close(elements(rows), wanted, what=f"the sorted elements of lengths {lengths}")
        check_zero_lengths(part(result, "lengths"), lengths)
        mask = cropped(result, "mask", max(lengths))
        mask = assert_tensor(mask, shape=rows.shape, what=f"the mask of lengths {lengths}")
        last = [bool(each) for each in mask[-1]]
        assert all(last) or not any(last), (
            f"The mask of a sequence of length 0 is {last}, but it has no real step."
        )
    for shape in ((0,), (0, 3)):
        batch = [torch.zeros(shape), torch.zeros(shape)]
        result = pad_collate(batch)
        check_steps(result, batch)
        what = f"of two sequences of shape {shape}"
        assert_tensor(part(result, "sequences"), shape=(2, *shape), what=f"sequences {what}")
        assert_tensor(part(result, "mask"), shape=(2, 0), what=f"the mask {what}")
        check_zero_lengths(part(result, "lengths"), [0, 0])


def check_zero_lengths(found: Any, lengths: list[int]) -> None:
    assert_close(
        loosely(found),
        torch.tensor(lengths),
        what="lengths",
    )


@pytest.mark.place("pad_collate")
@pytest.mark.hint("squeeze() also takes away the batch dimension if there is one item.")
def test_batch_of_one(student: Student) -> None:
    """A batch of one item is a batch."""
    pad_collate = student.function("pad_collate")
    for steps in (3, 1):
        sequence = torch.randn(steps)
        for item in (sequence, (sequence, 2)):
            what = f"of a batch of one {'pair' if isinstance(item, tuple) else 'sequence'}"
            result = pad_collate([item])
            row = cropped(result, "sequences", steps)
            assert_close(row, sequence.unsqueeze(0), what=f"sequences {what}")
            mask = cropped(result, "mask", steps)
            assert_tensor(mask, shape=(1, steps), what=f"the mask {what}")
            assert_tensor(loosely(part(result, "lengths")), shape=(1,), what=f"lengths {what}")
        found = part(result, "labels")
        assert found is not None, f"Labels {what} are None, expected an int64 tensor (1,)."
        labels = assert_tensor(loosely(found), what=f"labels {what}")
        assert labels.dim() > 0, f"Labels {what} have the shape (), expected (1,)."


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Copy the steps into a new tensor also where nothing has to be padded.")
def test_memory(student: Student) -> None:
    """The result shares no memory with the items."""
    batches: list[list[Any]] = [
        [torch.randn(3)],
        [(torch.randn(2), torch.tensor(4))],
        [torch.randn(2), torch.randn(2)],
        [(torch.randn(3), torch.tensor(1)), (torch.randn(3), torch.tensor(2))],
        [torch.randn(4), torch.randn(1)],
    ]
    check_taken(student.function("pad_collate"), batches[0])
    told = "The result shares memory with an item: whoever changes the batch in place changes the dataset."
    for batch in batches:
        laws.check_shares_no_memory(student, "pad_collate", batch, told=told)


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Build new lists and tensors; what you were given is not yours.")
def test_arguments(student: Student) -> None:
    """The batch and its tensors stay as they were."""
    bare = [torch.randn(n) for n in (1, 3, 2)]
    pairs = [(sequence, len(sequence)) for sequence in bare]
    check_holds(student.function("pad_collate")(bare), bare)
    for batch in (bare, pairs, [list(pair) for pair in pairs]):
        laws.check_changes_nothing(student, "pad_collate", batch, only=("values", "version"))


# --- pad_collate: refusals ------------------------------------------------------------------------


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Ask first whether len(batch) is 0, and raise ValueError.")
def test_empty_batch(student: Student) -> None:
    """An empty batch is a ValueError."""
    check_taken(student.function("pad_collate"), [torch.randn(2), torch.randn(3)])
    refused(student, [], ())


def refused(student: Student, *batches: Sequence[Any]) -> None:
    laws.check_errors(student, "pad_collate", {"batch": [(batch,) for batch in batches]})


def ones(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.ones(shape) for shape in shapes]


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Assigning into a tensor broadcasts: compare shape[1:] yourself.")
def test_trailing_dimensions_differ(student: Student) -> None:
    """Trailing dimensions that differ are a ValueError."""
    check_taken(student.function("pad_collate"), [torch.randn(3, 2), torch.randn(2, 2)])
    refused(student, ones((2, 2), (3, 1)), ones((3, 2), (2, 3)), ones((3, 2), (2,)))
    refused(student, ones((2,), (2, 1)), ones((2, 2, 1), (2, 2, 3)), ones((3, 2), (3, 2), (1, 1)))
    refused(student, ones((2, 1, 2), (2, 2)), ones((2, 2), (2, 3), (2, 2)))


@pytest.mark.place("pad_collate")
@pytest.mark.hint("A sequence of length 0 has a shape, too: compare shape[1:] of all of them.")
def test_trailing_dimensions_of_empty_sequences(student: Student) -> None:
    """Trailing dimensions of sequences of length 0 count too."""
    check_taken(student.function("pad_collate"), [torch.randn(3, 2), torch.randn(0, 2)])
    refused(student, ones((3, 2), (0, 3)), ones((0, 3), (3, 2)), ones((2, 2), (0, 1)))
    refused(student, ones((2, 2), (0,)), ones((0,), (2, 1)), ones((0, 2), (0, 3)))


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Compare the dtype of each sequence with that of the first.")
def test_dtypes_differ(student: Student) -> None:
    """Dtypes that differ are a ValueError."""
    check_taken(student.function("pad_collate"), [torch.randn(2), torch.randn(1)])
    for dtypes in (
        (torch.float32, torch.float64),
        (torch.int64, torch.float32),
        (torch.float32, torch.float32, torch.int64),
        (torch.float32, torch.int64, torch.float32),
        (torch.int64, torch.int32),
        (torch.bool, torch.uint8),
    ):
        refused(student, [torch.ones(2, dtype=dtype) for dtype in dtypes])
    refused(student, [torch.ones(2), torch.ones(0, dtype=torch.float64)])


@pytest.mark.place("pad_collate")
@pytest.mark.hint("Either all items are pairs or none is; look at every item.")
def test_mixed_batch(student: Student) -> None:
    """Pairs mixed with bare tensors are a ValueError."""
    tensors = [torch.randn(2), torch.randn(3)]
    check_taken(student.function("pad_collate"), tensors)
    check_taken(student.function("pad_collate"), [(sequence, 1) for sequence in tensors])
    for steps in (2, 3):
        bare = torch.ones(steps)
        pair = (bare, 1)
        refused(student, [pair, bare], [bare, pair], [pair, pair, bare], [bare, list(pair)])
        refused(student, [pair, bare, pair])


# --- what the probes report -----------------------------------------------------------------------


def plain(found: Any) -> Any:
    """What a probe reported, if it is made of plain data without tensors; refuses anything else."""
    if isinstance(found, list):
        return [plain(each) for each in found]
    if found is None or isinstance(found, (bool, int, float, str)):
        return found
    raise AssertionError(f"Your code returned {kind_of(found)}, which is of no use here.")


def entries(found: Any, count: int) -> list[Any]:
    """The entries of a list of this length in a probe's report; refuses anything else."""
    return list(entry(plain(found), kind=list, count=count))


def batches_of(epoch: Any, first: int = 0) -> list[list[int]]:
    """The places of the items that the probe read from each batch of an epoch; refuses anything else.

    The items hold numbers, of which that of place 0 is the `first`.
    """
    batches = []
    for batch in epoch if isinstance(epoch, list) else [epoch]:
        numbers = batch if isinstance(batch, list) else [batch]
        if not all(type(n) is int or (type(n) is float and math.isfinite(n)) for n in numbers):
            raise AssertionError(f"A batch of the loader holds no sequences but {batch}.")
        batches.append([int(n) - first for n in numbers])
    return batches


def indices_of(epoch: Any) -> list[int]:
    return [index for batch in batches_of(epoch) for index in batch]


def check_some(epoch: Any) -> list[int]:
    """Check that items come, most of them (whether all do has a test), and return the order."""
    order = indices_of(epoch)
    assert len(set(order)) > LENGTH // 2, "The loader does not give the items of its dataset."
    return order


# --- make_loader: batches -------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("make_loader")
@pytest.mark.hint("DataLoader(dataset, batch_size=..., ...); drop_last stays False.")
def test_loader_batches(student: Student) -> None:
    """Without shuffling, items come once and in their order, the last short batch included."""
    for length, size in ((10, 4), (6, 3), (3, 8)):
        first = random.randrange(1000)
        found = entries(student.run("epochs", length, {"batch_size": size}, 2, first), 2)
        epochs = [batches_of(epoch, first) for epoch in found]
        sizes = [len(batch) for batch in epochs[0]]
        assert sizes != [1] * length, "batch_size does not reach the loader."
        laws.check_epochs(epochs, list(range(length)), batch_size=size)


@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says what the loader is")
@pytest.mark.hint("The defaults stand in the signature of the stub; return the DataLoader.")
def test_loader_defaults(student: Student) -> None:
    """make_loader returns a DataLoader, with batches of 32 and no workers by default."""
    kind, number = fields(student.run("idle_loader", LENGTH, {}), "not_a_loader", "workers")
    assert kind is None, f"make_loader returns a {plain(kind)}, it should return a DataLoader."
    assert_equal(number, 0, what="the number of workers by default")
    (epoch,) = entries(student.run("epochs", 64, {}), 1)
    sizes = [len(batch) for batch in batches_of(epoch)]
    assert sizes == [32, 32], (
        f"Without batch_size, 64 items come in {len(sizes)} batches, the first ones of sizes "
        f"{sizes[:3]}; the default is 32."
    )


def loaded(student: Student, items: list[Any], options: list[dict[str, Any]]) -> Any:
    """The batches of one epoch of a loader for each of these options."""
    found = student.run("batches", items, options)
    assert not laws.same(found, "default_collate"), NO_COLLATE_FUNCTION
    return found


@pytest.mark.points(12)
@pytest.mark.place("make_loader")
@pytest.mark.word("what pad_collate gives is the sandbox's, too")
@pytest.mark.hint("Give DataLoader a collate_fn that calls pad_collate.")
def test_loader_collates(student: Student) -> None:
    """The loader's batches are what pad_collate makes of the items, labels included."""
    pad_collate = student.function("pad_collate")
    bare = [[torch.randn(n) for n in lengths] for lengths in ((3, 1), (2, 3), (1, 2))]
    pairs = [[(each, len(each)) for each in batch] for batch in bare]

    without_labels = [pad_collate(batch) for batch in bare]
    assert_tensor(part(without_labels[0], "sequences"), what="sequences")

    for batches in (bare, pairs):
        items = [item for batch in batches for item in batch]
        assert_equal(
            loaded(student, items, [{"batch_size": 2}]),
            [[pad_collate(batch) for batch in batches]],
            what="the loader's batches, as against pad_collate's of the same items,",
        )


@pytest.mark.points(5)
@pytest.mark.place("make_loader")
@pytest.mark.word("what pad_collate gives is the sandbox's, too")
@pytest.mark.hint("functools.partial(pad_collate, padding_value=padding_value) keeps the value.")
def test_loader_padding_value(student: Student) -> None:
    """Each loader pads with its own padding_value."""
    pad_collate = student.function("pad_collate")
    items = [torch.randn(n) for n in (3, 1, 2)]
    own, other, _zeros = ([pad_collate(items, value)] for value in (-1.0, 5.0, 0.0))
    assert_tensor(part(own[0], "sequences"), what="sequences")
    options = [{"batch_size": 3, "padding_value": value} for value in (-1.0, 5.0)]
    assert_equal(
        loaded(student, items, options),
        [own, other],
        what="the batches of loaders with padding_value=-1 and 5, as against pad_collate's,",
    )


# --- make_loader: order ---------------------------------------------------------------------------


def shuffled(seed: int | None, size: int = SIZE) -> dict[str, Any]:
    return {"batch_size": size, "shuffle": True, "seed": seed}


def check_shuffled(order: list[int], seed: int | None) -> None:
    check_some(order)
    assert order != sorted(order), (
        f"With shuffle=True and seed={seed} the items come in the dataset's order."
    )


@pytest.mark.points(8)
@pytest.mark.place("make_loader")
@pytest.mark.hint("Hand shuffle on to DataLoader; it keeps every item.")
def test_shuffle(student: Student) -> None:
    """With shuffle=True every item comes once an epoch, in a random order."""
    for seed in (None, 7):
        first = random.randrange(1000)
        (epoch,) = entries(student.run("epochs", LENGTH, shuffled(seed), 1, first), 1)
        batches = batches_of(epoch, first)
        order = [place for batch in batches for place in batch]
        check_shuffled(order, seed)
        assert len(order) == len(set(order)), (
            f"Of {LENGTH} items some come twice; every item should come exactly once."
        )
        assert set(order) == set(range(LENGTH)), (
            f"Of {LENGTH} items only {len(order)} come; every item should come exactly once, those of the "
            "last short batch included."
        )
        most = max(map(len, batches))
        assert most in (SIZE, 1), (
            f"Shuffled batches have up to {most} items, but batch_size={SIZE}."
        )
        blocks = [batch for batch in batches if len(batch) > 1]
        assert not blocks or not all(max(b) - min(b) == len(b) - 1 for b in blocks), (
            "Each shuffled batch holds neighbors of the dataset: shuffle the items, "
            "not only whole batches or the inside of each."
        )


@pytest.mark.points(3)
@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("Seed the generator once, when the loader is made, and let it run on.")
def test_each_epoch(student: Student) -> None:
    """Each epoch is shuffled anew."""
    for seed in (3, None):
        found = entries(student.run("epochs", LENGTH, shuffled(seed), 3), 3)
        orders = [indices_of(epoch) for epoch in found]
        if seed is None and orders[0] == sorted(orders[0]):
            continue  # never shuffled without a seed, which test_shuffle judges
        check_shuffled(orders[0], seed)
        assert all(orders), "In a later epoch no items come; a loader can be iterated again."
        assert len({tuple(order) for order in orders}) == 3, (
            f"With shuffle=True and seed={seed} the items come in the same order in every epoch, "
            "or in that of an earlier one; each epoch should be shuffled anew."
        )


def check_repeats(student: Student, seed: int, size: int) -> None:
    """Check that two loaders with this seed agree in each of two epochs."""
    options = shuffled(seed, size)
    situations = fields(
        student.run("repetitions", LENGTH, options), "alone", "disturbed", "together"
    )
    alone, disturbed, together = (
        [[indices_of(epoch) for epoch in entries(epochs, 2)] for epochs in entries(loaders, 2)]
        for loaders in situations
    )
    one, two = alone
    check_shuffled(one[0], seed)
    assert one[0] == two[0], (
        f"Two loaders with the same seed={seed} give different orders: "
        "the seed has to decide the order."
    )
    assert one == two, (
        f"Two loaders with the same seed={seed} agree in the first epoch but not in the second "
        "epoch: let one generator run on through all epochs."
    )
    assert disturbed[0] == disturbed[1] == one, (
        f"Two loaders with the same seed={seed} give different orders where the global random "
        "state changes in between: the loader needs a generator of its own."
    )
    assert together[0] == together[1] == one, (
        f"Of two loaders with the same seed={seed}, the one that runs first changes the order of "
        "the other: they share a generator."
    )


@pytest.mark.points(14)
@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("torch.Generator().manual_seed(seed) is a generator that nobody else draws from.")
def test_seed(student: Student) -> None:
    """Two loaders with the same seed give the same order, whatever the global random state."""
    check_repeats(student, 12345, size=12)


@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("Ask whether seed is None, not whether it is true.")
def test_seed_zero(student: Student) -> None:
    """0 is a seed like any other."""
    check_repeats(student, 0, size=LENGTH)


@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("The generator is seeded with seed, not with a constant.")
def test_other_seeds(student: Student) -> None:
    """Other seeds give other orders."""
    orders = []
    for seed in (0, 1, 42, 43):
        found = entries(student.run("epochs", LENGTH, shuffled(seed, LENGTH), 2), 2)
        orders.append([tuple(indices_of(epoch)) for epoch in found])
    for epoch in (0, 1):
        assert len({each[epoch] for each in orders}) == len(orders), (
            f"Two of the seeds 0, 1, 42, 43 give the same order in epoch {epoch + 1}; "
            "other seeds should give other orders."
        )


@pytest.mark.place("make_loader")
@pytest.mark.word("the orders of two loaders are both the sandbox's")
@pytest.mark.hint("Hand shuffle on to DataLoader as it is, whether there is a seed or not.")
def test_seed_without_shuffle(student: Student) -> None:
    """A seed alone does not shuffle."""
    # With shuffle, it does.
    (epoch,) = entries(student.run("epochs", LENGTH, shuffled(5)), 1)
    check_shuffled(indices_of(epoch), 5)
    (epoch,) = entries(student.run("epochs", LENGTH, {"batch_size": SIZE, "seed": 5}), 1)
    order = indices_of(epoch)
    assert order and order == sorted(order), (
        "With shuffle=False and seed=5 the items do not come in the dataset's order."
    )


@pytest.mark.points(3)
@pytest.mark.place("make_loader")
@pytest.mark.hint("torch.manual_seed changes the random numbers of the whole program.")
def test_global_state(student: Student) -> None:
    """The global random states are neither seeded nor drawn from."""
    own = "A generator of the loader's own would leave it alone."
    for options in (shuffled(3, LENGTH), {"batch_size": 12}):
        (epoch,) = entries(student.run("epochs", LENGTH, options), 1)
        order = check_some(epoch)
        if "shuffle" in options:
            check_shuffled(order, 3)
        items = laws.dataset_of(student, [torch.tensor([i]) for i in range(LENGTH)])
        laws.check_changes_nothing(
            student, "make_loader", items, only=("random",), told=own, **options
        )
        # An epoch may draw a number. The same numbers come next twice only where it seeds.
        loader, run = student.own("make_loader", items, **options), student.probe("one_epoch")
        one, two = (laws.observe(student, run, loader).checked().draws for _ in range(2))
        seeded = [str(library) for library in one if laws.same(one[library], two.get(library))]
        assert not seeded, (
            f"An epoch of the loader seeds the global random state of {seeded}. {own}"
        )


# --- make_loader: workers and pinning -------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("make_loader")
@pytest.mark.hint("Lambdas and inner functions do not pickle; a partial of pad_collate does.")
def test_pickling(student: Student) -> None:
    """What the loader sends to spawned workers pickles, with any padding value."""
    items = [torch.randn(n) for n in (3, 1, 2, 2)]
    zeros = None
    for value in (0, 0.5):
        found = student.run("through_pickle", items, value)
        assert not laws.same(found, "default_collate"), NO_COLLATE_FUNCTION
        error, before, after = fields(found, "error", "before", "after")
        assert error is None, (
            f"A spawned worker cannot work with the collate function of a loader with "
            f"padding_value={value}; it does not pickle: {plain(error)}"
        )
        assert isinstance(before, list) and before, "The loader gives no batches."
        check_some_held(before[0], items)
        zeros = before if value == 0 else zeros
        assert_equal(
            after,
            before,
            what=f"the batches with padding_value={value} as a spawned worker makes them",
        )
    options = {"num_workers": 1, "shuffle": True, "seed": 1}
    error = student.run("rest_of_the_pickle", LENGTH, options)
    assert error is None, f"What the loader sends to its workers does not pickle: {plain(error)}"


@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says what the loader is")
@pytest.mark.hint("Only None asks torch.cuda.is_available().")
def test_pin_memory(student: Student) -> None:
    """pin_memory is taken as given, None means only where CUDA is available."""
    asked = ("pin_memory=None", "pin_memory=True", "pin_memory=False", "no pin_memory")
    for cuda, where in ((False, "without CUDA"), (True, "with CUDA")):
        found = entries(student.run("pinned", cuda), 4)
        for words, pins, wanted in zip(asked, found, (cuda, True, False, cuda), strict=True):
            assert pins is wanted, (
                f"On a machine {where}, make_loader with {words} gives a loader whose "
                f"pin_memory is {pins}, it should be {wanted}."
            )


@pytest.mark.points(4)
@pytest.mark.place("make_loader")
@pytest.mark.word("the sandbox says which worker loaded an item")
@pytest.mark.hint("num_workers, persistent_workers=num_workers > 0, and the generator as without.")
def test_workers(student: Student) -> None:
    """Workers load the items, persist, and repeat the order of a seed."""
    options = {**shuffled(4), "num_workers": 2}
    number, in_order = fields(student.run("idle_loader", LENGTH, options), "workers", "in_order")
    assert_equal(number, 2, what="the number of workers of a loader with num_workers=2")
    assert in_order is True, (
        "With in_order=False, the order of the batches is that in which the workers are ready."
    )
    (alone,) = entries(student.run("epochs", LENGTH, shuffled(4, LENGTH)), 1)
    orders = []
    # In one batch, for each tensor takes its time from one process to another.
    options = {**shuffled(4, LENGTH), "num_workers": 1}
    for epochs in entries(student.run("workers", LENGTH, options), 2):
        seen = [indices_of(epoch) for epoch in entries(epochs, 2)]
        orders.append([[each % 64 for each in epoch] for epoch in seen])
        assert len(seen[0]) == len(seen[1]) == len(indices_of(alone)), (
            "With workers, other numbers of items come in an epoch than without."
        )
        who = {each // 64 % 4 for epoch in seen for each in epoch}
        assert who == {1}, "With num_workers=1, the items are not loaded by that worker."
        assert min((each // 256 for each in seen[1]), default=0) > 0, (
            "In the second epoch a new worker is started; workers should persist."
        )
    assert orders[0] == orders[1], (
        "Two loaders with a worker and the same seed give different orders where the global "
        "random state differs; the generator has to be there with workers, too."
    )
