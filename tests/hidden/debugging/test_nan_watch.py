"""Tests of gradient_norms, first_non_finite, watch_gradients and backward_nan."""

from __future__ import annotations

import random
from collections.abc import Iterator
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
# What a part does in a model whose values are not spoiled there, and which looks the same from outside.
SPARED = {"nan": "same", "inf": "same", "cover": "same", "nested": "others", "listed": "pair"}
# What the layers of a network may be called.
NAMES = ("stem", "core", "head", "mixer", "tower", "gate", "inlet", "outlet")
ZEROS = torch.tensor([[0.0, 2.0, -3.0, 0.0]])
ANOMALY_OFF, ANOMALY_ON, ANOMALY_WITHOUT_CHECK = (False, True), (True, True), (True, False)


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
    # The container's own arithmetic spoils the values of the last ones.
    for plan, right in (
        (parts("same", "nan", "same"), "b"),
        (parts("same", "nan", parts("same")), "b"),
        (parts("same", parts("same", "nan"), "same"), "b.b"),
        (parts("same", parts("same", own="nan"), "same"), "b"),
        (parts("same", own="nan"), ""),
    ):
        check_models(student, plan, right, times=1)
    roots = [("nan", ""), ("same", None), (parts("same", own="nan"), ""), (parts("same"), None)]
    for model, name in random.sample(roots, len(roots)):
        check_model(student, model, name)


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("Look at the output in the hook: a stored one may have changed after the run.")
def test_first_looks_at_once(student: Student) -> None:
    """An output counts as it is when its module returns it."""
    check_models(student, parts("same", parts("nan", "cover"), "same"), "b.a")


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("A function that looks at an output can call itself for the items of a list.")
def test_first_in_containers(student: Student) -> None:
    """Tensors in tuples, lists and dicts count, also in one another."""
    check_models(student, parts("nested", "unpack"), "a")
    check_models(student, parts("same", parts("same", "listed", "unpack")), "b.b")


@pytest.mark.points(2)
@pytest.mark.place("first_non_finite")
@pytest.mark.hint("output.isfinite().all() is False for an inf as for a NaN.")
def test_first_values(student: Student) -> None:
    """An inf is not finite; large numbers, integers and empty tensors are."""
    check_models(student, parts("same", "inf", parts("same")), "b")
    check_models(student, parts("large", "others", "unpack"), None)


@pytest.mark.place("first_non_finite")
@pytest.mark.hint("Look at outputs alone, and not at what goes in.")
def test_first_of_spoiled_inputs(student: Student) -> None:
    """Where the inputs are not finite, the first module that passes this on is named."""
    x = torch.rand(3, 4).index_fill(0, torch.tensor(2), NAN)
    cases = [
        (parts(parts("same"), "same"), "a.a"),
        (parts(parts("large"), "same"), None),
        (parts("large", "nan"), "b"),
        (parts("large", "same"), None),
        (parts("same", "large"), "a"),
    ]
    for plan, right in random.sample(cases, len(cases)):
        check_model(student, plan, right, x)


@pytest.mark.points(4)
@pytest.mark.place("first_non_finite")
@pytest.mark.word("the sandbox says how the model ran")
@pytest.mark.hint("Call model(*inputs) once; leave train() and eval() alone.")
def test_first_runs_once(student: Student) -> None:
    """The model runs once, on all inputs, in its current mode, and everything else stays as it was."""
    plan = parts("same", parts("same"), "same")
    fine = [torch.rand(3, 4) for _ in range(3)]
    # The model itself adds the second and third input to what its parts make of the first.
    spoiled = [*fine[:2], fine[2] * NAN]
    for training in (True, False):
        for inputs, right in ((fine, None), (spoiled, "")):
            report = check_first(student, plan, *inputs, training=training)
            assert_equal(entry(report, "value"), right, what="the first for three inputs")
        model = student.made("build", plan, training)
        laws.check_changes_nothing(student, "first_non_finite", model, *fine)


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


# --- watch_gradients -----------------------------------------------------------------------------


