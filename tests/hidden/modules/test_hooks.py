"""Tests of trace_shapes, capture_activations and capture_gradients."""

from __future__ import annotations

import functools
import random
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise
from grader.judge.student import Student

State = dict[str, Tensor]
# The modules that run between body and head, in order, and whether there is a skip connection.
Plan = list[tuple[str, bool]]
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
ERRORS = ["LookupError", "KeyboardInterrupt"]
randn = functools.partial(torch.randn, dtype=torch.float64)


# --- trace_shapes --------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("A forward hook on each module without children; then model(x).")
def test_trace(student: Student) -> None:
    """Each call of a leaf gives its name and the shape of its output, in the order of the calls."""
    rows, steps, middle = random.randint(2, 99), random.randint(2, 99), new_middle()
    model = student.made("parts", "", [(name, False) for name in middle])
    report = student.run("trace", model, torch.randn(rows, steps, 3))
    # A hook of the model's own repeats the rows.
    lead = (2 * rows, steps)
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
    report = student.run("trace", student.made("layer", steps, rows), torch.randn(5, steps))
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
    state, plan, x, later = new_state(), new_plan(), randn(5, 3), randn(2, 3)
    report = student.run("two_passes", student.made("network", state, plan), NAMES, x, later)
    assert_equal(entry(report, "begin"), {}, what="the dict when the block begins")
    for key, given in [("first", x), ("second", later)]:
        right = of_names(outputs(state, plan, given))
        assert_close(entry(report, key), right, what=f"the dict after the {key} pass")


@pytest.mark.points(4)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("output.detach(): without it each value holds the graph of its whole pass.")
def test_activations_are_detached(student: Student) -> None:
    """The values have no graph."""
    state, plan, x = new_state(), new_plan(), randn(5, 3)
    report = student.run("attached", student.made("network", state, plan), NAMES, x)
    assert_close(entry(report, "values"), of_names(outputs(state, plan, x)), what="the dict")
    graph = entry(report, "graph", kind=list)
    assert_equal(graph, [], what="the list of the names whose values are in a graph")


@pytest.mark.points(5)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("detach() shares the memory of the output: clone() does not.")
def test_activations_are_copies(student: Student) -> None:
    """A value stays as the module returned it, of its latest call, also before a ReLU in place."""
    state, x, plan = new_state(), randn(5, 3), new_plan() + new_plan()
    model = student.made("network", state, plan, in_place=True)
    right = outputs(state, plan, x)
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
    check_hooks(student, ACTIVATIONS)


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
    state, plan, (x, weight) = new_state(), new_plan(), new_pass()
    model = student.made("network", state, plan)
    values = student.run("captured", GRADIENTS, model, NAMES, x, weight)
    assert_close(values, of_names(output_gradients(state, plan, x, weight)), what="the dict")


@pytest.mark.points(4)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("A hook sees the gradient of its own pass; .grad is a sum over passes.")
def test_gradients_of_the_latest_pass(student: Student) -> None:
    """Of two backward passes through one graph the latest one counts."""
    state, plan, (x, weight), later = new_state(), new_plan(), new_pass(), randn(5, 2)
    model = student.made("network", state, plan)
    values = student.run("two_backward_passes", model, NAMES, x, weight, later)
    assert_close(values, of_names(output_gradients(state, plan, x, later)), what="the dict")


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("An output that does not require grad gets no entry, and is not an error.")
def test_no_gradient(student: Student) -> None:
    """A module that no gradient reaches has no entry; parameters may be frozen."""
    state, plan, (x, weight) = new_state(), new_plan(), new_pass()
    values = student.run("under_no_grad", student.made("network", state, plan), NAMES, x)
    assert_equal(values, {}, what="the dict after a pass under torch.no_grad()")
    model = student.made("network", state, plan, frozen=["body.0.weight", "body.0.bias"])
    values = student.run("captured", GRADIENTS, model, NAMES, x, weight)
    right = of_names(output_gradients(state, plan, x, weight))
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
    check_hooks(student, GRADIENTS)


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
    state, plan, (x, weight) = new_state(), new_plan(), new_pass()
    factors = torch.rand(2).tolist()
    # Both hooks stand on the head, so that they multiply the model's output.
    factor = factors[0] * factors[1]
    model = student.made("network", state, plan)
    report = student.run("beside_other_hooks", name, model, NAMES, x, weight, factors)
    output = factor * outputs(state, plan, x)[""]
    gradients = parameter_gradients(state, plan, x, factor * weight)
    for when in ("inside", "after"):
        seen = entry(report, when)
        assert_close(entry(seen, "output"), output, what=f"the model's output {when} a block")
        what = f"the dict of the parameters' gradients {when} a block"
        assert_close(entry(seen, "gradients"), gradients, what=what)


