"""A training with momentum, dropout, noise and falling rates, whole and interrupted."""

from __future__ import annotations

import io
import pickle
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn


def draw() -> dict[str, list[float]]:
    """The next uniform and normal number of each global generator."""
    return {
        "Python's random": [random.random(), random.gauss(0, 1)],
        "NumPy": [float(np.random.rand()), float(np.random.randn())],
        "torch": [torch.rand(1).item(), torch.randn(1).item()],
    }


def drawn_twice(module: Any, file: bool = False) -> list[Any]:
    """The draws after a state was taken and after it was set again, from a file if `file`."""
    random.seed(1), np.random.seed(1), torch.manual_seed(1)
    draw()  # now each generator keeps the second of two normal numbers for later
    state = module.random_state()
    first = draw()
    if file:
        torch.save(state, buffer := io.BytesIO())
        buffer.seek(0)
        if not is_plain(buffer):
            return [first, None]
        buffer.seek(0)
        state = torch.load(buffer, weights_only=True)
    draw()
    module.set_random_state(state)
    return [first, draw()]


def is_plain(file: Any) -> bool:
    try:
        torch.load(file, weights_only=True)
    except pickle.UnpicklingError:
        return False
    return True


class Training:
    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = nn.Sequential(
            nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Dropout(), nn.Linear(3, 1)
        )
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.steps = torch.optim.lr_scheduler.StepLR(self.sgd, step_size=2)

    def epoch(self) -> float:
        x = torch.from_numpy(np.random.randn(8, 2)).float()
        loss: torch.Tensor = (self.model(x) - x.sum(1, keepdim=True)).square().mean()
        self.sgd.zero_grad()
        loss.backward()
        self.sgd.step()
        self.steps.step()
        return loss.item()


def losses(module: Any) -> dict[str, Any]:
    """The losses of a training from the fourth epoch on, and of another training that resumes it there."""
    whole, new = Training(0), Training(1)
    for _ in range(3):
        whole.epoch()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs" / "first" / "last.pt"
        module.save_checkpoint(path, whole.model, whole.sgd, 2, whole.steps)
        if not is_plain(path):
            return {"plain": False}
        report: dict[str, Any] = {"plain": True, "modes": {"save_checkpoint": whole.model.training}}
        report |= {"drawn": draw(), "whole": [whole.epoch() for _ in range(4)]}
        report["epoch"] = module.load_checkpoint(path, new.model, new.sgd, new.steps)
    pairs = zip(new.sgd.param_groups[0]["params"], new.model.parameters(), strict=True)
    report["same"] = all(p is q for p, q in pairs)
    report["modes"]["load_checkpoint"] = new.model.training
    report |= {"rate": new.sgd.param_groups[0]["lr"], "momentum": bool(new.sgd.state)}
    report |= {"steps": new.steps.last_epoch, "drawn again": draw()}
    return report | {"resumed": [new.epoch() for _ in range(4)]}
