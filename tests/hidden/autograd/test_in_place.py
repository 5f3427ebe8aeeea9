"""What in_place_outcome, sgd_step and exponential_average promise, sentence by sentence."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

# Forwards, by what they save of x: for its own gradient, for another's, nothing. m and w are parameters.
OWN = ("x * x", "x ** 3", "x.sin()", "x.clamp(min=0)", "(x + 1).exp() + x.square()")
OTHERS = ("x * w", "w / x", "torch.maximum(x, w)", "x @ m", "F.linear(x, m.t())")
NOTHING = ("x + 1", "x - w", "x * 2", "x * c", "x @ k", "x.exp()", "x.sigmoid() + w", "x.exp() * w",
           "(x + 1) * w", "x.clone() ** 2", "x.detach() ** 2", "x.mean(0) * w[0]",
           "torch.where(c > 0, x, w)", "x[1:]", "x")  # fmt: skip
OWN_VIEWS = ("x[:, 1] ** 2", "x.view(-1).sin()")
OTHERS_VIEWS = ("x[1:] * w[1:]", "x.t() * w.t()", "x.unsqueeze(0).expand(2, 3, 4) * w",
                "x.detach() * w", "x.detach()[2:] * w[2:]")  # fmt: skip
MATRIX = torch.zeros(3, 4, dtype=torch.float64)
LISTED, OFF = "in a list", "while grad mode is off"
LEAF, RESULT, DATA = "a leaf that requires a gradient", "a result", "data without a gradient"

# --- in_place_outcome ----------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint('Only a leaf that requires a gradient: x.is_leaf and x.requires_grad is "leaf".')
def test_leaf(student: Student) -> None:
    """It says "leaf" where x is a leaf that requires a gradient, whatever forward does."""
    others = ("x + 1", "x.detach() ** 2")
    assert_outcomes(student, LEAF, says(leaf=(*OWN, *others)))


@pytest.mark.points(10)
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint("saved_tensors_hooks(pack, unpack) calls pack with each tensor that is saved.")
def test_saved(student: Student) -> None:
    """For an x that is a result it says "needed" where the graph of y has saved x, else "safe"."""
    right = says(needed=(*OWN, *OTHERS), safe=NOTHING)
    for like in (MATRIX, MATRIX.float()):
        assert_outcomes(student, RESULT, right, like)
    small = says(needed=OWN[:4], safe=NOTHING[:4])
    assert_outcomes(student, RESULT, small, MATRIX[0, 0])


@pytest.mark.points(4)
@pytest.mark.requires("test_saved")
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint("Compare tensor.untyped_storage().data_ptr(): a view of x has the storage of x.")
def test_view_saved(student: Student) -> None:
    """A view of x that the graph has saved counts as x."""
    every = (*OWN_VIEWS, *OTHERS_VIEWS)
    assert_outcomes(student, RESULT, says(needed=every))
    assert_outcomes(student, DATA, says(needed=OTHERS_VIEWS, safe=OWN_VIEWS))


@pytest.mark.points(4)
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint("x.is_leaf is True for plain data, too. And x * w saves x for the gradient of w.")
def test_data(student: Student) -> None:
    """For an x that requires no gradient it says "needed" where x is saved for another's gradient."""
    assert_outcomes(student, DATA, says(needed=OTHERS, safe=(*OWN, *NOTHING)))


@pytest.mark.points(10)
@pytest.mark.requires("test_saved")
@pytest.mark.place("in_place_outcome")
@pytest.mark.hint(
    "Call neither x.add_(1) nor backward() on x: look at what is saved, which changes nothing."
)
def test_nothing_happens(student: Student) -> None:
    """Nothing happens to x, to its graph, or to any .grad."""
    for kind, text in ((RESULT, "x * w"), (DATA, "x @ m"), (LEAF, "x * w"), (RESULT, "x + w")):
        x = torch.randn(3, 4)
        report = student.run("left", kind, x, text)
        was, now = (entry(report, when, kind=dict) for when in ("before", "after"))
        right = {**was, "x": x}
        what = "what is left after one call of in_place_outcome"
        assert_equal(now, right, what=what)
    for x in laws.kinds_of(torch.randn(3, 4)):
        laws.check_changes_nothing(student, "in_place_outcome", x, student.probe("cube").made())


