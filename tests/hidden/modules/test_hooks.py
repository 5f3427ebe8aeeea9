"""What trace_shapes, capture_activations and capture_gradients promise, sentence by sentence."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, fields, laws
from grader.judge.student import Student

State = dict[str, Tensor]
ACTIVATIONS, GRADIENTS = "capture_activations", "capture_gradients"
NAMES = ["", "body", "body.0", "body.1", "gain", "side", "head"]
randn = functools.partial(torch.randn, dtype=torch.float64)


# --- trace_shapes ----------------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("trace_shapes")
@pytest.mark.hint(
    "A forward hook on each module without children; model(x) then calls them in order."
)
def test_trace(student: Student) -> None:
    """Each call of a leaf gives its name and the shape of its output, in the order of the calls."""
    for lead in ((2,), (1, 3), (0,)):
        value = student.function("trace_shapes")(student.made("parts"), torch.randn(*lead, 3))
        right, pairs = traced(lead), value if isinstance(value, list) else []
        names, wanted = [entry(pair, 0, default="") for pair in pairs], [name for name, _ in right]
        loop = "a hook made in a loop sees the name as it is in the end"
        known = {
            "Containers are listed, too: a leaf is a module without children.": any(
                name in ("", "body", "block", "block.0") for name in names
            ),
            "pair returns a tuple of two tensors: leave out what is no tensor.": "pair" in names,
            f"All shapes have one name: {loop}.": len(pairs) == len(right) and len({*names}) == 1,
            "Modules inside of other modules are missing.": "body.0" not in names,
            "A leaf that is called twice is listed once.": names.count("block.0.0") == 1,
            "The empty nn.Sequential body.1 is missing: it has no children.": "body.1" not in names,
            "Layers of a class of one's own are missing: they are leaves, too.": "rows"
            not in names,
            "A shape () is missing.": names == [name for name in wanted if name != "total"],
            "The list is not in the order of the calls.": names != wanted
            and sorted(map(str, names)) == sorted(wanted),
        }
        for told, mistaken in known.items():
            assert not (mistaken and pairs), told
        assert_equal(value, right, what=f"the result for x of shape {(*lead, 3)}")
    value = student.function("trace_shapes")(student.made("layer"), torch.randn(5, 3))
    bypassed: Any = {
        "Call model(x), not model.forward(x), which passes over all hooks of the model.": []
    }
    what = "the result for nn.Linear(3, 4) and x of shape (5, 3)"
    assert_equal(value, [("", (5, 4))], what=what, mistakes=bypassed)


@pytest.mark.points(3)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("model(x), once: model.forward(x) passes over the model's own hooks.")
def test_trace_calls_the_model_once(student: Student) -> None:
    """The model is called on x once, with its own hooks; shapes are tuples."""
    x = torch.randn(2, 3)
    value = student.function("trace_shapes")(student.made("parts", "repeats"), x)
    told = "The model's own hook, which doubles the rows, does not run: call model(x), not forward."
    assert_equal(value, traced((4,)), what="the result", mistakes={told: traced((2,))})
    given, tuples = fields(student.run("traced", student.made("parts"), x), "calls", "tuples")
    assert len(entry(given, kind=list)) == 1, (
        f"The model is called {len(given)} times: once is asked."
    )
    assert_close(given[0], x, what="the x on which the model is called")
    told = "A shape is not a tuple: tuple(output.shape) is one, and output.shape, too."
    assert all(entry(tuples, kind=list)), told


@pytest.mark.points(6)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("try: model(x) finally: handle.remove() for each handle")
def test_trace_leaves_no_hook(student: Student) -> None:
    """Its hooks are gone afterwards, also where the model raises, and those of others are there."""
    x = torch.randn(2, 3)
    report = student.run("traced", student.made("parts"), x)
    check_hooks(report, "after trace_shapes")
    told = "A hook that somebody registers during the call is gone: remove your own ones only."
    assert entry(report, "ran", kind=int) >= 2, told
    for kind in ("error", "interrupt"):
        check_raising(student, "trace_shapes", student.made("parts", kind), x, kind)


@pytest.mark.points(2)
@pytest.mark.requires("test_trace")
@pytest.mark.place("trace_shapes")
@pytest.mark.hint("You need no mode, no backward pass and no random number.")
def test_trace_changes_nothing(student: Student) -> None:
    """Values, gradients, modes and random states are as they were."""
    for x in laws.kinds_of(torch.randn(2, 3)):
        laws.check_changes_nothing(student, "trace_shapes", student.made("parts"), x)


# --- capture_activations ---------------------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.place("capture_activations")
@pytest.mark.hint("activations[name] = output.detach().clone() in a hook of its own for each name.")
def test_activations(student: Student) -> None:
    """Each pass in the block puts the outputs of the named modules into the dict."""
    for names in (["gain"], NAMES, ["head", "body.0"]):
        state, x = new_state(), randn(5, 3)
        steps: list[list[Any]] = [[x], [randn(2, 3), "no_grad"]]
        model = student.made("network", state)
        report = block(student, ACTIVATIONS, model, names, steps)
        first = {
            "Yours are those of the first pass: each later one replaces them.": network(state, x)
        }
        before = dict(zip(NAMES, [2, 2, 2, 2, 1, 4, 5], strict=True))
        for seen, (given, *_) in zip(in_block(report), steps, strict=True):
            outputs = network(state, given)
            inputs = {name: outputs[NAMES[i]] for name, i in before.items()}
            told = "Yours are the outputs of the modules before: take output, not inputs."
            check_seen(seen, outputs, names, {**first, told: inputs})


@pytest.mark.points(4)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("output.detach(): without it each value holds the graph of its whole pass.")
def test_activations_are_detached(student: Student) -> None:
    """The values have no graph."""
    check_detached(
        block(student, ACTIVATIONS, student.made("network", new_state()), NAMES, [[randn(5, 3)]])
    )


@pytest.mark.points(5)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("detach() shares the memory of the output: clone() does not.")
def test_activations_are_copies(student: Student) -> None:
    """A value stays as the module returned it, of its latest call, also before a ReLU in place."""
    state, x = new_state(), randn(5, 3)
    model = student.made("network", state, in_place=True, times=3)
    right = network(state, x, times=3)
    relu = {**right, "body.0": right["body.1"]}
    zeros = {name: torch.zeros_like(right[name]) for name in ("", "head")}
    mistakes = {
        "Yours is the output of gain's first call: each later one replaces it.": {
            **right,
            "gain": network(state, x)["gain"],
        },
        "body.0 is as the ReLU after it left it, which works in place: keep a copy, clone().": relu,
        "The output is as the caller changed it later: keep a copy, clone().": {**right, **zeros},
        "Values change with the outputs later, in place: keep copies, clone().": {**relu, **zeros},
    }
    report = block(student, ACTIVATIONS, model, NAMES, [[x, "changed"]])
    check_seen(entry(report, "last"), right, NAMES, mistakes)


@pytest.mark.points(3)
@pytest.mark.requires("test_activations")
@pytest.mark.place("capture_activations")
@pytest.mark.hint("Return nothing from a hook: what it returns replaces the output.")
def test_activations_leave_the_model(student: Student) -> None:
    """The model's outputs and gradients, and hooks of others, are what they are without a block."""
    check_model(student, ACTIVATIONS)


