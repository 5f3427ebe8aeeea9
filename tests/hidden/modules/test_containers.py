"""Tests of MLP, ResidualStack and plain_containers."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws, must_raise
from grader.judge.student import Student

FOUND = ["a_list", "a_tuple", "a_dict", "a_list_of_Parameters", "a_dict_of_frozen_Parameters"]
FOUND += ["an_OrderedDict", "a_named_tuple", "a_subclass_of_list", "a_list_with_a_module_last"]
OTHERS = ["an_nn_LSTM", "_an_underscore", "a_list_of_numbers", "a_list_of_tensors"]
OTHERS += ["a_dict_of_names", "an_empty_list", "a_list_of_classes"]
OTHERS += ["an_nn_ModuleList", "an_nn_Sequential"]
OTHERS += ["an_nn_ModuleDict", "an_nn_ParameterList"]
randn = functools.partial(torch.randn, dtype=torch.float64)
PLAIN = "PyTorch does not see layers in a plain list, and no optimizer trains them"


@pytest.mark.points(4)
@pytest.mark.place("MLP.__init__")
@pytest.mark.hint("self.layers = nn.Sequential(nn.Linear(...), nn.ReLU(), nn.Linear(...), ...)")
def test_mlp_parameters(student: Student) -> None:
    """The parameters are those of a Linear between each two widths, under layers.0, layers.2, ..."""
    for widths in new_widths():
        layer = student.module("MLP", widths)
        named = {name: list(tensor.shape) for name, tensor in layer.named_parameters()}
        right = shapes(widths)
        what = f"the dict of parameter shapes of MLP({widths})"
        assert_equal(named, right, what=what, ordered=False)
        laws.check_state_dict(layer, right)


@pytest.mark.points(3)
@pytest.mark.requires("test_mlp_parameters")
@pytest.mark.place("MLP.__init__")
@pytest.mark.hint("Append a Linear and a ReLU for each two widths, and leave the last ReLU out.")
def test_mlp_layers(student: Student) -> None:
    """layers is an nn.Sequential of Linear, ReLU, ..., Linear; double(), to() and eval() reach them."""
    for widths in new_widths():
        report = student.run("held", "MLP", "layers", widths)
        kinds, names = kinds_of(report), ("Linear", "ReLU")
        assert "Sequential" in kinds, f"layers is of type {kinds[0]}: make it an nn.Sequential."
        parts = [f"{item} ?".split() for item in entry(report, "items", kind=list)]
        shown = [next((name for name in names if name in part), part[0]) for part in parts]
        right = ["Linear", *["ReLU", "Linear"] * (len(widths) - 2)]
        what = f"the list of the types in layers of MLP({widths})"
        assert_equal(shown, right, what=what)
    check_follows(student, "MLP", [4, 3, 2], torch.randn(5, 4), 4)


@pytest.mark.points(9)
@pytest.mark.requires("test_mlp_parameters")
@pytest.mark.place("MLP.forward")
@pytest.mark.hint("return self.layers(x)")
def test_mlp_forward(student: Student) -> None:
    """forward is Linear, ReLU, ..., Linear, for any leading dimensions, and changes nothing."""
    for widths in ([4, 3, 3, 5], [3, 3]):
        layer = student.module("MLP", widths).double()
        tensors = laws.check_parameters(layer, shapes(widths), call=f"MLP({widths})")
        with torch.no_grad():
            for tensor in tensors:
                tensor.copy_(torch.randn(tensor.shape))
        old = [tensor.detach().clone() for tensor in tensors]
        x = randn(24, widths[0])
        right = mlp(x, old)
        assert_close(layer(x), right)
        laws.check_float64(layer(x), right)
        laws.check_leading_dimensions(student, layer, x, shape=(widths[-1],))
        laws.check_shapes(student, layer, {(0, widths[0]): (0, widths[-1])}, dtype=x.dtype)
        for mode in (True, False):
            laws.check_changes_nothing(student, layer.train(mode), x, call="forward")
        leaves = {"x": x.requires_grad_(), **dict(zip(shapes(widths), tensors, strict=True))}
        laws.check_gradients(layer(x), leaves, lambda x, *tensors: mlp(x, tensors))


@pytest.mark.requires("test_mlp_parameters")
@pytest.mark.place("MLP.__init__")
@pytest.mark.hint("nn.Linear initializes itself: leave the weights as they come.")
def test_mlp_starts_as_pytorch(student: Student) -> None:
    """Weights and biases start as those of nn.Linear: uniform within 1 / sqrt(widths[i])."""
    for n, m in ((400, 100), (25, 900)):
        layer, formula = student.module("MLP", [n, m, 2]), "1 / sqrt(in_features)"
        for kind in ("weight", "bias"):
            what = f"the {kind} of a Linear"
            tensor = laws.parameter_named(layer, f"layers.0.{kind}")
            laws.check_starts_within(tensor, n**-0.5, fans=(n, m), what=what, formula=formula)
            spread = tensor.std().item() * (3 * n) ** 0.5
            told = f"{what} is spread over {spread:.2f} of the range that PyTorch gives it"
            assert 0.7 < spread < 1.3, f"{told}: do not initialize it anew."
    laws.check_starts_random(student, "MLP", [6, 5, 4])


@pytest.mark.points(2)
@pytest.mark.place("MLP.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if len(widths) < 2 or min(widths) < 1: raise ValueError(f'widths ...')")
def test_mlp_errors(student: Student) -> None:
    """Fewer than two widths, or one below 1, are a ValueError that names widths."""
    calls = [([],), ([4],), ((),), ([4, 0],), ([0, 4],), ([4, 0, 2],), ([3, -1, 2],)]
    laws.check_errors(student, "MLP", {"widths": calls}, fine=([1, 1],))
    laws.check_changes_nothing(student, "MLP", [4, 3, 2], allow=("random",))


@pytest.mark.points(4)
@pytest.mark.place("ResidualStack.__init__")
@pytest.mark.hint("self.blocks = nn.ModuleList(blocks)")
def test_stack_blocks(student: Student) -> None:
    """blocks is an nn.ModuleList of the given modules, in order; double(), to(), eval() reach them."""
    weights = [torch.randn(3) for _ in range(6)] * 2
    for count in (12, 0, 1):  # of twelve, each block is given twice
        blocks = ([student.made("block", weight) for weight in weights[:6]] * 2)[:count]
        for argument in (blocks, student.made("once", weights[:count])):
            report = student.run("held", "ResidualStack", "blocks", argument)
            kinds = kinds_of(report)
            assert "ModuleList" in kinds, f"blocks is a {kinds[0]}: use nn.ModuleList. {PLAIN}."
            what = f"the list of the weights in blocks, made of {count} blocks,"
            assert_close(entry(report, "weights"), weights[:count], what=what)
    laws.check_changes_nothing(student, "ResidualStack", blocks)
    check_follows(student, "ResidualStack", blocks, torch.randn(5, 3), 1)


@pytest.mark.points(6)
@pytest.mark.requires("test_stack_blocks")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint("for block in self.blocks: x = x + block(x)")
def test_stack_forward(student: Student) -> None:
    """forward is x = x + block(x) for each block in order."""
    weights, x = list(randn(3, 3)), randn(2, 5, 3)
    check_outputs(student, weights, x)
    assert_close(student.run("run", new_stack(student, []), x), x, what="the output without blocks")


@pytest.mark.points(5)
@pytest.mark.requires("test_stack_forward")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint("if index not in skip: x = x + block(x), and nothing else.")
def test_stack_skip(student: Student) -> None:
    """A block whose index is in skip is not called, and x goes on unchanged."""
    weights, x = list(randn(3, 3)), randn(4, 3)
    cases = [("list", [1]), ("list", [2, 0, 2, 2]), ("set", [0]), ("frozenset", [2])]
    cases += [("dict", [1, 2]), ("list", [0, 1, 2])]
    for kind, skip in cases:
        called = [int(i not in skip) for i in range(3)]
        check_outputs(student, weights, x, skip, kind)
        report = student.run("calls", weights, x, skip)
        what = f"the list of how often each block is called for skip={skip}"
        assert_equal(entry(report, "called"), called, what=what)
        assert_equal(entry(report, "skip"), skip, what="the list skip as the call leaves it")
        hooked, what = [i for i in range(3) if called[i]], "the list of the blocks whose hooks run"
        assert_equal(entry(report, "hooked"), hooked, what=what)


@pytest.mark.points(6)
@pytest.mark.requires("test_stack_forward")
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.hint("x = x + block(x) makes a new tensor; x += block(x) writes into the old one.")
def test_stack_in_place(student: Student) -> None:
    """Gradients are right, and nothing is changed in place, not even what a block keeps."""
    weights, x = list(randn(3, 3)), randn(4, 3)
    run = student.probe("run")
    for given, skip in zip(laws.kinds_of(x), (None, [0], [0, 1, 2], []), strict=True):
        stack = new_stack(student, weights)
        laws.check_changes_nothing(student, run, stack, given, skip, call="forward")
    for seen in entry(student.run("calls", weights, x, []), "seen", kind=list, count=3):
        for i, how in enumerate(("what a block was given", "what a block returned")):
            now, then = (assert_tensor(entry(seen, i, j), shape=(4, 3)) for j in (0, 1))
            told = "+= and add_ write into the tensor itself: x = x + block(x) makes a new one"
            assert torch.equal(now, then), f"The forward pass changed {how}, in place: {told}."
    blocks = [student.made("block", weight) for weight in weights]
    stack = student.module("ResidualStack", blocks)
    leaves = {f"block {i}": parameter for i, parameter in enumerate(stack.parameters())}
    kept = [list(parameter.shape) for parameter in leaves.values()]
    assert_equal(kept, [[3]] * 3, what="the list of the shapes of the parameters of three blocks")
    output, right = stack(x.requires_grad_()), lambda x, *weights: residual(x, weights)
    laws.check_gradients(output, {"x": x, **leaves}, right)


@pytest.mark.points(3)
@pytest.mark.place("ResidualStack.forward")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look at all indices first: each has to be in range(len(self.blocks)).")
def test_stack_errors(student: Student) -> None:
    """An index in skip that no block has is a ValueError that names skip, before any block is called."""
    weights, x = list(randn(3, 3)), randn(4, 3)
    student.run("run", new_stack(student, weights), x, [0, 2])
    for count, skip in ((3, [3]), (3, [-1]), (3, [0, 1, 2, 3]), (3, [1, -3]), (0, [0])):
        stack, call = new_stack(student, weights[:count]), f"a call of {count} blocks, skip={skip},"
        with must_raise(ValueError, mentions="skip", call=call):
            student.run("run", stack, x, skip)
        called = entry(student.run("calls", weights[:count], x, skip), "called")
        what = f"the list of how often each block is called for skip={skip}, which is refused,"
        assert_equal(called, [0] * count, what=what)


@pytest.mark.points(5)
@pytest.mark.place("plain_containers")
@pytest.mark.hint(
    "isinstance(value, (list, tuple, dict)), with an nn.Module or nn.Parameter in it."
)
def test_plain_found(student: Student) -> None:
    """Lists, tuples and dicts, subclasses too, are found if they hold a module or a Parameter."""
    for name in FOUND:
        check_names(student, [name, "a_list_of_numbers"], [name])


@pytest.mark.points(4)
@pytest.mark.requires("test_plain_found")
@pytest.mark.place("plain_containers")
@pytest.mark.hint('named_modules() gives "" for the model itself and dotted names for the others.')
def test_plain_names(student: Student) -> None:
    """Containers in submodules are found, too, under dotted names, and nothing is changed."""
    both = ["a_dict", "a_list"]
    for where in ("", "encoder", "decoder.1", "decoder"):
        check_names(student, both, both, where)
    value = student.function("plain_containers")(student.made("sharing"))
    right, what = (
        ["encoder.parts", "decoder.layers"],
        "the result for a list of a registered module",
    )
    assert_equal(value, right, what=what, ordered=False)


@pytest.mark.points(4)
@pytest.mark.place("plain_containers")
@pytest.mark.hint(
    "Leave out names that begin with an underscore, and look at what a container holds."
)
def test_plain_not_others(student: Student) -> None:
    """Underscores, containers of other things and PyTorch's own containers are not reported."""
    for name in OTHERS:
        beside = random.choice(FOUND[:4])
        value = student.function("plain_containers")(student.made("model", [name, beside]))
        what = f"the result for a model with {beside} and {name}"
        assert_equal(value, [beside], what=what, ordered=False)


