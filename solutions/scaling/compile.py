"""Count what torch.compile compiles, and write a function that it compiles in one piece.

`torch.compile(f, backend=backend)` records the tensor operations of `f` as a *graph*, and hands it to a
*backend*: a callable that returns a faster callable. A compiled graph is used again as long as it fits; a call
with another shape may need a *recompilation*. What cannot be recorded, such as a print or an `if` on the value
of a tensor, is a *graph break*: it cuts `f` in pieces, each of which is a graph of its own.

    torch.compile(f, backend=lambda gm, example_inputs: gm.forward)       a backend that makes nothing faster

The default backend needs a C++ compiler. Nothing here uses it.

Sources: PyTorch documentation, torch.compile, Custom backends, and Dynamic shapes; Ansel et al. 2024,
PyTorch 2.

What holds for every exercise: docs/every-exercise.md.
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

    `graphs` is the number of graphs that it was given. `operations` lists the number of call nodes of each:
    nodes of `gm.graph.nodes` whose `op` is `"call_function"`, `"call_method"` or `"call_module"`. Each backend
    counts for itself.
    """

    graphs: int
    operations: list[int]

    def __init__(self) -> None:
        # begin solution: begin with no graph and no operations
        self.graphs = 0
        self.operations = []
        # end solution

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Tensor]
    ) -> Callable[..., object]:
        """Count the graph `gm`, and return a callable that computes it.

        torch.compile calls this once for each graph, and what it returns in every run, with arguments like
        `example_inputs`. Runs are not counted. Gradients flow.
        """
        # begin solution: count the graph, return what runs it
        del example_inputs
        self.graphs += 1
        self.operations.append(sum(node.op.startswith("call_") for node in gm.graph.nodes))
        return gm.forward
        # end solution


def compilations(
    f: Callable[..., object], calls: Sequence[tuple[object, ...]], dynamic: bool | None = None
) -> list[int]:
    """Compile `f` once, call it on each tuple of arguments, and return how many graphs each call compiled.

    `dynamic` is handed to torch.compile: with None a size that changes is compiled as a variable from the
    second time on, with False every size is compiled anew, with True sizes are variables from the start. For
    vectors of the sizes 3, 3, 4, 5, 6 and an `f` without graph breaks:

        None   [1, 0, 1, 0, 0]
        False  [1, 0, 1, 1, 1]
        True   [1, 0, 0, 0, 0]

    Each graph break adds a graph. Begin from a fresh start: `torch._dynamo.reset()` forgets all compiled
    graphs, and which sizes have changed. Call what is compiled, and not `f` itself. No calls give `[]`.
    """
    # begin solution: compile once, and count the graphs of each call
    torch._dynamo.reset()
    backend = CountingBackend()
    compiled = torch.compile(f, backend=backend, dynamic=dynamic)
    counts = []
    for arguments in calls:
        before = backend.graphs
        compiled(*arguments)
        counts.append(backend.graphs - before)
    return counts
    # end solution


def graph_breaks(f: Callable[..., object], *args: object) -> int:
    """Return in how many places one call `f(*args)` is broken: the graphs that it compiles, minus one.

    Begin from a fresh start, and do not call `f` itself. You may use `torch._dynamo.explain`.
    """
    # begin solution: count the graphs of one call
    return sum(compilations(f, [args])) - 1
    # end solution


def clip_by_norm(x: Tensor, max_norm: float) -> Tensor:
    """Return what clip_by_norm_eager returns, so that torch.compile sees one graph. It prints nothing.

    If the L2 norm of all of `x` is above `max_norm`, the result is `x` times `max_norm / norm`, else `x` or a
    copy. A small number added to the denominator is fine. Zeros stay zeros. `max_norm` is positive.

    Compiled, it is one graph, which fits a long and a short `x` of the same shape: by itself, with
    `torch.compile(clip_by_norm, fullgraph=True)`, and when a compiled function calls it.
    """
    # begin solution: choose by an operation on tensors
    norm = torch.linalg.vector_norm(x)
    return torch.where(norm > max_norm, x * (max_norm / norm), x)
    # end solution


def first_and_later(
    f: Callable[..., object],
    *args: object,
    calls: int = 10,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], object] | None = None,
) -> tuple[float, float]:
    """Return the seconds of the first call `f(*args)`, which compiles, and the mean seconds of the later ones.

    `f`, as it is given, is called `calls` times in all, and `clock()` gives the time. A GPU works on after a
    call returns: `synchronize`, if given, waits for it. Call it right before each reading of the clock, the
    first one included.

    Raises ValueError, naming `calls`, if it is below 2, before `f` is called.
    """
    # begin solution: read the clock three times, or more
    if calls < 2:
        raise ValueError(f"calls is {calls}: at least 2 are needed")

    def now() -> float:
        if synchronize is not None:
            synchronize()
        return clock()

    begin = now()
    f(*args)
    middle = now()
    for _ in range(calls - 1):
        f(*args)
    return middle - begin, (now() - middle) / (calls - 1)
    # end solution
