"""Tests of total_norm, clip_grad_norm_, clip_grad_value_ and train_step."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import (
    Cases,
    Draw,
    any_dtype,
    assert_tensor,
    entry,
    exactly,
    laws,
    promise,
    within,
)
from grader.judge.student import Student

Batch = tuple[Tensor, Tensor]

NORM_TOLERANCE = 1e-5
# An epsilon added to the norm may make this difference after some steps.
WEIGHTS: Any = {"rtol": 1e-3, "atol": 1e-4}
BANNED: Any = {
    "functions": ["torch.nn.utils.clip_grad."],
    "why": "write the norm and the clipping yourself",
}
# Below the norm of all drawn gradients, for any norm_type.
LIMIT = 2.0
# Above the gradients' norm for a batch of SMALL targets, and below their norm for LARGE targets.
STEP_LIMIT, SMALL, LARGE = 5.0, 0.3, 40.0


# --- total_norm ----------------------------------------------------------------------------------


@promise(
    "total_norm",
    points=8,
    hint="Add the squares of all entries of all gradients, then take the root.",
)
def test_norm(code: Student, draw: Draw) -> Cases:
    """The norm is the 2-norm of all gradients as one vector."""
    given = code.made("parameters", plain(draw))
    laws.check_not_used(code, "total_norm", given, **BANNED)
    yield "the 2-norm", norm_of(code, plain(draw), 2)


@promise(
    "total_norm",
    points=5,
    hint="Add |entry| ** p over all gradients, then take the p-th root; inf: the largest.",
)
def test_norm_types(code: Student, draw: Draw) -> Cases:
    """norm_type may be any p from 1 upward, or inf."""
    given = code.made("parameters", plain(draw))
    laws.check_not_used(code, "total_norm", given, 3, **BANNED)
    for p in (1, 3, math.inf):
        yield f"the {p}-norm", norm_of(code, plain(draw), p)


@promise(
    "total_norm",
    points=2,
    hint="torch.linalg.vector_norm gives such a tensor; without a gradient torch.zeros(()).",
)
def test_kind_of_norm(code: Student, draw: Draw) -> Cases:
    """The norm is a 0-d tensor of the gradients' dtype, and a 0-d zero if there is no gradient."""
    total_norm = code.function("total_norm")
    for dtype in (torch.float32, torch.float64):
        gradients = [gradient.to(dtype) for gradient in plain(draw)]
        norm = total_norm(code.made("parameters", gradients))
        yield "the norm", within(norm, rtol=NORM_TOLERANCE)
    what = "the norm without gradients"
    zero = assert_tensor(total_norm(code.made("parameters", [None, None])), what=what)
    assert zero.is_floating_point(), f"The norm without gradients has the dtype {zero.dtype}."
    yield what, any_dtype(zero)


@promise(
    "total_norm",
    points=3,
    hint="Skip a .grad that is None, and flatten with reshape, which takes any strides.",
)
def test_norm_of_anything(code: Student, draw: Draw) -> Cases:
    """Parameters may be a generator, some without a gradient; gradients may have any strides."""
    norm = code.function("total_norm")(code.made("generator", mixed(draw)))
    yield "the 2-norm", number(norm)


@promise(
    "total_norm",
    hint="Look at the gradients, and leave them: a .grad of None stays None.",
    word="the sandbox says what was left alone",
)
def test_norm_changes_nothing(student: Student) -> None:
    """Measuring changes nothing."""
    laws.check_changes_nothing(student, "total_norm", student.made("parameters", mixed(Draw(0))))


@promise(
    "total_norm",
    points=3,
    hint="torch.stack and its max() keep NaN; Python's max loses it.",
)
def test_norm_not_finite(code: Student, draw: Draw) -> Cases:
    """If a gradient has an inf or NaN, so has the norm."""
    yield "the 2-norm of gradients with -inf", norm_of(code, spoiled(draw, -math.inf), 2)
    yield "the inf-norm of gradients with NaN", norm_of(code, spoiled(draw, math.nan), math.inf)


# --- clip_grad_norm_ -----------------------------------------------------------------------------


