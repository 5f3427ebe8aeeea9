# right: breaks by torch._dynamo.explain, a wrapper is compiled and called twice, an epsilon beside the norm
from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

import torch
import torch._dynamo as dynamo


@dataclass
class CountingBackend:
    graphs: int = 0
    operations: list[int] = field(default_factory=list)

    def __call__(self, gm, example_inputs):
        kinds = Counter(node.op for node in gm.graph.nodes)
        self.graphs += 1
        self.operations += [sum(kinds[kind] for kind in kinds if "call" in kind)]
        return dynamo.lookup_backend("aot_eager")(gm, example_inputs)


def compilations(f, calls, dynamic=None):
    dynamo.reset()
    counts, seen = [], []

    def backend(gm, example_inputs):
        seen.append(gm)
        return gm.forward

    @torch.compile(backend=backend, dynamic=dynamic)
    def run(*arguments):
        return f(*arguments)

    for arguments in calls:
        seen.clear()
        run(*arguments)
        run(*arguments)
        counts.append(len(seen))
    return counts


def graph_breaks(f, *args):
    return max(dynamo.explain(f)(*args).graph_break_count, 0)


def clip_by_norm(x, max_norm):
    coefficient = max_norm / (torch.linalg.vector_norm(x) + 1e-6)
    return x * torch.clamp(coefficient, max=1.0)


def first_and_later(f, *args, calls=10, clock=time.perf_counter, synchronize=lambda: None):
    if calls <= 1:
        raise ValueError(f"calls must be at least 2, not {calls}")
    wait = synchronize or (lambda: None)

    def timed(times):
        wait()
        begin = clock()
        for _ in range(times):
            f(*args)
        wait()
        return clock() - begin

    return timed(1), timed(calls - 1) / (calls - 1)
