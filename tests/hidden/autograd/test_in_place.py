"""Tests of in_place_outcome, sgd_step and exponential_average."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, any_dtype, entry, exactly, laws, must_raise, promise
from grader.judge.student import Student

# Forwards whose graph saves x for its own gradient, for another tensor's, or not at all. w and m are
# parameters, c is a constant. Drawn operations follow, so that neither the values nor the last node show which
# forward it is.
FOR_X = ("(x * x)", "x.sin()", "((x + 1).exp() + x.square())")
FOR_ANOTHER = ("(x * w)", "(w / x)", "(x @ m)")
DETACHED = "(x.detach() ** 2)"
NOTHING = ("(x + 1)", "(x * c)", "x.exp()", "((x + 1) * w)", "(x.clone() ** 2)", DETACHED)
VIEWS = ("(x.t() * w.t())", "(x[:, 1] ** 2)", "(x[1:] * w[1:])", "(x.detach()[2:] * w[2:])")
OPERATIONS = (".sin()", ".cos()", ".tanh()", ".sigmoid()", ".abs()", ".square()", ".atan()")
KINDS = ("leaf", "result", "data")
# After these steps, the result shows whether this momentum was rounded.
STEPS, MOMENTUM = 20, 0.987


# --- in_place_outcome ----------------------------------------------------------------------------


@promise(
    "in_place_outcome",
    points=5,
    hint='Only a leaf that requires a gradient: x.is_leaf and x.requires_grad is "leaf".',
)
def test_leaf(code: Student, draw: Draw) -> Cases:
    """The outcome is "leaf" for a leaf that requires a gradient, whatever forward does."""
    yield outcomes(code, draw, "leaf", (*FOR_X, "(x + 1)", DETACHED))


@promise(
    "in_place_outcome",
    points=10,
    hint="saved_tensors_hooks(pack, unpack) calls pack with each tensor that is saved.",
)
def test_saved(code: Student, draw: Draw) -> Cases:
    """If x is a result, the outcome is "needed" where the graph of y has saved x, and "safe" otherwise."""
    yield outcomes(code, draw, "result", (*FOR_X, *FOR_ANOTHER, *NOTHING))


@promise(
    "in_place_outcome",
    points=4,
    hint="Compare tensor.untyped_storage().data_ptr(): a view of x has the storage of x.",
    after="test_saved",
)
def test_view_saved(code: Student, draw: Draw) -> Cases:
    """A view of x that the graph has saved counts as x."""
    yield outcomes(code, draw, "result", VIEWS)


@promise(
    "in_place_outcome",
    points=4,
    hint="x.is_leaf is True for plain data, too. And x * w saves x for the gradient of w.",
)
def test_data(code: Student, draw: Draw) -> Cases:
    """If x is plain data, the outcome is "needed" where x is saved for another tensor's gradient."""
    yield outcomes(code, draw, "data", (*FOR_X, *FOR_ANOTHER, *NOTHING))


@promise(
    "in_place_outcome",
    points=10,
    hint="Call neither x.add_(1) nor backward() on x: look at the saved tensors, which changes nothing.",
    after="test_saved",
)
def test_nothing_happens(code: Student, draw: Draw) -> Cases:
    """Nothing happens to x, to its graph, or to any .grad."""
    for x in laws.kinds_of(draw.normal(3, 4)):
        laws.check_changes_nothing(code, "in_place_outcome", x, code.made("square"))
    report = code.run("what_is_left", *draw.normal(3, 3, 4))
    yield "the state after one call of in_place_outcome", exactly(report)


# --- sgd_step ------------------------------------------------------------------------------------


@promise(
    "sgd_step",
    points=8,
    hint="with torch.no_grad(): p -= lr * p.grad, for each p that has a gradient.",
)
def test_step(code: Student, draw: Draw) -> Cases:
    """Parameters with a gradient become p - lr * p.grad, without torch.optim; the others do not change."""
    made, lr = code.made("parameters", *new_parameters(draw)), draw.number(0.5, 1.5)
    seen = laws.observe(code, "sgd_step", made, lr).checked()
    yield "the list of parameters after a step", facts(seen.after(0, "items"), "values")


@promise("sgd_step", hint="Go through parameters once, in one for loop.", after="test_step")
def test_step_of_a_generator(code: Student, draw: Draw) -> Cases:
    """The parameters may come from a generator."""
    after = code.run("stepped_by_a_generator", *new_parameters(draw), draw.number(0.5, 1.5))
    yield "the list of parameters, which a generator hands over, after a step", after


@promise(
    "sgd_step",
    points=4,
    hint="p -= lr * p.grad works in place, and leaves the gradient; p.data = ... does not.",
    after="test_step",
)
def test_step_in_place(code: Student, draw: Draw) -> Cases:
    """Each parameter keeps its memory, its .grad and requires_grad; modes and random states do not change."""
    made = code.made("parameters", *new_parameters(draw))
    laws.check_changes_nothing(code, "sgd_step", made, 0.1, allow=("values",))
    seen = laws.observe(code, "sgd_step", made, 0.5).checked()
    memories = [facts(when(0, "items"), "storage") for when in (seen.before, seen.after)]
    kept = [before == after for before, after in zip(*memories, strict=True)]
    yield "the list of whether each parameter keeps its memory", kept