@pytest.mark.points(8)
@pytest.mark.place("capture_activations")
@pytest.mark.hint("try: yield activations finally: handle.remove() for each handle")
def test_activation_hooks(student: Student) -> None:
    """Hooks are there inside the block only, also where it raises; the dict does not grow after it."""
    check_block(student, ACTIVATIONS)


@pytest.mark.points(3)
@pytest.mark.place("capture_activations")
@pytest.mark.hint("Look each name up in dict(model.named_modules()), before you register a hook.")
def test_activation_names(student: Student) -> None:
    """A name that the model lacks is a ValueError that names it; a repeated one counts once."""
    check_names(student, ACTIVATIONS)


# --- capture_gradients -----------------------------------------------------------------------------


@pytest.mark.points(11)
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("register_full_backward_hook: grad_output[0] is the gradient of the output.")
def test_gradients(student: Student) -> None:
    """Each backward pass puts the gradients of the named modules' outputs into the dict."""
    for names in (["gain"], ["head", "body"], NAMES):
        state: State = new_state()
        steps: Any = [[randn(n, 3), "backward", randn(n, 2)] for n in (5, 2)]
        report = block(student, GRADIENTS, student.made("network", state), names, steps)
        first = gradients(state, steps[0][0], steps[0][2])
        for seen, (x, _, weight) in zip(in_block(report), steps, strict=True):
            right, outputs = gradients(state, x, weight), network(state, x)
            slope = torch.cos(outputs["body"] * state["gain.weight"]) * state["gain.weight"]
            mistakes = {
                "Yours is grad_input, the gradient of the input: take grad_output.": {
                    **right,
                    "gain": right["gain"] * slope,
                },
                "Yours are the outputs, not their gradients.": outputs,
                "The dict is empty after the backward pass.": {},
                "Yours are those of the first pass: each later one replaces them.": first,
            }
            check_seen(seen, right, names, mistakes)


