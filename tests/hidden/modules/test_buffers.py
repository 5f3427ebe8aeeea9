"""Tests of RunningCenter, state_kinds and forgotten_tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    assert_close,
    assert_equal,
    assert_tensor,
    entry,
    fields,
    laws,
    promise,
    within,
)
from grader.judge.student import Student

LAYER = "RunningCenter"
SAVED = ("scale", "running_mean", "num_samples")
STATISTICS = ("batch_mean", "num_samples", "running_mean")
LOOSE = {"rtol": 1e-5, "atol": 1e-5}  # a mean may be updated in float32
FEATURES = 5
# How the probe's modules may hold tensors.
WAYS = [
    "parameter",
    "frozen parameter",
    "buffer",
    "non-persistent buffer",
    "list of tensors",
    "tensor",
    "tensor that requires grad",
    "integer tensor",
]
WORDS = ["mean", "mask", "scale", "table", "step", "offset", "weight", "bias", "total", "size"]
PARTS = ["encoder", "decoder", "block", "norm", "head"]


# --- the state -----------------------------------------------------------------------------------


@promise(
    "RunningCenter.__init__",
    points=12,
    hint="register_buffer(name, tensor); with persistent=False it is not in the state dict.",
)
def test_kinds_of_state(code: Student, draw: Draw) -> Cases:
    """scale is a parameter; the others are buffers, of which batch_mean is not saved."""
    before, after = fields(code.run("held", draw.normal(4, FEATURES)), "before", "after")
    yield "the dict from the tensors of a layer to their kinds", before
    yield "the dict from the tensors of a layer to their kinds, after a batch,", after
    # Saved tensors come back with their values, and then SGD moves the learned ones.
    state = {name: draw.normal(FEATURES, dtype=torch.float64) for name in (*SAVED, "batch_mean")}
    state["num_samples"] = torch.tensor(draw.size(2, 99))
    tensors = code.run("kept", state, draw.number(1, 3))
    what = "the tensors that a layer saved, after load_state_dict and a step of SGD"
    yield what, {name: as_doubles(entry(tensors, name)) for name in SAVED}
    told = "batch_mean is in the state dict: register it with persistent=False."
    assert not laws.same(entry(tensors, "batch_mean"), state["batch_mean"]), told


@promise(
    "RunningCenter.__init__",
    points=2,
    hint="torch.ones and torch.zeros of num_features, and torch.zeros((), dtype=torch.int64).",
)
def test_start(code: Student, draw: Draw) -> Cases:
    """A new layer has a scale of ones, means of zeros, and 0 samples."""
    laws.check_filled(code, LAYER, FEATURES)
    laws.check_changes_nothing(code, LAYER, FEATURES)
    values, learned = fields(code.run("new", draw.size(2, 40)), "values", "learned")
    tensors = {name: entry(values, name) for name in ("scale", *STATISTICS)}
    yield "the dict of a new layer's tensors", tensors
    yield "the list of the tensors that require grad", learned


# --- forward -------------------------------------------------------------------------------------


@promise(
    "RunningCenter.forward",
    points=2,
    hint="rows = x.detach().reshape(-1, x.shape[-1]); batch_mean is their mean.",
)
def test_batch_mean(code: Student, draw: Draw) -> Cases:
    """In training mode batch_mean becomes the mean of the batch's rows."""
    yield from statistic(code, draw, "batch_mean")


@promise("RunningCenter.forward", points=2, hint="num_samples grows by len(rows).")
def test_num_samples(code: Student, draw: Draw) -> Cases:
    """In training mode num_samples grows by the number of the batch's rows."""
    yield from statistic(code, draw, "num_samples")


@promise(
    "RunningCenter.forward",
    points=5,
    hint="The old mean weighs as much as the number of rows that it was made of.",
)
def test_running_mean(code: Student, draw: Draw) -> Cases:
    """In training mode running_mean becomes the mean of all rows so far."""
    yield from statistic(code, draw, "running_mean")


@promise(
    "RunningCenter.forward",
    points=8,
    hint="Count with the buffer num_samples: only buffers are saved and loaded.",
    word="the sandbox reports both layers that are compared",
)
def test_going_on(code: Student, draw: Draw) -> Cases:
    """A layer goes on from a loaded state, which need not have batch_mean; so does a deep copy."""
    for probe, who in (("resumed", "a layer with a loaded state"), ("copied", "a deep copy")):
        report = code.run(probe, new_batches(draw))
        for name in STATISTICS:
            # The second layer has to end like the first one, which was never interrupted.
            goes_on, stays = fields(entry(report, name), "goes on", "stays")
            yield f"the statement that {name} of {who} continues as in the first layer", goes_on
            yield (
                f"the statement that {name} of the first layer stays, after a batch for {who},",
                stays,
            )


