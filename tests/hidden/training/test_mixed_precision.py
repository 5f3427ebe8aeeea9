"""What underflow_fraction, GradScaler and train_step promise, sentence by sentence."""

from __future__ import annotations

import itertools
import math
import random
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

Batch = tuple[Tensor, Tensor]
DTYPES = (torch.float64, torch.float32)
BAD = {"an inf": math.inf, "a -inf": -math.inf, "a NaN": math.nan}
AGAIN = "again unscale_"
# What the probe does with the student's code it also does, here, with code that is right.
PROBE = SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("probe_mixed_precision.py"))))


# --- underflow_fraction --------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("underflow_fraction")
@pytest.mark.hint("((values * scale).half() == 0) & (values != 0), over the nonzero ones.")
def test_underflow(student: Student) -> None:
    """The result is the part of the nonzero entries that is zero in float16 after the scaling."""
    for dtype in DTYPES:
        lowest = random.uniform(-18, -10)
        exponents = torch.linspace(lowest, 2, 60, dtype=dtype).reshape(3, 4, 5)
        values = 10**exponents * torch.where(torch.rand(3, 4, 5) < 0.5, -1, 1)
        values[0, 0] = 0.0
        for scale in (1.0, 2.0**10, 300, 1e-3):
            check_underflow(student, values, scale)
    for x in laws.layouts_of(10 ** -torch.linspace(6, 9, 12).reshape(3, 4)).values():
        check_underflow(student, x, 4.0)


@pytest.mark.points(3)
@pytest.mark.requires("test_underflow")
@pytest.mark.place("underflow_fraction")
@pytest.mark.hint("float16 still has numbers below 6e-5, with fewer digits, down to about 6e-8.")
def test_underflow_limits(student: Student) -> None:
    """What only loses digits or overflows is not counted; without nonzero entries it is 0.0."""
    for sign, dtype in zip((1.0, -1.0), DTYPES, strict=True):
        for value, scale in ((2.9e-8, 1.0), (3.1e-8, 1.0), (5.9e-5, 1.0), (1e-7, 0.25)):
            check_underflow(student, torch.tensor([value * sign, 1.0], dtype=dtype), scale)
        check_underflow(student, torch.tensor([1e30, 7e4, 1e-9], dtype=dtype) * sign, 10.0)
        check_underflow(student, torch.tensor(1e-9, dtype=dtype) * sign, 2.0**16)
    for shape in ((0,), (2, 0, 3), (2, 3), ()):
        check_underflow(student, torch.zeros(shape), 16.0)
    for x in laws.kinds_of(10 ** -torch.linspace(6, 9, 12).reshape(3, 4)):
        value = laws.check_changes_nothing(student, "underflow_fraction", x, 2.0)
        check_fraction(value, x.detach(), 2.0)


# --- GradScaler ----------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.scale")
@pytest.mark.hint("loss * scale, with the scale as a Python number: the dtype of loss stays.")
def test_scale(student: Student) -> None:
    """scale gives the loss times the scale, differentiable, in the dtype of the loss."""
    for dtype in DTYPES:
        for scale in (2.0**16, 1000.0, 1, 0.25):
            x = torch.randn(3, dtype=dtype)
            report = student.run("scaled", scale, x)
            loss, what = x.square().sum(), f"the loss scaled by {scale:g}"
            assert_close(entry(report, "value"), loss * scale, what=what)
            gradient = entry(report, "grad")
            told = "The scaled loss has no graph: multiply the tensor itself."
            assert gradient is not None, told
            assert_close(gradient, 2 * x * scale, what=f"the gradient for the scale {scale:g}")


@pytest.mark.points(2)
@pytest.mark.place("GradScaler.__init__")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not 0 < backoff_factor < 1: raise ValueError(...), one check an argument.")
def test_arguments(student: Student) -> None:
    """get_scale begins with init_scale; bad arguments are a ValueError that names them."""
    for given in ([], [1000.0], [3]):
        (report,) = run(student, new()[0], ["get_scale"], *given)
        right = float(given[0]) if given else 2.0**16
        assert_close(entry(report, "value"), right, what="the scale of a new GradScaler")
    # Two thousand iterations would take longer than all the rest.
    if (interval := student.run("interval")) is not None:
        assert_equal(interval, 2000, what="the default of growth_interval")
    bad: dict[str, Any] = {
        "init_scale": [(0.0,), (0,), (-1.0,)],
        "growth_factor": [(8.0, 1.0), (8.0, 0.5), (8.0, 0)],
        "backoff_factor": [(8.0, 2.0, 1.0), (8.0, 2.0, 0.0), (8.0, 2.0, -0.5), (8.0, 2.0, 1.5)],
        "growth_interval": [(8.0, 2.0, 0.5, 0), (8.0, 2.0, 0.5, -1)],
    }
    for fine in ((1e-3, 1.01, 0.99, 1), (1, 3, 0.01, 5)):
        laws.check_errors(student, "GradScaler", bad, fine=fine)


