"""Tests of set_seed, fork_rng, seed_worker and seeded_loader."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from grader.judge.checks import assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

# The global generators, in the order in which an item of the probe draws from them.
LIBRARIES = ("Python's random", "NumPy", "torch")
LARGEST_SEED = 2**32 - 1
BAD_SEEDS = (-1, 2**32, 2**40)
ITEMS = 64  # so many that two orders are not equal by chance
WORKED_ITEMS = 8


# --- set_seed ------------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("set_seed")
@pytest.mark.hint("random.seed(seed), np.random.seed(seed), torch.manual_seed(seed).")
def test_set_seed(student: Student) -> None:
    """Each call seeds the three global generators."""
    for seed in (0, LARGEST_SEED, new_seed()):
        report = student.run("seeded", seed, new_seeds(2))
        for draws in entry(report, "draws", kind=list, count=2):
            what = f"what the generators draw after set_seed({seed})"
            assert_equal(draws, drawn(seed, after=0), what=what)


@pytest.mark.points(2)
@pytest.mark.place("set_seed")
@pytest.mark.word("the sandbox says which flags are set")
@pytest.mark.hint("Both flags are in torch.backends.cudnn, and either alone is not enough.")
def test_flags(student: Student) -> None:
    """Each call sets cuDNN to deterministic algorithms, and its benchmark off."""
    report = student.run("seeded", new_seed(), new_seeds(2))
    for flags in entry(report, "flags", kind=list, count=2):
        for name, right in {"deterministic": True, "benchmark": False}.items():
            what = f"torch.backends.cudnn.{name} after set_seed"
            assert_equal(entry(flags, name), right, what=what)


@pytest.mark.points(2)
@pytest.mark.place("set_seed")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not 0 <= seed < 2**32: raise ValueError(...), before torch takes it.")
def test_seed_errors(student: Student) -> None:
    """A seed outside 0..2**32 - 1 is a ValueError that names it."""
    bad = {"seed": [(seed,) for seed in BAD_SEEDS]}
    laws.check_errors(student, "set_seed", bad, fine=(LARGEST_SEED,))


# --- fork_rng ------------------------------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("Keep the three states at entry, and put them back in a finally.")
def test_states_come_back(student: Student) -> None:
    """After the block the three states are exactly those at entry, whatever the block did."""
    for ending in ("", "Stop", "KeyboardInterrupt"):
        # Normal numbers are made two at a time: after an even number of draws none is in hand.
        for draws in (1, 2):
            for given in ([], [new_seed()]):
                made, entered = new_seeds(2)
                report = student.run("forked", given, made, entered, draws, ending)
                what = f"what the generators draw after a block of {call_of(given)}"
                what += f" that ended by {ending}" if ending else ""
                assert_equal(entry(report, "after"), drawn(entered, draws), what=what)


@pytest.mark.points(3)
@pytest.mark.place("fork_rng")
@pytest.mark.word("the sandbox says which exception came out")
@pytest.mark.hint("try: yield, finally: ...; an __exit__ that returns something true swallows it.")
def test_exceptions_go_on(student: Student) -> None:
    """An exception in the block goes on."""
    for given in ([], [new_seed()]):
        for ending in random.sample(["Stop", "KeyboardInterrupt"], 2):
            made, entered = new_seeds(2)
            report = student.run("forked", given, made, entered, ending=ending)
            what = "the name of the exception that comes out of the block"
            assert_equal(entry(report, "raised"), ending, what=what)


@pytest.mark.points(9)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("if seed is not None: set_seed(seed), after the states are kept.")
def test_inside(student: Student) -> None:
    """In the block the generators are as after set_seed(seed), or go on where they were without one."""
    for seed in (0, LARGEST_SEED, new_seed()):
        made, entered = new_seeds(2)
        report = student.run("forked", [seed], made, entered)
        what = f"what the generators draw in a block of fork_rng({seed})"
        assert_equal(entry(report, "inside"), drawn(seed, after=0), what=what)
    made, entered = new_seeds(2)
    report = student.run("forked", [], made, entered)
    what = "what the generators draw in a block of fork_rng() without a seed"
    assert_equal(entry(report, "inside"), drawn(entered), what=what)


@pytest.mark.points(3)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("Each manager keeps its own states; nothing happens before the block is entered.")
def test_nested(student: Student) -> None:
    """Blocks nest, and making a manager changes nothing."""
    seed, entered, inner = new_seeds(3)
    # Before the inner block the outer one draws once.
    for given, outer in (([], drawn(entered, after=2)), ([seed], drawn(seed))):
        report = student.run("nested", given, entered, inner)
        right = {
            "inner": drawn(inner, after=0),
            "after inner": outer,
            "after outer": drawn(entered),
        }
        for when, numbers in right.items():
            what = (
                f"what the generators draw {when} block, of fork_rng({inner}) in {call_of(given)}"
            )
            assert_equal(entry(report, when), numbers, what=what)
        made, other = new_seeds(2)
        report = student.run("forked", given, made, other)
        what = f"what the generators draw after {call_of(given)} was made"
        assert_equal(entry(report, "made"), drawn(made), what=what)


@pytest.mark.points(1)
@pytest.mark.place("fork_rng")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("set_seed checks the seed already.")
def test_fork_errors(student: Student) -> None:
    """A seed outside 0..2**32 - 1 is a ValueError that names it, when the block is entered at the latest."""
    bad = {"seed": [(seed,) for seed in BAD_SEEDS]}
    laws.check_errors(student, student.probe("fork_rng"), bad, fine=(LARGEST_SEED,))


# --- seed_worker ---------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("seed_worker")
@pytest.mark.hint("seed = torch.initial_seed() % 2**32, and that alone.")
def test_seed_worker(student: Student) -> None:
    """random and NumPy are as after seeding with torch.initial_seed() % 2**32; torch stays as it is."""
    large = 2**63 + 2**32 + random.randrange(99)
    for seed in (new_seed(), LARGEST_SEED, large):
        worker = random.randrange(100, 1000)
        report = student.run("worker_seeded", seed, worker, new_seed())
        right = {**drawn(seed % 2**32, after=0), "torch": drawn_by_torch(seed)}
        what = f"what is drawn after seed_worker({worker}) where torch.initial_seed() is {seed}"
        assert_equal(entry(report, "after"), right, what=what)
        what = "torch.initial_seed() after seed_worker"
        assert_equal(entry(report, "initial"), seed, what=what)


# --- seeded_loader -------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("DataLoader(dataset, batch_size, shuffle=shuffle, generator=...): no drop_last.")
def test_epochs(student: Student) -> None:
    """Each item comes once an epoch, in order or shuffled anew, in batches of default collation."""
    for options, shuffled in (({}, True), ({"shuffle": True}, True), ({"shuffle": False}, False)):
        numbers = new_numbers(23)
        dataset = laws.dataset_of(student, numbers)
        loader = student.own("seeded_loader", dataset, 5, new_seed(), **options)
        epochs = laws.epochs_of(student, loader, 3)
        laws.check_epochs(epochs, numbers, batch_size=5, shuffled=shuffled)


@pytest.mark.points(1)
@pytest.mark.place("seeded_loader")
@pytest.mark.word("the sandbox says what the loader is")
@pytest.mark.hint("return DataLoader(...), with num_workers=num_workers.")
def test_kind(student: Student) -> None:
    """It is a DataLoader, without workers unless some are asked for."""
    passes = new_passes(student, [new_seed()], [0])
    assert_equal(entry(passes.report, "kinds", 0), True, what="whether it is a DataLoader")
    (epoch,) = epochs_of(passes)
    told = "Without num_workers the items come from workers: it is 0."
    assert set(epoch.workers) == {-1}, told


@pytest.mark.points(7)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("torch.Generator().manual_seed(seed), one for each loader and nothing else.")
def test_orders(student: Student) -> None:
    """The seed decides the orders of all epochs, whatever global generators and other loaders do."""
    new, numbers = new_seed(), new_numbers(ITEMS)
    for seed, other_seed in ((new, new + 1), (0, 1)):
        alone = orders(new_passes(student, [seed], [0, 0, 0], numbers))
        plan = [0, 2, 1, 0, 2, 1, 0]
        mixed = orders(new_passes(student, [seed, seed, other_seed], plan, numbers))
        loader, twin, other = [
            [order for place, order in zip(plan, mixed, strict=True) if place == own]
            for own in range(3)
        ]
        what = f"the list of the orders of a loader with the seed {seed} among others"
        assert_equal(loader, alone, what=what)
        assert_equal(twin, alone[:2], what=what)
        assert other[0] != alone[0], f"The seeds {seed} and {other_seed} give the same order."


@pytest.mark.points(2)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("Hand num_workers on to the DataLoader; the orders stay those of the seed.")
def test_workers(student: Student) -> None:
    """The items come from num_workers processes, in the order that the seed decides."""
    worked, _ = worked_passes(student)
    for epoch in epochs_of(worked):
        told = "With num_workers=2 the items do not come from two workers."
        assert set(epoch.workers) == {0, 1}, told
    # Of the first two: with workers torch asks a sampler for its order twice, and one may count that.
    alone = orders(new_passes(student, worked.seeds[:1], [0, 0], worked.numbers, size=2))
    told = "With num_workers the first epoch has another order than without: seed alone decides."
    assert orders(worked)[0] in alone, told


@pytest.mark.points(3)
@pytest.mark.requires("test_workers")
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("torch seeds each worker from the loader's generator: leave that to it.")
def test_draws_differ(student: Student) -> None:
    """What items draw in workers differs between workers, between epochs and between seeds."""
    worked, _ = worked_passes(student)
    for library in LIBRARIES:
        epoch, next_epoch, other_seed = [
            [epoch.draws_of(worker, library) for worker in (0, 1)] for epoch in epochs_of(worked)
        ]
        told = f"Both workers draw the same from {library}: seed each from torch.initial_seed()."
        assert epoch[0] != epoch[1], told
        told = f"In each epoch the workers draw the same from {library}: is their seed a constant?"
        assert epoch[0] != next_epoch[0], told
        told = f"With another seed the workers draw the same from {library}."
        assert epoch[0] != other_seed[0], told


@pytest.mark.requires("test_workers")
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("The generator decides the seeds of the workers, too, and not only the orders.")
def test_draws_repeat(student: Student) -> None:
    """The same seed gives the same draws in workers, whatever the global random state."""
    worked, again = worked_passes(student)
    told = "The same seed gives other draws in workers where the global generators differ."
    assert epochs_of(worked) == epochs_of(again), told


@pytest.mark.points(4)
@pytest.mark.place("seeded_loader")
@pytest.mark.word("a loader that is never made leaves the generators alone, too")
@pytest.mark.hint("A loader without a generator draws from the global one, without shuffle too.")
def test_global_state(student: Student) -> None:
    """Making and iterating a loader leaves the three global generators as they were."""
    shuffled = new_passes(student, new_seeds(2), [0, 1, 0])
    in_order = new_passes(student, new_seeds(2), [0, 1, 0], shuffle=False)
    worked, _ = worked_passes(student)
    for passes in (shuffled, in_order, worked):
        making, *iterating = passes.noises
        what = "what the generators draw after seeded_loader, which leaves them alone"
        assert_equal(entry(passes.report, "made"), drawn(making), what=what)
        for i, noise in enumerate(iterating):
            what = "what the generators draw after a pass over the loader, which leaves them alone"
            assert_equal(entry(passes.report, "after", i), drawn(noise), what=what)


# --- what is drawn from the seed -----------------------------------------------------------------


def new_seed() -> int:
    return random.randrange(2, 2**31)


def new_seeds(count: int) -> list[int]:
    return random.sample(range(2, 2**31), count)


def new_numbers(length: int) -> list[int]:
    """Different numbers, by which the items of a dataset are known."""
    return random.sample(range(1000), length)


def call_of(given: list[int]) -> str:
    """A call of fork_rng, for messages."""
    return f"fork_rng({', '.join(map(str, given))})"


# --- what the generators draw --------------------------------------------------------------------


def drawn(seed: int, after: int = 1) -> dict[str, Any]:
    """What the probe's `draws` reports after seeding and so many of its `draw`."""
    own, legacy = random.Random(seed), np.random.RandomState(seed)
    for _ in range(after):
        own.random()
        own.gauss(0, 1)
        legacy.rand()
        legacy.randn()
    return {
        "Python's random": [[own.random() for _ in range(9)], own.gauss(0, 1)],
        "NumPy": [legacy.rand(9).tolist(), legacy.randn(2).tolist()],
        "torch": drawn_by_torch(seed, after),
    }


