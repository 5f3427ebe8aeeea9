"""What total_norm, both ways of clipping and train_step promise, sentence by sentence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

Batch = tuple[Tensor, Tensor]
Case = tuple[list[Tensor], list[Any]]  # the values of parameters, and their gradients

DTYPES = (torch.float64, torch.float32)
FORMS = ("list", "tuple", "generator")
NORMS = (2, 1, 3, 1.5, math.inf)
BANNED, WHY = ["torch.nn.utils.clip_grad."], "write the norm and the clipping yourself"
BAD = {"an inf": math.inf, "a -inf": -math.inf, "a NaN": math.nan}


@pytest.mark.points(10)
@pytest.mark.place("total_norm")
@pytest.mark.hint("Add |entry| ** p over all gradients, then take the p-th root; inf: the largest.")
def test_norms(student: Student) -> None:
    """The norm is that of all gradients as one vector, for any p from 1 on and for inf."""
    given = student.made("parameters", *new())
    laws.check_not_used(student, "total_norm", given, functions=BANNED, why=WHY)
    for p in NORMS:
        for dtype in DTYPES:
            check_norm(student, new(dtype), p)
    for p in (2, 1, math.inf):
        check_norm(student, new(torch.float32, 3e14), p)


@pytest.mark.points(3)
@pytest.mark.requires("test_norms")
@pytest.mark.place("total_norm")
@pytest.mark.hint("Skip a .grad that is None; torch.zeros(()) is the norm if none is left.")
def test_missing_gradients(student: Student) -> None:
    """Gradients that are None add nothing, and without any the norm is a 0-d zero."""
    values, (first, *others) = new()
    lists = [None, *others], [first, None, None, *others[2:]], [first, *[None] * 4]
    for form, gradients in zip(FORMS, lists, strict=True):
        check_norm(student, (values, gradients), 2, form)
    for form, count in (("list", 0), ("generator", 3)):
        given = student.made("parameters", values[:count], [None] * count, form)
        check_zero(student.function("total_norm")(given))


@pytest.mark.points(3)
@pytest.mark.place("total_norm")
@pytest.mark.hint("Python's max loses a NaN; torch.linalg.vector_norm and torch.stack keep it.")
def test_inf_and_nan(student: Student) -> None:
    """Inf and NaN come through, whichever gradient they are in and whatever p is."""
    for name in BAD:
        for p, place in ((2, 0), (3, 1), (math.inf, 0), (math.inf, -1)):
            values, gradients = spoiled(name, place)
            given = student.made("parameters", values, gradients)
            norm, right = student.function("total_norm")(given, p), norm_of(gradients, p)
            assert_close(norm, right, what=f"the {p}-norm of gradients with {name}")


@pytest.mark.points(3)
@pytest.mark.requires("test_norms")
@pytest.mark.place("total_norm")
@pytest.mark.hint("Work under torch.no_grad(), or with p.grad.detach(), and nothing in place.")
def test_leaves_everything(student: Student) -> None:
    """The norm has no graph, also if gradients have one, and nothing is changed by it."""
    told = "The norm has a graph: compute it under torch.no_grad(), or detach the gradients."
    for p in (2, math.inf):
        laws.check_changes_nothing(student, "total_norm", student.made("parameters", *new()), p)
        given = student.made("parameters", *new(), "graph")
        seen = laws.observe(student, "total_norm", given, p).checked()
        assert seen.result("requires_grad") is False, told


@pytest.mark.points(12)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("p.grad.mul_(max_norm / norm) for every gradient, with the norm of all of them.")
def test_clips(student: Student) -> None:
    """Gradients above max_norm are all multiplied by max_norm / norm, whatever parameters is."""
    given = student.made("parameters", *new())
    laws.check_not_used(student, "clip_grad_norm_", given, 1.0, functions=BANNED, why=WHY)
    for form, factor in zip(FORMS, (0.3, 0.9, 0.01), strict=True):
        for case, p, _ in cases((factor,)):
            check_clipped(student, case, float(norm_of(case[1], p)) * factor, p, form)
    check_clipped(student, new(torch.float32, 3e14), 0.5, 2)


@pytest.mark.points(4)
@pytest.mark.requires("test_clips")
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint(
    "mul_ changes a gradient in place; p.grad = p.grad * factor makes another tensor."
)
def test_clips_in_place(student: Student) -> None:
    """Each .grad stays the same tensor object, or None, and parameters keep their values."""
    check_in_place(student, "clip_grad_norm_")


@pytest.mark.points(5)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("Keep the norm that total_norm gave, and return it as it is.")
def test_returns_the_norm_before(student: Student) -> None:
    """The result is the norm before clipping, as total_norm returns it."""
    for case, p, factor in [*cases((0.25,)), *cases((3.0, math.inf))]:
        right = norm_of(case[1], p)
        mistakes = {
            "That is the norm after clipping: return the one from before.": right * factor,
            "That is the 2-norm: norm_type is ignored.": norm_of(case[1], 2),
        }
        norm = clipped(student, "clip_grad_norm_", case, float(right) * factor, p)["value"]
        assert_close(norm, right, what=f"the returned {p}-norm", mistakes=mistakes, rtol=1e-5)
    given = student.made("parameters", new()[0], [None] * 5, "generator")
    check_zero(student.function("clip_grad_norm_")(given, 1.0))


@pytest.mark.points(5)
@pytest.mark.requires("test_clips")
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("Multiply only if norm > max_norm: a factor above 1 makes gradients longer.")
def test_leaves_short_gradients(student: Student) -> None:
    """Gradients whose norm is below max_norm are left as they are, bit for bit."""
    zeros: Any = (new(size=0.0), 2, 1.0)
    for case, p, factor in [*cases((1.01, 5.0, math.inf), 1e-3), zeros]:
        norm = float(norm_of(case[1], p))
        limit = norm * factor or 1.0
        after = clipped(student, "clip_grad_norm_", case, limit, p)["gradients"]
        longer = [None if g is None else g * (limit / max(norm, 1e-30)) for g in case[1]]
        known = {"The gradients become longer: leave them alone below max_norm.": longer}
        what = f"the list of gradients of {p}-norm {norm:.3g} after clipping to {limit:.3g}"
        assert_equal(after, case[1], what=what, mistakes=known)


@pytest.mark.points(4)
@pytest.mark.requires("test_clips")
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("if error_if_nonfinite and not norm.isfinite(): raise RuntimeError(...)")
def test_norm_is_not_finite(student: Student) -> None:
    """An inf or NaN norm is returned; with error_if_nonfinite it is an error, nothing changes."""
    name, error = "clip_grad_norm_", RuntimeError
    for bad, p, limit in zip(BAD, (2, 1, math.inf), (1.0, math.inf, 1.0), strict=True):
        case = spoiled(bad, -1)
        call = f"clip_grad_norm_ of gradients with {bad}, and with error_if_nonfinite=True,"
        given, right = student.made("parameters", *case), norm_of(case[1], p)
        laws.check_changes_nothing(student, name, given, limit, p, True, call=call, raises=error)
        norm = clipped(student, name, case, limit, p)["value"]
        assert_close(norm, right, what=f"the returned {p}-norm of gradients with {bad}")
    check_clipped(student, new(), 0.5, 2, "list", True)


@pytest.mark.points(3)
@pytest.mark.place("clip_grad_norm_")
@pytest.mark.hint("if max_norm <= 0: raise ValueError(f'max_norm must be above 0, got {max_norm}')")
def test_max_norm(student: Student) -> None:
    """A max_norm of 0 or below is a ValueError that names it."""
    check_limit(student, "clip_grad_norm_", "max_norm")


@pytest.mark.points(6)
@pytest.mark.place("clip_grad_value_")
@pytest.mark.hint("p.grad.clamp_(-clip_value, clip_value), for each gradient.")
def test_values(student: Student) -> None:
    """Every entry is clamped to -clip_value ... clip_value, NaN stays NaN, None is returned."""
    name = "clip_grad_value_"
    given = student.made("parameters", *new())
    laws.check_not_used(student, name, given, 1.0, functions=BANNED, why=WHY)
    for limit, form in ((0.75, "generator"), (2, "list"), (1e9, "tuple"), (math.inf, "list")):
        for dtype in DTYPES:
            case = new(dtype)
            case[1][0][:3] = torch.tensor([math.inf, -math.inf, math.nan])
            no_nan = [None if g is None else g.nan_to_num(0.0) for g in case[1]]
            mistakes = {
                "Entries below -clip_value are left.": clamped(case, -math.inf, limit),
                "Entries above clip_value are left.": clamped(case, -limit, math.inf),
                "NaN becomes a number: it should stay NaN.": clamped(
                    (case[0], no_nan), -limit, limit
                ),
                "Nothing is clamped.": case[1],
            }
            report = clipped(student, name, case, limit, form=form)
            right, what = clamped(case, -limit, limit), f"the list of gradients clamped to {limit}"
            assert_close(report["gradients"], right, what=what, mistakes=mistakes)
            assert report["value"] is None, "The result should be None."


@pytest.mark.points(2)
@pytest.mark.requires("test_values")
@pytest.mark.place("clip_grad_value_")
@pytest.mark.hint("clamp_, not clamp; and if clip_value <= 0: raise ValueError(...) that names it.")
def test_values_in_place(student: Student) -> None:
    """Each .grad stays the same object; a clip_value of 0 or below is a ValueError that names it."""
    check_in_place(student, "clip_grad_value_")
    check_limit(student, "clip_grad_value_", "clip_value")


@pytest.mark.points(10)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, forward, loss, backward, clip, step: in this order.")
def test_steps(student: Student) -> None:
    """Each step is that of the optimizer with the gradient of its batch, clipped to max_norm."""
    weights, batches = new_weights(), [new_batch(n) for n in (4, 1, 3)]
    given = *live(student, weights), *batches[0]
    laws.check_not_used(student, "train_step", *given, 0.1, functions=BANNED, why=WHY)
    for limit, stale in zip(limits(weights, batches), (0.0, 70.0, 0.0, 0.0), strict=True):
        check_steps(student, weights, batches, limit, stale)


@pytest.mark.points(4)
@pytest.mark.requires("test_steps")
@pytest.mark.place("train_step")
@pytest.mark.hint("float(norm) or norm.item() of what clip_grad_norm_ returns.")
def test_step_returns_the_norm(student: Student) -> None:
    """The result of a step is the norm before clipping, a float."""
    weights, batches = new_weights(), [new_batch(n) for n in (4, 1, 3)]
    for limit in limits(weights, batches):
        right = simulate(weights, batches, limit)
        after = [min(norm, limit) for norm in right["norms"]]
        mistakes = {
            "That is the norm after clipping: return the one from before.": after,
            "That is the loss: return the norm of the gradients.": right["losses"],
        }
        norms = [entry(step, "value") for step in trained(student, weights, batches, limit)]
        what = f"the list of the results of three steps with max_norm={limit:.3g}"
        assert_close(norms, right["norms"], what=what, mistakes=mistakes, rtol=1e-5)


@pytest.mark.points(8)
@pytest.mark.requires("test_steps")
@pytest.mark.place("train_step")
@pytest.mark.hint(
    "if math.isfinite(norm): optimizer.step(). Look at the norm, the loss may be fine."
)
def test_skips(student: Student) -> None:
    """A step whose norm is inf or NaN is skipped, its norm returned; the next works as ever."""
    for name, bad in bad_batches().items():
        given = *live(student, new_weights()), *bad
        told = f"The step has {name}: it should be skipped."
        laws.check_restores(student, "train_step", *given, 1.0, told=told)
        for limit in (0.25, math.inf):
            batches = [bad, new_batch(2), bad, bad, new_batch(4)]
            reports = check_steps(student, new_weights(), batches, limit)
            for report in (reports[0], reports[2]):
                value = entry(report, "value", kind=float, told="The result is no float.")
                told = f"The result is {value} for {name}: it is the norm before clipping."
                assert not math.isfinite(value), told


@pytest.mark.points(2)
@pytest.mark.requires("test_steps")
@pytest.mark.place("train_step")
@pytest.mark.hint("No train() and no eval() in here, and one call of the model.")
def test_one_forward_pass(student: Student) -> None:
    """There is one forward pass, in the mode of the model, which is left as it is."""
    for training in ([], ["", "body", "head"], ["body"], ["", "unused"]):
        modes = [name in training for name in ("", "body", "head", "unused")]
        (report,) = trained(student, new_weights(), [new_batch(3)], 1.0, training=training)
        what = "the list of the modes of the model's parts in each forward pass"
        assert_equal(entry(report, "forward"), [modes], what=what)
        what = "the list of the modes of the model's parts afterwards"
        assert_equal(entry(report, "after"), modes, what=what)


# --- gradients -----------------------------------------------------------------------------------


def new(dtype: torch.dtype = torch.float64, size: float = 3.0) -> Case:
    """Parameters, the first of which the probe freezes, and gradients: contiguous, transposed,
    None, 0-d and sliced, with sums above 0 and a largest magnitude below it."""
    values = [torch.randn(shape, dtype=dtype) for shape in ((4,), (3, 4), (2,), (), (2, 3))]
    shapes = ((4,), (4, 3), (2,), (), (2, 6))
    a, b, _, d, e = (size * torch.rand(shape, dtype=dtype) for shape in shapes)
    b[1, 2], e[1, 2] = -2 * size, -size / 2
    return values, [a, b.T, None, d, e[:, ::2]]


def cases(factors: Sequence[float], size: float = 3.0) -> list[tuple[Case, float, float]]:
    """A case in one of the two dtypes, a norm and a factor: each norm with each factor."""
    pairs = list(itertools.product(NORMS, factors))
    return [(new(DTYPES[i % 2], size), *pair) for i, pair in enumerate(pairs)]


def spoiled(name: str, place: int) -> Case:
    """A case with one entry that is not finite, in one of the gradients."""
    values, gradients = new()
    gradient = [gradient for gradient in gradients if gradient is not None][place]
    gradient[(-1,) * gradient.dim()] = BAD[name]
    return values, gradients


def changed(case: Case, change: Callable[[Tensor], Tensor]) -> list[Any]:
    return [None if gradient is None else change(gradient) for gradient in case[1]]


def clamped(case: Case, least: float, most: float) -> list[Any]:
    return changed(case, lambda gradient: gradient.clamp(least, most))


def flat(tensors: list[Any]) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in tensors if tensor is not None])


def norm_of(tensors: list[Any], p: float) -> Tensor:
    vector = flat(tensors)
    norm: Tensor = torch.linalg.vector_norm(vector.double(), p)
    return norm.to(vector.dtype)


def norms_of(tensors: list[Any], p: float) -> Tensor:
    return torch.stack([norm_of([tensor], p) for tensor in tensors if tensor is not None])


def check_norm(student: Student, case: Case, p: float, form: str = "list") -> None:
    """The norm is right; the usual mistakes have names."""
    values, gradients = case

    def mistakes() -> dict[str, Any]:
        vector, each = flat(gradients), norms_of(gradients, p)
        signed = vector.max() if p == math.inf else vector.pow(p).sum().pow(1 / p)
        wrong = {
            "the sum of the norms of the parameters: the p-th powers add up": each.sum(),
            "the largest norm of one parameter": each.max(),
            "that of the last gradient alone": each[-1],
            "that of the weights, not of their gradients": norm_of(values, p),
            "the 2-norm: norm_type is ignored": norm_of(gradients, 2),
            "without the root": vector.abs().pow(p).sum(),
            "made of entries with their signs: take the magnitudes": signed,
            "the 2-norm of the norms of the parameters": each.norm(),
        }
        return {f"Your norm is {words}.": value for words, value in wrong.items()}

    right, what = norm_of(gradients, p), f"the {p}-norm of the gradients of a {form} of parameters"
    # Without it, norm_type is 2.
    given, default = student.made("parameters", *case, form), form == "generator"
    norm = student.function("total_norm")(given, *(() if default else (p,)))
    assert_close(norm, right, what=what, mistakes=mistakes, rtol=1e-5)


def check_zero(norm: Any) -> None:
    """A 0-d zero of any float dtype."""
    norm = assert_tensor(norm, shape=(), what="the norm where there is no gradient")
    assert norm.dtype.is_floating_point, f"The norm without gradients has dtype {norm.dtype}."
    assert_close(norm, torch.zeros((), dtype=norm.dtype), what="the norm without gradients")


def clipped(student: Student, name: str, case: Case, *more: Any, form: str = "list") -> Any:
    report = student.run("clipped", name, *case, form, *more)
    return {key: entry(report, key) for key in ("value", "gradients", "same")}


def check_clipped(
    student: Student, case: Case, limit: float, p: float, form: str = "list", *more: Any
) -> None:
    """The gradients are shortened rightly; the usual mistakes have names."""
    values, gradients = case

    def to(norm: Tensor) -> float:
        return limit / max(float(norm), limit)

    nothing, own = (
        "Nothing is clipped.",
        "Each parameter is clipped on its own: one factor for all.",
    )
    generator = f"{nothing} A generator is used up by the norm: make a list of it first."
    added = "The norms of the parameters are added: use total_norm."
    wrong: dict[str, Callable[[Tensor], Tensor]] = {
        generator if form == "generator" else nothing: lambda g: g,
        own: lambda g: g * to(norm_of([g], p)),
        "The 2-norm is clipped: norm_type is ignored.": lambda g: g * to(norm_of(gradients, 2)),
        added: lambda g: g * to(norms_of(gradients, p).sum()),
        "The factor has the norm of the weights.": lambda g: g * to(norm_of(values, p)),
        "Each entry is clamped: that is clip_grad_value_.": lambda g: g.clamp(-limit, limit),
    }
    known = {told: partial(changed, case, change) for told, change in wrong.items()}
    right = changed(case, lambda g: g * to(norm_of(gradients, p)))
    what = f"the list of the gradients after clipping their {p}-norm (of a {form}) to {limit:.4g}"
    after = clipped(student, "clip_grad_norm_", case, limit, p, *more, form=form)["gradients"]
    assert_close(after, right, what=what, mistakes=known, rtol=1e-5)


def check_in_place(student: Student, name: str) -> None:
    """Clipping changes gradients in place, and nothing else."""
    told = "A .grad is another tensor than before: change it in place, as mul_ and clamp_ do."
    same = entry(clipped(student, name, new(), 0.5), "same", kind=list, count=5)
    assert all(one is True for one in same), told
    given = student.made("parameters", *new())
    laws.check_changes_nothing(student, name, given, 0.5, allow=["grad"])


def check_limit(student: Student, name: str, argument: str) -> None:
    """A limit has to be above 0."""
    given = student.made("parameters", *new())
    calls = [(given, limit) for limit in (0, 0.0, -1e-9, -2.0)]
    laws.check_errors(student, name, {argument: calls}, fine=(given, 1e-9))


# --- steps ---------------------------------------------------------------------------------------

# The parameters of the probe's network as one vector: the second is frozen, the last one unused.
SIZES = [12, 4, 8, 2, 2]
LEARNS = torch.tensor([1.0] * 12 + [0.0] * 4 + [1.0] * 10 + [0.0] * 2).double()


def new_weights() -> Tensor:
    return torch.randn(len(LEARNS)).double()


def new_batch(rows: int) -> Batch:
    """Inputs, and targets whose column 2 makes the loss smooth."""
    ones = torch.ones(rows, 1).double()
    return torch.randn(rows, 3).double(), torch.cat([3 * torch.randn(rows, 2), ones], 1)


def bad_batches() -> dict[str, Batch]:
    """Batches whose gradients are not finite; the loss is, in the first two."""
    x, y = new_batch(1)
    steep = y * torch.tensor([1.0, 1.0, 0.0])
    return {
        "a finite loss and infinite gradients": (x.abs() + 0.5, steep),
        "a finite loss and NaN gradients": (x * 0, steep),
        "a NaN loss": (x, y * math.nan),
    }


def live(student: Student, weights: Tensor) -> tuple[Any, ...]:
    model = student.made("model", weights)
    return model, student.made("loss_fn"), student.made("optimizer", model)


def loss_of(weights: Tensor, batch: Batch) -> Tensor:
    """The loss of the probe."""
    w, b, v, c, _ = weights.split(SIZES)
    x, y = batch
    outputs = F.linear(torch.tanh(F.linear(x, w.reshape(4, 3), b)), v.reshape(2, 4), c)
    slope = outputs[:, 0] - outputs[:, 0].detach()
    return F.mse_loss(outputs, y[:, :2]) + (slope + y[:, 2]).sqrt().mean()


def simulate(
    weights: Tensor, batches: list[Batch], limit: float, mistake: str = "", stale: float = 0.0
) -> dict[str, list[Any]]:
    """A training, or a mistaken one: what each step returns and leaves."""
    steps: dict[str, list[Any]] = {name: [] for name in ("norms", "losses", "weights", "momentum")}
    momentum, before = torch.zeros_like(weights), torch.full_like(weights, stale)
    for batch in batches:
        leaf: Any = weights.clone().requires_grad_()
        loss = loss_of(leaf, batch)
        loss.backward()
        gradient = torch.where(LEARNS > 0, leaf.grad, 0.0) + (before if mistake == "kept" else 0.0)
        norm = float(gradient.norm())
        if math.isfinite(norm) or mistake in ("steps", "zeros"):
            sizes = SIZES if mistake == "own" else [len(gradient)]
            most = math.inf if mistake == "unclipped" else limit
            parts = [
                g * (most / n if (n := g.norm()) > most else 1.0) for g in gradient.split(sizes)
            ]
            before = torch.cat(parts)
            gradient = before.nan_to_num(0.0, 0.0, 0.0) if mistake == "zeros" else before
            momentum = 0.9 * momentum + gradient
            weights = weights - 0.1 * momentum
        for name, value in zip(steps, (norm, loss.item(), weights, momentum), strict=True):
            steps[name].append(value)
    return steps


def limits(weights: Tensor, batches: list[Batch]) -> list[float]:
    """Limits that clip each step, some of them, none."""
    norms = sorted(simulate(weights, batches, math.inf)["norms"])
    return [norms[0] / 4, norms[-1] * 0.8, norms[-1] * 1e4, math.inf]


def trained(student: Student, weights: Tensor, batches: Any, limit: float, **options: Any) -> Any:
    reports = student.run("trained", weights, batches, limit, **options)
    return entry(reports, kind=list, count=len(batches))


def check_steps(
    student: Student,
    weights: Tensor,
    batches: Any,
    limit: float,
    stale: float = 0.0,
    told: str = "",
) -> Any:
    """The weights and the momentum after each step are right; the usual mistakes have names."""
    reports = trained(student, weights, batches, limit, stale=stale)
    run = partial(simulate, weights, batches, limit)
    right, last = run(), "is made with zeros instead of inf and NaN, and momentum goes on: skip it"
    wrong = {
        "is not clipped: clip between backward and the step": partial(run, "unclipped"),
        "is clipped for each parameter on its own": partial(run, "own"),
        "counts gradients from before: zero them first": partial(run, "kept", stale),
        "is made with inf or NaN: skip it": partial(run, "steps"),
        last: partial(run, "zeros"),
    }
    for name in ("weights", "momentum"):
        known = {
            f"Your step {words}.": lambda name=name, mistaken=mistaken: mistaken()[name]
            for words, mistaken in wrong.items()
        }
        what = f"the list of all {name} after each step with max_norm={limit:.3g}"
        actual = [entry(report, name) for report in reports]
        assert_close(actual, right[name], what=what, mistakes=known, rtol=1e-5, atol=1e-6)
    return reports
