"""Tests of RunningCenter, state_kinds and forgotten_tensors."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.student import Student

STATISTICS = ("batch_mean", "num_samples", "running_mean")
KINDS = {
    "scale": "parameter",
    "running_mean": "buffer",
    "num_samples": "buffer",
    "batch_mean": "non-persistent buffer",
}
LOOSE: Any = {"rtol": 1e-5, "atol": 1e-5}  # a mean may be updated in float32
FEATURES = 5
# The ways in which the probe's modules hold tensors.
PLAIN = ["tensor", "tensor that requires grad", "integer tensor"]
WAYS = [
    "parameter",
    "frozen parameter",
    "buffer",
    "non-persistent buffer",
    "list of tensors",
    *PLAIN,
]
WORDS = ["mean", "mask", "scale", "table", "step", "offset", "weight", "bias", "total", "size"]
PARTS = ["encoder", "decoder", "block", "norm", "head"]


# --- the state -----------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("RunningCenter.__init__")
@pytest.mark.hint(
    "register_buffer(name, tensor); with persistent=False it is not in the state dict."
)
def test_kinds_of_state(student: Student) -> None:
    """scale is a parameter; the others are buffers, of which batch_mean is not saved."""
    before, after = fields(student.run("held", torch.randn(4, FEATURES)), "before", "after")
    what = "the dict from the tensors of a layer to their kinds"
    assert_equal(before, KINDS, what=what, ordered=False)
    assert_equal(after, KINDS, what=f"{what}, after a batch,", ordered=False)
    # What is saved comes back with its values, of which SGD moves what is learned.
    state, slope = new_state(torch.float64), random.uniform(1, 3)
    tensors = student.run("kept", state, slope)
    right = {**state, "scale": state["scale"] - slope}
    saved = [name for name, kind in KINDS.items() if kind != "non-persistent buffer"]
    what = "the dict of the tensors that a layer saved, after load_state_dict and a step of SGD"
    assert_close(
        {name: as_doubles(entry(tensors, name)) for name in saved},
        {name: as_doubles(right[name]) for name in saved},
        what=what,
    )
    told = "batch_mean is in the state dict: register it with persistent=False."
    assert not laws.same(entry(tensors, "batch_mean"), right["batch_mean"]), told


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.__init__")
@pytest.mark.hint(
    "torch.ones and torch.zeros of num_features, and torch.zeros((), dtype=torch.int64)."
)
def test_start(student: Student) -> None:
    """A new layer has a scale of ones, means of zeros, and 0 samples."""
    laws.check_filled(student, "RunningCenter", FEATURES)
    laws.check_changes_nothing(student, "RunningCenter", FEATURES)
    features = random.randint(2, 40)
    report = student.run("new", features)
    values = {name: entry(report, "values", name) for name in KINDS}
    right = {
        "scale": torch.ones(features),
        "running_mean": torch.zeros(features),
        "num_samples": torch.tensor(0),
        "batch_mean": torch.zeros(features),
    }
    assert_equal(values, right, what="the dict of a new layer's tensors")
    learned = entry(report, "learned", kind=list)
    assert_equal(learned, ["scale"], what="the list of the tensors that require grad")


# --- forward -------------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("rows = x.detach().reshape(-1, x.shape[-1]); batch_mean is their mean.")
def test_batch_mean(student: Student) -> None:
    """In training mode batch_mean becomes the mean of the batch's rows."""
    check_statistic(student, "batch_mean")


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("num_samples grows by len(rows).")
def test_num_samples(student: Student) -> None:
    """In training mode num_samples grows by the number of the batch's rows."""
    check_statistic(student, "num_samples")


@pytest.mark.points(5)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("The old mean weighs as much as the number of rows that it was made of.")
def test_running_mean(student: Student) -> None:
    """In training mode running_mean becomes the mean of all rows so far."""
    check_statistic(student, "running_mean")


@pytest.mark.points(8)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.word("the sandbox reports both layers that are compared")
@pytest.mark.hint("Count with the buffer num_samples: only buffers are saved and loaded.")
def test_going_on(student: Student) -> None:
    """A layer goes on from a loaded state, which need not have batch_mean; so does a deep copy."""
    for probe, who in [("resumed", "a layer with a loaded state"), ("copied", "a deep copy")]:
        report = student.run(probe, new_batches())
        for name in STATISTICS:
            # The first layer, which did not stop, is what the second one has to be.
            second, first = entry(report, "second", name), entry(report, "first", name)
            assert_close(second, first, what=f"{name} of {who} after another batch", **LOOSE)
            before = entry(report, "first before", name)
            meanwhile = entry(report, "first meanwhile", name)
            what = f"{name} of the first layer after a batch for {who}"
            assert_equal(meanwhile, before, what=what)


