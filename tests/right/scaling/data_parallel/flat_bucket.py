# right: gradients reduced as one flat vector, gradients cleared by hand
from __future__ import annotations

from dataclasses import dataclass
import torch
import torch.distributed as dist
from torch import Tensor, nn


@dataclass(frozen=True)
class Part:
    first: int
    rows: int

    @property
    def end(self) -> int:
        return self.first + self.rows


def part_of(rows: int, rank: int, world_size: int) -> Part:
    sizes = [rows // world_size + (1 if r < rows % world_size else 0) for r in range(world_size)]
    return Part(sum(sizes[:rank]), sizes[rank])


def shard(batch: Tensor, rank: int, world_size: int) -> Tensor:
    if world_size <= 0:
        raise ValueError("world_size: " + str(world_size))
    if rank < 0 or rank >= world_size:
        raise ValueError("rank: " + str(rank))
    if batch.size(0) < world_size:
        raise ValueError("batch: only " + str(batch.size(0)) + " rows")
    part = part_of(batch.size(0), rank, world_size)
    return batch.narrow(0, part.first, part.rows).clone()


def wrap(model: nn.Module) -> nn.Module:
    parallel = nn.parallel
    if torch.distributed.is_initialized():
        return parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return parallel.DataParallel(model)


def average_gradients(model: nn.Module) -> None:
    if not dist.is_initialized():
        raise RuntimeError("no process group")
    trainable = [p for p in model.parameters() if p.requires_grad]
    if not trainable:
        return
    flat = torch.cat(
        [
            torch.zeros(p.numel(), dtype=p.dtype) if p.grad is None else p.grad.reshape(-1)
            for p in trainable
        ]
    )
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat.div_(dist.get_world_size())
    for p, piece in zip(trainable, flat.split([p.numel() for p in trainable])):
        p.grad = piece.view_as(p).clone()


def train_step(model, loss_fn, optimizer, inputs: Tensor, targets: Tensor) -> int:
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad = None
    outputs = model(inputs)
    loss_fn(outputs, targets).backward()
    optimizer.step()
    return int(inputs.size(dim=0))
