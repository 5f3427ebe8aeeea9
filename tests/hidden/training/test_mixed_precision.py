"""Tests of underflow_fraction, GradScaler and train_step."""

from __future__ import annotations

import math
import random
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

# Scales that are no powers of two, so that a product shows by its rounding in which dtype it was computed.
SCALES = {torch.float32: 1000.0, torch.float64: 0.3}
# The parameters of an optimizer, beside one without a gradient.
SHAPES = ((3, 4), (), (5,))
# What the probe may do with gradients between backward and step.
NOTHING: list[str] = []
UNSCALE = ["unscale_"]
CLIP = ["unscale_", "clip"]
# The probe's "clip" keeps every entry within this.
CLIP_VALUE = 1.0
# The scale, and the optimizer, of the iterations on given gradients.
FIRST_SCALE = 2.0**12
SGD = {"lr": 0.5, "momentum": 0.5}
# The probe's Network, its SGD and its loss. Of each layer the sizes of its weight and of its bias.
SIZES = [12, 4, 8, 2]
LR, MOMENTUM, TARGET_FACTOR = 0.1, 0.9, 2
# A scaler for it, and a norm to which its gradients are clipped, and one above all of them.
SCALER = {"init_scale": 1024.0}
MAX_NORM, LARGE_NORM = 0.5, 1e3
# An operation more or less in bfloat16 makes such a difference.
BFLOAT16: Any = {"rtol": 1e-2, "atol": 2e-3}


class Iteration(NamedTuple):
    """Gradients as they are without a scale, and what is done with them between backward and step."""

    gradients: list[Tensor]
    before_step: list[str]


class Batch(NamedTuple):
    """What a training step takes."""

    inputs: Tensor
    targets: Tensor


class Trained(NamedTuple):
    """The loss of a training step, and the weights after it, in a row."""

    loss: float
    weights: Tensor


# --- underflow_fraction --------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("underflow_fraction")
@pytest.mark.hint("((values * scale).half() == 0) & (values != 0), over the nonzero ones.")
def test_underflow(student: Student) -> None:
    """The result is the part of the nonzero entries that is zero in float16 after the scaling."""
    exponents = torch.linspace(random.uniform(-18, -10), 1, 60, dtype=torch.float64)
    signs = torch.randint(2, (60,)) * 2 - 1
    values = (signs * 10**exponents).reshape(3, 4, 5)
    values[0, 0] = 0.0
    check_fraction(student, values)
    check_fraction(student, values.float(), 1e-3)
    check_fraction(student, values, 300.0)


@pytest.mark.requires("test_underflow")
@pytest.mark.place("underflow_fraction")
@pytest.mark.hint("float16 still has numbers below 6e-5, with fewer digits, down to about 6e-8.")
def test_underflow_limits(student: Student) -> None:
    """What only loses digits is not counted, and neither is what overflows."""
    for value in (3.1e-8, 5.9e-5, 7e5):
        check_fraction(student, torch.tensor([value, 1.0, -value, 1e-9]))


@pytest.mark.requires("test_underflow")
@pytest.mark.place("underflow_fraction")
@pytest.mark.hint("Do not divide by 0: there may be no nonzero entry, or no entry at all.")
def test_underflow_of_zeros(student: Student) -> None:
    """Without a nonzero entry the result is 0.0."""
    check_fraction(student, torch.zeros(2, 3))
    check_fraction(student, torch.zeros(0))


@pytest.mark.requires("test_underflow")
@pytest.mark.place("underflow_fraction")
@pytest.mark.hint("values * scale is a new tensor; values.mul_(scale) changes what you were given.")
def test_underflow_changes_nothing(student: Student) -> None:
    """The values stay as they are."""
    laws.check_changes_nothing(student, "underflow_fraction", torch.randn(3, 4), 2.0)


# --- GradScaler ----------------------------------------------------------------------------------


