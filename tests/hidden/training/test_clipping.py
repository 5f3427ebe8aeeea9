"""What total_norm, both ways of clipping and train_step promise, sentence by sentence."""

from __future__ import annotations

import itertools
import math
import runpy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

Batch = tuple[Tensor, Tensor]
Case = tuple[list[Tensor], list[Any]]  # the values of parameters, and their gradients

DTYPES = (torch.float64, torch.float32)
FORMS = ("list", "tuple", "generator")
NORMS = (2, 1, 3, 1.5, math.inf)
BANNED, WHY = ["torch.nn.utils.clip_grad."], "write the norm and the clipping yourself"
# What the probe does with the student's code it also does, here, with code that is right.
PROBE = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("probe_clipping.py"))))
BAD = {"an inf": math.inf, "a -inf": -math.inf, "a NaN": math.nan}


@pytest.mark.points(8)
@pytest.mark.place("total_norm")
@pytest.mark.hint("Add the squares of all entries of all gradients, then take the root.")
def test_norm(student: Student) -> None:
    """The norm is the 2-norm of all gradients as one vector."""
    given = student.made("parameters", *plain())
    laws.check_not_used(student, "total_norm", given, functions=BANNED, why=WHY)
    for size in (1.0, 100.0):
        check_norm(student, plain(size), 2)


@pytest.mark.points(5)
@pytest.mark.place("total_norm")
@pytest.mark.hint("Add |entry| ** p over all gradients, then take the p-th root; inf: the largest.")
def test_norm_types(student: Student) -> None:
    """norm_type is any p from 1 on, or inf."""
    given = student.made("parameters", *plain())
    laws.check_not_used(student, "total_norm", given, 3, functions=BANNED, why=WHY)
    for p in NORMS:
        check_norm(student, plain(), p)


@pytest.mark.points(2)
@pytest.mark.place("total_norm")
@pytest.mark.hint("torch.linalg.vector_norm gives a 0-d tensor of the dtype of its argument.")
def test_kind_of_norm(student: Student) -> None:
    """The norm is a 0-d tensor of the gradients' dtype, and 0 where there is no gradient."""
    for dtype in DTYPES:
        norm = student.function("total_norm")(student.made("parameters", *new(dtype)))
        assert_tensor(norm, shape=(), dtype=dtype, what="the norm")
    values, _ = new()
    for form, count in (("list", 0), ("generator", 3)):
        given = student.made("parameters", values[:count], [None] * count, form)
        check_zero(student.function("total_norm")(given))


@pytest.mark.points(4)
@pytest.mark.place("total_norm")
@pytest.mark.hint("Skip a .grad that is None, and flatten with reshape, which takes any strides.")
def test_norm_of_anything(student: Student) -> None:
    """Parameters come in any iterable, missing gradients add nothing, and nothing is changed."""
    values, (first, *others) = new()
    lists = [None, *others], [first, None, None, *others[2:]], [first, *[None] * 4]
    for form, gradients in zip(FORMS, lists, strict=True):
        check_norm(student, (values, gradients), 2, form)
    for p in (2, math.inf):
        laws.check_changes_nothing(student, "total_norm", student.made("parameters", *new()), p)


@pytest.mark.points(3)
@pytest.mark.place("total_norm")
@pytest.mark.hint("torch.stack and its max() keep NaN; Python's max loses it.")
def test_norm_not_finite(student: Student) -> None:
    """Inf and NaN come through."""
    for name, (p, i) in itertools.product(BAD, ((2, 0), (3, 1), (math.inf, 0), (math.inf, -1))):
        case = spoiled(name, i)
        norm = number(student.function("total_norm")(student.made("parameters", *case), p))
        assert_close(norm, norm_of(case[1], p), what=f"the {p}-norm of gradients with {name}")


@pytest.mark.points(11)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("p.grad.mul_(max_norm / norm) for every gradient, with the norm of all of them.")
def test_clips(student: Student) -> None:
    """Gradients above max_norm are all multiplied by max_norm / norm."""
    given = student.made("parameters", *plain())
    laws.check_not_used(student, "clip_grad_norm_", given, 1.0, functions=BANNED, why=WHY)
    for factor in (0.3, 0.9, 0.01):
        case = plain(10.0)
        check_clipped(student, case, float(norm_of(case[1], 2)) * factor, 2, rtol=1e-3)


