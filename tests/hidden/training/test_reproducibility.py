"""What set_seed, fork_rng, seed_worker and seeded_loader promise, sentence by sentence."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

LIBRARIES = ("torch", "NumPy", "Python's random")
LENGTH, LARGE = 64, 2**63 + 2**32 + 9
BLOCKS = ("", "draws", "seeds", "nests", "Stop", "KeyboardInterrupt")


@pytest.mark.points(6)
@pytest.mark.place("set_seed")
@pytest.mark.hint("random.seed(seed), np.random.seed(seed), torch.manual_seed(seed).")
def test_set_seed(student: Student) -> None:
    """Each call seeds the three global generators."""
    for seed in (0, 1, 12345, 2**32 - 1):
        for draws in entry(student.run("seeded", seed), "draws", kind=list, count=2):
            check_draws(draws, seeded(seed), f"after set_seed({seed}): seed its global generator")


@pytest.mark.points(2)
@pytest.mark.place("set_seed")
@pytest.mark.hint("Both flags are in torch.backends.cudnn, and either alone is not enough.")
def test_flags(student: Student) -> None:
    """Each call sets cuDNN to deterministic algorithms, and its benchmark off."""
    for flags in entry(student.run("seeded", 3), "flags", kind=list, count=2):
        for i, (name, right) in enumerate((("deterministic", True), ("benchmark", False))):
            what = f"torch.backends.cudnn.{name} after set_seed"
            assert_equal(entry(flags, i), right, what=what)


@pytest.mark.points(2)
@pytest.mark.place("set_seed")
@pytest.mark.hint("if not 0 <= seed < 2**32: raise ValueError(...), before torch takes it.")
def test_seed_errors(student: Student) -> None:
    """A seed outside 0..2**32 - 1 is a ValueError that names it."""
    for fine in (0, 2**32 - 1):
        calls = [(-1,), (2**32,), (-(2**31),), (2**40,)]
        laws.check_errors(student, "set_seed", {"seed": calls}, fine=(fine,))


@pytest.mark.points(9)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("Keep the three states at entry, and put them back in a finally.")
def test_states_come_back(student: Student) -> None:
    """After the block the three states are exactly those at entry, whatever the block did."""
    for inside in BLOCKS:
        for seed in (None, 0, 3):
            report = forked(student, seed, inside)
            when = f"after a block of fork_rng({'' if seed is None else seed}) that "
            when += {"Stop": "raised", "KeyboardInterrupt": "was interrupted"}.get(inside, inside)
            after, before = entry(report, "after"), entry(report, "before")
            check_draws(after, before, when.removesuffix(" that "), report)


@pytest.mark.points(3)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("try: yield, finally: ...; an __exit__ that returns something true swallows it.")
def test_exceptions_go_on(student: Student) -> None:
    """An exception in the block goes on."""
    for inside in BLOCKS:
        right = inside if inside in ("Stop", "KeyboardInterrupt") else None
        what = "the name of the exception that comes out of the block"
        for seed in (None, 3):
            swallowed = {"The exception of the block is swallowed.": None} if right else {}
            raised = entry(forked(student, seed, inside), "raised")
            assert_equal(raised, right, what=what, mistakes=swallowed)


@pytest.mark.points(9)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("if seed is not None: set_seed(seed), after the states are kept.")
def test_inside(student: Student) -> None:
    """In the block the generators are as after set_seed(seed), or go on where they were without one."""
    for inside in ("draws", ""):
        for seed in (0, 3, 2**32 - 1):
            report = forked(student, seed, inside)
            goes_on = laws.same(entry(report, "inside"), entry(report, "before"))
            told = f"fork_rng({seed}) does not seed: is that seed taken for none?"
            assert not goes_on, told
            when = f"in the block of fork_rng({seed}): call set_seed"
            check_draws(entry(report, "inside"), seeded(seed), when)
        report = forked(student, None, inside)
        when = "in the block of fork_rng() without a seed"
        check_draws(entry(report, "inside"), entry(report, "before"), when)


@pytest.mark.points(3)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("Each manager keeps its own states; nothing happens before the block is entered.")
def test_nested(student: Student) -> None:
    """Blocks nest, and making a manager changes nothing."""
    for seed in (None, 0):
        report = forked(student, seed, "nests")
        check_draws(entry(report, "made"), entry(report, "start"), "after a manager was made")
        inside = entry(report, "before") if seed is None else seeded(0)
        check_draws(entry(report, "inside"), inside, f"in an outer block, of fork_rng({seed})")
        check_draws(entry(report, "nested"), seeded(5), "in an inner block, of fork_rng(5)")
        after, outer = entry(report, "outer after"), entry(report, "outer")
        check_draws(after, outer, "in the outer block after an inner one")


@pytest.mark.points(1)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("set_seed checks the seed already.")
def test_fork_errors(student: Student) -> None:
    """A seed outside 0..2**32 - 1 is a ValueError that names it, when the block is entered at the latest."""
    calls = [(-1,), (2**32,), (-(2**31),), (2**40,)]
    laws.check_errors(student, student.probe("fork_rng"), {"seed": calls}, fine=(2**32 - 1,))


@pytest.mark.points(5)
@pytest.mark.place("seed_worker")
@pytest.mark.hint("seed = torch.initial_seed() % 2**32, and that alone.")
def test_seed_worker(student: Student) -> None:
    """random and NumPy are as after seeding with torch.initial_seed() % 2**32; torch stays as it is."""
    for seed, number in ((5, 2), (2**32 - 1, 3), (2**32 + 4, 1), (LARGE, 7)):
        report = student.run("worker_seeded", seed, number)
        right = {**seeded(seed % 2**32), "torch": entry(report, "before", "torch")}
        when = f"after seed_worker({number}) where torch.initial_seed() is {seed}"
        added, constant = seeded((seed + number) % 2**32), seeded(number)
        for library in LIBRARIES[1:]:
            draws = entry(report, "after", library)
            told = f"{library} is seeded with worker_id: torch.initial_seed() has it in it already."
            same = [laws.same(draws, wrong[library]) for wrong in (added, constant)]
            assert not any(same), told
        check_draws(entry(report, "after"), right, when)
        what = "torch.initial_seed() after seed_worker"
        assert_equal(entry(report, "initial"), seed, what=what)


@pytest.mark.points(2)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("DataLoader(dataset, batch_size, shuffle=shuffle, generator=...): no drop_last.")
def test_epochs(student: Student) -> None:
    """Each item comes once an epoch, in order or shuffled anew, in batches of default collation."""
    for length, size, shuffle in ((23, 5, None), (12, 4, True), (12, 4, False), (3, 8, False)):
        dataset = laws.dataset_of(student, list(range(length)))
        options = {} if shuffle is None else {"shuffle": shuffle}
        loader = student.own("seeded_loader", dataset, size, 3, **options)
        epochs, shuffled = laws.epochs_of(student, loader, 3), shuffle is not False
        laws.check_epochs(epochs, list(range(length)), batch_size=size, shuffled=shuffled)
    report = passes(student, [4], "0", shuffle=False, length=5, size=2)
    assert_equal(entry(report, "kinds", 0), True, what="whether it is a DataLoader")
    told = "Without num_workers the items come from workers: it is 0."
    assert all(row[1] == -1 for table in tables(report) for row in table.tolist()), told


@pytest.mark.points(6)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("torch.Generator().manual_seed(seed), one for each loader and nothing else.")
def test_orders(student: Student) -> None:
    """The seed decides the orders of all epochs, whatever global generators and other loaders do."""
    for seed, other in ((3, 4), (0, 1)):
        first = ids(passes(student, [seed], "000", 1))
        told = "Two loaders with the same seed give other orders: the seed has to decide."
        assert ids(passes(student, [seed], "000", 1)) == first, told
        told = "The global generators decide the orders: give the loader a generator of its own."
        assert ids(passes(student, [seed], "000", 20)) == first, told
        told = "Another loader changes the orders: each needs a generator of its own."
        mixed = ids(passes(student, [seed, seed, other], "0210210", 1))
        assert mixed[0::3] == first and mixed[2::3] == first[:2], told
        told = f"The seeds {seed} and {other} give the same order."
        assert mixed[1] != first[0], told
    # Not much further apart: torch takes 32 bits, and a loader may combine seed and epoch in them.
    orders = ids(passes(student, [3, 11, 259], "012"))
    for i, seed in enumerate((11, 259), start=1):
        same = entry(orders, i) == entry(orders, 0)
        assert not same, f"The seeds 3 and {seed} give the same order."


@pytest.mark.points(6)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("num_workers=num_workers and a generator: torch seeds each worker from it.")
def test_workers(student: Student) -> None:
    """There are num_workers processes, and seed, workers and epoch decide what their items draw."""
    reports = worked(student), worked(student, noise=50)
    first, again = (tables(report) for report in reports)
    for table in first:
        numbers = sorted(set(table[:, 1].tolist()))
        assert numbers == [0.0, 1.0], "With num_workers=2, the items do not come from two workers."
        assert sorted(table[:, 0].tolist()) == list(range(8)), "Not every item comes once an epoch."
    told = "With num_workers the first epoch has another order than without: seed alone decides."
    # Of the first two: with workers torch asks a sampler for its order twice, and one may count that.
    assert ids(reports[0])[0] in ids(passes(student, [3], "00", length=8, size=2)), told
    for i, library in enumerate(("Python's random", "NumPy", "torch"), start=2):
        draws = [[table[table[:, 1] == n][:, i].tolist() for n in (0, 1)] for table in first]
        told = f"Both workers draw the same from {library}: seed each from torch.initial_seed()."
        assert not any(a[0] == b[0] for a, b in draws), told
        told = f"In each epoch the workers draw the same from {library}: is their seed a constant?"
        assert draws[0][0][0] != draws[1][0][0] and draws[0][1][0] != draws[1][1][0], told
        told = f"With another seed the workers draw the same from {library}."
        assert draws[0][0][0] != draws[2][0][0] and draws[0][1][0] != draws[2][1][0], told
    told = "The same seed gives other draws in workers where the global generators differ."
    assert all(map(torch.equal, first, again)), told


@pytest.mark.points(4)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("A loader without a generator draws from the global one, without shuffle too.")
def test_global_state(student: Student) -> None:
    """Making and iterating a loader leaves the three global generators as they were."""
    for shuffle, workers in ((True, 0), (False, 0), (True, 2)):
        plain = passes(student, [3, 4], "01010", 1, shuffle=shuffle)
        report = worked(student) if workers else plain
        when = "after seeded_loader, which neither seeds the global generators nor draws from them"
        check_draws(entry(report, "made"), entry(report, "before"), when)
        changed = entry(report, "changed", kind=list)
        told = "A pass over the loader draws from a global generator, or seeds it"
        told += ": even without shuffle it takes its base seed there." if not shuffle else "."
        assert changed and not any(change is not False for change in changed), told


def seeded(seed: int) -> dict[str, Any]:
    """The draws of the probe right after seeding."""
    own, legacy = random.Random(seed), np.random.RandomState(seed)
    generator = torch.Generator().manual_seed(seed)
    uniform = torch.rand(9, generator=generator).tolist()
    return {
        "Python's random": [[own.random() for _ in range(9)], own.gauss(0, 1)],
        "NumPy": [legacy.rand(9).tolist(), legacy.randn(2).tolist()],
        "torch": [uniform, torch.randn(2, generator=generator).tolist()],
    }


def forked(student: Student, seed: int | None, inside: str) -> Any:
    """A report of the probe; what was drawn before the block is told where no student's code runs."""
    name = f"before {inside == 'seeds'}"
    before = student.once(name, lambda: student.apart("around", inside))
    report = student.once(f"{seed} {inside}", lambda: student.run("forked", seed, inside))
    return {**entry(report, kind=dict), "before": before}


