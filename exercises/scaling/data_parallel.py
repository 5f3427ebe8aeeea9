"""Data parallelism: how fast it goes, how well it scales, and what it costs.

In data-parallel training every process (a *rank*) holds a replica of the model. Each step, the
batch is cut into one part per rank, each rank runs forward and backward on its own part, the
gradients are averaged over the ranks, and all of them take the same optimizer step. Because the
mean of the parts' mean gradients is the gradient of the whole batch's mean loss (for parts of
equal size), the replicas stay equal and learn exactly what one process would:

    grad L(batch) = 1/W * sum over ranks r of grad L(part_r)

The gain is throughput, T_W samples per second on W ranks, ideally W * T_1. The share of it that is
reached is the scaling efficiency

    E_W = T_W / (W * T_1)

and the rest went into overheads: splitting batches, reducing gradients, keeping parameters in
step. Here you write all of it and measure it.

The ranks are processes on this machine's CPU that talk through gloo, PyTorch's CPU backend, so
it works anywhere (except on Windows, which cannot fork). Models stay on the CPU. The speed of your
machine is not judged: the tests bring their own clocks.

Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training",
sections 2 and 3.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

T = TypeVar("T")


# ---- given: launch, and what it is made of -------------------------------------------------------
# It is complete. You call `launch`, and need not read the rest.

_JOIN_SECONDS = 10.0  # how long a rank waits for another in a collective before it gives up
_LINGER_SECONDS = 2.0  # how long a finished rank stays for the others


def launch(worker: Callable[..., T], world_size: int, *args: Any) -> list[T]:
    """Run `worker(rank, world_size, *args)` in `world_size` new processes; given, complete.

    The processes are forks of this one: each begins with a copy of everything in memory (the
    worker may be a closure, `args` need not pickle), and its changes are not seen here or by
    another rank. Before `worker` runs they join one gloo process group, so that it can call the
    collectives of `torch.distributed`. Each rank computes with one thread.

    Args:
        worker: called once in each rank; what it returns must pickle, and may be large.
        world_size: the number of ranks, at least 1.
        *args: passed on to every rank.

    Returns:
        What each rank's worker returned, in the order of the ranks.

    Raises:
        ValueError: `world_size` is below 1.
        RuntimeError: a rank raised an exception (the message holds its traceback), or ended
            without a word. The other ranks are ended.
    """
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    fork = multiprocessing.get_context("fork")
    processes: list[ForkProcess] = []
    readers: dict[Connection, int] = {}
    done, all_done = fork.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix="ranks-") as folder:
        try:
            for rank in range(world_size):
                reader, writer = fork.Pipe(duplex=False)
                # A rank must not hold `all_done`, whose closing tells it that all are done.
                task = (worker, rank, world_size, args, folder, writer, done, all_done)
                process = fork.Process(target=_run_rank, args=task)
                process.start()
                # Only the rank itself holds its writing end now: if it dies, we read the end.
                writer.close()
                processes.append(process)
                readers[reader] = rank
            results = _collect(readers, processes)
            all_done.close()
            for process in processes:
                process.join(_LINGER_SECONDS)
            return results
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()
                process.close()
            for connection in (*readers, done, all_done):
                connection.close()


def _run_rank(
    worker: Callable[..., object],
    rank: int,
    world_size: int,
    args: tuple[Any, ...],
    folder: str,
    writer: Connection,
    done: Connection,
    all_done: Connection,
) -> None:
    """Be one rank: join the group, work, send the result or the error, wait for the others."""
    all_done.close()
    try:
        # One thread a rank: ranks that fight for cores would measure the fight. It also keeps
        # clear of OpenMP, whose threads do not survive a fork.
        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        dist.init_process_group(
            "gloo",
            init_method=f"file://{folder}/store",
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=_JOIN_SECONDS),
        )
        # Plain pickle: multiprocessing's own would send tensors as handles that die with the rank.
        message = pickle.dumps((True, worker(rank, world_size, *args)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs in the parent
        message = pickle.dumps((False, _described(rank, error)))
    writer.send_bytes(message)
    # A rank that leaves at once would break the connections of ranks that are still joining.
    done.poll(_LINGER_SECONDS)


def _described(rank: int, error: BaseException) -> str:
    """One line about an exception in a rank, and its traceback below."""
    what = "".join(traceback.format_exception_only(error)).strip()
    here = _described.__code__.co_filename
    place = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == here]
    line = f"rank {rank} (line {place[-1].lineno}, in {place[-1].name}) raised {what}"
    return line + "\n\n" + "".join(traceback.format_exception(error))


def _collect(readers: Mapping[Connection, int], processes: Sequence[ForkProcess]) -> list[Any]:
    """Read the ranks' results as they come; raise for a rank that failed or died."""
    results: list[Any] = [None] * len(processes)
    waiting = dict(readers)
    while waiting:
        # A pipe that a rank's own child holds open does not end with the rank: look again anyway.
        wait(list(waiting), timeout=0.2)
        failure = None
        for reader, rank in list(waiting.items()):
            alive = processes[rank].is_alive()  # before poll: what it has sent by now, we see
            if not reader.poll():
                if alive:
                    continue
                raise _silent_death(rank, processes[rank])
            try:
                received = pickle.loads(reader.recv_bytes())  # noqa: S301 - from our own fork
            except (EOFError, OSError):
                raise _silent_death(rank, processes[rank]) from None
            del waiting[reader]
            succeeded, value = received
            results[rank] = value
            if not succeeded and failure is None:
                failure = value
        # Only now, after the pass: a rank whose neighbor died complains, too, of a lost connection.
        if failure is not None:
            raise RuntimeError(failure)
    return results


