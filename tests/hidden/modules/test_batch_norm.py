"""Tests of BatchNorm1d and batching_gap."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_gradients,
    entry,
    laws,
    promise,
    raises,
    within,
)
from grader.judge.student import Student

NORM = "BatchNorm1d"
AFFINE, RUNNING = ("weight", "bias"), ("running_mean", "running_var")
BUFFERS = (*RUNNING, "num_batches_tracked")
# With this many rows, dividing the variance by m or by m - 1 makes no difference within LOOSE.
MANY = 2000
LOOSE = {"rtol": 2e-3, "atol": 2e-3}
STATISTICS = {"rtol": 1e-5, "atol": 1e-6}  # for running statistics
# The last feature has a small variance, so that eps shows.
SPREAD = torch.tensor([2.0, 2.0, 0.02])
FAR = 1e8
FAR_DIGITS = {"rtol": 0.0, "atol": 0.01}  # a variance from squares is off by about 1 there
# The parts of the network that are in training mode; its norms are "0" and "3".
ALL = ["", "0", "1", "2", "3"]
# How far the rows of one batch lie from the others.
SHIFT = torch.tensor([-40.0, 30.0, 0.0])
STATE = "The module is not as it was. (state_dict() holds the tensors themselves, not copies.)"
FINALLY = "After an error the module is not as it was: put its state back in a finally."


# --- the state -----------------------------------------------------------------------------------


@promise(
    "BatchNorm1d.__init__",
    points=5,
    hint="nn.Parameter for weight and bias, self.register_buffer for the statistics.",
)
def test_state(code: Student, draw: Draw) -> Cases:
    """Parameters and buffers are those of nn.BatchNorm1d: names, shapes, dtypes and values."""
    size = draw.size(3, 40)
    layer, call = code.module(NORM, size), f"BatchNorm1d({size})"
    laws.check_parameters(layer, {"weight": [size], "bias": [size]}, call=call)
    laws.check_state_dict(layer, [*AFFINE, *BUFFERS])
    parameters, buffers = dict(layer.named_parameters()), dict(layer.named_buffers())
    yield f"the parameters of a new {call}", parameters
    learned = {name: parameter.requires_grad for name, parameter in parameters.items()}
    yield "the dict of requires_grad of the parameters", learned
    # The layer may have further buffers that are not saved.
    own = {name: buffers[name] for name in BUFFERS if name in buffers}
    yield f"the buffers of a new {call}", own


# --- forward in training mode --------------------------------------------------------------------


@promise(
    "BatchNorm1d.forward",
    points=12,
    hint="(x - mean) / sqrt(var + eps), with mean and var of each column of x.",
)
def test_training(code: Student, draw: Draw) -> Cases:
    """In training mode each feature of (N, C) is normalized by the mean and variance of the batch."""
    layer = new_layer(code, draw, *RUNNING)
    x = draw.normal(MANY, 3) * torch.tensor([2.0, 1.0, 3.0]) + draw.normal(3, scale=4.0)
    yield "the output in training mode for an x (N, C)", loosely(layer(x))


@promise(
    "BatchNorm1d.forward",
    points=6,
    hint="For (N, C, L) there is one mean and one variance for each of the C features.",
)
def test_three_dimensions(code: Student, draw: Draw) -> Cases:
    """For x of shape (N, C, L) the statistics of each feature are taken over N and L."""
    layer = new_layer(code, draw, *RUNNING)
    x = standard(draw.normal(50, 3, 40)) + draw.normal(3, 1, scale=4.0)
    yield "the output in training mode for an x (N, C, L)", loosely(layer(x))


@promise(
    "BatchNorm1d.forward",
    points=4,
    hint="var(correction=0), or the mean of the squared deviations.",
)
def test_biased_variance(code: Student, draw: Draw) -> Cases:
    """In training mode x is normalized with the biased variance of the batch."""
    layer = new_layer(code, draw, *RUNNING)
    x = standard(draw.normal(5, 3)) + 1
    yield "the output in training mode for a batch of 5 rows", loosely(layer(x))


@promise(
    "BatchNorm1d.forward",
    points=3,
    hint="The denominator is sqrt(var + eps), with the eps that the layer was made with.",
)
def test_eps(code: Student, draw: Draw) -> Cases:
    """eps is inside the root, and is 1e-5 by default."""
    for name, options in {"eps = 0.5": {"eps": 0.5}, "eps = 1e-05": {}}.items():
        layer = new_layer(code, draw, *RUNNING, **options)
        x = draw.normal(MANY, 3) * SPREAD + 1
        yield f"the output in training mode for {name}", loosely(layer(x))


@promise("BatchNorm1d.forward", points=4, hint="Multiply the normalized x by weight, and add bias.")
def test_affine(code: Student, draw: Draw) -> Cases:
    """The normalized x is scaled by weight and shifted by bias."""
    layer = new_layer(code, draw, *AFFINE)
    x = standard(draw.normal(MANY, 3)) + 1
    yield "the output in training mode of a layer with other weights", loosely(layer(x))


@promise(
    "BatchNorm1d.forward",
    points=8,
    hint="(1 - momentum) * running + momentum * batch's, with var * m / (m - 1).",
)
def test_running_statistics(code: Student, draw: Draw) -> Cases:
    """In training mode the running statistics move towards the batch's, with the unbiased variance."""
    for shape in ((2, 3), (4, 3, 2)):
        layer = new_layer(code, draw, *RUNNING, eps=0.5, momentum=0.3)
        after = buffers_after(code, layer, draw.normal(*shape, scale=2.0) + 1)
        what = f"the buffers after a pass in training mode for x of shape {shape}"
        yield what, within(after, **STATISTICS)
    after = code.run("passes", [draw.normal(4, 3) for _ in range(3)])
    what = "the buffers of a new layer after three passes, the last one under torch.no_grad()"
    yield what, {name: entry(after, name) for name in BUFFERS}


