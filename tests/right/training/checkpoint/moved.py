# right: written beside and moved; dataclass; np.random.get_state(legacy=False); a layout of tuples and bytes in tensors
from __future__ import annotations

import os
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor


@dataclass
class Snapshot:
    epoch: int
    weights: dict[str, Tensor]
    optimizer: dict[str, Any]
    scheduler: dict[str, Any] = field(default_factory=dict)
    rng: dict[str, Any] = field(default_factory=dict)


def numbers(text: str) -> list[int]:
    return list(text.encode())


def random_state() -> dict:
    legacy = np.random.get_state(legacy=False)
    version, internal, gauss = random.getstate()
    return {
        "torch.cpu": torch.random.get_rng_state().tolist(),
        "numpy": {
            "key": torch.from_numpy(legacy["state"]["key"].astype("int64")),
            "pos": int(legacy["state"]["pos"]),
            "has_gauss": int(legacy["has_gauss"]),
            "gauss": float(legacy["gauss"]),
        },
        "version": version,
        "internal": torch.tensor(internal, dtype=torch.int64),
        "gauss": gauss,
    }


def set_random_state(state: dict) -> None:
    torch.random.set_rng_state(torch.tensor(state["torch.cpu"], dtype=torch.uint8))
    mt = state["numpy"]
    np.random.set_state(
        {
            "bit_generator": "MT19937",
            "state": {"key": mt["key"].numpy().astype("uint32"), "pos": mt["pos"]},
            "has_gauss": mt["has_gauss"],
            "gauss": mt["gauss"],
        }
    )
    random.setstate((state["version"], tuple(state["internal"].tolist()), state["gauss"]))


def save_checkpoint(path, model, optimizer, epoch, scheduler=None) -> None:
    target = Path(path).expanduser().absolute()
    target.parent.mkdir(exist_ok=True, parents=True)
    shot = Snapshot(epoch, dict(model.state_dict()), optimizer.state_dict())
    if scheduler:
        shot.scheduler = scheduler.state_dict()
    shot.rng = random_state()
    descriptor, name = tempfile.mkstemp(dir=target.parent, suffix=".part")
    with os.fdopen(descriptor, "wb") as file:
        torch.save(vars(shot), file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(name, target)
    print("saved", target)


def load_checkpoint(path, model, optimizer=None, scheduler=None) -> int:
    device = next(model.parameters()).device
    with open(path, "rb") as file:
        shot = Snapshot(**torch.load(file, map_location=device, weights_only=True))
    if scheduler and not shot.scheduler:
        raise ValueError(f"scheduler given, but {path} has none")
    missing, unexpected = model.load_state_dict(shot.weights, strict=True)
    if optimizer:
        optimizer.load_state_dict(shot.optimizer)
    if scheduler:
        scheduler.load_state_dict(shot.scheduler)
    if optimizer:
        set_random_state(shot.rng)
    return shot.epoch + 1