@pytest.mark.points(6)
@pytest.mark.place("GradScaler.unscale_")
@pytest.mark.hint(
    "p.grad.div_(scale) for each p of group['params'], for each group of optimizer.param_groups."
)
def test_unscale(student: Student) -> None:
    """unscale_ divides every gradient by the scale, and nothing else."""
    for dtype in DTYPES:
        for scale in (2.0**16, 1000.0, 0.25):
            values, gradients = plain(dtype)
            report = run(student, values, [gradients, "unscale_"], scale)[-1]
            right, what = times(gradients, 1 / scale), f"the list of gradients, scale {scale:g},"
            assert_close(entry(report, "grads"), right, what=what)
            assert_equal(entry(report, "values"), values, what="the list of parameters")


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.unscale_")
@pytest.mark.hint("if p.grad is not None: p.grad.div_(scale), in each of optimizer.param_groups.")
def test_unscales_all_groups(student: Student) -> None:
    """All parameter groups are unscaled, and parameters without a gradient are passed over."""
    for scale in (2.0**16, 1000.0):
        values, gradients = new()
        report = run(student, values, [gradients, "unscale_"], scale, groups=True)[-1]
        right = times(gradients, 1 / scale)
        what = f"the list of gradients, scale {scale:g},"
        assert_close(entry(report, "grads"), right, what=what)


@pytest.mark.points(2)
@pytest.mark.place("GradScaler.unscale_")
@pytest.mark.word("the sandbox says which tensors are the same objects")
@pytest.mark.hint("p.grad.div_(scale) divides in place; p.grad = p.grad / scale is another tensor.")
def test_unscales_in_place(student: Student) -> None:
    """Each .grad stays the same tensor object."""
    values, gradients = plain()
    report = run(student, values, [gradients, "unscale_"], 8.0)[-1]
    told = "A .grad is another tensor than before: divide in place, as div_ does."
    assert entry(report, "same") is True, told


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.unscale_")
@pytest.mark.hint("A flag: set it in unscale_, raise where it is set, clear it in update.")
def test_unscale_twice(student: Student) -> None:
    """Unscaling twice before update is a RuntimeError; after update it is fine again."""
    for bad in (None, "an inf"):
        values, gradients = plain(bad=bad)
        script = [gradients, "unscale_", AGAIN, "step", "update", gradients, "unscale_", AGAIN]
        script += ["update", gradients, "step", AGAIN]
        reports = run(student, values, script, 8.0)
        what = "the list of gradients after unscale_"
        assert_close(entry(reports[1], "grads"), times(gradients, 1 / 8), what=what)
        for i in (2, 7, 11):
            told = "A second unscale_ before update raises no RuntimeError."
            assert entry(reports[i], "raised") is True, told
            what = "the list of gradients after a second unscale_"
            assert_close(entry(reports[i], "grads"), entry(reports[i - 1], "grads"), what=what)


@pytest.mark.points(8)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("Call self.unscale_ if it was not done, then optimizer.step().")
def test_steps(student: Student) -> None:
    """step unscales the gradients, and lets the optimizer step."""
    own = student.run("foreign")
    ran = entry(own, kind=list)
    assert not ran, f"{str(ran[0])[:80]} runs: keep the scale yourself."
    for dtype in DTYPES:
        script = [plain(dtype)[1], "step", "update"] * 3
        check_script(student, PARAMETERS, plain(dtype)[0], script, 1024.0)


@pytest.mark.points(4)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint(
    "A flag that unscale_ sets and update clears: step unscales only where it is not set."
)
def test_steps_after_unscale(student: Student) -> None:
    """After unscale_, step takes the gradients as they are, and does not unscale again."""
    early = [plain()[1], "unscale_", "step", "update"]
    clipped = [plain()[1], "unscale_", "spoil", "step", "update"]
    script = [*early, *clipped, plain()[1], "step", "update", *early]
    check_script(student, PARAMETERS, plain()[0], script, 1024.0)


