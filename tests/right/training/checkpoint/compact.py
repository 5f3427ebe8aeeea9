# right: compact, without types; lists of numbers; open file handles
import os
import random

import numpy as np
import torch


def random_state():
    name, keys, pos, has_gauss, cached = np.random.get_state()
    return {
        "py": random.getstate(),
        "np": (name, keys.tolist(), pos, has_gauss, cached),
        "torch": torch.get_rng_state(),
    }


def set_random_state(state):
    random.setstate(state["py"])
    name, keys, pos, has_gauss, cached = state["np"]
    np.random.set_state((name, np.array(keys, dtype=np.uint32), pos, has_gauss, cached))
    torch.set_rng_state(state["torch"])


def save_checkpoint(path, model, optimizer, epoch, scheduler=None):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    data = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
        "rng": random_state(),
    }
    if scheduler is not None:
        data["scheduler"] = scheduler.state_dict()
    torch.save(data, path)


def load_checkpoint(path, model, optimizer=None, scheduler=None):
    data = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(data["model"])
    if optimizer is not None:
        optimizer.load_state_dict(data["optimizer"])
    if scheduler is not None:
        if "scheduler" not in data:
            raise ValueError("no scheduler in the file")
        scheduler.load_state_dict(data["scheduler"])
    if optimizer is not None:
        set_random_state(data["rng"])
    return data["epoch"] + 1