@pytest.mark.points(7)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("Make a list of the parameters first, and hand norm_type on to total_norm.")
def test_clips_anything(student: Student) -> None:
    """So are those of any iterable, of any strides and dtype, by any norm."""
    for form, factor in zip(FORMS, (0.3, 0.9, 0.01), strict=True):
        for case, p, _ in cases((factor,)):
            check_clipped(student, case, float(norm_of(case[1], p)) * factor, p, form)


@pytest.mark.points(5)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("Keep the norm that total_norm gave, and return it as it is.")
def test_returns_the_norm_before(student: Student) -> None:
    """The result is the norm before clipping, as total_norm returns it."""
    for factor in (0.25, 3.0, math.inf):
        case = plain()
        right = norm_of(case[1], 2)
        norm = clipped(student, "clip_grad_norm_", case, float(right) * factor)["value"]
        assert_tensor(norm, shape=(), dtype=torch.float32, what="the returned norm")
        assert_close(norm, right.float(), what="the returned norm", rtol=1e-5)
    given = student.made("parameters", new()[0], [None] * 5, "generator")
    check_zero(student.function("clip_grad_norm_")(given, 1.0))


@pytest.mark.points(4)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.word("code that does nothing leaves them alone, too")
@pytest.mark.hint("if norm > max_norm: p.grad.mul_(factor). Otherwise nothing is to do.")
def test_leaves(student: Student) -> None:
    """Gradients whose norm is below max_norm stay as they are, bit for bit."""
    zeros: Any = (plain(0.0), 1.0)
    for case, factor in [*((plain(1e-3), f) for f in (1.01, 5.0, math.inf)), zeros]:
        norm = float(norm_of(case[1], 2))
        limit = norm * factor or 1.0
        after = clipped(student, "clip_grad_norm_", case, limit)["gradients"]
        what = f"the list of gradients of norm {norm:.3g} after clipping to {limit:.3g}"
        assert_equal(after, case[1], what=what)


@pytest.mark.points(4)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.word("the sandbox says which tensors are the same objects")
@pytest.mark.hint("p.grad.mul_(factor) works in place; p.grad = p.grad * factor is another tensor.")
def test_in_place(student: Student) -> None:
    """Each .grad stays the same tensor object, and parameters keep their values."""
    check_in_place(student, "clip_grad_norm_")


@pytest.mark.points(4)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("Check max_norm, measure, raise if asked and not norm.isfinite(), and then clip.")
def test_clip_errors(student: Student) -> None:
    """With error_if_nonfinite a norm that is not finite is an error, and so is a max_norm of 0."""
    name, error = "clip_grad_norm_", RuntimeError
    for bad, p, limit in zip(BAD, (2, 1, math.inf), (1.0, math.inf, 1.0), strict=True):
        case = spoiled(bad, -1)
        call = f"clip_grad_norm_ of gradients with {bad}, and with error_if_nonfinite=True,"
        given, right = student.made("parameters", *case), norm_of(case[1], p)
        laws.check_changes_nothing(student, name, given, limit, p, True, call=call, raises=error)
        norm = number(clipped(student, name, case, limit, p)["value"])
        assert_close(norm, right, what=f"the returned {p}-norm of gradients with {bad}")
    check_clipped(student, plain(), 0.5, 2, "list", True, rtol=1e-3)
    check_limit(student, name, "max_norm")


@pytest.mark.points(6)
@pytest.mark.place("clip_grad_value_")
@pytest.mark.hint("p.grad.clamp_(-clip_value, clip_value), for each gradient.")
def test_values(student: Student) -> None:
    """Every entry is clamped to -clip_value ... clip_value, NaN stays NaN, None is returned."""
    name = "clip_grad_value_"
    given = student.made("parameters", *new())
    laws.check_not_used(student, name, given, 1.0, functions=BANNED, why=WHY)
    limits = ((0.75, "generator"), (2, "list"), (1e9, "tuple"), (math.inf, "list"))
    for (limit, form), dtype in itertools.product(limits, DTYPES):
        case = new(dtype)
        case[1][0][:3] = torch.tensor([math.inf, -math.inf, math.nan])
        right = mapped(case, partial(torch.clamp, min=-limit, max=limit))
        report = clipped(student, name, case, limit, form=form)
        what = f"the list of gradients clamped to {limit}"
        assert_close(report["gradients"], right, what=what)
        assert report["value"] is None, "The result should be None."


