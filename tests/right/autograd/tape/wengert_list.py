# right: numbers of Values in the order of their making, a heap instead of a sorted graph; einsum, only leaves keep grad
import heapq
import itertools

import torch

COUNTER = itertools.count()


def unbroadcast(gradient, shape):
    while gradient.dim() > len(shape):
        gradient = gradient.sum(0)
    for dim, size in enumerate(shape):
        if gradient.shape[dim] != size:
            gradient = gradient.sum(dim, keepdim=True)
    return gradient


class Value:
    def __init__(self, data, edges=()):
        self.data = data.to(torch.float64) if torch.is_tensor(data) else torch.tensor(float(data)).double()
        self.grad = None
        self.number = next(COUNTER)
        self.edges = edges

    def __add__(self, other):
        if not isinstance(other, Value):
            return Value(self.data + other, [(self, lambda g: g)])
        return Value(
            self.data + other.data,
            [
                (self, lambda g: unbroadcast(g, self.data.shape)),
                (other, lambda g: unbroadcast(g, other.data.shape)),
            ],
        )

    __radd__ = __add__

    def __mul__(self, other):
        if not isinstance(other, Value):
            return Value(self.data * other, [(self, lambda g: other * g)])
        return Value(
            torch.mul(self.data, other.data),
            [
                (self, lambda g: unbroadcast(other.data * g, self.data.size())),
                (other, lambda g: unbroadcast(self.data * g, other.data.size())),
            ],
        )

    __rmul__ = __mul__

    def __sub__(self, other):
        return self + other * -1

    def __matmul__(self, other):
        return Value(
            self.data.mm(other.data),
            [
                (self, lambda g: torch.einsum("nm,km->nk", g, other.data)),
                (other, lambda g: torch.einsum("nk,nm->km", self.data, g)),
            ],
        )

    def relu(self):
        mask = self.data > 0
        return Value(torch.where(mask, self.data, 0.0), [(self, lambda g: torch.where(mask, g, 0.0))])

    def sum(self, dim=None):
        axes = tuple(range(self.data.dim())) if dim is None else (dim % self.data.dim(),)
        kept = [1 if i in axes else n for i, n in enumerate(self.data.shape)]
        summed = self.data.sum(axes) if axes else self.data
        ones = torch.ones_like(self.data)
        return Value(summed, [(self, lambda g: g.reshape(kept) * ones)])

    def backward(self, gradient=None):
        waiting = {self.number: (self, torch.ones_like(self.data) if gradient is None else gradient)}
        heap = [-self.number]
        while heap:
            value, g = waiting.pop(-heapq.heappop(heap))
            if not value.edges:
                value.grad = g if value.grad is None else g + value.grad
            for parent, pull in value.edges:
                if parent.number in waiting:
                    waiting[parent.number] = parent, waiting[parent.number][1] + pull(g)
                else:
                    waiting[parent.number] = parent, pull(g)
                    heapq.heappush(heap, -parent.number)
