"""Tests of warmup_cosine, warmup_cosine_scheduler and train_with_schedule."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Setting = tuple[int, int, float]  # total_steps, warmup_steps, min_factor
Batch = tuple[Tensor, Tensor]

ACCURACY: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
FAR = 10**6 + 1

# The training: rates of the groups of weight and bias, epochs of two calls over four batches.
RATES, MOMENTUM = [0.08, 0.05], 0.9
ROWS = (4, 2, 5, 1)
EPOCHS = [2, 1]
STEPS = len(ROWS) * sum(EPOCHS)
STALE = 50.0


# --- warmup_cosine -------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("progress = (step - warmup_steps) / (total_steps - warmup_steps), from 0 to 1.")
def test_factors(student: Student) -> None:
    """The factor grows up to 1 in the warm-up, and falls from there to min_factor as a cosine does."""
    for setting in [*new_settings(), (9, 1, near(0.5))]:
        check_factors(student, setting, range(setting[0]))


@pytest.mark.points(4)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("if step >= total_steps: return min_factor")
def test_end(student: Student) -> None:
    """From total_steps on the factor is min_factor, however far the step."""
    for setting in new_settings():
        check_factors(student, setting, [*range(setting[0], 3 * setting[0]), FAR])


@pytest.mark.points(2)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("Nothing is divided by warmup_steps, or by what is left after it, if that is 0.")
def test_edges(student: Student) -> None:
    """A factor is a Python number, also without a warm-up or a cosine, and for a min_factor of 0 or 1."""
    low = near(0.25)
    for setting in [(6, 0, low), (5, 5, low), (1, 1, low), (6, 2, 1.0), (6, 2, 0.0)]:
        check_factors(student, setting, range(setting[0] + 1))
    calls: list[Any] = [(4, 9), (4, 9, 3), (8, 9)]
    for call in calls:
        value = student.function("warmup_cosine")(*call)
        assert_close(value, factor(*call), what=f"warmup_cosine{call}", **ACCURACY)


@pytest.mark.points(2)
@pytest.mark.place("warmup_cosine")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check all arguments before the first return.")
def test_factor_errors(student: Student) -> None:
    """Bad arguments are a ValueError that names them, whatever the step."""
    table: dict[str, Any] = {
        "total_steps": [(0, 0), (3, -4)],
        "warmup_steps": [(0, 10, -1), (5, 10, 11), (10, 10, -1)],
        "min_factor": [(0, 10, 4, -0.001), (5, 10, 4, 1.001), (10, 10, 4, -0.001)],
        "step": [(-1, 10), (-7, 10, 10)],
    }
    laws.check_errors(student, "warmup_cosine", table, fine=(0, 10, 10, 1.0))


# --- warmup_cosine_scheduler ---------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("LambdaLR(optimizer, function): function(step) is a factor, not a rate.")
def test_rates(student: Student) -> None:
    """Each group has its own base rate times the factor of the scheduler steps so far."""
    setting, steps, bases = (11, 3, near(0.2)), 14, new_bases()
    report = student.run("rates", bases, steps, *setting)
    told = "The result is no torch.optim.lr_scheduler.LambdaLR."
    assert entry(report, "is LambdaLR") is True, told
    assert_close(
        entry(report, "rates"),
        rates(bases, own_factors(student, setting), 0, steps),
        what=f"the list of the rates of groups with the base rates {bases}",
        **ACCURACY,
    )


@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("The defaults stand in the signature of the stub.")
def test_defaults(student: Student) -> None:
    """Without more arguments there is no warm-up, and the rate falls to 0."""
    bases = new_bases()
    assert_close(
        entry(student.run("rates", bases, 8, 5), "rates"),
        rates(bases, own_factors(student, (5, 0, 0.0)), 0, 8),
        what="the list of the rates with warmup_cosine_scheduler(optimizer, 5)",
        **ACCURACY,
    )


@pytest.mark.points(5)
@pytest.mark.requires("test_rates")
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("The factor depends on the function's argument alone; LambdaLR saves the step.")
def test_resumes(student: Student) -> None:
    """State dicts can be saved and loaded, and a new optimizer and scheduler go on with the same rates."""
    check_resumed(student, "resumed_from_state_dicts")


@pytest.mark.points(3)
@pytest.mark.requires("test_rates")
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("LambdaLR(optimizer, function, last_epoch)")
def test_last_epoch(student: Student) -> None:
    """With last_epoch = steps done - 1 over an optimizer that has loaded its state the rates go on."""
    check_resumed(student, "resumed_by_last_epoch")


@pytest.mark.points(2)
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("The checks of warmup_cosine run as soon as LambdaLR asks for the first factor.")
def test_scheduler_errors(student: Student) -> None:
    """Bad arguments are a ValueError that names them when the scheduler is made."""
    made = student.made("optimizer", new_bases())
    table: dict[str, Any] = {
        "total_steps": [(made, 0), (made, -3)],
        "warmup_steps": [(made, 5, -1), (made, 5, 6)],
        "min_factor": [(made, 5, 2, -0.001), (made, 5, 2, 1.001)],
    }
    laws.check_errors(student, "warmup_cosine_scheduler", table, fine=(made, 5, 5, 1.0))


# --- train_with_schedule -------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("train_with_schedule")
@pytest.mark.hint("Per batch: zero_grad, loss, backward, optimizer.step(), scheduler.step().")
def test_trains(student: Student) -> None:
    """Each batch makes one step of the optimizer, then one of the scheduler, with its own gradient."""
    factors, start, batches = new_factors(), new_parameters(), new_batches()
    report = trained(student, factors, start, batches)
    assert_close(
        entry(report, "parameters"),
        parameters_after(factors, start, batches),
        what=f"the list of weight and bias after calls with epochs {EPOCHS} and 4 batches",
    )
    assert_close(
        entry(report, "rates"),
        [rate * factors[STEPS] for rate in RATES],
        what="the list of the groups' rates afterwards, after as many scheduler steps as batches",
        **ACCURACY,
    )


@pytest.mark.points(4)
@pytest.mark.place("train_with_schedule")
@pytest.mark.hint("rates.append(optimizer.param_groups[0]['lr']) before optimizer.step().")
def test_returned_rates(student: Student) -> None:
    """The result is the rate of the first group that each optimizer step used, over all epochs."""
    factors = new_factors()
    used = [RATES[0] * factor for factor in factors[:STEPS]]
    first = len(ROWS) * EPOCHS[0]
    assert_close(
        entry(trained(student, factors, new_parameters(), new_batches()), "values"),
        [used[:first], used[first:]],
        what=f"the list of the lists of rates of calls with epochs {EPOCHS} and 4 batches",
        **ACCURACY,
    )


@pytest.mark.points(2)
@pytest.mark.place("train_with_schedule")
@pytest.mark.word("the sandbox says in which mode the model runs")
@pytest.mark.hint("model.train() before the first batch.")
def test_mode(student: Student) -> None:
    """The model trains in training mode, all of its parts."""
    what = "the list of the modes of the model and its parts in each step"
    for training in (["body.0"], [""]):
        report = trained(student, new_factors(), new_parameters(), new_batches(), training)
        assert_equal(entry(report, "modes"), [[True] * 3] * STEPS, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_trains")
@pytest.mark.place("train_with_schedule")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if epochs < 1: raise ValueError(...), and nothing in place on a batch.")
def test_train_errors(student: Student) -> None:
    """An epochs below 1 is a ValueError that names it; batches and random states are left alone."""
    model, sgd, scheduler = training_of(student, new_factors(), new_parameters())
    call = (model, new_batches()[:1], student.made("loss"), sgd, scheduler)
    only = ("1.values", "1.grad", "1.requires_grad", "random", "modes", "hooks")
    laws.check_changes_nothing(student, "train_with_schedule", *call, 1, only=only)
    table = {"epochs": [(*call, 0), (*call, -1)]}
    laws.check_errors(student, "train_with_schedule", table, fine=(*call, 1))


# --- factors and rates ---------------------------------------------------------------------------


def near(value: float) -> float:
    """A number that is drawn, at most a fifth above this one."""
    return round(value * random.uniform(1, 1.2), 4)


def new_settings() -> list[Setting]:
    return [(11, 3, near(0.2)), (20, 7, near(0.05)), (30, 29, near(0.1))]


def new_bases() -> list[float]:
    """The base rates of the groups of an optimizer."""
    return [near(0.6), near(0.25), near(1.5)]


def factor(step: int, total_steps: int, warmup_steps: int = 0, min_factor: float = 0.0) -> float:
    """What warmup_cosine should give."""
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if step >= total_steps:
        return min_factor
    progress = (step - warmup_steps) / (total_steps - warmup_steps)
    return min_factor + (1 - min_factor) * (1 + math.cos(math.pi * progress)) / 2


def factors_at(student: Student, setting: Setting, steps: Sequence[int]) -> list[Any]:
    """The student's factors; that they have to be Python numbers is the affair of test_edges."""
    found = entry(student.run("factors", list(steps), *setting), kind=list, count=len(steps))
    for i, value in enumerate(found):
        if isinstance(value, Tensor) and value.numel() == 1:
            found[i] = value.item()
    return list(found)