@pytest.mark.points(2)
@pytest.mark.requires("test_values")
@pytest.mark.place("clip_grad_value_")
@pytest.mark.hint("clamp_, not clamp; and if clip_value <= 0: raise ValueError(...) that names it.")
def test_values_in_place(student: Student) -> None:
    """Each .grad stays the same object; a clip_value of 0 or below is a ValueError that names it."""
    check_in_place(student, "clip_grad_value_")
    check_limit(student, "clip_grad_value_", "clip_value")


@pytest.mark.points(12)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, forward, loss, backward, clip, step, in this order.")
def test_steps(student: Student) -> None:
    """A step is the optimizer's, with gradients that are clipped."""
    weights, batches = new_weights(), [new_batch(n) for n in (4, 1, 3)]
    given = *live(student, weights), *batches[0]
    laws.check_not_used(student, "train_step", *given, 0.1, functions=BANNED, why=WHY)
    norms = sorted(every("value", simulate(weights, batches, math.inf)))
    limits = norms[0] / 4, norms[-1] * 0.8, norms[-1] * 1e4, math.inf  # clip each, some, none
    for limit, stale in zip(limits, (0.0, 70.0, 0.0, 0.0), strict=True):
        check_steps(student, weights, batches, limit, stale=stale)


@pytest.mark.points(4)
@pytest.mark.place("train_step")
@pytest.mark.hint("norm.item() of what clip_grad_norm_ returned.")
def test_step_returns_the_norm(student: Student) -> None:
    """The result is the norm before clipping, a Python float."""
    weights, batches = new_weights(), [new_batch(n) for n in (4, 1, 3)]
    right = simulate(weights, batches, math.inf)
    wanted = every("value", right)
    for limit in (min(wanted) / 4, max(wanted) * 2):
        # Each batch begins with the same weights, so that only the norm of this step counts.
        reports = [trained(student, weights, [batch], limit)[0] for batch in batches]
        alone = [simulate(weights, [batch], limit)[0] for batch in batches]
        norms = [entry(report, "value", kind=float) for report in reports]
        what = f"the list of the results of steps with max_norm={limit:.3g}"
        assert_close(norms, every("value", alone), what=what, rtol=1e-5)


@pytest.mark.points(8)
@pytest.mark.place("train_step")
@pytest.mark.hint("if math.isfinite(norm): optimizer.step(). The loss may be finite all the same.")
def test_skips(student: Student) -> None:
    """A step whose norm is inf or NaN is skipped, its norm returned; the next works as ever."""
    x, y = new_batch(1)
    steep = y * torch.tensor([1.0, 1.0, 0.0])
    for words, bad in {
        "a finite loss and infinite gradients": (x.abs() + 0.5, steep),
        "a finite loss and NaN gradients": (x * 0, steep),
        "a NaN loss": (x, y * math.nan),
    }.items():
        weights, told = new_weights(), f"The step has {words}: it should be skipped."
        given = live(student, weights)
        laws.check_restores(student, "train_step", *given, *bad, 1.0, told=told)
        steps = trained(student, weights, [bad, new_batch(2), bad, bad, new_batch(4)], 0.25)
        values = [entry(step, "value", kind=float) for step in steps]
        finite = [math.isfinite(value) for value in values]
        told = "The result of a skipped step is its norm, inf or NaN; that of the others is finite."
        assert finite == [False, True, False, False, True], told
        before, first, second, third, last = (entry(step, "weights") for step in steps)
        assert_equal(
            [before, second, third], [weights, first, first], what="the list of all weights"
        )
        told = "The step after a skipped one is skipped, too: it should work as ever."
        moved = [laws.same(first, weights), laws.same(last, third)]
        assert moved == [False, False], told
        ends = [
            torch.isfinite(assert_tensor(row, shape=weights.shape)).all() for row in (first, last)
        ]
        assert all(ends), "After a step that follows a skipped one, weights are not finite."


