"""Tests of warmup_cosine, warmup_cosine_scheduler and train_with_schedule."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

Batch = tuple[Tensor, Tensor]

ACCURACY: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
FAR = 10**6 + 1

# The training: rates of the groups of weight and bias, rows of the batches, epochs of two calls.
RATES, MOMENTUM = [0.08, 0.05], 0.9
ROWS = (4, 2, 5, 1)
EPOCHS = [2, 1]
STEPS = len(ROWS) * sum(EPOCHS)
OLD_GRADIENT = 50.0
HOOK = 0.25  # what a hook of the network adds to its outputs


class Schedule(NamedTuple):
    """The arguments of a schedule, after the step or the optimizer."""

    total_steps: int
    warmup_steps: int = 0
    min_factor: float = 0.0


# --- warmup_cosine -------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("progress = (step - warmup_steps) / (total_steps - warmup_steps), from 0 to 1.")
def test_factors(student: Student) -> None:
    """The factor grows up to 1 in the warm-up, and falls from there to min_factor as a cosine does."""
    for schedule in [*new_schedules(), Schedule(9, 1, near(0.5))]:
        check_factors(student, schedule, range(schedule.total_steps))


@pytest.mark.points(4)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("if step >= total_steps: return min_factor")
def test_end(student: Student) -> None:
    """From total_steps on the factor is min_factor, however far the step."""
    for schedule in new_schedules():
        total = schedule.total_steps
        check_factors(student, schedule, [*range(total, 3 * total), FAR])


@pytest.mark.points(2)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("Nothing is divided by warmup_steps, or by what is left after it, if that is 0.")
def test_edges(student: Student) -> None:
    """A factor is a Python number, also without a warm-up or a cosine, and for a min_factor of 0 or 1."""
    low = near(0.25)
    for arguments in [(6, 0, low), (5, 5, low), (1, 1, low), (6, 2, 1.0), (6, 2, 0.0)]:
        schedule = Schedule(*arguments)
        check_factors(student, schedule, range(schedule.total_steps + 1))
    # One by one, and with defaults: check_factors takes a tensor for a number.
    calls: list[tuple[int, ...]] = [(4, 9), (4, 9, 3), (8, 9)]
    for step, *given in calls:
        value = student.function("warmup_cosine")(step, *given)
        what = f"warmup_cosine{(step, *given)}"
        assert_close(value, factor(step, Schedule(*given)), what=what, **ACCURACY)


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
    schedule, bases, steps = Schedule(11, 3, near(0.2)), new_bases(), 14
    report = student.run("rates", schedule, bases, steps)
    told = "The result is no torch.optim.lr_scheduler.LambdaLR."
    assert entry(report, "is LambdaLR") is True, told
    assert_close(
        entry(report, "rates"),
        right_rates(student, schedule, bases, range(steps + 1)),
        what=f"the list of the rates of groups with the base rates {bases}",
        **ACCURACY,
    )


@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("The defaults stand in the signature of the stub.")
def test_defaults(student: Student) -> None:
    """Without more arguments there is no warm-up, and the rate falls to 0."""
    bases, steps = new_bases(), 8
    assert_close(
        entry(student.run("rates", [5], bases, steps), "rates"),
        right_rates(student, Schedule(5), bases, range(steps + 1)),
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


def new_schedules() -> list[Schedule]:
    return [
        Schedule(11, 3, near(0.2)),
        Schedule(20, 7, near(0.05)),
        Schedule(30, 29, near(0.1)),
    ]


def new_bases() -> list[float]:
    """The base rates of the groups of an optimizer."""
    return [near(0.6), near(0.25), near(1.5)]


def factor(step: int, schedule: Schedule) -> float:
    """What warmup_cosine should give."""
    total, warmup, low = schedule
    if step < warmup:
        return (step + 1) / warmup
    if step >= total:
        return low
    progress = (step - warmup) / (total - warmup)
    return low + (1 - low) * (1 + math.cos(math.pi * progress)) / 2


def factors_at(student: Student, schedule: Schedule, steps: Sequence[int]) -> list[Any]:
    """The student's factors; that they have to be Python numbers is the affair of test_edges."""
    report = student.run("factors", schedule, list(steps))
    return [
        value.item() if isinstance(value, Tensor) and value.numel() == 1 else value
        for value in entry(report, kind=list, count=len(steps))
    ]


def check_factors(student: Student, schedule: Schedule, steps: Sequence[int]) -> None:
    total, warmup, low = schedule
    what = f"the list of the factors at the steps {steps[0]} to {steps[-1]} "
    what += f"with total_steps={total}, warmup_steps={warmup}, min_factor={low}"
    right = [factor(step, schedule) for step in steps]
    assert_close(factors_at(student, schedule, steps), right, what=what, **ACCURACY)


def own_factors(student: Student, schedule: Schedule) -> list[float]:
    """The student's own factors, so that a mistake in them costs no points twice.

    Where they are no schedule (not in 0..2, or all alike), the right ones.
    """
    steps = range(schedule.total_steps + 20)
    found = factors_at(student, schedule, steps)
    usable = all(isinstance(value, (int, float)) and 0 <= value <= 2 for value in found)
    if usable and len(set(found)) > 4:
        return [float(value) for value in found]
    return [factor(step, schedule) for step in steps]


def right_rates(
    student: Student, schedule: Schedule, bases: list[float], steps: Sequence[int]
) -> list[list[float]]:
    """The rates of all groups at each of these steps, by the student's own factors."""
    factors = own_factors(student, schedule)
    return [[base * factors[step] for base in bases] for step in steps]


def check_resumed(student: Student, probe: str) -> None:
    """A schedule that this probe resumes, in the warm-up and behind it, goes on with its rates."""
    bases, schedule, steps = new_bases(), new_schedules()[0], 8
    for done in (2, 6):
        assert_close(
            student.run(probe, schedule, bases, done, steps),
            right_rates(student, schedule, bases, range(done, done + steps + 1)),
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
    model = student.made("network", *start, OLD_GRADIENT, list(training))
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
    velocities = [torch.zeros_like(tensor) for tensor in start]
    for step in range(STEPS):
        # Each pass of the probe's loader begins one batch later.
        epoch, place = divmod(step, len(batches))
        inputs, targets = batches[(epoch + place) % len(batches)]
        loss = F.mse_loss(F.linear(inputs, weight, bias) + HOOK, targets)
        gradients = torch.autograd.grad(loss, [weight, bias])
        with torch.no_grad():
            for i, parameter in enumerate((weight, bias)):  # as SGD does it
                velocities[i] = MOMENTUM * velocities[i] + gradients[i]
                parameter.sub_(RATES[i] * factors[step] * velocities[i])
    return [weight.detach(), bias.detach()]
