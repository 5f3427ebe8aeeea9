"""What only live objects can tell about `collate`: memory, loaders, random states, workers.

Every function reports what it saw; what is right stands in the suite alone.
"""

from __future__ import annotations

import contextlib
import io
import pickle
import random
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.utils.data import (
    DataLoader,
    Dataset,
    TensorDataset,
    default_collate,
    get_worker_info,
)


class Items(Dataset[Any]):
    """A map-style dataset over a list."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[index]


class Witness(Dataset[torch.Tensor]):
    """Items that tell who loaded them: `(1,)` tensors of index + 64 * who + 256 * before.

    who is 0 outside of workers, else the number of the worker from 1 on; before counts the items
    that this process had loaded until then.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self.before = -1

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        worker = get_worker_info()
        self.before += 1
        who = 0 if worker is None else worker.id + 1
        return torch.tensor([int(index) + 64 * who + 256 * self.before])


# --- make_loader: batches and orders ------------------------------------------------------------


def batches(module: Any, items: list[Any], options: list[dict[str, Any]]) -> list[list[Any]] | str:
    """The batches of one epoch of several loaders, all of them made before the first one runs.

    "default_collate" where torch's own collate function fails over the items.
    """
    loaders = [module.make_loader(Items(items), **each) for each in options]
    found: list[list[Any]] | str = _unless_default_collate(
        loaders[0], lambda: [list(loader) for loader in loaders]
    )
    return found


def _unless_default_collate(loader: Any, load: Callable[[], Any]) -> Any:
    """What `load` returns, or "default_collate" where torch's own collate function makes it fail."""
    try:
        return load()
    except RuntimeError:
        if getattr(loader, "collate_fn", None) is default_collate:
            return "default_collate"
        raise


def epochs(
    module: Any, length: int, options: dict[str, Any], count: int = 1, first: int = 0
) -> list[Any]:
    """The numbers from `first` on that a loader over items of one step gives, by epoch and batch."""
    loader = _numbers(module, length, options, first)
    return [_epoch(loader) for _ in range(count)]


def repetitions(module: Any, length: int, options: dict[str, Any]) -> dict[str, Any]:
    """Two epochs each of two equal loaders, in three situations.

    alone: each loader is made and runs before the other one is made, the global random states are
    set to different values only before it is made. disturbed: the same, but they are set before
    each epoch too. together: both are made, then one runs after the other.
    """
    found: dict[str, Any] = {"alone": [], "disturbed": [], "together": []}
    for number in (1, 2):
        _set_states(number)
        loader = _numbers(module, length, options)
        found["alone"].append([_epoch(loader), _epoch(loader)])
    for number in (10, 20):
        _set_states(number)
        loader = _numbers(module, length, options)
        found["disturbed"].append([])
        for epoch in (1, 2):
            _set_states(number + epoch)
            found["disturbed"][-1].append(_epoch(loader))
    pair = [_numbers(module, length, options) for _ in range(2)]
    found["together"] = [[_epoch(loader), _epoch(loader)] for loader in pair]
    return found


def one_epoch(module: Any, loader: Any) -> None:
    for _ in loader:
        pass


def _numbers(module: Any, length: int, options: dict[str, Any], first: int = 0) -> Any:
    items = [torch.tensor([first + i]) for i in range(length)]
    return module.make_loader(Items(items), **{"padding_value": -1, **options})


def _epoch(loader: Any) -> list[Any]:
    return [_indices(batch) for batch in loader]


def _indices(batch: Any) -> Any:
    """The numbers in a batch's sequences, whatever their layout, without the padding (below 0)."""
    values = getattr(batch, "sequences", batch)
    while isinstance(values, (tuple, list)) and values:
        values = values[0]
    if not isinstance(values, torch.Tensor) or values.is_complex():
        return type(values).__name__
    return [each for each in values.flatten().tolist() if each >= 0]


def _set_states(number: int) -> None:
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number)


# --- make_loader: pickles, pinning, workers -----------------------------------------------------


