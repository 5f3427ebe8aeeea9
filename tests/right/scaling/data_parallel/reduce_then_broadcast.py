# right: a scripted helper, reduce to rank 0 and broadcast back, a step with a closure
from typing import Tuple
import torch
import torch.distributed as td
import torch.nn as nn


@torch.jit.script
def bounds(rows: int, rank: int, world_size: int) -> Tuple[int, int]:
    small = rows // world_size
    large = rows - small * world_size
    if rank < large:
        return rank * (small + 1), (rank + 1) * (small + 1)
    return rank * small + large, (rank + 1) * small + large


def shard(batch, rank, world_size):
    rows = len(batch)
    problem = None
    if world_size < 1:
        problem = "world_size must be >= 1"
    elif rank < 0 or rank > world_size - 1:
        problem = "rank must be >= 0 and < world_size"
    elif rows < world_size:
        problem = "batch must have at least world_size rows"
    if problem is not None:
        raise ValueError(problem)
    begin, end = bounds(rows, rank, world_size)
    return batch[begin:end]


def wrap(model: "nn.Module") -> "nn.Module":
    try:
        td.get_world_size()
    except (RuntimeError, ValueError):
        return torch.nn.DataParallel(model)
    return torch.nn.parallel.DistributedDataParallel(module=model)


def average_gradients(model: "nn.Module") -> None:
    try:
        world = td.get_world_size()
    except ValueError as error:
        raise RuntimeError("average_gradients: " + str(error)) from error
    rank = td.get_rank()
    for parameter in filter(lambda p: p.requires_grad, model.parameters()):
        gradient = parameter.grad
        if gradient is None:
            gradient = torch.zeros(parameter.shape, dtype=parameter.dtype)
        gradient = gradient.clone()
        td.reduce(gradient, dst=0)
        if rank == 0:
            gradient.mul_(1.0 / world)
        td.broadcast(gradient, src=0)
        parameter.grad = gradient


def train_step(model, loss_fn, optimizer, inputs, targets):
    def closure():
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        return loss

    optimizer.step(closure)
    return sum(1 for _ in inputs)
