"""What BatchNorm1d and batching_gap promise, sentence by sentence."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, must_raise
from grader.judge.student import Student

randn = functools.partial(torch.randn, dtype=torch.float64)
SHAPES = ((5, 3), (4, 3, 2), (1, 3, 6))
KINDS = ("buffer", "new buffer", "parameter")
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
PLAIN = {"weight": torch.ones(3), "bias": torch.zeros(3)}
SPREAD = torch.tensor([2.0, 2.0, 0.02]).double()
STATE = "The module is not as it was. (state_dict() holds its tensors themselves, no copies.)"


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


@pytest.mark.points(16)
@pytest.mark.requires("test_state")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(x - mean) / sqrt(var + eps) * weight + bias, mean and var for each feature.")
def test_training(student: Student) -> None:
    """In training mode each feature is normalized by the mean and biased variance of the batch."""
    cases: Any = [(shape, {"eps": 0.5, "momentum": 0.3}) for shape in SHAPES]
    for shape, options in (*cases, ((5, 3), {}), ((5, 3), {"eps": 0.0})):
        layer, state = new_layer(student, **options)
        x, eps = over(SPREAD, randn(shape)) * randn(shape) + 1, options.get("eps", 1e-5)
        mean, var, m = statistics(x)
        unbiased, outside = var * m / (m - 1), (var.sqrt() + eps).square() - eps
        later = moved(state, mean, unbiased, options.get("momentum", 0.1))
        both = functools.partial(normalized, x, state, eps=eps)
        running = "In training mode take the batch's statistics, not the running ones"
        unscaled = normalized(x, PLAIN, mean, var, eps)
        mistakes = {
            "The variance for normalizing is the biased one: divide by m.": both(mean, unbiased),
            f"{running}.": both(state["running_mean"], state["running_var"]),
            f"{running}, updated first.": both(later["running_mean"], later["running_var"]),
            "eps belongs inside of the root: sqrt(var + eps).": both(mean, outside),
            "eps is missing under the root.": both(mean, var - eps),
            "The output is not scaled by weight and shifted by bias.": unscaled,
            "bias is missing.": both(mean, var) - over(state["bias"], x),
            "Divide by the root of the variance.": both(mean, (var + eps).square() - eps),
        }
        for dim, where in ((0, "N"), (-1, "the last dimension"), (1, "C")):
            wrong = x.mean(dim, keepdim=True), x.var(dim, unbiased=False, keepdim=True)
            told = f"The statistics are over {where} alone: all dimensions but C belong in."
            mistakes[told] = both(*wrong)
        output, right = layer(x), both(mean, var)
        what = f"the output in training mode for x of shape {shape}"
        assert_close(output, right, what=what, mistakes=mistakes)
        told = "In float64 the output has the precision of float32: compute in the dtype of x."
        assert (output - right).abs().max().item() < 1e-11, told


@pytest.mark.points(8)
@pytest.mark.requires("test_state")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(1 - momentum) * running + momentum * batch's, with var * m / (m - 1).")
def test_running_statistics(student: Student) -> None:
    """In training mode the running statistics move towards the batch's, with the unbiased variance."""
    for shape, rate in zip((*SHAPES, (2, 3)), (0.3, 0.3, 0.3, 0.0), strict=True):
        layer, state = new_layer(student, momentum=rate)
        x, none = randn(shape) * 2 + 1, {"num_batches_tracked": torch.tensor(0)}
        mean, var, m = statistics(x)
        unbiased, move = var * m / (m - 1), functools.partial(moved, state, mean)
        right, same, swapped = move(unbiased, rate), move(var, 0), move(unbiased, 1 - rate)
        by_rows = move(var * len(x) / max(len(x) - 1, 1), rate)
        mistakes = {
            "running_var takes the unbiased variance, divided by m - 1.": move(var, rate),
            "In m / (m - 1) m counts the values of a feature, N * L, not the rows.": by_rows,
            "momentum is the wrong way round: it is the weight of the new batch.": swapped,
            "The running statistics are not updated in training mode.": same,
            "Nothing is updated in training mode.": same | none,
            "The running statistics are replaced: move them by momentum.": move(unbiased, 1),
            "num_batches_tracked does not grow by one.": right | none,
        }
        what = f"the dict of buffers after a pass in training mode for x of shape {shape}"
        assert_close(buffers_after(student, layer, x), right, what=what, mistakes=mistakes)
    xs, reference = list(torch.randn(3, 4, 3)), nn.BatchNorm1d(3)
    for x in xs:
        reference(x)
    for grad in (True, False):
        report = student.run("passes", xs, grad)
        what = "the dict of buffers after three passes" + ("" if grad else " under torch.no_grad()")
        assert_close(entry(report, "buffers"), dict(reference.named_buffers()), what=what)
        graph = entry(report, "graph", kind=list)
        assert not graph, f"{graph} require grad: update buffers with detached values."


