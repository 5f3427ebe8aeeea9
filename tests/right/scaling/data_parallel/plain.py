# right: no type hints, no docstrings, tensor_split, everything short
from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn


def shard(batch, rank, world_size):
    if world_size < 1:
        raise ValueError(f"world_size must be at least 1, got {world_size}")
    if not 0 <= rank < world_size:
        raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
    if len(batch) < world_size:
        raise ValueError(f"batch has {len(batch)} rows, too few for {world_size} ranks")
    return torch.tensor_split(batch, world_size)[rank]


def wrap(model):
    if dist.is_initialized():
        return nn.parallel.DistributedDataParallel(model)
    return nn.DataParallel(model)


def average_gradients(model):
    if not dist.is_initialized():
        raise RuntimeError("average_gradients needs a process group")
    for p in model.parameters():
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()


def train_step(model, loss_fn, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return inputs.shape[0]