def passes(student: Student, seeds: list[int], plan: str, noise: int = 1, **options: Any) -> Any:
    length, size = options.pop("length", LENGTH), options.pop("size", 8)
    return student.run("passes", length, size, seeds, plan, noise, **options)


def worked(student: Student, noise: int = 1) -> Any:
    """Two epochs of a loader with two workers, and one of another seed: few, as processes are dear."""
    name = f"workers {noise}"
    options = {"num_workers": 2, "length": 8, "size": 2}
    return student.once(name, lambda: passes(student, [3, 4], "001", noise, **options))


def tables(report: Any) -> list[Tensor]:
    """The rows of each epoch: number, worker, three draws."""
    epochs = []
    for batches in entry(report, "epochs", kind=list):
        rows = []
        for batch in entry(batches, kind=list):
            batch = assert_tensor(batch, dtype=torch.float64, what="a batch of items (5,)")
            shape = (batch.shape[:1].numel(), 5)
            rows.append(assert_tensor(batch, shape=shape, what="a batch of items (5,)"))
        epochs.append(torch.cat(rows) if rows else torch.empty(0, 5))
    return epochs


def ids(report: Any) -> list[list[float]]:
    return [table[:, 0].tolist() for table in tables(report)]


def check_draws(actual: Any, right: Any, when: str, report: Any = None) -> None:
    """The generators draw what they should; the usual mistakes have names."""
    for library in LIBRARIES:
        kept = "normal numbers: the one kept for the next call is part of the state"
        for i, kind in enumerate(("numbers", kept)):
            draws = entry(actual, library, i)
            same = laws.same(draws, entry(right, library, i))
            if not same and report is not None:
                told = f"{library} is as it was when the manager was made, not the block entered."
                assert not laws.same(draws, entry(report, "start", library, i)), told
                told = f"{library} begins anew at its seed, {when}: put its state back, not a seed."
                assert not laws.same(draws, seeded(8)[library][i]), told
                told = f"{library} goes on as the block left it, {when}: put its state back."
                assert not laws.same(draws, entry(report, "left", library, i)), told
            assert same, f"{library} draws other {kind}, {when}."