@promise(
    "sgd_step",
    points=15,
    hint="p.data hides the change from autograd; p.sub_(...) under no_grad does not.",
    after="test_step",
)
def test_step_is_noticed(student: Student) -> None:
    """Backward through an older graph that needs the old value raises autograd's own error."""
    call = "After a step, backward through an older graph that needs the old value"
    with must_raise(RuntimeError, mentions="inplace", call=call):
        student.run("older_graph", torch.randn(3, 2), torch.randn(3, 2), 0.5)


# --- exponential_average -------------------------------------------------------------------------


@promise(
    "exponential_average",
    points=6,
    hint="averages = [x[0]], then momentum * averages[-1] + (1 - momentum) * row.",
)
def test_average(code: Student, draw: Draw) -> Cases:
    """out[0] is x[0], and out[t] is momentum * out[t - 1] + (1 - momentum) * x[t]."""
    for shape, momentum in (((6, 3), 0.75), ((4, 2, 3), 0.25), ((4,), 0.5)):
        average = code.function("exponential_average")(draw.normal(*shape), momentum)
        yield f"the average of an x of shape {shape} with momentum {momentum}", any_dtype(average)


@promise(
    "exponential_average",
    points=2,
    hint="With 0 the average is x, and with 1 each of its rows is x[0].",
    after="test_average",
)
def test_average_limits(code: Student, draw: Draw) -> Cases:
    """A momentum of 0 or 1 is fine."""
    for momentum in (0, 1):
        average = code.function("exponential_average")(draw.normal(4, 2), momentum)
        yield f"the average with momentum {momentum}", any_dtype(average)


@promise(
    "exponential_average",
    points=18,
    hint="No detach, .data, .item() or no_grad: each state is a tensor of the graph.",
    after="test_average",
)
def test_average_gradient(code: Student, draw: Draw) -> Cases:
    """Gradients reach x through every step."""
    average = code.function("exponential_average")(draw.normal(6, 3, grad="x"), 0.75)
    yield "the average", any_dtype(average)


@promise(
    "exponential_average",
    points=3,
    hint="x[0] is a view of x: changing it in place changes x. Take x[0].clone().",
    after="test_average",
)
def test_average_leaves_x(student: Student) -> None:
    """x stays as it is, and the result shares no memory with x."""
    laws.check_changes_nothing(student, "exponential_average", torch.randn(4, 3), 0.5)
    laws.check_shares_no_memory(student, "exponential_average", torch.randn(4, 3), 0.0)
    laws.check_shares_no_memory(student, "exponential_average", torch.randn(1, 3), 0.5)


@promise(
    "exponential_average",
    points=2,
    hint="torch.stack of an empty list raises, and so does x[0] of an empty x.",
    after="test_average",
)
def test_average_shapes(code: Student, draw: Draw) -> Cases:
    """x may have any trailing dimensions, be float32 or float64, and have 0 steps."""
    average, what = code.function("exponential_average"), "the average"
    shapes = [(0, 3), (0,), (3, 0), (2, 3, 2)]
    laws.check_shapes(code, average, shapes, 0.5, dtype=torch.float64, what=what)
    laws.check_dtypes(code, average, draw.normal(4), 0.5, what=what)
    yield what, average(draw.normal(STEPS, dtype=torch.float64, scale=100), MOMENTUM)


@promise(
    "exponential_average",
    points=2,
    hint='First of all: if not 0 <= momentum <= 1: raise ValueError("momentum ...")',
    word="the sandbox says that it raised",
)
def test_average_errors(student: Student) -> None:
    """A momentum outside 0..1 is a ValueError that names momentum."""
    x = torch.randn(3, 2)
    bad = {"momentum": [(x, -0.125), (x, 1.125)]}
    laws.check_errors(student, "exponential_average", bad, fine=(x, 0.5))


# --- helpers of the tests ------------------------------------------------------------------------


def outcomes(code: Student, draw: Draw, kind: str, texts: Sequence[str]) -> tuple[str, Any]:
    """Return in_place_outcome for an x of this kind, by the forward.

    The forwards are x itself and these expressions, followed by drawn operations. The probe gets the questions
    about all kinds of x, in a drawn order.
    """
    forwards = ["x", *(text + operations(draw) for text in texts)]
    questions = [(one, forward) for one in KINDS for forward in forwards]
    order = draw.permutation(len(questions)).tolist()
    shapes = {"w": (3, 4), "m": (4, 2), "c": (3, 4)}
    others = {name: draw.uniform(*shape, low=0.5, high=1.5) for name, shape in shapes.items()}
    x = draw.uniform(3, 4, low=0.5, high=1.5)
    report = code.run("outcomes", x, others, [questions[i] for i in order])
    what = f'in_place_outcome(x, lambda x: ...), by the forward, for an x of the kind "{kind}",'
    return what, exactly({text: entry(report, f"{kind}: {text}") for text in forwards})


def operations(draw: Draw) -> str:
    """Draw one to three operations."""
    return "".join(OPERATIONS[i] for i in draw.permutation(len(OPERATIONS))[: draw.size(1, 4)])


def new_parameters(draw: Draw) -> tuple[list[Tensor], list[Tensor | None]]:
    """Draw values and gradients of three parameters: one has no gradient, the last is not contiguous."""
    values = [draw.normal(3, 2), draw.normal(4), draw.normal(2, 3).t()]
    return values, [draw.normal(3, 2), None, draw.normal(3, 2)]


def facts(items: Any, fact: str) -> list[Any]:
    """Return one fact of each observed tensor."""
    return [entry(item, fact) for item in entry(items, kind=list, count=4)]
