"""Tests of trace_shapes, capture_activations and capture_gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, raises
from grader.judge.student import Student

ACTIVATIONS, GRADIENTS = "capture_activations", "capture_gradients"
# Modules of the probe's Network: "body.0" and "body.1" are not asked for, and "side" gets no gradient.
NAMES = ["", "body", "gain", "bend", "side", "mix", "head"]
ALL_NAMES = [*NAMES, "body.0", "body.1"]
# Exceptions that end a model's forward or a block: an ordinary one and an interrupt.
ERRORS = ["LookupError", "KeyboardInterrupt"]
# The modules that run in a model's middle: their names, and whether each has a skip connection.
Plan = list[tuple[str, bool]]


# --- trace_shapes --------------------------------------------------------------------------------


@promise(
    "trace_shapes",
    points=10,
    hint="A forward hook on each module without children; then model(x).",
)
def test_trace(code: Student, draw: Draw) -> Cases:
    """Each call of a leaf gives its name and the shape of its output, in the order of the calls."""
    rows, columns = draw.size(2, 99), draw.size(2, 99)
    # Each module at least once, in any order, and the block twice.
    middle = ["block", "block", "gain", "total", "pair"]
    middle += [draw.choice(middle) for _ in range(3)]
    plan = [(name, False) for name in shuffled(draw, middle)]
    calls = traced(code, code.made("parts", "", plan), draw.normal(rows, columns, 3))
    # All names in one line, because a message shows a whole line.
    yield "the text of all names in the list", ", ".join(str(name) for name, _ in calls)
    yield "the result", calls


@promise(
    "trace_shapes",
    points=2,
    hint="named_modules() begins with the model itself, under the name ''.",
)
def test_trace_a_single_layer(code: Student, draw: Draw) -> Cases:
    """A model without children is its own leaf, with the name ""."""
    rows, columns = draw.size(2, 99), draw.size(2, 99)
    calls = traced(code, code.made("layer", columns, rows), draw.normal(5, columns))
    yield "the result for a single nn.Linear", calls


@promise(
    "trace_shapes",
    points=3,
    hint="Call model(x), once: model.forward(x) skips the model's own hooks.",
    after="test_trace",
)
def test_trace_calls_the_model_once(code: Student, draw: Draw) -> Cases:
    """The model is called on x once, with its own hooks."""
    inputs = entry(code.run("trace", code.made("parts"), draw.normal(2, 3)), "inputs")
    yield "the list of what the model was called on (its own hook repeats the rows)", inputs


@promise(
    "trace_shapes",
    points=6,
    hint="try: model(x) finally: handle.remove() for each handle",
    after="test_trace",
    word="the sandbox says which hooks are left",
)
def test_trace_leaves_no_hook(code: Student, draw: Draw) -> Cases:
    """trace_shapes removes its hooks, also when the model raises, and the exception passes through."""
    for error in ERRORS:
        call = f"trace_shapes of a model that ends with a {error}"
        model, probe = code.made("parts", error), code.probe("out_of_trace")
        came_out = laws.check_changes_nothing(code, probe, model, draw.normal(2, 3), call=call)
        yield f"the exception that came out of {call}", came_out


@promise(
    "trace_shapes",
    points=2,
    hint="Calling the model with hooks on is enough: set back whatever else you change.",
    after="test_trace",
)
def test_trace_changes_nothing(student: Student) -> None:
    """Other people's hooks, values, gradients, modes and random states are as they were."""
    model = student.made("parts")
    laws.check_changes_nothing(student, "trace_shapes", model, torch.randn(2, 3))


# --- capture_activations -------------------------------------------------------------------------


@promise(
    "capture_activations",
    points=9,
    hint="activations[name] = output.detach().clone() in a hook of its own for each name.",
)
def test_activations(code: Student, draw: Draw) -> Cases:
    """Each pass in the block puts the outputs of the named modules into the dict."""
    xs = [double(draw, rows, 3) for rows in (5, 2)]
    report = code.run("two_passes", network(code, draw), NAMES, *xs)
    yield "the dict when the block begins", entry(report, "begin")
    yield "the dict after the first pass", entry(report, "first")
    yield "the dict after the second pass", entry(report, "second")


