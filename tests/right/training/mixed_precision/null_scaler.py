# right: a scaler that does nothing in the place of None, autograd.grad, zeros instead of None, tensors as state
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor, nn


def underflow_fraction(values: Tensor, scale: float = 1.0) -> float:
    flat = values.detach().numpy().ravel()
    flat = flat[flat != 0]
    if flat.size == 0:
        return 0.0
    with np.errstate(all="ignore"):
        scaled = (flat * flat.dtype.type(scale)).astype(np.float16)
    return float(np.count_nonzero(scaled == 0) / flat.size)


class GradScaler:
    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:
        if not init_scale > 0.0:
            raise ValueError(f"init_scale={init_scale}")
        if not growth_factor > 1.0:
            raise ValueError(f"growth_factor={growth_factor}")
        if not (backoff_factor > 0.0 and backoff_factor < 1.0):
            raise ValueError(f"backoff_factor={backoff_factor}")
        if not growth_interval > 0:
            raise ValueError(f"growth_interval={growth_interval}")
        self.state = torch.tensor(float(init_scale), dtype=torch.float64)
        self.history: list[bool] = []
        self.found: list[bool] | None = None
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval

    def get_scale(self) -> float:
        return self.state.item()

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.state.to(loss.dtype)

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if self.found is not None:
            raise RuntimeError("twice")
        self.found = []
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                with torch.no_grad():
                    p.grad.copy_(p.grad / self.state)
                self.found.append(bool(p.grad.isnan().any() or p.grad.isinf().any()))

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        if self.found is None:
            self.unscale_(optimizer)
        if any(self.found):
            return False
        optimizer.step()
        return True

    def update(self) -> None:
        if any(self.found or []):
            self.state = self.state * self.backoff_factor
            self.history = []
        else:
            self.history.append(True)
        if len(self.history) == self.growth_interval:
            self.state = self.state * self.growth_factor
            self.history = []
        self.found = None


class Plain:
    def scale(self, loss):
        return loss

    def unscale_(self, optimizer):
        pass

    def step(self, optimizer):
        optimizer.step()

    update = nullcontext


def train_step(model: nn.Module, loss_fn, optimizer, inputs, targets, scaler=None, max_norm=None):
    scaler = scaler if scaler is not None else Plain()
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
    params = [p for p in model.parameters() if p.requires_grad]
    for p, g in zip(params, torch.autograd.grad(scaler.scale(loss), params, allow_unused=True)):
        p.grad = g
    scaler.unscale_(optimizer)
    if max_norm is not None:
        nn.utils.clip_grad_norm_(params, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return loss.tolist()