@pytest.mark.points(6)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("isfinite() of every gradient, noted in unscale_.")
def test_skips(student: Student) -> None:
    """With an inf or NaN in any gradient no step is made, and the next one is made as ever."""
    good = [plain()[1], "step", "update"]
    for late in (["step"], ["unscale_", "step"]):
        script: list[Any] = list(good)
        for bad, place in itertools.product(BAD, (0, 1, -1)):
            script += [plain(bad=bad, place=place)[1], *late, "update", *good]
        check_script(student, PARAMETERS, plain()[0], script, 2.0**12)


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("unscale_ notes what it finds: at the step the gradients may be clipped.")
def test_skips_what_was_clipped(student: Student) -> None:
    """No step is made either where inf or NaN was found by unscale_, and is clipped since."""
    script: list[Any] = []
    for bad in BAD:
        script += [plain(bad=bad, place=-1)[1], "unscale_", "spoil", "step", "update"]
        script += [plain()[1], "step", "update"]
    check_script(student, PARAMETERS, plain()[0], script, 2.0**12)


@pytest.mark.points(3)
@pytest.mark.place("GradScaler.step")
@pytest.mark.hint("return True after optimizer.step(), and False where it was left out.")
def test_step_returns(student: Student) -> None:
    """step returns True if the optimizer stepped, and False if not."""
    script: list[Any] = []
    for bad in random.sample([None, None, None, "an inf", "a NaN", "an inf"], 6):
        script += [plain(bad=bad)[1], "step", "update"]
    results = {"value": ("step", "what each step returned")}
    check_script(student, results, plain()[0], script, 2.0**12)


@pytest.mark.points(7)
@pytest.mark.place("GradScaler.update")
@pytest.mark.hint("Count good iterations in a row; a bad one and a growth set the count to 0.")
def test_updates(student: Student) -> None:
    """The scale shrinks after a bad iteration, and grows after growth_interval good ones in a row."""
    for pattern in ("ggggggg", "bggbgggbbgg"):
        for growth, backoff, interval in ((2.0, 0.5, 3), (3.0, 0.25, 1), (1.5, 0.125, 2)):
            script: list[Any] = []
            for i, letter in enumerate(pattern):
                gradients = plain(bad=list(BAD)[i % 3] if letter == "b" else None)[1]
                early = ["unscale_"] if i % 2 else []
                script += [gradients, *early, "step", "update"]
            scales = {"scale": ("update", "the scales after each update")}
            first = 4096.0 * random.uniform(1, 2)
            check_script(student, scales, plain()[0], script, first, growth, backoff, interval)


@pytest.mark.points(2)
@pytest.mark.place("GradScaler.__init__")
@pytest.mark.hint("Keep the scale and all flags in self, not in the class or the module.")
def test_own_state(student: Student) -> None:
    """Each scaler has a scale of its own."""
    one, other = random.uniform(4, 16), random.uniform(32, 128)
    scales = student.run("two_scalers", [math.inf, 1.0], one, other)
    what = "the list of the scales of two scalers, the first of which had an overflow,"
    assert_close(scales, [one / 2, other], what=what)


# --- train_step ----------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("train_step")
@pytest.mark.word("the sandbox says what runs under autocast")
@pytest.mark.hint("with torch.autocast('cpu', dtype=torch.bfloat16): around model and loss_fn.")
def test_autocast(student: Student) -> None:
    """Model and loss_fn run once each, under autocast; dtypes, modes and autocast are then as before."""
    for training, scaling in itertools.product((True, False), (None, {"init_scale": 8.0})):
        given = new_weights(), [new_batch(), new_batch()], scaling, None, training
        right = PROBE.trained(RIGHT, *given)
        for i, report in enumerate(trained(student, *given)):
            what, log = "the list of the calls and their modes", entry(report, "log")
            assert_equal(log, right[i]["log"], what=what, ordered=False)
            what = "how autocast, mode, random state, dtypes of parameters and gradients are left"
            assert_equal(entry(report, "left"), right[i]["left"], what=what, ordered=False)


@pytest.mark.points(7)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, autocast, scale, backward, step.")
def test_train_step(student: Student) -> None:
    """Steps are those of ordinary training, with a scaler and without."""
    for scaling in (None, {"init_scale": 4.0}, {"init_scale": 1024.0}):
        batches = [new_batch() for _ in range(3)]
        check_training(student, STEPS, new_weights(), batches, scaling, None)