@pytest.mark.points(2)
@pytest.mark.place("GradScaler.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not 0 < backoff_factor < 1: raise ValueError(...), one check an argument.")
def test_arguments(student: Student) -> None:
    """get_scale begins with init_scale; bad arguments are a ValueError that names them."""
    what = "the scale of a new GradScaler"
    assert_close(student.run("first_scale"), 2.0**16, what=what)
    assert_close(student.run("first_scale", 1000.0), 1000.0, what=what)
    # To run two thousand iterations would take longer than all the rest.
    interval = student.run("interval")
    if interval is not None:
        assert_equal(interval, 2000, what="the default of growth_interval")
    bad: dict[str, Any] = {
        "init_scale": [(0.0,), (-1.0,)],
        "growth_factor": [(8.0, 1.0), (8.0, 0.5)],
        "backoff_factor": [(8.0, 2.0, 1.0), (8.0, 2.0, 0.0), (8.0, 2.0, 1.5)],
        "growth_interval": [(8.0, 2.0, 0.5, 0)],
    }
    laws.check_errors(student, "GradScaler", bad, fine=(1e-3, 1.01, 0.99, 1))


@pytest.mark.points(2)
@pytest.mark.place("GradScaler.__init__")
@pytest.mark.hint("Keep the scale and all flags in self, not in the class or the module.")
def test_own_state(student: Student) -> None:
    """Each scaler has a scale of its own."""
    first, second = random.uniform(4, 16), random.uniform(32, 128)
    gradients = [torch.tensor([math.inf]), torch.tensor([1.0])]
    what = "the list of the scales of two scalers, the first of which had an overflow,"
    scales = student.run("two_scalers", first, second, gradients)
    assert_close(scales, [first / 2, second], what=what)


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.scale")
@pytest.mark.hint("loss * scale, with the scale as a Python number: the dtype of loss stays.")
def test_scale(student: Student) -> None:
    """scale gives the loss times the scale, differentiable, in the dtype of the loss."""
    for dtype, scale in SCALES.items():
        x = torch.randn(3, dtype=dtype)
        report = student.run("scaled", scale, x)
        right = x.square().sum() * scale
        assert_close(entry(report, "loss"), right, what=f"the loss scaled by {scale:g}")
        gradient = entry(report, "gradient")
        told = "The scaled loss has no graph: multiply the tensor itself."
        assert gradient is not None, told
        assert_close(gradient, 2 * x * scale, what=f"the gradient for the scale {scale:g}")


@pytest.mark.points(6)
@pytest.mark.place("GradScaler.unscale_")
@pytest.mark.hint(
    "p.grad.div_(scale) for each p of group['params'], for each group of optimizer.param_groups."
)
def test_unscale(student: Student) -> None:
    """unscale_ divides every gradient by the scale, and nothing else."""
    for dtype, scale in SCALES.items():
        values = new_tensors(dtype)
        gradients = new_tensors(dtype)
        gradients[0][0, 0] = math.inf  # the others are divided, too
        report = student.run("unscaled", scale, [values], [gradients])
        right = [gradient / scale for gradient in gradients]
        what = f"the list of gradients, scale {scale:g},"
        assert_close(entry(report, "gradients"), right, what=what)
        assert_equal(entry(report, "values"), values, what="the list of parameters")


@pytest.mark.points(5)
@pytest.mark.place("GradScaler.unscale_")
@pytest.mark.hint("if p.grad is not None: p.grad.div_(scale), in each of optimizer.param_groups.")
def test_unscales_all_groups(student: Student) -> None:
    """All groups are unscaled, in place; parameters without a gradient are passed over."""
    values, gradients = new_tensors(), new_tensors()
    values_of_groups = [[values[0], torch.randn(2)], values[1:]]
    gradients_of_groups = [[gradients[0], None], gradients[1:]]
    report = student.run("unscaled", 8.0, values_of_groups, gradients_of_groups)
    right = [gradients[0] / 8, None, gradients[1] / 8, gradients[2] / 8]
    assert_close(entry(report, "gradients"), right, what="the list of gradients")
    told = "A .grad is another tensor than before: divide in place, as div_ does."
    assert laws.same(entry(report, "same"), [True] * len(right)), told


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.unscale_")
@pytest.mark.hint("A flag: set it in unscale_, raise where it is set, clear it in update.")
def test_unscale_twice(student: Student) -> None:
    """Unscaling twice before update is a RuntimeError; after update it is fine again."""
    for first in ("unscale_", "step"):
        gradients = [torch.randn(3), torch.randn(3)]
        reports = student.run("unscaled_again", 8.0, first, gradients)
        for i, gradient in enumerate(gradients):
            told = "A second unscale_ before update raises no RuntimeError."
            assert entry(reports, i, "raised") is True, told
            what = f"the gradient after {first} and a second unscale_"
            assert_close(entry(reports, i, "gradient"), gradient / 8, what=what)


