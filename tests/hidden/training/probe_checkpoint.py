"""Trainings that use all three generators, saved and resumed, and what they hold and draw, raw."""

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

SCHEDULERS: dict[str, Any] = {"StepLR": {"step_size": 4}, "ReduceLROnPlateau": {"patience": 1}}
SCHEDULERS["OneCycleLR"] = {"max_lr": 0.2, "total_steps": 60}


def draws() -> dict[str, Any]:
    """The next uniform and normal numbers of each global generator, which is put back where it was."""
    states: Any = random.getstate(), np.random.get_state(), torch.get_rng_state()
    numbers = {
        "Python's random": [[random.random() for _ in range(20)], random.gauss(0, 1)],
        "NumPy": [np.random.rand(20).tolist(), np.random.randn(2).tolist()],
        "torch": [torch.rand(20).tolist(), torch.randn(2).tolist()],
    }
    random.setstate(states[0])
    np.random.set_state(states[1])
    torch.set_rng_state(states[2])
    return numbers


def arrange(seed: int, kept: bool) -> dict[str, Any]:
    """Seed and use all generators, with a normal number in hand or without; the draws right after the seed."""
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
    first = draws()
    random.random(), np.random.rand(), torch.rand(1)
    if kept:
        random.gauss(0, 1), np.random.randn(), torch.randn(1)
    return first


def taken(module: Any, seed: int, kept: bool, file: bool, noises: list[int]) -> dict[str, Any]:
    """What is drawn after a state is taken, and each time after it is set, or the bytes of its file.

    Noises seed what is drawn before the state is set; see `draws_after_setting`.
    """
    arrange(seed, kept)
    state = module.random_state()
    report: dict[str, Any] = {"after": draws(), "dict": isinstance(state, dict), "error": None}
    if file:
        buffer = io.BytesIO()
        with contextlib.suppress(Exception):  # then there is nothing to read
            torch.save(state, buffer)
        buffer.seek(0)
        return report | {"error": read(buffer)[0], "file": buffer.getvalue()}
    return report | {"again": draws_after_setting(module, state, noises)}


def from_files(module: Any, files: list[bytes], noises: list[int]) -> list[Any]:
    """For each file the draws each time after a state is set that another process has written."""
    return [draws_after_setting(module, read(io.BytesIO(file))[1], noises) for file in files]


def draws_after_setting(module: Any, state: Any, noises: list[int]) -> list[Any]:
    """What is drawn each time that a state is set, after another one was taken, once for each two noises."""
    again = []
    for i, (taken, drawn) in enumerate(zip(noises[::2], noises[1::2], strict=True)):
        arrange(taken, kept=i == 0)
        module.random_state()
        arrange(drawn, kept=i == 1)
        module.set_random_state(state)
        again.append(draws())
    return again


def read(file: Any) -> tuple[str | None, Any]:
    """How torch.load fails without an allow-list, and the data."""
    allowed = torch.serialization.get_safe_globals()
    torch.serialization.clear_safe_globals()
    try:
        return None, torch.load(file, weights_only=True)
    except Exception as error:  # noqa: BLE001 (a file may be anything)
        alien = re.search(r"GLOBAL (\S+)", str(error))
        return f"refuses {alien[1]}" if alien else f"raises {type(error).__name__}", None
    finally:
        torch.serialization.add_safe_globals(allowed)


