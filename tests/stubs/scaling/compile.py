"""Count what torch.compile compiles, and write a function that it can compile in one piece.

`torch.compile(f, backend=backend)` watches `f` as it runs, records its tensor operations as a *graph*, and
hands the graph to a *backend*: a callable that returns a faster callable. A compiled graph is used again as
long as it fits: a call with another shape may have to be compiled anew (*recompilation*). What cannot be
recorded, such as a print or an `if` on the value of a tensor, cuts the function in pieces (*graph break*): each
piece is a graph of its own, and plain Python runs between them.

    torch.compile(f, backend=lambda gm, example_inputs: gm.forward)       a backend that makes nothing faster

A compiled model that is slower than before is mostly compiled anew for every batch, or broken in pieces, or its
first call, which compiles, was measured with the others.

The default backend of torch.compile needs a C++ compiler. Nothing here uses it: backends are your own.

Sources: PyTorch documentation, torch.compile, Custom backends, and Dynamic shapes; Ansel et al. 2024,
PyTorch 2.
"""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def clip_by_norm_eager(x: Tensor, max_norm: float) -> Tensor:
    """Scale `x` down to the L2 norm `max_norm` where it is longer. Given; it breaks a graph in three ways."""
    norm: float = torch.linalg.vector_norm(x).item()
    if norm > max_norm:
        print(f"clipped from {norm:.3f}")
        return x * (max_norm / norm)
    return x


class CountingBackend:
    """A backend for torch.compile that counts, and otherwise changes nothing.

    `graphs` is the number of graphs that it was given, 0 at first. `operations` is a list with the number
    of call nodes of each of these graphs, in order: nodes of `gm.graph.nodes` whose `op` is
    `"call_function"`, `"call_method"` or `"call_module"`, not inputs, parameters or the output. Each backend
    counts for itself.
    """

    graphs: int
    operations: list[int]

    def __init__(self) -> None:
        # TODO: begin with no graph and no operations.
        raise NotImplementedError("CountingBackend.__init__: begin with no graph and no operations")

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Tensor]
    ) -> Callable[..., object]:
        """Count the graph `gm`, and return a callable that computes it.

        torch.compile calls this once for each graph; what it returns is called in every run, with arguments
        like `example_inputs`, and returns what `gm` returns for them; gradients flow. Runs are not counted.
        """
        # TODO: count the graph, return what runs it.
        raise NotImplementedError("CountingBackend.__call__: count the graph, return what runs it")


def compilations(
    f: Callable[..., object], calls: Sequence[tuple[object, ...]], dynamic: bool | None = None
) -> list[int]:
    """Compile `f` once, run it on each tuple of arguments, and return how many new graphs each call compiled.

    A call that compiles nothing has 0. `dynamic` is handed to torch.compile: with None a size that changes is
    compiled as a variable from the second time on, with False every size is compiled anew, with True sizes are
    variables from the start. For vectors of the sizes 3, 3, 4, 5, 6 and an `f` without graph breaks:

        None   [1, 0, 1, 0, 0]
        False  [1, 0, 1, 1, 1]
        True   [1, 0, 0, 0, 0]

    It begins from a fresh start, as if nothing had been compiled before: `torch._dynamo.reset()` forgets all
    compiled graphs, and which sizes have changed. The compiled function runs once for each tuple, and `f`
    itself does not run. A graph break adds graphs to the call that meets it. No calls give `[]`.
    """
    # TODO: compile once, and count the graphs of each call.
    raise NotImplementedError("compilations: compile once, and count the graphs of each call")


def graph_breaks(f: Callable[..., object], *args: object) -> int:
    """Return in how many places one call `f(*args)` is broken: the graphs that it compiles, minus one.

    It begins from a fresh start, too, and `f` runs once. You may use `torch._dynamo.explain`.
    """
    # TODO: count the graphs of one call.
    raise NotImplementedError("graph_breaks: count the graphs of one call")


def clip_by_norm(x: Tensor, max_norm: float) -> Tensor:
    """Return what clip_by_norm_eager returns, so that torch.compile sees one graph. It prints nothing.

    If the L2 norm of the whole `x` is above `max_norm`, the result is `x` times `max_norm / norm`, else it has
    the values of `x` (`x` itself or a copy). Zeros stay zeros. `x` has any shape, is float32 or float64, and is
    left as it is; the result has its dtype. `max_norm` is positive.

    Compiled, it is one graph, which fits a long and a short `x` of the same shape: by itself, with
    `torch.compile(clip_by_norm, fullgraph=True)`, and when a compiled function calls it.
    """
    # TODO: choose by an operation on tensors.
    raise NotImplementedError("clip_by_norm: choose by an operation on tensors")


def first_and_later(
    f: Callable[..., object],
    *args: object,
    calls: int = 10,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], object] | None = None,
) -> tuple[float, float]:
    """Return the seconds of the first call `f(*args)`, which compiles, and the mean seconds of the later
    ones.

    `f(*args)` is called `calls` times in all: the first call is timed alone, the `calls - 1` others as their
    mean. `clock()` gives the time in seconds. `synchronize`, if given, is called right before each reading of
    the clock, the first one included: a GPU works on after a call returns, and `torch.cuda.synchronize` waits
    for it.

    Raises ValueError, naming `calls`, if it is below 2, before `f` is called.
    """
    # TODO: read the clock three times, or more.
    raise NotImplementedError("first_and_later: read the clock three times, or more")
