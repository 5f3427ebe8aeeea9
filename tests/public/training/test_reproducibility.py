"""Small examples for seeds and loaders that repeat themselves; probe_reproducibility.py has the draws."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from grader.judge.checks import assert_equal, entry, laws
from grader.judge.student import Student


@pytest.mark.points(2)
@pytest.mark.place("set_seed")
@pytest.mark.hint("random.seed, np.random.seed and torch.manual_seed seed the global generators.")
def test_example_seed(student: Student) -> None:
    """After set_seed(7) random, NumPy and torch draw what they draw after seeding with 7."""
    torch_draws = torch.randn(1, generator=torch.Generator().manual_seed(7)).item()
    normal = random.Random(7).gauss(0, 1), float(np.random.RandomState(7).randn()), torch_draws
    right = dict(zip(("Python's random", "NumPy", "torch"), normal, strict=True))
    what = "the first normal numbers after set_seed(7)"
    assert_equal(student.run("seeded", 7), right, what=what)


@pytest.mark.points(1)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("Keep the whole states when the block is entered; put them back in a finally.")
def test_example_fork(student: Student) -> None:
    """A block of fork_rng(0) draws always the same; after it, all goes on as if it had not been."""
    for seed in (0, None):
        for fails in (False, True):
            report = student.run("forked", seed, fails)
            expected, inside, after = entry(report, kind=list, count=3)
            call = f"fork_rng({seed})"
            told = f"The block of {call} draws what is drawn without it: seed 0 is a seed, too."
            assert seed is None or inside != expected, told
            what = f"what is drawn after a block of {call}"
            assert_equal(after, expected, what=f"{what} that fails" if fails else what)
            if seed is None:
                assert_equal(inside, expected, what=f"what is drawn in the block of {call}")


@pytest.mark.points(1)
@pytest.mark.place("seed_worker")
@pytest.mark.hint("torch.initial_seed() % 2**32: NumPy takes no larger one. No worker_id.")
def test_example_worker(student: Student) -> None:
    """Where torch's seed is 2**32 + 5, seed_worker(1) seeds random and NumPy with 5."""
    right, added = (
        {"Python's random": random.Random(s).random(), "NumPy": np.random.RandomState(s).rand()}
        for s in (5, 6)
    )
    mistakes = {"worker_id is added: it is part of torch.initial_seed() already.": added}
    what = "the first numbers after seed_worker(1)"
    assert_equal(student.run("worker_seeded", 2**32 + 5), right, what=what, mistakes=mistakes)


@pytest.mark.points(2)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("Give the DataLoader a torch.Generator of its own, seeded with seed.")
def test_example_loader(student: Student) -> None:
    """The seed alone decides the orders of the epochs, which differ; the global generator is left alone."""
    reports = [student.run("orders", seed, noise) for seed, noise in ((1, 3), (1, 4), (2, 3))]
    epochs, again, other = (entry(report, "epochs", kind=list) for report in reports)
    laws.check_epochs(epochs, list(range(10)), batch_size=4, shuffled=True)
    told = "The global generator decides the orders: give the loader a generator of its own."
    assert again == epochs, told
    assert other != epochs, "The seeds 1 and 2 give the same orders."
    told = "A pass over the loader draws from torch's global generator."
    assert entry(reports[0], "left alone") is True, told