class Training:
    """A training with noise and dropout, in float64 with StepLR or OneCycleLR; a bias is frozen.

    Its start has "weights", "inputs", and a "seed" for what it draws.
    """

    def __init__(self, kind: str, start: dict[str, Any], history: int = 0) -> None:
        torch.manual_seed(start["seed"])
        self.inputs = start["inputs"]
        self.model = network(width_of(start))
        self.model.load_state_dict(start["weights"], strict=False)
        self.model.to(torch.float64 if kind.endswith("LR") else torch.float32)
        self.model[3].bias.requires_grad_(False)
        first, *rest = self.model.parameters()
        groups: list[Any] = [{"params": [first]}, {"params": rest, "lr": 0.02}]
        self.optimizer: Any = torch.optim.SGD(groups, lr=0.05, momentum=0.9)
        if kind in ("AdamW", "ReduceLROnPlateau"):
            self.optimizer = torch.optim.AdamW(groups, lr=0.05, amsgrad=True)
        make = getattr(lr_scheduler, kind, lambda _: None)
        self.scheduler: Any = make(self.optimizer, **SCHEDULERS.get(kind, {}))
        self.run(history)

    def run(self, epochs: int) -> dict[str, Any]:
        """Train, and tell how all of it stands."""
        x = self.inputs.to(next(self.model.parameters()))
        self.model.train()
        for rows in [rows for _ in range(epochs) for rows in torch.randperm(len(x)).split(4)]:
            output = self.model(x[rows] + 0.1 * torch.randn(len(rows), 3).to(x))
            loss = (output - x[rows].sum(1, keepdim=True)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.scheduler is not None:
                self.scheduler.step(*[loss.item()][: "Plateau" in type(self.scheduler).__name__])
        return self.facts()

    def facts(self) -> dict[str, Any]:
        """All that the training holds, and what it would draw next."""
        parameters = dict(self.model.named_parameters())
        state, groups = self.optimizer.state, self.optimizer.param_groups
        scheduler = {} if self.scheduler is None else self.scheduler.state_dict()
        plain = (bool, int, float, str, list)
        return {
            "weights": {name: p.detach().clone() for name, p in parameters.items()},
            "buffers": {name: buffer.clone() for name, buffer in self.model.named_buffers()},
            "state": [copy.deepcopy(state.get(p, {})) for p in parameters.values()],
            "options": [{k: v for k, v in g.items() if k != "params"} for g in groups],
            "scheduler": {k: copy.copy(v) for k, v in scheduler.items() if isinstance(v, plain)},
            "draws": draws(),
            "objects": [id(p) for p in parameters.values()],
            "modes": [part.training for part in self.model.modules()],
            "gradients": [None if p.grad is None else p.grad.clone() for p in parameters.values()],
            "requires_grad": [p.requires_grad for p in parameters.values()],
            "grad mode": torch.is_grad_enabled(),
        }


def width_of(start: dict[str, Any]) -> int:
    return len(start["weights"]["0.bias"])


def network(width: int, *extra: nn.Module, outputs: int = 1) -> nn.Sequential:
    layers = nn.Linear(3, width), nn.BatchNorm1d(width), nn.Dropout(0.5), nn.Linear(width, outputs)
    return nn.Sequential(*layers, *extra)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A new folder, which is the current one."""
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        yield Path(name)


def undisturbed(module: Any, taken: list[Any], starts: dict[str, Any]) -> list[Any]:
    """What is drawn after `arrange`; a training of each kind, before it is saved and an epoch later.

    Called where no student's code runs.
    """
    before = [{"first": arrange(seed, kept), "before": draws()} for seed, kept in taken]
    trainings = {}
    for kind, start in starts.items():
        first, training = arrange(start["seed"], kept=True), _saved(kind, start)
        held = training.facts()
        trainings[kind] = {"first": first, "saved": held, "went on": training.run(1)}
    return [before, trainings]


def _saved(kind: str, start: dict[str, Any]) -> Training:
    training = Training(kind, start, history=0 if kind == "unstarted" else 2)
    training.model[3].eval()
    return training


def saved(
    module: Any, kind: str, start: dict[str, Any], epoch: int, plan: str = ""
) -> dict[str, Any]:
    """What is left of a training that was saved, and the file's bytes.

    Plan: a file that is "unscheduled", or whose tensors were on a "gpu".
    """
    arrange(start["seed"], kept=True)
    training = _saved(kind, start)
    held = training.facts()["objects"]
    objects = [training.model, training.optimizer, epoch, training.scheduler]
    tag = torch.serialization.location_tag
    with folder() as place:
        try:
            if "gpu" in plan:
                torch.serialization.location_tag = lambda storage: "cuda:0"
            module.save_checkpoint(str(place / "saved.pt"), *objects[: 3 if "unsch" in plan else 4])
        finally:
            torch.serialization.location_tag = tag
        there = (place / "saved.pt").is_file()
        content = (place / "saved.pt").read_bytes() if there else None
        return {"held": held, "saved": training.facts(), "file": content}


def resumed(
    module: Any, kind: str, start: dict[str, Any], noise: int, file: bytes, plan: str = ""
) -> dict[str, Any]:
    """A training that goes on from a file, in a process that knows nothing of the one that was saved.

    Plan: objects that are "fresh"; a "model" alone to load, or an "optimizer" with it.
    """
    other = Training(kind, start, history=0 if "fresh" in plan else 2)
    arrange(noise, kept="fresh" in plan)
    other.model[:3].train("fresh" in plan)
    report: dict[str, Any] = {"other": other.facts()}
    objects = [other.model, other.optimizer, other.scheduler]
    objects = objects[: 1 if "model" in plan else 2 if "optimizer" in plan else 3]
    with folder() as place:
        (place / "saved.pt").write_bytes(file)
        report["value"] = module.load_checkpoint(str(place / "saved.pt"), *objects)
        report |= {"loaded": other.facts(), "resumed": None if "model" in plan else other.run(1)}
        # A file is there to be read more than once, by objects that have gone on since.
        objects = objects[: 1 if "gpu" in plan else 3]
        again: Any = Path("saved.pt") if "model" in plan else "saved.pt"
        report["value again"] = module.load_checkpoint(again, *objects)
        return report | {"loaded again": other.facts()}


def files(module: Any, start: dict[str, Any], name: str, text: bool, old: bool) -> dict[str, Any]:
    """What lies in a folder after a checkpoint was saved there, perhaps over another file."""
    training = Training("none", start)
    with folder() as place:
        path: Any = name if text else Path(name)
        if old:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(b"old" * 40_000)
        module.save_checkpoint(path, training.model, training.optimizer, 3)
        names = sorted(str(file.relative_to(place)) for file in place.rglob("*") if file.is_file())
        return {"files": names, "error": read(place / name)[0] if name in names else None}


def refusal(module: Any, start: dict[str, Any], changed: str) -> dict[str, Any]:
    """How load_checkpoint ends for a file with code in it, or for a model of another architecture."""
    training, width = Training("none", start), width_of(start)
    models = {"more layers": network(width, nn.Linear(1, 1)), "fewer layers": network(width)[:3]}
    # To one more row copy_ would spread what the file has.
    models |= {"other shapes": network(width - 1), "more outputs": network(width, outputs=2)}
    models |= {"more buffers": network(width, nn.BatchNorm1d(1, affine=False))}
    with folder() as place:
        path = str(place / "saved.pt")
        module.save_checkpoint(path, training.model, training.optimizer, 3)
        if changed.startswith("code"):
            content, flag = read(path)[1], Flag()
            inside = isinstance(content, dict) and changed == "code inside"
            torch.save({**content, "extra": flag} if inside else flag, path)
        try:
            module.load_checkpoint(path, models.get(changed, training.model))
        except NotImplementedError:
            raise
        except Exception:  # noqa: BLE001 (an error of any kind is right)
            return {"refused": True, "ran": (place / "ran").exists()}
        return {"refused": False, "ran": (place / "ran").exists()}


class Flag:
    """Code in a file: unpickling it makes a folder."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("ran",)
