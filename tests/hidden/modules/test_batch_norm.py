"""Tests of BatchNorm1d and batching_gap."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, must_raise
from grader.judge.student import Student

randn64 = functools.partial(torch.randn, dtype=torch.float64)
AFFINE, RUNNING = ("weight", "bias"), ("running_mean", "running_var")
BUFFERS = (*RUNNING, "num_batches_tracked")
# In so many rows it makes no difference, within LOOSE, whether the variance is divided by m or by m - 1.
MANY = 2000
LOOSE: Any = {"rtol": 2e-3, "atol": 2e-3}
LOOSE_SUMS: Any = {"rtol": 1e-3, "atol": 1e-2}  # of gradients, which are sums over MANY rows
STATISTICS: Any = {"rtol": 1e-5, "atol": 1e-6}  # of running statistics
# Where the variance is small, eps shows.
SPREAD = torch.tensor([2.0, 2.0, 0.02]).double()
FAR = 1e8
FAR_DIGITS: Any = {"rtol": 0.0, "atol": 0.01}  # a variance from squares is off by about 1 there
# The parts of the network that are in training mode; its norms are "0" and "3".
ALL = ["", "0", "1", "2", "3"]
# So far are the rows of one batch from the others.
SHIFT = torch.tensor([-40.0, 30.0, 0.0])
STATE = "The module is not as it was. (state_dict() holds the tensors themselves, not copies.)"


# --- the state -----------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("BatchNorm1d.__init__")
@pytest.mark.hint("nn.Parameter for weight and bias, self.register_buffer for the statistics.")
def test_state(student: Student) -> None:
    """Parameters and buffers are those of nn.BatchNorm1d: names, shapes, dtypes and values."""
    layer, right = student.module("BatchNorm1d", 3), nn.BatchNorm1d(3)
    laws.check_parameters(layer, {"weight": [3], "bias": [3]}, call="BatchNorm1d(3)")
    laws.check_state_dict(layer, [*AFFINE, *BUFFERS])
    what = "the parameters of a new BatchNorm1d(3)"
    assert_equal(parameters_of(layer), parameters_of(right), what=what, ordered=False)
    buffers = dict(layer.named_buffers())
    # Buffers that are not saved are free.
    own = {name: buffers[name] for name in BUFFERS if name in buffers}
    what = "the buffers of a new BatchNorm1d(3)"
    assert_equal(own, dict(right.named_buffers()), what=what, ordered=False)
    for name, parameter in layer.named_parameters():
        assert parameter.requires_grad, (
            f"{name} does not require grad: weight and bias are learned."
        )


# --- forward in training mode --------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(x - mean) / sqrt(var + eps), with mean and var of each column of x.")
def test_training(student: Student) -> None:
    """In training mode each feature of (N, C) is normalized by the mean and variance of the batch."""
    layer, right = new_layers(student, random=RUNNING)
    x = randn64(MANY, 3) * torch.tensor([2.0, 1.0, 3.0]) + 4 * randn64(3)
    assert_close(layer(x), right(x), what="the output in training mode for an x (N, C)", **LOOSE)


@pytest.mark.points(6)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("For (N, C, L) there is one mean and one variance for each of the C features.")
def test_three_dimensions(student: Student) -> None:
    """For x of shape (N, C, L) the statistics of each feature are taken over N and L."""
    layer, right = new_layers(student, random=RUNNING)
    x = standard(randn64(50, 3, 40)) + 4 * randn64(3, 1)
    assert_close(layer(x), right(x), what="the output in training mode for an x (N, C, L)", **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("var(correction=0), or the mean of the squared deviations.")
def test_biased_variance(student: Student) -> None:
    """In training mode x is normalized with the biased variance of the batch."""
    layer, right = new_layers(student, random=RUNNING)
    x = standard(randn64(5, 3)) + 1
    what = "the output in training mode for a batch of 5 rows"
    assert_close(layer(x), right(x), what=what, **LOOSE)


@pytest.mark.points(3)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("The denominator is sqrt(var + eps), with the eps that the layer was made with.")
def test_eps(student: Student) -> None:
    """eps stands inside the root, and is 1e-5 unless another one is asked for."""
    for options in ({"eps": 0.5}, {}):
        layer, right = new_layers(student, random=RUNNING, **options)
        x = randn64(MANY, 3) * SPREAD + 1
        what = f"the output in training mode for eps = {right.eps:g}"
        assert_close(layer(x), right(x), what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Multiply the normalized x by weight, and add bias.")
def test_affine(student: Student) -> None:
    """The normalized x is scaled by weight and shifted by bias, and gradients reach both."""
    layer, right = new_layers(student, random=AFFINE)
    x = standard(randn64(MANY, 3)) + 1
    output, expected = layer(x), right(x)
    what = "the output in training mode of a layer with other weights"
    assert_close(output, expected, what=what, **LOOSE)
    (output * x).sum().backward()
    (expected * x).sum().backward()
    own = dict(layer.named_parameters())
    gradients = {name: entry(own, name).grad for name in AFFINE}
    wanted = {name: parameter.grad for name, parameter in right.named_parameters()}
    assert_close(gradients, wanted, what="the dict of the gradients", **LOOSE_SUMS)


@pytest.mark.points(9)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(1 - momentum) * running + momentum * batch's, with var * m / (m - 1).")
def test_running_statistics(student: Student) -> None:
    """In training mode the running statistics move towards the batch's, with the unbiased variance."""
    for shape in ((2, 3), (4, 3, 2)):
        layer, right = new_layers(student, random=RUNNING, momentum=0.3)
        x = randn64(shape) * 2 + 1
        right(x)
        what = f"the dict of buffers after a pass in training mode for x of shape {shape}"
        after = buffers_after(student, layer, x)
        assert_close(after, dict(right.named_buffers()), what=what, **STATISTICS)
    xs, right = list(torch.randn(3, 4, 3)), nn.BatchNorm1d(3)
    for x in xs:
        right(x)
    report = student.run("passes", xs)
    after = {name: entry(report, "buffers", name) for name in BUFFERS}
    what = "the dict of buffers of a new layer after three passes"
    assert_close(after, dict(right.named_buffers()), what=what)
    graph = entry(report, "graph", kind=list)
    assert_equal(graph, [], what="the list of the buffers that require grad after a pass")


