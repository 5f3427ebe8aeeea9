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
    what = "the list of the factors at the steps 0 to 9"
    assert_close(factors, FACTORS, what=what, rtol=1e-6, atol=1e-6)


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
    """Two groups with base rates 0.1 and 0.5 have these rates times the factor, from the first step on."""
    rates = student.run("rates", 9, 8, 4, 0.2)
    right = [[0.1 * factor, 0.5 * factor] for factor in FACTORS]
    what = "the list of the rates of both groups before and after each scheduler step"
    assert_close(rates, right, what=what, rtol=1e-6, atol=1e-6)


@promise(
    "train_with_schedule",
    points=2,
    hint="Note the rate, then optimizer.step(), then scheduler.step(), for each batch.",
)
def test_example_training(student: Student) -> None:
    """Two epochs of two batches use the rates 2, 1, 0.5 and 0, and the weight goes from 10 to 6.5."""
    report = student.run("training", 2)
    what = "the list of the rates"
    assert_close(entry(report, "rates"), [2.0, 1.0, 0.5, 0.0], what=what)
    assert_close(entry(report, "weight"), 6.5, what="the weight", rtol=1e-5)
