"""Tests of gradient_norms, first_non_finite, watch_gradients and backward_nan."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from grader.judge.checks import assert_close, assert_equal, entry, fields, laws
from grader.judge.student import Student

NAN, INF = float("nan"), float("inf")
# The parameters of the probe's model for gradient_norms.
SHAPES = {
    "0.weight": (2, 3),
    "0.bias": (2,),
    "1.0.weight": (2, 2),
    "1.0.bias": (2,),
    "1.1.weight": (1,),
    "2.bias": (2,),
}
# The modules of the probe's model for first_non_finite, in the order in which they return. What one does to its
# output is a key of the probe's KINDS, "same" where a test says nothing else.
MODULES = ("a.a", "a.b", "a", "b.a", "b.b", "b", "")
SAME_NAMES = {module: module for module in MODULES}
# What the layers of a network may be called.
NAMES = ("stem", "core", "head", "mixer", "tower", "gate", "inlet", "outlet")
# Places of layers of the probe's Network, in the order in which they run.
STEM, HEAD = 0, 2
# A backward pass of the Network that spoils no gradient.
FINE = ""
ZEROS = torch.tensor([[0.0, 2.0, -3.0, 0.0]])
# From losses over ZEROS to the backward function that gives a NaN first.
FUNCTIONS = {
    "sqrt": "SqrtBackward0",
    "pow": "PowBackward1",
    "custom": "SpoiledBackward",
    "negative": "SqrtBackward0",
    "inf": None,
    "log": None,
    "fine": None,
}


# --- gradient_norms ------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("gradient_norms")
@pytest.mark.hint("parameter.grad.norm().item() of each of named_parameters(), or None.")
def test_norms(student: Student) -> None:
    """Every named parameter has the L2 norm of its gradient as a float, or None, in order."""
    whole: dict[str, Any] = {n: torch.randn(s, dtype=torch.float64) for n, s in SHAPES.items()}
    some = {**whole, "1.0.weight": None, "0.bias": whole["0.bias"] * 0, "1.0.bias": None}
    spoiled = {**whole, "0.bias": whole["0.bias"] * NAN, "2.bias": whole["2.bias"] * INF}
    for gradients in (whole, some, spoiled):
        right = {n: None if g is None else g.norm().item() for n, g in gradients.items()}
        norms = student.function("gradient_norms")(student.made("model", gradients))
        assert_close(norms, right, what="the dict", rtol=1e-10, atol=0.0)
        assert_equal(list(norms), list(SHAPES), what="the list of names, in order,")
    laws.check_changes_nothing(student, "gradient_norms", student.made("model", some))


# --- first_non_finite ----------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("A forward hook for each module, made in a function that takes its name.")
def test_first(student: Student) -> None:
    """The first module whose output has a NaN is named, in the order in which the modules return."""
    # Wherever it comes from, the model looks the same; a container's own arithmetic may spoil values, too.
    for place in random.sample(MODULES, len(MODULES)):
        check_model(student, {place: "nan"}, place)
    check_model(student, {}, None)


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("Look at the output in the hook: a stored one may have changed after the run.")
def test_first_looks_at_once(student: Student) -> None:
    """An output counts as it is when its module returns it."""
    box = random.choice("ab")
    check_model(student, {f"{box}.a": "nan", f"{box}.b": "cover"}, f"{box}.a")


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("A function that looks at an output can call itself for the items of a list.")
def test_first_in_containers(student: Student) -> None:
    """Tensors in tuples, lists and dicts count, also in one another."""
    for spoiled, fine in (("nested", "others"), ("listed", "pair")):
        kinds = {"a.a": fine, "a.b": "unpack", "b.a": fine, "b.b": "unpack"}
        place = random.choice(["a.a", "b.a"])
        check_model(student, {**kinds, place: spoiled}, place)


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("output.isfinite().all() is False for an inf as for a NaN.")
def test_first_values(student: Student) -> None:
    """An inf is not finite; large numbers, integers and empty tensors are."""
    place = random.choice(["a.b", "b.a", "b.b"])
    check_model(student, {place: "inf"}, place)
    check_model(student, {"a.a": "large", "b.a": "others", "b.b": "unpack"}, None)


@pytest.mark.place("first_non_finite")
@pytest.mark.hint("Look at outputs alone, and not at what goes in.")
def test_first_of_spoiled_inputs(student: Student) -> None:
    """Where the inputs are not finite, the first module that passes this on is named."""
    x = torch.rand(3, 4).index_fill(0, torch.tensor(2), NAN)
    # After a part that gives large numbers, whatever it gets, everything is finite.
    check_model(student, {random.choice(["a.b", "b.a"]): "large"}, "a.a", x)
    check_model(student, {"a.a": "large"}, None, x)
    place = random.choice(["a.b", "b.a", "b.b"])
    check_model(student, {"a.a": "large", place: "nan"}, place, x)


@pytest.mark.points(4)
@pytest.mark.place("first_non_finite")
@pytest.mark.word("the sandbox says how the model ran")
@pytest.mark.hint("Call model(*inputs) once; leave train() and eval() alone.")
def test_first_runs_once(student: Student) -> None:
    """The model runs once, on all inputs, in its current mode, and everything else stays as it was."""
    fine = [torch.rand(3, 4) for _ in range(3)]
    # The model itself adds the second and third input to what its parts make of the first.
    spoiled = [*fine[:2], fine[2] * NAN]
    for training in (True, False):
        for inputs, right in ((fine, None), (spoiled, "")):
            report = check_first(student, {}, *inputs, training=training)
            assert_equal(entry(report, "value"), right, what="the first for three inputs")
            # The model itself is in the other mode than its parts.
            modes = [training] * (len(MODULES) - 1) + [not training]
            ran_in = [entry(call, "training") for call in entry(report, "ran", kind=list)]
            told = "The model runs twice, or in another mode."
            assert laws.same(ran_in, modes[: len(ran_in)]), told  # It may break off.
        model = student.made("build", {}, SAME_NAMES, training)
        laws.check_changes_nothing(student, "first_non_finite", model, *fine)


@pytest.mark.points(6)
@pytest.mark.place("first_non_finite")
@pytest.mark.word("the sandbox says which hooks are left")
@pytest.mark.hint("try: model(*inputs) finally: handle.remove() for each handle; catch nothing.")
def test_first_leaves_no_hook(student: Student) -> None:
    """No hook of yours is left, also where the model raises; its error comes through."""
    x = torch.rand(3, 4)
    report = check_first(student, {"a.b": "nan"}, x)
    assert entry(report, "value") is not None, "A NaN came, and nothing is found."
    check_hooks(report, "after first_non_finite")
    for kind in ("odd", "lookup"):
        report = check_first(student, {"b.a": kind}, x)
        assert entry(report, "own") is True, "The model's error is lost: let it through."
        check_hooks(report, "after an error of the model")
    report = check_first(student, {"a.b": "nan", "b.b": "odd"}, x)
    check_hooks(report, "after a NaN and an error of the model")


# --- watch_gradients -----------------------------------------------------------------------------


@pytest.mark.points(7)
@pytest.mark.place("watch_gradients")
@pytest.mark.hint("parameter.register_hook(hook): what hook(gradient) raises leaves backward().")
def test_watch_raises(student: Student) -> None:
    """The backward pass itself raises, and names the first parameter that it reaches."""
    check_raised(student, "end", HEAD, fine_before=random.randint(1, 3))
    check_raised(student, "middle", STEM)
    check_raised(student, "middle", STEM, fine_before=1)


@pytest.mark.points(2)
@pytest.mark.place("watch_gradients")
@pytest.mark.hint("gradient.isfinite().all() is False for an inf as for a NaN.")
def test_watch_inf(student: Student) -> None:
    """A gradient of -inf raises, too."""
    check_raised(student, "inf", HEAD)


@pytest.mark.points(4)
@pytest.mark.requires("test_watch_raises")
@pytest.mark.place("watch_gradients")
@pytest.mark.hint("Return nothing from the hook; test all elements and not their sum.")
def test_watch_leaves_finite_gradients(student: Student) -> None:
    """Finite gradients, large ones too, are what they are without a block, over several passes."""
    passes, names, x = [FINE, FINE, "large"], random.sample(NAMES, 4), torch.rand(1, 4)
    report = student.run("watched", names, passes, x)
    told = f"With finite gradients there is an error: {str(entry(report, 'text'))[:80]}"
    assert laws.same(entry(report, "done"), len(passes)), told
    right = student.apart("unwatched", names, passes, x)
    what = "the dict of gradients after the block"
    assert_close(entry(report, "gradients"), right, what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_watch_raises")
@pytest.mark.place("watch_gradients")
@pytest.mark.word("the sandbox says which hooks are left")
@pytest.mark.hint("try: yield finally: handle.remove() for each handle")
def test_watch_leaves_no_hook(student: Student) -> None:
    """No hook of yours is left after the block, also after an error; the block's error comes through."""
    x = torch.rand(1, 4)
    names = NAMES[:4]
    check_hooks(student.run("watched", names, [FINE], x), "after the block")
    report = student.run("watched", names, ["end"], x)
    check_hooks(report, "after the error of a backward pass")
    for error in ("odd", "lookup"):
        report = student.run("watched", names, [FINE], x, error)
        assert entry(report, "own") is True, "The block's error is lost: let it through."
        check_hooks(report, "after an error of the block")


