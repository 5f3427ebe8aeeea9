# right: an exception tells of the overflow, a generator of gradients, a decorator for autocast
import math

import torch


class Overflow(Exception):
    pass


def underflow_fraction(values, scale=1.0):
    numbers = [v for v in values.detach().reshape(-1) if v != 0]
    lost = [v for v in numbers if (v * scale).to(torch.float16).item() == 0.0]
    return len(lost) / len(numbers) if numbers else 0.0


def gradients(optimizer):
    for group in optimizer.param_groups:
        yield from (p.grad.data for p in group["params"] if p.grad is not None)


class GradScaler:
    unscaled = overflow = False
    in_a_row = 0

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        self.current = init_scale
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        try:
            assert init_scale > 0, "init_scale"
            assert growth_factor > 1, "growth_factor"
            assert 0 < backoff_factor < 1, "backoff_factor"
            assert growth_interval >= 1, "growth_interval"
        except AssertionError as error:
            raise ValueError(*error.args) from None

    def get_scale(self):
        return self.current * 1.0

    def scale(self, loss):
        return torch.mul(self.current, loss)

    def unscale_(self, optimizer):
        if self.unscaled:
            raise RuntimeError("gradients are real already")
        self.unscaled = True
        for g in gradients(optimizer):
            g /= self.current
            self.overflow = self.overflow or not math.isfinite(g.abs().sum(dtype=torch.float64).item())

    def real(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if self.overflow:
            raise Overflow
        return optimizer

    def step(self, optimizer):
        try:
            self.real(optimizer).step()
        except Overflow:
            return False
        else:
            return True

    def update(self):
        self.in_a_row = 0 if self.overflow else self.in_a_row + 1
        if self.overflow or self.in_a_row == self.growth_interval:
            self.current *= self.backoff_factor if self.overflow else self.growth_factor
            self.in_a_row = 0
        self.unscaled = self.overflow = False


@torch.autocast("cpu", dtype=torch.bfloat16)
def forward(model, loss_fn, inputs, targets):
    return loss_fn(model.forward(inputs), targets)


def train_step(model, loss_fn, optimizer, inputs, targets, scaler=None, max_norm=None):
    model.zero_grad()
    loss = forward(model, loss_fn, inputs, targets)
    result = loss.detach().clone().item()
    if scaler is None:
        loss.backward()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        return result
    scaler.scale(loss).backward()
    if max_norm:
        scaler.unscale_(optimizer=optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=max_norm)
    scaler.step(optimizer=optimizer)
    scaler.update()
    return result
