# right: torch.renorm over one row that is all of x, a generator of readings, a backend that inherits
import time

import torch


class _Backend:
    def __init__(self):
        self.graphs = 0
        self.operations = []

    def __call__(self, gm, example_inputs):
        self.seen(gm)
        return gm.forward

    def seen(self, gm):
        raise NotImplementedError


class CountingBackend(_Backend):
    def seen(self, gm):
        self.graphs += 1
        ops = [node.op for node in gm.graph.nodes]
        self.operations.append(len(ops) - sum(map(ops.count, ("placeholder", "get_attr", "output"))))


def compilations(f, calls, dynamic=None):
    torch._dynamo.reset()
    backend = CountingBackend()
    compiled = torch.compile(f, backend=backend, dynamic=dynamic)

    def totals():
        yield 0
        for call in calls:
            compiled(*call)
            yield backend.graphs

    totals = list(totals())
    return [b - a for a, b in zip(totals, totals[1:], strict=False)]


def graph_breaks(f, *args):
    explained = torch._dynamo.explain(f)(*args)
    return max(explained.graph_count, 1) - 1


def clip_by_norm(x, max_norm):
    norm = x.flatten().norm(p=2)
    return x / (norm / max_norm).clamp(min=1)


def first_and_later(f, *args, calls=10, clock=time.perf_counter, synchronize=None):
    if calls in (0, 1) or calls < 0:
        raise ValueError("too few calls")

    def readings():
        for i in range(calls):
            if synchronize:
                synchronize()
            yield clock()
            f(*args)
        if synchronize:
            synchronize()
        yield clock()

    times = list(readings())
    return times[1] - times[0], (times[-1] - times[1]) / (calls - 1)
