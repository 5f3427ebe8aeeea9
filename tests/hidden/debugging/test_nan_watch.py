"""Tests of gradient_norms, first_non_finite, watch_gradients and backward_nan."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, within
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
RTOL, RTOL_OF_FLOAT64 = 1e-5, 1e-10  # of norms
# The modules of the probe's model for first_non_finite, in the order in which they return. The kind of each is
# a key of the probe's KINDS, "same" by default.
MODULES = ("a.a", "a.b", "a", "b.a", "b.b", "b", "")
# Names for the layers of the probe's network.
NAMES = ("stem", "core", "head", "mixer", "tower", "gate", "inlet", "outlet")
# Factors by which a backward pass of the network multiplies gradients behind the first and last layer.
FINE, LARGE, OF_FIRST, OF_LAST, INFINITE = (
    [1.0, 1.0],
    [0.0, 2e38],
    [NAN, 1.0],
    [1.0, NAN],
    [1.0, -INF],
)
ZEROS = torch.tensor([[0.0, 2.0, -3.0, 0.0]])
# Losses over ZEROS, some of which give a NaN in the backward pass. OTHERS are over other numbers and give none.
LOSSES = ("sqrt", "pow", "custom", "negative", "inf", "log", "fine")
OTHERS = ("spared", "sqrt", "pow", "negative", "inf")


# --- gradient_norms ------------------------------------------------------------------------------


@promise(
    "gradient_norms",
    points=3,
    hint="parameter.grad.norm().item() of each of named_parameters().",
)
def test_norms(code: Student, draw: Draw) -> Cases:
    """The dict has the L2 norm of every named parameter's gradient, as a float and in order."""
    norms = norms_of(code, new_gradients(draw))
    yield "the dict", within(norms, rtol=RTOL)
    yield "the names, in order,", list(norms) if isinstance(norms, dict) else norms
    model = code.made("model", {**new_gradients(draw), "1.0.weight": None})
    laws.check_changes_nothing(code, "gradient_norms", model)


@promise("gradient_norms", hint="None where parameter.grad is None.")
def test_norms_of_none(code: Student, draw: Draw) -> Cases:
    """A parameter without a gradient has None; one with a gradient of zeros has 0."""
    gradients = new_gradients(draw)
    gradients = {**gradients, "1.0.weight": None, "0.bias": gradients["0.bias"] * 0}
    yield "the dict", within(norms_of(code, gradients), rtol=RTOL)


@promise("gradient_norms", hint="Take the norm of the gradient as it is.")
def test_norms_as_they_are(code: Student, draw: Draw) -> Cases:
    """A norm may be inf or NaN, and is as precise as its gradient."""
    gradients = new_gradients(draw)
    spoiled = {
        **gradients,
        "0.bias": gradients["0.bias"] * NAN,
        "2.bias": gradients["2.bias"] * INF,
    }
    yield "the dict for inf and NaN", within(norms_of(code, spoiled), rtol=RTOL)
    norms = norms_of(code, new_gradients(draw, torch.float64))
    yield "the dict for float64", within(norms, rtol=RTOL_OF_FLOAT64, atol=0.0)


# --- first_non_finite ----------------------------------------------------------------------------


@promise(
    "first_non_finite",
    points=6,
    hint="A forward hook for each module, made in a function that takes its name.",
)
def test_first(code: Student, draw: Draw) -> Cases:
    """The first module whose output has a NaN is named, in the order in which the modules return."""
    # The model looks the same wherever the NaN comes from. A container's own arithmetic may spoil values, too.
    for number in draw.permutation(len(MODULES)):
        place = MODULES[number]
        yield f"the first, with a NaN in {place or 'the model'},", first(code, draw, {place: "nan"})
    yield "the first, without a NaN,", first(code, draw, {})


@promise(
    "first_non_finite",
    points=2,
    hint="Look at the output in the hook: a stored one may have changed after the run.",
)
def test_first_looks_at_once(code: Student, draw: Draw) -> Cases:
    """An output counts as it is when its module returns it."""
    box = draw.choice("ab")
    kinds = {f"{box}.a": "nan", f"{box}.b": "cover"}
    yield "the first, which the next layer covers in place,", first(code, draw, kinds)