def _silent_death(rank: int, process: ForkProcess) -> RuntimeError:
    process.join(_LINGER_SECONDS)
    return RuntimeError(f"rank {rank} ended without a word, exit code {process.exitcode}")


# ---- yours: everything below ---------------------------------------------------------------------


def shard(batch: Tensor, rank: int, world_size: int) -> Tensor:
    """Return the rows of `batch` that `rank` works on.

    Each rank gets consecutive rows, and the parts in the order of the ranks are the whole batch:
    no row is lost, none is given twice, none moves. The sizes of the parts differ by at most one,
    and the larger parts come first: 10 rows over 4 ranks are parts of 3, 3, 2 and 2 rows.

    Args:
        batch: `(n, ...)`, of any dtype.
        rank: which part, from 0 to `world_size - 1`.
        world_size: the number of parts, at least 1.

    Returns:
        `(rows, ...)`, a view or a copy, as you like.

    Raises:
        ValueError: `world_size` is below 1, `rank` is not in 0..world_size-1, or `batch` has fewer
            rows than there are ranks. The message names the argument.
    """
    # TODO: check, find the first row and the number of rows, slice.
    raise NotImplementedError("shard: check, find the first row and the number of rows, slice")


def wrap(model: nn.Module) -> nn.Module:
    """Wrap `model` in the module that makes its training data-parallel.

    If a process group is initialized (as under `launch`), this is
    `torch.nn.parallel.DistributedDataParallel`: it copies rank 0's weights to all ranks when it is
    made, and averages the gradients over the ranks during each backward pass. Without a process
    group it is `torch.nn.DataParallel`, one process that spreads a batch over the GPUs it sees; on
    a machine without any it just calls the model.

    Args:
        model: on the CPU, with at least one trainable parameter; its forward uses all of them.

    Returns:
        The wrapper.
    """
    # TODO: DistributedDataParallel in a process group, else DataParallel.
    raise NotImplementedError("wrap: DistributedDataParallel in a process group, else DataParallel")


def average_gradients(model: nn.Module) -> None:
    """Average the gradients of `model` over the ranks, by hand: what DistributedDataParallel hides.

    Every rank calls it after its backward pass. Afterwards each trainable parameter's `.grad` is,
    on every rank, a tensor that holds the mean over all ranks of what the ranks had there. A rank
    whose `.grad` is None takes part with zeros (and holds the mean afterwards like the others): the
    mean is always over all ranks. The `.grad` of a frozen parameter (`requires_grad=False`) stays
    as it is, whether a tensor or None, and so do all parameters.

    Use the collectives of `torch.distributed`, and remember that a collective returns only when
    *every* rank has called it: a rank that skips one leaves the others waiting.

    Args:
        model: the same architecture on every rank, not wrapped.

    Raises:
        RuntimeError: no process group is initialized.
    """
    # TODO: all-reduce each trainable parameter's gradient.
    raise NotImplementedError("average_gradients: all-reduce each trainable parameter's gradient")