def drawn_by_torch(seed: int, after: int = 1) -> list[Any]:
    """The same of torch alone, which takes larger seeds, too."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(after):
        torch.rand(3, generator=generator)
        torch.randn(1, generator=generator)
    uniform = torch.rand(9, generator=generator)
    return [uniform.tolist(), torch.randn(2, generator=generator).tolist()]


# --- passes over loaders -------------------------------------------------------------------------


class Passes(NamedTuple):
    """Passes over loaders in the probe: what they were given, and its report."""

    seeds: list[int]
    numbers: list[int]
    noises: list[int]
    report: Any


def new_passes(
    student: Student,
    seeds: list[int],
    plan: list[int],
    numbers: list[int] | None = None,
    size: int = 8,
    **options: Any,
) -> Passes:
    """Iterate the loaders with these seeds in the order of the plan, each time in another random state."""
    numbers = numbers or new_numbers(ITEMS)
    noises = new_seeds(len(plan) + 1)
    report = student.run("passes", numbers, size, seeds, plan, noises, **options)
    return Passes(seeds, numbers, noises, report)


def worked_passes(student: Student) -> tuple[Passes, Passes]:
    """Two epochs of a loader with two workers and one of another seed, twice: processes are dear."""

    def ask() -> tuple[Passes, Passes]:
        seeds, plan, numbers = new_seeds(2), [0, 0, 1], new_numbers(WORKED_ITEMS)
        first = new_passes(student, seeds, plan, numbers, size=2, num_workers=2)
        return first, new_passes(student, seeds, plan, numbers, size=2, num_workers=2)

    return student.once("workers", ask)


class Epoch(NamedTuple):
    """Of each item of a pass: its number, its worker (-1 without workers), and its three draws."""

    numbers: list[float]
    workers: list[float]
    draws: dict[str, list[float]]

    def draws_of(self, worker: int, library: str) -> list[float]:
        """What the items of this worker drew from a library."""
        pairs = zip(self.workers, self.draws[library], strict=True)
        return [draw for own, draw in pairs if own == worker]


def epochs_of(passes: Passes) -> list[Epoch]:
    """The items of each pass, in the order in which they came."""
    epochs, what = [], "a batch of items (5,)"
    count = len(passes.noises) - 1
    for batches in entry(passes.report, "epochs", kind=list, count=count):
        rows = []
        for batch in entry(batches, kind=list):
            batch = assert_tensor(batch, dtype=torch.float64, what=what)
            shape = (*batch.shape[:1], 5)
            rows += assert_tensor(batch, shape=shape, what=what).tolist()
        numbers, workers, *draws = [[row[column] for row in rows] for column in range(5)]
        epochs.append(Epoch(numbers, workers, dict(zip(LIBRARIES, draws, strict=True))))
    return epochs


def orders(passes: Passes) -> list[list[float]]:
    """The numbers of each epoch's items, all of which have to be there."""
    orders = [epoch.numbers for epoch in epochs_of(passes)]
    for order in orders:
        assert sorted(order) == sorted(passes.numbers), "Not every item comes once an epoch."
    return orders