def through_pickle(module: Any, items: list[Any], padding_value: float) -> dict[str, Any] | str:
    """The batches of a loader, and those with its collate function as a spawned worker gets it.

    The worker's side is a copy of the student's module, run afresh.
    """
    loader = module.make_loader(Items(items), batch_size=2, padding_value=padding_value)
    collate = loader.collate_fn
    torch.manual_seed(0)
    before = _unless_default_collate(loader, lambda: list(loader))
    if before == "default_collate":
        return "default_collate"
    found: dict[str, Any] = {"before": before, "after": None, "error": None}
    try:
        data = pickle.dumps(collate)
        with _standing_in(module, _afresh(module)):
            loader.collate_fn = pickle.loads(data)
            torch.manual_seed(0)
            found["after"] = list(loader)
    except Exception as error:  # noqa: BLE001 - whatever pickle or the student's code raises
        found["error"] = _words(error, module)
    return found


def rest_of_the_pickle(module: Any, length: int, options: dict[str, Any]) -> str | None:
    """Why the other things that a loader sends to its workers do not pickle, None if they do."""
    table = torch.arange(length)
    loader = module.make_loader(TensorDataset(table.unsqueeze(1), table), **options)
    try:
        pickle.dumps((loader.dataset, loader.worker_init_fn))
    except Exception as error:  # noqa: BLE001 - whatever pickle or the student's code raises
        return _words(error, module)
    return None


def _words(error: Exception, module: Any) -> str:
    """Type and message, with the student's file by its name alone."""
    text = str(error).replace(str(module.__file__), Path(module.__file__).name)
    return f"{type(error).__name__}: {text}"


def pinned(module: Any, cuda: bool) -> list[Any]:
    """`pin_memory` of loaders made with None, True, False and without, with or without CUDA.

    No loader runs. A module may have asked for CUDA as it was imported, so it runs afresh.
    """
    with _pretended(cuda):
        copy = _afresh(module) or module
        with _standing_in(module, copy):
            given: list[dict[str, Any]] = [{"pin_memory": each} for each in (None, True, False)]
            data = Items([torch.zeros(1)])
            return [bool(copy.make_loader(data, **each).pin_memory) for each in [*given, {}]]


def workers(module: Any, length: int, options: dict[str, Any]) -> list[Any]:
    """Two epochs each of two equal loaders over a Witness, under different global random states."""
    found: list[Any] = []
    for number in (10, 20):
        _set_states(number)
        loader = module.make_loader(Witness(length), padding_value=-1, **options)
        # Here workers can only be forked, also where the student asks for another way.
        loader.multiprocessing_context = None
        found.append([])
        for epoch in (1, 2):
            _set_states(number + epoch)
            found[-1].append(_epoch(loader))
        del loader
    return found


def idle_loader(module: Any, length: int, options: dict[str, Any]) -> dict[str, Any]:
    """What a loader says of itself without running, and its type if it is no DataLoader."""
    loader = module.make_loader(Witness(length), **options)
    return {
        "not_a_loader": None if isinstance(loader, DataLoader) else type(loader).__name__,
        "workers": getattr(loader, "num_workers", None),
        "in_order": bool(getattr(loader, "in_order", True)),
    }


def _afresh(module: Any) -> Any:
    """A second copy of the student's module, None if it cannot be had."""
    copy = types.ModuleType(module.__name__)
    copy.__file__ = module.__file__
    try:
        code = compile(Path(module.__file__).read_bytes(), module.__file__, "exec")
        with _standing_in(module, copy), contextlib.redirect_stdout(io.StringIO()):
            exec(code, copy.__dict__)  # the student's own code, once more
    except Exception:  # noqa: BLE001 - the student's code, which may do anything
        return None
    return copy


@contextlib.contextmanager
def _standing_in(module: Any, copy: Any) -> Iterator[None]:
    """Let `copy`, if there is one, be what an import of the student's module finds."""
    sys.modules[module.__name__] = copy or module
    try:
        yield
    finally:
        sys.modules[module.__name__] = module


@contextlib.contextmanager
def _pretended(cuda: bool) -> Iterator[None]:
    """Let torch say that CUDA is there or not, however it is asked."""
    device = torch.device("cuda") if cuda else None
    answers = [
        (torch.cuda, "is_available", lambda: cuda),
        (torch.cuda, "device_count", lambda: int(cuda)),
        (torch.accelerator, "is_available", lambda: cuda),
        (torch.accelerator, "device_count", lambda: int(cuda)),
        (torch.accelerator, "current_accelerator", lambda *_args, **_keywords: device),
    ]
    known = [(owner, name, getattr(owner, name)) for owner, name, _ in answers]
    for owner, name, answer in answers:
        setattr(owner, name, answer)
    try:
        yield
    finally:
        for owner, name, original in known:
            setattr(owner, name, original)