def new_widths() -> list[Sequence[int]]:
    """Widths of several layers, of one, all alike, and the smallest."""
    several = random.sample(range(2, 9), random.randint(4, 6))
    same = random.randint(2, 9)
    return [several, random.sample(range(2, 9), 2), (same,) * 4, [1, 1, same]]


def shapes(widths: Sequence[int]) -> dict[str, list[int]]:
    """The shapes of the parameters of an MLP, by their names."""
    pairs = enumerate(zip(widths[1:], widths[:-1], strict=True))
    weights = [(f"layers.{2 * i}", m, n) for i, (m, n) in pairs]
    both = [((f"{layer}.weight", [m, n]), (f"{layer}.bias", [m])) for layer, m, n in weights]
    return {name: shape for pair in both for name, shape in pair}


def mlp(x: Tensor, tensors: Sequence[Tensor], activation: Any = torch.relu) -> Tensor:
    for i in range(0, len(tensors), 2):
        x = F.linear(activation(x) if i else x, tensors[i], tensors[i + 1])
    return x


def kinds_of(report: Any) -> list[str]:
    """The names of a type and its bases."""
    return f"{entry(report, 'kinds')} ?".split()


def new_stack(student: Student, weights: list[Tensor]) -> Any:
    return student.own("ResidualStack", [student.made("block", weight) for weight in weights])