@pytest.mark.place("GradScaler.step")
@pytest.mark.word("the sandbox says what runs")
@pytest.mark.hint("Keep the scale and two flags yourself: the class needs nothing of torch.amp.")
def test_own_work(student: Student) -> None:
    """Nothing of PyTorch's own GradScaler runs."""
    ran = entry(student.run("foreign"), kind=list)
    assert not ran, f"{str(ran[0])[:80]} runs: keep the scale yourself."


@pytest.mark.points(7)
@pytest.mark.requires("test_own_work")
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("Call self.unscale_ if it was not done, then optimizer.step().")
def test_steps(student: Student) -> None:
    """step unscales the gradients, and lets the optimizer step."""
    check_values(student, [iteration(NOTHING) for _ in range(3)])


@pytest.mark.points(4)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint(
    "A flag that unscale_ sets and update clears: step unscales only where it is not set."
)
def test_steps_after_unscale(student: Student) -> None:
    """After unscale_, step takes the gradients as they are, and does not unscale again."""
    check_values(student, [iteration(calls) for calls in (UNSCALE, CLIP, NOTHING, UNSCALE)])


@pytest.mark.points(6)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("isfinite() of every gradient, noted in unscale_.")
def test_skips(student: Student) -> None:
    """With an inf or NaN in any gradient no step is made, and the next one is made as ever."""
    iterations = [iteration(NOTHING)]
    for place, bad in enumerate((math.inf, -math.inf, math.nan)):
        iterations += [iteration(NOTHING, bad, place), iteration(NOTHING)]
    check_values(student, iterations)


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("unscale_ notes what it finds: at the step the gradients may be clipped.")
def test_skips_what_was_clipped(student: Student) -> None:
    """No step is made either where inf was found by unscale_, and is clipped since."""
    check_values(student, [iteration(CLIP, math.inf), iteration(CLIP), iteration(CLIP, -math.inf)])


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("return True after optimizer.step(), and False where it was left out.")
def test_step_returns(student: Student) -> None:
    """step returns True if the optimizer stepped, and False if not."""
    good = random.sample([True, True, True, False, False, False], 6)
    reports = iterated(student, good_or_bad(good))
    stepped = [entry(report, "stepped") for report in reports]
    assert_equal(stepped, good, what="the list of what each step returned")


@pytest.mark.points(7)
@pytest.mark.place("GradScaler.update")
@pytest.mark.hint("Count good iterations in a row; a bad one and a growth set the count to 0.")
def test_updates(student: Student) -> None:
    """The scale shrinks after a bad iteration, and grows after growth_interval good ones in a row."""
    good = [letter == "y" for letter in "yyyyyyynyynyyynnyy"]
    for options in (
        {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3},
        {"growth_factor": 1.5, "backoff_factor": 0.25, "growth_interval": 1},
    ):
        first = random.uniform(1000, 2000)
        reports = iterated(student, good_or_bad(good), first, **options)
        scales = [entry(report, "scale") for report in reports]
        right = right_scales(good, first, **options)
        assert_close(scales, right, what="the list of the scales after each update")


# --- train_step ----------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("train_step")
@pytest.mark.word("the sandbox says what runs under autocast")
@pytest.mark.hint("with torch.autocast('cpu', dtype=torch.bfloat16): around model and loss_fn.")
def test_autocast(student: Student) -> None:
    """Model and loss_fn run once each, under autocast; dtypes, modes and autocast are then as before."""
    autocast = {"autocast": True, "to": "torch.bfloat16"}
    calls = [
        {"call": "model", "weight": "torch.float32", **autocast},
        {"call": "loss_fn", **autocast},
    ]
    report = student.run("logged", new_weights(), new_batch())
    what = "the list of the calls of model and loss_fn"
    assert_equal(entry(report, "calls"), calls, what=what, ordered=False)
    left = {
        "autocast": False,
        "training": False,
        "dtypes of parameters and gradients": ["torch.float32"],
        "random state as before": True,
    }
    what = "how autocast, mode, dtypes and random state are left"
    assert_equal(entry(report, "left"), left, what=what, ordered=False)