@promise(
    "clip_grad_norm_",
    points=11,
    hint="p.grad.mul_(max_norm / norm) for every gradient, with the norm of all of them.",
)
def test_clips(code: Student, draw: Draw) -> Cases:
    """Gradients above max_norm are all multiplied by max_norm / norm."""
    given = code.made("parameters", plain(draw))
    laws.check_not_used(code, "clip_grad_norm_", given, 1.0, **BANNED)
    yield "the list of the gradients after clipping", clipped(code, draw, 2)


@promise(
    "clip_grad_norm_",
    points=3,
    hint="Make a list of the parameters first: a generator is used up by the norm.",
)
def test_clips_anything(code: Student, draw: Draw) -> Cases:
    """Parameters may be a generator, some without a gradient; gradients may have any strides."""
    after = code.run("clipped_from_a_generator", mixed(draw), LIMIT)
    yield "the list of the gradients after clipping", within(after, rtol=NORM_TOLERANCE)


@promise(
    "clip_grad_norm_",
    points=2,
    hint="Hand norm_type on to total_norm.",
)
def test_clips_by_any_norm(code: Student, draw: Draw) -> Cases:
    """The clipped norm is the one of norm_type."""
    for p in (1, math.inf):
        yield f"the list of the gradients after clipping their {p}-norm", clipped(code, draw, p)


@promise(
    "clip_grad_norm_",
    points=5,
    hint="Keep the norm that total_norm gave, and return it as it is.",
)
def test_returns_the_norm_before(code: Student, draw: Draw) -> Cases:
    """The result is the norm before clipping, as total_norm returns it."""
    for limit in (LIMIT, 1e3):
        norm = entry(code.run("clipped", "clip_grad_norm_", plain(draw), limit), "value")
        yield f"the norm that clip_grad_norm_ with {limit} returns", within(norm, rtol=1e-5)


@promise(
    "clip_grad_norm_",
    points=4,
    hint="if norm > max_norm: p.grad.mul_(factor). Otherwise nothing is to do.",
    word="code that does nothing leaves them alone, too",
)
def test_leaves(code: Student, draw: Draw) -> Cases:
    """Gradients whose norm is below max_norm stay as they are, bit for bit."""
    small = [torch.tensor([0.003, 0.0]), torch.tensor([[-0.004]])]  # of norm 0.005
    zeros = [torch.zeros(2), torch.zeros(1, 2)]
    for gradients, limit in ((small, 0.00505), (small, math.inf), (zeros, 1.0)):
        after = entry(code.run("clipped", "clip_grad_norm_", gradients, limit), "gradients")
        yield (
            f"the list of the gradients, which are short, after clipping to {limit}",
            exactly(after),
        )


@promise(
    "clip_grad_norm_",
    points=4,
    hint="p.grad.mul_(factor) works in place; p.grad = p.grad * factor is another tensor.",
    word="the sandbox says which tensors are the same objects",
)
def test_in_place(student: Student) -> None:
    """Each .grad stays the same tensor object, and parameters keep their values."""
    check_in_place(student, "clip_grad_norm_")


@promise(
    "clip_grad_norm_",
    points=3,
    hint="Measure, raise if asked and not norm.isfinite(), and then clip.",
)
def test_nonfinite_norm(code: Student, draw: Draw) -> Cases:
    """A norm that is not finite is returned; with error_if_nonfinite it raises before any change."""
    norm = entry(code.run("clipped", "clip_grad_norm_", spoiled(draw, math.inf), 1.0), "value")
    yield "the returned norm of gradients with an inf", number(norm)
    for bad in (-math.inf, math.nan):
        laws.check_changes_nothing(
            code,
            "clip_grad_norm_",
            code.made("parameters", spoiled(draw, bad)),
            1.0,
            error_if_nonfinite=True,
            call=f"clip_grad_norm_ of gradients with {bad} among them, and with error_if_nonfinite=True,",
            raises=RuntimeError,
        )
    after = clipped(code, draw, 2, error_if_nonfinite=True)
    yield "the list of the gradients after clipping with error_if_nonfinite=True", after


