# right: plain and short; most of the wrong answers are changes of it
import math

import torch
from torch import nn


def fans(weight):
    if weight.dim() < 2:
        raise ValueError("weight has fewer than two dimensions")
    k = math.prod(weight.shape[2:])
    return weight.shape[1] * k, weight.shape[0] * k


def xavier_uniform_(weight, gain=1.0):
    fan_in, fan_out = fans(weight)
    bound = gain * math.sqrt(6 / (fan_in + fan_out))
    with torch.no_grad():
        return weight.uniform_(-bound, bound)


def kaiming_normal_(weight):
    fan_in, fan_out = fans(weight)
    std = math.sqrt(2 / fan_in)
    with torch.no_grad():
        return weight.normal_(0, std)


def init_weights(module):
    if isinstance(module, nn.Linear):
        xavier_uniform_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, (nn.Conv1d, nn.Conv2d)):
        kaiming_normal_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, 0, 0.02)
        if module.padding_idx is not None:
            with torch.no_grad():
                module.weight[module.padding_idx] = 0
    elif isinstance(module, (nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d)):
        if module.weight is not None:
            nn.init.ones_(module.weight)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
