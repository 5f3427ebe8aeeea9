"""Tests of warmup_cosine, warmup_cosine_scheduler and train_with_schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, within
from grader.judge.student import Student
from grader.sandbox.wire.values import Made

# The arguments total_steps, warmup_steps and min_factor.
Schedule = tuple[int, int, float]

ACCURACY: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-6}
FAR = 10**6 + 1
# The rows of the batches of an epoch, and the epochs of two calls.
ROWS = (4, 2, 5, 1)
EPOCHS = [2, 1]


# --- warmup_cosine -------------------------------------------------------------------------------


@promise(
    "warmup_cosine",
    points=6,
    hint="progress = (step - warmup_steps) / (total_steps - warmup_steps), from 0 to 1.",
)
def test_factors(code: Student, draw: Draw) -> Cases:
    """The factor grows up to 1 in the warm-up, and then falls to min_factor as a cosine."""
    for schedule in [*new_schedules(draw), (9, 1, draw.number(0.5, 0.6))]:
        yield factors_at(code, schedule, range(schedule[0]))


@promise(
    "warmup_cosine",
    points=4,
    hint="if step >= total_steps: return min_factor",
)
def test_end(code: Student, draw: Draw) -> Cases:
    """From total_steps on, the factor is min_factor, at any later step."""
    for schedule in new_schedules(draw):
        yield factors_at(code, schedule, [*range(schedule[0], 3 * schedule[0]), FAR])


@promise(
    "warmup_cosine",
    points=2,
    hint="Do not divide by warmup_steps or by the steps after it if they are 0.",
)
def test_edges(code: Student, draw: Draw) -> Cases:
    """A factor is a Python number, also without a warm-up or a cosine, and for a min_factor of 0 or 1."""
    low = draw.number(0.25, 0.3)
    for schedule in [(6, 0, low), (5, 5, low), (1, 1, low), (6, 2, 1.0), (6, 2, 0.0)]:
        yield factors_at(code, schedule, range(schedule[0] + 1))
    calls: list[tuple[int, ...]] = [(4, 9), (4, 9, 3), (8, 9)]
    for call in calls:
        yield f"warmup_cosine{call}", within(code.function("warmup_cosine")(*call), **ACCURACY)


@promise(
    "warmup_cosine",
    points=2,
    hint="Check all arguments before the first return.",
    word="the sandbox says that it raised",
)
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


@promise(
    "warmup_cosine_scheduler",
    points=6,
    hint="LambdaLR(optimizer, function): function(step) is a factor, not a rate.",
)
def test_rates(code: Student, draw: Draw) -> Cases:
    """Each group's rate is its own base rate times the factor for the number of scheduler steps so far."""
    schedule, bases = new_schedules(draw)[0], new_bases(draw)
    report = code.run("rates", schedule, bases, 14)
    told = "The result is not a torch.optim.lr_scheduler.LambdaLR."
    assert entry(report, "is LambdaLR") is True, told
    what = "the distance of the groups' rates from their base rates times the factors"
    yield what, distances(code, entry(report, "rates"), schedule, bases)


@promise(
    "warmup_cosine_scheduler",
    hint="The defaults are in the signature of the stub.",
)
def test_defaults(code: Student, draw: Draw) -> Cases:
    """By default there is no warm-up, and the rate falls to 0."""
    what = "the distance of the rates with warmup_cosine_scheduler(optimizer, 5)"
    bases = new_bases(draw)
    yield what, distances(code, entry(code.run("rates", [5], bases, 8), "rates"), [5], bases)


@promise(
    "warmup_cosine_scheduler",
    points=5,
    hint="The factor depends only on the function's argument; LambdaLR saves the step.",
    after="test_rates",
)
def test_resumes(code: Student, draw: Draw) -> Cases:
    """State dicts can be saved and loaded, and a new optimizer and scheduler go on with the same rates."""
    for done in (2, 6):
        what = f"the distance of the rates after a resume at step {done}"
        yield what, resumed(code, draw, "resumed_from_state_dicts", done)


@promise(
    "warmup_cosine_scheduler",
    points=3,
    hint="LambdaLR(optimizer, function, last_epoch)",
    after="test_rates",
)
def test_last_epoch(code: Student, draw: Draw) -> Cases:
    """With last_epoch = steps done - 1 and an optimizer that has loaded its state, the rates go on."""
    for done in (2, 6):
        what = f"the distance of the rates after a resume at step {done}"
        yield what, resumed(code, draw, "resumed_by_last_epoch", done)


@promise(
    "warmup_cosine_scheduler",
    points=2,
    hint="The checks of warmup_cosine run as soon as LambdaLR asks for the first factor.",
    word="the sandbox says that it raised",
)
def test_scheduler_errors(student: Student) -> None:
    """Bad arguments are a ValueError that names them, when the scheduler is made."""
    made = student.made("optimizer", [0.6, 0.25])
    table: dict[str, Any] = {
        "total_steps": [(made, 0), (made, -3)],
        "warmup_steps": [(made, 5, -1), (made, 5, 6)],
        "min_factor": [(made, 5, 2, -0.001), (made, 5, 2, 1.001)],
    }
    laws.check_errors(student, "warmup_cosine_scheduler", table, fine=(made, 5, 5, 1.0))


# --- train_with_schedule -------------------------------------------------------------------------