# --- backward_nan --------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("backward_nan")
@pytest.mark.hint("Run both under set_detect_anomaly(True); the error's message has the name.")
def test_backward(student: Student) -> None:
    """The backward function that returned a NaN first is named; an inf alone does not count."""
    # The names in the graph of a sum do not say which of its functions gives the NaN.
    for kind in random.sample(list(FUNCTIONS), len(FUNCTIONS)):
        others = random.sample(["spared", "sqrt", "pow", "negative", "inf"], 4)
        report = check_backward(student, kind, others)
        error = entry(report, "error")
        assert error is None, f"backward_nan raises {str(error)[:120]}: return the name."
        what = f"backward_nan of a sum of a loss ({kind}) over {ZEROS.tolist()} and of others ({others})"
        assert_equal(entry(report, "value"), FUNCTIONS[kind], what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_backward")
@pytest.mark.place("backward_nan")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("with torch.autograd.set_detect_anomaly(True) puts back what was before.")
def test_backward_mode(student: Student) -> None:
    """Anomaly detection is afterwards what it was, also after an error."""
    for kind in ("fine", "odd", "backward", "sqrt"):
        mode = entry(check_backward(student, kind), "mode")
        assert mode is False, "Anomaly detection was off before: put it back."
    # What a NaN gives where anomaly detection is on already is free.
    for kind in ("fine", "odd", "backward"):
        mode = entry(check_backward(student, kind, anomaly=True), "mode")
        assert mode is True, "Anomaly detection was on before: put it back."


@pytest.mark.points(4)
@pytest.mark.requires("test_backward")
@pytest.mark.place("backward_nan")
@pytest.mark.word("the sandbox says what was raised")
@pytest.mark.hint("Where the message is not that of a NaN, raise the error again.")
def test_backward_errors(student: Student) -> None:
    """All other errors, of the closure and of the backward pass, come through."""
    errors = {
        "odd": "OddError: it broke",
        "backward": "RuntimeError: it broke",
        "unwritten": "NotImplementedError: later",
        "vector": "RuntimeError: grad can be implicitly created only for scalar outputs",
        "constant": "RuntimeError: element 0 of tensors does not require grad",
    }
    for kind, right in errors.items():
        error = entry(check_backward(student, kind), "error")
        came = "no error comes out" if error is None else f"{str(error)[:120]} comes out"
        assert str(error).startswith(right), f"The error {right!r} is raised, but {came}."


# --- what models are made of, and what is asked of a report --------------------------------------


def check_model(
    student: Student, kinds: dict[str, str], right: str | None, x: torch.Tensor | None = None
) -> None:
    """The module that is named is `right`, whatever the modules are called."""
    if x is None:
        x = torch.rand(3, 4, dtype=torch.float64) + 1
    names = new_names()
    report = check_first(student, kinds, x, names=names)
    what = f"first_non_finite of a model in which {kinds or 'no module'} is special"
    expected = None if right is None else names[right]
    assert_equal(entry(report, "value"), expected, what=what)


def new_names() -> dict[str, str]:
    """What the modules are called: each box and each part has a letter that is drawn."""
    a, b, *parts = random.sample("defghijkmnpqrstuvwxyz", 6)
    names = [f"{a}.{parts[0]}", f"{a}.{parts[1]}", a, f"{b}.{parts[2]}", f"{b}.{parts[3]}", b, ""]
    return dict(zip(MODULES, names, strict=True))


def check_first(
    student: Student,
    kinds: dict[str, str],
    *inputs: torch.Tensor,
    names: dict[str, str] = SAME_NAMES,
    training: bool = True,
) -> Any:
    """A report of the probe, whose modules are of these kinds and names: the model ran as a whole.

    How often and in which mode is judged by one test alone.
    """
    report = student.run("first", student.made("build", kinds, names, training), *inputs)
    ran = [entry(call, "kind") for call in entry(report, "ran", kind=list)]
    assert ran, "The model does not run: call model(*inputs)."
    run = [kinds.get(module, "same") for module in MODULES]
    told = "The parts of the model do not run in their order: call model(*inputs)."
    assert laws.same(ran[: len(run)], run[: len(ran)]), told  # It may break off.
    return report


def check_raised(student: Student, where: str, at: int, fine_before: int = 0) -> None:
    """The pass that is spoiled at `where` raises, and names a parameter of the layer at the place `at`."""
    layers = random.sample(NAMES, 4)
    passes = [*[FINE] * fine_before, where, FINE]
    report = student.run("watched", layers, passes, torch.rand(1, 4))
    text, done = str(entry(report, "text")), entry(report, "done")
    assert done is not None, f"The block does not begin: {text[:120]}"
    bad = "A gradient of -inf" if where == "inf" else "A gradient of NaN"
    assert entry(report, "runtime") is True, f"{bad} raises no RuntimeError ({text[:80]})."
    told = "The error comes after the backward pass: raise in a hook of the parameter."
    assert laws.same(done, fine_before), told
    named = [n for n in layers for kind in ("weight", "bias") if f"{n}.{kind}" in text]
    assert named == [layers[at]], (
        f"The message {text[:80]!r} should name one parameter, of the layer {layers[at]}, which the "
        "backward pass reaches first."
    )


def check_hooks(report: Any, when: str) -> None:
    """The report counts as many hooks after the call as before it, and the modes are the same."""
    before, after = fields(report, "hooks before", "hooks after")
    told = f"A mode has changed {when}: put it back."
    assert laws.same(entry(before, "modes"), entry(after, "modes")), told
    for owner in ("the model's modules", "the model's parameters", "PyTorch itself"):
        old, new = entry(before, owner), entry(after, owner)
        told = f"There are {new} hooks {when} on {owner}, and were {old} before"
        assert laws.same(old, new), f"{told}: remove each of yours, in a finally, and no other."


def check_backward(
    student: Student, kind: str, others: Sequence[str] = (), anomaly: bool = False
) -> Any:
    """A report of the probe: the closure, of the sum of this loss and others in any order, ran once."""
    kinds, place = list(others), random.randint(0, len(others))
    kinds.insert(place, kind)
    report = student.run("backward", kinds, place, ZEROS, anomaly)
    count = entry(report, "count", kind=int)
    assert count == 1, f"The closure is called {count} times: once is enough."
    return report