@promise(
    "RunningCenter.forward",
    points=4,
    hint="Update first, then (x - self.running_mean) * self.scale.",
)
def test_training_result(code: Student, draw: Draw) -> Cases:
    """In training mode the updated running_mean is subtracted."""
    batches = new_batches(draw)
    report = code.run("trained", batches)
    for i, x in enumerate(batches):
        # The layer's own mean. Another test judges whether it is right.
        mean = assert_tensor(entry(report, "values", i, "running_mean"), shape=(FEATURES,))
        result = assert_tensor(entry(report, "results", i), shape=x.shape)
        yield f"the result for batch {i + 1}, plus running_mean,", within(result + mean, **LOOSE)


@promise(
    "RunningCenter.forward",
    points=4,
    hint="In both modes the result is (x - self.running_mean) * self.scale.",
)
def test_result(code: Student, draw: Draw) -> Cases:
    """In evaluation mode the result is (x - running_mean) * scale."""
    state = {name: draw.normal(FEATURES) for name in ("scale", "running_mean", "batch_mean")}
    result = code.run("evaluated", state, draw.normal(2, 3, FEATURES, scale=3.0))
    yield "the result in evaluation mode", within(result, **LOOSE)


@promise(
    "RunningCenter.forward",
    points=3,
    hint="if self.training: ...",
    word="a layer that never updates leaves them alone, too",
)
def test_evaluation_updates_nothing(student: Student) -> None:
    """In evaluation mode nothing is updated."""
    layer, x, call = loaded(student).eval(), torch.randn(3, FEATURES), "forward in evaluation mode"
    laws.check_changes_nothing(student, layer, x, call=call, only=("module.buffers",))


@promise(
    "RunningCenter.forward",
    points=2,
    hint="The mean of no rows is NaN: update only if there are rows.",
    word="a layer that never updates leaves them alone, too",
)
def test_no_rows(student: Student) -> None:
    """An x without rows updates nothing, and gives a result of its shape."""
    x = torch.zeros(0, FEATURES)
    for layer in (student.module(LAYER, FEATURES), loaded(student)):
        result = laws.check_changes_nothing(student, layer, x, call="forward for an x without rows")
        assert_tensor(result, shape=x.shape, what="the result for an x without rows")


@promise(
    "RunningCenter.forward",
    points=4,
    hint="Make the statistics of x.detach(), or under torch.no_grad().",
)
def test_statistics_are_constants(code: Student, draw: Draw) -> Cases:
    """Buffers have no graph, and the gradient of x is that of x * scale."""
    graph = entry(code.run("trained", new_batches(draw)), "graph")
    yield "the list of the statistics that require a gradient", graph
    x = draw.normal(4, FEATURES)
    x = draw.leaf("x", x - x.mean(0))  # so that every mean is 0, however it is updated
    for mode in ("training", "evaluation"):
        layer = draw.fill(code.module(LAYER, FEATURES)).train(mode == "training")
        yield f"the result in {mode} mode", within(layer(x), **LOOSE)


@promise(
    "RunningCenter.forward",
    points=10,
    hint="Assign a buffer under its own name, in the dtype of x, and without a graph.",
)
def test_state_follows(student: Student) -> None:
    """All state follows double() and to(device)."""
    x, scale = torch.randn(4, FEATURES), torch.randn(FEATURES).double()
    places, after = fields(student.run("doubled", x, scale), "places", "scale")
    check_places(places, "cpu", "torch.float64", "double() and a batch")
    assert_close(after, scale, what="scale, set after double(), after a batch,")
    check_places(student.run("moved", x), "meta", "torch.float32", "a batch and to('meta')")


@promise(
    "RunningCenter.forward",
    points=2,
    hint="Only buffers change. Use reshape where you use view; name no dtype.",
)
def test_forward_leaves_the_rest(student: Student) -> None:
    """x may have any strides, in float32 and float64; x, scale and the mode stay as they were."""
    layer, x = loaded(student), torch.randn(3, FEATURES, requires_grad=True)
    laws.check_changes_nothing(student, layer, x, call="forward", allow=("module.buffers",))
    laws.check_layouts(student, layer, torch.randn(3, 2, FEATURES), what="the result")
    result = layer.double()(torch.randn(4, FEATURES).double())
    assert_tensor(result, shape=(4, FEATURES), dtype=torch.float64, what="the result in float64")