@promise(
    "capture_activations",
    points=4,
    hint="output.detach(): without it each value holds the graph of its whole pass.",
    after="test_activations",
)
def test_activations_are_detached(code: Student, draw: Draw) -> Cases:
    """The values have no graph."""
    report = code.run("attached", network(code, draw), NAMES, double(draw, 5, 3))
    yield "the dict", entry(report, "values")
    yield "the list of the names whose values are in a graph", entry(report, "graph")


@promise(
    "capture_activations",
    points=5,
    hint="detach() shares the memory of the output: clone() does not.",
    after="test_activations",
)
def test_activations_are_copies(code: Student, draw: Draw) -> Cases:
    """A value is the module's latest output, and a later change in place, as by a ReLU, does not reach it."""
    model = network(code, draw, [*new_plan(draw), *new_plan(draw)], in_place=True)
    yield "the dict", code.run("changed_output", model, ALL_NAMES, double(draw, 5, 3))


@promise(
    "capture_activations",
    points=3,
    hint="Return nothing from a hook, and remove no hook but your own.",
    after="test_activations",
)
def test_activations_leave_the_model(code: Student, draw: Draw) -> Cases:
    """The block changes neither the model's outputs and gradients nor other hooks."""
    yield from beside_other_hooks(code, draw, ACTIVATIONS)


@promise(
    "capture_activations",
    points=8,
    hint="try: yield activations finally: handle.remove() for each handle",
)
def test_activation_hooks(code: Student, draw: Draw) -> Cases:
    """Hooks exist only inside the block, also when it raises and in nested blocks; the dict is kept."""
    yield from no_hook_left(code, draw, ACTIVATIONS)
    yield from nested(code, draw, ACTIVATIONS)


@promise(
    "capture_activations",
    points=3,
    hint="Look each name up in dict(model.named_modules()), before you register a hook.",
    word="the sandbox says that it raised",
)
def test_activation_names(code: Student, draw: Draw) -> Cases:
    """A name that the model does not have is a ValueError that names it."""
    yield from unknown_names(code, draw, ACTIVATIONS)


# --- capture_gradients ---------------------------------------------------------------------------


@promise(
    "capture_gradients",
    points=11,
    hint="register_full_backward_hook: grad_output[0] is the gradient of the output.",
)
def test_gradients(code: Student, draw: Draw) -> Cases:
    """Each backward pass puts the gradients of the named modules' outputs into the dict."""
    model = network(code, draw)
    yield "the dict", code.run("captured", GRADIENTS, model, NAMES, *new_pass(draw))


@promise(
    "capture_gradients",
    points=4,
    hint="A hook sees the gradient of its own pass; .grad is a sum over passes.",
    after="test_gradients",
)
def test_gradients_of_the_latest_pass(code: Student, draw: Draw) -> Cases:
    """Of two backward passes through one graph the latest one counts."""
    model, latest = network(code, draw), double(draw, 5, 2)
    yield "the dict", code.run("two_backward_passes", model, NAMES, *new_pass(draw), latest)


@promise(
    "capture_gradients",
    points=3,
    hint="An output that does not require grad gets no entry, and is not an error.",
    after="test_gradients",
)
def test_no_gradient(code: Student, draw: Draw) -> Cases:
    """A module that no gradient reaches has no entry; parameters may be frozen."""
    values = code.run("under_no_grad", network(code, draw), NAMES, double(draw, 5, 3))
    yield "the dict after a pass under torch.no_grad()", values
    model = network(code, draw, frozen=["body.0.weight", "body.0.bias"])
    values = code.run("captured", GRADIENTS, model, NAMES, *new_pass(draw))
    yield "the dict for a model whose body is frozen", values


@promise(
    "capture_gradients",
    points=3,
    hint="Return nothing from a hook, and remove no hook but your own.",
    after="test_gradients",
)
def test_gradients_leave_the_model(code: Student, draw: Draw) -> Cases:
    """The block changes neither the model's outputs and gradients nor other hooks."""
    yield from beside_other_hooks(code, draw, GRADIENTS)


@promise(
    "capture_gradients",
    points=8,
    hint="try: yield gradients finally: handle.remove() for each handle",
)
def test_gradient_hooks(code: Student, draw: Draw) -> Cases:
    """Hooks exist only inside the block, also when it raises and in nested blocks; the dict is kept."""
    yield from no_hook_left(code, draw, GRADIENTS)
    changed = code.run("pass_after_the_block", network(code, draw), NAMES, *new_pass(draw))
    yield "the list of the gradients that a hook on an output changes after the block", changed
    yield from nested(code, draw, GRADIENTS)


