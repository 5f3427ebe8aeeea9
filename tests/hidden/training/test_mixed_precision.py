"""Tests of underflow_fraction, GradScaler and train_step."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, assert_tensor, entry, laws, promise, raises, within
from grader.judge.student import Student

# Gradients, and the names of the calls between backward and step.
Iteration = tuple[list[Tensor], list[str]]
# Inputs and targets.
Batch = tuple[Tensor, Tensor]

# Not powers of two, so that the rounding of a product shows in which dtype it was computed.
SCALES = {torch.float32: 1000.0, torch.float64: 0.3}
# The shapes of an optimizer's parameters.
SHAPES = ((3, 4), (), (5,))
# The probe's calls between backward and step.
NOTHING: list[str] = []
UNSCALE = ["unscale_"]
CLIP = ["unscale_", "clip"]
# Options of the scaler and of the optimizer, for iterations on given gradients.
FIRST_SCALE = {"init_scale": 2.0**12}
SGD = {"lr": 0.5, "momentum": 0.5}
# For the probe's Network: the number of its weights, options of a scaler, and norms to clip its gradients to.
WEIGHTS = 26
SCALER = {"init_scale": 1024.0}
MAX_NORM, LARGE_NORM = 0.5, 1e3
# One operation more or less in bfloat16 makes this difference.
BFLOAT16: Any = {"rtol": 1e-2, "atol": 2e-3}


# --- underflow_fraction --------------------------------------------------------------------------


@promise(
    "underflow_fraction",
    points=4,
    hint="((values * scale).half() == 0) & (values != 0), over the nonzero ones.",
)
def test_underflow(code: Student, draw: Draw) -> Cases:
    """The result is the share of the nonzero entries that become zero in float16 after scaling."""
    exponents = torch.linspace(draw.number(-18, -10), 1, 60, dtype=torch.float64)
    values = ((2 * draw.integers(60, high=2) - 1) * 10**exponents).reshape(3, 4, 5)
    values[0, 0] = 0.0
    fraction = code.function("underflow_fraction")
    yield "the fraction for float64", within(fraction(values), rtol=1e-6)
    for scale in (1e-3, 300.0):
        found = fraction(values.float(), scale)
        yield f"the fraction for the scale {scale:g}", within(found, rtol=1e-6)


@promise(
    "underflow_fraction",
    hint="float16 still has numbers below 6e-5, with fewer digits, down to about 6e-8.",
    after="test_underflow",
)
def test_underflow_limits(code: Student, draw: Draw) -> Cases:
    """Numbers that only lose digits are not counted, and neither are numbers that overflow."""
    for value in (3.1e-8, 5.9e-5, 7e5):
        found = code.function("underflow_fraction")(torch.tensor([value, 1.0, -value, 1e-9]))
        yield f"the fraction for [{value:g}, 1, {-value:g}, 1e-9]", within(found, rtol=1e-6)


@promise(
    "underflow_fraction",
    hint="Do not divide by 0: there may be no nonzero entry, or no entry at all.",
    after="test_underflow",
)
def test_underflow_of_zeros(code: Student, draw: Draw) -> Cases:
    """Without a nonzero entry the result is 0.0."""
    for values in (torch.zeros(2, 3), torch.zeros(0)):
        what = f"the fraction for zeros of shape {tuple(values.shape)}"
        yield what, code.function("underflow_fraction")(values)


@promise(
    "underflow_fraction",
    hint="values * scale is a new tensor; values.mul_(scale) changes your argument.",
    after="test_underflow",
)
def test_underflow_changes_nothing(student: Student) -> None:
    """The values stay as they are."""
    laws.check_changes_nothing(student, "underflow_fraction", torch.randn(3, 4), 2.0)


# --- GradScaler ----------------------------------------------------------------------------------


@promise(
    "GradScaler.__init__",
    points=2,
    hint="if not 0 < backoff_factor < 1: raise ValueError(...), one check an argument.",
    word="the sandbox says that it raised",
)
def test_arguments(code: Student, draw: Draw) -> Cases:
    """The first get_scale is init_scale; bad arguments are a ValueError that names them."""
    for fine in ((), (1000.0,), (1e-3, 1.01, 0.99, 1)):
        yield f"the scale of a new GradScaler{fine}", code.run("first_scale", *fine)
    yield "the default of growth_interval", code.run("interval")
    bad: dict[str, list[tuple[float, ...]]] = {
        "init_scale": [(0.0,), (-1.0,)],
        "growth_factor": [(8.0, 1.0), (8.0, 0.5)],
        "backoff_factor": [(8.0, 2.0, 1.0), (8.0, 2.0, 0.0), (8.0, 2.0, 1.5)],
        "growth_interval": [(8.0, 2.0, 0.5, 0)],
    }
    for name, calls in bad.items():
        for call in calls:
            refused = raises(ValueError, name, code.function("GradScaler"), *call)
            yield f"GradScaler{call}", refused


@promise(
    "GradScaler.__init__",
    points=2,
    hint="Keep the scale and all flags in self, not in the class or the module.",
)
def test_own_state(code: Student, draw: Draw) -> Cases:
    """Each scaler has a scale of its own."""
    gradients = [torch.tensor([math.inf]), torch.tensor([1.0])]
    scales = code.run("two_scalers", draw.number(4, 16), draw.number(32, 128), gradients)
    yield "the list of the scales of two scalers, the first of which had an overflow,", scales


@promise(
    "GradScaler.scale",
    points=3,
    hint="loss * scale, with the scale as a Python number: the dtype of loss stays.",
)
def test_scale(code: Student, draw: Draw) -> Cases:
    """scale returns the loss times the scale, differentiable, in the dtype of the loss."""
    for dtype, scale in SCALES.items():
        report = code.run("scaled", scale, draw.normal(3, dtype=dtype))
        yield f"the loss scaled by {scale:g}", entry(report, "loss")
        gradient = entry(report, "gradient")
        assert gradient is not None, "The scaled loss has no graph: multiply the tensor itself."
        yield f"the gradient for the scale {scale:g}", gradient


@promise(
    "GradScaler.unscale_",
    points=6,
    hint="p.grad.div_(scale) for each p of group['params'], for each group of optimizer.param_groups.",
)
def test_unscale(code: Student, draw: Draw) -> Cases:
    """unscale_ divides every gradient by the scale, and nothing else."""
    for dtype, scale in SCALES.items():
        gradients = new_tensors(draw, dtype)
        gradients[0][0, 0] = math.inf  # the others are divided, too
        report = code.run("unscaled", scale, [new_tensors(draw, dtype)], [gradients])
        yield f"the list of gradients, scale {scale:g},", entry(report, "gradients")
        yield "the list of parameters", entry(report, "values")


@promise(
    "GradScaler.unscale_",
    points=5,
    hint="if p.grad is not None: p.grad.div_(scale), in each of optimizer.param_groups.",
)
def test_unscales_all_groups(code: Student, draw: Draw) -> Cases:
    """All groups are unscaled, in place; parameters without a gradient are skipped."""
    values, gradients = new_tensors(draw), new_tensors(draw)
    groups = [[values[0], torch.ones(2)], values[1:]]
    report = code.run("unscaled", 8.0, groups, [[gradients[0], None], gradients[1:]])
    yield "the list of gradients", entry(report, "gradients")
    told = "A .grad is another tensor than before: divide in place, as div_ does."
    assert laws.same(entry(report, "same"), [True] * 4), told


@promise(
    "GradScaler.unscale_",
    points=3,
    hint="A flag: set it in unscale_, raise where it is set, clear it in update.",
)
def test_unscale_twice(code: Student, draw: Draw) -> Cases:
    """Unscaling twice before update is a RuntimeError; after update it is fine again."""
    for first in ("unscale_", "step"):
        reports = code.run("unscaled_again", 8.0, first, [draw.normal(3), draw.normal(3)])
        for i in range(2):
            told = "A second unscale_ before update raises no RuntimeError."
            assert entry(reports, i, "raised") is True, told
            yield f"the gradient after {first} and a second unscale_", entry(reports, i, "gradient")


@promise(
    "GradScaler.step",
    hint="Keep the scale and two flags yourself: the class needs nothing of torch.amp.",
    word="the sandbox says what runs",
)
def test_own_work(student: Student) -> None:
    """No code of PyTorch's own GradScaler runs."""
    ran = entry(student.run("foreign"), kind=list)
    assert not ran, f"{str(ran[0])[:80]} runs: keep the scale yourself."


