# right: _foreach_ operators, an enum for the state, everything inside autocast, own clipping
import enum
import itertools

import torch


class State(enum.Enum):
    SCALED = 0
    GOOD = 1
    BAD = 2


def underflow_fraction(values, scale=1.0):
    with torch.no_grad():
        given = values.count_nonzero().item()
        zero = torch.logical_and(values, torch.logical_not((values * scale).half()))
        return zero.count_nonzero().item() / given if given else 0.0


class GradScaler:
    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        checks = {
            "init_scale": init_scale > 0,
            "growth_factor": growth_factor > 1,
            "backoff_factor": 0 < backoff_factor < 1,
            "growth_interval": growth_interval >= 1,
        }
        for name, fine in checks.items():
            if not fine:
                raise ValueError(f"{name} is out of its range")
        self._factor, self._options = init_scale, (growth_factor, backoff_factor, growth_interval)
        self._state, self._good = State.SCALED, 0

    def get_scale(self):
        return float(self._factor)

    def scale(self, loss):
        return loss.mul(self._factor)

    @torch.no_grad()
    def unscale_(self, optimizer):
        if self._state is not State.SCALED:
            raise RuntimeError("already unscaled")
        params = itertools.chain.from_iterable(group["params"] for group in optimizer.param_groups)
        grads = [p.grad for p in params if p.grad is not None]
        if grads:
            torch._foreach_div_(grads, self._factor)
        sums = [torch.linalg.vector_norm(g, float("inf")).item() for g in grads]
        self._state = State.GOOD if all(s - s == 0 for s in sums) else State.BAD

    def step(self, optimizer):
        if self._state is State.SCALED:
            self.unscale_(optimizer)
        stepped = self._state is State.GOOD
        if stepped:
            optimizer.step()
        return stepped

    def update(self):
        growth, backoff, interval = self._options
        if self._state is State.BAD:
            self._factor, self._good = max(self._factor * backoff, 1e-9), 0
        else:
            self._good += 1
            if self._good % interval == 0:
                self._factor = min(self._factor * growth, 1e15)
        self._state = State.SCALED


def train_step(model, loss_fn, optimizer, inputs, targets, scaler=None, max_norm=None):
    for p in model.parameters():
        p.grad = None
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs).float(), targets)
        (scaler.scale(loss) if scaler else loss).backward()
    if max_norm is not None:
        if scaler:
            scaler.unscale_(optimizer)
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        norm = torch.stack([g.norm() for g in grads]).norm()
        if norm > max_norm:
            for g in grads:
                g *= max_norm / norm
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    return float(loss.detach())
