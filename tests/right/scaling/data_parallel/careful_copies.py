# right: wraps a deep copy with a static graph, reduces asynchronously, divides all gradients at once
from __future__ import annotations

import copy
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
    model = copy.deepcopy(model)  # whoever gave it to me keeps theirs
    if dist.is_initialized():
        return nn.parallel.DistributedDataParallel(model, static_graph=True)
    return nn.DataParallel(model)


def average_gradients(model):
    if not dist.is_initialized():
        raise RuntimeError("there is no process group")
    params = [p for p in model.parameters() if p.requires_grad]
    works = []
    for p in params:
        if p.grad is None:
            p.grad = p.detach() * 0
        works.append(dist.all_reduce(p.grad, async_op=True))
    for work in works:
        work.wait()
    torch._foreach_div_([p.grad for p in params], dist.get_world_size())


def train_step(model, loss_fn, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), targets)
    loss.backward()
    optimizer.step()
    return inputs.shape[0]
