"""Tests of trace_shapes, capture_activations and capture_gradients."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student

State = dict[str, Tensor]
ACTIVATIONS, GRADIENTS = "capture_activations", "capture_gradients"
NAMES = ["", "body", "body.0", "body.1", "gain", "side", "head"]
ONE_NAME = "under one name: a hook made in a loop sees the value that the name has after the loop."
randn = functools.partial(torch.randn, dtype=torch.float64)


@pytest.mark.points(12)
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("A forward hook on each module without children; then model(x).")
def test_trace(student: Student) -> None:
    """Each call of a leaf gives its name and the shape of its output, in the order of the calls."""
    for lead in ((random.randint(2, 99),), (random.randint(1, 9), random.randint(2, 99)), (0,)):
        times, x = random.randint(2, 9), torch.randn(*lead, 3)
        right, value = traced(lead, times), entry(trace(student, x, "parts", "", times), "value")
        pairs = value if isinstance(value, list) else []
        names = [entry(pair, 0, kind=str, default="?") for pair in pairs]
        containers, calls = {"", "body", "block", "block.0"}, [name for name, _ in right]
        known = {
            "Containers are listed, too: leave out modules with children.": containers & {*names},
            "pair returns a tuple of two tensors: leave out outputs that are not a tensor.": "pair"
            in names,
            f"All shapes are {ONE_NAME}": len(names) == len(calls) and len({*names}) == 1,
            "A leaf that is called twice is listed once.": names.count("block.0.0") == 1,
            "Shapes with a 0 in them are missing.": not lead[0] and names == ["total"],
            "Modules inside of other modules are missing.": "body.0" not in names,
            "The empty nn.Sequential body.1 is a leaf, too.": "body.1" not in names,
            "Layers of the user's own class are leaves, too: rows is missing.": "rows" not in names,
            "A shape () is missing.": "total" not in names,
            "The list is not in the order of the calls.": names != calls
            and sorted(names) == sorted(calls),
        }
        for told, mistaken in known.items():
            assert not (mistaken and pairs), told
        what = f"the result for x of shape {(*lead, 3)}"
        assert_equal(value, right, what=what)
    value = entry(trace(student, torch.randn(5, 3), "layer", 3, 4), "value")
    told = 'nn.Linear(3, 4) has no children: it is a leaf itself, "", and is missing.'
    assert_equal(value, [("", (5, 4))], what="the result")


@pytest.mark.points(3)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("Call model(x), once: model.forward(x) skips the model's own hooks.")
def test_trace_calls_the_model_once(student: Student) -> None:
    """The model is called on x once, with its own hooks; shapes are tuples."""
    x = torch.randn(2, 3)
    report = trace(student, x)
    calls, value = entry(report, "calls", kind=list), entry(report, "value", kind=list)
    assert len(calls) == 1, f"The model is called {len(calls)} times: call it once."
    assert_close(
        calls[0],
        torch.cat([x, x]),
        what="the x that the model gets (its own hook repeats the rows)",
    )
    told = "A shape is not a tuple: take tuple(output.shape), or output.shape itself."
    assert all(isinstance(entry(pair, 1), tuple) for pair in value), told


@pytest.mark.points(6)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.word("the sandbox says which hooks are left")
@pytest.mark.hint("try: model(x) finally: handle.remove() for each handle")
def test_trace_leaves_no_hook(student: Student) -> None:
    """It removes its hooks, also when the model raises, and leaves other hooks there."""
    x = torch.randn(2, 3)
    report = trace(student, x)
    check_hooks(report, "after trace_shapes")
    check_raising(student, "trace_shapes", x)


@pytest.mark.points(2)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("Calling the model with hooks on is enough: set back whatever else you change.")
def test_trace_changes_nothing(student: Student) -> None:
    """Values, gradients, modes and random states are as they were."""
    for x in laws.kinds_of(torch.randn(2, 3)):
        laws.check_changes_nothing(student, "trace_shapes", student.made("model", "parts"), x)


@pytest.mark.points(9)
@pytest.mark.place("capture_activations")
@pytest.mark.hint("activations[name] = output.detach().clone() in a hook of its own for each name.")
def test_activations(student: Student) -> None:
    """Each pass in the block puts the outputs of the named modules into the dict."""
    check_passes(
        student, ACTIVATIONS, ("", "no_grad"),
    )  # fmt: skip


@pytest.mark.points(4)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("output.detach(): without it each value holds the graph of its whole pass.")
def test_activations_are_detached(student: Student) -> None:
    """The values have no graph."""
    check_detached(in_block(block(student, ACTIVATIONS, new_state(), NAMES, [[randn(5, 3)]]))[0])


@pytest.mark.points(5)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("detach() shares the memory of the output: clone() does not.")
def test_activations_are_copies(student: Student) -> None:
    """A value stays as the module returned it, of its latest call, also before a ReLU in place."""
    state, x = new_state(), randn(5, 3)
    right, made = network(state, x, times=3), {"in_place": True, "times": 3}
    report = block(student, ACTIVATIONS, state, NAMES, [[x, "changed"]], made)
    check_seen(entry(report, "last"), right, NAMES)


@pytest.mark.points(3)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("Return nothing from a hook: what it returns replaces the output.")
def test_activations_leave_the_model(student: Student) -> None:
    """The model's outputs and gradients and other hooks are what they are without a block."""
    check_model(student, ACTIVATIONS)


