"""Facts about live objects, before and after a call."""

from __future__ import annotations

import dataclasses
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from grader.sandbox.inside import observation
from grader.sandbox.inside.observation import (
    changed,
    draws,
    facts,
    facts_of_call,
    modes,
    seed_all,
    set_modes,
    settings,
)


@pytest.fixture(autouse=True)
def _modes_stay() -> Iterator[None]:
    before = settings()
    yield
    set_modes(before)


# --- random states and modes ----------------------------------------------------------------------


def test_the_same_seed_gives_the_same_draws() -> None:
    seed_all(2**40 + 3)
    first = draws()
    seed_all(2**40 + 3)
    assert draws() == first
    assert set(first) == {"Python", "torch seed", "torch", "NumPy"}
    assert first["torch seed"] == [2**40 + 3]
    seed_all(4)
    assert all(value != first[name] for name, value in draws().items())


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("Python", random.random),
        ("torch", lambda: torch.rand(1)),
        ("NumPy", lambda: np.random.random_sample()),
    ],
)
def test_a_draw_shows_in_its_own_random_state(name: str, draw: Any) -> None:
    seed_all(0)
    untouched = draws()
    seed_all(0)
    draw()
    after = draws()
    assert [each for each in after if after[each] != untouched[each]] == [name]


@pytest.mark.parametrize(
    ("name", "setting", "change"),
    [
        ("grad mode", "grad", lambda: torch.set_grad_enabled(False)),
        ("anomaly mode", "anomaly", lambda: torch.set_anomaly_enabled(True)),
        ("autocast", "autocast", lambda: torch.set_autocast_enabled("cpu", True)),
        ("default dtype", "dtype", lambda: torch.set_default_dtype(torch.float64)),
        ("", "device", lambda: torch.set_default_device("meta")),
        (
            "",
            "deterministic",
            lambda: torch._C._set_deterministic_algorithms(True, warn_only=False),
        ),
        ("", "warnings", lambda: warnings.simplefilter("ignore")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mode_is_detected_and_restored(name: str, setting: str, change: Any) -> None:
    before, shown = settings(), modes()
    change()
    assert changed(before, settings()) == (setting,)
    assert [each for each in shown if modes()[each] != shown[each]] == ([name] if name else [])
    set_modes(before)
    assert changed(before, settings()) == ()
    assert modes() == shown


def test_global_hooks_are_counted_and_removed() -> None:
    before = settings()
    nn.modules.module.register_module_forward_hook(lambda *given: None)
    assert modes()["global hooks"] == 1
    set_modes(before)
    assert modes()["global hooks"] == 0


def test_an_inference_mode_left_on_is_ended() -> None:
    before = settings()
    guard = torch._C._InferenceMode(True)
    guard.__enter__()
    try:
        assert modes()["inference mode"]
        set_modes(before)
        assert not modes()["inference mode"]
    finally:
        while observation._guards:
            observation._guards.pop().__exit__(None, None, None)
        guard.__exit__(None, None, None)


def test_a_new_setting_is_not_a_change() -> None:
    assert changed({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == ("b",)


# --- tensors --------------------------------------------------------------------------------------


def test_a_tensor_is_copied_with_its_properties() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    seen = facts(x)
    x.add_(1)
    assert seen["values"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (seen["kind"], seen["shape"], seen["dtype"]) == ("tensor", [2, 3], "torch.float32")
    assert (seen["id"], seen["requires_grad"], seen["leaf"]) == (id(x), False, True)
    assert facts(x)["version"] == seen["version"] + 1
    assert facts(x)["storage"] == seen["storage"]
    assert seen["storage"][1] - seen["storage"][0] == 24


def test_a_leaf_has_its_gradient_and_a_result_those_of_leaves() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    assert (facts(x)["grad"], facts(x)["requires_grad"]) == (None, True)
    result = (x * y + y).sum()
    assert facts(result)["sources"] == []
    x.grad = torch.tensor([3.0, 4.0])
    seen = facts(result)
    assert (seen["grad"], seen["leaf"]) == (None, False)
    assert [each.tolist() for each in seen["sources"]] == [[3, 4]]
    assert facts(x)["grad"].tolist() == [3, 4]
    assert facts(x)["grad"] is not x.grad


def test_a_subclass_cannot_lie_about_itself() -> None:
    class Liar(torch.Tensor):
        @property
        def _version(self) -> int:  # type: ignore[override]
            return 77

        @property
        def requires_grad(self) -> bool:  # type: ignore[override]
            return True

    seen = facts(torch.ones(2).as_subclass(Liar))
    assert (seen["version"], seen["requires_grad"]) == (0, False)


def test_odd_tensors_have_no_storage_or_version() -> None:
    assert "storage" not in facts(torch.empty(2, device="meta"))
    assert "storage" not in facts(torch.eye(2).to_sparse())
    with torch.inference_mode():
        made = facts(torch.ones(1))
    assert (made["inference"], made["version"]) == (True, None)


# --- modules and others ---------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 2, bias=False)
        self.tied = self.first
        self.norm = nn.BatchNorm1d(2, affine=False)
        self.nothing = None


def test_a_module_lists_each_part_once() -> None:
    block = Block()
    block.norm.eval()
    block.first.register_forward_hook(lambda *given: None)
    seen = facts(block)
    assert (seen["kind"], seen["id"]) == ("module", id(block))
    assert seen["training"] == {"": True, "first": True, "norm": False}
    assert list(seen["parameters"]) == ["first.weight"]
    assert list(seen["buffers"]) == [
        "norm.running_mean",
        "norm.running_var",
        "norm.num_batches_tracked",
    ]
    assert seen["hooks"] == {"first._forward_hooks": 1}
    assert seen["parameters"]["first.weight"]["id"] == id(block.first.weight)


def test_the_facts_of_a_call_include_a_called_module() -> None:
    block = Block()
    seen = facts_of_call(block, [1], {"mask": None})
    assert [each["value"] for each in seen["arguments"]] == [1]
    assert seen["keywords"] == {"mask": {"kind": "object", "value": None}}
    assert seen["module"]["kind"] == "module"
    assert seen["modes"] == modes()
    assert facts_of_call(len, [], {})["module"] is None


def test_an_optimizer_has_options_state_and_parameter_ids() -> None:
    # Made without constructors, which import half of torch (1 s).
    weight, momentum = nn.Parameter(torch.ones(1)), torch.zeros(1)
    optimizer = object.__new__(torch.optim.SGD)
    optimizer.param_groups = [{"params": [weight], "lr": 0.5}]
    optimizer.state = {weight: {"momentum_buffer": momentum}}  # type: ignore[assignment]
    seen = facts(optimizer)
    assert seen["parameters"] == [[id(weight)]]
    (group,) = seen["options"]["items"]
    assert "params" not in group["keys"]
    assert dict(zip(group["keys"], group["items"], strict=True))["lr"]["value"] == 0.5
    (state,) = seen["state"]["items"]
    assert state["keys"] == ["momentum_buffer"]
    scheduler = object.__new__(torch.optim.lr_scheduler.StepLR)
    scheduler.step_size = 3
    assert "step_size" in facts(scheduler)["keys"]


@dataclasses.dataclass
class Pair:
    left: int
    right: Any


def test_containers_are_read_up_to_a_depth_and_a_length() -> None:
    seen = facts({"a": (1, "b"), 2: [None]})
    assert seen["keys"] == ["a", 2]
    assert [each["value"] for each in seen["items"][0]["items"]] == [1, "b"]
    pair = facts(Pair(1, torch.ones(1)))
    assert (pair["keys"], pair["items"][1]["kind"]) == (["left", "right"], "tensor")
    assert facts([0] * 1000)["kind"] == "container"
    assert facts([0] * 1001)["kind"] == "object"
    nested: Any = 1
    for _ in range(7):
        nested = [nested]
    depth, seen = 0, facts(nested)
    while seen["kind"] == "container":
        depth, seen = depth + 1, seen["items"][0]
    assert (depth, seen["value"]) == (6, "list")


def test_other_objects_have_a_type_and_an_id_and_plain_data_a_value() -> None:
    array, thing, generator = np.arange(3), object(), torch.Generator()
    seen = facts(array)
    array += 1
    assert (seen["id"], seen["value"].tolist()) == (id(array), [0, 1, 2])
    assert facts(thing) == {"kind": "object", "id": id(thing), "value": "object"}
    for plain in (None, True, 3, 2.5, "a", b"a"):
        assert facts(plain) == {"kind": "object", "value": plain}
    assert facts(generator)["kind"] == "tensor"
