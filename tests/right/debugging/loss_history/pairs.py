# right: pairs in a deque, a list of epochs behind a property, gradients by autograd.grad
from collections import deque

import torch


class Meter:
    """A sum of products, one tensor; reset by taking it."""

    def __init__(self):
        self.pairs = deque()

    def add(self, value, weight):
        self.pairs.append((value, weight))

    def take(self):
        pairs, self.pairs = self.pairs, deque()
        weights = sum(weight for _, weight in pairs)
        return sum(value * (weight / weights) for value, weight in pairs)


class LossHistory:
    def __init__(self):
        self._epochs, self._meter = [], Meter()

    @property
    def epochs(self):
        return self._epochs

    def update(self, loss, size=1):
        if loss.numel() != 1 or len(loss.shape):
            raise ValueError(f"loss of shape {loss.shape}")
        if not size >= 1:
            raise ValueError(f"size={size}")
        clone = loss.clone().detach()
        self._meter.add(clone.double(), size)

    def end_epoch(self):
        if not self._meter.pairs:
            raise ValueError("end_epoch before update")
        self._epochs.append(self._meter.take().tolist())
        return self._epochs[-1]


def train_epoch(model, loader, loss_fn, optimizer, history):
    parameters = list(model.train().parameters())
    for inputs, targets in loader:
        loss = loss_fn(model(inputs), targets)
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters)):
            parameter.grad = gradient
        optimizer.step()
        history.update(loss, inputs.size()[0])
    return history.end_epoch()
