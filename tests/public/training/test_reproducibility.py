"""Small examples for seeds and loaders that repeat themselves; probe_reproducibility.py has the draws."""

from __future__ import annotations

import random

import numpy as np
import torch

from grader.judge.checks import assert_equal, entry, laws, promise
from grader.judge.student import Student


@promise(
    "set_seed",
    points=2,
    hint="random.seed, np.random.seed and torch.manual_seed seed the global generators.",
)
def test_example_seed(student: Student) -> None:
    """After set_seed(7), random, NumPy and torch draw the same as after seeding each with 7."""
    torch_draws = torch.randn(1, generator=torch.Generator().manual_seed(7)).item()
    normal = random.Random(7).gauss(0, 1), float(np.random.RandomState(7).randn()), torch_draws
    right = dict(zip(("Python's random", "NumPy", "torch"), normal, strict=True))
    seeded = student.run("seeded", 7)
    for library, number in right.items():
        what = f"the first number of {library} after set_seed(7)"
        assert_equal(entry(seeded, library), number, what=what)


@promise(
    "fork_rng",
    points=1,
    hint="Keep the whole states when the block is entered; put them back in a finally.",
)
def test_example_fork(student: Student) -> None:
    """A block of fork_rng(0) always draws the same; afterwards all goes on as if there had been no block."""
    for seed in (0, None):
        for fails in (False, True):
            report = student.run("forked", seed, fails)
            expected, inside, after = (entry(report, i, kind=dict) for i in range(3))
            call = "fork_rng()" if seed is None else "fork_rng(0)"
            told = f"The block of {call} draws what is drawn without it: 0 is a seed to set."
            assert seed is None or not laws.same(inside, expected), told
            told = f"The block of {call} begins anew: without a seed it goes on from where it was."
            assert seed == 0 or laws.same(inside, expected), told
            when = f"after a block of {call}" + (" that fails" if fails else "")
            for library, number in expected.items():
                told = f"{library} is not where it was {when}: put back its state, in a finally."
                assert laws.same(entry(after, library), number), told


@promise(
    "seed_worker",
    points=1,
    hint="torch.initial_seed() % 2**32: NumPy takes no larger one. No worker_id.",
)
def test_example_worker(student: Student) -> None:
    """If torch's seed is 2**32 + 5, seed_worker(3) seeds random and NumPy with 5."""
    numbers = random.Random(5).random(), np.random.RandomState(5).rand()
    right = dict(zip(("Python's random", "NumPy"), numbers, strict=True))
    what = "the first numbers after seed_worker(3)"
    assert_equal(student.run("worker_seeded", 2**32 + 5, 3), right, what=what)


@promise(
    "seeded_loader",
    points=2,
    hint="Give the DataLoader a torch.Generator of its own, seeded with seed.",
)
def test_example_loader(student: Student) -> None:
    """Only the seed decides the orders of the epochs, which differ; the global generator is left alone."""
    reports = [student.run("orders", seed, noise) for seed, noise in ((1, 3), (1, 4), (2, 3))]
    epochs, again, other = (entry(report, "epochs", kind=list) for report in reports)
    laws.check_epochs(epochs, list(range(10)), batch_size=4, shuffled=True)
    told = "Another loader with the seed 1 gives other orders: give each a generator of its own."
    assert again == epochs, told
    assert other != epochs, "The seeds 1 and 2 give the same orders."
    told = "A pass over the loader draws from torch's global generator, or seeds it."
    assert entry(reports[0], "left alone") is True, told