# --- forward in evaluation mode ------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.requires("test_training")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("if self.training: the batch's statistics, and an update; else the running ones.")
def test_evaluation(student: Student) -> None:
    """In evaluation mode the running statistics are used, and nothing is updated."""
    for shape in ((4, 3, 2), (1, 3), (0, 3)):
        layer, right = new_layers(student)
        x = randn64(shape) * 2 + 1
        call = "forward in evaluation mode"
        output = laws.check_changes_nothing(student, layer.eval(), x, call=call)
        what = f"the output in evaluation mode for x of shape {shape}"
        assert_close(output, right.eval()(x), what=what, **LOOSE)


# --- forward in both modes -----------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("mean and variance stay in the graph: no detach, no torch.no_grad() around them.")
def test_gradients(student: Student) -> None:
    """Gradients reach x, weight and bias, in training mode through the batch's statistics, too."""
    for training in (True, False):
        layer, right = new_layers(student, random=RUNNING)
        x = (standard(randn64(5, 3)) + 1).requires_grad_()
        own = {name: p for name, p in layer.named_parameters() if name in AFFINE}
        right.train(training)

        def formula(x: Tensor, *parameters: Tensor) -> Any:
            """What PyTorch's layer gives with these parameters."""
            values = dict(zip(own, parameters, strict=True))
            return torch.func.functional_call(right, values, (x,))

        laws.check_gradients(layer.train(training)(x), {"x": x, **own}, formula)