@promise(
    "clip_grad_norm_",
    hint="if max_norm <= 0: raise ValueError(...), with max_norm in the message.",
)
def test_max_norm(student: Student) -> None:
    """A max_norm of 0 or below is a ValueError that names it."""
    check_limit(student, "clip_grad_norm_", "max_norm")


# --- clip_grad_value_ ----------------------------------------------------------------------------


@promise(
    "clip_grad_value_",
    points=6,
    hint="p.grad.clamp_(-clip_value, clip_value), for each gradient.",
)
def test_values(code: Student, draw: Draw) -> Cases:
    """Every entry is clamped to -clip_value ... clip_value, NaN stays NaN, None is returned."""
    given = code.made("parameters", plain(draw))
    laws.check_not_used(code, "clip_grad_value_", given, 1.0, **BANNED)
    gradients = mixed(draw)
    gradients[0][:3] = torch.tensor([math.inf, -math.inf, math.nan])
    report = code.run("clipped", "clip_grad_value_", gradients, 0.75)
    yield "the list of the gradients clamped to 0.75", entry(report, "gradients")
    yield "the result", entry(report, "value")


@promise(
    "clip_grad_value_",
    hint="p.grad.clamp_ works in place; p.grad = p.grad.clamp(...) is another tensor.",
    after="test_values",
)
def test_values_in_place(student: Student) -> None:
    """Each .grad stays the same tensor object, and parameters keep their values."""
    check_in_place(student, "clip_grad_value_")


@promise(
    "clip_grad_value_",
    hint="if clip_value <= 0: raise ValueError(...), with clip_value in the message.",
    after="test_values",
)
def test_clip_value(student: Student) -> None:
    """A clip_value of 0 or below is a ValueError that names it."""
    check_limit(student, "clip_grad_value_", "clip_value")


# --- train_step ----------------------------------------------------------------------------------


@promise(
    "train_step",
    points=12,
    hint="zero_grad, forward, loss, backward, clip, step, in this order.",
)
def test_steps(code: Student, draw: Draw) -> Cases:
    """A step is the optimizer's step with clipped gradients."""
    model, batch = code.made("model", draw.seed()), new_batch(draw, 4)
    given = model, code.made("loss_fn"), code.made("optimizer", model), *batch
    laws.check_not_used(code, "train_step", *given, 0.1, **BANNED)
    batches = [new_batch(draw, 4, LARGE), new_batch(draw, 1, SMALL), new_batch(draw, 3, LARGE)]
    report = code.run("trained", code.made("model", draw.seed()), batches, STEP_LIMIT)
    what = f"the list of all weights, after each step with max_norm={STEP_LIMIT},"
    yield what, within(entry(report, "weights"), **WEIGHTS)


@promise(
    "train_step",
    points=4,
    hint="norm.item() of the result of clip_grad_norm_.",
)
def test_step_returns_the_norm(code: Student, draw: Draw) -> Cases:
    """The result is the norm before clipping, a Python float."""
    batches = [new_batch(draw, 4, LARGE)]
    report = code.run("trained", code.made("model", draw.seed()), batches, STEP_LIMIT)
    yield "the result of a step", within(entry(report, "values", 0), rtol=NORM_TOLERANCE)


@promise(
    "train_step",
    points=8,
    hint="if math.isfinite(norm): optimizer.step(). The loss may be finite all the same.",
)
def test_skips(code: Student, draw: Draw) -> Cases:
    """A step whose norm is inf or NaN is skipped, and its norm returned; the next step works as usual."""
    # The slope of the root is inf. If an input is 0, the gradient is inf times 0, which is NaN.
    infinite = draw.uniform(1, 3, low=0.5, high=1.5), torch.tensor([[1.0, -1.0, 0.0]])
    not_a_number = torch.zeros(1, 3), torch.tensor([[1.0, -1.0, 0.0]])
    for words, bad in (("infinite gradients", infinite), ("NaN gradients", not_a_number)):
        batches = [bad, new_batch(draw, 2), bad, bad, new_batch(draw, 4)]
        report = code.run("finite_values", code.made("model", draw.seed()), batches, 1e9)
        what = f"the list of all weights, after each step, of which 0, 2 and 3 have {words},"
        yield what, within(entry(report, "weights"), **WEIGHTS)
        yield f"the list of math.isfinite of each result, with {words},", entry(report, "values")


