"""What gradient_norms, first_non_finite, watch_gradients and backward_nan promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from grader.judge.checks import assert_close, assert_equal, entry, fields, laws
from grader.judge.student import Student

NAN, INF = float("nan"), float("inf")
OWNERS = ("The model's modules", "The model's parameters", "PyTorch's global tables")
SHAPES = {"0.weight": (2, 3), "0.bias": (2,), "1.0.weight": (2, 2), "1.0.bias": (2,)}
SHAPES |= {"1.1.weight": (1,), "2.bias": (2,)}
LATE = "The error comes after the backward pass: raise in a hook of the parameter."
ZEROS = torch.tensor([[0.0, 2.0, -3.0, 0.0]])
# What the layers of a network may be called.
NAMES = ("stem", "core", "head", "mixer", "tower", "gate", "inlet", "outlet")


@pytest.mark.points(5)
@pytest.mark.place("gradient_norms")
@pytest.mark.hint("parameter.grad.norm().item() of each of named_parameters(), or None.")
def test_norms(student: Student) -> None:
    """Every named parameter has the L2 norm of its gradient as a float, or None, in order."""
    for dtype, rtol in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        grads: dict[str, Any] = {n: torch.randn(s, dtype=dtype) for n, s in SHAPES.items()}
        some = {"1.0.weight": None, "0.bias": grads["0.bias"] * 0, "1.0.bias": None}
        spoiled = {"0.bias": grads["0.bias"] * NAN, "2.bias": grads["2.bias"] * INF}
        for now in (grads, grads | some, grads | spoiled):
            right = {n: None if g is None else g.double().norm().item() for n, g in now.items()}
            norms, what = student.function("gradient_norms")(student.made("model", now)), "the dict"
            assert_close(norms, right, what=what, rtol=rtol, atol=0.0)
            assert_equal(list(norms), list(SHAPES), what="the list of names, in order,")
            laws.check_changes_nothing(student, "gradient_norms", student.made("model", now))


def parts(*plans: Any, own: str = "same") -> dict[str, Any]:
    return {**dict(zip("abc", plans, strict=False)), "own": own}


ONLY_NAN, ONLY_INF = "One inf is enough: it is not finite.", "One NaN is enough: it is not finite."
# What a model is made of, and what is first.
MODELS: list[tuple[Any, str | None]] = [
    (parts("same", "nan", "same"), "b"),
    (parts("same", parts("same", "nan"), "same"), "b.b"),
    (parts("same", parts("same", own="nan"), "same"), "b"),
    (parts("same", "nan", parts("same")), "b"),
    (parts("same", own="nan"), ""),
    ("nan", ""),
]
IN_PLACE: list[Any] = [(parts("same", parts("nan", "cover"), "same"), "b.a")]
CONTAINERS: list[Any] = [
    (parts("nested", "unpack"), "a"),
    (parts("same", parts("same", "listed", "unpack")), "b.b"),
]
VALUES: list[Any] = [
    (parts("same", "inf", parts("same")), "b"),
    (parts("large", "others", "unpack"), None),
]


@pytest.mark.points(6)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("A forward hook for each module, made in a function that takes its name.")
def test_first(student: Student) -> None:
    """The first module whose output has a NaN is named, in the order in which the modules return."""
    check_models(student, MODELS)


@pytest.mark.points(3)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("Look at the output in the hook: a stored one may have changed after the run.")
def test_first_looks_at_once(student: Student) -> None:
    """An output counts as it is when its module returns it; the inputs do not count."""
    check_models(student, IN_PLACE)
    x = torch.rand(3, 4).index_fill(0, torch.tensor(2), NAN)
    what = "the first for an input with a NaN"
    for plan, right in ((parts(parts("same"), "same"), "a.a"), (parts("large", "nan"), "b")):
        names = drawn_names()
        value = entry(check_first(student, renamed(plan, names), x), "value")
        assert_equal(value, named(right, names), what=what)


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("A function that looks at an output can call itself for the items of a list.")
def test_first_in_containers(student: Student) -> None:
    """Tensors in tuples, lists and dicts count, also in one another."""
    check_models(student, CONTAINERS)


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("output.isfinite().all() is False for an inf as for a NaN.")
def test_first_values(student: Student) -> None:
    """An inf is not finite; large numbers, integers and empty tensors are."""
    check_models(student, VALUES)


@pytest.mark.points(4)
@pytest.mark.place("first_non_finite")
@pytest.mark.word("the sandbox says how the model ran")
@pytest.mark.hint("Call model(*inputs) once; leave train() and eval() alone.")
def test_first_runs_once(student: Student) -> None:
    """The model runs once, on all inputs, in its current mode, and everything else stays as it was."""
    for training in (True, False):
        for plan, right in ((parts("same", parts("same"), "same"), None), (parts("nan"), "a")):
            inputs = [torch.rand(3, 4) for _ in range(3)]
            for given, name in ((inputs, right), ([*inputs[:2], inputs[2] * NAN], right or "")):
                value = entry(check_first(student, plan, *given, training=training), "value")
                told = f"With three inputs it gives {value!r}, where {name!r} is right."
                assert (value is None) is (name is None), told
            model = student.made("build", plan, training)
            laws.check_changes_nothing(student, "first_non_finite", model, *inputs)


@pytest.mark.points(6)
@pytest.mark.place("first_non_finite")
@pytest.mark.word("the sandbox says which hooks are left")
@pytest.mark.hint("try: model(*inputs) finally: handle.remove() for each handle; catch nothing.")
def test_first_leaves_no_hook(student: Student) -> None:
    """No hook of yours is left, also where the model raises; its error comes through."""
    report = check_first(student, parts("same", "nan"), torch.rand(3, 4))
    assert entry(report, "value") is not None, "A NaN came, and nothing is found."
    check_hooks(report, "after first_non_finite")
    for plan in (parts("same", parts("same", "odd"), "same"), "odd", "lookup"):
        report = check_first(student, plan, torch.rand(3, 4))
        assert entry(report, "own") is True, "The model's error is lost: let it through."
        check_hooks(report, "after an error of the model")
    report = check_first(student, parts("nan", "odd"), torch.rand(3, 4))
    check_hooks(report, "after a NaN and an error of the model")


@pytest.mark.points(7)
@pytest.mark.place("watch_gradients")
@pytest.mark.hint("parameter.register_hook(hook): what hook(gradient) raises leaves backward().")
def test_watch_raises(student: Student) -> None:
    """The backward pass itself raises, and names the first parameter that it reaches."""
    for where, layer in (("end", 2), ("middle", 0)):
        for passes in ([where], ["", "", where], [where, ""]):
            check_raised(student, where, layer, passes)


@pytest.mark.points(2)
@pytest.mark.place("watch_gradients")
@pytest.mark.hint("gradient.isfinite().all() is False for an inf as for a NaN.")
def test_watch_inf(student: Student) -> None:
    """A gradient of -inf raises, too."""
    check_raised(student, "inf", 2, ["inf"])


@pytest.mark.points(4)
@pytest.mark.requires("test_watch_raises")
@pytest.mark.place("watch_gradients")
@pytest.mark.hint("Return nothing from the hook; test all elements and not their sum.")
def test_watch_leaves_finite_gradients(student: Student) -> None:
    """Finite gradients, large ones too, are what they are without a block, over several passes."""
    x = torch.rand(1, 4)
    for passes in (["", "", ""], ["large"], []):
        names = random.sample(NAMES, 4)
        report = student.run("watched", names, passes, x)
        told = f"With finite gradients there is an error: {str(entry(report, 'text'))[:80]}"
        assert laws.same([*fields(report, "after", "done")], [True, len(passes)]), told
        own, plain = entry(report, "gradients"), student.apart("watched", names, passes, x, "plain")
        assert_close(own, entry(plain, "gradients"), what="the dict of gradients after the block")


@pytest.mark.points(4)
@pytest.mark.requires("test_watch_raises")
@pytest.mark.place("watch_gradients")
@pytest.mark.word("the sandbox says which hooks are left")
@pytest.mark.hint("try: yield finally: handle.remove() for each handle")
def test_watch_leaves_no_hook(student: Student) -> None:
    """No hook of yours is left after the block, also after an error; the block's error comes through."""
    for passes, when in (
        ([""], "after the block"),
        (["end"], "after the error of a backward pass"),
    ):
        check_hooks(student.run("watched", NAMES[:4], passes, torch.rand(1, 4)), when)
    for passes, error in (([], "odd"), ([""], "odd"), ([""], "lookup")):
        report = student.run("watched", NAMES[:4], passes, torch.rand(1, 4), error)
        assert entry(report, "own") is True, "The block's error is lost: let it through."
        check_hooks(report, "after an error of the block")


