# right: functions by type, a queue in place of recursion over modules, devices as text
from functools import singledispatch

import torch
from torch import nn


def to_device(batch, device, dtype=None):
    if dtype not in (None, torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(f"{dtype} is no dtype for floating-point tensors")
    return move(batch, device, dtype)


@singledispatch
def move(value, device, dtype):
    return value


@move.register(torch.Tensor)
def _(value, device, dtype):
    moved = value.to(device)
    return moved.type(dtype) if dtype and torch.is_floating_point(value) else moved


@move.register(dict)
def _(value, device, dtype):
    result = dict.fromkeys(value)
    for key in value:
        result[key] = move(value[key], device, dtype)
    return result


@move.register(list)
def _(value, device, dtype):
    return [move(item, device, dtype) for item in value]


@move.register(tuple)
def _(value, device, dtype):
    items = tuple(move(item, device, dtype) for item in value)
    return value._make(items) if hasattr(value, "_make") else items


def _walk(module, path=()):
    yield path, module
    for name, child in module.named_children():
        yield from _walk(child, (*path, name))


def _tensors(module, registered):
    for path, part in _walk(module):
        tables = [vars(part)]
        if registered:
            tables += [part._parameters, part._buffers]
        for table in tables:
            for name, value in table.items():
                if isinstance(value, torch.Tensor):
                    yield ".".join((*path, name)), value


def unregistered(module: nn.Module):
    return sorted(dict(_tensors(module, registered=False)))


def misplaced(module: nn.Module, device):
    wanted = str(torch.device(device)).replace("cpu:0", "cpu")
    return sorted(
        name
        for name, tensor in _tensors(module, registered=True)
        if wanted not in (str(tensor.device), tensor.device.type)
    )