# --- state_kinds and forgotten_tensors -----------------------------------------------------------


@promise(
    "state_kinds",
    points=12,
    hint="named_parameters(), named_buffers(), and which of the latter are in state_dict().",
)
def test_kinds(code: Student, draw: Draw) -> Cases:
    """Every parameter and buffer has its kind, under its dotted name; the module stays as it was."""
    module = code.made("holding", new_parts(draw))
    yield "the answer of state_kinds", laws.check_changes_nothing(code, "state_kinds", module)


@promise(
    "forgotten_tensors",
    points=12,
    hint="vars(submodule).items() for each prefix, submodule of named_modules().",
)
def test_forgotten(code: Student, draw: Draw) -> Cases:
    """All tensors that are plain attributes are named, dotted; the module stays as it was."""
    module = code.made("holding", new_parts(draw))
    names = laws.check_changes_nothing(code, "forgotten_tensors", module)
    told = "forgotten_tensors has to return a list of names."
    names = entry(names, kind=(list, tuple), told=told)
    # As text: for lists of different lengths, a message shows only the lengths.
    yield "the sorted list of the forgotten tensors", " ".join(sorted(map(str, names)))


# --- helpers of the tests ------------------------------------------------------------------------


def new_batches(draw: Draw) -> list[Tensor]:
    """Batches of different sizes, with one row and with several dimensions among them."""
    shapes = [(draw.size(2, 10), FEATURES), (FEATURES,), (3, 2, FEATURES), (1, FEATURES)]
    return [draw.normal(*shape, scale=3.0) + 2 for shape in shapes]


def statistic(code: Student, draw: Draw, name: str) -> Cases:
    """One statistic after each batch."""
    batches = new_batches(draw)
    report = code.run("trained", batches)
    for i in range(len(batches)):
        yield f"{name} after batch {i + 1}", within(entry(report, "values", i, name), **LOOSE)


def check_places(places: Any, device: str, dtype: str, after: str) -> None:
    """Check that each tensor of a layer is on this device, and has this dtype unless it counts samples."""
    right = {
        name: {"device": device, "dtype": dtype, "shape": [FEATURES]}
        for name in ("scale", *STATISTICS)
    }
    right["num_samples"] = {"device": device, "dtype": "torch.int64", "shape": []}
    # Another test judges which tensors a layer has. Here, none of them may stay behind.
    own = {name: place for name, place in entry(places, kind=dict).items() if name in right}
    what = f"the dict of device, dtype and shape of a layer's tensors after {after}"
    assert_equal(own, {name: right[name] for name in own}, what=what)
    assert "running_mean" in own, "The layer has no tensor named running_mean."


def as_doubles(tensor: Any) -> Tensor:
    """The values as a flat float64 tensor. Other tests judge dtype and shape."""
    return assert_tensor(tensor, what="a tensor of the layer").double().flatten()


def loaded(student: Student) -> Any:
    """A layer that has seen 6 rows."""
    layer = student.module(LAYER, FEATURES)
    own = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    if "scale" not in own:
        laws.check_parameters(layer, {"scale": (FEATURES,)}, call=LAYER)
    assert_tensor(own["scale"], shape=(FEATURES,), what="the layer's scale")
    for name, tensor in own.items():
        tensor.data.copy_(torch.tensor(6) if name == "num_samples" else torch.randn(tensor.shape))
    return layer


def new_parts(draw: Draw) -> dict[str, dict[str, str]]:
    """Arguments for the probe's `holding`: how the outer module "" and one deep inside hold tensors.

    Both use the same drawn names, each held in a different way, so that only the dotted path tells them apart.
    """
    names = shuffled(draw, WORDS)[: len(WAYS)]
    outer = dict(zip(names, WAYS, strict=True))
    inner = dict(zip(names[1:] + names[:1], WAYS, strict=True))
    outer["_cache"] = "tensor"  # counts, although its name begins with an underscore
    return {"": outer, ".".join(shuffled(draw, PARTS)[:2]): inner}


def shuffled(draw: Draw, words: Sequence[str]) -> list[str]:
    """The words in a drawn order."""
    return [words[place] for place in draw.permutation(len(words)).tolist()]
