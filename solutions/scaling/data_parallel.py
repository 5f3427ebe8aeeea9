"""Data parallelism: every rank trains a replica of the model on its part of each batch.

A *rank* is a process. In each step it runs forward and backward on its own rows, the gradients are
averaged over the ranks, and all take the same optimizer step. With parts of equal size and a mean
loss, this is the step that one process takes on the whole batch:

    grad L(batch) = 1/W * sum over ranks r of grad L(part_r)

`launch` in ranks.py starts ranks on this machine's CPU. Run this file to try yours on two.

Source: Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".

What holds for every exercise: docs/every-exercise.md.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn

from ranks import launch


def shard(batch: Tensor, rank: int, world_size: int) -> Tensor:
    """Return the rows of `batch` that `rank` works on.

    The parts are consecutive rows, and in the order of the ranks the whole batch. Their sizes
    differ by at most one, larger parts first: 10 rows over 4 ranks are 3, 3, 2, 2.

    Args:
        batch: `(n, ...)`, of any dtype.
        rank: from 0 to `world_size - 1`.
        world_size: at least 1.

    Raises:
        ValueError: `world_size` or `rank` is out of range, or `batch` has fewer rows than there
            are ranks. The message names the argument.
    """
    # begin solution: check, find the first row and the number of rows, slice
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be from 0 to {world_size - 1}, got {rank}")
    if len(batch) < world_size:
        raise ValueError(f"batch has {len(batch)} rows, too few for world_size={world_size}")
    size, extra = divmod(len(batch), world_size)
    # Each of the first `extra` ranks has one row more, so they move the later ranks' start.
    first = rank * size + min(rank, extra)
    return batch[first : first + size + (rank < extra)]
    # end solution


def wrap(model: nn.Module) -> nn.Module:
    """Wrap `model`, so that its training is data-parallel.

    In a process group, as under `launch`, this is `nn.parallel.DistributedDataParallel`, which
    averages the gradients in each backward pass. Elsewhere it is `nn.DataParallel`.
    """
    # begin solution: DistributedDataParallel in a process group, else DataParallel
    if dist.is_initialized():
        return nn.parallel.DistributedDataParallel(model)
    return nn.DataParallel(model)
    # end solution


def average_gradients(model: nn.Module) -> None:
    """Average the gradients of `model` over the ranks, with collectives of `torch.distributed`.

    Every rank calls it after backward. Then the `.grad` of each trainable parameter is, on every
    rank, the mean over all ranks. A rank without a gradient counts as zeros, and gets the mean,
    too. Frozen parameters keep their `.grad`.

    A collective returns only when every rank has called it: a rank that skips one leaves the
    others waiting.

    Raises:
        RuntimeError: no process group is initialized.
    """
    # begin solution: all-reduce each trainable parameter's gradient
    if not dist.is_initialized():
        raise RuntimeError("average_gradients needs an initialized process group; use launch")
    for parameter in model.parameters():
        # The same parameters are frozen on every rank, so no rank waits for another here...
        if not parameter.requires_grad:
            continue
        # ...but a gradient may be missing on one rank only, and that rank must not skip its turn.
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()
    # end solution


def train_step(
    model: nn.Module,
    loss_fn: Callable[[Tensor, Tensor], Tensor],
    optimizer: torch.optim.Optimizer,
    inputs: Tensor,
    targets: Tensor,
) -> int:
    """Train on one batch, and return its number of rows.

    Clear old gradients, then forward, `loss_fn(outputs, targets)`, backward and the optimizer's
    step. The model, wrapped or not, stays in its mode (train or eval); averaging is up to its
    wrapper.
    """
    # begin solution: zero_grad, forward, loss, backward, step, count rows
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return len(inputs)
    # end solution


def _try(rank: int, world_size: int) -> list[float]:
    """Return the weights after a step: equal on all ranks."""
    model = wrap(nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = shard(torch.arange(4.0).reshape(4, 1), rank, world_size)
    train_step(model, nn.functional.mse_loss, optimizer, rows, 2 * rows)
    return [parameter.item() for parameter in model.parameters()]


if __name__ == "__main__":
    print(launch(_try, 2))