@pytest.mark.points(4)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint(
    "A hook sees the gradient of its own pass; .grad is a sum over passes. Detach it."
)
def test_gradients_of_the_latest_pass(student: Student) -> None:
    """Of two backward passes the latest one counts; values have no graph, also under create_graph."""
    state, x, weight = new_state(), randn(5, 3), randn(5, 2)
    for how in ("twice", "grad"):
        model = student.made("network", state)
        report = block(student, GRADIENTS, model, ["gain", "head"], [[x, how, weight]])
        passes = "over the backward passes: the latest one counts."
        mistakes = {
            f"Yours are sums {passes}": gradients(state, x, 2 * weight + 1),
            f"Yours are those of the first one, {passes}": gradients(state, x, weight + 1),
            "torch.autograd.grad is a backward pass, too: the dict is empty after it.": {},
        }
        check_seen(in_block(report)[0], gradients(state, x, weight), ["gain", "head"], mistakes)
        check_detached(report)


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint(
    "An output that does not require grad is no error: it has no gradient, so no entry."
)
def test_no_gradient(student: Student) -> None:
    """A module that no gradient reaches has no entry; parameters may be frozen."""
    state, x, weight = new_state(), randn(5, 3), randn(5, 2)
    model = student.made("network", state, frozen=["body.0.weight", "body.0.bias"])
    steps = [[x, "no_grad"], [x, "backward", weight]]
    first, second = in_block(block(student, GRADIENTS, model, NAMES, steps))
    assert_equal(entry(first, "values"), {}, what="the dict after a pass under torch.no_grad()")
    right = gradients(state, x, weight)
    told = "The frozen layer has an entry: no gradient reaches its output."
    check_seen(second, {name: right[name] for name in ("gain", "head", "")}, NAMES, {told: right})


@pytest.mark.points(3)
@pytest.mark.requires("test_gradients")
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("Return nothing from a hook: what it returns replaces a gradient.")
def test_gradients_leave_the_model(student: Student) -> None:
    """The model's outputs and gradients, and hooks of others, are what they are without a block."""
    check_model(student, GRADIENTS)


@pytest.mark.points(8)
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("try: yield gradients finally: handle.remove() for each handle")
def test_gradient_hooks(student: Student) -> None:
    """Hooks are there inside the block only, also where it raises; the dict does not grow after it."""
    check_block(student, GRADIENTS)


@pytest.mark.points(3)
@pytest.mark.place("capture_gradients")
@pytest.mark.hint("Look each name up in dict(model.named_modules()), before you register a hook.")
def test_gradient_names(student: Student) -> None:
    """A name that the model lacks is a ValueError that names it; a repeated one counts once."""
    check_names(student, GRADIENTS)


