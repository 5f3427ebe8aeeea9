# right: a running sum in float64 under no_grad; keyword arguments; zero_grad of the model, after the step
from __future__ import annotations

import torch


class LossHistory:
    def __init__(self) -> None:
        self.epochs: list[float] = []
        self._start()

    def _start(self) -> None:
        self._sum: torch.Tensor | None = None
        self._n = 0

    @torch.no_grad()
    def update(self, loss: torch.Tensor, size: int = 1) -> None:
        if loss.ndim != 0:
            raise ValueError(f"loss: {loss.ndim} dimensions")
        if size <= 0:
            raise ValueError(f"size: {size}")
        if self._sum is None:
            self._sum = torch.zeros((), dtype=torch.float64, device=loss.device)
        self._sum += size * loss.double()
        self._n += size

    def end_epoch(self) -> float:
        if self._n == 0:
            raise ValueError
        self.epochs += [float(self._sum.cpu()) / self._n]
        self._start()
        return self.epochs[-1]


def train_epoch(model, loader, loss_fn, optimizer, history):
    for module in model.modules():
        module.training = True
    for inputs, targets in loader:
        outputs = model(inputs)
        loss = loss_fn(outputs, targets)
        loss.backward()
        optimizer.step()
        model.zero_grad()
        history.update(loss=loss, size=inputs.shape[0])
    history.end_epoch()
    model.eval()
    return history.epochs[-1]