@pytest.mark.points(7)
@pytest.mark.place("watch_gradients")
@pytest.mark.hint("parameter.register_hook(hook): what hook(gradient) raises leaves backward().")
def test_watch_raises(student: Student) -> None:
    """The backward pass itself raises, and names the first parameter that it reaches."""
    # Passes without a NaN before it, and after it.
    cases = [("end", 2, 0), ("end", 2, 2), ("middle", 0, 0), ("middle", 0, 1), ("middle", 0, 3)]
    late = ("end", 2, random.randint(1, 3))
    for where, layer, before in (late, *random.sample(cases, len(cases))):
        check_raised(student, where, layer, [""] * before + [where] + [""] * random.randrange(2))


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
        assert laws.same(fields(report, "after", "done"), [True, len(passes)]), told
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
    check_hooks(student.run("watched", NAMES[:4], [""], x), "after the block")
    report = student.run("watched", NAMES[:4], ["end"], x)
    check_hooks(report, "after the error of a backward pass")
    for error in ("odd", "lookup"):
        report = student.run("watched", NAMES[:4], [""], x, error)
        assert entry(report, "own") is True, "The block's error is lost: let it through."
        check_hooks(report, "after an error of the block")


# --- backward_nan --------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("backward_nan")
@pytest.mark.hint("Run both under set_detect_anomaly(True); the error's message has the name.")
def test_backward(student: Student) -> None:
    """The backward function that returned a NaN first is named; an inf alone does not count."""
    functions = {
        "sqrt": "SqrtBackward0",
        "pow": "PowBackward1",
        "custom": "SpoiledBackward",
        "negative": "SqrtBackward0",
        "inf": None,
        "log": None,
        "fine": None,
    }
    positive = torch.rand(1, 4) + 0.5
    cases = [(kind, ZEROS, right) for kind, right in functions.items()]
    # At positive numbers the graph is the same, and only the function of the probe's own gives a NaN.
    cases += [(kind, positive, None) for kind in functions if kind != "custom"]
    cases.append(("custom", positive, functions["custom"]))
    for kind, x, right in random.sample(cases, len(cases)):
        report = check_backward(student, kind, x=x)
        error = entry(report, "error")
        assert error is None, f"backward_nan raises {str(error)[:120]}: return the name."
        what = f"backward_nan of a loss ({kind}), at x = {x.tolist()},"
        assert_equal(entry(report, "value"), right, what=what)
    # Of a sum the names of the graph do not say which of its functions gives the NaN.
    for kind in random.sample(list(functions), len(functions)):
        kinds = [*random.sample(["spared", "sqrt", "pow", "negative", "inf"], 4), kind]
        random.shuffle(kinds)
        report = check_backward(student, kind, kinds=kinds)
        what = f"backward_nan of a sum of losses ({kinds}) of which the one ({kind}) is over {ZEROS.tolist()}"
        assert_equal(entry(report, "value"), functions[kind], what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_backward")
@pytest.mark.place("backward_nan")
@pytest.mark.word("the sandbox says which modes are on")
@pytest.mark.hint("with torch.autograd.set_detect_anomaly(True) puts back what was before.")
def test_backward_mode(student: Student) -> None:
    """Anomaly detection is afterwards what it was, also after an error."""
    for kind in ("fine", "odd", "backward", "sqrt"):
        mode = entry(check_backward(student, kind, ANOMALY_OFF), "mode")
        assert mode is False, "Anomaly detection was off before: put it back."
    # What a NaN gives where anomaly detection is on already is free.
    for anomaly in (ANOMALY_ON, ANOMALY_WITHOUT_CHECK):
        for kind in ("fine", "odd", "backward"):
            mode = entry(check_backward(student, kind, anomaly), "mode")
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


def parts(*plans: Any, own: str = "same") -> dict[str, Any]:
    """The plan of a container with the parts a, b and c, and arithmetic of its own behind them."""
    return {**dict(zip("abc", plans, strict=False)), "own": own}


def order(plan: Any) -> Iterator[str]:
    """What runs in a model of this plan, in order."""
    if isinstance(plan, str):
        yield plan
        return
    for name, part in plan.items():
        if name != "own":
            yield from order(part)
    yield f"box {plan['own']}"


def renamed(plan: Any, names: dict[str, str]) -> Any:
    """The plan with these names for its parts."""
    if isinstance(plan, str):
        return plan
    return {names.get(name, name): renamed(part, names) for name, part in plan.items()}


def spared(plan: Any) -> Any:
    """The plan in which no part spoils the values."""
    if isinstance(plan, str):
        return SPARED.get(plan, plan)
    return {name: spared(part) for name, part in plan.items()}


def check_models(student: Student, plan: Any, right: str | None, times: int = 2) -> None:
    """The module that is named is `right`, in a model that stands among two that look the same."""
    for place in random.choices("abc", k=times):
        models = {**dict.fromkeys("abc", spared(plan)), place: plan, "own": "same"}
        path = None if right is None else f"{place}.{right}".rstrip(".")
        check_model(student, models, path)


def check_model(
    student: Student, plan: Any, right: str | None, x: torch.Tensor | None = None
) -> None:
    """The module that is named is `right`, whatever the parts a, b and c are called."""
    if x is None:
        x = torch.rand(3, 4, dtype=torch.float64) + 1
    names = dict(zip("abc", random.sample("defghijkmnpqrstuvwxyz", 3), strict=True))
    drawn = renamed(plan, names)
    if right:
        right = ".".join(names[part] for part in right.split("."))
    value = entry(check_first(student, drawn, x), "value")
    assert_equal(value, right, what=f"first_non_finite of a model with the parts {drawn}")


def check_first(student: Student, plan: Any, *inputs: torch.Tensor, training: bool = True) -> Any:
    """A report of the probe: the model ran once, in its mode."""
    report = student.run("first", student.made("build", plan, training), *inputs)
    ran = entry(report, "ran", kind=list)
    assert ran, "The model does not run: call model(*inputs)."
    once = [[kind, training] for kind in order(plan)]
    once[-1][1] = not training  # The model itself is in the other mode than its parts.
    told = "The model runs twice, or in another mode."
    assert laws.same(ran, once[: len(ran)]), told
    return report


def check_raised(student: Student, where: str, at: int, passes: list[str]) -> None:
    """The pass at `where` raises, and names a parameter of the layer at this place."""
    layers = random.sample(NAMES, 4)
    report = student.run("watched", layers, passes, torch.rand(1, 4))
    text, done = str(entry(report, "text")), entry(report, "done", kind=int)
    assert done != -1, f"The block does not begin: {text[:120]}"
    bad = "A gradient of -inf" if where == "inf" else "A gradient of NaN"
    assert entry(report, "runtime") is True, f"{bad} raises no RuntimeError ({text[:80]})."
    told = "The error comes after the backward pass: raise in a hook of the parameter."
    assert entry(report, "after") is False and done == passes.index(where), told
    named = [n for n in layers for kind in ("weight", "bias") if f"{n}.{kind}" in text]
    assert named == [layers[at]], (
        f"The message {text[:80]!r} should name one parameter, of the layer {layers[at]}, which the "
        "backward pass reaches first."
    )


def check_hooks(report: Any, when: str) -> None:
    """The report counts as many hooks after the call as before it, and the modes are the same."""
    before, after = (entry(report, "hooks", i, kind=dict) for i in (0, 1))
    told = f"A mode has changed {when}: put it back."
    assert laws.same(entry(before, "modes"), entry(after, "modes")), told
    owners = {
        "modules": "The model's modules",
        "parameters": "The model's parameters",
        "global": "PyTorch's global tables",
    }
    for key, owner in owners.items():
        old, new = entry(before, key), entry(after, key)
        told = f"{owner} have {new} hooks {when}, and had {old} before"
        assert laws.same(old, new), f"{told}: remove each of yours, in a finally, and no other."


def check_backward(
    student: Student,
    kind: str,
    anomaly: tuple[bool, bool] = ANOMALY_OFF,
    x: torch.Tensor = ZEROS,
    kinds: list[str] | None = None,
) -> Any:
    """A report of the probe: the closure ran once."""
    report = student.run("backward", kind, x, anomaly, kinds)
    count = entry(report, "count", kind=int)
    assert count == 1, f"The closure is called {count} times: once is enough."
    return report
