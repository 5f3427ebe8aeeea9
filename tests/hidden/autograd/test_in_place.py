"""What in_place_outcome, sgd_step and exponential_average promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise
from grader.judge.student import Student

# Forwards by what their graph saves of x: w and m are parameters, c is a constant. Operations that are drawn
# follow, so that neither values nor the last node say which forward it is.
FOR_X = ("(x * x)", "x.sin()", "((x + 1).exp() + x.square())")
FOR_ANOTHER = ("(x * w)", "(w / x)", "(x @ m)")
NOTHING = (
    "(x + 1)",
    "(x * c)",
    "x.exp()",
    "((x + 1) * w)",
    "(x.clone() ** 2)",
    "(x.detach() ** 2)",
)
VIEWS = ("(x.t() * w.t())", "(x[:, 1] ** 2)", "(x[1:] * w[1:])", "(x.detach()[2:] * w[2:])")
OPERATIONS = (".sin()", ".cos()", ".tanh()", ".sigmoid()", ".abs()", ".square()", ".atan()")
# A momentum that shows where it is rounded, over so many steps.
STEPS, MOMENTUM = 60, 0.987


# --- in_place_outcome ----------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint('Only a leaf that requires a gradient: x.is_leaf and x.requires_grad is "leaf".')
def test_leaf(student: Student) -> None:
    """It says "leaf" where x is a leaf that requires a gradient, whatever forward does."""
    check_outcomes(student, "leaf", all_are("leaf", (*FOR_X, "(x + 1)", "(x.detach() ** 2)")))


@pytest.mark.points(10)
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint("saved_tensors_hooks(pack, unpack) calls pack with each tensor that is saved.")
def test_saved(student: Student) -> None:
    """For an x that is a result it says "needed" where the graph of y has saved x, else "safe"."""
    needed, safe = all_are("needed", FOR_X + FOR_ANOTHER), all_are("safe", NOTHING)
    check_outcomes(student, "result", {"x": "safe", **needed, **safe})


@pytest.mark.points(4)
@pytest.mark.requires("test_saved")
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint("Compare tensor.untyped_storage().data_ptr(): a view of x has the storage of x.")
def test_view_saved(student: Student) -> None:
    """A view of x that the graph has saved counts as x."""
    check_outcomes(student, "result", all_are("needed", VIEWS))


@pytest.mark.points(4)
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint("x.is_leaf is True for plain data, too. And x * w saves x for the gradient of w.")
def test_data(student: Student) -> None:
    """For an x that requires no gradient it says "needed" where x is saved for another's gradient."""
    needed, safe = all_are("needed", FOR_ANOTHER), all_are("safe", FOR_X + NOTHING)
    check_outcomes(student, "data", {"x": "safe", **needed, **safe})


@pytest.mark.points(10)
@pytest.mark.requires("test_saved")
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint(
    "Call neither x.add_(1) nor backward() on x: look at what is saved, which changes nothing."
)
def test_nothing_happens(student: Student) -> None:
    """Nothing happens to x, to its graph, or to any .grad."""
    for x in laws.kinds_of(torch.randn(3, 4)):
        laws.check_changes_nothing(student, "in_place_outcome", x, student.made("square"))
    values, factor, grad = torch.randn(3, 3, 4).unbind()
    right = {
        "x": values * factor,
        "x._version": 0,
        "the gradient of x.sum() at what x was computed from": factor,
        "the .grad of what x was computed from": grad,
        "the .grad of w": grad,
    }
    report = student.run("what_is_left", values, factor, grad)
    assert_equal(report, right, what="what is left after one call of in_place_outcome")


# --- sgd_step ------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("sgd_step")
@pytest.mark.hint("with torch.no_grad(): p -= lr * p.grad, for each p that has a gradient.")
def test_step(student: Student) -> None:
    """Every parameter that has a gradient becomes p - lr * p.grad, without torch.optim; no other changes."""
    values, grads = new_parameters()
    made, lr = student.made("parameters", values, grads), random.uniform(0.5, 1.5)
    seen = laws.observe(student, "sgd_step", made, lr).checked()
    after = facts(seen.after(0, "items"), "values")[:3]
    assert_close(after, stepped(values, grads, lr), what="the list of parameters after a step")


