"""Laws of data loaders: what they yield, epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from grader.judge.checks.laws.observation import shipped
from grader.judge.checks.reports import entry
from grader.judge.checks.wording import message
from grader.judge.outcomes import CheckFailed
from grader.judge.student import Student
from grader.sandbox.wire.values import Made


def dataset_of(student: Student, values: Sequence[Any]) -> Made:
    """A map-style dataset of these items, as a live argument."""
    return shipped(student, "items").made(list(values))


def epochs_of(
    student: Student, loader: Made, count: int = 2, read: Callable[[Any], Any] = list
) -> list[list[list[Any]]]:
    """What a loader yields in each of `count` epochs: a list for each batch, made by `read`."""
    told = "What your loader yields cannot be read."
    epochs = entry(shipped(student, "epochs")(loader, count), kind=list, count=count, told=told)
    return [
        [_read(read, batch) for batch in entry(epoch, kind=list, told=told)] for epoch in epochs
    ]


def _read(read: Callable[[Any], Any], batch: Any) -> list[Any]:
    try:
        numbers = read(batch)
        items = numbers.tolist() if hasattr(numbers, "tolist") else list(numbers)
        return [_plain(item) for item in items]
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        raise CheckFailed(message([f"A batch of the loader is {type(batch).__name__}."])) from None


def _plain(item: Any) -> Any:
    """An item without tensors and arrays, which == could not compare."""
    item = item.tolist() if hasattr(item, "tolist") else item
    if type(item) in (list, tuple):
        return type(item)(_plain(part) for part in item)
    if item is None or isinstance(item, (bool, int, float, str)):
        return item
    raise TypeError(type(item).__name__)


def check_epochs(
    epochs: Sequence[Sequence[Sequence[Any]]],
    items: Sequence[Any],
    *,
    batch_size: int,
    shuffled: bool = False,
    drop_last: bool | None = False,
) -> None:
    """Each epoch yields every item once, in batches of this size; `drop_last` None: either is fine.

    Shuffled, the order is another one in each epoch; else it is that of the items.
    """
    kinds = tuple({type(item) for item in items})
    for number, epoch in enumerate(entry(epochs, kind=(list, tuple)), start=1):
        where = f"In epoch {number} the loader"
        batches = [entry(batch, kind=(list, tuple)) for batch in entry(epoch, kind=(list, tuple))]
        sizes, order = (
            [len(batch) for batch in batches],
            [item for batch in batches for item in batch],
        )
        # Before they are compared: of a tensor it cannot be said whether it equals an item.
        if not all(isinstance(item, kinds) for item in order):
            raise CheckFailed(f"{where} yields what is no item of the dataset.")
        whole, rest = divmod(len(items), batch_size)
        full = [batch_size] * whole
        allowed = {None: [full, [*full, rest]], True: [full], False: [[*full, rest]]}[drop_last]
        double = [item for item in order if order.count(item) > 1]
        if double:
            raise CheckFailed(f"{where} yields the item {double[0]!r} more than once.")
        if any(item not in items for item in order):
            raise CheckFailed(f"{where} yields what is no item of the dataset.")
        if sizes not in ([size for size in sizes_ if size] for sizes_ in allowed):
            last = " (is the last short batch dropped, or kept?)"
            last = "" if sizes != [*full, rest] and len(order) == len(items) else last
            right = [size for size in allowed[-1] if size]
            raise CheckFailed(f"{where} yields batches of {sizes} items, not {right}{last}.")
        if not shuffled and order != list(items)[: len(order)]:
            raise CheckFailed(f"{where} yields the items in another order than the dataset's.")
    orders = [[item for batch in epoch for item in batch] for epoch in epochs]
    if shuffled and any(order == list(items)[: len(order)] for order in orders if order):
        raise CheckFailed("The loader yields the items in the dataset's order: shuffle them.")
    if shuffled and any(order == orders[0] for order in orders[1:]):
        raise CheckFailed("The loader yields the same order in each epoch: shuffle anew each time.")
