"""What warmup_cosine, warmup_cosine_scheduler and train_with_schedule promise, sentence by sentence."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from grader.judge.checks import assert_close, entry, laws
from grader.judge.student import Student

ACCURACY: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}


def near(value: float) -> float:
    """A number that is drawn, at most a fifth above this one."""
    return round(value * random.uniform(1, 1.2), 4)


def new_settings() -> list[tuple[int, int, float]]:
    """total_steps, warmup_steps and min_factor."""
    return [(11, 3, near(0.2)), (20, 7, near(0.05)), (9, 1, near(0.5)), (30, 29, near(0.1))]


def new_bases() -> list[float]:
    """The base rates of the groups of an optimizer."""
    return [near(0.6), near(0.25), near(1.5)]


def cosine(progress: float, low: float = 0.0) -> float:
    return low + (1 - low) * (1 + math.cos(math.pi * progress)) / 2


def factor(s: int, t: int, w: int = 0, m: float = 0.0) -> float:
    """The factor at step s of t, after w steps of warm-up, down to m."""
    return (s + 1) / w if s < w else cosine((s - w) / (t - w), m) if s < t else m


def check_factors(student: Student, setting: Any, steps: Iterable[int], *parts: str) -> None:
    steps, (total, warmup, low) = list(steps), setting
    what = f"the list of the factors at the steps {steps[0]} to {steps[-1]} "
    what += f"with total_steps={total}, warmup_steps={warmup}, min_factor={low}"
    right = [float(factor(step, *setting)) for step in steps]
    actual = [number(value) for value in entry(student.run("factors", steps, *setting), kind=list)]
    assert_close(actual, right, what=what, **ACCURACY)


def number(value: Any) -> Any:
    """A 0-d tensor as its number: that a factor has to be a Python number, test_edges says."""
    return value.item() if isinstance(value, Tensor) and value.numel() == 1 else value


@pytest.mark.points(6)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("progress = (step - warmup_steps) / (total_steps - warmup_steps), from 0 to 1.")
def test_factors(student: Student) -> None:
    """The factor grows up to 1 in the warm-up, and falls from there to min_factor as a cosine does."""
    for setting in [*new_settings(), (10_000, 100, near(0.01))]:
        check_factors(student, setting, range(0, setting[0], 1 + setting[0] // 99), "rise", "fall")


@pytest.mark.points(4)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("if step >= total_steps: return min_factor")
def test_end(student: Student) -> None:
    """From total_steps on the factor is min_factor, however far the step."""
    for setting in new_settings():
        check_factors(student, setting, [*range(setting[0], 4 * setting[0]), 10**6 + 1], "end")


@pytest.mark.points(2)
@pytest.mark.place("warmup_cosine")
@pytest.mark.hint("Nothing is divided by warmup_steps, or by what is left after it, if that is 0.")
def test_edges(student: Student) -> None:
    """A factor is a Python number, also without a warm-up or a cosine, and for a min_factor of 0 or 1."""
    low = near(0.25)
    for setting in [(6, 0, low), (5, 5, low), (1, 1, low), (1, 0, low), (6, 2, 1.0), (6, 2, 0.0)]:
        check_factors(student, setting, range(setting[0] + 1))
    calls: list[Any] = [(4, 9), (4, 9, 3), (8, 9), (0, 1)]
    for call in calls:
        value, what = student.function("warmup_cosine")(*call), f"warmup_cosine{call}"
        assert_close(value, float(factor(*call)), what=what, **ACCURACY)


@pytest.mark.points(2)
@pytest.mark.place("warmup_cosine")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check all arguments before the first return.")
def test_factor_errors(student: Student) -> None:
    """Bad arguments are a ValueError that names them, whatever the step."""
    steps = (0, 2, 5, 10, 99)
    table: dict[str, Any] = {
        "total_steps": [(step, total) for step in (0, 3) for total in (0, -4)],
        "warmup_steps": [(step, 10, warmup) for step in steps for warmup in (-1, 11)],
        "min_factor": [(step, 10, 4, low) for step in steps for low in (-0.001, 1.001)],
        "step": [(-1, 10), (-7, 10, 10), (-1, 10, 0, 1.0)],
    }
    laws.check_errors(student, "warmup_cosine", table, fine=(0, 10, 10, 1.0))


def own_factors(student: Student, setting: Any) -> list[float]:
    """The student's own factors, so that a mistake in them costs no points twice.

    Where they are no schedule (too few numbers, all in 0..2, differ), the right ones.
    """
    n = 4 * setting[0] + 12
    values = [
        number(value) for value in entry(student.run("factors", [*range(n)], *setting), kind=list)
    ]
    real = all(isinstance(value, (int, float)) and 0 <= value <= 2 for value in values)
    if real and len({*map(float, values)}) > 4:
        return [float(value) for value in values]
    return [float(factor(step, *setting)) for step in range(n)]


def rates(
    begin: int, n: int, factors: Sequence[float], bases: Sequence[float]
) -> list[list[float]]:
    """The rates of each group at n steps from `begin` on; those before the first are its rates."""
    return [[base * factors[max(begin + i, 0)] for base in bases] for i in range(n)]


@pytest.mark.points(6)
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("LambdaLR(optimizer, function): function(step) is a factor, not a rate.")
def test_rates(student: Student) -> None:
    """Each group has its own base rate times the factor of the scheduler steps so far."""
    for bases, setting in (
        (new_bases(), (11, 3, near(0.2))),
        (new_bases()[:1], (6, 1, near(0.1))),
        (new_bases()[:2], (8, 5, near(0.3))),
    ):
        n, factors = setting[0] + 4, own_factors(student, setting)
        report = student.run("rates", bases, n - 1, *setting)
        assert entry(report, "is") is True, "The result is no torch.optim.lr_scheduler.LambdaLR."
        what = f"the list of the rates before and after each step for base rates {bases} and "
        what += f"warmup_cosine_scheduler(optimizer, {', '.join(map(str, setting))})"
        right = rates(0, n, factors, bases)
        assert_close(entry(report, "rates"), right, what=what, **ACCURACY)


@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("The defaults stand in the signature of the stub.")
def test_defaults(student: Student) -> None:
    """Without more arguments there is no warm-up, and the rate falls to 0."""
    bases, right = new_bases(), own_factors(student, (5, 0, 0.0))
    report = student.run("rates", bases, 8, 5)
    what = "the list of the rates with warmup_cosine_scheduler(optimizer, 5)"
    assert_close(entry(report, "rates"), rates(0, 9, right, bases), what=what, **ACCURACY)


@pytest.mark.points(5)
@pytest.mark.requires("test_rates")
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("The factor depends on the function's argument alone; LambdaLR saves the step.")
def test_resumes(student: Student) -> None:
    """State dicts can be saved and loaded, and a new optimizer and scheduler go on with the same rates."""
    check_resumed(student, "the state dicts of both", "optimizer scheduler")
    check_resumed(student, "the state dicts of both", "scheduler optimizer")


@pytest.mark.points(3)
@pytest.mark.requires("test_rates")
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.hint("LambdaLR(optimizer, function, last_epoch)")
def test_last_epoch(student: Student) -> None:
    """With last_epoch = steps done - 1 over an optimizer that has loaded its state the rates go on."""
    check_resumed(student, "the optimizer's state dict and last_epoch", "optimizer")


def check_resumed(student: Student, source: str, way: str) -> None:
    bases, setting, n = new_bases(), new_settings()[0], 10
    factors = own_factors(student, setting)
    for done in (4, 1, 2, 12):
        report = student.run("resumed", bases, done, n - 1, list(setting), way)
        why = entry(report, "unwritten", kind=(str, type(None)))
        told = f"torch.save, or torch.load with weights_only=True, refuses the state dict ({why})."
        assert why is None, f"{told} Is a function or an object of yours kept on the scheduler?"
        go_on = rates(done, n, factors, bases)
        what = f"the list of the rates after a resume at step {done} from {source}"
        assert_close(entry(report, "rates"), go_on, what=what, **ACCURACY)


@pytest.mark.points(2)
@pytest.mark.place("warmup_cosine_scheduler")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("The checks of warmup_cosine run as soon as LambdaLR asks for the first factor.")
def test_scheduler_errors(student: Student) -> None:
    """Bad arguments are a ValueError that names them when the scheduler is made."""
    sgd = student.made("sgd", new_bases())
    table: dict[str, Any] = {
        "total_steps": [(sgd, 0), (sgd, -3)],
        "warmup_steps": [(sgd, 5, -1), (sgd, 5, 6)],
        "min_factor": [(sgd, 5, 2, -0.001), (sgd, 5, 2, 1.001)],
    }
    laws.check_errors(student, "warmup_cosine_scheduler", table, fine=(sgd, 5, 5, 1.0))


RATES = [0.08, 0.05]  # of weight and bias, each a group of its own


def new_factors() -> list[float]:
    """Factors that are no schedule of the student's."""
    return [(i + 1) / 31 for i in random.sample(range(31), 31)]


