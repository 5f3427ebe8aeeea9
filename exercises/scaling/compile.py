"""Count what torch.compile compiles, and write a function that it can compile in one piece.

`torch.compile(f, backend=backend)` watches `f` as it runs, records its tensor operations as a *graph*, and
hands the graph to a *backend*: a callable that returns a faster callable. What it has compiled is used
again as long as it fits: a call with another shape may have to be compiled anew (*recompilation*). What it
cannot record, such as a print or an `if` on the value of a tensor, cuts the function in pieces (*graph
break*): each piece is a graph of its own, and plain Python runs between them.

    torch.compile(f, backend=lambda gm, example_inputs: gm.forward)       a backend that makes nothing faster

Why it matters: a compiled model that is slower than before has mostly one of three causes: it is compiled
anew for every batch, it is broken in pieces, or its first call, which compiles, was measured with the
others.

The default backend of torch.compile needs a C++ compiler. Nothing here uses it: backends are your own.

Sources: PyTorch documentation, torch.compile, Custom backends, and Dynamic shapes; Ansel et al. 2024,
PyTorch 2.

`Tensor` is `torch.Tensor`.
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
    `"call_function"`, `"call_method"` or `"call_module"`; inputs, parameters and the output are nodes, too,
    and do not count. Each backend counts for itself.
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

    A call for which everything is there already has 0. `dynamic` is handed to torch.compile: with None a
    size that changes is compiled as a variable from the second time on, with False every size anew, with
    True as a variable from the start. For vectors of the sizes 3, 3, 4, 5, 6 and an `f` without graph
    breaks:

        None   [1, 0, 1, 0, 0]
        False  [1, 0, 1, 1, 1]
        True   [1, 0, 0, 0, 0]

    It begins from a fresh start, as if nothing had been compiled before, so that the same call twice gives
    the same: `torch._dynamo.reset()` forgets all that is compiled, and which sizes have changed. The
    compiled function runs once for each tuple, and `f` is not run besides. A graph break adds graphs to the
    call that meets it, and is no error. No calls give `[]`. (torch.compile gives up after eight
    compilations of one function: there are not more.)
    """
    # TODO: compile once, and count the graphs of each call.
    raise NotImplementedError("compilations: compile once, and count the graphs of each call")


def graph_breaks(f: Callable[..., object], *args: object) -> int:
    """Return in how many places one call `f(*args)` is broken: the graphs that it compiles, minus one.

    It is 0 where nothing is compiled, as for an `f` without tensor operations. It begins from a fresh
    start, too, and `f` runs once. `torch._dynamo.explain` may be used.
    """
    # TODO: count the graphs of one call.
    raise NotImplementedError("graph_breaks: count the graphs of one call")


def clip_by_norm(x: Tensor, max_norm: float) -> Tensor:
    """Return what clip_by_norm_eager returns, so that torch.compile sees one graph. It prints nothing.

    Where the L2 norm of all of `x` is above `max_norm`, the result is `x` times `max_norm / norm`, else it
    has the values of `x` (`x` itself or a copy). `x` has any shape, () and sizes of 0 included, is float32
    or float64, which is kept, and is left as it is. Zeros stay zeros. `max_norm` is positive; the entries
    of `x` are finite, and their squares do not overflow. Gradients are not asked for.

    Compiled, it is one graph which fits a long and a short `x` of the same shape: both by itself, with
    `torch.compile(clip_by_norm, fullgraph=True)`, and where a function that is compiled calls it.
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

    `f(*args)` is called `calls` times in all, and each call is timed: the first one alone, the `calls - 1`
    others as their mean. `clock()` gives the time in seconds. `synchronize`, if given, is called right
    before each reading of the clock: a GPU works on after a call returns, and `torch.cuda.synchronize`
    waits for it. That goes for the first reading, too, as what was started before does not belong to the
    first call.

    Raises ValueError, naming `calls`, where it is below 2, before `f` is called.
    """
    # TODO: read the clock three times, or more.
    raise NotImplementedError("first_and_later: read the clock three times, or more")