@promise(
    "GradScaler.step",
    points=7,
    hint="Call self.unscale_ if it was not done, then optimizer.step().",
    after="test_own_work",
)
def test_steps(code: Student, draw: Draw) -> Cases:
    """step unscales the gradients, and lets the optimizer step."""
    iterations = [iteration(draw, NOTHING) for _ in range(3)]
    yield values_after(code, draw, iterations)


@promise(
    "GradScaler.step",
    points=4,
    hint="A flag that unscale_ sets and update clears: step unscales only where it is not set.",
)
def test_steps_after_unscale(code: Student, draw: Draw) -> Cases:
    """After unscale_, step takes the gradients as they are, and does not unscale again."""
    iterations = [iteration(draw, calls) for calls in (UNSCALE, CLIP, NOTHING, UNSCALE)]
    yield values_after(code, draw, iterations)


@promise("GradScaler.step", points=6, hint="isfinite() of every gradient, noted in unscale_.")
def test_skips(code: Student, draw: Draw) -> Cases:
    """With an inf or NaN in any gradient no step is made; the next step is made as usual."""
    iterations = [iteration(draw, NOTHING)]
    for place, bad in enumerate((math.inf, -math.inf, math.nan)):
        iterations += [iteration(draw, NOTHING, bad, place), iteration(draw, NOTHING)]
    yield values_after(code, draw, iterations)