def train_step(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
) -> int:
    """Take one optimizer step on one batch, and say how many samples it was.

    The gradients of earlier steps are cleared, so that only this batch's count; then forward, the
    loss `loss_fn(outputs, targets)`, backward, and the optimizer's step. The model may be wrapped
    or not; it stays in the mode (train or eval) in which it came, each submodule in its own.

    With a wrapped model under `launch`, equal shards, a loss that is a mean over rows, and neither
    dropout nor batch statistics, one call leaves on every rank the weights that a single process
    gets from the whole batch. A plain model gets there, too, if its gradients go through
    `average_gradients` between backward and step.

    Args:
        model: what to train.
        loss_fn: takes outputs and targets, in this order, and returns a 0-d tensor.
        optimizer: holds the parameters of `model`.
        inputs: `(rows, ...)`.
        targets: whatever goes with them.

    Returns:
        The number of rows of `inputs`, an int.
    """
    # TODO: zero_grad, forward, loss, backward, step, count rows.
    raise NotImplementedError("train_step: zero_grad, forward, loss, backward, step, count rows")


def throughput(
    step: Callable[[], int],
    steps: int = 20,
    warmup: int = 5,
    clock: Callable[[], float] = time.perf_counter,
    synchronize: Callable[[], object] | None = None,
) -> float:
    """Measure how many samples per second `step` gets through.

    First come `warmup` steps that do not count, because the first steps are slow (caches are cold,
    memory is not there yet). Then `steps` steps are timed, all together, between exactly two
    readings of `clock`: reading it in every step would measure the clock, too. The samples are the
    sum of what the timed steps returned, for batches may differ.

    A GPU works asynchronously: when a step returns, its kernels may still be running. That is what
    `synchronize` (such as `torch.cuda.synchronize`) is for: if it is given, call it right before
    each of the two readings, so that no work leaks into the measurement or out of it. (Between the
    timed steps it would only make the machine wait.)

    Args:
        step: does one step and returns its number of samples.
        steps: how many steps to time, at least 1.
        warmup: how many steps to run before, at least 0.
        clock: returns seconds.
        synchronize: waits until all work is done; None where there is nothing to wait for.

    Returns:
        Samples per second, a float.

    Raises:
        ValueError: `steps` is below 1 or `warmup` below 0 (then no step runs), or `clock` has not
            advanced between its readings. The message names the argument.
    """
    # TODO: warm up, time the steps between two readings, divide.
    raise NotImplementedError("throughput: warm up, time the steps between two readings, divide")


def scaling_efficiency(throughputs: Mapping[int, float]) -> dict[int, float]:
    """Return the share of perfect scaling that each world size reaches: T_n / (n * T_1).

    1.0 is perfect: n ranks do n times the work of one. 0.5 on 4 ranks means that you pay for four
    and get two.

    Args:
        throughputs: samples per second for each world size; 1 is among them, in any place.

    Returns:
        The efficiency of each world size (1 included) as a fraction, in the order of
        `throughputs`.

    Raises:
        ValueError: `throughputs` has no entry for 1, or any value is not finite and positive. The
            message names `throughputs`.
    """
    # TODO: check, then divide.
    raise NotImplementedError("scaling_efficiency: check, then divide")