@pytest.mark.points(7)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, autocast, scale, backward, step.")
def test_train_step(student: Student) -> None:
    """Steps are those of ordinary training, with a scaler and without."""
    check_training(student, None)
    check_training(student, SCALER)


@pytest.mark.points(5)
@pytest.mark.place("train_step")
@pytest.mark.hint("scaler.unscale_(optimizer), then clip_grad_norm_(model.parameters(), max_norm).")
def test_train_step_clips(student: Student) -> None:
    """With max_norm the real gradients of the whole model are clipped."""
    check_training(student, None, MAX_NORM)
    check_training(student, SCALER, MAX_NORM)
    check_training(student, None, LARGE_NORM)


@pytest.mark.points(5)
@pytest.mark.place("train_step")
@pytest.mark.hint("scaler.step decides whether the optimizer steps; then scaler.update().")
def test_train_step_overflows(student: Student) -> None:
    """With a scaler a step that overflows is skipped; without one the optimizer steps in any case."""
    weights, first, second = new_weights(), new_batch(), new_batch()
    infinite = new_batch(target=math.inf)
    what = "the weights after steps some of which overflow"
    right = right_training(weights, [first, second])[-1].weights
    reports = trained(student, weights, [infinite, first, infinite, second], SCALER)
    assert_close(entry(reports, -1, "weights"), right, what=what, **BFLOAT16)
    # The loss of large targets is finite, its gradients are not, once they are scaled.
    reports = trained(student, weights, [new_batch(target=1e3)], {"init_scale": 1e38})
    assert_close(entry(reports, 0, "weights"), weights, what=what)
    reports = trained(student, weights, [infinite], None)
    left = assert_tensor(entry(reports, 0, "weights"), shape=weights.shape)
    told = "Without a scaler the optimizer steps in any case, with inf and NaN, too."
    assert not left.isfinite().all(), told


@pytest.mark.points(3)
@pytest.mark.place("train_step")
@pytest.mark.hint("scaler.update(), once, as the last call.")
def test_train_step_updates(student: Student) -> None:
    """Each step ends with one update of the scaler."""
    first = random.uniform(2, 8)
    options = {"init_scale": first, "growth_interval": 2}
    reports = trained(student, new_weights(), [new_batch() for _ in range(5)], options)
    scales = [entry(report, "scale") for report in reports]
    right = [first, 2 * first, 2 * first, 4 * first, 4 * first]
    assert_close(scales, right, what="the list of the scales after each step")


@pytest.mark.points(3)
@pytest.mark.place("train_step")
@pytest.mark.hint("return loss.item(), of the loss before scaler.scale.")
def test_train_step_returns_the_loss(student: Student) -> None:
    """The result is the loss itself, a Python float."""
    weights, batch = new_weights(), new_batch()
    reports = trained(student, weights, [batch], SCALER)
    right = right_training(weights, [batch])[0].loss
    assert_close(entry(reports, 0, "loss"), right, what="the result of train_step", **BFLOAT16)


# --- underflow, locally --------------------------------------------------------------------------


def check_fraction(student: Student, values: Tensor, scale: float = 1.0) -> None:
    """The fraction is right; a scale of 1 is left to the default."""
    nonzero = values != 0
    lost = nonzero & ((values * scale).half() == 0)
    right = int(lost.sum()) / max(int(nonzero.sum()), 1)
    what = f"the fraction for a tensor of shape {tuple(values.shape)} and scale {scale:g}"
    arguments = (values,) if scale == 1.0 else (values, scale)
    fraction = student.function("underflow_fraction")(*arguments)
    assert_close(fraction, right, what=what, rtol=1e-6)


# --- iterations, locally -------------------------------------------------------------------------


