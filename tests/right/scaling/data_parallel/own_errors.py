# right: exceptions of its own that are a ValueError and a RuntimeError, a callable object for a function, a decorated function
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


class BadArgument(ValueError):
    """An argument that cannot be."""


class NoGroup(RuntimeError):
    """A collective without a process group."""


class Shard:
    def __call__(self, batch, rank, world_size):
        if world_size < 1:
            raise BadArgument(f"world_size: {world_size}")
        if not 0 <= rank < world_size:
            raise BadArgument(f"rank: {rank}")
        if len(batch) < world_size:
            raise BadArgument(f"batch: {len(batch)} rows")
        return batch.tensor_split(world_size)[rank]


shard = Shard()


def wrap(model):
    if dist.is_initialized():
        return nn.parallel.DistributedDataParallel(model)
    return nn.DataParallel(model)


def average_gradients(model):
    if not dist.is_initialized():
        raise NoGroup("average_gradients needs a process group")
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


average_gradients = torch.no_grad()(average_gradients)


def train_step(model, loss_fn, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return inputs.shape[0]