@pytest.mark.points(8)
@pytest.mark.place("capture_activations")
@pytest.mark.hint("try: yield activations finally: handle.remove() for each handle")
def test_activation_hooks(student: Student) -> None:
    """Hooks exist only inside the block, also when it raises; later passes leave the dict alone."""
    check_block(student, ACTIVATIONS)


@pytest.mark.points(3)
@pytest.mark.place("capture_activations")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look each name up in dict(model.named_modules()), before you register a hook.")
def test_activation_names(student: Student) -> None:
    """A name that the model does not have is a ValueError that names it."""
    check_names(student, ACTIVATIONS)


@pytest.mark.points(11)
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("register_full_backward_hook: grad_output[0] is the gradient of the output.")
def test_gradients(student: Student) -> None:
    """Each backward pass puts the gradients of the named modules' outputs into the dict."""
    hows = ("backward", "backward")
    check_passes(student, GRADIENTS, hows)


@pytest.mark.points(4)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("A hook sees the gradient of its own pass; .grad is a sum over passes.")
def test_gradients_of_the_latest_pass(student: Student) -> None:
    """Of two backward passes through one graph the latest one counts."""
    state, x, weight = new_state(), randn(5, 3), randn(5, 2)
    (seen,) = in_block(block(student, GRADIENTS, state, NAMES, [[x, "twice", weight]]))
    check_seen(seen, gradients(state, x, weight), NAMES)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("An output that does not require grad gets no entry, and is not an error.")
def test_no_gradient(student: Student) -> None:
    """A module that no gradient reaches has no entry; parameters may be frozen."""
    state, x, weight = new_state(), randn(5, 3), randn(5, 2)
    steps, frozen = [[x, "no_grad"], [x, "backward", weight]], ["body.0.weight", "body.0.bias"]
    report = block(student, GRADIENTS, state, NAMES, steps, {"frozen": frozen})
    first, second = in_block(report, 2)
    assert_equal(entry(first, "values"), {}, what="the dict after a pass under torch.no_grad()")
    right = gradients(state, x, weight)
    check_seen(second, {name: right[name] for name in ("gain", "head", "")}, NAMES)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("Return nothing from a hook: what it returns replaces a gradient.")
def test_gradients_leave_the_model(student: Student) -> None:
    """The model's outputs and gradients and other hooks are what they are without a block."""
    check_model(student, GRADIENTS)


@pytest.mark.points(8)
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("try: yield gradients finally: handle.remove() for each handle")
def test_gradient_hooks(student: Student) -> None:
    """Hooks exist only inside the block, also when it raises; later passes leave the dict alone."""
    check_block(student, GRADIENTS)


@pytest.mark.points(3)
@pytest.mark.place("capture_gradients")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look each name up in dict(model.named_modules()), before you register a hook.")
def test_gradient_names(student: Student) -> None:
    """A name that the model does not have is a ValueError that names it."""
    check_names(student, GRADIENTS)