@promise(
    "GradScaler.step",
    points=3,
    hint="unscale_ notes whether it finds an overflow: at the step the gradients may be clipped.",
)
def test_skips_what_was_clipped(code: Student, draw: Draw) -> Cases:
    """No step is made either if unscale_ found an inf that was clipped since."""
    iterations = [iteration(draw, CLIP, bad) for bad in (math.inf, None, -math.inf)]
    yield values_after(code, draw, iterations)


@promise(
    "GradScaler.step",
    points=3,
    hint="return True after optimizer.step(), and False where it was left out.",
)
def test_step_returns(code: Student, draw: Draw) -> Cases:
    """step returns True if the optimizer stepped, and False if not."""
    iterations = good_or_bad(draw, [place % 2 == 0 for place in draw.permutation(6).tolist()])
    report = code.run("iterated", new_tensors(draw), iterations, SGD, FIRST_SCALE)
    yield "the list of results of the steps", entry(report, "stepped")


@promise(
    "GradScaler.update",
    points=7,
    hint="Count good iterations in a row; a bad one and a growth set the count to 0.",
)
def test_updates(code: Student, draw: Draw) -> Cases:
    """The scale shrinks after a bad iteration, and grows after growth_interval good ones in a row."""
    iterations = good_or_bad(draw, [letter == "y" for letter in "yyyyyyynyynyyynnyy"])
    for options in (
        {"growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 3},
        {"growth_factor": 1.5, "backoff_factor": 0.25, "growth_interval": 1},
    ):
        scaler = options | {"init_scale": draw.number(1000, 2000)}
        report = code.run("iterated", new_tensors(draw), iterations, SGD, scaler)
        yield "the list of the scales after each update", entry(report, "scales")


# --- train_step ----------------------------------------------------------------------------------


@promise(
    "train_step",
    points=4,
    hint="with torch.autocast('cpu', dtype=torch.bfloat16): around model and loss_fn.",
    word="the sandbox says what runs under autocast",
)
def test_autocast(code: Student, draw: Draw) -> Cases:
    """Model and loss_fn run once each, under autocast; afterwards dtypes, modes and autocast are as before."""
    report = code.run("logged", new_weights(draw), new_batch(draw))
    yield "the list of the calls of model and loss_fn", entry(report, "calls")
    yield "the state of autocast, mode, dtypes and random numbers afterwards", entry(report, "left")


@promise("train_step", points=7, hint="zero_grad, autocast, scale, backward, step.")
def test_train_step(code: Student, draw: Draw) -> Cases:
    """Steps are as in ordinary training, with a scaler and without."""
    for scaler in (None, SCALER):
        yield weights_after(code, draw, scaler)


@promise(
    "train_step",
    points=5,
    hint="scaler.unscale_(optimizer), then clip_grad_norm_(model.parameters(), max_norm).",
)
def test_train_step_clips(code: Student, draw: Draw) -> Cases:
    """With max_norm the real gradients of the whole model are clipped."""
    for scaler, norm in ((None, MAX_NORM), (SCALER, MAX_NORM), (None, LARGE_NORM)):
        yield weights_after(code, draw, scaler, norm)


@promise(
    "train_step",
    points=5,
    hint="scaler.step decides whether the optimizer steps; then scaler.update().",
)
def test_train_step_overflows(code: Student, draw: Draw) -> Cases:
    """With a scaler a step that overflows is skipped; without one the optimizer steps in any case."""
    weights, infinite = new_weights(draw), new_batch(draw, target=math.inf)
    batches = [infinite, new_batch(draw), infinite, new_batch(draw)]
    what = "the list of the weights after steps some of which overflow"
    report = code.run("trained", weights, batches, SCALER)
    yield what, within(entry(report, "weights"), **BFLOAT16)
    # The loss of large targets is finite, but its scaled gradients are not.
    report = code.run("trained", weights, [new_batch(draw, target=1e3)], {"init_scale": 1e38})
    yield what, entry(report, "weights")
    report = code.run("trained", weights, [infinite], None)
    left = assert_tensor(entry(report, "weights", 0), shape=weights.shape)
    told = "Without a scaler the optimizer steps in any case, with inf and NaN, too."
    assert not left.isfinite().all(), told


@promise("train_step", points=3, hint="scaler.update(), once, as the last call.")
def test_train_step_updates(code: Student, draw: Draw) -> Cases:
    """Each step ends with one update of the scaler."""
    options = {"init_scale": draw.number(2, 8), "growth_interval": 2}
    report = code.run("trained", new_weights(draw), [new_batch(draw)] * 5, options)
    yield "the list of the scales after each step", entry(report, "scales")


@promise("train_step", points=3, hint="return loss.item(), of the loss before scaler.scale.")
def test_train_step_returns_the_loss(code: Student, draw: Draw) -> Cases:
    """The result is the loss itself, a Python float."""
    report = code.run("trained", new_weights(draw), [new_batch(draw)], SCALER)
    yield "the result of train_step", within(entry(report, "losses", 0), **BFLOAT16)


# --- iterations ----------------------------------------------------------------------------------


def new_tensors(draw: Draw, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """A tensor for each parameter, to be its value or its gradient."""
    return [draw.normal(*shape, dtype=dtype, scale=8.0) for shape in SHAPES]


def iteration(
    draw: Draw, before_step: list[str], bad: float | None = None, place: int = 0
) -> Iteration:
    """An iteration with new gradients. The one of parameter `place` ends with the entry `bad`, if given."""
    gradients = new_tensors(draw)
    if bad is not None:
        gradients[place].view(-1)[-1] = bad
    return gradients, before_step


def good_or_bad(draw: Draw, good: list[bool]) -> list[Iteration]:
    """An iteration with finite gradients wherever `good` is True, and with an inf elsewhere."""
    return [iteration(draw, NOTHING, bad=None if fine else math.inf) for fine in good]


def values_after(code: Student, draw: Draw, iterations: list[Iteration]) -> tuple[str, Any]:
    """The parameters after each iteration."""
    report = code.run("iterated", new_tensors(draw), iterations, SGD, FIRST_SCALE)
    return "the list of the parameters, in a row, after each step", entry(report, "values")


# --- training ------------------------------------------------------------------------------------


def new_weights(draw: Draw) -> Tensor:
    """All weights of the probe's Network, as one vector."""
    return draw.normal(WEIGHTS, scale=0.5)


def new_batch(draw: Draw, target: float | None = None) -> Batch:
    """Random inputs and targets. If `target` is given, all targets are `target`."""
    targets = draw.normal(4, 2) if target is None else torch.full((4, 2), target)
    return draw.normal(4, 3), targets


def weights_after(
    code: Student, draw: Draw, scaler: dict[str, float] | None, max_norm: float | None = None
) -> tuple[str, Any]:
    """The weights after each of three steps."""
    batches = [new_batch(draw) for _ in range(3)]
    report = code.run("trained", new_weights(draw), batches, scaler, max_norm)
    what = f"the list of each step's weights (scaler: {scaler or 'none'}, {max_norm=})"
    return what, within(entry(report, "weights"), **BFLOAT16)
