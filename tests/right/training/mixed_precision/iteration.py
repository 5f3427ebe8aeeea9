# right: an object for each iteration, ExitStack, scales as powers, backward hooks left alone, loss in float32
import dataclasses
import math
from contextlib import ExitStack
from typing import Optional

import torch


@dataclasses.dataclass
class Iteration:
    finite: Optional[bool] = None

    def unscale(self, optimizer, inverse):
        if self.finite is not None:
            raise RuntimeError("the gradients of this iteration are unscaled already")
        tensors = [p.grad for g in optimizer.param_groups for p in g["params"] if p.grad is not None]
        self.finite = True
        for tensor in tensors:
            with torch.no_grad():
                torch.mul(tensor, inverse, out=tensor)
            self.finite &= torch.equal(tensor - tensor, torch.zeros_like(tensor))


def underflow_fraction(values, scale=1.0):
    values = values.detach().flatten()
    values = values[values.abs() > 0]
    small = torch.isclose((values * scale).half(), torch.tensor(0.0).half(), rtol=0.0, atol=0.0)
    return small.sum().item() / max(len(values), 1)


class GradScaler(object):
    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        if min(init_scale, growth_interval) <= 0:
            raise ValueError("init_scale and growth_interval have to be positive")
        if growth_factor <= 1.0:
            raise ValueError("growth_factor has to be above 1")
        if not 0.0 < backoff_factor < 1.0:
            raise ValueError("backoff_factor has to be between 0 and 1")
        self.options = growth_factor, backoff_factor, growth_interval
        self.value, self.left, self.iteration = init_scale, growth_interval, Iteration()

    def get_scale(self):
        return float(self.value)

    def scale(self, loss):
        return self.value * loss

    def unscale_(self, optimizer):
        self.iteration.unscale(optimizer, 1.0 / self.value)

    def step(self, optimizer):
        if self.iteration.finite is None:
            self.unscale_(optimizer)
        if self.iteration.finite:
            optimizer.step()
        return self.iteration.finite

    def update(self):
        growth, backoff, interval = self.options
        if self.iteration.finite is False:
            self.value, self.left = self.value * backoff, interval
        elif self.left == 1:
            self.value, self.left = self.value * growth, interval
        else:
            self.left -= 1
        self.iteration = Iteration()


def train_step(model, loss_fn, optimizer, inputs, targets, scaler=None, max_norm=None):
    optimizer.zero_grad(set_to_none=True)
    with ExitStack() as stack:
        stack.enter_context(torch.amp.autocast("cpu", dtype=torch.bfloat16))
        loss = loss_fn(model(inputs).to(torch.float32), targets)
    target = optimizer
    if scaler is not None:
        target = None
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
    else:
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), math.inf if max_norm is None else max_norm)
    if target is None:
        scaler.step(optimizer), scaler.update()
    else:
        target.step()
    return loss.detach().double().item()