def new_tensors(dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """A tensor for each parameter: its value, or its gradient."""
    return [8 * torch.randn(shape, dtype=dtype) for shape in SHAPES]


def iteration(before_step: list[str], bad: float | None = None, place: int = 0) -> Iteration:
    """An iteration with new gradients; that of the parameter `place` ends with the `bad` entry, if any."""
    gradients = new_tensors()
    if bad is not None:
        gradients[place].view(-1)[-1] = bad
    return Iteration(gradients, before_step)


def good_or_bad(good: list[bool]) -> list[Iteration]:
    """An iteration with finite gradients wherever `good` is True, and with an inf elsewhere."""
    return [iteration(NOTHING, bad=None if fine else math.inf) for fine in good]


def iterated(
    student: Student, iterations: list[Iteration], first: float = FIRST_SCALE, **options: float
) -> list[Any]:
    """What the student's scaler makes of these iterations, a report for each."""
    options["init_scale"] = first
    reports = student.run("iterated", new_tensors(), iterations, SGD, options)
    return list(entry(reports, kind=list, count=len(iterations)))


def check_values(student: Student, iterations: list[Iteration]) -> None:
    """The parameters are right after each iteration: SGD with momentum, without what is not finite."""
    values = new_tensors()
    reports = student.run("iterated", values, iterations, SGD, {"init_scale": FIRST_SCALE})
    weights = vector(values)
    momentum = torch.zeros_like(weights)
    right = []
    for gradients, before_step in iterations:
        gradient = vector(gradients)
        if gradient.isfinite().all():
            if "clip" in before_step:
                gradient = gradient.clamp(-CLIP_VALUE, CLIP_VALUE)
            momentum = SGD["momentum"] * momentum + gradient
            weights = weights - SGD["lr"] * momentum
        right.append(weights)
    actual = [entry(reports, i, "values") for i in range(len(iterations))]
    assert_close(actual, right, what="the list of the parameters, in a row, after each step")


def right_scales(
    good: list[bool],
    scale: float,
    *,
    growth_factor: float,
    backoff_factor: float,
    growth_interval: float,
) -> list[float]:
    """The scale after each iteration, which was a good one or not."""
    scales = []
    in_a_row = 0
    for fine in good:
        in_a_row = in_a_row + 1 if fine else 0
        if not fine:
            scale *= backoff_factor
        elif in_a_row == growth_interval:
            scale *= growth_factor
            in_a_row = 0
        scales.append(scale)
    return scales


def vector(tensors: list[Tensor]) -> Tensor:
    """All values in a row."""
    return torch.cat([tensor.flatten() for tensor in tensors])


# --- training, locally ---------------------------------------------------------------------------


def new_weights() -> Tensor:
    """All weights of the probe's Network, in a row."""
    return torch.randn(sum(SIZES)) * 0.5


def new_batch(target: float | None = None) -> Batch:
    """Random inputs and targets; all targets are `target`, if it is given."""
    targets = torch.randn(4, 2) if target is None else torch.full((4, 2), target)
    return Batch(torch.randn(4, 3), targets)


def trained(
    student: Student,
    weights: Tensor,
    batches: list[Batch],
    scaler_options: dict[str, float] | None,
    max_norm: float | None = None,
) -> list[Any]:
    """What the student's train_step makes of these batches, a report for each."""
    reports = student.run("trained", weights, batches, scaler_options, max_norm)
    return list(entry(reports, kind=list, count=len(batches)))


def check_training(
    student: Student, scaler_options: dict[str, float] | None, max_norm: float | None = None
) -> None:
    """Three steps leave the weights of ordinary training."""
    weights, batches = new_weights(), [new_batch() for _ in range(3)]
    reports = trained(student, weights, batches, scaler_options, max_norm)
    right = [step.weights for step in right_training(weights, batches, max_norm)]
    left = [entry(report, "weights") for report in reports]
    what = f"the list of each step's weights (scaler: {scaler_options or 'none'}, {max_norm=})"
    assert_close(left, right, what=what, **BFLOAT16)


def right_training(
    weights: Tensor, batches: list[Batch], max_norm: float | None = None
) -> list[Trained]:
    """Each step of ordinary training under autocast."""
    momentum = torch.zeros_like(weights)
    steps = []
    for inputs, targets in batches:
        weights = weights.detach().requires_grad_()
        weight, bias, head_weight, head_bias = weights.split(SIZES)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = F.linear(inputs, weight.view(4, 3), bias).tanh()
            outputs = F.linear(hidden, head_weight.view(2, 4), head_bias)
            loss = F.mse_loss(outputs, TARGET_FACTOR * targets)
        (gradient,) = torch.autograd.grad(loss, weights)
        norm = float(gradient.norm())
        if max_norm is not None and norm > max_norm:
            gradient = gradient * (max_norm / norm)
        momentum = MOMENTUM * momentum + gradient
        weights = weights.detach() - LR * momentum
        steps.append(Trained(loss.item(), weights))
    return steps
