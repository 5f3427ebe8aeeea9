"""Tests of count_parameters, freeze and parameter_groups."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise
from grader.judge.student import Student

_TABLE = """gain, bias 1 4, scales 3, nothing 0 3, encoder.0.weight 3 4, encoder.0.bias 3,
encoder.2.weight 3 3, encoder.2.bias 3, encoder2.weight 3 3, my.encoder.weight 3 3, my.encoder.bias 3,
norm.weight 3, norm.bias 3, layer_norm.weight 2 3, layer_norm.bias 2 3, conv.weight 3 2 2 2, conv.bias 3,
embedding.weight 5 3, head.0.weight 2 3, head.0.bias 2, head_0.weight 2 3, head_0.bias 2"""
SHAPES = {name: tuple(map(int, sizes)) for name, *sizes in map(str.split, _TABLE.split(","))}
NAMES = list(SHAPES)
# Of these some are added to a network, after its own parameters.
VECTORS, MATRICES = [f"vector{i}" for i in range(9)], [f"matrix{i}" for i in range(9)]
SHAPES |= dict.fromkeys(VECTORS, (3,)) | dict.fromkeys(MATRICES, (2, 3))
SOME = ("encoder.0.weight", "norm.bias", "conv.weight", "gain")
STALE, TIED = 7.0, "embedding.weight"
Cases = Sequence[Sequence[str]]


@pytest.mark.points(4)
@pytest.mark.place("count_parameters")
@pytest.mark.hint("numel() is the number of elements; requires_grad tells if a parameter learns.")
def test_count(student: Student) -> None:
    """All elements of all parameters are counted, and those that are trainable."""
    for frozen in (SOME, ()):
        rows = random.randint(6, 500)
        total, resting = elements(NAMES, rows), elements(frozen)
        trainable = total - resting
        evaluating = [] if frozen else ["", "norm"]
        network = student.made("network", frozen=frozen, evaluating=evaluating, rows=rows)
        check_counts(student, network, (total, trainable))
    check_counts(student, student.made("network", frozen=NAMES, rows=rows), (total, 0))
    check_counts(student, student.made("part", "Linear", rows, 3), (3 * rows + 3, 3 * rows + 3))
    check_counts(student, student.made("part", "ReLU"), (0, 0))


@pytest.mark.points(2)
@pytest.mark.requires("test_count")
@pytest.mark.place("count_parameters")
@pytest.mark.hint("model.parameters() gives a parameter once, however many modules hold it.")
def test_count_tied(student: Student) -> None:
    """Tied weights count once, and parameters that are only alike each count."""
    rows = random.randint(6, 500)
    for frozen in ((), (TIED,)):
        total, trainable = (
            elements(names, rows) for names in (NAMES, [n for n in NAMES if n not in frozen])
        )
        network = student.made("network", frozen=frozen, tied=True, rows=rows)
        check_counts(student, network, (total, trainable))


@pytest.mark.requires("test_count")
@pytest.mark.place("count_parameters")
@pytest.mark.hint("Only look: no zero_grad, no train() or eval(), no requires_grad_().")
def test_count_changes_nothing(student: Student) -> None:
    """Counting changes nothing of the model."""
    laws.check_changes_nothing(student, "count_parameters", used_network(student))


@pytest.mark.points(2)
@pytest.mark.place("freeze")
@pytest.mark.hint("A name may be that of a parameter: key == name.")
def test_freeze_parameters(student: Student) -> None:
    """The name of a parameter freezes this parameter."""
    check_frozen(student, [["scales"], ["encoder.2.bias", "gain"], ("conv.weight",)])


@pytest.mark.points(3)
@pytest.mark.place("freeze")
@pytest.mark.hint("A module covers the keys that begin with its name and a dot.")
def test_freeze_modules(student: Student) -> None:
    """The name of a module freezes its parameters and those of its submodules."""
    check_frozen(student, [["encoder.0"], ["my"], ("conv", "my.encoder")])


@pytest.mark.points(4)
@pytest.mark.place("freeze")
@pytest.mark.hint('key == name or key.startswith(name + "."): the dot ends the name of a module.')
def test_freeze_covers(student: Student) -> None:
    """A name freezes nothing else, even if other names begin alike or contain it."""
    check_frozen(student, [["encoder"], ["head.0"], ["bias"]])


@pytest.mark.points(2)
@pytest.mark.place("freeze")
@pytest.mark.hint("Go through model.named_parameters() and keep the names that are covered.")
def test_freeze_returns(student: Student) -> None:
    """The names of all covered parameters come back in the model's order, each once."""
    cases = [["head", "encoder"], ["encoder.2", "encoder"], ["norm.bias", "norm"], ["gain"]]
    orders = [" ".join(names) for names in with_others(cases)]
    seen = {names: freeze(student, names.split()).value for names in orders}
    assert_equal(
        seen,
        {names: covered(names.split()) for names in orders},
        what="the dict from names to the result of freeze(model, names)",
    )
    check_names(freeze(student, ["norm"], frozen=SOME).value, ["norm"])