@pytest.mark.points(5)
@pytest.mark.place("train_step")
@pytest.mark.hint("scaler.unscale_(optimizer), then clip_grad_norm_(model.parameters(), max_norm).")
def test_train_step_clips(student: Student) -> None:
    """With max_norm the real gradients of the whole model are clipped."""
    for scaling, max_norm in itertools.product((None, {"init_scale": 1024.0}), (0.5, 1e3)):
        batches = [new_batch() for _ in range(3)]
        check_training(student, STEPS, new_weights(), batches, scaling, max_norm)


@pytest.mark.points(3)
@pytest.mark.place("train_step")
@pytest.mark.hint("return loss.item(), of the loss before scaler.scale.")
def test_train_step_returns_the_loss(student: Student) -> None:
    """The result is the loss itself, a Python float."""
    for scaling in (None, {"init_scale": 4.0}, {"init_scale": 1024.0}):
        result = ("value",)
        check_training(student, result, new_weights(), [new_batch()], scaling, None)


@pytest.mark.points(3)
@pytest.mark.place("train_step")
@pytest.mark.hint("scaler.update(), once, as the last call.")
def test_train_step_updates(student: Student) -> None:
    """Each step ends with one update of the scaler."""
    scaling = {"init_scale": random.uniform(2, 8), "growth_interval": 2}
    batches = [new_batch() for _ in range(5)]
    check_training(student, ("scale",), new_weights(), batches, scaling, None)


@pytest.mark.points(5)
@pytest.mark.place("train_step")
@pytest.mark.hint("scaler.step decides whether the optimizer steps; then scaler.update().")
def test_train_step_overflows(student: Student) -> None:
    """With a scaler a step that overflows is skipped; without one the optimizer steps in any case."""
    x, y = new_batch()
    spoiled, large, huge = ((x, torch.full_like(y, value)) for value in (math.inf, 1e3, 1e15))
    mixed = [spoiled, new_batch(), spoiled, spoiled, new_batch()]
    for batches, scale, max_norm in (
        (mixed, 16.0, None),
        (mixed, 16.0, 0.5),
        # The scaled gradients are inf, the loss is finite; and the other way around.
        ([large, large], 1e38, None),
        ([huge, new_batch()], 1e10, None),
    ):
        scaling = {"init_scale": scale, "growth_interval": 3}
        check_training(student, STEPS, new_weights(), batches, scaling, max_norm)
    weights = entry(trained(student, new_weights(), [new_batch(), spoiled], None)[1], "weights")
    told = "Without a scaler the optimizer steps in any case, with inf and NaN, too."
    assert not assert_tensor(weights).isfinite().all(), told


# --- locally -------------------------------------------------------------------------------------


def lost(values: Tensor, scale: float) -> Tensor:
    """Which nonzero entries are zero in float16, or at most `limit`."""
    return (values != 0) & ((values * scale).half().abs() <= 0.0)


def part(of: Tensor, among: Tensor) -> float:
    return int(of.sum()) / max(int(among.sum()), 1)


def check_fraction(fraction: Any, values: Tensor, scale: float) -> None:
    some = values != 0
    right = part(lost(values, scale), some)
    what = f"the fraction for a {str(values.dtype)[6:]} tensor of shape {tuple(values.shape)}"
    assert_close(fraction, right, what=f"{what} and scale {scale:g}", rtol=1e-6)


def check_underflow(student: Student, values: Tensor, scale: float) -> None:
    more = () if scale == 1.0 else (scale,)
    check_fraction(student.function("underflow_fraction")(values, *more), values, scale)


def new(dtype: torch.dtype = torch.float64, bad: str | None = None, place: int = 0) -> Any:
    """Values of four parameters, the first of which is a group, and gradients, one of them None."""
    shapes = [(3, 4), (2,), (), (5,)]
    values = [torch.randn(shape, dtype=dtype) for shape in shapes]
    gradients: list[Any] = [torch.randn(shape, dtype=dtype) * 8 for shape in shapes]
    if bad is not None:
        gradient = [gradients[i] for i in (0, 2, 3)][place]
        gradient[(-1,) * gradient.dim()] = BAD[bad]
    gradients[1] = None
    return values, gradients


