# right: a dataclass, a buffer that is written in place, the mean taken in NumPy, losses kept by train_epoch itself
from dataclasses import dataclass, field

import torch
from torch import Tensor


def precise(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


@dataclass
class LossHistory:
    epochs: list[float] = field(default_factory=list)
    running: Tensor = None
    count: int = 0
    verbose: bool = False

    def update(self, loss: Tensor, size: int = 1) -> None:
        if loss.shape != ():
            raise ValueError(f"expected a scalar loss, not {tuple(loss.shape)}")
        if size < 1:
            raise ValueError(f"bad size {size}")
        if self.count == 0:
            self.running = torch.zeros((), dtype=precise(loss.dtype), device=loss.device)
        self.running.add_(loss.data.to(self.running.dtype), alpha=size)
        self.count += size

    def end_epoch(self) -> float:
        if self.count == 0:
            raise ValueError("nothing to average")
        total, self.count = self.running.div_(self.count), 0
        mean = total.to("cpu").numpy().item()
        self.epochs.append(mean)
        return mean


def train_epoch(model, loader, loss_fn, optimizer, history):
    model.train(True)
    pairs = []
    for batch in loader:
        inputs, targets = batch

        def closure(inputs=inputs, targets=targets):
            optimizer.zero_grad(set_to_none=False)
            loss = loss_fn(model(inputs), targets)
            loss.backward()
            return loss

        pairs.append((optimizer.step(closure), inputs.size(0)))
    for loss, size in pairs:
        history.update(loss.detach(), size)
    return history.end_epoch()
