"""Small examples for warm-up and cosine decay; probe_schedule.py has the optimizers."""

from __future__ import annotations

from grader.judge.checks import assert_close, entry, laws, promise
from grader.judge.student import Student

# With total_steps=8, warmup_steps=4, min_factor=0.2, at the steps 0 to 9: the cosine begins at step 4.
FACTORS = [0.25, 0.5, 0.75, 1.0, 1.0, 0.8828427, 0.6, 0.3171573, 0.2, 0.2]


@promise(
    "warmup_cosine",
    points=2,
    hint="Four steps up, to 1; four steps down, from 1 to 0.2; then 0.2 forever.",
)
def test_example_factors(student: Student) -> None:
    """With total_steps=8, warmup_steps=4 and min_factor=0.2 the factors go from 1/4 to 1, then to 0.2."""
    factors = [student.function("warmup_cosine")(step, 8, 4, 0.2) for step in range(10)]
    late = [0.25, 0.5, 0.75, 1.0, *[0.6, 0.4469266, 0.3171573, 0.2304482], 0.2, 0.2]
    added = [0.25, 0.5, 0.75, 1.0, 1.2, 1.0535534, 0.7, 0.3464466, 0.2, 0.2]
    floor = [*FACTORS[:4], 1.0, 0.8535534, 0.5, *[0.2] * 3]
    slow = [*FACTORS[:4], 1.0, 0.9695518, 0.8828427, 0.7530734, 0.2, 0.2]
    bare = [*FACTORS[:4], 1.0, 0.8535534, 0.5, 0.1464466, 0.2, 0.2]
    quarter = [*FACTORS[:4], 1.0, 0.9391036, 0.7656854, 0.5061467, 0.2, 0.2]
    mistakes = {
        "The first step has a rate of 0: take (step + 1).": [0.0, *FACTORS[:3], *FACTORS[4:]],
        "The cosine does not reach its end: it has total_steps - warmup_steps steps.": slow,
        "min_factor is used as a floor: the cosine falls to it, between 1 and min_factor.": floor,
        "The cosine counts the warm-up: its progress is 0 at the first step after it.": late,
        "min_factor is added to the cosine, which then begins above 1.": added,
        "After total_steps the factor rises again.": [*FACTORS[:9], FACTORS[7]],
        "After total_steps the factor is 0: it is min_factor.": [*FACTORS[:8], 0.0, 0.0],
        "The cosine ignores min_factor.": bare,
        "It is a quarter of a cosine: half of one goes from 1 to -1.": quarter,
        "It falls along a line, not a cosine.": [*FACTORS[:4], 1.0, 0.8, 0.6, 0.4, 0.2, 0.2],
        "The warm-up begins at min_factor: it is (step + 1) / warmup_steps.": [
            *(0.4, 0.6, 0.8, 1.0),
            *FACTORS[4:],
        ],
        "The warm-up lasts a step too long: it is over at warmup_steps.": [
            *FACTORS[:4],
            1.25,
            *FACTORS[5:],
        ],
        "The warm-up does not reach 1: divide by warmup_steps.": [0.2, 0.4, 0.6, 0.8, *FACTORS[4:]],
        "The cosine is a step ahead: its progress is 0 at warmup_steps.": [
            *FACTORS[:4],
            *FACTORS[5:],
            0.2,
        ],
    }
    what = "the list of the factors at the steps 0 to 9"
    assert_close(factors, FACTORS, what=what, mistakes=mistakes, rtol=1e-6, atol=1e-6)


@promise("warmup_cosine", hint="if not 0 <= warmup_steps <= total_steps: raise ValueError(...)")
def test_example_errors(student: Student) -> None:
    """A warm-up that is longer than the whole schedule is a ValueError that names warmup_steps."""
    laws.check_errors(student, "warmup_cosine", {"warmup_steps": [(0, 8, 9)]}, fine=(0, 8, 8))


@promise(
    "warmup_cosine_scheduler",
    points=2,
    hint="LambdaLR multiplies each group's base rate by what your function returns.",
)
def test_example_rates(student: Student) -> None:
    """Two groups with base rates 0.1 and 0.5 have these times the factor, from the first step on."""
    rates = student.run("rates", 9, 8, 4, 0.2)
    right = [[0.1 * factor, 0.5 * factor] for factor in FACTORS]
    mistakes = {
        "The function gives rates, not factors: LambdaLR multiplies by the base rate.": [
            [0.01 * factor, 0.25 * factor] for factor in FACTORS
        ],
        "The function gives rates of the first group: give factors.": [
            [0.01 * factor, 0.05 * factor] for factor in FACTORS
        ],
        "The function counts its own calls, one for each group: the step is its argument.": [
            [0.1 * first, 0.5 * second]
            for first, second in zip(
                FACTORS[::2] + [0.2] * 5, FACTORS[1::2] + [0.2] * 5, strict=True
            )
        ],
        "The rates are a step ahead: before the first scheduler step they are those of step 0.": [
            [0.1 * factor, 0.5 * factor] for factor in [*FACTORS[1:], 0.2]
        ],
        "The rates are a step behind: after one scheduler step they are those of step 1.": [
            [0.1 * factor, 0.5 * factor] for factor in [FACTORS[0], *FACTORS[:-1]]
        ],
        "All groups have the rate of the first one: each has its own base rate.": [
            [0.1 * factor] * 2 for factor in FACTORS
        ],
    }
    what = "the list of the rates of both groups before and after each scheduler step"
    assert_close(rates, right, what=what, mistakes=mistakes, rtol=1e-6, atol=1e-6)


@promise(
    "train_with_schedule",
    points=2,
    hint="Note the rate, then optimizer.step(), then scheduler.step(), for each batch.",
)
def test_example_training(student: Student) -> None:
    """Two epochs of two batches use the rates 2, 1, 0.5 and 0, and the weight goes from 10 to 6.5."""
    report = student.run("training", 2)
    mistakes = {
        "These are the rates after the scheduler's step.": [1.0, 0.5, 0.0, 0.0],
        "The scheduler steps once an epoch: it steps once after each batch.": [2.0, 2.0, 1.0, 1.0],
        "The scheduler never steps, or these are the base rates.": [2.0] * 4,
        "The scheduler steps twice a batch.": [2.0, 0.5, 0.0, 0.0],
        "Only the first epoch's rates are there: one for each batch of all epochs.": [2.0, 1.0],
        "Only the last epoch's rates are there: one for each batch of all epochs.": [0.5, 0.0],
        "There is one rate for each epoch: one for each batch of it.": [2.0, 0.5],
        "These are factors, not rates.": [1.0, 0.5, 0.25, 0.0],
    }
    what = "the list of the rates"
    assert_close(entry(report, "rates"), [2.0, 1.0, 0.5, 0.0], what=what, mistakes=mistakes)
    known = {
        "The scheduler steps before the optimizer: the rate 2 is never used.": 8.5,
        "Gradients of the batches before count: zero them for each batch.": 4.5,
        "No step moves the weight: zero_grad, backward, step is the order.": 10.0,
        "Gradients of an epoch add up: zero them for each batch.": 5.5,
    }
    assert_close(entry(report, "weight"), 6.5, what="the weight", mistakes=known, rtol=1e-5)
