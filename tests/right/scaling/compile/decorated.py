# right: a wrapper is compiled, not f itself; a recompiled graph module; one timer for one call and for many
import time
import torch


def clip_by_norm_eager(x, max_norm):
    norm = torch.linalg.vector_norm(x).item()
    if norm > max_norm:
        print(f"clipped from {norm:.3f}")
        return x * (max_norm / norm)
    return x



from collections.abc import Callable, Sequence
import copy
from typing import Any

class CountingBackend:
    """Counts, with a copy of the graph's module."""
    graphs: int
    operations: list[int]
    def __init__(self) -> None:
        self.graphs = 0
        self.operations = list()
    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
        self.graphs = self.graphs + 1
        self.operations.append(self._calls(gm.graph))
        gm.recompile()
        return gm
    @staticmethod
    def _calls(graph: torch.fx.Graph) -> int:
        return sum(map(len, (graph.find_nodes(op="call_module", target=t) if False else [n for n in graph.nodes if n.op == t] for t in ("call_module", "call_method", "call_function"))))

def compilations(f: Callable[..., object], calls: Sequence[tuple[object, ...]], dynamic: bool | None = None) -> list[int]:
    torch._dynamo.reset()
    backend = CountingBackend()
    @torch.compile(backend=backend, dynamic=dynamic)
    def run(*args):
        return f(*args)
    result: list[int] = [0] * len(calls)
    for i, args in enumerate(calls):
        result[i] -= backend.graphs
        run(*args)
        result[i] += backend.graphs
    return result

def graph_breaks(f: Callable[..., object], *args: object) -> int:
    count = torch._dynamo.explain(f, *args).graph_count if False else sum(compilations(f, (args,)))
    return count - (count > 0)

def clip_by_norm(x: torch.Tensor, max_norm: float) -> torch.Tensor:
    norm = torch.linalg.norm(x.reshape(-1))
    limit = torch.full_like(norm, max_norm)
    return x * max_norm / torch.maximum(norm, limit)

def first_and_later(f, *args, calls: int = 10, clock=time.perf_counter, synchronize=None):
    if calls < 2:
        raise ValueError(f"{calls=}")
    def timed(n):
        if synchronize: synchronize()
        begin = clock()
        for _ in range(n): f(*args)
        if synchronize: synchronize()
        return (clock() - begin) / n
    return (timed(1), timed(calls - 1))

if __name__ == "__main__":
    print(compilations(lambda x: x + 1, [(torch.ones(n),) for n in (3, 3, 4, 5, 6)]))