def trace(student: Student, x: Tensor, *model: Any) -> Any:
    return student.run("left", "trace_shapes", student.made("model", *model or ["parts"]), [], x)


def block(
    student: Student, name: str, state: State, names: Any, steps: Any, made: Any = None, **how: bool
) -> Any:
    model = student.made("model", "network", state, **made or {})
    report = student.run("block", name, model, names, steps, **how)
    told = "The block does not get a dict: yield the dict."
    first = entry(report, "first", "values", kind=dict, told=told)
    assert first == {}, "The dict is not empty when the block begins: each block needs a new one."
    assert entry(report, "first", "kept") is True, (
        "Entering the block changes .grad: leave it as it is."
    )
    return report


def in_block(report: Any, count: int = 1) -> list[Any]:
    return [entry(step, "seen") for step in entry(report, "inside", kind=list, count=count)]


def check_seen(seen: Any, values: State, names: list[str]) -> None:
    """A block's dict holds those of the values that are asked for; so do the mistaken ones."""
    own, right = entry(seen, "values", kind=dict), {n: values[n] for n in names if n in values}
    one_name = [*own] == names[-1:] and len(right) > 1
    assert not one_name, f"All values are {ONE_NAME}"
    assert_close(own, right, what="the dict")


def check_passes(student: Student, name: str, hows: Sequence[str]) -> None:
    """Two passes in a block, of 5 rows and of 2; `wrong` names mistakes by all outputs of a pass."""
    for names in (["gain"], ["head", "body"], NAMES):
        state = new_state()
        steps = [(randn(n, 3), how, randn(n, 2)) for n, how in zip((5, 2), hows, strict=True)]
        report = block(student, name, state, names, steps)
        for seen, step in zip(in_block(report, 2), steps, strict=True):
            check_seen(seen, right_of(name, state, *step), names)


def check_detached(seen: Any) -> None:
    names = ", ".join(str(name)[:40] for name in entry(seen, "graph", kind=list))
    assert not names, f"The graph stays in memory with the values of {names}: detach them."


def check_model(student: Student, name: str) -> None:
    state, weight, x = new_state(), randn(5, 2), randn(5, 3)
    report = block(student, name, state, NAMES, [[x, "backward", weight]])
    (inside,), after = entry(report, "inside", kind=list, count=1), entry(report, "outside")
    for result, where, given in ((inside, "inside", x), (after, "after", x + 1)):
        right, what = network(state, given)[""], f"the model's output {where} the block"
        assert_close(entry(result, "output"), right, what=what)
        told = f"The graph is cut off {where} the block: a hook has to return nothing."
        assert entry(result, "attached") is True, told
        own = gradients(state, given, weight, parameters=True)
        what = f"the dict of the parameters' gradients {where} the block"
        assert_close(entry(result, "gradients"), own, what=what)
        told = f"Other hooks do not run {where} the block: remove only your own."
        # Those of seven modules before, and those that came in the block; side has no gradient.
        assert entry(result, "ran", kind=int) == 26, told


def check_block(student: Student, name: str) -> None:
    state, step = new_state(), list[Any]([randn(5, 3), "backward", randn(5, 2)])
    report = block(student, name, state, NAMES, [step])
    told = f"{name}(...) registers hooks when it is called: do it when the block begins."
    assert str(entry(report, "made")) == str(entry(report, "hooks", 0)), told
    check_hooks(report, "after the block")
    right = entry(in_block(report)[0], "values", kind=dict)
    for path, when in ((["last"], "the block"), (["outside", "seen"], "a later pass")):
        assert_close(entry(report, *path, "values"), right, what=f"the dict after {when}")
    check_raising(student, name, step[0])
    names, steps = ["gain", "head"], [step, [randn(4, 3), "backward", randn(4, 2)]]
    report = block(student, name, state, names, steps, nested=True)
    check_hooks(report, "after two nested blocks")
    for step, result in zip(steps, entry(report, "inside", kind=list, count=2), strict=True):
        check_hooks(result, "after the inner one of two nested blocks")
        for key, given in (("seen", step), ("inner", steps[0])):
            check_seen(entry(result, key), right_of(name, state, *given), names)


