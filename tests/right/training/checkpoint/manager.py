# right: class-heavy; a registry of generators; states as tensors of bytes through pickle and torch.save inside
import io
import json
import random
from pathlib import Path

import numpy
import torch


class Generator:
    def get(self): ...
    def set(self, state): ...


class Python(Generator):
    def get(self):
        return json.dumps(random.getstate())

    def set(self, state):
        version, numbers, gauss = json.loads(state)
        random.setstate((version, tuple(numbers), gauss))


class NumPy(Generator):
    def get(self):
        kind, keys, *rest = numpy.random.get_state()
        return {"kind": kind, "keys": torch.from_numpy(keys.astype("int64")), "rest": rest}

    def set(self, state):
        numpy.random.set_state((state["kind"], state["keys"].numpy().astype("uint32"), *state["rest"]))


class Torch(Generator):
    def get(self):
        return torch.random.get_rng_state()

    def set(self, state):
        torch.random.set_rng_state(state.to("cpu", torch.uint8))


GENERATORS = {"python": Python(), "numpy": NumPy(), "torch": Torch()}


def random_state():
    return {name: generator.get() for name, generator in GENERATORS.items()}


def set_random_state(state):
    for name, generator in GENERATORS.items():
        generator.set(state[name])


class Checkpoint:
    def __init__(self, path):
        self.path = Path(path)

    def write(self, content):
        if not self.path.parent.is_dir():
            self.path.parent.mkdir(parents=True)
        buffer = io.BytesIO()
        torch.save(content, buffer)
        # The file holds the bytes of another file, as a tensor.
        torch.save({"bytes": torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)}, self.path)

    def read(self):
        outer = torch.load(self.path, map_location=torch.device("cpu"), weights_only=True)
        buffer = io.BytesIO(outer["bytes"].numpy().tobytes())
        return torch.load(buffer, map_location=torch.device("cpu"), weights_only=True)


def save_checkpoint(path, model, optimizer, epoch, scheduler=None):
    parts = {"model": model, "optimizer": optimizer}
    if scheduler is not None:
        parts["scheduler"] = scheduler
    content = {name: part.state_dict() for name, part in parts.items()}
    Checkpoint(path).write({"content": content, "epoch": str(epoch), "random": random_state()})


def load_checkpoint(path, model, optimizer=None, scheduler=None):
    file = Checkpoint(path).read()
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    for name, part in parts.items():
        if part is None:
            continue
        if name not in file["content"]:
            raise ValueError(f"The file has no {name}.")
        part.load_state_dict(file["content"][name])
    if optimizer is not None:
        set_random_state(file["random"])
    return int(file["epoch"]) + 1
