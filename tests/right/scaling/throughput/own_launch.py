# right: launch rewritten with os.fork and plain pipes, a class for the measurements
import io
import math
import os
import selectors
import signal
import struct
import sys
import tempfile
import time
import traceback
from datetime import timedelta
import torch
import torch.distributed as dist

from parallel import average_gradients, shard, train_step, wrap


def _child(worker, rank, world_size, args, path, out, finish):
    code = 0
    buffer = io.BytesIO()
    try:
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        dist.init_process_group(
            "gloo",
            init_method="file://" + path,
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=10),
        )
        torch.save((worker(rank, world_size, *args), None), buffer)
    except BaseException:
        code = 1
        buffer = io.BytesIO()
        torch.save((None, traceback.format_exc()), buffer)
    try:
        data = buffer.getvalue()
        with os.fdopen(out, "wb") as stream:
            stream.write(struct.pack("!Q", len(data)) + data)
        sys.stdout.flush()
        sys.stderr.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(finish, selectors.EVENT_READ)
            selector.select(2.0)
    finally:
        os._exit(code)


def launch(worker, world_size, *args):
    if world_size < 1:
        raise ValueError("world_size must be at least 1")
    sys.stdout.flush()
    sys.stderr.flush()
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "rendezvous")
    finish, finished = os.pipe()
    pids, data, alive = [], {}, {}
    selector = selectors.DefaultSelector()
    try:
        for rank in range(world_size):
            mine, theirs = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(finished)
                os.close(mine)
                _child(worker, rank, world_size, args, path, theirs, finish)
            os.close(theirs)
            pids.append(pid)
            data[rank] = b""
            alive[rank] = mine
            selector.register(mine, selectors.EVENT_READ, rank)
        results = {}
        while alive:
            for key, _ in selector.select():
                rank = key.data
                piece = os.read(key.fd, 1 << 20)
                data[rank] += piece
                if piece:
                    continue
                selector.unregister(key.fd)
                os.close(alive.pop(rank))
                (size,) = struct.unpack("!Q", data[rank][:8].ljust(8, b"\xff"))
                if len(data[rank]) != 8 + size:
                    raise RuntimeError(f"rank {rank} died without a word")
                value, error = torch.load(io.BytesIO(data[rank][8:]), weights_only=False)
                if error is not None:
                    raise RuntimeError(f"in rank {rank}:\n{error}")
                results[rank] = value
        return [results[rank] for rank in range(world_size)]
    finally:
        os.close(finished)
        os.close(finish)
        deadline = time.monotonic() + (1.0 if not alive else 0.0)
        for pid in pids:
            while time.monotonic() < deadline and os.waitpid(pid, os.WNOHANG) == (0, 0):
                time.sleep(0.001)
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        for fd in alive.values():
            os.close(fd)
        selector.close()
        if os.path.exists(path):
            os.remove(path)
        os.rmdir(folder)


def throughput(step, steps=20, warmup=5, clock=time.perf_counter, synchronize=None):
    if steps < 1:
        raise ValueError("need at least one of steps")
    if warmup < 0:
        raise ValueError("negative warmup")
    readings, samples = [], 0
    for _ in range(warmup):
        step()
    for part in (None, steps):
        if part is not None:
            samples = sum(map(lambda _: step(), range(part)))
        if synchronize is not None:
            synchronize()
        readings.append(clock())
    first, last = readings
    if last - first <= 0:
        raise ValueError("clock must advance, it read %r twice" % first)
    return samples * (1 / (last - first))


def scaling_efficiency(throughputs):
    if 1 not in throughputs:
        raise ValueError("throughputs: 1 is missing")
    if any(t <= 0 or t != t or t == math.inf for t in throughputs.values()):
        raise ValueError("throughputs: all must be positive and finite")
    return {n: throughputs[n] / throughputs[1] / n for n in throughputs}


class Overheads:
    names = ("batch_splitting", "gradient_reduction", "parameter_synchronization")

    def __init__(self, model, inputs, clock):
        self.model, self.inputs, self.clock = model, inputs, clock

    def __call__(self, rank, world_size):
        self.rank, self.world_size = rank, world_size
        return [self.seconds(getattr(self, name)) for name in self.names]

    def seconds(self, work):
        call = work()
        call()
        dist.barrier()
        begin = self.clock()
        for _ in range(10):
            call()
        return (self.clock() - begin) / 10

    def batch_splitting(self):
        return lambda: shard(self.inputs, self.rank, self.world_size)

    def gradient_reduction(self):
        part = shard(self.inputs, rank=self.rank, world_size=self.world_size)
        self.model(part).sum().backward()
        return lambda: average_gradients(self.model)

    def parameter_synchronization(self):
        state = [p.detach() for p in self.model.parameters()]
        return lambda: [dist.broadcast(tensor, 0) for tensor in state]


def measure_overheads(model, inputs, world_size, clock=time.perf_counter):
    for rank in range(world_size):
        shard(inputs, rank, world_size)
    if world_size < 1:
        raise ValueError("world_size must be at least 1")
    per_rank = launch(Overheads(model, inputs, clock), world_size)
    return dict(zip(Overheads.names, [max(column) for column in zip(*per_rank)]))


def benchmark(build_model, inputs, targets, loss_fn, world_sizes=(1, 2), steps=20, warmup=5):
    if steps < 1:
        raise ValueError("steps < 1")
    if warmup < 0:
        raise ValueError("warmup < 0")
    if any(n < 1 or n > len(inputs) for n in world_sizes):
        raise ValueError("world_sizes must be from 1 to the number of rows of inputs")

    def one_rank(rank, world_size):
        model = wrap(build_model())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        dist.barrier()
        return throughput(
            lambda: train_step(
                model,
                loss_fn,
                optimizer,
                shard(inputs, rank, world_size),
                shard(targets, rank, world_size),
            ),
            steps,
            warmup,
        )

    results = {}
    for n in world_sizes:
        results[n] = float(sum(launch(one_rank, n)))
    return results
