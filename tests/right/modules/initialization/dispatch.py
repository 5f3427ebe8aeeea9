# right: functools.singledispatch on the class, nn.init's plain functions, einops-free reshape for the kernel
import functools

from torch import nn
from torch.nn.init import constant_, normal_, uniform_


def fans(weight):
    """The weight is flattened to (out, in, k)."""
    if not weight.dim() > 1:
        raise ValueError(f"weight of {weight.dim()} dimensions")
    out, into, k = weight.detach().reshape(weight.shape[0], weight.shape[1], -1).shape
    return int(into * k), int(out * k)


def xavier_uniform_(weight, gain=1.0):
    fan_in, fan_out = fans(weight)
    a = abs(gain) * 6**0.5 * (fan_in + fan_out) ** -0.5
    return uniform_(weight, -a, a)


def kaiming_normal_(weight):
    return normal_(weight, std=(2 / fans(weight)[0]) ** 0.5)


@functools.singledispatch
def _init(module):
    """Other modules stay as they are."""


@_init.register(nn.Linear)
def _(module):
    xavier_uniform_(module.weight)
    _constant(module.bias, 0.0)


@_init.register(nn.Conv1d)
@_init.register(nn.Conv2d)
def _(module):
    kaiming_normal_(module.weight)
    _constant(module.bias, 0.0)


@_init.register(nn.Embedding)
def _(module):
    normal_(module.weight, mean=0.0, std=0.02)
    if module.padding_idx is not None:
        constant_(module.weight.detach()[module.padding_idx], 0.0)


@_init.register(nn.LayerNorm)
@_init.register(nn.BatchNorm1d)
@_init.register(nn.BatchNorm2d)
def _(module):
    _constant(module.weight, 1.0)
    _constant(module.bias, 0.0)


def _constant(parameter, value):
    if parameter is not None:
        constant_(parameter, value)


def init_weights(module):
    _init(module)
    print("initialized", type(module).__name__)