@pytest.mark.points(4)
@pytest.mark.place("freeze")
@pytest.mark.word("the sandbox says which gradients are None")
@pytest.mark.hint("parameter.grad = None beside parameter.requires_grad_(False).")
def test_freeze_gradients(student: Student) -> None:
    """A frozen parameter has no .grad left, so that no optimizer moves it."""
    names = ["encoder.0.weight", "conv.weight", "conv.bias"]
    gradients = freeze(student, names, stale=True, frozen=SOME).gradients(0)
    left = [key for key in covered(names) if gradients.get(key) is not None]
    told = "is still there: an optimizer goes on moving the parameter by it"
    if set(left) <= set(SOME):
        told = "is still there: every covered parameter loses it, frozen before or not"
    elif isinstance(grad := gradients[left[0]], Tensor) and not grad.any():
        told = "is zeros, not None: an optimizer still applies its weight decay"
    assert not left, f"After freeze the .grad of {left[0]} {told}. Set it to None."


@pytest.mark.points(2)
@pytest.mark.place("freeze")
@pytest.mark.hint("Touch covered parameters only: no model.zero_grad(), no requires_grad_(True).")
def test_freeze_leaves_the_others(student: Student) -> None:
    """Parameters that no name covers keep their .grad, and stay frozen if they were."""
    names = ["scales", "head.0.bias"]
    before = random.sample([key for key in NAMES if key not in names], 2)
    seen = freeze(student, names, frozen=before, stale=True)
    right = [key for key in NAMES if key in (*before, *covered(names))]
    what = f"the list of frozen parameters after freeze(model, {names})"
    assert_equal(frozen_names(seen), right, what=what)
    for key, grad in seen.gradients(0).items():
        if key not in covered(names):
            told = f"After freeze(model, {names}) the .grad of {key} is not what it was, and no"
            unchanged = isinstance(grad, Tensor) and bool((grad == STALE).all())
            assert unchanged, f"{told} name covers it: only covered parameters lose theirs."


@pytest.mark.points(3)
@pytest.mark.place("freeze")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("If a name covers no parameter: raise ValueError(f'{name!r} covers nothing').")
def test_freeze_unknown(student: Student) -> None:
    """A name that covers no parameter is a ValueError that names it, and nothing has changed."""
    bad = ["decoder", "enc", "encoder.1", "norm.running_mean", "steps", "encoder.weight", "weight"]
    for names in (*([name] for name in bad), ["gain", "decoder", "norm"], ["Encoder", "embedding"]):
        unknown = next(name for name in names if not covered([name]))
        with must_raise(ValueError, mentions=unknown, call=f"freeze(model, {names})"):
            student.function("freeze")(student.made("network"), names)
    late: dict[str, Any] = {"raises": ValueError, "told": "Check all names before you freeze one."}
    for given in (("gain", "encoder", "decoder"), ("norm", "enc", "embedding")):
        laws.check_changes_nothing(student, "freeze", used_network(student), given, **late)


