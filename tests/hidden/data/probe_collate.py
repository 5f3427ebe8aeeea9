"""Run loaders as a suite cannot run them from outside: in turns, pickled, with CUDA, with workers."""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import types
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Witness(Dataset[Tensor]):
    """Items that tell who loaded them: index, id of the worker or -1, number of items that it loaded before."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.loaded = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Tensor:
        worker = get_worker_info()
        self.loaded += 1
        return torch.tensor([[int(index), -1 if worker is None else worker.id, self.loaded - 1]])


def batches(module: Any, items: list[Any], options: dict[str, Any]) -> list[Any]:
    """Return the batches of a loader."""
    return list(module.make_loader(items, **options))


def in_turns(
    module: Any, items: list[Tensor], options: list[dict[str, Any]], epochs: int = 1
) -> list[list[Any]]:
    """Return the batches of each loader. All are made before the first one runs, and then they take turns."""
    loaders = [module.make_loader(items, **own) for own in options]
    seen: list[list[Any]] = [[] for _ in loaders]
    for _ in range(epochs):
        for turn in zip(*loaders, strict=True):
            for own, batch in zip(seen, turn, strict=True):
                own.append(batch)
    return seen


def described(module: Any, numbers: list[int]) -> dict[str, Any]:
    """Describe a loader made by default: its kind, its number of workers, and its batches of numbers."""
    loader = module.make_loader([torch.tensor([number]) for number in numbers])
    return {
        "is_loader": issubclass(type(loader), DataLoader),
        "workers": loader.num_workers,
        "batches": [batch[0].flatten().tolist() for batch in loader],
    }


def through_pickle(module: Any, items: list[Tensor], options: dict[str, Any]) -> list[Any]:
    """Pickle what a loader sends to spawned workers. Return batches made by the unpickled collate function."""
    loader = module.make_loader(items, **options)
    data = pickle.dumps((loader.dataset, loader.worker_init_fn, loader.collate_fn))
    loader.collate_fn = pickle.loads(data)[2]
    return list(loader)


def pinned(module: Any, cuda: bool, given: list[bool | None]) -> list[bool]:
    """Return pin_memory of a loader for each given value, while torch says that CUDA is there or not.

    The module is run again, because it may have asked torch when it was imported.
    """
    copy = types.ModuleType(module.__name__)
    copy.__file__ = module.__file__
    code = compile(Path(module.__file__).read_bytes(), module.__file__, "exec")
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.object(torch.cuda, "is_available", lambda: cuda))
        stack.enter_context(patch.object(torch.cuda, "device_count", lambda: int(cuda)))
        stack.enter_context(patch.object(torch.accelerator, "is_available", lambda: cuda))
        stack.enter_context(patch.dict(sys.modules, {module.__name__: copy}))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        exec(code, copy.__dict__)
        loaders = [copy.make_loader([torch.zeros(1)], pin_memory=own) for own in given]
        return [bool(loader.pin_memory) for loader in loaders]


def workers(module: Any, length: int, options: dict[str, Any]) -> list[list[dict[str, list[int]]]]:
    """Return what the items of a Witness tell, in two epochs of each of two equal loaders.

    Before each loader is made, the global random state is seeded differently.
    """
    loaders: list[list[dict[str, list[int]]]] = []
    for number in (1, 2):
        torch.manual_seed(number)
        loader = module.make_loader(Witness(length), **options)
        # Workers can only be forked here, even if the student asks for another start method.
        loader.multiprocessing_context = None
        loaders.append([])
        for _ in range(2):
            items = torch.cat([batch[0].reshape(-1, 3) for batch in loader])
            columns = zip(("index", "worker", "loaded before"), items.t().tolist(), strict=True)
            loaders[-1].append(dict(columns))
        del loader
    return loaders