@pytest.mark.points(7)
@pytest.mark.requires("test_state")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("if self.training: the batch's statistics, and an update; else the running ones.")
def test_evaluation(student: Student) -> None:
    """In evaluation mode the running statistics are used, and nothing is updated."""
    for shape in (*SHAPES, (1, 3), (1, 3, 1), (0, 3), (0, 3, 2), (2, 3, 0)):
        layer, state = new_layer(student, eps=0.5)
        layer.eval()
        x = randn(shape) * 2 + 1
        right = normalized(x, state, state["running_mean"], state["running_var"], 0.5)
        mean, var, m = statistics(x)
        told = "In evaluation mode take the running statistics, not the batch's."
        mistakes = {told: normalized(x, state, mean, var, 0.5)} if m > 1 else {}
        what = f"the output in evaluation mode for x of shape {shape}"
        value = laws.check_changes_nothing(student, layer, x, call="forward in evaluation mode")
        assert_close(value, right, what=what, mistakes=mistakes)


@pytest.mark.points(2)
@pytest.mark.requires("test_evaluation")
@pytest.mark.place("BatchNorm1d.__init__")
@pytest.mark.hint("Buffers of the same names, shapes and dtypes, and nothing else, make that so.")
def test_state_dicts_load_both_ways(student: Student) -> None:
    """A state dict of nn.BatchNorm1d loads into the layer, and the layer's into nn.BatchNorm1d."""
    state, x = {**new_state(), "num_batches_tracked": torch.tensor(7)}, randn(4, 3)
    report = student.run("exchanged", state, x)
    assert_equal(entry(report, "state"), state, what="the dict of the state", ordered=False)
    right = normalized(x, state, state["running_mean"], state["running_var"])
    assert_close(entry(report, "output"), right, what="the output after loading a state dict")


@pytest.mark.points(6)
@pytest.mark.requires("test_training")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("mean and variance stay in the graph: no detach, no torch.no_grad() around them.")
def test_gradients(student: Student) -> None:
    """Gradients reach x, weight and bias, in training mode through the batch's statistics, too."""
    for shape in SHAPES:
        for training in (True, False):
            layer, state = new_layer(student)
            # A constant feature has finite gradients, too.
            x = randn(shape).index_fill_(1, torch.tensor(0), 1.5).requires_grad_()
            leaves = {"x": x, "weight": layer.weight, "bias": layer.bias}
            running = None if training else (state["running_mean"], state["running_var"])
            told = "The batch's {} {} cut off from the graph: gradients flow through them, too."
            cuts = [("mean and variance", "are"), ("mean", "is"), ("variance", "is")]
            right = functools.partial(formula, running=running)
            wrong = [functools.partial(right, cut=name) for name, _ in cuts if training]
            mistakes = dict(zip([told.format(*cut) for cut in cuts], wrong, strict=False))
            laws.check_gradients(layer.train(training)(x), leaves, right, mistakes=mistakes)


