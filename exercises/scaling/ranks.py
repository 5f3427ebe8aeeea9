"""Ranks: processes on this machine that train together. Given with the exercises beside it.

You call `launch`, and need not read the rest. The ranks talk through gloo, PyTorch's backend for
CPUs, so that this runs anywhere but on Windows, which cannot fork.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

JOIN_SECONDS = 10.0  # how long a rank waits for another in a collective before it gives up
LINGER_SECONDS = 2.0  # how long a finished rank stays for the others


def launch(worker: Callable[..., T], world_size: int, *args: Any) -> list[T]:
    """Run `worker(rank, world_size, *args)` in `world_size` new processes.

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
                process.join(LINGER_SECONDS)
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
            timeout=timedelta(seconds=JOIN_SECONDS),
        )
        # Plain pickle: multiprocessing's own would send tensors as handles that die with the rank.
        message = pickle.dumps((True, worker(rank, world_size, *args)))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs in the parent
        message = pickle.dumps((False, _described(rank, error)))
    writer.send_bytes(message)
    # A rank that leaves at once would break the connections of ranks that are still joining.
    done.poll(LINGER_SECONDS)


def _described(rank: int, error: BaseException) -> str:
    """One line about an exception in a rank, with the last line of yours, and its traceback below."""
    what = "".join(traceback.format_exception_only(error)).strip()
    here = Path(_described.__code__.co_filename).absolute()
    trace = [(Path(f.filename).absolute(), f) for f in traceback.extract_tb(error.__traceback__)]
    own = [frame for file, frame in trace if file.parent == here.parent and file != here]
    place = f" (line {own[-1].lineno}, in {own[-1].name})" if own else ""
    line = f"rank {rank}{place} raised {what}"
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
    process.join(LINGER_SECONDS)
    return RuntimeError(f"rank {rank} ended without a word, exit code {process.exitcode}")
