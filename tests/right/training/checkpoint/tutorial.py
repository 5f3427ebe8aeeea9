# right: the layout of PyTorch's tutorial, with a dict of states and a message that names the missing key
import os
import pickle
import random

import numpy as np
import torch


def random_state():
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "python_state": random.getstate(),
        "numpy_state": {
            "name": str(name),
            "keys": keys.tolist(),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "cached": float(cached),
        },
        "torch_state": torch.get_rng_state(),
        "cuda_states": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state):
    random.setstate(state["python_state"])
    numpy_state = state["numpy_state"]
    keys = np.array(numpy_state["keys"], dtype=np.uint32)
    np.random.set_state(
        (
            numpy_state["name"],
            keys,
            numpy_state["position"],
            numpy_state["has_gauss"],
            numpy_state["cached"],
        )
    )
    torch.set_rng_state(state["torch_state"])
    if torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda_states"])


def save_checkpoint(path, model, optimizer, epoch, scheduler=None):
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    checkpoint = {
        "epoch": epoch,
        "model_state_dict": model.state_dict(),
        "optimizer_state_dict": optimizer.state_dict(),
        "random_state": random_state(),
    }
    if scheduler is not None:
        checkpoint["scheduler_state_dict"] = scheduler.state_dict()
    torch.save(checkpoint, path)


def load_checkpoint(path, model, optimizer=None, scheduler=None):
    device = next(model.parameters()).device
    try:
        checkpoint = torch.load(path, map_location=device, weights_only=True)
    except pickle.UnpicklingError as error:
        raise RuntimeError(f"{path} is no checkpoint") from error
    if scheduler is not None and "scheduler_state_dict" not in checkpoint:
        raise ValueError("checkpoint without scheduler_state_dict")
    model.load_state_dict(checkpoint["model_state_dict"])
    if optimizer:
        optimizer.load_state_dict(checkpoint["optimizer_state_dict"])
        if scheduler:
            scheduler.load_state_dict(checkpoint["scheduler_state_dict"])
        set_random_state({key: state for key, state in checkpoint["random_state"].items()})
    return checkpoint["epoch"] + 1
