# right: clipped as torch.nn.utils.clip_grad_norm_ does it, with an epsilon; breaks are graphs less one
import time

import torch


def clip_by_norm_eager(x, max_norm):
    norm = x.norm().item()
    if norm > max_norm:
        print(norm)
        return x * (max_norm / norm)
    return x


class CountingBackend:
    def __init__(self):
        self.graphs, self.operations = 0, []

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        calls = [node for node in gm.graph.nodes if node.op in ("call_function", "call_method", "call_module")]
        self.operations.append(len(calls))
        return gm


def compilations(f, calls, dynamic=None):
    torch.compiler.reset()
    backend = CountingBackend()
    g = torch.compile(f, backend=backend, dynamic=dynamic)
    totals = [0]
    for arguments in calls:
        g(*arguments)
        totals.append(backend.graphs)
    return [after - before for before, after in zip(totals, totals[1:])]


def graph_breaks(f, *args):
    torch._dynamo.reset()
    backend = CountingBackend()
    torch.compile(f, backend=backend)(*args)
    return backend.graphs - 1


def clip_by_norm(x, max_norm):
    norm = torch.linalg.vector_norm(x)
    coefficient = max_norm / (norm + 1e-6)
    return x * torch.clamp(coefficient, max=1.0)


def first_and_later(f, *args, calls=10, clock=time.perf_counter, synchronize=None):
    if calls < 2:
        raise ValueError("calls")
    seconds = []
    for _ in range(calls):
        if synchronize:
            synchronize()
        begin = clock()
        f(*args)
        if synchronize:
            synchronize()
        seconds.append(clock() - begin)
    return seconds[0], sum(seconds[1:]) / (calls - 1)
