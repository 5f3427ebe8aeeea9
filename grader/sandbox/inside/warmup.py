"""Neutral work, done once before any fork, so that no fork pays for imports on first use.

Importing torch is only a part of its start. Autograd, gradcheck, DataLoader and matplotlib import hundreds of
modules on first use (measured: 0.85 s of CPU in every fork without this module, 0.06 s with it). Each function
here uses its module once, with data that is in no exercise.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any


def warm_up(module: str) -> None:
    """Import a module, and do its neutral work if there is some.

    A module that is not installed is skipped: the student's own import will raise.
    """
    try:
        importlib.import_module(module)
    except ImportError:
        return
    for later in _LATER.get(module, ()):
        with contextlib.suppress(ImportError):
            importlib.import_module(later)
    if (work := _WORK.get(module)) is not None:
        work()
    # torch sets the folder of its compiler's cache, but each fork needs its own.
    os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)


def _torch() -> None:
    """Use autograd, and import the modules that seeding needs."""
    import torch

    # One thread: a fork must not inherit a thread pool that exists only in its parent.
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    _keep_interop_threads()
    _seed_without_stacks()
    layer = torch.nn.Linear(2, 2)
    for dtype in (torch.float32, torch.float64):
        x = torch.randn(3, 2, dtype=dtype, requires_grad=True)
        output = layer.to(dtype)(x).tanh().square().sum()
        (gradient,) = torch.autograd.grad(output, x, create_graph=True)
        gradient.sum().backward()
    # NumPy imports it on first use, which is the seeding of a test.
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy.random")
    # Suites watch calls with such a mode, and its first use imports a lot.
    with _mode():
        layer(x).sum().backward()


def _mode() -> contextlib.AbstractContextManager[None]:
    """Return a dispatch mode that changes nothing."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        # Otherwise the first operator imports torch._dynamo (1 s) only to disable it.
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False

        def __torch_dispatch__(
            self, func: Any, kinds: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    return Mode()  # type: ignore[no-untyped-call]


def _keep_interop_threads() -> None:
    """Have torch.set_num_interop_threads only check its argument from now on.

    torch lets a process set the number once, and raises a RuntimeError if its parent did so before the fork.
    """
    import torch

    @functools.wraps(torch.set_num_interop_threads)
    def set_num_interop_threads(num: int) -> None:
        if not isinstance(num, int) or num <= 0:
            raise RuntimeError("set_num_interop_threads expects a positive integer")

    setattr(torch, "set_num_interop_threads", set_num_interop_threads)  # noqa: B010 (a declared function for mypy)


def _seed_without_stacks() -> None:
    """Keep torch.manual_seed from formatting its caller's stack for every kind of device (0.3 ms in all).

    The stack is for an error message if the device is started later, and there is no device here.
    """
    import torch

    for device in (torch.cuda, torch.xpu, torch.mtia):
        if hasattr(device, "traceback"):
            setattr(device, "traceback", types.SimpleNamespace(format_stack=list))  # noqa: B010 (not declared, for mypy)


def _optim() -> None:
    import torch

    # The first optimizer imports torch._dynamo, as DistributedDataParallel does.
    torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.0).step()


def _gradcheck() -> None:
    import torch

    x = torch.ones(1, dtype=torch.float64, requires_grad=True)
    torch.autograd.gradcheck(torch.sin, x)
    torch.autograd.gradgradcheck(torch.sin, x)


def _data() -> None:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    list(DataLoader(TensorDataset(torch.zeros(4, 1)), batch_size=2, shuffle=True))


def _dynamo() -> None:
    # Every rank that joins a process group clears these caches, and so copies shared pages (1 ms).
    rules = importlib.import_module("torch._dynamo.trace_rules")
    getattr(rules, "clear_lru_cache", lambda: None)()


def _compiler() -> None:
    """Compile a small graph, to fill the tables of torch._dynamo."""
    import torch

    # After each compilation torch flushes the processor's cache to measure the guards (17 ms of 27).
    guards = importlib.import_module("torch._dynamo.guards")
    if hasattr(guards, "profile_guard_manager"):
        setattr(guards, "profile_guard_manager", lambda *_: 0.0)  # noqa: B010 (not declared, for mypy)

    # The first graph, the first break and the first dynamic size fill tables (0.3 s).
    @torch.compile(backend="eager")
    def compiled(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    for size in (2, 3):
        compiled(torch.ones(size))
    torch.compiler.reset()


def _export() -> None:
    import torch

    layer, dims = torch.nn.Linear(2, 2), ({0: torch.export.Dim("batch", min=1)},)
    torch.export.export(layer, (torch.ones(3, 2),), dynamic_shapes=dims).module()
    torch.jit.script(layer)


def _figure() -> None:
    """Draw and save a small figure, to load fonts and tables."""
    from io import BytesIO

    from matplotlib import font_manager, mathtext
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots()
    axes.plot([1, 2], [1, 2], label="warm")
    axes.set(xscale="log", yscale="log", xlabel="x", ylabel="y", title="warm")
    axes.legend()
    figure.savefig(BytesIO(), format="png")
    # Every fork begins by closing open fonts (0.4 ms), and a formula that was parsed before the fork would use
    # fonts whose files the sandbox has closed.
    parser = getattr(mathtext, "MathTextParser", None)
    for cached in (
        getattr(font_manager, "_get_font", None),
        getattr(parser, "_parse_cached", None),
    ):
        getattr(cached, "cache_clear", lambda: None)()


# Modules that they import on first use, which would happen in every fork.
_LATER = {
    # For the default device, which is read when a student's file is loaded.
    "torch": ("torch.utils._device",),
    "torch.autograd.gradcheck": ("torch._subclasses.schema_check_mode",),
    "torch.utils.data": (
        "multiprocessing.queues",
        "multiprocessing.synchronize",
        "multiprocessing.popen_fork",
    ),
    "torch.distributed": ("multiprocessing.popen_fork", "torch.utils.serialization.config"),
}
_WORK: dict[str, Callable[[], None]] = {
    "torch": _torch,
    "torch.optim": _optim,
    "torch.autograd.gradcheck": _gradcheck,
    "torch.utils.data": _data,
    "torch._dynamo": _dynamo,
    "torch.compiler": _compiler,
    "torch.export": _export,
    "matplotlib.figure": _figure,
    "matplotlib.pyplot": _figure,
}

# The modules for which there is neutral work.
WARMED = tuple(_WORK)


_MADV_COLLAPSE = 25
_SIZE = 2 * 2**20
# Writable private memory without a file: the heap and Python's arenas.
_ANONYMOUS = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ 00:00 0 *(?:\[heap\])?\n")


def collapse() -> None:
    """Collapse this process's memory into large pages, if the kernel can (Linux 6.1)."""
    madvise = ctypes.CDLL(None).madvise
    with contextlib.suppress(OSError):
        for start, end in _ANONYMOUS.findall(Path("/proc/self/maps").read_text()):
            first, last = -(-int(start, 16) // _SIZE), int(end, 16) // _SIZE
            for page in range(first, last):
                # One by one, since a hole ends the call for all pages after it. A page that cannot be
                # collapsed stays as it is.
                madvise(ctypes.c_void_p(page * _SIZE), ctypes.c_size_t(_SIZE), _MADV_COLLAPSE)