# --- for both --------------------------------------------------------------------------------------


def block(student: Student, name: str, model: Any, names: list[str], steps: Any) -> Any:
    report = student.run("block", name, model, names, steps)
    is_dict, values = fields(entry(report, "first"), "dict", "values")
    assert is_dict is True, "The block gets something else than a dict: yield the dict."
    told = "The dict is not empty when the block begins: each block needs a new one."
    assert entry(values, kind=dict) == {}, told
    return report


def in_block(report: Any) -> list[Any]:
    return [entry(step, "seen") for step in entry(report, "inside", kind=list)]


def check_seen(seen: Any, values: State, names: list[str], mistakes: Any = None) -> None:
    """A block's dict holds those of the values that are asked for; so do the mistaken ones."""
    kept, right = entry(seen, "values", kind=dict), {n: values[n] for n in names if n in values}
    one = len(kept) == 1 and len(right) > 1 and set(kept) <= set(right)
    told = (
        "All values stand under one name: a hook made in a loop sees the name as it is in the end."
    )
    assert not one, told
    known = {t: {n: v[n] for n in names if n in v} for t, v in (mistakes or {}).items()}
    own = {name: kept[name] for name in right} if set(kept) == set(right) else kept
    assert_close(own, right, what="the dict", mistakes=known)


def check_detached(report: Any) -> None:
    for seen in in_block(report):
        for name in entry(seen, "graph", kind=list):
            told = (
                f"The value of {str(name)[:40]!r} hangs in a graph, which stays in memory with it"
            )
            raise AssertionError(f"{told}: detach it.")


def check_model(student: Student, name: str) -> None:
    state, weight, x = new_state(), randn(5, 2), randn(5, 3)
    for how in ("backward", "grad", "no_grad"):
        model, learns = student.made("network", state), how != "no_grad"
        report = block(student, name, model, NAMES, [[x, how, weight]])
        (inside,), after = entry(report, "inside", kind=list, count=1), entry(report, "outside")
        for result, where, given in ((inside, "inside", x), (after, "after", x + 1)):
            right = network(state, given)[""]
            assert_close(
                entry(result, "output"), right, what=f"the model's output {where} the block"
            )
            told = f"The model's output is cut off from the graph {where} the block: a hook has to"
            assert entry(result, "attached") is learns, f"{told} return nothing."
            own = parameter_gradients(state, given, weight) if learns else []
            what = f"the list of the parameters' gradients {where} the block"
            assert_close(entry(result, "gradients"), own, what=what)
            told = f"Hooks of others do not run {where} the block: remove your own ones only."
            # Those of seven modules before, and those that came in the block; side has no gradient.
            assert entry(result, "ran") == (26 if learns else 14), told


def check_block(student: Student, name: str) -> None:
    step: Any = [randn(5, 3), "backward", randn(5, 2)]
    for names in (NAMES, ["gain", "gain", "head", "gain"]):
        report = block(student, name, student.made("network", new_state()), names, [step])
        told = f"{name}(...) registers hooks when it is called: do it when the block begins."
        assert entry(report, "made") == entry(report, "hooks", 0), told
        check_hooks(report, "after the block")
        values = entry(in_block(report)[0], "values", kind=dict)
        assert_close(entry(report, "last", "values"), values, what="the dict after the block")
        later, what = (
            entry(report, "outside", "seen", "values"),
            "the dict after one more pass, later,",
        )
        assert_close(later, values, what=what)
    for kind in ("error", "interrupt"):
        check_raising(student, name, student.made("network", new_state()), step[0], kind)
    steps: Any
    state, names, steps = (
        new_state(),
        ["gain", "head"],
        [step, [randn(4, 3), "backward", randn(4, 2)]],
    )
    report = student.run("nested", name, student.made("network", state), names, steps)
    inner, outer = entry(report, "hooks", kind=list, count=2)
    check_hooks({"hooks": inner}, "after the inner one of two nested blocks")
    check_hooks({"hooks": outer}, "after two nested blocks")
    results = [network(s, x) if name == ACTIVATIONS else gradients(s, x, weight)
               for s, (x, _, weight) in zip((state, state), steps, strict=True)]  # fmt: skip
    for seen, i in zip(entry(report, "seen", kind=list, count=4), (0, 0, 1, 0), strict=True):
        check_seen(seen, results[i], names)