@pytest.mark.place("freeze")
@pytest.mark.hint("Only .requires_grad and .grad change: no eval(), no new Parameter or value.")
def test_freeze_changes_nothing_else(student: Student) -> None:
    """Values, buffers, modes and the Parameter objects stay; an empty list changes nothing at all."""
    for names in (["encoder", "norm"], ["my.encoder", "gain", "encoder.0.weight"], [], ()):
        allow, told = (
            (("0.requires_grad", "0.grad"), "") if names else ((), "Without names nothing changes.")
        )
        how: dict[str, Any] = {"allow": allow, "told": told}
        value = laws.check_changes_nothing(student, "freeze", used_network(student), names, **how)
        check_names(value, names)


@pytest.mark.points(6)
@pytest.mark.place("parameter_groups")
@pytest.mark.hint("parameter.dim() >= 2 is the whole question.")
def test_groups(student: Student) -> None:
    """Parameters of two or more dimensions decay, those of fewer do not, whatever their names."""
    check_groups(student, NAMES)


@pytest.mark.points(5)
@pytest.mark.place("parameter_groups")
@pytest.mark.hint('"weight_decay" is the argument in the first dict, and 0.0 in the second.')
def test_groups_values(student: Student) -> None:
    """Each group has the keys params and weight_decay: the argument first, then 0."""
    for weight_decay in (random.uniform(0.05, 0.2), random.uniform(0.01, 0.05), 0):
        groups = grouped(student, student.made("network"), weight_decay)
        keys = [sorted(map(str, entry(group, "keys", kind=list))) for group in groups]
        told = "Each group has exactly two keys, params and weight_decay"
        assert keys == [["params", "weight_decay"]] * 2, f"{told}; the keys are {keys}."
        values = [entry(group, "weight_decay") for group in groups]
        what = "the list of the two weight_decay values"
        assert_close(values, [weight_decay, 0.0], what=what, rtol=0.0, atol=0.0)


@pytest.mark.points(4)
@pytest.mark.place("parameter_groups")
@pytest.mark.hint("parameters() gives a shared one once; leave out what does not require grad.")
def test_groups_trainable(student: Student) -> None:
    """Parameters that require grad are listed once, others not at all; a group may be empty."""
    check_groups(student, NAMES, tied=True)
    matrices = [name for name in NAMES if is_matrix(name)]
    for frozen in (SOME, matrices, [name for name in NAMES if name not in matrices], NAMES):
        learning = [name for name in NAMES if name not in frozen]
        check_groups(student, learning, more=frozen is SOME, frozen=frozen)


@pytest.mark.points(2)
@pytest.mark.place("parameter_groups")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("-0.01 would push the weights away from zero: raise a ValueError.")
def test_groups_negative(student: Student) -> None:
    """A negative weight_decay is a ValueError, 0 is fine."""
    network = student.made("network")
    calls = [(network, -0.01), (network, -1), (network, -1e-9)]
    for fine in (0, 0.0, 1e-9):
        grouped(student, network, fine)
    laws.check_errors(student, "parameter_groups", {"weight_decay": calls})


@pytest.mark.requires("test_groups")
@pytest.mark.place("parameter_groups")
@pytest.mark.hint("Only sort the parameters: leave values, .grad and requires_grad alone.")
def test_groups_change_nothing(student: Student) -> None:
    """Sorting changes nothing of the model."""
    laws.check_changes_nothing(student, "parameter_groups", used_network(student), 0.1)


def elements(names: Sequence[str], rows: int = 5) -> int:
    """The number of elements of these parameters; the embedding has this number of rows."""
    shapes = {**SHAPES, TIED: (rows, 3)}
    return sum(math.prod(shapes[name]) for name in names)


def is_matrix(name: str) -> bool:
    return len(SHAPES[name]) >= 2


