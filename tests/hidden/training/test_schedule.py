"""What warmup_cosine, warmup_cosine_scheduler and train_with_schedule promise, sentence by sentence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
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


def factor(s: int, t: int, w: int = 0, m: float = 0.0, part: str = "", wrong: Any = None) -> float:
    """The factor at step s; of one part of the schedule, "rise", "fall" or "end", it may be a wrong one."""
    if part == ("rise" if s < w else "fall" if s < t else "end"):
        return float(wrong(s, t, w, m))
    return (s + 1) / w if s < w else cosine((s - w) / (t - w), m) if s < t else m


# What is wrong, and the factor that it gives for step s, total_steps t, warmup_steps w and min_factor m.
MISTAKES: dict[str, dict[str, Callable[..., float]]] = {
    "rise": {
        "The first step has a rate of 0: take step + 1.": lambda s, t, w, m: s / w,
        "The warm-up does not reach 1.": lambda s, t, w, m: (s + 1) / (w + 1),
        "The warm-up does not start at min_factor.": lambda s, t, w, m: m + (1 - m) * (s + 1) / w,
        "There is no warm-up.": lambda s, t, w, m: 1.0,
    },
    "fall": {
        "The cosine counts the warm-up.": lambda s, t, w, m: cosine(s / t, m),
        "The cosine does not reach its end.": lambda s, t, w, m: cosine((s - w) / t, m),
        "The cosine ends a step early.": lambda s, t, w, m: cosine((s - w) / max(t - w - 1, 1), m),
        "The cosine begins a step late.": lambda s, t, w, m: cosine((s - w + 1) / (t - w), m),
        "min_factor is added to the cosine.": lambda s, t, w, m: m + cosine((s - w) / (t - w)),
        "min_factor is used as a floor.": lambda s, t, w, m: max(m, cosine((s - w) / (t - w))),
        "min_factor is left out.": lambda s, t, w, m: cosine((s - w) / (t - w)),
        "That is a straight line.": lambda s, t, w, m: m + (1 - m) * (t - s) / (t - w),
        "The cosine lacks its pi.": lambda s, t, w, m: cosine((s - w) / (t - w) / math.pi, m),
    },
    "end": {
        "After total_steps it rises again.": lambda s, t, w, m: cosine((s - w) / (t - w), m),
        "After total_steps the factor is 0, not min_factor.": lambda s, t, w, m: 0.0,
        "After total_steps the factor is 1, not min_factor.": lambda s, t, w, m: 1.0,
    },
}


def check_factors(student: Student, setting: Any, steps: Iterable[int], *parts: str) -> None:
    steps, (total, warmup, low) = list(steps), setting
    mistakes = {
        told: [factor(step, total, warmup, low, part, wrong) for step in steps]
        for part in parts
        for told, wrong in MISTAKES[part].items()
    }
    what = f"the list of the factors at the steps {steps[0]} to {steps[-1]} "
    what += f"with total_steps={total}, warmup_steps={warmup}, min_factor={low}"
    right = [float(factor(step, *setting)) for step in steps]
    actual = [number(value) for value in entry(student.run("factors", steps, *setting), kind=list)]
    assert_close(actual, right, what=what, mistakes=mistakes, **ACCURACY)


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
        calls = iter(factors * len(bases))
        twice, first = [base**2 for base in bases], bases[:1] * len(bases)
        mistakes = {
            "LambdaLR multiplies by the base rate: give factors.": rates(0, n, factors, twice),
            "All groups have the rate of the first one.": rates(0, n, factors, first),
            "The base rates do not count.": rates(0, n, factors, [1.0] * len(bases)),
            "The rates are one step ahead.": rates(1, n, factors, bases),
            "The rates are one step late.": rates(-1, n, factors, bases),
            "The function counts its calls, one for each group: take the step that it gets.": [
                [base * next(calls) for base in bases] for _ in range(n)
            ],
        }
        what = f"the list of the rates before and after each step for base rates {bases} and "
        what += f"warmup_cosine_scheduler(optimizer, {', '.join(map(str, setting))})"
        right = rates(0, n, factors, bases)
        assert_close(entry(report, "rates"), right, what=what, mistakes=mistakes, **ACCURACY)


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
        go_on, again = rates(done, n, factors, bases), rates(0, n, factors, bases)
        mistakes = {
            "The schedule starts anew.": again,
            "After the first rate the schedule starts anew.": [go_on[0], *again[1:]],
            "After a resume the rates are one step late.": rates(done - 1, n, factors, bases),
            "After a resume the rates are one step ahead.": rates(done + 1, n, factors, bases),
        }
        what = f"the list of the rates after a resume at step {done} from {source}"
        assert_close(entry(report, "rates"), go_on, what=what, mistakes=mistakes, **ACCURACY)


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
EARLY = "The scheduler steps before the optimizer: the first step's rate is never used."


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


def used_steps(n: int) -> dict[str, list[int]]:
    """The scheduler steps before each of n optimizer steps, rightly and by the usual mistakes."""
    return {
        "": list(range(n)),
        EARLY: list(range(1, n + 1)),
        "The scheduler steps once an epoch, not once after each batch.": [i // 4 for i in range(n)],
        "The scheduler never steps.": [0] * n,
        "No scheduler step follows the last batch of an epoch.": [i - i // 4 for i in range(n)],
    }


def simulate(
    factors: list[float],
    weights: Tensor,
    batches: Any,
    steps: list[int],
    old: float = 0,
    keep: int = 0,
) -> Any:
    """Weights after optimizer steps at these scheduler steps; nothing zeroes the first `keep` gradients."""
    momentum, grad = torch.zeros_like(weights), torch.full_like(weights, old)
    rates = torch.tensor(RATES[:1] * 6 + RATES[1:] * 2, dtype=torch.float64)
    for i, step in enumerate(steps):
        x, y = batches[(i + i // len(batches)) % len(batches)]
        leaf: Any = weights.clone().requires_grad_()
        F.mse_loss(F.linear(x, leaf[:6].reshape(2, 3), leaf[6:]) + 0.25, y).backward()
        grad = leaf.grad + (i < keep) * grad
        momentum = 0.9 * momentum + grad
        weights = weights - rates * factors[step] * momentum
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
            known = {
                told: [RATES[0] * factors[i] for i in steps[begin:end]]
                for told, steps in used_steps(end).items()
            }
            right = known.pop("")
            known["These are the rates after the scheduler's step."] = known.pop(EARLY)
            known["These are the base rates."] = [0.08] * len(right)
            known["These are the factors, not the rates."] = factors[begin:end]
            known["These are the rates of the last group."] = [rate / 0.08 * 0.05 for rate in right]
            known["There is one rate for each epoch: return one for each batch."] = right[::4]
            known["The rates of the last epoch alone are returned."] = right[-4:]
            known["A second call starts anew."] = [0.08 * f for f in factors[: end - begin]]
            what = f"the list of the rates with epochs={count} and 4 batches, from step {begin} on,"
            assert_close(value, right, what=what, mistakes=known, **ACCURACY)


@pytest.mark.points(6)
@pytest.mark.place("train_with_schedule")
@pytest.mark.hint("Per batch: zero_grad, loss, backward, optimizer.step(), scheduler.step().")
def test_trains(student: Student) -> None:
    """Each batch makes one step of the optimizer, then one of the scheduler, with its own gradient."""
    for epochs in ([3], [1], [2, 1]):
        weights, batches, n = torch.randn(8).double(), new_batches(), 4 * sum(epochs)
        factors = new_factors()
        report = trained(student, factors, weights, batches, epochs, grad=50.0)
        known = {
            told: simulate(factors, weights, batches, at) for told, at in used_steps(n).items()
        }
        right, steps = known.pop(""), list(range(n))
        old, kept = (simulate(factors, weights, batches, steps, old, keep=n) for old in (50, 0))
        known["Gradients are never zeroed, those from before the call count too."] = old
        known["Gradients of the batches before count: zero them for each batch."] = kept
        stale = simulate(factors, weights, batches, steps, 50, keep=1)
        known["Gradients from before the call count: zero them before the first batch."] = stale
        bare = simulate(factors, weights, [(x, y + 0.25) for x, y in batches], steps)
        known["The model's hooks do not run: call model(inputs)."] = bare
        cached = simulate(factors, weights, batches * 3, steps)
        known["Each epoch has the batches of the first: iterate the loader anew."] = cached
        what = f"the vector of all weights after calls with epochs={epochs} and 4 batches"
        assert_close(entry(report, "weights"), right, what=what, mistakes=known)
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