# --- sgd_step ------------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("sgd_step")
@pytest.mark.hint("with torch.no_grad(): p -= lr * p.grad, for each p that has a gradient.")
def test_step(student: Student) -> None:
    """Every parameter that has a gradient becomes p - lr * p.grad, without torch.optim; no other changes."""
    for lr, given in ((123.4, LISTED), (2.0, "in a generator"), (1.5, OFF)):
        right, grads = numbers(torch.float32 if lr == 2 else torch.float64)
        values = after(right, grads, -lr)
        what = f"the list of parameters, given {given}, after a step with lr={lr}"
        news = facts(stepped(student, values, grads, lr, given), "values")
        assert_close(news, right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_step")
@pytest.mark.place("sgd_step")
@pytest.mark.hint("p.sub_(...) and p -= ... work in place; p.data = ... takes other memory.")
def test_step_in_place(student: Student) -> None:
    """It is the same tensor in the same memory, still a leaf, and requires_grad is as it was."""
    seen = stepped(student, *numbers(torch.float64), 0.5)
    what = "the list of addresses of the parameters' memory, which a step in place does not change,"
    assert_equal(facts(seen, "storage"), facts(seen, "storage", seen.before), what=what)
    for fact in ("leaf", "requires_grad"):
        right = facts(seen, fact, seen.before)
        assert_equal(facts(seen, fact), right, what=f"{fact} of the parameters after the step")


@pytest.mark.points(2)
@pytest.mark.requires("test_step")
@pytest.mark.place("sgd_step")
@pytest.mark.hint("lr * p.grad is a new tensor; p.grad.mul_(lr) and zero_grad change the gradient.")
def test_step_leaves_gradients(student: Student) -> None:
    """Every .grad is as it was, and so are grad mode and the random states."""
    made = student.made("parameters", *numbers(torch.float64))
    laws.check_changes_nothing(student, "sgd_step", made, 0.1, allow=("values",))
    mode = stepped(student, *numbers(torch.float64), 0.1, OFF).value
    assert_equal(mode, False, what="grad mode after a step while it was off")


@pytest.mark.points(13)
@pytest.mark.requires("test_step")
@pytest.mark.place("sgd_step")
@pytest.mark.hint("p.data hides the change from autograd; p.sub_(...) under no_grad does not.")
def test_step_is_noticed(student: Student) -> None:
    """Backward through an older graph that needs the old value raises autograd's own error."""
    p, g = torch.randn(3, 2).double() + 3, torch.randn(3, 2).double()
    seen = student.run("older_graph", p, g, 0.5)
    if not isinstance(seen, str):
        assert_tensor(seen, shape=p.shape, dtype=p.dtype, what="the gradient of the older graph")
        new = "at the new value " if torch.allclose(seen, 2 * (p - 0.5 * g)) else ""
        told = f"The older graph needs the old value, and gave a gradient {new}without a word."
        told += " Change the parameter itself under no_grad, not p.data or a copy."
        raise AssertionError(told)
    told = f"Backward through the older graph raised {seen[:80]}, not autograd's own error."
    assert "modified by an inplace operation" in seen, told


# --- exponential_average -------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("exponential_average")
@pytest.mark.hint("averages = [x[0]], then momentum * averages[-1] + (1 - momentum) * row.")
def test_average(student: Student) -> None:
    """out[0] is x[0], out[t] is momentum * out[t - 1] + (1 - momentum) * x[t]."""
    shapes = [(6, 3), (5,), (4, 2, 3), (1, 2), (60, 2), (4, 3), (4, 3)]
    for shape, m in zip(shapes, (0.9, 0.25, 0.5, 0.7, 0.987, 0, 1), strict=True):
        x = torch.randn(shape, dtype=torch.float64)
        laws.check_float64(
            student.function("exponential_average")(x, m),
            averaged(x, m),
            what=f"the average of an x of shape {shape} with momentum {m}",
        )


@pytest.mark.points(18)
@pytest.mark.requires("test_average")
@pytest.mark.place("exponential_average")
@pytest.mark.hint("No detach, .data, .item() or no_grad: each state is a tensor of the graph.")
def test_average_gradient(student: Student) -> None:
    """Gradients reach x through every step."""
    for shape, m in (((6, 3), 0.9), ((5,), 0.25), ((1, 2), 0.5), ((4, 2), 0.0)):
        x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
        y = student.function("exponential_average")(x, m)
        right = lambda x, m=m: averaged(x, m)  # noqa: E731 (as short as the mistake)
        laws.check_gradients(y, {"x": x}, right, what="the average")


@pytest.mark.points(3)
@pytest.mark.requires("test_average")
@pytest.mark.place("exponential_average")
@pytest.mark.hint("x[0] is a view of x: changing it in place changes x. Take x[0].clone().")
def test_average_leaves_x(student: Student) -> None:
    """x stays as it is, be it data, a leaf or a result, and the result shares no memory with x."""
    for momentum in (0.5, 0.0, 1.0):
        for rows in (4, 1):
            for x in laws.kinds_of(torch.randn(rows, 3).double()):
                laws.check_changes_nothing(student, "exponential_average", x, momentum)
                laws.check_shares_no_memory(student, "exponential_average", x, momentum)


@pytest.mark.points(2)
@pytest.mark.requires("test_average")
@pytest.mark.place("exponential_average")
@pytest.mark.hint("torch.stack of an empty list raises, and so does x[0] of an empty x.")
def test_average_shapes(student: Student) -> None:
    """Any shape behind steps is fine, size 0 too, in both dtypes and any layout, and steps may be 0."""
    average, what = student.function("exponential_average"), "the average"
    shapes: list[tuple[int, ...]] = [(0,), (0, 3), (3, 0), (1,), (2, 3, 2)]
    for momentum in (0.5, 0, 1.0):
        laws.check_shapes(student, average, shapes, momentum, what=what)
    laws.check_shapes(student, average, [(1,), (2, 3, 2)], 0.5, gradients=True, what=what)
    laws.check_dtypes(student, average, torch.randn(0, 4), 0.5, what=what)
    laws.check_layouts(student, average, torch.randn(4, 2, 3), 0.5, what=what)


@pytest.mark.points(2)
@pytest.mark.place("exponential_average")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint('First of all: if not 0 <= momentum <= 1: raise ValueError("momentum ...")')
def test_average_errors(student: Student) -> None:
    """A momentum outside 0..1 is a ValueError that names momentum."""
    x = torch.randn(3, 2)
    wrong = [(x, m) for m in (-1e-6, 1 + 1e-6, -1, 2, 1e9)]
    for momentum in (1e-9, 1 - 1e-9):
        laws.check_errors(student, "exponential_average", {"momentum": wrong}, fine=(x, momentum))


# --- the right answers -----------------------------------------------------------------------------


def says(**forwards: Iterable[str]) -> dict[str, str]:
    """The outcome of each forward, by its text."""
    return {text: outcome for outcome, texts in forwards.items() for text in texts}


def assert_outcomes(
    student: Student,
    kind: str,
    right: dict[str, str],
    like: Tensor = MATRIX,
) -> None:
    """What in_place_outcome says for an x of this kind, asked in a drawn order among those of all kinds."""
    x = torch.rand_like(like) + 0.5
    questions = [(one, text) for one in (LEAF, RESULT, DATA) for text in right]
    random.shuffle(questions)
    said = entry(student.run("outcomes", x, questions), kind=list, count=len(questions))
    outcome = dict(zip(questions, said, strict=True))
    what = f"in_place_outcome(x, lambda x: ...), by the forward, for an x that is {kind},"
    assert_equal({text: outcome[kind, text] for text in right}, right, what=what)


def numbers(dtype: torch.dtype) -> tuple[list[Tensor], list[Tensor | None]]:
    """Values of parameters, one of which is not contiguous, and gradients, one of which is missing."""
    values = [torch.randn(shape, dtype=dtype) for shape in ((3, 2), (4,), (2, 3), (), (2, 1, 2))]
    values[2] = values[2].t()
    return values, [None if i == 1 else torch.randn_like(value) for i, value in enumerate(values)]


def after(values: list[Tensor], grads: list[Tensor | None], lr: float) -> list[Tensor]:
    return [v if g is None else v - lr * g for v, g in zip(values, grads, strict=True)]


def stepped(
    student: Student,
    values: list[Tensor],
    grads: list[Tensor | None],
    lr: float,
    given: str = LISTED,
) -> laws.Observation:
    """The parameters before and after one step."""
    made = student.made("parameters", values, grads)
    if given == LISTED:
        return laws.observe(student, "sgd_step", made, lr).checked()
    return laws.observe(student, student.probe("step"), made, lr, given).checked()


def facts(seen: laws.Observation, fact: str, when: Any = None) -> list[Any]:
    """A fact of each parameter but the last, which is frozen."""
    items = entry((when or seen.after)(0, "items"), kind=list)
    return [entry(item, fact) for item in items[:-1]]


def averaged(x: Tensor, m: float) -> Tensor:
    rows = [x[0]]
    for row in x[1:]:
        state = rows[-1]
        rows.append(m * state + (1 - m) * row)
    return torch.stack(rows)