def check_hooks(student: Student, name: str) -> None:
    """No hook is there before a block and after it, and a pass counts for the blocks around it alone."""
    state, plan = new_state(), new_plan()
    model = student.made("network", state, plan)
    what = f"{name}(...) without a block"
    laws.check_changes_nothing(student, student.probe("call"), name, model, NAMES, call=what)
    for error in ERRORS:
        came_out = laws.check_changes_nothing(
            student,
            student.probe("out_of_block"),
            name,
            student.made("network", state, plan),
            NAMES,
            error,
            call=f"a block of {name} that ends with a {error}",
        )
        assert_equal(came_out, error, what="the exception that came out of the block")
    first, second = new_pass(), new_pass()
    report = student.run("nested", name, student.made("network", state, plan), NAMES, first, second)
    for key, given in [("inner", first), ("outer", second)]:
        right = right_values(name, state, plan, *given)
        assert_close(entry(report, key), right, what=f"the dict of the {key} of two nested blocks")


def check_names(student: Student, name: str) -> None:
    """A name that no module has is refused, also that of a parameter, and no hook is left."""
    state = new_state()
    for wrong in ("nope", "body.0.weight"):
        model, names = student.made("network", state, new_plan()), ["gain", wrong]
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
    return ", ".join(str(name) for name, _ in calls)


def new_state() -> State:
    return {name: randn(shape) for name, shape in SHAPES.items()}


def new_plan() -> Plan:
    """Each of the modules once, in any order."""
    names = random.sample(["gain", "bend", "side", "mix"], 4)
    return [(name, random.random() < 0.5) for name in names]


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


def new_pass() -> tuple[Tensor, Tensor]:
    """An x, and the weights with which the output is summed."""
    return randn(5, 3), randn(5, 2)


def of_names(values: State) -> State:
    return {name: values[name] for name in NAMES if name in values}


def right_values(name: str, state: State, plan: Plan, x: Tensor, weight: Tensor) -> State:
    """What a block of this function holds after a pass."""
    if name == ACTIVATIONS:
        return of_names(outputs(state, plan, x))
    return of_names(output_gradients(state, plan, x, weight))


def outputs(state: State, plan: Plan, x: Tensor) -> State:
    """The outputs of all modules of the probe's Network, each of its latest call."""
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


def output_gradients(state: State, plan: Plan, x: Tensor, weight: Tensor) -> State:
    """The gradients with respect to the outputs of all modules but side, which has none."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
    values = outputs(leaves, plan, x)
    del values["side"]
    total = (values[""] * weight).sum()
    return dict(zip(values, torch.autograd.grad(total, list(values.values())), strict=True))


def parameter_gradients(state: State, plan: Plan, x: Tensor, weight: Tensor) -> State:
    """The gradients with respect to all parameters but those of side, which have none."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
    total = (outputs(leaves, plan, x)[""] * weight).sum()
    ends = {name: leaf for name, leaf in leaves.items() if not name.startswith("side")}
    return dict(zip(ends, torch.autograd.grad(total, list(ends.values())), strict=True))