def check_factors(student: Student, setting: Setting, steps: Sequence[int]) -> None:
    total, warmup, low = setting
    what = f"the list of the factors at the steps {steps[0]} to {steps[-1]} "
    what += f"with total_steps={total}, warmup_steps={warmup}, min_factor={low}"
    right = [factor(step, *setting) for step in steps]
    assert_close(factors_at(student, setting, steps), right, what=what, **ACCURACY)


def own_factors(student: Student, setting: Setting) -> list[float]:
    """The student's own factors, so that a mistake in them costs no points twice.

    Where they are no schedule (not in 0..2, or all alike), the right ones.
    """
    steps = range(setting[0] + 20)
    found = factors_at(student, setting, steps)
    numbers = [float(value) for value in found if isinstance(value, (int, float))]
    schedule = [value for value in numbers if 0 <= value <= 2]
    if len(schedule) == len(steps) and len(set(schedule)) > 4:
        return schedule
    return [factor(step, *setting) for step in steps]


def rates(bases: list[float], factors: list[float], first: int, steps: int) -> list[list[float]]:
    """The rates of each group at the step `first` and after each of so many steps more."""
    return [[base * factors[first + i] for base in bases] for i in range(steps + 1)]


def check_resumed(student: Student, way: str) -> None:
    """A schedule that is resumed in this way, in the warm-up and behind it, goes on with its rates."""
    bases, setting, steps = new_bases(), new_settings()[0], 8
    for done in (2, 6):
        assert_close(
            student.run(way, bases, done, steps, *setting),
            rates(bases, own_factors(student, setting), done, steps),
            what=f"the list of the rates after a resume at step {done}",
            **ACCURACY,
        )


