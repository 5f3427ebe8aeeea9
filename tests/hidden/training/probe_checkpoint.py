"""Trainings that use all three generators, saved and resumed, and reports on their contents and draws."""

from __future__ import annotations

import contextlib
import copy
import io
import os
import random
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import lr_scheduler

SCHEDULERS: dict[str, Any] = {
    "ReduceLROnPlateau": {"patience": 1},
    "OneCycleLR": {"max_lr": 0.2, "total_steps": 60},
}
# The globals in a file with a NumPy array.
ARRAYS: list[Any] = [np.ndarray, np.dtype, type(np.dtype("uint32")), type(np.dtype("int64"))]
ARRAYS.append(np.zeros(1).__reduce__()[0])
# The number of epochs that a training runs before it is saved; "unstarted" is saved before its first step.
EPOCHS = 2
# The number for the objects that load_checkpoint gets. It is different, so that it shows in a scheduler.
OTHER_EPOCHS = 1


# --- random states -------------------------------------------------------------------------------


def draws() -> dict[str, Any]:
    """The next uniform and normal numbers of each global generator, whose state is then restored."""
    states: Any = random.getstate(), np.random.get_state(), torch.get_rng_state()
    numbers = {
        "Python's random": {
            "uniform": [random.random() for _ in range(20)],
            "normal": random.gauss(0, 1),
        },
        "NumPy": {"uniform": np.random.rand(20).tolist(), "normal": np.random.randn(2).tolist()},
        "torch": {"uniform": torch.rand(20).tolist(), "normal": torch.randn(2).tolist()},
    }
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    return numbers


def arrange(state: dict[str, Any]) -> None:
    """Put all generators into this state. No seed leads to it, so nobody can repeat its draws with a seed."""
    pythons, numpys = state["Python's random"], state["NumPy"]
    words = (*pythons["words"].tolist(), pythons["position"])
    random.setstate((3, words, pythons["normal"]))
    numpys_words = np.array(numpys["words"].tolist(), dtype=np.uint32)
    in_hand = (0, 0.0) if numpys["normal"] is None else (1, numpys["normal"])
    np.random.set_state(("MT19937", numpys_words, numpys["position"], *in_hand))
    torch.set_rng_state(state["torch"])


def taken(module: Any, state: dict[str, Any], disturbances: list[Any]) -> dict[str, Any]:
    """The draws after a state was taken, and each time after it was set again."""
    arrange(state)
    own = module.random_state()
    after = draws()
    return {"taken": after, "set": draws_after_setting(module, own, disturbances)}


