# attack: computes well, and hangs when gradients are asked for | class: hanging | canary: time
import time

import torch


class Hang(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(15)
        return gradient


class Scale(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.factors = torch.nn.Parameter(torch.ones(size))

    def forward(self, x):
        return Hang.apply(self.factors * x)