def plain(dtype: torch.dtype = torch.float64, bad: str | None = None, place: int = 0) -> Any:
    """Values of three parameters, and a gradient for each of them."""
    values, gradients = new(dtype, bad, place)
    return [values[i] for i in (0, 2, 3)], [gradients[i] for i in (0, 2, 3)]


def times(gradients: list[Any], factor: float) -> list[Any]:
    return [None if gradient is None else gradient * factor for gradient in gradients]


def run(
    student: Student, values: list[Tensor], script: list[Any], *given: Any, **named: Any
) -> Any:
    reports = student.run("scripted", values, script, *given, **named)
    return entry(reports, kind=list, count=len(script))


class Scaler:
    """A GradScaler."""

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000,
    ) -> None:  # fmt: skip
        self.value = init_scale
        self.growth, self.backoff, self.interval = growth_factor, backoff_factor, growth_interval
        self.count, self.unscaled, self.bad = 0, False, False

    def get_scale(self) -> float:
        return self.value

    def scale(self, loss: Tensor) -> Tensor:
        return loss * self.value

    def unscale_(self, sgd: Any) -> None:
        for group in sgd.param_groups:
            for gradient in (p.grad for p in group["params"] if p.grad is not None):
                gradient /= self.value
                self.bad = self.bad or not bool(gradient.isfinite().all())
        self.unscaled = True

    def step(self, sgd: Any) -> bool:
        if not self.unscaled:
            self.unscale_(sgd)
        if not self.bad:
            sgd.step()
        return not self.bad

    def update(self) -> None:
        self.count = 0 if self.bad else self.count + 1
        if self.bad:
            self.value *= self.backoff
        elif self.count >= self.interval:
            self.value *= self.growth
            self.count = 0
        self.unscaled = self.bad = False


PARAMETERS = {
    "values": ("step", "the parameters after each step"),
    "momenta": ("step", "the optimizer's momenta after each step"),
}


def check_script(
    student: Student, keys: dict[str, tuple[str, str]], values: list[Tensor], script: list[Any],
    *given: Any,
) -> None:  # fmt: skip
    """What a script gives and leaves is right, call by call.

    `keys` are the entries of a report to compare, each with the call after which it counts and its name.
    """
    right = PROBE.scripted(SimpleNamespace(GradScaler=Scaler), values, script, *given, scaled=True)
    reports = run(student, values, script, *given, scaled=True)
    for key, (after, what) in keys.items():
        places = [i for i, call in enumerate(script) if call == after]
        actual = [entry(reports[i], key) for i in places]
        assert_close(actual, [right[i][key] for i in places], what=f"the list of {what}")


# --- training ------------------------------------------------------------------------------------


def new_weights() -> Tensor:
    return torch.randn(26) * 0.5


def new_batch() -> Batch:
    """Inputs, and targets, of which the loss takes two columns."""
    return torch.randn(4, 3), torch.randn(4, 3)


def trained(student: Student, weights: Tensor, batches: list[Batch], *more: Any) -> list[Any]:
    reports = student.run("trained", weights, batches, *more)
    return list(entry(reports, kind=list, count=len(batches)))


def train_step(
    model: Any, loss_fn: Any, sgd: Any, x: Any, y: Any, scaler: Any, max_norm: Any
) -> Any:
    """A right train_step."""
    sgd.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = loss_fn(model(x), y)
    (loss if scaler is None else scaler.scale(loss)).backward()
    if scaler is not None:
        scaler.unscale_(sgd)
    if max_norm is not None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    if scaler is None:
        sgd.step()
    else:
        scaler.step(sgd)
        scaler.update()
    return loss.item()


RIGHT = SimpleNamespace(GradScaler=Scaler, train_step=train_step)


STEPS = ("weights", "momentum")


def check_training(
    student: Student, keys: tuple[str, ...], weights: Tensor, batches: list[Batch], scaling: Any,
    max_norm: Any,
) -> None:  # fmt: skip
    """What each step returns and leaves is right."""
    reports = trained(student, weights, batches, scaling, max_norm)
    right = PROBE.trained(RIGHT, weights, batches, scaling, max_norm)
    case = f"(scaler: {scaling or 'none'}, max_norm={max_norm})"
    for key in keys:
        actual = [entry(report, key) for report in reports]
        what = f"the list of each step's {'result' if key == 'value' else key} {case}"
        assert_close(actual, [step[key] for step in right], what=what, rtol=1e-2, atol=2e-3)