def written(module: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Whether a state is a dict, the bytes of its file, and the error of torch.load if it refuses the file."""
    arrange(state)
    own = module.random_state()
    file = io.BytesIO()
    with contextlib.suppress(Exception):  # then there is nothing to read
        torch.save(own, file)
    file.seek(0)
    error, _ = read(file)
    return {"dict": isinstance(own, dict), "error": error, "file": file.getvalue()}


def from_file(module: Any, file: bytes, disturbances: list[Any]) -> list[Any]:
    """The draws each time after setting a state that another process has written."""
    _, state = read(io.BytesIO(file))
    return draws_after_setting(module, state, disturbances)


def draws_after_setting(module: Any, state: Any, disturbances: list[Any]) -> list[Any]:
    """The draws each time after this state was set, with the generators disturbed before.

    A disturbance is a pair of states. In the first, random_state is called; in the second, this state is set.
    """
    drawn = []
    for taken_in, set_in in disturbances:
        arrange(taken_in)
        module.random_state()
        arrange(set_in)
        module.set_random_state(state)
        drawn.append(draws())
    return drawn


def read(file: Any) -> tuple[str | None, Any]:
    """The error of torch.load without an allow-list, or None, and the data."""
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        return None, torch.load(file, weights_only=True)
    except Exception as error:  # noqa: BLE001 (a file may be anything)
        alien = re.search(r"GLOBAL (\S+)", str(error))
        return f"refuses {alien[1]}" if alien else f"raises {type(error).__name__}", None
    finally:
        torch.serialization.add_safe_globals(allowed)


# --- trainings -----------------------------------------------------------------------------------


class Training:
    """A training with noise, dropout and a frozen bias, in float64 with OneCycleLR.

    `kind` is the name of its scheduler, or "unstarted" if it has none. `start` has "weights", "inputs", and the
    "state" of all generators before the first epoch.
    """

    def __init__(self, kind: str, start: dict[str, Any], epochs: int) -> None:
        self.inputs = start["inputs"]
        self.model = network(width_of(start))
        self.model.load_state_dict(start["weights"], strict=False)
        if kind == "OneCycleLR":
            self.model.double()
        self.model[3].bias.requires_grad_(False)
        first, *rest = self.model.parameters()
        groups: list[Any] = [{"params": [first]}, {"params": rest, "lr": 0.02}]
        self.optimizer: Any = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
        if kind == "ReduceLROnPlateau":
            self.optimizer = torch.optim.AdamW(groups, lr=0.05, amsgrad=True)
        self.scheduler: Any = None
        if kind in SCHEDULERS:
            self.scheduler = getattr(lr_scheduler, kind)(self.optimizer, **SCHEDULERS[kind])
        arrange(start["state"])
        for _ in range(epochs):
            self.run_epoch()

    def run_epoch(self) -> dict[str, Any]:
        """Train for an epoch, and report all facts."""
        x = self.inputs.to(next(self.model.parameters()))
        self.model.train()
        for rows in torch.randperm(len(x)).split(4):
            output = self.model(x[rows] + 0.1 * torch.randn(len(rows), 3).to(x))
            loss = (output - x[rows].sum(1, keepdim=True)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau):
                self.scheduler.step(loss.item())
            elif self.scheduler is not None:
                self.scheduler.step()
        return self.facts()

    def facts(self) -> dict[str, Any]:
        """The training's contents, and its next draws."""
        parameters = dict(self.model.named_parameters())
        state, groups = self.optimizer.state, self.optimizer.param_groups
        scheduler = {}
        if self.scheduler is not None:
            scheduler = self.scheduler.state_dict()
        plain = (bool, int, float, str, list)
        return {
            "weights": {name: p.detach().clone() for name, p in parameters.items()},
            "buffers": {name: buffer.clone() for name, buffer in self.model.named_buffers()},
            "state": [copy.deepcopy(state.get(p, {})) for p in parameters.values()],
            "options": [{k: v for k, v in g.items() if k != "params"} for g in groups],
            "scheduler": {k: copy.copy(v) for k, v in scheduler.items() if isinstance(v, plain)},
            "draws": draws(),
            "modes": [part.training for part in self.model.modules()],
            "gradients": [None if p.grad is None else p.grad.clone() for p in parameters.values()],
            "requires_grad": [p.requires_grad for p in parameters.values()],
            "grad mode": torch.is_grad_enabled(),
        }

    def objects(self) -> list[int]:
        """The ids of the parameters."""
        return [id(parameter) for parameter in self.model.parameters()]


def width_of(start: dict[str, Any]) -> int:
    return len(start["weights"]["0.bias"])


def network(width: int, *extra: nn.Module, outputs: int = 1) -> nn.Sequential:
    layers = nn.Linear(3, width), nn.BatchNorm1d(width), nn.Dropout(0.5), nn.Linear(width, outputs)
    return nn.Sequential(*layers, *extra)


def to_save(kind: str, start: dict[str, Any]) -> Training:
    """A training that is ready to be saved, with a part of the model in evaluation mode."""
    training = Training(kind, start, 0 if kind == "unstarted" else EPOCHS)
    training.model[3].eval()
    return training


# --- files ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Work in a new folder, in which torch.load also accepts files with NumPy arrays.

    `read` judges whether a file is plain data.
    """
    allowed = torch.serialization.safe_globals(ARRAYS)
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name), allowed:
        yield Path(name)


def saved(module: Any, kind: str, start: dict[str, Any], epoch: int) -> dict[str, Any]:
    """The state of a training after it was saved, and the bytes of the file, if there is one."""
    training = to_save(kind, start)
    before = training.objects()
    with folder() as place:
        path = place / "saved.pt"
        objects = training.model, training.optimizer, epoch, training.scheduler
        module.save_checkpoint(str(path), *objects)
        content = path.read_bytes() if path.is_file() else None
    kept = training.objects() == before
    return {"same objects": kept, "after": training.facts(), "file": content}


def saved_on_a_gpu(module: Any, *arguments: Any) -> dict[str, Any]:
    """The same report, with a file that says that its tensors were on a GPU."""
    tag = torch.serialization.location_tag
    torch.serialization.location_tag = lambda storage: "cuda:0"
    try:
        return saved(module, *arguments)
    finally:
        torch.serialization.location_tag = tag


def resumed(
    module: Any,
    kind: str,
    start: dict[str, Any],
    disturbance: dict[str, Any],
    file: bytes,
    names: list[str],
) -> dict[str, Any]:
    """The state of a training that resumes from a file, in a process that knows nothing of the saved training.

    Its objects have been used before. load_checkpoint gets those in `names`.
    """
    training = Training(kind, start, OTHER_EPOCHS)
    arrange(disturbance)
    training.model[:3].eval()
    before = training.objects()
    objects = [getattr(training, name) for name in names]
    with folder() as place:
        path = place / "saved.pt"
        path.write_bytes(file)
        value = module.load_checkpoint(str(path), *objects)
        loaded = training.facts()
        later = None
        if "optimizer" in names:
            later = training.run_epoch()
        # A file may be loaded more than once, also by objects that have gone on since.
        again = module.load_checkpoint(Path("saved.pt"), *objects)
    return {
        "values": [value, again],
        "same objects": training.objects() == before,
        "loaded": loaded,
        "an epoch later": later,
        "loaded again": training.facts(),
    }


def files(module: Any, start: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    """The files in a folder after one checkpoint replaced a larger file and another went into new folders.

    One path is a Path, the other a string. The report has the error of torch.load for each file.
    """
    training = Training("unstarted", start, 0)
    with folder() as place:
        Path(old).write_bytes(b"old" * 40_000)
        for path in (Path(old), new):
            module.save_checkpoint(path, training.model, training.optimizer, 3)
        names = sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())
        return {"files": names, "errors": [read(place / name)[0] for name in names]}


# --- what is refused -----------------------------------------------------------------------------


def without_scheduler(module: Any, start: dict[str, Any]) -> None:
    """Load a checkpoint with a scheduler, though it was saved without one."""
    training = Training("OneCycleLR", start, 0)
    model, optimizer = training.model, training.optimizer
    with folder():
        module.save_checkpoint("saved.pt", model, optimizer, 3)
        module.load_checkpoint("saved.pt", model, optimizer, training.scheduler)


class Flag:
    """Code in a file. Unpickling it makes a folder."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)


def code_inside(module: Any, start: dict[str, Any]) -> dict[str, Any]:
    """The report on load_checkpoint for a checkpoint with code in it."""
    training = Training("unstarted", start, 0)
    with folder():
        module.save_checkpoint("saved.pt", training.model, training.optimizer, 3)
        _, content = read("saved.pt")
        torch.save([content, Flag()], "saved.pt")
        if isinstance(content, dict):
            torch.save({**content, "extra": Flag()}, "saved.pt")
        return refusal(module, training.model)


def other_models(module: Any, start: dict[str, Any]) -> dict[str, Any]:
    """The reports on load_checkpoint for models of other architectures, by the difference."""
    training, width = Training("unstarted", start, 0), width_of(start)
    models = {
        "more layers": network(width, nn.Linear(1, 1)),
        "fewer layers": network(width)[:3],
        "more outputs": network(width, outputs=2),  # copy_ would broadcast to these
        "more buffers": network(width, nn.BatchNorm1d(1, affine=False)),
    }
    with folder():
        module.save_checkpoint("saved.pt", training.model, training.optimizer, 3)
        return {changed: refusal(module, model) for changed, model in models.items()}


def refusal(module: Any, model: nn.Module) -> dict[str, Any]:
    """Whether load_checkpoint refuses the file for this model, and whether a Flag in it was unpickled."""
    refused = False
    try:
        module.load_checkpoint("saved.pt", model)
    except NotImplementedError:
        raise
    except Exception:  # noqa: BLE001 (an error of any kind is right)
        refused = True
    return {"refused": refused, "ran": Path("ran").exists()}
