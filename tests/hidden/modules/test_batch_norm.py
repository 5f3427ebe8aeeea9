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

randn = functools.partial(torch.randn, dtype=torch.float64)
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
AFFINE, RUNNING = ("weight", "bias"), ("running_mean", "running_var")
START = nn.BatchNorm1d(3).double().state_dict()
# In as many rows it makes no difference whether the variance is divided by m or by m - 1.
MANY = 2000
LOOSE: Any = {"rtol": 2e-3, "atol": 2e-3}
SPREAD = torch.tensor([2.0, 2.0, 0.02]).double()
STATE = "The module is not as it was. (state_dict() holds the tensors themselves, not copies.)"


@pytest.mark.points(5)
@pytest.mark.place("BatchNorm1d.__init__")
@pytest.mark.hint("nn.Parameter for weight and bias, self.register_buffer for the statistics.")
def test_state(student: Student) -> None:
    """Parameters and buffers are those of nn.BatchNorm1d: names, shapes, dtypes and values."""
    layer = student.module("BatchNorm1d", 3)
    laws.check_parameters(layer, {"weight": [3], "bias": [3]}, call="BatchNorm1d(3)")
    laws.check_state_dict(layer, ["weight", "bias", *BUFFERS])
    parameters, buffers = dict(layer.named_parameters()), dict(layer.named_buffers())
    learned = sorted(set(parameters) & set(BUFFERS))
    assert not learned, f"{learned} are parameters, which an optimizer moves: make them buffers."
    right = nn.BatchNorm1d(3).state_dict()
    tensors = {**parameters, **buffers}.items()
    values = {name: tensor.detach() for name, tensor in tensors if name in right}
    assert_equal(values, dict(right), what="the state of a new BatchNorm1d(3)", ordered=False)
    frozen = [name for name, parameter in parameters.items() if not parameter.requires_grad]
    assert not frozen, f"{frozen} do not require grad: weight and bias are learned."


@pytest.mark.points(12)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(x - mean) / sqrt(var + eps), with mean and var of each column of x.")
def test_training(student: Student) -> None:
    """In training mode each feature of (N, C) is normalized by the mean and variance of the batch."""
    for rate in (0.1, 0.3):
        layer, state = new_layer(student, RUNNING, momentum=rate)
        x = randn(MANY, 3) * torch.tensor([2.0, 1.0, 3.0]) + 4 * randn(3)
        mean, var, _ = statistics(x)
        both = functools.partial(normalized, x, state)
        what = f"the output in training mode for x of shape {tuple(x.shape)}"
        assert_close(layer(x), both(mean, var), what=what, **LOOSE)


