# right: tensors copied by hand under no_grad; generators' own objects; load by memory map; one list as the layout
import random
from pathlib import Path

import numpy as np
import torch


def random_state():
    mt = np.random.mtrand._rand.get_state()
    return {
        0: list(random._inst.getstate()[1]),
        1: random._inst.gauss_next,
        2: [int(x) for x in mt[1]],
        3: [int(mt[2]), int(mt[3]), float(mt[4])],
        4: torch.default_generator.get_state(),
    }


def set_random_state(state):
    random._inst.setstate((3, tuple(state[0]), state[1]))
    pos, has, value = state[3]
    np.random.mtrand._rand.set_state(("MT19937", np.asarray(state[2], "uint32"), pos, has, value))
    torch.default_generator.set_state(state[4].cpu().clone())


def save_checkpoint(path, model, optimizer, epoch, scheduler=None):
    p = Path(path)
    for folder in reversed(p.parents):
        if not folder.exists():
            folder.mkdir()
    tensors = [(n, t.detach().cpu().clone()) for n, t in model.state_dict(keep_vars=True).items()]
    with p.open("wb") as f:
        torch.save(
            [tensors, optimizer.state_dict(), scheduler and scheduler.state_dict(), torch.tensor(epoch), random_state()],
            f,
        )


@torch.no_grad()
def load_checkpoint(path, model, optimizer=None, scheduler=None):
    tensors, opt, sched, epoch, rng = torch.load(path, map_location=lambda storage, location: storage, weights_only=True)
    if scheduler is not None and sched is None:
        raise ValueError("the scheduler has no state in this file")
    own = model.state_dict()
    if list(own) != [name for name, _ in tensors]:
        raise KeyError("another architecture")
    for name, tensor in tensors:
        if own[name].shape != tensor.shape:
            raise IndexError(name)
        own[name].copy_(tensor)
    if optimizer is not None:
        optimizer.load_state_dict(opt)
        if scheduler is not None:
            scheduler.load_state_dict(sched)
        set_random_state(rng)
    return int(epoch) + 1