@pytest.mark.points(3)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(x - mean).square().mean(dims), not x.square().mean(dims) - mean.square().")
def test_far_from_zero(student: Student) -> None:
    """Where data lie far from zero the variance keeps its digits, also in running_var."""
    layer, right = new_layers(student, random=())
    x = standard(randn64(256, 3)) + FAR
    assert_close(layer(x), right(x), what=f"the output for x near {FAR:g}", **FAR_DIGITS)
    after = buffers_after(student, layer, x)["running_var"]
    what = f"running_var after an x near {FAR:g}"
    assert_close(after, right.running_var, what=what, **FAR_DIGITS)


@pytest.mark.points(2)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Write nothing into x; name no dtype in forward.")
def test_any_x(student: Student) -> None:
    """x is not changed and may have any strides, and the output has its dtype and precision."""
    layer = student.module("BatchNorm1d", 3)
    x = torch.randn(4, 3, 4, requires_grad=True)
    laws.check_changes_nothing(student, layer, x, call="forward", allow=["buffers"])
    assert_tensor(layer(x), shape=x.shape, dtype=torch.float32)
    layer, right = new_layers(student, random=RUNNING)
    for layout, x in laws.layouts_of(randn64(4, 3, 4)).items():
        assert_close(layer(x), layer(x.contiguous()), what=f"the output for x {layout} in memory")
    x = randn64(5, 3)
    laws.check_float64(layer(x), right(x))


@pytest.mark.points(4)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Check x before anything is computed or updated; m is N, or N * L.")
def test_errors(student: Student) -> None:
    """An x of another shape, or with fewer than two values in training mode, is a ValueError."""
    layer, _ = new_layers(student)
    wrong, too_few = [(2, 3, 4, 5), (4, 1), (2, 4, 3)], [(1, 3), (0, 3), (1, 3, 1)]
    cases = [(shape, "training") for shape in wrong + too_few]
    cases += [(shape, "evaluation") for shape in wrong]
    for shape, mode in cases:
        seen = laws.observe(student, layer.train(mode == "training"), randn64(shape))
        call = f"BatchNorm1d(3) in {mode} mode, for x of shape {shape},"
        with must_raise(ValueError, mentions="x", call=call):
            seen.checked()
        changed = [change.words for change in seen.changes()]
        assert_equal(changed, [], what=f"the list of what {call} changed before it raised")
    laws.observe(student, layer.train(), randn64(1, 3, 2)).checked()  # one row, but two values


@pytest.mark.requires("test_training")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Compute x.mean and a square root, and write the formula as the text has it.")
def test_by_hand(student: Student) -> None:
    """forward does not call PyTorch's references and decompositions of its normalization either."""
    files = entry(student.run("files", torch.randn(4, 3)), kind=list)
    inner = [file for file in files if str(file) in ("_decomp", "_refs", "_prims", "_inductor")]
    assert not inner, f"forward runs functions of torch.{inner[0]}: write out the formula."


# --- batching_gap --------------------------------------------------------------------------------


@pytest.mark.points(10)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("(module(x) - torch.cat([module(batch) for ...])).abs().max().item()")
def test_gap(student: Student) -> None:
    """The gap is the largest absolute difference, in the modes in which the module's parts are."""
    middle, last = slice(3, 6), slice(6, 8)  # of batches of 3 rows
    for batch_far_off in (middle, last):
        x = torch.randn(8, 3)
        x[batch_far_off] += SHIFT  # the largest difference is negative
        gap = student.function("batching_gap")(student.made("Centered"), x, 3)
        parts = torch.cat([centered(batch) for batch in x.split(3)])
        right = (centered(x) - parts).abs().max().item()
        assert_close(gap, right, what="the gap of a module that subtracts the mean of its batch")
    gap = student.function("batching_gap")(student.made("Centered"), x, 9)
    assert_close(gap, 0.0, what="the gap of 8 rows in batches of 9")
    state, x = new_network_state(), randn64(6, 3)
    for training in (ALL, ["3"]):
        gap = student.function("batching_gap")(student.made("network", state, training), x, 2)
        right = network_gap(state, x, 2, training)
        assert_close(gap, right, what=f"the gap of a module with the parts {training} in training")