def check_raising(student: Student, name: str, model: Any, x: Tensor, kind: str) -> None:
    dtype = torch.float32 if name == "trace_shapes" else torch.float64
    report = student.run("raising", name, model, ["gain", "head"], x.to(dtype), kind)
    check_hooks(report, "after an exception" if kind == "error" else "after a KeyboardInterrupt")
    told = f"An exception disappears in {name}: let it pass through."
    assert entry(report, "raised") is True, told


def check_names(student: Student, name: str) -> None:
    model = student.made("network", new_state())
    cases = [("gain", "nope"), ("head", "body.2"), ("body", "body.0.weight"), ("training",)]
    for names in (*cases, ("", "head", "forward")):
        wrong = names[-1]
        report = student.run("refused", name, model, list(names))
        call = f"The block of {name}(model, {list(names)})"
        text = entry(report, "text")
        told = f"{call} begins as if nothing were wrong: it should raise a ValueError."
        assert text is not None, told
        assert wrong in str(text), f"The message {str(text)[:80]!r} does not contain {wrong}."
        check_hooks(report, f"after the ValueError about {wrong}")
    step = [randn(5, 3), "backward", randn(5, 2)]
    for names in (("gain", "gain"), ("head", "gain", "head"), ()):
        (seen,) = in_block(block(student, name, model, list(names), [step]))
        keys, what = (
            sorted(entry(seen, "values", kind=dict)),
            f"the sorted list of keys for {names}",
        )
        assert_equal(keys, sorted(set(names)), what=what)


def check_hooks(report: Any, when: str) -> None:
    """Every hook that was there before is there, and no other one."""
    before, after = entry(report, "hooks", kind=list, count=2)
    for table in (*entry(before, kind=dict), *entry(after, kind=dict)):
        old, new = (entry(tables, table, kind=list, default=[]) for tables in (before, after))
        told = f"A hook is left in {table[:80]} {when}: remove each one, in a finally."
        assert len(new) <= len(old), told
        told = f"Hooks of others are gone from {table[:80]} {when}: remove your own ones only."
        assert old == new, told


# --- the models, locally ---------------------------------------------------------------------------


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


def parameter_gradients(state: State, x: Tensor, weight: Tensor) -> list[Tensor | None]:
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
    total = (network(leaves, x)[""] * weight).sum()
    return list(torch.autograd.grad(total, list(leaves.values()), allow_unused=True))


def gradients(state: State, x: Tensor, weight: Tensor) -> State:
    """The gradients of all modules' outputs but that of side, which has none."""
    leaves = {name: tensor.clone().requires_grad_() for name, tensor in state.items()}
    values = network(leaves, x)
    values.pop("side")
    own = torch.autograd.grad((values[""] * weight).sum(), list(values.values()))
    return dict(zip(values, own, strict=True))


def traced(lead: Sequence[int]) -> list[tuple[str, tuple[int, ...]]]:
    """What trace_shapes finds in the probe's Parts for x of shape (*lead, 3)."""
    sizes = [("stem", 5), ("body.0", 5), ("body.1", 5), ("body.2", 4), *[("block.0.0", 4)] * 2]
    rows: tuple[int, ...] = (min(lead[0], 1), *lead[1:], 4)
    middle: list[tuple[str, tuple[int, ...]]] = [("rows", rows), ("total", ())]
    ends = [(name, (*lead, 2)) for name in ("head", "last")]
    return [(name, (*lead, size)) for name, size in sizes] + middle + ends