@promise(
    "first_non_finite",
    points=2,
    hint="A function that looks at an output can call itself for the items of a list.",
)
def test_first_in_containers(code: Student, draw: Draw) -> Cases:
    """Tensors in tuples, lists and dicts count, also if these are nested."""
    for spoiled, fine in (("nested", "others"), ("listed", "pair")):
        kinds = {"a.a": fine, "a.b": "unpack", "b.a": fine, "b.b": "unpack"}
        place = draw.choice(["a.a", "b.a"])
        yield (
            f"the first, with a NaN in a container ({spoiled}),",
            first(code, draw, {**kinds, place: spoiled}),
        )


@promise(
    "first_non_finite",
    points=2,
    hint="output.isfinite().all() is False for an inf as for a NaN.",
)
def test_first_values(code: Student, draw: Draw) -> Cases:
    """An inf is not finite; large numbers, integers and empty tensors are."""
    place = draw.choice(["a.b", "b.a", "b.b"])
    yield "the first, with an inf,", first(code, draw, {place: "inf"})
    fine = {"a.a": "large", "b.a": "others", "b.b": "unpack"}
    yield "the first, where all is finite,", first(code, draw, fine)


@promise("first_non_finite", hint="Look only at outputs, not at inputs.")
def test_first_of_spoiled_inputs(code: Student, draw: Draw) -> Cases:
    """If the inputs are not finite, the first module that passes this on is named."""
    x = draw.uniform(3, 4).index_fill(0, torch.tensor(2), NAN)
    later = draw.choice(["a.b", "b.a"])
    yield "the first, for a NaN in x,", first(code, draw, {later: "large"}, x)
    # a.a gives large numbers, whatever its input is, so that everything from there on is finite.
    yield "the first, where no output is NaN,", first(code, draw, {"a.a": "large"}, x)
    kinds = {"a.a": "large", draw.choice(["a.b", "b.a", "b.b"]): "nan"}
    yield "the first, for a NaN in x that comes no further,", first(code, draw, kinds, x)


@promise(
    "first_non_finite",
    points=4,
    hint="Call model(*inputs) once; leave train() and eval() alone.",
    word="the sandbox says how the model ran",
)
def test_first_runs_once(code: Student, draw: Draw) -> Cases:
    """The model runs once, on all inputs, in its current mode, and everything else stays as it was."""
    fine = [draw.uniform(3, 4) for _ in range(3)]
    # The model itself adds the second and third input to the output of its parts for the first.
    yield "the first for three inputs", first(code, draw, {}, *fine[:2], fine[2] * NAN)
    for training in (True, False):
        model = code.made("build", {}, training)
        yield "the modes of the parts that run", code.run("modes_of_run", model, *fine)
        laws.check_changes_nothing(code, "first_non_finite", model, *fine)


@promise(
    "first_non_finite",
    points=6,
    hint="try: model(*inputs) finally: handle.remove() for each handle; catch nothing.",
    word="the sandbox says which hooks are left",
)
def test_first_leaves_no_hook(code: Student, draw: Draw) -> Cases:
    """No hook of yours is left, even if the model raises; its error comes through."""
    x = draw.uniform(3, 4)
    for kind, error in (("nan", None), ("odd", LookupError), ("lookup", LookupError)):
        model = code.made("build", {"b.a": kind}, training=True)
        found = laws.check_changes_nothing(code, "first_non_finite", model, x, raises=error)
        yield f"the first ({kind})", found


# --- watch_gradients -----------------------------------------------------------------------------


@promise(
    "watch_gradients",
    points=7,
    hint="parameter.register_hook(hook): an exception that hook(gradient) raises leaves backward().",
)
def test_watch_raises(code: Student, draw: Draw) -> Cases:
    """The backward pass itself raises, and names the first parameter that it reaches."""
    for passes in ([FINE] * draw.size(1, 4) + [OF_LAST, FINE], [OF_FIRST, FINE], [FINE, OF_FIRST]):
        yield (
            "the result of a backward pass with a gradient of NaN",
            raised(watched(code, draw, passes)),
        )


@promise(
    "watch_gradients",
    points=2,
    hint="gradient.isfinite().all() is False for an inf as for a NaN.",
)
def test_watch_inf(code: Student, draw: Draw) -> Cases:
    """A gradient of -inf raises, too."""
    yield (
        "the result of a backward pass with a gradient of -inf",
        raised(watched(code, draw, [INFINITE])),
    )


