# right: asynchronous broadcasts, a class that is a context, messages by templates
import math
import time
from collections import OrderedDict
import torch.distributed as td
import torch.optim as optim

from parallel import average_gradients, shard, train_step, wrap
from ranks import launch


class _Meter:
    def __init__(self, clock, synchronize):
        self.clock, self.synchronize = clock, synchronize

    def __enter__(self):
        self.begin = self.read()
        return self

    def __exit__(self, kind, value, trace):
        self.elapsed = self.read() - self.begin

    def read(self):
        if self.synchronize:
            self.synchronize()
        return self.clock()


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    for name, value, least in (("steps", steps, 1), ("warmup", warmup, 0)):
        if value < least:
            raise ValueError("%s must be at least %d" % (name, least))
    while warmup > 0:
        warmup -= 1
        step()
    samples = 0
    with _Meter(clock, synchronize) as meter:
        while steps > 0:
            steps -= 1
            samples += step()
    try:
        rate = samples / meter.elapsed
    except ZeroDivisionError:
        raise ValueError("the clock does not advance") from None
    if rate < 0 or meter.elapsed < 0:
        raise ValueError("the clock runs backwards")
    return rate


def scaling_efficiency(throughputs):
    table = OrderedDict(throughputs)
    if 1 not in table.keys():
        raise ValueError("throughputs must hold world size 1")
    for n, t in table.items():
        if math.isnan(t) or math.isinf(t) or t <= 0:
            raise ValueError("throughputs[%d] is %r" % (n, t))
    for n, t in list(table.items()):
        table[n] = t / n / throughputs[1]
    return dict(table)


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    shard(inputs, 0, world_size)
    slowest = {}
    for result in launch(_rank_overheads, world_size, model, inputs, clock):
        for name, seconds in result:
            slowest[name] = max(seconds, slowest.get(name, -math.inf))
    return slowest


def _rank_overheads(rank, world_size, model, inputs, clock):
    def split():
        return shard(inputs, rank, world_size)

    def reduce():
        average_gradients(model)

    def synchronize():
        handles = [td.broadcast(p.data, src=0, async_op=True) for p in model.parameters()]
        for handle in handles:
            handle.wait()

    results = []
    for name, work in (
        ("batch_splitting", split),
        ("gradient_reduction", reduce),
        ("parameter_synchronization", synchronize),
    ):
        if work is reduce:
            model(split()).sum().backward()
        work()
        td.barrier()
        begin = clock()
        for _ in range(10):
            work()
        end = clock()
        results.append((name, (end - begin) / 10.0))
    return results


def benchmark(
    build_model, inputs, targets, loss_fn, world_sizes=(1, 2), steps=20, warmup=5, lr=0.01
):
    if not steps >= 1:
        raise ValueError("steps must be at least 1")
    if not warmup >= 0:
        raise ValueError("warmup must be at least 0")
    for world_size in world_sizes:
        shard(inputs, 0, world_size)
        shard(targets, 0, world_size)

    def in_rank(rank, world_size):
        net = wrap(build_model())
        opt = optim.SGD(net.parameters(), lr=lr)
        x, y = (shard(whole, rank, world_size) for whole in (inputs, targets))
        td.barrier()
        return throughput(lambda: train_step(net, loss_fn, opt, x, y), steps, warmup)

    return dict(zip(world_sizes, [sum(launch(in_rank, world_size)) for world_size in world_sizes]))
