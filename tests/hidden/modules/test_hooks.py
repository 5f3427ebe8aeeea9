"""Tests of trace_shapes, capture_activations and capture_gradients."""

from __future__ import annotations

import functools
import random
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise
from grader.judge.student import Student

ACTIVATIONS, GRADIENTS = "capture_activations", "capture_gradients"
# Modules of the probe's Network: "body.0" and "body.1" are not asked for, and "side" gets no gradient.
NAMES = ["", "body", "gain", "bend", "side", "mix", "head"]
SHAPES = {
    "body.0.weight": (4, 3),
    "body.0.bias": (4,),
    "gain.weight": (4,),
    "bend.weight": (4,),
    "side.weight": (5, 4),
    "side.bias": (5,),
    "mix.weight": (4, 4),
    "mix.bias": (4,),
    "head.weight": (2, 4),
    "head.bias": (2,),
}
# What ends a model or a block: an ordinary exception, and an interrupt.
ERRORS = ["LookupError", "KeyboardInterrupt"]
State = dict[str, Tensor]
randn = functools.partial(torch.randn, dtype=torch.float64)


class Step(NamedTuple):
    """A module that runs between body and head, and whether it has a skip connection."""

    name: str
    skips: bool


class Network(NamedTuple):
    """What the probe's Network is made of: its parameters, and the steps of its middle."""

    state: State
    plan: list[Step]


class Pass(NamedTuple):
    """What a pass starts from: an input, and the weights with which the output is summed."""

    x: Tensor
    weight: Tensor


# --- trace_shapes --------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("A forward hook on each module without children; then model(x).")
def test_trace(student: Student) -> None:
    """Each call of a leaf gives its name and the shape of its output, in the order of the calls."""
    rows, columns = random.randint(2, 99), random.randint(2, 99)
    middle = new_middle()
    model = student.made("parts", "", [Step(name, skips=False) for name in middle])
    report = student.run("trace", model, torch.randn(rows, columns, 3))
    # A hook of the model's own repeats the rows.
    lead = (2 * rows, columns)
    right = [
        ("stem", (*lead, 5)),
        ("body.0", (*lead, 5)),
        ("body.1", (*lead, 5)),
        ("body.2", (*lead, 4)),
        *calls_of(middle, lead),
        ("head", (*lead, 2)),
    ]
    calls = pairs(report)
    assert_equal(names_of(calls), names_of(right), what="the text of all names in the list")
    assert_equal(calls, right, what="the result")
    report = student.run("trace", student.made("layer", columns, rows), torch.randn(5, columns))
    assert_equal(pairs(report), [("", (5, rows))], what="the result for a single nn.Linear")


@pytest.mark.points(3)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("Call model(x), once: model.forward(x) skips the model's own hooks.")
def test_trace_calls_the_model_once(student: Student) -> None:
    """The model is called on x once, with its own hooks."""
    x = torch.randn(2, 3)
    inputs = entry(student.run("trace", student.made("parts"), x), "inputs", kind=list)
    assert_close(
        inputs,
        [torch.cat([x, x])],
        what="the list of what the model was called on (its own hook repeats the rows)",
    )


@pytest.mark.points(6)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.word("the sandbox says which hooks are left")
@pytest.mark.hint("try: model(x) finally: handle.remove() for each handle")
def test_trace_leaves_no_hook(student: Student) -> None:
    """It removes its hooks, also when the model raises, and the exception passes through."""
    for error in ERRORS:
        came_out = laws.check_changes_nothing(
            student,
            student.probe("out_of_trace"),
            student.made("parts", error),
            torch.randn(2, 3),
            call=f"trace_shapes of a model that ends with a {error}",
        )
        assert_equal(came_out, error, what="the exception that came out of trace_shapes")


@pytest.mark.points(2)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("Calling the model with hooks on is enough: set back whatever else you change.")
def test_trace_changes_nothing(student: Student) -> None:
    """Hooks of others, values, gradients, modes and random states are as they were."""
    model = student.made("parts")
    laws.check_changes_nothing(student, "trace_shapes", model, torch.randn(2, 3))


