"""Tests of count_parameters, freeze and parameter_groups."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_equal, assert_tensor, entry, laws, must_raise
from grader.judge.student import Student

Shapes = Mapping[str, Sequence[int]]
# The parameters of the probe's Network, in its order. Names that begin or end alike tell apart what covers
# them: "encoder", "encoder2" and "my.encoder"; "head.0" and "head_0"; "bias" and all that end in ".bias".
SHAPES: Shapes = {
    "gain": (),
    "bias": (1, 4),
    "encoder.0.weight": (3, 4),
    "encoder.0.bias": (3,),
    "encoder.2.weight": (3, 3),
    "encoder.2.bias": (3,),
    "encoder2.weight": (3, 3),
    "my.encoder.weight": (3, 3),
    "my.encoder.bias": (3,),
    "norm.weight": (3,),
    "norm.bias": (3,),
    "layer_norm.weight": (2, 3),
    "layer_norm.bias": (2, 3),
    "conv.weight": (3, 2, 2, 2),
    "conv.bias": (3,),
    "embedding.weight": (5, 3),
    "head.0.weight": (2, 3),
    "head.0.bias": (2,),
    "head_0.weight": (2, 3),
    "head_0.bias": (2,),
}
NAMES = list(SHAPES)
MATRICES = [name for name, shape in SHAPES.items() if len(shape) >= 2]
# Modules with submodules, and modules without.
BLOCKS, LAYERS = ["encoder", "my", "head"], ["norm", "layer_norm", "conv", "embedding", "encoder2"]
# What is frozen before a call in many of the tests.
FROZEN = ("encoder.0.weight", "norm.bias", "conv.weight", "gain")
# The probe's parameters and their gradients before a call, and the weight decay of the step after it.
START, OLD_GRADIENT, DECAY = 1.0, 7.0, 0.25


# --- count_parameters ----------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("count_parameters")
@pytest.mark.hint("numel() is the number of elements; requires_grad tells if a parameter learns.")
def test_count(student: Student) -> None:
    """All elements of all parameters are counted, and those that are trainable."""
    more = new_shapes()
    counts = student.function("count_parameters")(student.made("network", more, frozen=FROZEN))
    total = elements(with_more(more))
    trainable = total - elements({name: SHAPES[name] for name in FROZEN})
    assert_equal(numbers_of(counts), [total, trainable], what="the pair (total, trainable)")


@pytest.mark.requires("test_count")
@pytest.mark.place("count_parameters")
@pytest.mark.word("the sandbox says which types they have")
@pytest.mark.hint("int(...) makes an int of a number of NumPy, a float or a tensor.")
def test_count_types(student: Student) -> None:
    """Both numbers are ints, as Python has them: JSON, for example, writes no others."""
    types = student.run("types_of_counts", student.made("network", new_shapes()))
    what = "the list of the types of (total, trainable)"
    assert_equal(types, ["int", "int"], what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_count")
@pytest.mark.place("count_parameters")
@pytest.mark.hint("model.parameters() gives a parameter once, however many modules hold it.")
def test_count_tied(student: Student) -> None:
    """Tied weights count once."""
    more = new_shapes()
    counts = student.function("count_parameters")(student.made("tied", more))
    total = elements(with_more(more))
    assert_equal(numbers_of(counts), [total, total], what="the pair (total, trainable)")


@pytest.mark.requires("test_count")
@pytest.mark.place("count_parameters")
@pytest.mark.hint("Only look: no zero_grad, no train() or eval(), no requires_grad_().")
def test_count_changes_nothing(student: Student) -> None:
    """Counting changes nothing of the model."""
    laws.check_changes_nothing(student, "count_parameters", used_network(student))


def numbers_of(counts: Any) -> list[float]:
    """Both numbers, a whole one as an int: that they are ints is judged once."""
    numbers = [entry(counts, at, kind=(int, float)) for at in range(2)]
    return [int(number) if float(number).is_integer() else number for number in numbers]


# --- freeze --------------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("freeze")
@pytest.mark.hint("A name may be that of a parameter: key == name.")
def test_freeze_parameters(student: Student) -> None:
    """The name of a parameter freezes this parameter."""
    check_frozen(student, random.sample(NAMES, 3))


@pytest.mark.points(5)
@pytest.mark.place("freeze")
@pytest.mark.hint("A module covers the keys that begin with its name and a dot.")
def test_freeze_modules(student: Student) -> None:
    """The name of a module freezes its parameters and those of its submodules."""
    check_frozen(student, random.sample(BLOCKS, 1) + random.sample(LAYERS, 2))


@pytest.mark.points(4)
@pytest.mark.place("freeze")
@pytest.mark.hint('key == name or key.startswith(name + "."): the dot ends the name of a module.')
def test_freeze_covers(student: Student) -> None:
    """A name freezes nothing else, even if other names begin alike or contain it."""
    others = ["norm.weight", "norm.bias", "conv.weight", "conv.bias", "embedding", "gain"]
    check_frozen(
        student, ["encoder", "head.0", "bias", *random.sample(others, random.randint(1, 5))]
    )


@pytest.mark.points(2)
@pytest.mark.place("freeze")
@pytest.mark.hint("Go through model.named_parameters() and keep the names that are covered.")
def test_freeze_returns(student: Student) -> None:
    """The names of all covered parameters come back in the model's order, each once."""
    # Of these, "norm.bias" and "encoder.0.weight" were frozen before.
    names = ["head", *random.sample(["embedding", "my", "layer_norm"], 2), "norm", "encoder"]
    names.append("encoder.2")  # "encoder" covers its parameters, too.
    told = "freeze has to return a list of names."
    result = entry(freeze(student, names, FROZEN).result, kind=(list, tuple), told=told)
    what = f"the text of the names in the result of freeze(model, {names})"
    assert_equal(listed(result), listed(covered(names)), what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_freeze_parameters")
@pytest.mark.place("freeze")
@pytest.mark.hint("parameter.grad = None beside parameter.requires_grad_(False).")
def test_freeze_gradients(student: Student) -> None:
    """A frozen parameter has no .grad left, so that no optimizer moves it."""
    names = ["encoder.0.weight", "conv.weight", "conv.bias"]
    step = freeze(student, names, FROZEN)
    left = [name for name in names if step.has_gradient(name)]
    assert_equal(left, [], what="the list of the frozen parameters that still have a .grad")


@pytest.mark.points(2)
@pytest.mark.requires("test_freeze_parameters")
@pytest.mark.place("freeze")
@pytest.mark.hint("Touch covered parameters only: no model.zero_grad(), no requires_grad_(True).")
def test_freeze_leaves_the_others(student: Student) -> None:
    """Parameters that no name covers keep their .grad, and stay frozen if they were."""
    names = ["layer_norm.weight", "head.0.bias"]
    others = [name for name in NAMES if name not in names]
    frozen_before = random.sample(others, 2)
    step = freeze(student, names, frozen_before)
    frozen = [name for name in others if not step.learns(name)]
    right = [name for name in others if name in frozen_before]
    assert_equal(frozen, right, what="the list of the other parameters that are frozen")
    kept = [name for name in others if step.has_old_gradient(name)]
    assert_equal(kept, others, what="the list of the other parameters that keep their .grad")


@pytest.mark.points(3)
@pytest.mark.place("freeze")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If a name covers no parameter: raise ValueError(f'{name!r} covers nothing').")
def test_freeze_unknown(student: Student) -> None:
    """A name that covers no parameter is a ValueError that names it, and nothing has changed."""
    # No name at all, the beginning of one, a module without parameters, a buffer.
    for name in ("decoder", "enc", "encoder.1", "norm.running_mean"):
        with must_raise(ValueError, mentions=name, call=f"freeze(model, [{name!r}])"):
            student.function("freeze")(student.made("network"), [name])
    names = ["gain", "encoder", "decoder"]
    told = "Check all names before you freeze one."
    model = used_network(student)
    laws.check_changes_nothing(student, "freeze", model, names, raises=ValueError, told=told)


@pytest.mark.place("freeze")
@pytest.mark.word("the sandbox says what was left alone")
@pytest.mark.hint("Only .requires_grad and .grad change: no eval(), no new Parameter or value.")
def test_freeze_changes_nothing_else(student: Student) -> None:
    """Values, buffers, modes and the Parameter objects stay; an empty list changes nothing at all."""
    model, allow = used_network(student), ("0.requires_grad", "0.grad")
    laws.check_changes_nothing(student, "freeze", model, ["encoder", "norm"], allow=allow)
    told = "Without names nothing changes."
    laws.check_changes_nothing(student, "freeze", used_network(student), [], told=told)


# --- parameter_groups ----------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("parameter_groups")
@pytest.mark.hint("parameter.dim() >= 2 is the whole question.")
def test_groups(student: Student) -> None:
    """Parameters of two or more dimensions decay, those of fewer do not, whatever their names."""
    more = new_shapes()
    check_groups(student, student.made("network", more), with_more(more))


@pytest.mark.points(5)
@pytest.mark.place("parameter_groups")
@pytest.mark.hint('"weight_decay" is the argument in the first dict, and 0.0 in the second.')
def test_groups_values(student: Student) -> None:
    """Each group has the keys params and weight_decay: the argument first, then 0."""
    weight_decay = random.uniform(0.01, 0.2)
    groups = grouped(student, student.made("network"), weight_decay)
    for group, where in zip(groups, ("first", "second"), strict=True):
        keys = sorted(entry(group, kind=dict))
        assert_equal(keys, ["params", "weight_decay"], what=f"the list of the {where} group's keys")
    values = [entry(group, "weight_decay") for group in groups]
    assert_equal(values, [weight_decay, 0.0], what="the list of the two weight_decay values")


@pytest.mark.points(4)
@pytest.mark.place("parameter_groups")
@pytest.mark.hint("parameters() gives a shared one once; leave out what does not require grad.")
def test_groups_trainable(student: Student) -> None:
    """Parameters that require grad are listed once, others not at all; a group may be empty."""
    more = new_shapes()
    check_groups(student, student.made("tied", more), with_more(more))
    for frozen in (random.sample(NAMES, 4), MATRICES):
        learning = {name: shape for name, shape in SHAPES.items() if name not in frozen}
        check_groups(student, student.made("network", frozen=frozen), learning)


@pytest.mark.points(2)
@pytest.mark.place("parameter_groups")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("-0.01 would push the weights away from zero: raise a ValueError.")
def test_groups_negative(student: Student) -> None:
    """A negative weight_decay is a ValueError, 0 is fine."""
    model = student.made("network")
    calls = {"weight_decay": [(model, -0.01)]}
    laws.check_errors(student, "parameter_groups", calls, fine=(model, 0))


@pytest.mark.requires("test_groups")
@pytest.mark.place("parameter_groups")
@pytest.mark.hint("Only sort the parameters: leave values, .grad and requires_grad alone.")
def test_groups_change_nothing(student: Student) -> None:
    """Sorting changes nothing of the model."""
    laws.check_changes_nothing(student, "parameter_groups", used_network(student), 0.1)


# --- locally -------------------------------------------------------------------------------------


def new_shapes() -> list[tuple[int, ...]]:
    """Shapes for more parameters of a network, one dimension or two by chance."""
    sizes = random.sample(range(2, 99), 8)
    return [random.choice([(size,), (size, 3)]) for size in sizes]


def with_more(more: Sequence[Sequence[int]]) -> Shapes:
    """The shapes of a network's own parameters and, after them, of these."""
    return {**SHAPES, **{f"more.{i}": shape for i, shape in enumerate(more)}}


def elements(shapes: Shapes) -> int:
    """How many numbers parameters of these shapes have."""
    return sum(math.prod(shape) for shape in shapes.values())


def used_network(student: Student) -> Any:
    """A network with frozen parameters, and with submodules in evaluation mode."""
    return student.made("network", frozen=FROZEN, evaluating=["encoder", "norm"])


class Step(NamedTuple):
    """What freeze gave, and by how much a step of SGD then moved each parameter.

    Without a gradient by nothing; else by the weight decay, the gradient from before if it is still there,
    and the slope of the loss if the parameter learns.
    """

    result: Any
    slopes: dict[str, float]
    moves: dict[str, Tensor]

    def moved_by(self, name: str, *gradients: float) -> bool:
        rights = [torch.full_like(self.moves[name], gradient) for gradient in gradients]
        return any(torch.allclose(self.moves[name], right, atol=1e-4) for right in rights)

    def learns(self, name: str) -> bool:
        slope = self.slopes[name] + DECAY * START
        return self.moved_by(name, slope, slope + OLD_GRADIENT)

    def has_gradient(self, name: str) -> bool:
        return not self.moved_by(name, 0.0)

    def has_old_gradient(self, name: str) -> bool:
        old = OLD_GRADIENT + DECAY * START
        return self.moved_by(name, old, old + self.slopes[name])


def freeze(student: Student, names: Sequence[str], frozen: Sequence[str] = ()) -> Step:
    """Call freeze on a new network, and make a step of it."""
    slopes = {name: random.uniform(1, 3) for name in NAMES}
    report = student.run("stepped", student.made("network", frozen=frozen), names, slopes)
    moves = {}
    for name in NAMES:
        what = f"{name!r} after a step of SGD"
        weight = entry(report, "weights", name)
        assert_tensor(weight, shape=SHAPES[name], dtype=torch.float32, what=what)
        moves[name] = START - weight
    return Step(entry(report, "result", default=None), slopes, moves)


def listed(names: Sequence[Any]) -> str:
    """Names in one text: a message shows where two texts differ."""
    return ", ".join(map(str, names))


def covered(names: Sequence[str]) -> list[str]:
    """The parameters that these names cover, in the model's order."""
    with_dots = tuple(f"{name}." for name in names)
    return [key for key in NAMES if key in names or key.startswith(with_dots)]


def check_frozen(student: Student, names: Sequence[str]) -> None:
    """These names freeze what they cover, and nothing else."""
    step = freeze(student, names)
    frozen = [name for name in NAMES if not step.learns(name)]
    what = f"the text of the parameters that freeze(model, {list(names)}) freezes"
    assert_equal(listed(frozen), listed(covered(names)), what=what)


def grouped(student: Student, model: Any, weight_decay: float) -> list[Any]:
    """The two groups, with names of parameters."""
    told = "The result does not have two groups: keep an empty group, too."
    groups = student.run("groups", model, weight_decay)
    return list(entry(groups, kind=list, count=2, told=told))


def check_groups(student: Student, model: Any, learning: Shapes) -> None:
    """The two groups hold these parameters of the model, sorted by their dimensions."""
    groups = [entry(group, "params", kind=list) for group in grouped(student, model, 0.1)]
    decaying = [name for name, shape in learning.items() if len(shape) >= 2]
    others = [name for name, shape in learning.items() if len(shape) < 2]
    what = "the text of the parameters in the first group"
    assert_equal(listed(groups[0]), listed(decaying), what=what)
    what = "the text of the parameters in the second group"
    assert_equal(listed(groups[1]), listed(others), what=what)
