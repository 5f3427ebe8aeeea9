# right: a mask as a factor, an Interpreter that runs the graph, a wrapper around the backend
import time
from functools import partial

import torch
from torch import fx


class CountingBackend:
    """Counts."""

    def __init__(self):
        self.operations = []

    @property
    def graphs(self):
        return len(self.operations)

    def __call__(self, gm: fx.GraphModule, example_inputs):
        gm(*example_inputs)  # a run on the examples is allowed
        self.operations.append(len([n for n in gm.graph.nodes if n.op[:4] == "call"]))
        return partial(self._run, fx.Interpreter(gm))

    @staticmethod
    def _run(interpreter, *inputs):
        return interpreter.run(*inputs)


def compilations(f, calls, dynamic=None):
    if len(calls) == 0:
        return []
    backend = CountingBackend()
    torch._dynamo.reset()
    g = torch.compile(f, dynamic=dynamic, backend=backend)

    def one(arguments):
        before = backend.graphs
        g(*arguments)
        return backend.graphs - before

    counts = list(map(one, calls))
    torch._dynamo.reset()
    return counts


def graph_breaks(f, *args):
    (graphs,) = compilations(f, [args])
    return graphs - bool(graphs)


def clip_by_norm(x, max_norm):
    norm = (x * x).sum().sqrt()
    safe = torch.where(norm == 0, torch.ones_like(norm), norm)
    long = (norm > max_norm).to(x.dtype)
    return x.clone().mul_(long * (max_norm / safe) + (1 - long))


def first_and_later(f, *args, calls=10, clock=time.perf_counter, synchronize=None):
    if not calls >= 2:
        raise ValueError(f"{calls=}")
    readings = []
    for i in range(calls + 1):
        if synchronize is not None:
            synchronize()
        readings.append(clock())
        if i < calls:
            f(*args)
    first, *later = [b - a for a, b in zip(readings, readings[1:])]
    return first, sum(later) / len(later)