# --- capture_activations -------------------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.place("capture_activations")
@pytest.mark.hint("activations[name] = output.detach().clone() in a hook of its own for each name.")
def test_activations(student: Student) -> None:
    """Each pass in the block puts the outputs of the named modules into the dict."""
    network, first, second = new_network(), randn(5, 3), randn(2, 3)
    report = student.run("two_passes", student.made("network", *network), NAMES, first, second)
    assert_equal(entry(report, "begin"), {}, what="the dict when the block begins")
    for key, x in [("first", first), ("second", second)]:
        right = of_names(outputs(network, x))
        assert_close(entry(report, key), right, what=f"the dict after the {key} pass")


@pytest.mark.points(4)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("output.detach(): without it each value holds the graph of its whole pass.")
def test_activations_are_detached(student: Student) -> None:
    """The values have no graph."""
    network, x = new_network(), randn(5, 3)
    report = student.run("attached", student.made("network", *network), NAMES, x)
    assert_close(entry(report, "values"), of_names(outputs(network, x)), what="the dict")
    graph = entry(report, "graph", kind=list)
    assert_equal(graph, [], what="the list of the names whose values are in a graph")


@pytest.mark.points(5)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("detach() shares the memory of the output: clone() does not.")
def test_activations_are_copies(student: Student) -> None:
    """A value stays as the module returned it, of its latest call, also before a ReLU in place."""
    twice = Network(new_state(), [*new_plan(), *new_plan()])
    model, x = student.made("network", *twice, in_place=True), randn(5, 3)
    right = outputs(twice, x)
    activations = student.run("changed_output", model, list(right), x)
    assert_close(activations, right, what="the dict")


@pytest.mark.points(3)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("Return nothing from a hook, and remove no hook but your own.")
def test_activations_leave_the_model(student: Student) -> None:
    """The model's outputs and gradients and other hooks are what they are without a block."""
    check_model(student, ACTIVATIONS)


@pytest.mark.points(8)
@pytest.mark.place("capture_activations")
@pytest.mark.hint("try: yield activations finally: handle.remove() for each handle")
def test_activation_hooks(student: Student) -> None:
    """Hooks exist only inside the block, also when it raises and in nested blocks; the dict is kept."""
    check_no_hook_before(student, ACTIVATIONS)
    check_no_hook_after(student, ACTIVATIONS)
    check_nested(student, ACTIVATIONS)


@pytest.mark.points(3)
@pytest.mark.place("capture_activations")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look each name up in dict(model.named_modules()), before you register a hook.")
def test_activation_names(student: Student) -> None:
    """A name that the model does not have is a ValueError that names it."""
    check_names(student, ACTIVATIONS)


# --- capture_gradients ---------------------------------------------------------------------------


@pytest.mark.points(11)
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("register_full_backward_hook: grad_output[0] is the gradient of the output.")
def test_gradients(student: Student) -> None:
    """Each backward pass puts the gradients of the named modules' outputs into the dict."""
    network, x_and_weight = new_network(), new_pass()
    model = student.made("network", *network)
    values = student.run("captured", GRADIENTS, model, NAMES, *x_and_weight)
    assert_close(values, of_names(output_gradients(network, *x_and_weight)), what="the dict")