@promise(
    "train_with_schedule",
    points=6,
    hint="Per batch: zero_grad, loss, backward, optimizer.step(), scheduler.step().",
)
def test_trains(code: Student, draw: Draw) -> Cases:
    """Each batch makes one step of the optimizer, then one of the scheduler, with its own gradient."""
    report = trained(code, draw)
    yield (
        f"the list of weight and bias after calls with epochs {EPOCHS} and 4 batches",
        within(entry(report, "parameters"), rtol=1e-5),
    )
    yield (
        "the list of the groups' rates afterwards, after as many scheduler steps as batches",
        within(entry(report, "rates"), **ACCURACY),
    )


@promise(
    "train_with_schedule",
    points=4,
    hint="rates.append(optimizer.param_groups[0]['lr']) before optimizer.step().",
)
def test_returned_rates(code: Student, draw: Draw) -> Cases:
    """The result is the rate of the first group that each optimizer step used, over all epochs."""
    what = f"the list of the lists of rates of calls with epochs {EPOCHS} and 4 batches"
    yield what, within(entry(trained(code, draw), "values"), **ACCURACY)


@promise(
    "train_with_schedule",
    points=2,
    hint="model.train() before the first batch.",
    word="the sandbox says in which mode the model runs",
)
def test_mode(code: Student, draw: Draw) -> Cases:
    """The model and all of its parts train in training mode."""
    what = "the list of the modes of the model and its parts in each step"
    for training in (["body.0"], [""]):
        yield what, entry(trained(code, draw, training), "modes")


@promise(
    "train_with_schedule",
    hint="No in-place operation on inputs or targets, no seed.",
    after="test_trains",
)
def test_leaves_batches(student: Student) -> None:
    """Batches and random states are left as they are."""
    call = *new_training(student, Draw(0)), 1
    only = ("1.values", "1.grad", "1.requires_grad", "random", "modes", "hooks")
    laws.check_changes_nothing(student, "train_with_schedule", *call, only=only)


@promise(
    "train_with_schedule",
    hint="if epochs < 1: raise ValueError(...)",
    word="the sandbox says that it raised",
)
def test_train_errors(student: Student) -> None:
    """An epochs below 1 is a ValueError that names it."""
    call = new_training(student, Draw(0))
    table = {"epochs": [(*call, 0), (*call, -1)]}
    laws.check_errors(student, "train_with_schedule", table, fine=(*call, 1))


# --- helpers of the tests ------------------------------------------------------------------------


def new_schedules(draw: Draw) -> list[Schedule]:
    return [
        (11, 3, draw.number(0.2, 0.25)),
        (20, 7, draw.number(0.05, 0.06)),
        (30, 29, draw.number(0.1, 0.12)),
    ]


def new_bases(draw: Draw) -> list[float]:
    """The base rates of the groups of an optimizer."""
    return [draw.number(0.6, 0.7), draw.number(0.25, 0.3), draw.number(1.5, 1.8)]


def factors_at(code: Student, schedule: Schedule, steps: Sequence[int]) -> tuple[str, Any]:
    total, warmup, low = schedule
    what = f"the list of the factors at the steps {steps[0]} to {steps[-1]} "
    what += f"with total_steps={total}, warmup_steps={warmup}, min_factor={low:.6f}"
    return what, within(code.run("factors", schedule, list(steps)), **ACCURACY)


def resumed(code: Student, draw: Draw, probe: str, done: int) -> Any:
    """The distances of the rates from this probe's resumed schedule, in the warm-up or after it."""
    schedule, bases = new_schedules(draw)[0], new_bases(draw)
    return distances(code, code.run(probe, schedule, bases, done, 8), schedule, bases, done)


def distances(
    code: Student, rates: Any, schedule: Sequence[float], bases: list[float], first: int = 0
) -> Any:
    """The distances of rates from the base rates times the answer's own factors, from step `first` on.

    So a mistake in the factors does not cost points twice. If the factors take only a few values, distances
    would prove nothing, and the rates themselves are compared.
    """
    count = len(entry(rates, kind=list))
    found = code.run("factors", schedule, list(range(first, first + count)))
    factors = [entry(found, i, kind=(int, float)) for i in range(count)]
    if len(set(factors)) <= 4:
        return within(rates, **ACCURACY)
    off = [
        [entry(rates, i, j, kind=(int, float)) - base * factor for j, base in enumerate(bases)]
        for i, factor in enumerate(factors)
    ]
    return within(off, **ACCURACY)


def new_training(
    code: Student, draw: Draw, training: Sequence[str] = ()
) -> tuple[Made, list[tuple[Tensor, Tensor]], Made, Made, Made]:
    """The network, batches, the loss, the optimizer, and a scheduler with factors in a drawn order."""
    model = code.made("network", draw.seed(), list(training))
    sgd = code.made("sgd", model)
    factors = [(i + 1) / 31 for i in draw.permutation(31).tolist()]
    batches = [(draw.normal(n, 3), draw.normal(n, 2, scale=3.0)) for n in ROWS]
    return model, batches, code.made("loss"), sgd, code.made("scheduler", sgd, factors)


def trained(code: Student, draw: Draw, training: Sequence[str] = ()) -> Any:
    """The probe's report on two calls of train_with_schedule."""
    model, batches, _, sgd, scheduler = new_training(code, draw, training)
    return code.run("trained", model, batches, sgd, scheduler, EPOCHS)
