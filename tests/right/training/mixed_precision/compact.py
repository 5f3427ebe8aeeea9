# right: plain and short; most of the wrong answers are changes of it
import torch


def underflow_fraction(values, scale=1.0):
    nonzero = values != 0
    if not nonzero.any():
        return 0.0
    halves = (values * scale).to(torch.float16)
    return (halves[nonzero] == 0).double().mean().item()


class GradScaler:
    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        if init_scale <= 0:
            raise ValueError("init_scale")
        if growth_factor <= 1:
            raise ValueError("growth_factor")
        if backoff_factor <= 0 or backoff_factor >= 1:
            raise ValueError("backoff_factor")
        if growth_interval < 1:
            raise ValueError("growth_interval")
        self.s = float(init_scale)
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count = 0
        self.bad = False
        self.unscaled = False

    def get_scale(self):
        return self.s

    def scale(self, loss):
        return loss * self.s

    def unscale_(self, optimizer):
        if self.unscaled:
            raise RuntimeError("unscale_ was called twice")
        self.unscaled = True
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.mul_(1 / self.s)
                    if not torch.isfinite(p.grad).all():
                        self.bad = True

    def step(self, optimizer):
        if not self.unscaled:
            self.unscale_(optimizer)
        if self.bad:
            return False
        optimizer.step()
        return True

    def update(self):
        if self.bad:
            self.s *= self.backoff
            self.count = 0
        else:
            self.count += 1
            if self.count >= self.interval:
                self.s *= self.growth
                self.count = 0
        self.bad = False
        self.unscaled = False


def train_step(model, loss_fn, optimizer, inputs, targets, scaler=None, max_norm=None):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
    if scaler is None:
        loss.backward()
    else:
        scaler.scale(loss).backward()
    if max_norm is not None:
        if scaler is not None:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
    return loss.item()