def measure_overheads(
    model: nn.Module,
    inputs: Tensor,
    world_size: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Measure what data parallelism costs beside computing, in seconds for each call.

    Under `launch` with `world_size` ranks, every rank measures three things, in this order:

    1. `"batch_splitting"`: calling `shard` on `inputs` for this rank;
    2. `"gradient_reduction"`: calling `average_gradients` on `model`, whose gradients come from
       `model(part).sum().backward()` just before, with the rank's part of `inputs`; this backward
       pass is not timed;
    3. `"parameter_synchronization"`: a broadcast of every parameter, frozen ones included, from
       rank 0.

    Each is measured alike: call it once untimed (the first call is slow); wait for the other ranks
    at a barrier, so that all begin together; read `clock`; call it 10 times; read `clock` again.
    These six readings are the only ones in a rank. A rank's value is the difference divided by 10,
    and the result holds the slowest rank's value: no rank goes on before the last one is there. It
    may be another rank for each of the three.

    Call this module's `launch`, `shard` and `average_gradients` by their names.

    Args:
        model: not wrapped; stays as it is, for the ranks work on their own copies of memory.
        inputs: `(n, ...)`, the whole batch.
        world_size: the number of ranks.
        clock: returns seconds; every rank reads its own copy.

    Returns:
        Seconds for exactly the three keys above, in that order.

    Raises:
        ValueError: `shard` would refuse `world_size` or `inputs`; then nothing is launched.
            (`shard`'s own message will do.)
    """
    # TODO: time the three in each rank, keep the slowest.
    raise NotImplementedError("measure_overheads: time the three in each rank, keep the slowest")


def benchmark(
    build_model: Callable[[], nn.Module],
    inputs: Tensor,
    targets: Tensor,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    world_sizes: Sequence[int] = (1, 2),
    steps: int = 20,
    warmup: int = 5,
) -> dict[int, float]:
    """Measure the throughput of data-parallel training for each world size.

    For each world size, 1 included, under `launch`, every rank makes its own model with
    `wrap(build_model())` and plain SGD with a learning rate of 0.01 over its parameters. Its step
    is a `train_step` on the rank's shards of `inputs` and `targets`. All ranks wait at a barrier,
    then each calls `throughput(step, steps, warmup)`; the throughput of the whole is the sum over
    the ranks.

    Call this module's `launch`, `shard`, `wrap`, `train_step` and `throughput` by their names.

    Args:
        build_model: makes a new model.
        inputs: `(n, ...)`, the whole batch.
        targets: `(n, ...)`, as many rows as `inputs`.
        loss_fn: as for `train_step`.
        world_sizes: the numbers of ranks to try.
        steps: timed steps, as for `throughput`.
        warmup: untimed steps, as for `throughput`.

    Returns:
        Samples per second for each world size, in the order of `world_sizes`.

    Raises:
        ValueError: `shard` would refuse `inputs` or one of `world_sizes`, or `throughput` would
            refuse `steps` or `warmup`. All is checked before anything is launched. (The messages
            of `shard` and `throughput` will do.)
    """
    # TODO: train in each rank, sum up the ranks' throughputs.
    raise NotImplementedError("benchmark: train in each rank, sum up the ranks' throughputs")


def report(throughputs: Mapping[int, float], overheads: Mapping[str, float]) -> str:
    """Write the results down as two Markdown tables with one blank line between them.

    For throughputs {2: 150.0, 1: 100.0} and overheads {"batch_splitting": 0.001,
    "gradient_reduction": 0.003} the whole report is

        | world size | samples/s | speed-up | efficiency (%) |
        | --- | --- | --- | --- |
        | 1 | 100.0 | 1.00 | 100.0 |
        | 2 | 150.0 | 1.50 | 75.0 |

        | overhead | ms | share (%) |
        | --- | --- | --- |
        | batch_splitting | 1.000 | 25.0 |
        | gradient_reduction | 3.000 | 75.0 |

    without the indentation; a newline at the very end is up to you. The rows of the first table
    are sorted by world size, those of the second keep the order of `overheads`. The speed-up is
    T_n / T_1, the efficiency that of `scaling_efficiency` in percent, the share an overhead's part
    of the sum of all overheads in percent; where all overheads are 0, so are the shares. World
    sizes are formatted with `d`, speed-ups with `.2f`, milliseconds with `.3f`, all else with
    `.1f`.

    Args:
        throughputs: samples per second for each world size, 1 included.
        overheads: seconds for each kind of overhead.

    Returns:
        The report.

    Raises:
        ValueError: as in `scaling_efficiency`.
    """
    # TODO: build the rows of both tables, then join them.
    raise NotImplementedError("report: build the rows of both tables, then join them")