@pytest.mark.points(6)
@pytest.mark.place("backward_nan")
@pytest.mark.hint("Run both under set_detect_anomaly(True); the error's message has the name.")
def test_backward(student: Student) -> None:
    """The backward function that returned a NaN first is named; an inf alone does not count."""
    every = {"sqrt": "SqrtBackward0", "pow": "PowBackward1", "custom": "SpoiledBackward",
             "negative": "SqrtBackward0"}  # fmt: skip
    kinds = {**every, "inf": None, "log": None, "fine": None}
    # Of positive numbers only the backward function of its own has a NaN, wherever the graph is the same.
    fine = {kind: "SpoiledBackward" if kind == "custom" else None for kind in kinds}
    cases = [(kind, right, ZEROS) for kind, right in kinds.items()]
    cases += [(kind, right, torch.rand(1, 4) + 0.5) for kind, right in fine.items()]
    for kind, right, x in random.sample(cases, len(cases)):
        report = check_backward(student, kind, (False, True), x)
        error = entry(report, "error")
        assert error is None, f"backward_nan raises {str(error)[:120]}: return the name."
        what = f"backward_nan of a loss ({kind}), at x = {x.tolist()},"
        assert_equal(entry(report, "value"), right, what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_backward")
@pytest.mark.place("backward_nan")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("with torch.autograd.set_detect_anomaly(True) puts back what was before.")
def test_backward_mode(student: Student) -> None:
    """Anomaly detection is afterwards what it was, also after an error."""
    for anomaly in ((False, True), (True, True), (True, False)):
        # What a NaN gives where anomaly detection is on already is free.
        for kind in ("fine", "odd", "backward", *(() if anomaly[0] else ("sqrt",))):
            mode = entry(check_backward(student, kind, anomaly), "mode")
            was = "on" if anomaly[0] else "off"
            assert mode is anomaly[0], f"Anomaly detection was {was} before: put it back."


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
        error = entry(check_backward(student, kind, (False, True)), "error")
        came = "no error comes out" if error is None else f"{str(error)[:120]} comes out"
        assert str(error).startswith(right), f"The error {right!r} is raised, but {came}."


def order(plan: Any) -> Iterator[str]:
    """What runs in a model of the probe's, in order."""
    if isinstance(plan, str):
        yield plan
        return
    for name in plan:
        yield from order(plan[name]) if name != "own" else ()
    yield f"box {plan['own']}"


def drawn_names() -> dict[str, str]:
    """Other names for the parts a, b and c."""
    return dict(zip("abc", random.sample("defghijkmnpqrstuvwxyz", 3), strict=True))


def renamed(plan: Any, names: dict[str, str]) -> Any:
    """The plan with these names for its parts."""
    if isinstance(plan, str):
        return plan
    return {names.get(name, name): renamed(part, names) for name, part in plan.items()}


def named(path: str | None, names: dict[str, str]) -> str | None:
    """The path of a part under these names."""
    return path and ".".join(names[part] for part in path.split("."))


def check_first(student: Student, plan: Any, *inputs: torch.Tensor, training: bool = True) -> Any:
    """A report of the probe: the model ran once, in its mode."""
    report = student.run("first", student.made("build", plan, training), *inputs)
    ran, whole = entry(report, "ran", kind=list), [[kind, training] for kind in order(plan)]
    whole[-1][1] = not training  # the mode of the model itself
    assert ran, "The model does not run: call model(*inputs)."
    assert laws.same(ran, whole[: len(ran)]), "The model runs twice, or in another mode."
    return report


def check_models(student: Student, models: list[Any]) -> None:
    for plan, right in models:
        names = drawn_names()
        drawn = renamed(plan, names)
        report = check_first(student, drawn, torch.rand(3, 4).double() + 1)
        what = f"first_non_finite of a model with the parts {drawn}"
        assert_equal(entry(report, "value"), named(right, names), what=what)


def check_raised(student: Student, where: str, at: int, passes: list[str]) -> None:
    """The pass at `where` raises, and names a parameter of the layer at this place."""
    layers = random.sample(NAMES, 4)
    layer = layers[at]
    report = student.run("watched", layers, passes, torch.rand(1, 4))
    text, done = str(entry(report, "text")), entry(report, "done", kind=int)
    assert done != -1, f"The block does not begin: {text[:120]}"
    bad = "A gradient of -inf" if where == "inf" else "A gradient of NaN"
    assert entry(report, "runtime") is True, f"{bad} raises no RuntimeError ({text[:80]})."
    assert entry(report, "after") is False and done == passes.index(where), LATE
    names = [n for n in layers for kind in ("weight", "bias") if f"{n}.{kind}" in text]
    told = f"The message {text[:80]!r} should name one parameter, of the layer {layer}"
    assert names == [layer], f"{told}, which the backward pass reaches first."


def check_hooks(report: Any, when: str) -> None:
    before, after = (entry(report, "hooks", i, kind=list, count=4) for i in (0, 1))
    assert laws.same(before.pop(0), after.pop(0)), f"A mode has changed {when}: put it back."
    for owner, old, new in zip(OWNERS, before, after, strict=True):
        told = f"{owner} have {new} hooks {when}, and had {old} before"
        assert laws.same(old, new), f"{told}: remove each of yours, in a finally, and no other."


def check_backward(
    student: Student, kind: str, anomaly: tuple[bool, bool], x: torch.Tensor = ZEROS
) -> Any:
    """A report of the probe: the closure ran once."""
    report = student.run("backward", kind, x, anomaly)
    count = entry(report, "count", kind=int)
    assert count == 1, f"The closure is called {count} times: once is enough."
    return report