@promise(
    "watch_gradients",
    points=4,
    hint="Return nothing from the hook; test all elements and not their sum.",
    after="test_watch_raises",
)
def test_watch_leaves_finite_gradients(code: Student, draw: Draw) -> Cases:
    """Finite gradients, even large ones, are the same as without a block, over several passes."""
    report = watched(code, draw, [FINE, FINE, LARGE])
    yield "the result of a backward pass with finite gradients", raised(report)
    yield "the dict of gradients after the block", entry(report, "gradients")


@promise(
    "watch_gradients",
    points=4,
    hint="try: yield finally: handle.remove() for each handle",
    after="test_watch_raises",
    word="the sandbox says which hooks are left",
)
def test_watch_leaves_no_hook(code: Student, draw: Draw) -> Cases:
    """No hook of yours is left after the block, even after an error; the block's error comes through."""
    for passes, error in (([FINE], ""), ([OF_LAST], ""), ([FINE], "odd"), ([FINE], "lookup")):
        report = watched(code, draw, passes, error)
        yield "the statement that the error of the block itself comes out", entry(report, "own")
        yield "the modes after the block", entry(report, "modes")
        yield "the number of hooks on parameters after the block", entry(report, "hooks")
        yield "the error of a backward pass after the block", entry(report, "later")


# --- backward_nan --------------------------------------------------------------------------------


@promise(
    "backward_nan",
    points=6,
    hint="Run both under set_detect_anomaly(True); the error's message has the name.",
)
def test_backward(code: Student, draw: Draw) -> Cases:
    """The backward function that returned a NaN first is named; an inf alone does not count."""
    # The names in the graph of a sum do not say which of its functions gives the NaN.
    for number in draw.permutation(len(LOSSES)):
        kinds = [OTHERS[other] for other in draw.permutation(len(OTHERS))[:4]]
        place = draw.size(0, len(kinds) + 1)
        kinds.insert(place, LOSSES[number])
        report = code.run("backward", kinds, place, ZEROS)
        for what in ("error", "value", "calls"):
            yield f"the {what} of backward_nan for a loss ({LOSSES[number]})", entry(report, what)


@promise(
    "backward_nan",
    points=4,
    hint="with torch.autograd.set_detect_anomaly(True) restores the mode from before.",
    after="test_backward",
    word="the sandbox says which modes are on",
)
def test_backward_mode(code: Student, draw: Draw) -> Cases:
    """Afterwards, anomaly detection is on or off as before, even after an error."""
    # If anomaly detection is already on, the result for a NaN is free.
    for before, kinds in (
        (False, ("fine", "odd", "in backward", "sqrt")),
        (True, ("fine", "odd", "in backward")),
    ):
        for kind in kinds:
            mode = entry(code.run("backward", [kind], 0, ZEROS, before), "mode")
            yield f"the anomaly mode after a loss ({kind}), which was {before} before,", mode


@promise(
    "backward_nan",
    points=4,
    hint="If the message is not about a NaN, raise the error again.",
    after="test_backward",
    word="the sandbox says what was raised",
)
def test_backward_errors(code: Student, draw: Draw) -> Cases:
    """All other errors, of the closure and of the backward pass, come through."""
    for kind in ("odd", "in backward", "unwritten in backward", "vector", "constant"):
        report = code.run("backward", [kind], 0, ZEROS)
        yield f"the error of backward_nan for a loss ({kind})", entry(report, "error")


# --- helpers of the tests ------------------------------------------------------------------------


def new_gradients(draw: Draw, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    return {name: draw.normal(*shape, dtype=dtype) for name, shape in SHAPES.items()}


def norms_of(code: Student, gradients: dict[str, Any]) -> Any:
    return code.function("gradient_norms")(code.made("model", gradients))


def first(code: Student, draw: Draw, kinds: dict[str, str], *inputs: Tensor) -> Any:
    """Return the result of first_non_finite for a model with modules of these kinds."""
    x = draw.uniform(3, 4, low=1, high=2, dtype=torch.float64)
    model = code.made("build", kinds, training=True)
    return code.function("first_non_finite")(model, *(inputs or [x]))


def watched(code: Student, draw: Draw, passes: list[list[float]], error: str = "") -> Any:
    """Return the probe's report of backward passes in a block, through layers with drawn names."""
    names = [NAMES[number] for number in draw.permutation(len(NAMES))[:4]]
    return code.run("watched", names, passes, draw.uniform(1, 4), error)


def raised(report: Any) -> dict[str, Any]:
    """Return how many passes raised nothing, whether a RuntimeError came, and the layers that it names."""
    return {name: entry(report, name) for name in ("done", "raised", "named")}
