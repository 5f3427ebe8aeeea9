"""Tests of count_parameters, freeze and parameter_groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from grader.judge.checks import Cases, Draw, assert_tensor, entry, laws, promise, raises
from grader.judge.student import Student

# The parameters of the probe's Network, in its order. Some names begin or end alike, to show which rule covers
# them: "encoder", "encoder2" and "my.encoder"; "head.0" and "head_0"; "bias" and all names ending in ".bias".
VECTORS = [
    "gain",
    "encoder.0.bias",
    "encoder.2.bias",
    "my.encoder.bias",
    "norm.weight",
    "norm.bias",
]
VECTORS += ["conv.bias", "head.0.bias", "head_0.bias"]
MATRICES = ["bias", "encoder.0.weight", "encoder.2.weight", "encoder2.weight", "my.encoder.weight"]
MATRICES += ["layer_norm.weight", "layer_norm.bias", "conv.weight", "embedding.weight"]
MATRICES += ["head.0.weight", "head_0.weight"]
NAMES = [*VECTORS, *MATRICES]
# Modules with submodules, and modules without.
BLOCKS, LAYERS = ["encoder", "my", "head"], ["norm", "layer_norm", "conv", "embedding", "encoder2"]
# Parameters that many of the tests freeze before a call.
FROZEN = ("encoder.0.weight", "norm.bias", "conv.weight", "gain")
# The probe's parameters and their gradients before a call.
START, OLD_GRADIENT = 1.0, 7.0


# --- count_parameters ----------------------------------------------------------------------------


@promise(
    "count_parameters",
    points=4,
    hint="numel() is the number of elements; requires_grad tells if a parameter learns.",
)
def test_count(code: Student, draw: Draw) -> Cases:
    """total counts the elements of all parameters, and trainable those that can learn."""
    model = code.made("network", new_shapes(draw), frozen=FROZEN)
    counts = code.function("count_parameters")(model)
    yield "the pair (total, trainable)", numbers_of(counts)


@promise(
    "count_parameters",
    hint="int(...) makes an int of a number of NumPy, a float or a tensor.",
    after="test_count",
    word="the sandbox says which types they have",
)
def test_count_types(code: Student, draw: Draw) -> Cases:
    """Both numbers are Python ints: JSON, for example, can write no others."""
    types = code.run("types_of_counts", code.made("network", new_shapes(draw)))
    yield "the list of the types of (total, trainable)", types


@promise(
    "count_parameters",
    points=2,
    hint="model.parameters() gives a parameter once, however many modules hold it.",
    after="test_count",
)
def test_count_tied(code: Student, draw: Draw) -> Cases:
    """Tied weights count once."""
    counts = code.function("count_parameters")(code.made("tied", new_shapes(draw)))
    yield "the pair (total, trainable)", numbers_of(counts)


@promise(
    "count_parameters",
    hint="Only look: no zero_grad, no train() or eval(), no requires_grad_().",
    after="test_count",
)
def test_count_changes_nothing(student: Student) -> None:
    """Counting changes nothing in the model."""
    laws.check_changes_nothing(student, "count_parameters", used_network(student))


# --- freeze --------------------------------------------------------------------------------------


@promise("freeze", points=2, hint="A name may be the name of a parameter: key == name.")
def test_freeze_parameters(code: Student, draw: Draw) -> Cases:
    """The name of a parameter freezes this parameter."""
    yield from frozen_by(code, draw, sample(draw, NAMES, 3))


@promise("freeze", points=5, hint="A module covers the keys that begin with its name and a dot.")
def test_freeze_modules(code: Student, draw: Draw) -> Cases:
    """The name of a module freezes its parameters and those of its submodules."""
    yield from frozen_by(
        code, draw, sample(draw, BLOCKS, 1) + sample(draw, LAYERS, draw.size(1, 5))
    )


@promise(
    "freeze",
    points=4,
    hint='key == name or key.startswith(name + "."): the dot ends the name of a module.',
)
def test_freeze_covers(code: Student, draw: Draw) -> Cases:
    """A name freezes nothing else, even if other names begin alike or contain it."""
    others = ["norm.weight", "norm.bias", "conv.weight", "conv.bias", "embedding", "gain"]
    names = ["encoder", "head.0", "bias", *sample(draw, others, draw.size(1, 6))]
    yield from frozen_by(code, draw, names)


@promise(
    "freeze",
    points=2,
    hint="Go through model.named_parameters() and keep the names that are covered.",
)
def test_freeze_returns(code: Student, draw: Draw) -> Cases:
    """The names of all covered parameters come back in the model's order, each once."""
    # "norm.bias" and "encoder.0.weight" are frozen already.
    some = sample(draw, ["embedding", "my", "layer_norm", "conv", "encoder2"], draw.size(2, 5))
    names = ["head", *some, "norm", "encoder"]
    names.append("encoder.2")  # "encoder" covers its parameters, too.
    result, _ = stepped(code, draw, names, frozen=FROZEN)
    result = entry(result, kind=(list, tuple), told="freeze has to return a list of names.")
    yield f"the text of the names in the result of freeze(model, {names})", listed(result)