def used_network(student: Student) -> Any:
    """A network after a backward pass, of which some is frozen and some in evaluation mode."""
    return student.made("network", frozen=SOME, stale=True, evaluating=["encoder", "norm"])


def check_counts(student: Student, model: Any, right: tuple[int, int]) -> None:
    value = student.function("count_parameters")(model)
    assert_equal(value, right, what="the pair (total, trainable)")


def freeze(student: Student, names: Sequence[str], **setting: Any) -> laws.Observation:
    return laws.observe(student, "freeze", student.made("network", **setting), names).checked()


def covered(names: Sequence[str]) -> list[str]:
    """The parameters that these names cover, in the model's order."""
    return [key for key in NAMES if any(is_covered(key, name) for name in names)]


def is_covered(key: str, name: str) -> bool:
    return key == name or key.startswith(f"{name}.")


def frozen_names(seen: laws.Observation) -> list[str]:
    return [k for k in NAMES if seen.after(0, "parameters", k, "requires_grad") is False]


def with_others(cases: Cases) -> Cases:
    """These names, in a drawn order among others."""
    others = [*("norm", "layer_norm", "embedding", "head", "encoder.2", "nothing", "head_0.bias")]
    return random.sample([*cases, *([name] for name in random.sample(others, 3))], len(cases) + 3)


def check_frozen(student: Student, cases: Cases) -> None:
    cases = with_others(cases)
    seen = {", ".join(names): frozen_names(freeze(student, names)) for names in cases}
    what = "the dict from names to the list of parameters that freeze(model, names) freezes"
    assert_equal(seen, those(is_covered, cases), what=what)


def those(covers: Callable[[str, str], Any], cases: Cases) -> dict[str, list[str]]:
    """For each case the parameters that are frozen where a name covers what is said here."""
    return {
        ", ".join(names): [key for key in NAMES if any(covers(key, name) for name in names)]
        for names in cases
    }


def check_names(value: Any, names: Sequence[str]) -> None:
    what = f"the result of freeze(model, {names})"
    assert_equal(value, covered(names), what=what)


def grouped(student: Student, model: Any, weight_decay: float) -> list[Any]:
    """The probe's reports of the two groups."""
    report = student.run("groups", model, weight_decay)
    kind, groups = entry(report, "type", kind=str), entry(report, "groups", kind=list)
    assert kind in ("list", "tuple"), (
        f"The result is of type {kind[:60]}: return a list of two dicts."
    )
    told = f"The list has {len(groups)} groups, not two: keep an empty group, too."
    assert len(groups) == 2, told
    assert all("keys" in entry(group, kind=dict) for group in groups), (
        "Each group has to be a dict."
    )
    return list(groups)


def check_groups(
    student: Student, learning: Sequence[str], *, more: bool = True, **setting: Any
) -> None:
    """The two groups hold the parameters `learning` of a network, sorted by their dimensions.

    With `more` the network has drawn parameters besides.
    """
    extra = [*random.sample(VECTORS, 2), *random.sample(MATRICES, 2)] if more else []
    own = [name for name in NAMES if "." not in name]
    learning = [
        *[name for name in own if name in learning],
        *extra,
        *[name for name in NAMES if name in learning and name not in own],
    ]
    network = student.made("network", extra={name: SHAPES[name] for name in extra}, **setting)
    groups = grouped(student, network, 0.1)
    for group in groups:
        kind = entry(group, "type", kind=str)
        told = f'"params" is of type {kind[:60]}: make it a list of Parameters.'
        assert kind in ("list", "tuple"), told
    assert_equal(
        [entry(group, "params", kind=list) for group in groups],
        split(is_matrix, learning),
        what="the list of the two groups, each parameter shown by its name,",
    )


def split(decays: Callable[[str], Any], names: Sequence[str]) -> list[list[str]]:
    return [[n for n in names if decays(n)], [n for n in names if not decays(n)]]
