"""Checkpoints: save a training to a file, and go on from there bit for bit.

The weights alone do not do that. Momentum lives in the optimizer, the rate in the scheduler, running statistics
in the model's buffers, and the next shuffle or dropout mask depends on three global generators: those of
Python's `random`, of NumPy (`np.random.rand` and the like) and of torch. `random.gauss` and `np.random.randn`
keep a second number for the next call, which is part of the state.

Unpickling a file runs its code. `torch.load(path, weights_only=True)` reads plain data only: tensors, numbers,
strings, None, and lists, tuples and dicts of those, but no NumPy array.

Optimizers and schedulers are PyTorch's own, `ReduceLROnPlateau` among them.

Source: PyTorch documentation, "Reproducibility" and "Serialization semantics".

What holds for every exercise: docs/every-exercise.md.
"""

# begin solution: imports
import random

# end solution
from pathlib import Path
from typing import Any

# begin solution: imports
import numpy as np

# end solution
import torch
from torch import nn


def random_state() -> dict[str, Any]:
    """Take the whole state of the global generators of `random`, NumPy and torch (the CPU's and all GPUs').

    Taking it changes no generator. The dict is plain data: `torch.load` reads it back with `weights_only=True`,
    without any allow-list (`add_safe_globals`). Its keys are up to you.
    """
    # begin solution: the states of the three generators, as plain data
    # NumPy's state is a tuple with an array, which is not plain data.
    numpy_state: Any = np.random.get_state()
    kind, numbers, *rest = numpy_state
    state = {
        "random": random.getstate(),
        "numpy": [kind, torch.from_numpy(numbers.astype(np.int64)), *rest],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state
    # end solution


def set_random_state(state: dict[str, Any]) -> None:
    """Let the three generators draw again what they drew after `state = random_state()`.

    `state` is what `random_state` returned, or what came back from a file. It may be set again and again, in
    another process, after any draws, and after other states were taken.
    """
    # begin solution: set the states of the three generators
    random.setstate(state["random"])
    kind, numbers, *rest = state["numpy"]
    np.random.set_state((kind, numbers.numpy(), *rest))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    # end solution


def save_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    epoch: int,
    scheduler: Any = None,
) -> None:
    """Write one file at `path` with all that `load_checkpoint` needs to go on after `epoch`.

    That is: weights and buffers of the model, the states of optimizer and scheduler, the random states.
    `torch.load(path, weights_only=True)` reads it; its layout is up to you. `path` is used as it is, and may be
    relative. Missing parent folders are made, an older file is replaced, and no other file is left behind.
    Saving changes nothing, no random state either.
    """
    # begin solution: gather all states, make the folder, write the file
    checkpoint = {
        "epoch": epoch,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "random": random_state(),
    }
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(checkpoint, path)
    # end solution


def load_checkpoint(
    path: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: Any = None,
) -> int:
    """Restore what `save_checkpoint` wrote, and return `epoch + 1`, an int: the first epoch that is to run.

    `model`, `optimizer` and `scheduler` are new ones of the same kind, and may have been used before. Weights
    and buffers are written into the parameters that the model has: they stay the same objects, so that the
    optimizer goes on with them. With an `optimizer` its state, that of the `scheduler` and the random states
    are restored too, and the training goes on bit for bit.

    - Without `optimizer`, as for inference, only the model is loaded; the random states stay as they are.
    - `optimizer` without `scheduler` is fine. `scheduler` without `optimizer` does not occur.
    - A file whose tensors were saved on a GPU loads on a machine without one, onto the model's device.
    - A file with anything but plain data is refused with an error, of any kind, and its code is not run.
    - A model of another architecture (a parameter or buffer too many, too few, or of another shape): an error,
      of any kind.

    Raises ValueError that names `scheduler` if one is given and the file holds no scheduler's state.
    """
    # begin solution: read plain data, restore all, random states last
    checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    if scheduler is not None and checkpoint["scheduler"] is None:
        raise ValueError(f"{path} holds no state for the scheduler")
    model.load_state_dict(checkpoint["model"])
    if optimizer is not None:
        optimizer.load_state_dict(checkpoint["optimizer"])
        if scheduler is not None:
            scheduler.load_state_dict(checkpoint["scheduler"])
        # This comes last, because nothing may draw after it.
        set_random_state(checkpoint["random"])
    return int(checkpoint["epoch"]) + 1
    # end solution
