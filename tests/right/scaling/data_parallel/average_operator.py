# right: ReduceOp.AVG, a wrapper class of its own, validation shared by functions, logging
from __future__ import annotations

import logging
import torch
import torch.distributed as dist
from torch import nn


logging.basicConfig(level=logging.INFO)
log = logging.getLogger("data_parallel")


class MyDDP(nn.parallel.DistributedDataParallel):
    """Forwards attributes to the model inside."""

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)


def check_at_least(name, value, least):
    if value < least:
        raise ValueError(f"{name} is {value}, it must be at least {least}")


def check_enough_rows(name, tensor, world_size):
    check_at_least("world_size", world_size, 1)
    if tensor.shape[0] < world_size:
        raise ValueError(f"{name} has only {tensor.shape[0]} rows for world_size {world_size}")


def shard(batch, rank, world_size):
    check_enough_rows("batch", batch, world_size)
    if rank < 0 or rank >= world_size:
        raise ValueError(f"rank is {rank}, it must be in [0, {world_size})")
    n = batch.shape[0]
    start = (n * 0) + sum(n // world_size + (r < n % world_size) for r in range(rank))
    stop = start + n // world_size + (rank < n % world_size)
    return batch[start:stop].contiguous()


def wrap(model):
    if dist.is_initialized():
        return MyDDP(model)
    return nn.DataParallel(model)


def average_gradients(model):
    """Mean over the ranks. I also send the frozen ones' zeros, it does no harm."""
    if not dist.is_initialized():
        raise RuntimeError("there is no process group")
    for parameter in model.parameters():
        gradient = parameter.grad if parameter.requires_grad else None
        message = torch.zeros_like(parameter, requires_grad=False)
        if gradient is not None:
            message.copy_(gradient)
        dist.all_reduce(message, op=dist.ReduceOp.AVG)
        if parameter.requires_grad:
            if gradient is None:
                parameter.grad = message
            else:
                gradient.copy_(message)


def train_step(model, loss_fn, optimizer, inputs, targets):
    modes = {module: module.training for module in model.modules()}
    optimizer.zero_grad()
    outputs = model(inputs)
    loss = loss_fn(outputs, targets)
    log.debug("loss %s", loss.item())
    loss.backward()
    optimizer.step()
    for module, mode in modes.items():
        module.training = mode
    return len(inputs)
