# right: a table from classes to functions, with .data, and helpers of other names
import math
from collections import namedtuple

import torch
import torch.nn as nn

Fans = namedtuple("Fans", ["fan_in", "fan_out"])


def fans(weight):
    if weight.ndim < 2:
        raise ValueError("no fans for a weight of shape %s" % (tuple(weight.shape),))
    receptive = weight[0][0].numel()
    return Fans(weight.size(1) * receptive, weight.size(0) * receptive)


def xavier_uniform_(weight, gain=1.0):
    f = fans(weight)
    std = gain * math.sqrt(2.0 / (f.fan_in + f.fan_out))
    bound = math.sqrt(3.0) * std
    weight.data.uniform_(-bound, bound)
    return weight


def kaiming_normal_(weight):
    weight.data.normal_(mean=0.0, std=math.sqrt(2.0) / math.sqrt(fans(weight).fan_in))
    return weight


def _zero(p):
    if p is not None:
        p.data.zero_()


def _linear(m):
    xavier_uniform_(m.weight)
    _zero(m.bias)


def _conv(m):
    kaiming_normal_(m.weight)
    _zero(m.bias)


def _embedding(m):
    m.weight.data.normal_(0.0, 0.02)
    if m.padding_idx is not None:
        m.weight.data[m.padding_idx].zero_()


def _norm(m):
    if m.weight is not None:
        m.weight.data.fill_(1.0)
    _zero(m.bias)


TABLE = {
    nn.Linear: _linear,
    nn.Conv1d: _conv,
    nn.Conv2d: _conv,
    nn.Embedding: _embedding,
    nn.LayerNorm: _norm,
    nn.BatchNorm1d: _norm,
    nn.BatchNorm2d: _norm,
}


def init_weights(module):
    for kind in type(module).__mro__:
        if kind in TABLE:
            TABLE[kind](module)
            break