@pytest.mark.points(4)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("A hook sees the gradient of its own pass; .grad is a sum over passes.")
def test_gradients_of_the_latest_pass(student: Student) -> None:
    """Of two backward passes through one graph the latest one counts."""
    network, x, first, latest = new_network(), randn(5, 3), randn(5, 2), randn(5, 2)
    model = student.made("network", *network)
    values = student.run("two_backward_passes", model, NAMES, x, first, latest)
    assert_close(values, of_names(output_gradients(network, x, latest)), what="the dict")


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("An output that does not require grad gets no entry, and is not an error.")
def test_no_gradient(student: Student) -> None:
    """A module that no gradient reaches has no entry; parameters may be frozen."""
    network, (x, weight) = new_network(), new_pass()
    values = student.run("under_no_grad", student.made("network", *network), NAMES, x)
    assert_equal(values, {}, what="the dict after a pass under torch.no_grad()")
    model = student.made("network", *network, frozen=["body.0.weight", "body.0.bias"])
    values = student.run("captured", GRADIENTS, model, NAMES, x, weight)
    right = of_names(output_gradients(network, x, weight))
    del right["body"]
    assert_close(values, right, what="the dict for a model whose body is frozen")


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("Return nothing from a hook, and remove no hook but your own.")
def test_gradients_leave_the_model(student: Student) -> None:
    """The model's outputs and gradients and other hooks are what they are without a block."""
    check_model(student, GRADIENTS)


@pytest.mark.points(8)
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("try: yield gradients finally: handle.remove() for each handle")
def test_gradient_hooks(student: Student) -> None:
    """Hooks exist only inside the block, also when it raises and in nested blocks; the dict is kept."""
    check_no_hook_before(student, GRADIENTS)
    check_no_hook_after(student, GRADIENTS)
    model = student.made("network", *new_network())
    report = student.run("pass_after_the_block", model, NAMES, *new_pass())
    # PyTorch's own module hooks stay in a graph that was made while they were there: they are not asked.
    if entry(report, "hooked", kind=list):
        what = "the dict after a later pass through the block's graph, of whose outputs hooks were left,"
        assert_close(entry(report, "after"), entry(report, "end"), what=what)
    check_nested(student, GRADIENTS)


@pytest.mark.points(3)
@pytest.mark.place("capture_gradients")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look each name up in dict(model.named_modules()), before you register a hook.")
def test_gradient_names(student: Student) -> None:
    """A name that the model does not have is a ValueError that names it."""
    check_names(student, GRADIENTS)


# --- what both blocks promise --------------------------------------------------------------------


def check_model(student: Student, name: str) -> None:
    """Neither the model nor other hooks notice a block."""
    network, (x, weight) = new_network(), new_pass()
    before, inside = torch.rand(2).tolist()
    model = student.made("network", *network)
    report = student.run("beside_other_hooks", name, model, NAMES, x, weight, before, inside)
    # Both hooks stand on the head, so that they multiply the model's output.
    factor = before * inside
    output = factor * outputs(network, x)[""]
    gradients = parameter_gradients(network, x, factor * weight)
    for when in ("inside", "after"):
        seen = entry(report, when)
        assert_close(entry(seen, "output"), output, what=f"the model's output {when} a block")
        what = f"the dict of the parameters' gradients {when} a block"
        assert_close(entry(seen, "gradients"), gradients, what=what)


def check_no_hook_before(student: Student, name: str) -> None:
    """The call alone registers no hook."""
    model = student.made("network", *new_network())
    call = f"{name}(...) without a block"
    laws.check_changes_nothing(student, student.probe("call"), name, model, NAMES, call=call)


def check_no_hook_after(student: Student, name: str) -> None:
    """A block that raises leaves no hook, and the exception passes through."""
    for error in ERRORS:
        came_out = laws.check_changes_nothing(
            student,
            student.probe("out_of_block"),
            name,
            student.made("network", *new_network()),
            NAMES,
            error,
            call=f"a block of {name} that ends with a {error}",
        )
        assert_equal(came_out, error, what="the exception that came out of the block")


def check_nested(student: Student, name: str) -> None:
    """The last pass within each of two nested blocks is what its dict keeps."""
    network, in_both, in_outer = new_network(), new_pass(), new_pass()
    model = student.made("network", *network)
    report = student.run("nested", name, model, NAMES, in_both, in_outer)
    for key, last in [("inner", in_both), ("outer", in_outer)]:
        right = right_values(name, network, *last)
        assert_close(entry(report, key), right, what=f"the dict of the {key} of two nested blocks")