@promise(
    "BatchNorm1d.forward",
    hint="Update the buffers under torch.no_grad(), or with detached values.",
    word="the sandbox says which buffers require grad",
)
def test_no_graph_in_buffers(code: Student, draw: Draw) -> Cases:
    """The buffers never require grad or hold a graph."""
    graph = code.run("buffers_in_a_graph", draw.normal(4, 3))
    yield "the list of the buffers that require grad after a pass", graph


# --- forward in evaluation mode ------------------------------------------------------------------


@promise(
    "BatchNorm1d.forward",
    points=6,
    hint="if self.training: the batch's statistics, and an update; else the running ones.",
    after="test_training",
)
def test_evaluation(code: Student, draw: Draw) -> Cases:
    """In evaluation mode the running statistics are used, and nothing is updated."""
    for shape in ((4, 3, 2), (1, 3)):
        layer = new_layer(code, draw, *RUNNING).eval()
        x, call = draw.normal(*shape, scale=2.0) + 1, "forward in evaluation mode"
        output = laws.check_changes_nothing(code, layer, x, call=call)
        yield f"the output in evaluation mode for x of shape {shape}", loosely(output)


# --- forward in both modes -----------------------------------------------------------------------


@promise(
    "BatchNorm1d.forward",
    points=5,
    hint="mean and variance stay in the graph: no detach, no torch.no_grad() around them.",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Gradients reach x, weight and bias, in training mode through the batch's statistics, too."""
    for mode in ("training", "evaluation"):
        layer = new_layer(code, draw, *AFFINE, *RUNNING).train(mode == "training")
        x = draw.leaf("x", standard(draw.normal(5, 3)) + 1)
        draw.leaves.update(layer.named_parameters())
        yield f"the output in {mode} mode", layer(x)


@promise(
    "BatchNorm1d.forward",
    points=3,
    hint="(x - mean).square().mean(dims), not x.square().mean(dims) - mean.square().",
)
def test_far_from_zero(code: Student, draw: Draw) -> Cases:
    """For data far from zero the variance keeps its digits, also in running_var."""
    layer = new_layer(code, draw).double()
    x = standard(draw.normal(256, 3, dtype=torch.float64)) + FAR
    output, after = layer(x), buffers_after(code, layer, x)
    yield f"the output for x near {FAR:g}", any_gradients(within(output, **FAR_DIGITS))
    yield f"running_var after an x near {FAR:g}", within(after["running_var"], **FAR_DIGITS)


@promise("BatchNorm1d.forward", hint="Name no dtype in forward.", after="test_training")
def test_float64(code: Student, draw: Draw) -> Cases:
    """After layer.double() the output has float64's precision."""
    layer = new_layer(code, draw, *RUNNING).double()
    yield "the output", any_gradients(layer(draw.normal(5, 3, dtype=torch.float64)))


@promise(
    "BatchNorm1d.forward",
    hint="Write nothing into x; use reshape where you use view.",
    after="test_training",
)
def test_any_x(student: Student) -> None:
    """x is not changed, and need not be contiguous."""
    layer = student.module(NORM, 3)
    x = torch.randn(4, 3, 4, requires_grad=True)
    laws.check_changes_nothing(student, layer, x, call="forward", allow=["buffers"])
    laws.check_layouts(student, layer, torch.randn(4, 3, 4))


@promise(
    "BatchNorm1d.forward", points=2, hint="Check x before anything is computed, in both modes."
)
def test_shape_errors(code: Student, draw: Draw) -> Cases:
    """An x without 2 or 3 dimensions, or with another number of features, is a ValueError."""
    for mode in ("training", "evaluation"):
        layer = code.module(NORM, 3).train(mode == "training")
        for shape in ((2, 3, 4, 5), (4, 1), (2, 4, 3)):
            what = f"BatchNorm1d(3) in {mode} mode, for x of shape {shape},"
            yield what, raises(ValueError, "x", layer, draw.normal(*shape))


@promise("BatchNorm1d.forward", hint="m is N, or N * L: a variance needs two values.")
def test_too_few_values(code: Student, draw: Draw) -> Cases:
    """One row is a ValueError in training mode, also with L = 1; one row with L = 2 is fine."""
    layer = code.module(NORM, 3)
    for shape in ((1, 3), (1, 3, 1)):
        what = f"BatchNorm1d(3) in training mode, for x of shape {shape},"
        yield what, raises(ValueError, "x", layer, draw.normal(*shape))
    laws.observe(code, layer, draw.normal(1, 3, 2)).checked()


@promise("BatchNorm1d.forward", hint="Without any row m is 0, which is below 2.")
def test_empty_batch(code: Student, draw: Draw) -> Cases:
    """An empty batch is a ValueError in training mode."""
    layer, what = code.module(NORM, 3), "BatchNorm1d(3) in training mode, for x of shape (0, 3),"
    yield what, raises(ValueError, "x", layer, draw.normal(0, 3))


@promise("BatchNorm1d.forward", hint="Check x first; only then compute and update.")
def test_errors_change_nothing(student: Student) -> None:
    """A refused x leaves the state as it is."""
    for shape in ((2, 4), (1, 3)):
        x, layer = torch.randn(shape), student.module(NORM, 3)
        call = f"forward for x of shape {shape}"
        laws.check_changes_nothing(student, layer, x, raises=ValueError, call=call)


@promise(
    "BatchNorm1d.forward",
    hint="Compute x.mean and a square root, and write the formula as the text has it.",
    after="test_training",
)
def test_by_hand(student: Student) -> None:
    """forward does not call PyTorch's references and decompositions of its normalization either."""
    files = entry(student.run("files", torch.randn(4, 3)), kind=list)
    inner = [file for file in files if str(file) in ("_decomp", "_refs", "_prims", "_inductor")]
    assert not inner, "forward runs PyTorch's own decompositions: write out the formula."


# --- batching_gap --------------------------------------------------------------------------------


@promise(
    "batching_gap",
    points=8,
    hint="(module(x) - torch.cat([module(batch) for ...])).abs().max().item()",
)
def test_gap(code: Student, draw: Draw) -> Cases:
    """The gap is the largest absolute difference over all rows."""
    for batch_far_off in (slice(3, 6), slice(6, 8)):  # the middle and the last one, of 3 rows
        x = draw.normal(8, 3)
        x[batch_far_off] += SHIFT  # the largest difference is negative
        gap = code.function("batching_gap")(code.made("Centered"), x, 3)
        yield "the gap of a module that subtracts the mean of its batch", gap
    gap = code.function("batching_gap")(code.made("Centered"), draw.normal(8, 3), 9)
    yield "the gap of 8 rows in batches of 9", gap


@promise("batching_gap", points=6, hint="Call neither train() nor eval().", after="test_gap")
def test_gap_modes(code: Student, draw: Draw) -> Cases:
    """The module and its parts run in their own modes."""
    for training in (ALL, ["3"]):
        network = code.made("network", draw.seed(), training)
        gap = code.function("batching_gap")(network, draw.normal(6, 3, dtype=torch.float64), 2)
        yield f"the gap of a module with the parts {training} in training", gap


@promise(
    "batching_gap",
    points=3,
    hint="Each pass on a deep copy of its own, or the state set back before each one.",
    after="test_gap",
)
def test_gap_starts_anew(code: Student, draw: Draw) -> Cases:
    """Every pass starts from the module's state before the call, not from the state after the previous pass."""
    gap = code.function("batching_gap")(code.made("Counting"), draw.normal(6, 3), 2)
    yield "the gap of a module that multiplies x by the number of its calls", gap


@promise(
    "batching_gap",
    points=6,
    hint="Work on copy.deepcopy(module), or put copies of the state back in a finally.",
)
def test_gap_leaves_the_module(student: Student) -> None:
    """Afterwards the module is as before, also when it raises, and its error passes through."""
    network, x = student.made("network", 0, ["", "0"]), torch.randn(6, 3).double()
    laws.check_changes_nothing(student, "batching_gap", network, x, 2, told=STATE)
    # The last batch has two rows.
    broken, call = student.made("broken", 0, ALL), "batching_gap with a module that raises"
    laws.check_changes_nothing(
        student, "batching_gap", broken, x, 4, raises=LookupError, call=call, told=FINALLY
    )


@promise(
    "batching_gap",
    points=2,
    hint="if batch_size < 1: raise ValueError(...), before the first pass.",
)
def test_gap_errors(code: Student, draw: Draw) -> Cases:
    """A batch_size below 1 is a ValueError that names it."""
    gap, module, x = code.function("batching_gap"), code.made("Counting"), draw.normal(4, 3)
    for size in (0, -1):
        what = f"batching_gap with a batch_size of {size}"
        yield what, raises(ValueError, "batch_size", gap, module, x, size)
    gap(module, x, 1)  # not an error


# --- helpers of the tests ------------------------------------------------------------------------


def new_layer(code: Student, draw: Draw, *random: str, **options: Any) -> Any:
    """A layer with drawn numbers in the parameters and buffers named in `random`, the others at their defaults.

    Another test judges whether the layer has all of them, and how they start.
    """
    layer = code.module(NORM, 3, **options)
    own = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    start = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
    for name, value in start.items():
        drawn = draw.uniform(3, low=0.5, high=1.5) if name in random else torch.full((3,), value)
        if name in own and own[name].shape == (3,):
            own[name].data.copy_(drawn)
    return layer


def standard(x: Tensor) -> Tensor:
    """Standardize each feature of x to mean 0 and variance 1, so that other mistakes do not show."""
    dims = [0, *range(2, x.dim())]
    deviations = x - x.mean(dims, keepdim=True)
    return deviations / deviations.square().mean(dims, keepdim=True).sqrt()


def loosely(output: Any) -> Any:
    """Compare an output loosely: other tests look at its last digits and its gradients."""
    return any_gradients(within(output, **LOOSE))


def buffers_after(code: Student, layer: Any, x: Tensor) -> dict[str, Any]:
    """The buffers after a pass over x."""
    after = laws.observe(code, layer, x).checked().after("module", "buffers")
    return {name: entry(after, name, "values") for name in BUFFERS}
