# right: states as texts and nested dicts; a context manager; keyword calls; a lock file's worth of caution; mmap-free handles
import base64
import collections
import contextlib
import pathlib
import random
import shutil

import numpy as np
import torch
from torch.serialization import load, save

SAFE = {"weights_only": True, "map_location": torch.device("cpu")}


def text(numbers, kind):
    return base64.b85encode(np.asarray(numbers, kind).tobytes()).decode()


def array(words, kind):
    return np.frombuffer(base64.b85decode(words), kind)


def random_state():
    version, numbers, kept = random.getstate()
    legacy = np.random.get_state(legacy=False)
    state = collections.OrderedDict()
    state["random"] = {"version": version, "numbers": text(numbers, "int64"), "kept": kept}
    state["np"] = {
        "key": text(legacy["state"]["key"], "uint32"),
        "more": (legacy["state"]["pos"], legacy["has_gauss"], legacy["gauss"]),
    }
    state["torch"] = text(torch.get_rng_state().numpy(), "uint8")
    state["cuda"] = [s.tolist() for s in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else []
    return state


def set_random_state(state):
    own = state["random"]
    random.setstate((own["version"], tuple(array(own["numbers"], "int64").tolist()), own["kept"]))
    np.random.set_state(("MT19937", array(state["np"]["key"], "uint32"), *state["np"]["more"]))
    torch.set_rng_state(torch.from_numpy(array(state["torch"], "uint8").copy()))
    for i, numbers in enumerate(state["cuda"]):
        if i < torch.cuda.device_count():
            torch.cuda.set_rng_state(torch.tensor(numbers, dtype=torch.uint8), i)


@contextlib.contextmanager
def replacing(path):
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as file:
        yield file
    shutil.move(beside, path)


def save_checkpoint(path, model, optimizer, epoch, scheduler=None):
    everything = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    everything.update(epoch=epoch, random=random_state(), torch=str(torch.__version__))
    if scheduler is not None:
        everything["scheduler"] = scheduler.state_dict()
    with replacing(path) as file:
        save(obj=everything, f=file)


def load_checkpoint(path, model, optimizer=None, scheduler=None):
    with open(path, "rb") as file:
        everything = load(f=file, **SAFE)
    if scheduler is not None and everything.get("scheduler") is None:
        raise ValueError("scheduler: there is none in the file")
    model.load_state_dict(state_dict=everything["model"])
    if optimizer is None:
        return everything["epoch"] + 1
    optimizer.load_state_dict(state_dict=everything["optimizer"])
    if scheduler is not None:
        scheduler.load_state_dict(everything["scheduler"])
    set_random_state(everything["random"])
    print(f"resumed from {path}")
    return everything["epoch"] + 1