@pytest.mark.points(2)
@pytest.mark.place("train_step")
@pytest.mark.hint(
    "Parameters without influence on the loss have no gradient: skip a .grad of None."
)
def test_parts_of_a_model(student: Student) -> None:
    """Parameters may be frozen, or have no influence on the loss."""
    weights, batches = new_weights(), [new_batch(n) for n in (4, 1, 3)]
    for limit in (0.25, math.inf):
        check_steps(student, weights, batches, limit, whole=False)


@pytest.mark.points(2)
@pytest.mark.place("train_step")
@pytest.mark.hint("No train() and no eval() in here, and one call of the model.")
def test_one_forward_pass(student: Student) -> None:
    """There is one forward pass, and the model's mode is left as it is."""
    for training in ([], ["", "0", "1", "2"], ["0"], ["", "2"]):
        modes = [name in training for name in ("", "0", "1", "2")]
        (report,) = trained(student, new_weights(), [new_batch(3)], 1.0, training=training)
        assert_equal(entry(report, "forwards"), 1, what="the number of forward passes")
        what = "the list of the modes of the model's parts afterwards"
        assert_equal(entry(report, "after"), modes, what=what)


# --- gradients -----------------------------------------------------------------------------------


def new(dtype: torch.dtype = torch.float64, size: float = 3.0) -> Case:
    """Parameters and gradients: contiguous, transposed, None, 0-d and sliced, with sums above 0 and
    a largest magnitude below it."""
    values = [torch.randn(shape, dtype=dtype) for shape in ((4,), (3, 4), (2,), (), (2, 3))]
    shapes = ((4,), (4, 3), (), (2, 6))
    a, b, c, d = (size * torch.rand(shape, dtype=dtype) for shape in shapes)
    b[1, 2], d[1, 2] = -2 * size, -size / 2
    return values, [a, b.T, None, c, d[:, ::2]]


def plain(size: float = 3.0) -> Case:
    """Parameters and gradients in float32, each of them contiguous, with sums above 0 and a
    largest magnitude below it."""
    values = [torch.randn(shape) for shape in ((4,), (3, 4), (2, 3))]
    gradients = [size * torch.rand(value.shape) for value in values]
    gradients[1][1, 2], gradients[2][0, 1] = -2 * size, -size / 2
    return values, gradients


def number(value: Any) -> Any:
    """A tensor with one entry or a number, as a 0-d float64 tensor; anything else as it is.

    What kind of number a norm should be is judged by a test of its own.
    """
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.detach().double().reshape(())
    return torch.tensor(value).double() if isinstance(value, float) else value


def cases(factors: Sequence[float]) -> list[tuple[Case, float, float]]:
    """A case in one of the two dtypes, a norm and a factor: each norm with each factor."""
    pairs = list(itertools.product(NORMS, factors))
    return [(new(DTYPES[i % 2], 3.0), *pair) for i, pair in enumerate(pairs)]


def spoiled(name: str, place: int) -> Case:
    """A case with one entry that is not finite, in one of the gradients."""
    values, gradients = new()
    gradient = [gradient for gradient in gradients if gradient is not None][place]
    gradient[(-1,) * gradient.dim()] = BAD[name]
    return values, gradients


def mapped(case: Case, change: Callable[[Tensor], Any]) -> list[Any]:
    return [None if gradient is None else change(gradient) for gradient in case[1]]


def changed(case: Case, factor: float) -> list[Any]:
    return mapped(case, lambda gradient: gradient * factor)


def norm_of(tensors: list[Any], p: float) -> Tensor:
    vector = torch.cat([tensor.flatten() for tensor in tensors if tensor is not None])
    norm: Tensor = torch.linalg.vector_norm(vector.double(), p)
    return norm  # in float64: number() makes the student's norm comparable


def check_norm(student: Student, case: Case, p: float, form: str = "list") -> None:
    """The norm is right."""
    gradients = case[1]
    kept = [gradient for gradient in gradients if gradient is not None]
    vector = torch.cat([gradient.flatten() for gradient in kept])
    vector = vector.double()
    more = () if form == "generator" else (p,)  # without it, norm_type is 2
    norm = number(student.function("total_norm")(student.made("parameters", *case, form), *more))
    what = f"the {p}-norm of the gradients of a {form} of parameters"
    assert_close(norm, norm_of(gradients, p), what=what, rtol=1e-5)