@promise(
    "freeze",
    points=2,
    hint="parameter.grad = None beside parameter.requires_grad_(False).",
    after="test_freeze_parameters",
)
def test_freeze_gradients(code: Student, draw: Draw) -> Cases:
    """A frozen parameter has no .grad left, so that no optimizer moves it."""
    names = sample(draw, NAMES, 4)
    _, weights = stepped(code, draw, names, frozen=names[:2], gradient=OLD_GRADIENT)
    moved = [name for name in names if not has_stayed(weights, name)]
    yield "the list of the frozen parameters that an optimizer still moves, by an old .grad", moved


@promise(
    "freeze",
    points=2,
    hint="Touch covered parameters only: no model.zero_grad(), no requires_grad_(True).",
    after="test_freeze_parameters",
)
def test_freeze_leaves_the_others(code: Student, draw: Draw) -> Cases:
    """Parameters that no name covers keep their .grad, and stay frozen if they were."""
    names = ["layer_norm.weight", "head.0.bias"]
    others = [name for name in NAMES if name not in names]
    before = sample(draw, others, 2)
    _, weights = stepped(code, draw, names, frozen=before, gradient=OLD_GRADIENT)
    what = "the other parameters after a step of SGD, by their old and new gradients"
    yield what, {name: entry(weights, name) for name in others}


@promise(
    "freeze",
    points=3,
    hint="If a name covers no parameter: raise ValueError(f'{name!r} covers nothing').",
    word="the sandbox says that it raised",
)
def test_freeze_unknown(code: Student, draw: Draw) -> Cases:
    """A name that covers no parameter is a ValueError that names it, and nothing has changed."""
    # An unknown name, the beginning of a name, a module without parameters, a buffer.
    for name in ("decoder", "enc", "encoder.1", "norm.running_mean"):
        refusal = raises(ValueError, name, code.function("freeze"), code.made("network"), [name])
        yield f"freeze(model, [{name!r}])", refusal
    names, told = ["gain", "encoder", "decoder"], "Check all names before you freeze one."
    model = used_network(code)
    laws.check_changes_nothing(code, "freeze", model, names, raises=ValueError, told=told)


@promise(
    "freeze",
    hint="Only .requires_grad and .grad change: no eval(), no new Parameter or value.",
    word="the sandbox says what was left alone",
)
def test_freeze_changes_nothing_else(student: Student) -> None:
    """Values, buffers, modes and the Parameter objects stay; an empty list changes nothing."""
    model, allow = used_network(student), ("0.requires_grad", "0.grad")
    laws.check_changes_nothing(student, "freeze", model, ["encoder", "norm"], allow=allow)
    told = "Without names nothing changes."
    laws.check_changes_nothing(student, "freeze", used_network(student), [], told=told)


# --- parameter_groups ----------------------------------------------------------------------------


@promise("parameter_groups", points=6, hint="parameter.dim() >= 2 is the whole question.")
def test_groups(code: Student, draw: Draw) -> Cases:
    """Parameters of two or more dimensions decay, and others do not, whatever their names."""
    yield from members(code, code.made("network", new_shapes(draw)))


@promise(
    "parameter_groups",
    points=5,
    hint='"weight_decay" is the argument in the first dict, and 0.0 in the second.',
)
def test_groups_values(code: Student, draw: Draw) -> Cases:
    """Each group has the keys params and weight_decay: the argument first, then 0."""
    groups = grouped(code, code.made("network"), draw.number(0.01, 0.2))
    for group, where in zip(groups, ("first", "second"), strict=True):
        keys = sorted(map(str, entry(group, kind=dict)))
        yield f"the list of the {where} group's keys", keys
    values = [entry(group, "weight_decay") for group in groups]
    yield "the list of the two weight_decay values", values


