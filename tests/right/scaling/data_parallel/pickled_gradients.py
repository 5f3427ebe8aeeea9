# right: a gradient of everybody by all_gather_object, numpy, keyword arguments
from __future__ import annotations

import numpy as np
import torch
import torch.distributed as dist
from torch import nn


def shard(batch, rank, world_size):
    if int(world_size) < 1:
        raise ValueError("world_size should be 1 or more")
    if not (0 <= rank <= world_size - 1):
        raise ValueError("rank should be between 0 and world_size - 1")
    if batch.shape[0] // world_size == 0:
        raise ValueError("batch should have at least one row per rank")
    rows = np.array_split(np.arange(batch.shape[0]), world_size)[rank]
    return batch[rows[0] : rows[-1] + 1]


def wrap(model):
    return {True: nn.parallel.DistributedDataParallel, False: nn.DataParallel}[
        dist.is_available() and dist.is_initialized()
    ](model)


@torch.no_grad()
def average_gradients(model):
    if not (dist.is_available() and dist.is_initialized()):
        raise RuntimeError("call this under launch")
    own = {
        name: None if p.grad is None else p.grad.clone()
        for name, p in model.named_parameters()
        if p.requires_grad
    }
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, own)
    for name, p in model.named_parameters():
        if name in own:
            total = torch.zeros_like(p)
            for gradients in everyone:
                if gradients[name] is not None:
                    total += gradients[name]
            p.grad = total / len(everyone)


def train_step(model, loss_fn, optimizer, inputs, targets):
    with torch.enable_grad():
        optimizer.zero_grad()
        prediction = model(inputs)
        loss = loss_fn(prediction, targets)
        loss.backward()
        optimizer.step()
    return prediction.new_empty(inputs.shape[:1]).numel()