@pytest.mark.points(6)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("For (N, C, L) there is one mean and one variance for each of the C features.")
def test_three_dimensions(student: Student) -> None:
    """For x of shape (N, C, L) the statistics of each feature are taken over N and L."""
    layer, state = new_layer(student, RUNNING)
    x = standard(randn(50, 3, 40)) + 4 * randn(3, 1)
    both = functools.partial(normalized, x, state)
    mean, var, _ = statistics(x)
    what = f"the output in training mode for x of shape {tuple(x.shape)}"
    assert_close(layer(x), both(mean, var), what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("var(correction=0), or the mean of the squared deviations.")
def test_biased_variance(student: Student) -> None:
    """In training mode x is normalized with the biased variance of the batch."""
    layer, state = new_layer(student, RUNNING)
    x = standard(randn(5, 3)) + 1
    mean, var, _m = statistics(x)
    both = functools.partial(normalized, x, state, mean)
    what = "the output in training mode for a batch of 5 rows"
    assert_close(layer(x), both(var), what=what, **LOOSE)


@pytest.mark.points(3)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("The denominator is sqrt(var + eps), with the eps that the layer was made with.")
def test_eps(student: Student) -> None:
    """eps stands inside the root, and is 1e-5 unless another one is asked for."""
    for options in ({"eps": 0.5}, {}, {"eps": 0.0}):
        layer, state = new_layer(student, RUNNING, **options)
        x, eps = randn(MANY, 3) * SPREAD + 1, options.get("eps", 1e-5)
        mean, var, _ = statistics(x)
        both = functools.partial(normalized, x, state, mean)
        what = f"the output in training mode for eps = {eps:g}"
        assert_close(layer(x), both(var, eps), what=what, **LOOSE)


@pytest.mark.points(4)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Multiply the normalized x by weight, and add bias.")
def test_affine(student: Student) -> None:
    """The normalized x is scaled by weight and shifted by bias, and gradients reach both."""
    layer, state = new_layer(student, AFFINE)
    x = standard(randn(MANY, 3)) + 1
    mean, var, _ = statistics(x)
    output = layer(x)
    what = "the output in training mode of a layer with other weights"
    assert_close(output, normalized(x, state, mean, var), what=what, **LOOSE)
    own = dict(layer.named_parameters())
    leaves = {name: entry(own, name) for name in AFFINE}
    values = output.detach(), normalized(x, START, mean, var)
    (output * x).sum().backward()
    right = {"weight": (values[1] * x).sum(0), "bias": x.sum(0)}
    gradients = {name: leaf.grad for name, leaf in leaves.items()}
    assert_close(gradients, right, what="the dict of the gradients", rtol=1e-3, atol=1e-2)


@pytest.mark.points(9)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(1 - momentum) * running + momentum * batch's, with var * m / (m - 1).")
def test_running_statistics(student: Student) -> None:
    """In training mode the running statistics move towards the batch's, with the unbiased variance."""
    shapes = (5, 3), (4, 3, 2), (1, 3, 6), (2, 3)
    for shape, rate in zip(shapes, (0.3, 0.3, 0.3, 0.0), strict=True):
        layer, state = new_layer(student, RUNNING, momentum=rate)
        x = randn(shape) * 2 + 1
        mean, var, m = statistics(x)
        unbiased, move = var * m / (m - 1), functools.partial(moved, state, mean)
        right = move(unbiased, rate)
        what = f"the dict of buffers after a pass in training mode for x of shape {shape}"
        after = buffers_after(student, layer, x)
        assert_close(after, right, what=what, rtol=1e-5, atol=1e-6)
    xs, reference = list(torch.randn(3, 4, 3)), nn.BatchNorm1d(3)
    for x in xs:
        reference(x)
    report = student.run("passes", xs)
    what = "the dict of buffers after three passes"
    assert_close(entry(report, "buffers"), dict(reference.named_buffers()), what=what)
    graph = entry(report, "graph", kind=list)
    assert not graph, f"{graph} require grad: update buffers with detached values."


@pytest.mark.points(6)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("if self.training: the batch's statistics, and an update; else the running ones.")
def test_evaluation(student: Student) -> None:
    """In evaluation mode the running statistics are used, and nothing is updated."""
    for shape in ((5, 3), (4, 3, 2), (1, 3), (1, 3, 1), (0, 3)):
        layer, state = new_layer(student)
        layer.eval()
        x = randn(shape) * 2 + 1
        right = normalized(x, state, state["running_mean"], state["running_var"])
        what = f"the output in evaluation mode for x of shape {shape}"
        value = laws.check_changes_nothing(student, layer, x, call="forward in evaluation mode")
        assert_close(value, right, what=what, **LOOSE)


@pytest.mark.points(2)
@pytest.mark.place("BatchNorm1d.__init__")
@pytest.mark.hint("Buffers of the same names, shapes and dtypes, and nothing else, make that so.")
def test_state_dicts_load_both_ways(student: Student) -> None:
    """A state dict of nn.BatchNorm1d loads into the layer, and the layer's into nn.BatchNorm1d."""
    state, x = {**new_state(), "num_batches_tracked": torch.tensor(7)}, randn(4, 3)
    report = student.run("exchanged", state, x)
    assert_equal(entry(report, "state"), state, what="the dict of the state", ordered=False)
    right = normalized(x, state, state["running_mean"], state["running_var"])
    what = "the output after loading a state dict"
    assert_close(entry(report, "output"), right, what=what, **LOOSE)


@pytest.mark.points(5)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("mean and variance stay in the graph: no detach, no torch.no_grad() around them.")
def test_gradients(student: Student) -> None:
    """Gradients reach x, in training mode through the batch's statistics, too."""
    for shape, training in (((5, 3), True), ((4, 3, 2), True), ((5, 3), False)):
        layer, state = new_layer(student, RUNNING)
        x = (standard(randn(shape)) + 1).requires_grad_()
        running = None if training else (state["running_mean"], state["running_var"])
        right = functools.partial(formula, running=running)
        laws.check_gradients(layer.train(training)(x), {"x": x}, right)


@pytest.mark.points(3)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(x - mean).square().mean(dims), not x.square().mean(dims) - mean.square().")
def test_far_from_zero(student: Student) -> None:
    """Where data lie far from zero the variance keeps its digits, also in running_var."""
    for dtype, shift in ((torch.float64, 1e8), (torch.float32, 3e3)):
        x = (standard(randn(256, 3)) + shift).to(dtype)
        layer = student.module("BatchNorm1d", 3).to(dtype)
        mean, var, m = statistics(x.double())
        output, later = normalized(x.double(), START, mean, var), 0.9 + 0.1 * var * m / (m - 1)
        right = {"the output": output, "running_var": later}
        own = layer(x), buffers_after(student, layer, x)["running_var"]
        for (what, values), value in zip(right.items(), own, strict=True):
            value = assert_tensor(value, shape=values.shape, dtype=dtype, what=what)
            worst = (value.double() - values).abs().max().item()
            told = f"For x near {shift:g} {what} is off by {worst:.2g}."
            assert worst < 0.01, f"{told} Take the variance from the deviations x - mean."


@pytest.mark.points(4)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Check x before anything is computed or updated; m is N, or N * L.")
def test_errors(student: Student) -> None:
    """An x of another shape, or with fewer than two values in training mode, is a ValueError."""
    layer, _ = new_layer(student)
    wrong = ((3,), (2, 3, 4, 5), (4, 2), (4, 1), (2, 4, 3))
    for shape in (*wrong, (1, 3), (1, 3, 1), (0, 3)):
        for mode in ("training", "evaluation")[: 1 + (shape in wrong)]:
            seen = laws.observe(student, layer.train(mode == "training"), randn(shape))
            call = f"BatchNorm1d(3) in {mode} mode, for x of shape {shape},"
            with must_raise(ValueError, mentions="x", call=call):
                seen.checked()
            changed = ", ".join(change.words for change in seen.changes())
            assert not changed, f"{call} changed {changed}: check x before anything else."


@pytest.mark.requires("test_training")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Compute x.mean and a square root, and write the formula as the text has it.")
def test_by_hand(student: Student) -> None:
    """forward does not call PyTorch's references and decompositions of its normalization either."""
    files = entry(student.run("files", torch.randn(4, 3)), kind=list)
    inner = [file for file in files if str(file) in ("_decomp", "_refs", "_prims", "_inductor")]
    assert not inner, f"forward runs functions of torch.{inner[0]}: write out the formula."


@pytest.mark.points(2)
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Write nothing into x; name no dtype in forward.")
def test_any_x(student: Student) -> None:
    """x is not changed and may have any strides, and the output has its dtype and precision."""
    layer = student.module("BatchNorm1d", 3)
    for training, x in ((True, torch.randn(4, 3, 4)), (False, torch.randn(4, 3))):
        layer.train(training)
        for given in laws.kinds_of(x):
            laws.check_changes_nothing(student, layer, given, call="forward", allow=["buffers"])
        laws.check_layouts(student, layer, x)
        assert_tensor(layer(x), shape=x.shape, dtype=torch.float32)
    layer, state = new_layer(student, RUNNING)
    x = randn(5, 3)
    mean, var, _ = statistics(x)
    told = "In float64 the output has the precision of float32: compute in the dtype of x."
    assert (layer(x) - normalized(x, state, mean, var)).abs().max().item() < 1e-10, told


@pytest.mark.points(10)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("(module(x) - torch.cat([module(batch) for ...])).abs().max().item()")
def test_gap(student: Student) -> None:
    """The gap is the largest absolute difference, in the modes in which the module's parts are."""
    every, sizes = ["", "0", "3"], ((12, 3), (6, 2), (5, 5), (4, 9), (6, 4), (8, 3))
    modes: tuple[list[str], ...] = (every, [], ["", "0"], every, ["3"], ["0", "1", "2"])
    for training, (rows, size) in zip(modes, sizes, strict=True):
        state, x = network_state(), randn(3, rows).T
        if rows % size == 0:  # The smallest differences are in the first and the last batch.
            worst = difference(state, x, size, training).abs().view(-1, size * 4).amax(1)
            x = x.unflatten(0, (-1, size))[worst.argsort(descending=True).roll(1)].flatten(0, 1)
        value = student.function("batching_gap")(student.made("network", state, training), x, size)
        parts = difference(state, x, size, training)
        what = f"the gap of {rows} rows in batches of {size}"
        assert_close(value, parts.abs().max().item(), what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_gap")
@pytest.mark.place("batching_gap")
@pytest.mark.hint("Each pass on a deep copy of its own, or the state set back before each one.")
def test_gap_starts_anew(student: Student) -> None:
    """Every pass starts from the module's state of now, not from what the previous pass left."""
    for size in (1, 2, 3, 7):
        module, x = student.made("Counting"), torch.randn(6, 2, 3)
        value = student.function("batching_gap")(module, x, size)
        what = "the gap, from its state of now, of a module that multiplies x by its calls"
        assert_close(value, 0.0, what=what)


@pytest.mark.points(6)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("state_dict() holds the tensors themselves: work on copy.deepcopy(module).")
def test_gap_leaves_the_module(student: Student) -> None:
    """Afterwards the module is as it was, also when it raises, and its error passes through."""
    for training in (["", "0", "3"], [], ["3", "1"]):
        model, x = student.made("network", network_state(), training), randn(6, 3)
        check = functools.partial(laws.check_changes_nothing, student, "batching_gap")
        check(model, x, 2, told=STATE)
        if training:
            told = f"{STATE} (For the last batch, of one row, the module raises.)"
            for rows, size in ((5, 2), (1, 3)):
                check(model, x[:rows], size, raises=ValueError, told=told)
    check(student.made("Counting"), torch.randn(4, 2, 3), 2, told=STATE)
    module, x = student.made("Counting", fails=True), torch.randn(5, 2, 3)
    call = "batching_gap with a module that raises"
    check(module, x, 2, raises=LookupError, told=STATE, call=call)


@pytest.mark.points(2)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("if batch_size < 1: raise ValueError(...), before the first pass.")
def test_gap_errors(student: Student) -> None:
    """A batch_size below 1 is a ValueError that names it, before the module is called."""
    module, x = student.made("Counting"), torch.randn(4, 2, 3)
    calls = [(module, x, 0), (module, x, -1), (module, x, -4)]
    laws.check_errors(student, "batching_gap", {"batch_size": calls}, fine=(module, x, 1))
    laws.check_changes_nothing(student, "batching_gap", module, x, 0, raises=ValueError)


def new_state() -> dict[str, Tensor]:
    names = ("weight", "bias", "running_mean")
    return {**{name: randn(3) for name in names}, "running_var": torch.rand(3).double() + 0.5}


def new_layer(
    student: Student, names: Sequence[str] = (*AFFINE, *RUNNING), **options: Any
) -> tuple[Any, dict[str, Tensor]]:
    """A layer in float64 and its state: random under these names, else as it should begin."""
    layer, random = student.module("BatchNorm1d", 3, **options).double(), new_state()
    state = {**START, **{name: random[name] for name in names}}
    own = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    assert own, "The layer has neither parameters nor buffers."
    with torch.no_grad():
        for name in (*AFFINE, *RUNNING):
            if name in own and own[name].shape == (3,):
                own[name].copy_(state[name])
            else:  # test_state says so; here it is taken for a constant.
                state[name] = START[name]
    return layer, state


def standard(x: Tensor) -> Tensor:
    """The same with mean 0 and variance 1 for each feature, so that other slips do not show."""
    mean, var, _ = statistics(x)
    return normalized(x, START, mean, var, 0.0)


def statistics(x: Tensor) -> tuple[Tensor, Tensor, int]:
    """Mean and biased variance of each feature, and of how many values they are."""
    rows = x.movedim(1, -1).reshape(-1, 3)
    mean = rows.mean(0)
    return mean, (rows - mean).square().mean(0), len(rows)


def over(values: Tensor, x: Tensor) -> Tensor:
    """One value for each feature, in a shape that meets x; values of other shapes as they are."""
    return values.reshape(1, -1, *[1] * (x.dim() - 2)) if values.dim() == 1 else values


def normalized(x: Tensor, state: Any, mean: Tensor, var: Tensor, eps: float = 1e-5) -> Tensor:
    mean, var, weight, bias = (over(v, x) for v in (mean, var, state["weight"], state["bias"]))
    return (x - mean) / (var + eps).sqrt() * weight + bias


def formula(x: Tensor, running: Any, cut: str = "") -> Tensor:
    """The output by the running statistics or the batch's, some of which are cut off from the graph."""
    mean, var = running or statistics(x)[:2]
    mean, var = mean.detach() if "mean" in cut else mean, var.detach() if "var" in cut else var
    return normalized(x, START, mean, var)


def moved(state: dict[str, Tensor], mean: Tensor, var: Tensor, rate: float) -> dict[str, Tensor]:
    """The buffers after a pass."""
    batch = {"running_mean": mean, "running_var": var}
    running = {name: (1 - rate) * state[name] + rate * batch[name] for name in batch}
    return {**running, "num_batches_tracked": torch.tensor(1)}


def buffers_after(student: Student, layer: Any, x: Tensor) -> dict[str, Any]:
    after = laws.observe(student, layer, x).checked().after("module", "buffers")
    return {name: entry(after, name, "values") for name in BUFFERS}


def network_state() -> dict[str, Tensor]:
    state = local().state_dict()
    state |= {name: randn(tensor.shape) for name, tensor in state.items() if tensor.dim()}
    state["3.bias"] += 100  # With such outputs a difference in float32 loses its digits.
    return state | {name: state[name].abs() + 0.5 for name in state if "var" in name}


def local() -> nn.Sequential:
    return nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)).double()


def difference(state: Any, x: Tensor, size: int, training: list[str]) -> Tensor:
    """All differences between one pass and one in batches."""
    made = local()
    for name, part in made.named_modules():
        part.training = name in training

    def anew(batch: Tensor) -> Any:
        made.load_state_dict(state)
        return made(batch)

    with torch.no_grad():
        return torch.sub(anew(x), torch.cat([anew(batch) for batch in x.split(size)]))