@promise(
    "capture_gradients",
    points=3,
    hint="Look each name up in dict(model.named_modules()), before you register a hook.",
    word="the sandbox says that it raised",
)
def test_gradient_names(code: Student, draw: Draw) -> Cases:
    """A name that the model does not have is a ValueError that names it."""
    yield from unknown_names(code, draw, GRADIENTS)


# --- promises of both blocks ---------------------------------------------------------------------


def beside_other_hooks(code: Student, draw: Draw, name: str) -> Cases:
    """The model's output and gradients in a block and after it, with other hooks on the model."""
    factors = draw.number(), draw.number()
    model, given = network(code, draw), new_pass(draw)
    report = code.run("beside_other_hooks", name, model, NAMES, *given, *factors)
    for when in ("inside", "after"):
        seen = entry(report, when)
        yield f"the model's output {when} a block", entry(seen, "output")
        yield f"the dict of the parameters' gradients {when} a block", entry(seen, "gradients")


def no_hook_left(code: Student, draw: Draw, name: str) -> Cases:
    """Check that the call itself registers no hook, and that a block that raises leaves none."""
    model, call = network(code, draw), f"{name}(...) without a block"
    laws.check_changes_nothing(code, code.probe("call"), name, model, NAMES, call=call)
    for error in ERRORS:
        call, probe = f"a block of {name} that ends with a {error}", code.probe("out_of_block")
        arguments = (name, network(code, draw), NAMES, error)
        came_out = laws.check_changes_nothing(code, probe, *arguments, call=call)
        yield f"the exception that came out of {call}", came_out


def nested(code: Student, draw: Draw, name: str) -> Cases:
    """The dicts of two nested blocks: each keeps the last pass within its own block."""
    model, in_both, in_outer = network(code, draw), new_pass(draw), new_pass(draw)
    report = code.run("nested", name, model, NAMES, in_both, in_outer)
    for key in ("inner", "outer"):
        yield f"the dict of the {key} of two nested blocks", entry(report, key)


def unknown_names(code: Student, draw: Draw, name: str) -> Cases:
    """Unknown names, such as a parameter's, which have to be refused without leaving a hook."""
    for wrong in ("nope", "body.0.weight"):
        model, names, begin = network(code, draw), ["gain", wrong], code.probe("begin")
        yield f"{name}(model, {names})", raises(ValueError, wrong, begin, name, model, names)
        changes = laws.observe(code, begin, name, model, names).changes()
        assert "hooks" not in [change.part for change in changes], (
            "A hook is left after the ValueError: look all names up before you register one."
        )


# --- helpers of the tests ------------------------------------------------------------------------


def traced(code: Student, model: Any, x: Tensor) -> list[Any]:
    """The result of trace_shapes, with plain tuples in place of named ones."""
    shapes = entry(
        code.run("trace", model, x), "shapes", kind=list, told="The result is not a list."
    )
    told = "The list does not hold pairs of a name and a shape."
    return [entry(pair, kind=tuple, count=2, told=told) for pair in shapes]


def shuffled(draw: Draw, names: Sequence[str]) -> list[str]:
    """The names in a drawn order."""
    return [names[place] for place in draw.permutation(len(names)).tolist()]


def new_plan(draw: Draw) -> Plan:
    """A plan that runs each module of the Network's middle once, in a drawn order."""
    names = shuffled(draw, ["gain", "bend", "side", "mix"])
    return [(name, draw.choice([False, True])) for name in names]


def network(code: Student, draw: Draw, plan: Plan | None = None, **setting: Any) -> Any:
    """One of the probe's Networks, which runs this plan or a new one."""
    return code.made("network", draw.seed(), plan or new_plan(draw), **setting)


def double(draw: Draw, *shape: int) -> Tensor:
    return draw.normal(*shape, dtype=torch.float64)


def new_pass(draw: Draw) -> tuple[Tensor, Tensor]:
    """Inputs of a pass: x, and the weights with which the output is summed."""
    return double(draw, 5, 3), double(draw, 5, 2)