def new_batches() -> list[tuple[Tensor, Tensor]]:
    return [(torch.randn(n, 3).double(), 3 * torch.randn(n, 2).double()) for n in (4, 2, 5, 1)]


def trained(
    student: Student,
    factors: list[float],
    weights: Tensor,
    batches: Any,
    epochs: Any,
    **options: Any,
) -> Any:
    model = student.made("network", weights, **options)
    optimizer = student.made("sgd", RATES, model)
    scheduler = student.made("scheduler", optimizer, factors)
    return student.run("trained", model, batches, optimizer, scheduler, epochs)


def simulate(
    factors: list[float],
    weights: Tensor,
    batches: Any,
    steps: int,
) -> Any:
    """Weights after so many optimizer steps, each with a scheduler step after it."""
    momentum = torch.zeros_like(weights)
    rates = torch.tensor(RATES[:1] * 6 + RATES[1:] * 2, dtype=torch.float64)
    for i in range(steps):
        x, y = batches[(i + i // len(batches)) % len(batches)]
        leaf: Any = weights.clone().requires_grad_()
        F.mse_loss(F.linear(x, leaf[:6].reshape(2, 3), leaf[6:]) + 0.25, y).backward()
        momentum = 0.9 * momentum + leaf.grad
        weights = weights - rates * factors[i] * momentum
    return weights


@pytest.mark.points(4)
@pytest.mark.place("train_with_schedule")
@pytest.mark.hint("rates.append(optimizer.param_groups[0]['lr']) before optimizer.step().")
def test_returned_rates(student: Student) -> None:
    """The result is the rate of the first group that each optimizer step used, over all epochs."""
    for epochs in ([3], [1], [2, 1]):
        factors = new_factors()
        report = trained(student, factors, torch.randn(8).double(), new_batches(), epochs)
        values = entry(report, "values", kind=list, count=len(epochs))
        begin, end = 0, 0
        for count, value in zip(epochs, values, strict=True):
            begin, end = end, end + 4 * count
            right = [RATES[0] * factor for factor in factors[begin:end]]
            what = f"the list of the rates with epochs={count} and 4 batches, from step {begin} on,"
            assert_close(value, right, what=what, **ACCURACY)


@pytest.mark.points(6)
@pytest.mark.place("train_with_schedule")
@pytest.mark.hint("Per batch: zero_grad, loss, backward, optimizer.step(), scheduler.step().")
def test_trains(student: Student) -> None:
    """Each batch makes one step of the optimizer, then one of the scheduler, with its own gradient."""
    for epochs in ([3], [1], [2, 1]):
        weights, batches, n = torch.randn(8).double(), new_batches(), 4 * sum(epochs)
        factors = new_factors()
        report = trained(student, factors, weights, batches, epochs, grad=50.0)
        right = simulate(factors, weights, batches, n)
        what = f"the vector of all weights after calls with epochs={epochs} and 4 batches"
        assert_close(entry(report, "weights"), right, what=what)
        what = "the list of the groups' rates afterwards, after as many scheduler steps as batches,"
        assert_close(entry(report, "rates"), [r * factors[n] for r in RATES], what=what, **ACCURACY)


@pytest.mark.points(2)
@pytest.mark.place("train_with_schedule")
@pytest.mark.word("the sandbox says in which mode the model runs")
@pytest.mark.hint("model.train(), then for inputs, targets in loader: once an epoch.")
def test_mode_and_passes(student: Student) -> None:
    """The model trains in training mode, all of its parts, with one pass over the loader an epoch."""
    for training in ([], [""], ["body.0"]):
        weights = torch.randn(8).double()
        report = trained(student, new_factors(), weights, new_batches(), [2, 1], training=training)
        modes = entry(report, "modes", kind=list)
        told = "The model, or a part of it, trains in evaluation mode: call model.train() first."
        assert all(laws.same(mode, [True] * 3) for mode in modes), told
        passes = entry(report, "passes", kind=int)
        assert passes == 3, f"There are {passes} passes over the loader in 3 epochs, not 3."


@pytest.mark.points(2)
@pytest.mark.requires("test_trains")
@pytest.mark.place("train_with_schedule")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if epochs < 1: raise ValueError(...), and nothing in place on a batch.")
def test_train_errors(student: Student) -> None:
    """An epochs below 1 is a ValueError that names it; batches and random states are left alone."""
    model = student.made("network", torch.randn(8).double())
    optimizer = student.made("sgd", RATES, model)
    loss = laws.shipped(student, "value").made("torch.nn.functional.mse_loss")
    scheduler, batches = student.made("scheduler", optimizer, new_factors()), new_batches()[:1]
    given = (model, batches, loss, optimizer, scheduler)
    calls, fine = [(*given, epochs) for epochs in (0, -1)], (*given, 1)
    parts = ["1.values", "1.grad", "1.requires_grad", "random", "modes", "hooks"]
    laws.check_changes_nothing(student, "train_with_schedule", *fine, only=parts)
    laws.check_errors(student, "train_with_schedule", {"epochs": calls}, fine=fine)
