# right: all_gather and a mean over the stack, names imported from torch.distributed, prints
from __future__ import annotations

import torch
from torch.distributed import all_gather, get_world_size, is_initialized
from torch.nn.parallel import DataParallel
from torch.nn.parallel import DistributedDataParallel as DDP


def shard(batch, rank, world_size):
    if world_size < 1:
        raise ValueError(f"{world_size=} is not a world_size")
    if rank not in range(world_size):
        raise ValueError(f"{rank=} is not a rank")
    n = batch.shape[0]
    if n < world_size:
        raise ValueError(f"the batch is too small: {n} < {world_size}")
    # Where the part begins, if the remainder is dealt out from the front.
    bounds = [0]
    for r in range(world_size):
        bounds.append(bounds[-1] + (n - bounds[-1] + world_size - r - 1) // (world_size - r))
    index = torch.arange(bounds[rank], bounds[rank + 1])
    return batch[index]


def wrap(model):
    print("wrapping", type(model).__name__)
    return DDP(model, find_unused_parameters=True) if is_initialized() else DataParallel(model)


def average_gradients(model):
    if not is_initialized():
        raise RuntimeError("Default process group has not been initialized")
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        mine = p.grad.detach().clone() if p.grad is not None else p.detach().new_zeros(p.shape)
        everyone = [torch.empty_like(mine) for _ in range(get_world_size())]
        all_gather(everyone, mine)
        p.grad = torch.stack(everyone).mean(dim=0)


def train_step(model, loss_fn, optimizer, inputs, targets):
    """Uses autograd.grad and hands the gradients over: for wrapped models backward is needed."""
    model.zero_grad(set_to_none=False)
    optimizer.zero_grad(set_to_none=False)
    y = model(inputs)
    loss = loss_fn(y, targets)
    torch.autograd.backward([loss])
    optimizer.step()
    rows, *_ = inputs.shape
    return rows