@pytest.mark.points(3)
@pytest.mark.requires("test_gap")
@pytest.mark.place("batching_gap")
@pytest.mark.hint("Each pass on a deep copy of its own, or the state set back before each one.")
def test_gap_starts_anew(student: Student) -> None:
    """Every pass starts from the module's state of now, not from what the previous pass left."""
    gap = student.function("batching_gap")(student.made("Counting"), torch.randn(6, 3), 2)
    assert_close(gap, 0.0, what="the gap of a module that multiplies x by the number of its calls")


@pytest.mark.points(6)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("state_dict() holds the tensors themselves: work on copy.deepcopy(module).")
def test_gap_leaves_the_module(student: Student) -> None:
    """Afterwards the module is as it was, also when it raises, and its error passes through."""
    check = functools.partial(laws.check_changes_nothing, student, "batching_gap", told=STATE)
    check(student.made("network", new_network_state(), ["", "0"]), randn64(6, 3), 2)
    # For the last batch, of one row, a norm in training mode raises.
    module = student.made("network", new_network_state(), ALL)
    call = "batching_gap with a module that raises"
    check(module, randn64(5, 3), 2, raises=ValueError, call=call)


@pytest.mark.points(2)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("if batch_size < 1: raise ValueError(...), before the first pass.")
def test_gap_errors(student: Student) -> None:
    """A batch_size below 1 is a ValueError that names it."""
    module, x = student.made("Counting"), torch.randn(4, 3)
    calls = [(module, x, 0), (module, x, -1)]
    laws.check_errors(student, "batching_gap", {"batch_size": calls}, fine=(module, x, 1))


# --- locally -------------------------------------------------------------------------------------


def parameters_of(module: Any) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def new_layers(
    student: Student, *, random: Sequence[str] = (*AFFINE, *RUNNING), **options: Any
) -> tuple[Any, nn.BatchNorm1d]:
    """A layer of the student's and one of PyTorch's in float64, with the same random numbers in `random`.

    The rest is as it should begin: whether it does, and whether the layer has all of them, is another test.
    """
    layer = student.module("BatchNorm1d", 3, **options).double()
    right = nn.BatchNorm1d(3, **options).double()
    own = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    values = {"weight": randn64(3), "bias": randn64(3), "running_mean": randn64(3)}
    values["running_var"] = torch.rand(3).double() + 0.5
    state = right.state_dict()
    for name, value in values.items():
        if name in own and own[name].shape == (3,):
            if name in random:
                state[name].copy_(value)
            own[name].data.copy_(state[name])
    return layer, right


def standard(x: Tensor) -> Tensor:
    """x with mean 0 and variance 1 for each feature, so that other slips do not show."""
    dims = [0, *range(2, x.dim())]
    deviations = x - x.mean(dims, keepdim=True)
    return deviations / deviations.square().mean(dims, keepdim=True).sqrt()


def buffers_after(student: Student, layer: Any, x: Tensor) -> dict[str, Any]:
    """The buffers after a pass over x."""
    after = laws.observe(student, layer, x).checked().after("module", "buffers")
    return {name: entry(after, name, "values") for name in BUFFERS}


def new_network() -> nn.Sequential:
    """The probe's network."""
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)).double()


def new_network_state() -> dict[str, Tensor]:
    state = new_network().state_dict()
    for name, tensor in state.items():
        if name.endswith("running_var"):
            tensor.copy_(torch.rand(tensor.shape) + 0.5)
        elif tensor.dim():
            tensor.copy_(randn64(tensor.shape))
    return state


def network_gap(state: dict[str, Tensor], x: Tensor, size: int, training: list[str]) -> float:
    """The gap of the network with these parts in training mode."""
    network = new_network()
    for name, part in network.named_modules():
        part.training = name in training
    outputs = []
    for batch in (x, *x.split(size)):
        network.load_state_dict(state)
        outputs.append(network(batch).detach())
    return float((outputs[0] - torch.cat(outputs[1:])).abs().max())


def centered(x: Tensor) -> Tensor:
    return x - x.mean(0)