def check_raising(student: Student, name: str, x: Tensor) -> None:
    for kind in ("an exception", "a KeyboardInterrupt"):
        made = ["parts", kind] if name == "trace_shapes" else ["network", new_state()]
        model = student.made("model", *made)
        report = student.run("left", name, model, ["gain", "head"], x, kind)
        check_hooks(report, f"after {kind}")
        told = f"An exception disappears in {name}: let it pass through."
        assert entry(report, "raised") is True, told
        told = (
            f"After {kind} the model is in another mode than before: restore the mode in a finally."
        )
        assert entry(report, "modes") is True, told


def check_names(student: Student, name: str) -> None:
    state, x = new_state(), randn(5, 3)
    model = student.made("model", "network", state)
    for names in ("gain nope", "head body.2", "body body.0.weight", "training", "body forward"):
        wrong = names.split()[-1]
        report = student.run("left", name, model, names.split(), x)
        text, call = entry(report, "text"), f"The block of {name}(model, {names.split()})"
        told = f"{call} begins although the model has no such module: raise a ValueError."
        assert text is not None, told
        assert wrong in str(text), f"The message {str(text)[:80]!r} does not contain {wrong}."
        check_hooks(report, f"after the ValueError about {wrong}")


def check_hooks(report: Any, when: str) -> None:
    """The hooks are those that were there before."""
    before, after = entry(report, "hooks", kind=list, count=2)
    for table in {**entry(before, kind=dict), **entry(after, kind=dict)}:
        lists = (entry(tables, table, kind=list, default=[]) for tables in (before, after))
        old, new = ([*map(str, ids)] for ids in lists)
        told = f"A hook is left in {table[:80]} {when}: remove every hook, in a finally."
        assert len(new) <= len(old), told
        told = f"Other hooks are gone from {table[:80]} {when}: remove only your own."
        assert old == new, told


def new_state() -> State:
    shapes = {"body.0.weight": (4, 3), "body.0.bias": (4,), "gain.weight": (4,)}
    shapes |= {"side.weight": (5, 4), "side.bias": (5,), "head.weight": (2, 4), "head.bias": (2,)}
    return {name: randn(shape) for name, shape in shapes.items()}


def network(state: State, x: Tensor, times: int = 1) -> State:
    """The outputs of all modules of the probe's Network."""
    values = {"body.0": F.linear(x, state["body.0.weight"], state["body.0.bias"])}
    x = values["body.1"] = values["body"] = values["body.0"].relu()
    for _ in range(times):
        values["gain"] = torch.sin(x * state["gain.weight"])
        x = x + values["gain"]
    values["side"] = F.linear(x, state["side.weight"], state["side.bias"])
    values["head"] = values[""] = F.linear(x, state["head.weight"], state["head.bias"])
    return values


def gradients(state: State, x: Tensor, weight: Tensor, parameters: bool = False) -> State:
    """The gradients of all modules' outputs, or of all parameters: those of side have none."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
    values = network(leaves, x)
    total, ends = (values[""] * weight).sum(), leaves if parameters else values
    ends = {name: tensor for name, tensor in ends.items() if "side" not in name}
    return dict(zip(ends, torch.autograd.grad(total, list(ends.values())), strict=True))


def right_of(name: str, state: State, x: Tensor, how: str, weight: Tensor) -> State:
    return network(state, x) if name == ACTIVATIONS else gradients(state, x, weight)


def traced(lead: Sequence[int], times: int) -> list[tuple[str, tuple[int, ...]]]:
    """What trace_shapes gives for the probe's Parts and x of shape (*lead, 3), which a hook repeats.

    The block runs so many `times`.
    """
    lead = (2 * lead[0], *lead[1:])
    sizes = [("stem", 5), ("body.0", 5), ("body.1", 5), ("body.2", 4), *[("block.0.0", 4)] * times]
    middle = [("rows", (min(lead[0], 1), *lead[1:], 4)), ("total", ())]
    ends = [(name, (*lead, 2)) for name in ("head", "last")]
    return [*((name, (*lead, size)) for name, size in sizes), *middle, *ends]
