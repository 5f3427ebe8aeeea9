# right: a clock class, a backend that is wrapped by a method, a norm in float64, a decorated helper
import time
import typing

import torch


class CountingBackend:
    graphs: int
    operations: typing.List[int]
    KINDS: typing.ClassVar = frozenset({"call_function", "call_module", "call_method"})

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.graphs = 0
        self.operations = list()

    def count(self, graph: torch.fx.Graph) -> int:
        return sum(1 for node in graph.nodes if node.op in self.KINDS)

    def __call__(self, gm, example_inputs):
        self.graphs = self.graphs + 1
        self.operations = [*self.operations, self.count(gm.graph)]

        def run(*inputs):
            return gm(*inputs)

        return run


class Stopwatch:
    def __init__(self, clock, synchronize):
        self.clock, self.synchronize = clock, synchronize

    def read(self) -> float:
        if self.synchronize is not None:
            self.synchronize()
        return self.clock()


def compilations(f, calls, dynamic=None):
    torch._dynamo.reset()
    backend = CountingBackend()
    compiled = torch.compile(f, backend=backend, dynamic=dynamic)
    answer = []
    for call in calls:
        seen = len(backend.operations)
        compiled(*call)
        answer.append(len(backend.operations[seen:]))
    return answer


def graph_breaks(f, *args):
    torch._dynamo.reset()
    backend = CountingBackend()
    torch.compile(f, backend=backend, dynamic=False)(*args)
    torch._dynamo.reset()
    return max(0, backend.graphs - 1)


def _length(x):
    return x.double().square().sum().sqrt()


def clip_by_norm(x, max_norm):
    length = _length(x)
    factor = torch.minimum(torch.ones_like(length), max_norm / length)
    return (x.double() * factor).to(x.dtype)


def first_and_later(f, *args, calls=10, clock=time.perf_counter, synchronize=None):
    if calls < 2:
        raise ValueError("calls has to be at least 2")
    watch = Stopwatch(clock, synchronize)
    start = watch.read()
    f(*args)
    between = watch.read()
    later = 0.0
    for _ in range(calls - 1):
        begin = watch.read()
        f(*args)
        later += watch.read() - begin
    return between - start, later / (calls - 1)


if __name__ == "__main__":
    print(compilations(torch.sin, [(torch.ones(2),)]))
