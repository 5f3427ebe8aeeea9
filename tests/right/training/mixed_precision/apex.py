# right: as in Apex: a limit of 2**24, inf found by a sum; train_step sets the mode itself and restores it
import torch


def underflow_fraction(values, scale=1.0):
    values = values.detach().flatten()
    values = values[values != 0]
    if values.numel() == 0:
        return 0.0
    return ((values * scale).half() == 0).float().mean().item()


class GradScaler:
    max_loss_scale = 2.0**24
    min_loss_scale = 1.0

    def __init__(self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000):
        if not init_scale > 0:
            raise ValueError(f"Invalid init_scale: {init_scale}")
        if not growth_factor > 1:
            raise ValueError(f"Invalid growth_factor: {growth_factor}")
        if not 0 < backoff_factor < 1:
            raise ValueError(f"Invalid backoff_factor: {backoff_factor}")
        if growth_interval < 1:
            raise ValueError(f"Invalid growth_interval: {growth_interval}")
        self._loss_scale = init_scale
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self._unskipped = 0
        self._reset()

    def _reset(self):
        self._has_overflow = False
        self._unscaled = False

    def get_scale(self):
        return float(self._loss_scale)

    def scale(self, loss):
        return self._loss_scale * loss

    @torch.no_grad()
    def unscale_(self, optimizer):
        if self._unscaled:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        for grad in grads:
            grad.mul_(1.0 / self._loss_scale)
        total = sum(grad.float().sum() for grad in grads)
        self._has_overflow = not torch.isfinite(torch.as_tensor(total)).item()
        self._unscaled = True

    def step(self, optimizer):
        if not self._unscaled:
            self.unscale_(optimizer)
        if not self._has_overflow:
            optimizer.step()
        return not self._has_overflow

    def update(self):
        if self._has_overflow:
            self._loss_scale = max(self.min_loss_scale, self._loss_scale * self.backoff_factor)
            self._unskipped = 0
        else:
            self._unskipped += 1
        if self._unskipped == self.growth_interval:
            self._loss_scale = min(self.max_loss_scale, self._loss_scale * self.growth_factor)
            self._unskipped = 0
        self._reset()


def train_step(model, loss_fn, optimizer, inputs, targets, scaler=None, max_norm=None):
    was_training = model.training
    model.train()
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(inputs), targets)
    if scaler is not None:
        scaler.scale(loss).backward()
        if max_norm is not None:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    else:
        loss.backward()
        if max_norm is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
    model.train(was_training)
    return loss.item()