@promise(
    "train_step",
    points=2,
    hint="Parameters without influence on the loss have no gradient: skip a .grad of None.",
)
def test_parts_of_a_model(code: Student, draw: Draw) -> Cases:
    """Parameters may be frozen, or have no influence on the loss."""
    model = code.made("model_with_a_frozen_bias", draw.seed())
    report = code.run("trained", model, [new_batch(draw, rows) for rows in (4, 1, 3)], 0.25)
    what = "the list of all weights, after each step of a model with a frozen bias,"
    yield what, within(entry(report, "weights"), **WEIGHTS)


@promise(
    "train_step",
    points=2,
    hint="No train() and no eval() in here, and one call of the model.",
    word="the sandbox says how often and in which modes the model runs",
)
def test_one_forward_pass(code: Student, draw: Draw) -> Cases:
    """There is one forward pass, and the model's mode is left as it is."""
    for modes in ([True, False, True, False], [False, True, False, True]):
        model = code.made("model", draw.seed())
        yield "the report on a step", code.run("logged", model, new_batch(draw, 3), modes)


# --- helpers of the tests ------------------------------------------------------------------------


def plain(draw: Draw) -> list[Tensor]:
    """Gradients. Most entries are positive, and the one with the largest magnitude is negative."""
    first, second, third = (draw.uniform(*shape, high=3.0) for shape in ((4,), (3, 4), (2, 3)))
    second[1, 2] = -6.0
    third[0, 1] = -1.5
    return [first, second, third]


def mixed(draw: Draw) -> list[Any]:
    """Gradients: a contiguous one, a transposed one, None, a 0-d one and a sliced one."""
    shapes = ((4,), (4, 3), (), (2, 6))
    first, second, third, last = (draw.normal(*shape, scale=3.0) for shape in shapes)
    return [first, second.T, None, third, last[:, ::2]]


def spoiled(draw: Draw, bad: float) -> list[Tensor]:
    """Gradients, the last of which has a `bad` entry."""
    gradients = plain(draw)
    gradients[-1][1, 1] = bad
    return gradients


def number(norm: Any) -> Any:
    """A norm as a number. Another test judges its type, shape and dtype."""
    if isinstance(norm, Tensor) and norm.numel() == 1:
        norm = norm.item()
    return within(norm, rtol=NORM_TOLERANCE)


def norm_of(code: Student, gradients: list[Tensor], p: float) -> Any:
    """The p-norm from total_norm."""
    return number(code.function("total_norm")(code.made("parameters", gradients), p))


def clipped(code: Student, draw: Draw, p: float, **options: bool) -> Any:
    """The gradients after their p-norm was clipped to LIMIT."""
    report = code.run("clipped", "clip_grad_norm_", plain(draw), LIMIT, p, **options)
    return within(entry(report, "gradients"), rtol=NORM_TOLERANCE)


def check_in_place(student: Student, name: str) -> None:
    """Check that clipping changes gradients in place, and nothing else."""
    same = entry(student.run("clipped", name, plain(Draw(0)), 0.5), "same")
    told = "A .grad is another tensor than before: change it in place, as mul_ and clamp_ do."
    assert laws.same(same, [True, True, True]), told
    given = student.made("parameters", plain(Draw(0)))
    laws.check_changes_nothing(student, name, given, 0.5, allow=["grad"])


def check_limit(student: Student, name: str, limit: str) -> None:
    """Check that a limit of 0 or below is a ValueError that names it."""
    given = student.made("parameters", plain(Draw(0)))
    bad = {limit: [(given, 0.0), (given, -1.0)]}
    laws.check_errors(student, name, bad, fine=(given, 0.1))


def new_batch(draw: Draw, rows: int, scale: float = 3.0) -> Batch:
    """Inputs and targets of this scale, for which the loss is smooth."""
    targets = scale * draw.uniform(rows, 3, low=0.5, high=1.5)
    targets[:, 2] = 1.0
    return draw.normal(rows, 3), targets