@pytest.mark.points(3)
@pytest.mark.requires("test_training")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("(x - mean).square().mean(dims), not x.square().mean(dims) - mean.square().")
def test_far_from_zero(student: Student) -> None:
    """Where data lie far from zero the variance keeps its digits, also in running_var."""
    for dtype, shift in ((torch.float64, 1e8), (torch.float32, 3e3)):
        x = (randn(6, 3) + shift).to(dtype)
        layer = student.module("BatchNorm1d", 3).to(dtype)
        mean, var, m = statistics(x.double())
        output, later = normalized(x.double(), PLAIN, mean, var), 0.9 + 0.1 * var * m / (m - 1)
        right = {"the output": output, "running_var": later}
        own = layer(x), buffers_after(student, layer, x)["running_var"]
        for (what, values), value in zip(right.items(), own, strict=True):
            value = assert_tensor(value, shape=values.shape, dtype=dtype, what=what)
            worst = (value.double() - values).abs().max().item()
            told = f"At x near {shift:g} {what} is off by {worst:.2g}. Mean of the squares"
            assert worst < 3e-3, f"{told} less square of the mean? Then take the deviations."


@pytest.mark.points(5)
@pytest.mark.requires("test_state")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Check x before anything is computed or updated; m is N, or N * L.")
def test_errors(student: Student) -> None:
    """An x of another shape, or with less than two values in training mode, is a ValueError."""
    layer, _ = new_layer(student)
    wrong = ((), (3,), (2, 3, 4, 5), (4, 2), (4, 1), (2, 4, 3), (4, 1, 3), (0, 4))
    for shape in (*wrong, (1, 3), (1, 3, 1), (0, 3), (4, 3, 0)):
        for mode in ("training", "evaluation")[: 1 + (shape in wrong)]:
            seen = laws.observe(student, layer.train(mode == "training"), randn(shape))
            call = f"BatchNorm1d(3) in {mode} mode, for x of shape {shape},"
            with must_raise(ValueError, mentions="x", call=call):
                seen.checked()
            changed = ", ".join(change.words for change in seen.changes())
            assert not changed, f"{call} changed {changed}: check x before anything else."
    with must_raise(ValueError, mentions="x", call="BatchNorm1d(1) for x of shape (4, 3)"):
        student.module("BatchNorm1d", 1)(torch.randn(4, 3))


@pytest.mark.requires("test_training")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("x.mean, a square root, and the formula as it stands in the text.")
def test_by_hand(student: Student) -> None:
    """PyTorch's references and decompositions of its normalization are not used either."""
    files = entry(student.run("files", torch.randn(4, 3)), kind=list)
    inner = [file for file in files if str(file) in ("_decomp", "_refs", "_prims", "_inductor")]
    assert not inner, f"forward runs functions of torch.{inner[0]}: write out the formula."