# --- training ------------------------------------------------------------------------------------


def new_factors() -> list[float]:
    """Factors that are no schedule of the student's."""
    return [i / 31 for i in random.sample(range(1, 32), 31)]


def new_parameters() -> list[Tensor]:
    """Weight and bias of the probe's network."""
    return [torch.randn(2, 3, dtype=torch.float64), torch.randn(2, dtype=torch.float64)]


def new_batches() -> list[Batch]:
    return [(torch.randn(n, 3).double(), 3 * torch.randn(n, 2).double()) for n in ROWS]


def training_of(
    student: Student, factors: list[float], start: list[Tensor], training: Sequence[str] = ()
) -> tuple[Made, Made, Made]:
    """The probe's network, its optimizer, and a scheduler with these factors."""
    model = student.made("network", *start, STALE, list(training))
    sgd = student.made("sgd", model, RATES, MOMENTUM)
    return model, sgd, student.made("scheduler", sgd, factors)


def trained(
    student: Student,
    factors: list[float],
    start: list[Tensor],
    batches: list[Batch],
    training: Sequence[str] = (),
) -> Any:
    """What two calls of train_with_schedule give and leave."""
    model, sgd, scheduler = training_of(student, factors, start, training)
    return student.run("trained", model, batches, sgd, scheduler, EPOCHS)


def parameters_after(
    factors: list[float], start: list[Tensor], batches: list[Batch]
) -> list[Tensor]:
    """Weight and bias as they should be after all steps."""
    weight, bias = (tensor.clone().requires_grad_() for tensor in start)
    speeds = [torch.zeros_like(tensor) for tensor in start]
    for step in range(STEPS):
        # Each pass of the probe's loader begins one batch later.
        epoch, place = divmod(step, len(batches))
        inputs, targets = batches[(epoch + place) % len(batches)]
        loss = F.mse_loss(F.linear(inputs, weight, bias) + 0.25, targets)
        gradients = torch.autograd.grad(loss, [weight, bias])
        with torch.no_grad():
            for i, parameter in enumerate((weight, bias)):
                speeds[i] = MOMENTUM * speeds[i] + gradients[i]
                parameter.sub_(RATES[i] * factors[step] * speeds[i])
    return [weight.detach(), bias.detach()]