def check_zero(norm: Any) -> None:
    """A 0-d zero of any float dtype."""
    norm = assert_tensor(norm, shape=(), what="the norm where there is no gradient")
    assert norm.dtype.is_floating_point, f"The norm without gradients has dtype {norm.dtype}."
    assert_close(norm, torch.zeros((), dtype=norm.dtype), what="the norm without gradients")


def clipped(student: Student, name: str, case: Case, *more: Any, form: str = "list") -> Any:
    report = student.run("clipped", name, *case, form, *more)
    return {key: entry(report, key) for key in ("value", "gradients", "same")}


def check_clipped(
    student: Student, case: Case, limit: float, p: float, form: str = "list", *more: Any,
    rtol: float = 1e-5,
) -> None:  # fmt: skip
    """The gradients are shortened rightly."""
    _values, gradients = case

    def to(norm: Any) -> float:
        return limit / max(float(norm), limit)

    what = f"the list of the gradients after clipping their {p}-norm (of a {form}) to {limit:.4g}"
    after = clipped(student, "clip_grad_norm_", case, limit, p, *more, form=form)["gradients"]
    right = changed(case, to(norm_of(gradients, p)))
    assert_close(after, right, what=what, rtol=rtol)


def check_in_place(student: Student, name: str) -> None:
    """Clipping changes gradients in place, and nothing else."""
    told = "A .grad is another tensor than before: change it in place, as mul_ and clamp_ do."
    same = entry(clipped(student, name, plain(), 0.5), "same", kind=list, count=3)
    assert all(one is True for one in same), told
    given = student.made("parameters", *plain())
    laws.check_changes_nothing(student, name, given, 0.5, allow=["grad"])


def check_limit(student: Student, name: str, argument: str) -> None:
    """A limit has to be above 0."""
    given = student.made("parameters", *plain())
    calls = [(given, 0), (given, 0.0), (given, -1e-9), (given, -2.0)]
    laws.check_errors(student, name, {argument: calls}, fine=(given, 1e-9))


# --- steps ---------------------------------------------------------------------------------------


def new_weights() -> Tensor:
    return torch.randn(24).double()


def new_batch(rows: int) -> Batch:
    """Inputs, and targets whose column 2 makes the loss smooth."""
    ones = torch.ones(rows, 1).double()
    return torch.randn(rows, 3).double(), torch.cat([3 * torch.randn(rows, 2), ones], 1)


def live(student: Student, weights: Tensor) -> tuple[Any, ...]:
    model = student.made("model", weights)
    return model, student.made("loss_fn"), student.made("optimizer", model)


def simulate(weights: Tensor, batches: list[Batch], limit: float, **options: Any) -> list[Any]:
    """A training: what each step returns and leaves."""

    def train_step(model: Any, loss_fn: Any, sgd: Any, x: Any, y: Any, limit: float) -> float:
        sgd.zero_grad()
        loss_fn(model(x), y).backward()
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), limit))
        if math.isfinite(norm):
            sgd.step()
        return norm if math.isfinite(norm) else math.inf

    module = SimpleNamespace(train_step=train_step)
    return list(PROBE.trained(module, weights, batches, limit, **options))


def every(key: str, steps: list[Any]) -> list[Any]:
    return [step[key] for step in steps]


def trained(student: Student, weights: Tensor, batches: Any, limit: float, **options: Any) -> Any:
    reports = student.run("trained", weights, batches, limit, **options)
    return entry(reports, kind=list, count=len(batches))


def check_steps(
    student: Student, weights: Tensor, batches: list[Batch], limit: float, **options: Any
) -> None:
    """What each step leaves is right."""
    reports = trained(student, weights, batches, limit, **options)
    right = simulate(weights, batches, limit, **options)

    what = f"the list of all weights after each step with max_norm={limit:.3g}"
    actual = [entry(report, "weights") for report in reports]
    assert_close(actual, every("weights", right), what=what, rtol=1e-3, atol=1e-4)
