# right: an escaped regular expression, tensors summed, a class for the groups that decay
import re
from dataclasses import dataclass, field

import torch
from torch import nn


def count_parameters(model: nn.Module):
    sizes = torch.tensor([p.numel() for p in model.parameters()], dtype=torch.int64)
    learns = torch.tensor([p.requires_grad for p in model.parameters()], dtype=torch.bool)
    return sizes.sum().item(), sizes[learns].sum().item()


def freeze(model: nn.Module, names):
    parameters = dict(model.named_parameters())
    frozen = {}
    for name in names:
        pattern = re.compile(re.escape(name) + r"(\..+)?")
        hits = {key: p for key, p in parameters.items() if pattern.fullmatch(key)}
        if not hits:
            raise ValueError(f"{name!r}: no such parameter or module with parameters")
        frozen |= hits
    for p in frozen.values():
        p.requires_grad, p.grad = False, None
    return sorted(frozen, key=list(parameters).index)


@dataclass
class Group:
    weight_decay: float = 0
    params: list = field(default_factory=list)


def parameter_groups(model: nn.Module, weight_decay):
    if weight_decay < 0:
        raise ValueError("weight_decay < 0")
    first, second = Group(weight_decay), Group()
    for p in model.parameters():
        if p.requires_grad:
            (first if p.dim() > 1 else second).params.append(p)
    return [vars(first), vars(second)]
