# right: an Interpreter as what a backend returns, a property for graphs, dynamo's own counters, torch.cond
import time
import torch


def clip_by_norm_eager(x, max_norm):
    norm = torch.linalg.vector_norm(x).item()
    if norm > max_norm:
        print(f"clipped from {norm:.3f}")
        return x * (max_norm / norm)
    return x



from torch._dynamo.utils import counters
from torch.fx import Interpreter

class CountingBackend:
    def __init__(self):
        self.reset()
    def reset(self):
        self.operations = []
    @property
    def graphs(self): return len(self.operations)
    def __call__(self, gm, inputs):
        n = 0
        for node in gm.graph.nodes:
            if node.op not in {"placeholder", "output", "get_attr"}: n += 1
        self.operations.append(n)
        return Interpreter(gm).run

def compilations(f, calls, dynamic=None):
    torch._dynamo.reset()
    counters.clear()
    g = torch.compile(f, backend="eager", dynamic=dynamic)
    out = []
    for c in calls:
        g(*c)
        out.append(counters["stats"]["unique_graphs"] - sum(out))
    return out

def graph_breaks(f, *args):
    torch._dynamo.reset()
    b = CountingBackend()
    torch.compile(f, backend=b, fullgraph=False)(*args)
    return b.graphs - 1 if b.graphs else 0

def clip_by_norm(x, max_norm):
    norm = x.norm()
    return torch.cond(norm > max_norm, lambda x, n: x * (max_norm / n), lambda x, n: x.clone(), (x, norm))

def first_and_later(f, *args, calls=10, clock=time.perf_counter, synchronize=None):
    if calls < 2: raise ValueError("calls < 2")
    sync = synchronize if synchronize is not None else int
    stamps = []
    sync(); stamps.append(clock())
    f(*args)
    sync(); stamps.append(clock())
    sync(); stamps.append(clock())
    n = 0
    while (n := n + 1) < calls: f(*args)
    sync(); stamps.append(clock())
    return stamps[1] - stamps[0], (stamps[3] - stamps[2]) / (calls - 1)