@pytest.mark.requires("test_step")
@pytest.mark.place("sgd_step")
@pytest.mark.hint("Go through parameters once, in one for loop.")
def test_step_of_a_generator(student: Student) -> None:
    """The parameters may come from a generator."""
    values, grads = new_parameters()
    lr = random.uniform(0.5, 1.5)
    what = "the list of parameters, which a generator hands over, after a step"
    after = student.run("stepped_by_a_generator", values, grads, lr)
    assert_close(after, stepped(values, grads, lr), what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_step")
@pytest.mark.place("sgd_step")
@pytest.mark.hint(
    "p -= lr * p.grad works in place, and leaves the gradient; p.data = ... does not."
)
def test_step_in_place(student: Student) -> None:
    """Each parameter keeps its memory, its .grad and requires_grad; the modes and random states stay."""
    made = student.made("parameters", *new_parameters())
    laws.check_changes_nothing(student, "sgd_step", made, 0.1, allow=("values",))
    seen = laws.observe(student, "sgd_step", made, 0.5).checked()
    what = "the list of addresses of the parameters' memory, which a step in place does not change,"
    before = facts(seen.before(0, "items"), "storage")
    assert_equal(facts(seen.after(0, "items"), "storage"), before, what=what)


@pytest.mark.points(15)
@pytest.mark.requires("test_step")
@pytest.mark.place("sgd_step")
@pytest.mark.hint("p.data hides the change from autograd; p.sub_(...) under no_grad does not.")
def test_step_is_noticed(student: Student) -> None:
    """Backward through an older graph that needs the old value raises autograd's own error."""
    call = "After a step, backward through an older graph that needs the old value"
    with must_raise(RuntimeError, mentions="inplace", call=call):
        student.run("older_graph", torch.randn(3, 2), torch.randn(3, 2), 0.5)


# --- exponential_average -------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("exponential_average")
@pytest.mark.hint("averages = [x[0]], then momentum * averages[-1] + (1 - momentum) * row.")
def test_average(student: Student) -> None:
    """out[0] is x[0], out[t] is momentum * out[t - 1] + (1 - momentum) * x[t]."""
    for shape, momentum in (((6, 3), 0.75), ((4, 2, 3), 0), ((4,), 1), ((STEPS,), MOMENTUM)):
        x = 100 * torch.randn(shape, dtype=torch.float64)
        average = student.function("exponential_average")(x, momentum)
        what = f"the average of an x of shape {shape} with momentum {momentum}"
        laws.check_float64(average, averaged(x, momentum), what=what)


@pytest.mark.points(18)
@pytest.mark.requires("test_average")
@pytest.mark.place("exponential_average")
@pytest.mark.hint("No detach, .data, .item() or no_grad: each state is a tensor of the graph.")
def test_average_gradient(student: Student) -> None:
    """Gradients reach x through every step."""
    x = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    average = student.function("exponential_average")(x, 0.75)
    laws.check_gradients(average, {"x": x}, lambda x: averaged(x, 0.75), what="the average")


@pytest.mark.points(3)
@pytest.mark.requires("test_average")
@pytest.mark.place("exponential_average")
@pytest.mark.hint("x[0] is a view of x: changing it in place changes x. Take x[0].clone().")
def test_average_leaves_x(student: Student) -> None:
    """x stays as it is, and the result shares no memory with x."""
    laws.check_changes_nothing(student, "exponential_average", torch.randn(4, 3), 0.5)
    laws.check_shares_no_memory(student, "exponential_average", torch.randn(4, 3), 0.0)
    laws.check_shares_no_memory(student, "exponential_average", torch.randn(1, 3), 0.5)


@pytest.mark.points(2)
@pytest.mark.requires("test_average")
@pytest.mark.place("exponential_average")
@pytest.mark.hint("torch.stack of an empty list raises, and so does x[0] of an empty x.")
def test_average_shapes(student: Student) -> None:
    """Any shape behind steps is fine, in both dtypes, and steps may be 0."""
    average, what = student.function("exponential_average"), "the average"
    shapes = [(0, 3), (0,), (3, 0), (2, 3, 2)]
    laws.check_shapes(student, average, shapes, 0.5, dtype=torch.float64, what=what)
    laws.check_dtypes(student, average, torch.randn(4), 0.5, what=what)


@pytest.mark.points(2)
@pytest.mark.place("exponential_average")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint('First of all: if not 0 <= momentum <= 1: raise ValueError("momentum ...")')
def test_average_errors(student: Student) -> None:
    """A momentum outside 0..1 is a ValueError that names momentum."""
    x = torch.randn(3, 2)
    bad = {"momentum": [(x, -0.125), (x, 1.125)]}
    laws.check_errors(student, "exponential_average", bad, fine=(x, 0.5))


# --- locally -------------------------------------------------------------------------------------


def all_are(outcome: str, texts: Iterable[str]) -> dict[str, str]:
    """The same outcome for each of these forwards, behind which operations are drawn."""
    return {
        text + "".join(random.sample(OPERATIONS, random.randint(1, 3))): outcome for text in texts
    }


def check_outcomes(student: Student, kind: str, right: dict[str, str]) -> None:
    """What in_place_outcome says for an x of this kind, asked in a drawn order among those of all kinds."""
    questions = [(one, text) for one in ("leaf", "result", "data") for text in right]
    random.shuffle(questions)
    x, w, m, c = (torch.rand(shape) + 0.5 for shape in ((3, 4), (3, 4), (4, 2), (3, 4)))
    report = student.run("outcomes", x, {"w": w, "m": m, "c": c}, questions)
    said = entry(report, kind=list, count=len(questions))
    answers = dict(zip(questions, said, strict=True))
    what = f'in_place_outcome(x, lambda x: ...), by the forward, for an x of the kind "{kind}",'
    assert_equal({text: answers[kind, text] for text in right}, right, what=what)


def new_parameters() -> tuple[list[Tensor], list[Tensor | None]]:
    """Values and gradients of three parameters: one has no gradient, the last is not contiguous."""
    values = [torch.randn(3, 2), torch.randn(4), torch.randn(2, 3).t()]
    return values, [torch.randn(3, 2), None, torch.randn(3, 2)]


def stepped(values: list[Tensor], grads: list[Tensor | None], lr: float) -> list[Tensor]:
    """Such parameters after a step."""
    after = []
    for value, grad in zip(values, grads, strict=True):
        after.append(value if grad is None else value - lr * grad)
    return after


def facts(items: Any, fact: str) -> list[Any]:
    """A fact of each of these observed tensors."""
    return [entry(item, fact) for item in entry(items, kind=list)]


def averaged(x: Tensor, momentum: float) -> Tensor:
    rows = [x[0]]
    for row in x[1:]:
        rows.append(momentum * rows[-1] + (1 - momentum) * row)
    return torch.stack(rows)