@promise(
    "parameter_groups",
    points=4,
    hint="parameters() gives a shared one once; leave out parameters that do not require grad.",
)
def test_groups_trainable(code: Student, draw: Draw) -> Cases:
    """Parameters that require grad are listed once, others not at all; a group may be empty."""
    yield from members(code, code.made("tied", new_shapes(draw)))
    for frozen in (sample(draw, NAMES, 4), MATRICES):
        yield from members(code, code.made("network", frozen=frozen))


@promise(
    "parameter_groups",
    points=2,
    hint="-0.01 would push the weights away from zero: raise a ValueError.",
    word="the sandbox says that it raised",
)
def test_groups_negative(code: Student, draw: Draw) -> Cases:
    """A negative weight_decay is a ValueError, 0 is fine."""
    groups, model = code.function("parameter_groups"), code.made("network")
    refusal = raises(ValueError, "weight_decay", groups, model, -0.01)
    yield "parameter_groups(model, -0.01)", refusal
    groups(model, 0)


@promise(
    "parameter_groups",
    hint="Only sort the parameters: leave values, .grad and requires_grad alone.",
    after="test_groups",
)
def test_groups_change_nothing(student: Student) -> None:
    """Grouping changes nothing in the model."""
    laws.check_changes_nothing(student, "parameter_groups", used_network(student), 0.1)


# --- helpers of the tests ------------------------------------------------------------------------


def new_shapes(draw: Draw) -> list[tuple[int, ...]]:
    """Shapes for further parameters of a network, with one or two dimensions at random."""
    return [draw.choice([(size,), (size, 3)]) for size in (draw.size(2, 99) for _ in range(8))]


def sample(draw: Draw, names: Sequence[str], count: int) -> list[str]:
    """`count` of the names, in a drawn order."""
    return [names[place] for place in draw.permutation(len(names))[:count].tolist()]


def used_network(student: Student) -> Any:
    """A network with some parameters frozen and some submodules in evaluation mode."""
    return student.made("network", frozen=FROZEN, evaluating=["encoder", "norm"])


def numbers_of(counts: Any) -> list[float]:
    """Both numbers, with whole ones as ints. Only one test judges that they are ints."""
    numbers = [entry(counts, at, kind=(int, float)) for at in range(2)]
    return [int(number) if float(number).is_integer() else number for number in numbers]


def listed(names: Sequence[Any]) -> str:
    """Join names into one text, because a message shows where two texts differ."""
    return ", ".join(map(str, names))


def stepped(code: Student, draw: Draw, names: Sequence[str], **setting: Any) -> list[Any]:
    """The result of freeze, and the weights after a step of SGD on a loss with drawn slopes."""
    slopes = {name: draw.number(1, 3) for name in NAMES}
    model = code.made("network", **{"gradient": None, **setting})
    report = code.run("stepped", model, list(names), slopes)
    return [entry(report, "result", default=None), entry(report, "weights")]


def has_stayed(weights: Any, name: str) -> bool:
    """Whether a step left a parameter as it was."""
    weight = assert_tensor(entry(weights, name), what=f"{name} after a step of SGD")
    return torch.equal(weight, torch.full_like(weight, START))


def frozen_by(code: Student, draw: Draw, names: Sequence[str]) -> Cases:
    """The parameters that these names freeze, which are those that a step leaves alone."""
    _, weights = stepped(code, draw, names)
    frozen = [name for name in NAMES if has_stayed(weights, name)]
    yield f"the text of the parameters that freeze(model, {list(names)}) freezes", listed(frozen)


def grouped(code: Student, model: Any, weight_decay: float) -> list[Any]:
    """The two groups, with parameters replaced by their names."""
    told = "The result does not have two groups: keep an empty group, too."
    groups = code.run("groups", model, weight_decay)
    return list(entry(groups, kind=list, count=2, told=told))


def members(code: Student, model: Any) -> Cases:
    """The parameters in the two groups, by name."""
    first, second = (entry(group, "params", kind=list) for group in grouped(code, model, 0.1))
    yield "the text of the parameters in the first group", listed(first)
    yield "the text of the parameters in the second group", listed(second)