def run_block(x: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(torch.sin(x) * weight)


def residual(x: Tensor, weights: Sequence[Tensor], skip: Any = ()) -> Tensor:
    """What a stack gives without the blocks in `skip`."""
    for i, weight in enumerate(weights):
        x = x if i in skip else x + run_block(x, weight)
    return x


def check_outputs(student: Student, weights: Any, x: Tensor, *skip: Any) -> None:
    """A stack's outputs are right in both modes: with `skip`, in a container of a kind, or without."""
    report = student.run("outputs", new_stack(student, weights), x, *skip)
    words = f" for the {skip[1]} {skip[0]} as skip" if skip else ""
    for i, mode in enumerate(("training", "evaluation")):
        what, right = f"the output in {mode} mode{words}", residual(x, weights, *skip[:1])
        assert_close(entry(report, i), right, what=what)


def check_follows(student: Student, name: str, argument: Any, x: Tensor, count: int) -> None:
    """double(), eval() and to() reach all parameters of a model, and there are `count` of them."""
    report = student.run("follows", name, argument, x)
    what = 'the list of dtype and device of the parameters after double() and to("meta")'
    right = [["torch.float64", "meta"]] * count
    assert_equal(entry(report, "parameters"), right, what=what)
    assert entry(report, "training") is False, "eval() does not reach all layers."
    assert_tensor(entry(report, "output"), dtype=torch.float64, what="the output after double()")


def check_names(student: Student, attributes: list[str], names: list[str], where: str = "") -> None:
    """The names are reported, in any order, of a model with these attributes in its submodule `where`."""
    model = student.made("model", attributes, where)
    value = laws.check_changes_nothing(student, "plain_containers", model)
    plain = isinstance(value, list) and all(isinstance(name, str) for name in value)
    right = sorted(f"{where}.{name}".lstrip(".") for name in names)
    what = f"the sorted result for a model with {' and '.join(right)}"
    assert_equal(sorted(value) if plain else value, right, what=what)