@pytest.mark.points(2)
@pytest.mark.requires("test_training")
@pytest.mark.place("BatchNorm1d.forward")
@pytest.mark.hint("Write nothing into x; name no dtype in forward.")
def test_any_x(student: Student) -> None:
    """x keeps its values and its dtype, and may lie in memory in any way."""
    layer = student.module("BatchNorm1d", 3)
    for training, x in ((True, torch.randn(4, 3, 4)), (False, torch.randn(4, 3))):
        layer.train(training)
        for given in laws.kinds_of(x):
            laws.check_changes_nothing(student, layer, given, call="forward", allow=["buffers"])
        laws.check_layouts(student, layer, x)
        assert_tensor(layer(x), shape=x.shape, dtype=torch.float32)


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
        evaluating, all_training = (difference(state, x, size, on) for on in ([], every))
        parts, leave = difference(state, x, size, training), "leave the modes as they are."
        missing = "Yours misses rows: every batch counts, "
        numbers = {
            f"{missing}the last one, which is shorter, too.": parts[: rows // size * size or None],
            f"{missing}not the first one alone.": parts[:size],
            f"{missing}not the last one alone.": parts[(rows - 1) // size * size :],
            f"Yours is that in evaluation mode: {leave}": evaluating,
            f"Yours is that with all parts in training mode: {leave}": all_training,
            "Yours is the mean of the differences: take the largest one.": parts.abs().mean(),
            "Yours is the largest one with its sign: take absolute values.": parts.max(),
        }
        mistakes = {told: number.abs().max().item() for told, number in numbers.items()}
        what = f"the gap of {rows} rows in batches of {size}"
        assert_close(value, parts.abs().max().item(), what=what, mistakes=mistakes)


@pytest.mark.points(3)
@pytest.mark.requires("test_gap")
@pytest.mark.place("batching_gap")
@pytest.mark.hint("Each pass on a deep copy of its own, or the state set back before each one.")
def test_gap_starts_anew(student: Student) -> None:
    """Every pass starts from the module's state of now, not from what the pass before left."""
    for kind in KINDS:
        for size in (1, 2, 3, 7):
            module, x = student.made("Counting", kind), torch.randn(6, 2, 3)
            value = student.function("batching_gap")(module, x, size)
            what = "the gap, in its state of now, of a module that multiplies x by its calls"
            assert_close(value, 0.0, what=what)


@pytest.mark.points(6)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("state_dict() holds the tensors themselves: work on copy.deepcopy(module).")
def test_gap_leaves_the_module(student: Student) -> None:
    """The module is afterwards as it was, also where it raises, and its error comes through."""
    for training in (["", "0", "3"], [], ["3", "1"]):
        model, x = student.made("network", network_state(), training), randn(6, 3)
        check = functools.partial(laws.check_changes_nothing, student, "batching_gap")
        check(model, x, 2, told=STATE)
        if training:
            told = f"{STATE} (The last batch of one row is an error of the module.)"
            for rows, size in ((5, 2), (1, 3)):
                check(model, x[:rows], size, raises=ValueError, told=told)
    for kind in KINDS:
        check(student.made("Counting", kind), torch.randn(4, 2, 3), 2, told=STATE)
        module, x = student.made("Counting", kind, fails=True), torch.randn(5, 2, 3)
        call = "where the module raises, batching_gap"
        check(module, x, 2, raises=LookupError, told=STATE, call=call)


@pytest.mark.points(2)
@pytest.mark.place("batching_gap")
@pytest.mark.hint("if batch_size < 1: raise ValueError(...), before the first pass.")
def test_gap_errors(student: Student) -> None:
    """A batch_size below 1 is a ValueError that names it, before the module is called."""
    module, x = student.made("Counting", "buffer"), torch.randn(4, 2, 3)
    calls = [(module, x, 0), (module, x, -1), (module, x, -4)]
    laws.check_errors(student, "batching_gap", {"batch_size": calls}, fine=(module, x, 1))
    laws.check_changes_nothing(student, "batching_gap", module, x, 0, raises=ValueError)


def new_state() -> dict[str, Tensor]:
    names = ("weight", "bias", "running_mean")
    return {**{name: randn(3) for name in names}, "running_var": torch.rand(3).double() + 0.5}


def new_layer(student: Student, **options: Any) -> tuple[Any, dict[str, Tensor]]:
    """A layer in float64 and its state, which is random."""
    layer, state = student.module("BatchNorm1d", 3, **options).double(), new_state()
    own = {**dict(layer.named_parameters()), **dict(layer.named_buffers())}
    with torch.no_grad():
        for name, value in state.items():
            assert_tensor(entry(own, name), shape=(3,), what=name).copy_(value)
    return layer, state


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


def formula(x: Tensor, weight: Tensor, bias: Tensor, running: Any, cut: str = "") -> Tensor:
    """The output by the running statistics or the batch's, some of which are cut off from the graph."""
    mean, var = running or statistics(x)[:2]
    mean, var = mean.detach() if "mean" in cut else mean, var.detach() if "var" in cut else var
    return normalized(x, {"weight": weight, "bias": bias}, mean, var)


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
    state["3.bias"] += 100  # Beside such outputs a difference in float32 loses its digits.
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