@pytest.mark.points(4)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Update first, then (x - self.running_mean) * self.scale.")
def test_training_result(student: Student) -> None:
    """In training mode the updated running_mean is subtracted."""
    batches, report = trained(student)
    for i, x in enumerate(batches):
        # The layer's own: whether it is right is another test.
        mean = entry(report, "values", i, "running_mean")
        mean = assert_tensor(mean, shape=(FEATURES,), what=f"running_mean after batch {i + 1}")
        result = entry(report, "results", i)
        assert_close(result, x - mean, what=f"the result for batch {i + 1}", **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("In both modes the result is (x - self.running_mean) * self.scale.")
def test_result(student: Student) -> None:
    """In evaluation mode the result is (x - running_mean) * scale."""
    layer, state = loaded(student)
    x = torch.randn(2, 3, FEATURES) * 3
    right = (x - state["running_mean"]) * state["scale"]
    assert_close(layer.eval()(x), right, what="the result in evaluation mode", **LOOSE)


@pytest.mark.points(3)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.word("a layer that never updates leaves them alone, too")
@pytest.mark.hint("if self.training: ...")
def test_evaluation_updates_nothing(student: Student) -> None:
    """In evaluation mode nothing is updated."""
    layer, _ = loaded(student)
    call = "forward in evaluation mode"
    x = torch.randn(3, FEATURES)
    laws.check_changes_nothing(student, layer.eval(), x, call=call, only=("module.buffers",))


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.word("a layer that never updates leaves them alone, too")
@pytest.mark.hint("The mean of no rows is NaN: update only if there are rows.")
def test_no_rows(student: Student) -> None:
    """An x without rows updates nothing, and gives a result of its shape."""
    x = torch.zeros(0, FEATURES)
    for layer in (student.module("RunningCenter", FEATURES), loaded(student)[0]):
        result = laws.check_changes_nothing(student, layer, x, call="forward for an x without rows")
        assert_tensor(result, shape=x.shape, what="the result for an x without rows")


@pytest.mark.points(4)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Make the statistics of x.detach(), or under torch.no_grad().")
def test_statistics_are_constants(student: Student) -> None:
    """Buffers have no graph, and the gradient of x is that of x * scale."""
    _, report = trained(student)
    graph = entry(report, "graph", kind=list)
    assert_equal(graph, [], what="the list of the statistics that require a gradient")
    x = torch.randn(4, FEATURES, requires_grad=True)
    layer, state = loaded(student)
    laws.check_gradients(layer(x), {"x": x}, lambda x: x * state["scale"])
    x.grad = None
    layer, state = loaded(student)
    leaves = {"x": x, "scale": entry(dict(layer.named_parameters()), "scale")}
    mean = state["running_mean"]
    laws.check_gradients(layer.eval()(x), leaves, lambda x, scale: (x - mean) * scale)


@pytest.mark.points(10)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Assign a buffer under its own name, in the dtype of x, and without a graph.")
def test_state_follows(student: Student) -> None:
    """All state follows double() and to(device)."""
    features = random.randint(2, 40)
    x, scale = torch.randn(4, features), torch.randn(features, dtype=torch.float64)
    tensors = entry(student.run("doubled", x, scale), kind=dict)
    places = {name: place_of(tensor) for name, tensor in tensors.items()}
    check_places(places, features, "cpu", "torch.float64", "double() and a batch")
    assert_close(entry(tensors, "scale"), scale, what="scale, set after double(), after a batch,")
    places = entry(student.run("moved", x), kind=dict)
    check_places(places, features, "meta", "torch.float32", "a batch and to('meta')")


@pytest.mark.points(2)
@pytest.mark.place("RunningCenter.forward")
@pytest.mark.hint("Only buffers change. Use reshape where you use view; name no dtype.")
def test_forward_leaves_the_rest(student: Student) -> None:
    """x may have any strides, in float32 and float64; it, scale and the mode stay as they were."""
    layer, _ = loaded(student)
    x = torch.randn(3, FEATURES, requires_grad=True)
    laws.check_changes_nothing(student, layer, x, call="forward", allow=("module.buffers",))
    for layout, x in laws.layouts_of(torch.randn(3, 2, FEATURES)).items():
        what = f"the result for x {layout} in memory"
        assert_close(layer(x), layer(x.contiguous()), what=what)
    result = layer.double()(torch.randn(4, FEATURES).double())
    assert_tensor(result, shape=(4, FEATURES), dtype=torch.float64, what="the result in float64")


# --- state_kinds and forgotten_tensors -----------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("state_kinds")
@pytest.mark.hint(
    "named_parameters(), named_buffers(), and which of the latter are in state_dict()."
)
def test_kinds(student: Student) -> None:
    """Every parameter and buffer has its kind, under its dotted name; the module stays as it was."""
    parts = new_parts()
    right = {}
    for name, way in dotted(parts).items():
        if way.endswith("parameter"):
            right[name] = "parameter"
        elif way.endswith("buffer"):
            right[name] = way
    kinds = laws.check_changes_nothing(student, "state_kinds", student.made("holding", parts))
    assert_equal(kinds, right, what="the answer of state_kinds", ordered=False)


@pytest.mark.points(12)
@pytest.mark.place("forgotten_tensors")
@pytest.mark.hint("vars(submodule).items() for each prefix, submodule of named_modules().")
def test_forgotten(student: Student) -> None:
    """All tensors that are plain attributes are named, dotted; the module stays as it was."""
    parts = new_parts()
    right = [name for name, way in dotted(parts).items() if way in PLAIN]
    module = student.made("holding", parts)
    names = laws.check_changes_nothing(student, "forgotten_tensors", module)
    told = "forgotten_tensors has to return a list of names."
    names = [str(name) for name in entry(names, kind=(list, tuple), told=told)]
    what = "the sorted list of the forgotten tensors"
    # As text: the message about lists of different lengths shows the lengths alone.
    assert_equal(" ".join(sorted(names)), " ".join(sorted(right)), what=what)


# --- locally -------------------------------------------------------------------------------------


def new_batches() -> list[Tensor]:
    """Batches of different sizes, with one row and with several dimensions among them."""
    shapes = [(random.randint(2, 9), FEATURES), (FEATURES,), (3, 2, FEATURES), (1, FEATURES)]
    return [torch.randn(shape) * 3 + 2 for shape in shapes]


def trained(student: Student) -> tuple[list[Tensor], Any]:
    """Some batches, and what a layer holds and gives after each of them."""

    def train() -> tuple[list[Tensor], Any]:
        batches = new_batches()
        return batches, student.run("trained", batches)

    return student.once("trained", train)


def check_statistic(student: Student, name: str) -> None:
    """One statistic after each batch is right."""
    batches, report = trained(student)
    values = entry(report, "values", kind=list, count=len(batches))
    rows = [batch.reshape(-1, FEATURES) for batch in batches]
    for i, value in enumerate(values):
        so_far = torch.cat(rows[: i + 1])
        right = {
            "batch_mean": rows[i].mean(0),
            "num_samples": torch.tensor(len(so_far)),
            "running_mean": so_far.mean(0),
        }
        assert_close(entry(value, name), right[name], what=f"{name} after batch {i + 1}", **LOOSE)


def check_places(
    places: dict[str, Any], features: int, device: str, dtype: str, after: str
) -> None:
    """Each tensor of a layer is on this device, and all but the number of samples have this dtype."""
    right = {name: {"device": device, "dtype": dtype, "shape": [features]} for name in KINDS}
    right["num_samples"] = {"device": device, "dtype": "torch.int64", "shape": []}
    # Which tensors a layer holds is another test; none of those it has stays behind.
    own = {name: place for name, place in places.items() if name in KINDS}
    what = f"the dict of device, dtype and shape of a layer's tensors after {after}"
    assert_equal(own, {name: right[name] for name in own}, what=what)
    assert "running_mean" in own, "The layer has no tensor named running_mean."


def place_of(tensor: Any) -> dict[str, Any]:
    tensor = assert_tensor(tensor, what="a tensor of the layer")
    return {"device": "cpu", "dtype": str(tensor.dtype), "shape": list(tensor.shape)}


def as_doubles(tensor: Any) -> Tensor:
    """The values, whatever dtype and shape hold them: these are judged elsewhere."""
    return assert_tensor(tensor, what="a tensor of the layer").double().flatten()


def new_state(dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Drawn values for all tensors of a layer."""
    names = ("scale", "running_mean", "batch_mean")
    values = {name: torch.randn(FEATURES, dtype=dtype) for name in names}
    return {**values, "num_samples": torch.tensor(random.randint(2, 99))}


def loaded(student: Student) -> tuple[Any, dict[str, Tensor]]:
    """A layer that has seen 6 rows, and the values by which its result is made."""
    layer = student.module("RunningCenter", FEATURES)
    own = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    assert_tensor(own.get("scale"), shape=(FEATURES,), what="the layer's scale")
    # What a layer lacks is another test: here it is as in a new one.
    state = {"scale": torch.ones(FEATURES), "running_mean": torch.zeros(FEATURES)}
    values = {name: torch.randn(FEATURES) for name in ("scale", "running_mean", "batch_mean")}
    values["num_samples"] = torch.tensor(6)
    for name, value in values.items():
        if name in own and own[name].shape == value.shape:
            own[name].data.copy_(value)
            state[name] = value
    return layer, state


def new_parts() -> dict[str, dict[str, str]]:
    """For the probe's `holding`: how a module, "", and one deep inside of it hold tensors of drawn names.

    Both have the same names, each held in another way, so that names have to be told apart by their dots.
    """
    names = random.sample(WORDS, len(WAYS))
    outer = dict(zip(names, WAYS, strict=True))
    inner = dict(zip(names[1:] + names[:1], WAYS, strict=True))
    outer["_cache"] = "tensor"  # counts, though its name begins with an underscore
    path = ".".join(random.sample(PARTS, 2))
    return {"": outer, path: inner}


def dotted(parts: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """The way in which each tensor is held, by its dotted name."""
    return {
        f"{path}.{name}".lstrip("."): way
        for path, tensors in parts.items()
        for name, way in tensors.items()
    }