def check_names(student: Student, name: str) -> None:
    """A name that no module has is refused, also that of a parameter, and no hook is left."""
    for wrong in ("nope", "body.0.weight"):
        model, names = student.made("network", *new_network()), ["gain", wrong]
        seen = laws.observe(student, student.probe("begin"), name, model, names)
        with must_raise(ValueError, mentions=wrong, call=f"{name}(model, {names})"):
            seen.checked()
        changed = [change.part for change in seen.changes()]
        assert "hooks" not in changed, (
            "A hook is left after the ValueError: look all names up before you register one."
        )


# --- locally -------------------------------------------------------------------------------------


def pairs(report: Any) -> list[Any]:
    """The result of trace_shapes, with plain tuples in the place of named ones."""
    shapes = entry(report, "shapes", kind=list, told="The result is not a list.")
    told = "The list does not hold pairs of a name and a shape."
    return [entry(pair, kind=tuple, count=2, told=told) for pair in shapes]


def names_of(calls: list[Any]) -> str:
    """All names in a line, which a message shows as a whole."""
    return ", ".join(str(name) for name, _ in calls)


def new_state() -> State:
    return {name: randn(shape) for name, shape in SHAPES.items()}


def new_plan() -> list[Step]:
    """Each module of the Network's middle once, in any order."""
    names = random.sample(["gain", "bend", "side", "mix"], 4)
    return [Step(name, skips=random.random() < 0.5) for name in names]


def new_network() -> Network:
    return Network(new_state(), new_plan())


def new_middle() -> list[str]:
    """Modules of the probe's Parts in any order, each of them at least once, the block twice."""
    names = ["block", "block", "gain", "total", "pair"]
    names += random.choices(names, k=3)
    return random.sample(names, len(names))


def calls_of(middle: list[str], lead: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """The calls of leaves that the modules of the middle make; the output of "pair" is no tensor."""
    width_4 = (*lead, 4)
    leaves = {"block": ("block.0.0", width_4), "gain": ("gain", width_4), "total": ("total", ())}
    return [leaves[name] for name in middle if name in leaves]


def new_pass() -> Pass:
    return Pass(randn(5, 3), randn(5, 2))


def of_names(values: State) -> State:
    """Those of the modules that are asked for."""
    return {name: values[name] for name in NAMES if name in values}


def right_values(name: str, network: Network, x: Tensor, weight: Tensor) -> State:
    """What a block of this function holds after a pass."""
    if name == ACTIVATIONS:
        return of_names(outputs(network, x))
    return of_names(output_gradients(network, x, weight))


def outputs(network: Network, x: Tensor) -> State:
    """The outputs of all modules, each of its latest call."""
    state, plan = network
    values = {"body.0": F.linear(x, state["body.0.weight"], state["body.0.bias"])}
    x = values["body.1"] = values["body"] = values["body.0"].relu()
    for name, skips in plan:
        if name in ("gain", "bend"):
            y = torch.sin(x * state[f"{name}.weight"])
        else:
            y = F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])
        values[name] = y
        if name != "side":
            x = x + y if skips else y
    values["head"] = values[""] = F.linear(x, state["head.weight"], state["head.bias"])
    return values


def output_gradients(network: Network, x: Tensor, weight: Tensor) -> State:
    """The gradients with respect to the outputs of all modules but side, which has none."""
    values = outputs(with_leaves(network), x)
    del values["side"]
    total = (values[""] * weight).sum()
    return dict(zip(values, torch.autograd.grad(total, list(values.values())), strict=True))


def parameter_gradients(network: Network, x: Tensor, weight: Tensor) -> State:
    """The gradients with respect to all parameters but those of side, which have none."""
    network = with_leaves(network)
    total = (outputs(network, x)[""] * weight).sum()
    leaves = {n: leaf for n, leaf in network.state.items() if not n.startswith("side")}
    return dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))


def with_leaves(network: Network) -> Network:
    """The same network, with parameters at which a graph begins."""
    leaves = {name: value.clone().requires_grad_() for name, value in network.state.items()}
    return Network(leaves, network.plan)
