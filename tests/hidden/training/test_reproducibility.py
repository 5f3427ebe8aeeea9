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
LARGEST_SEED = 2**32 - 1
BAD_SEEDS = (-1, 2**32, -(2**31), 2**40)
BLOCKS = ("", "draws", "seeds", "nests", "Stop", "KeyboardInterrupt")
ITEMS, WORKED_ITEMS = 64, 8


# --- set_seed -------------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("set_seed")
@pytest.mark.hint("random.seed(seed), np.random.seed(seed), torch.manual_seed(seed).")
def test_set_seed(student: Student) -> None:
    """Each call seeds the three global generators."""
    for seed in (0, 1, LARGEST_SEED, new_seed()):
        report = student.run("seeded", seed, new_seeds(2))
        for draws in entry(report, "draws", kind=list, count=2):
            check_draws(draws, seeded(seed), f"after set_seed({seed}): seed its global generator")


@pytest.mark.points(2)
@pytest.mark.place("set_seed")
@pytest.mark.word("the sandbox says which flags are set")
@pytest.mark.hint("Both flags are in torch.backends.cudnn, and either alone is not enough.")
def test_flags(student: Student) -> None:
    """Each call sets cuDNN to deterministic algorithms, and its benchmark off."""
    report = student.run("seeded", new_seed(), new_seeds(2))
    for flags in entry(report, "flags", kind=list, count=2):
        for i, (name, right) in enumerate((("deterministic", True), ("benchmark", False))):
            what = f"torch.backends.cudnn.{name} after set_seed"
            assert_equal(entry(flags, i), right, what=what)


@pytest.mark.points(2)
@pytest.mark.place("set_seed")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if not 0 <= seed < 2**32: raise ValueError(...), before torch takes it.")
def test_seed_errors(student: Student) -> None:
    """A seed outside 0..2**32 - 1 is a ValueError that names it."""
    calls = [(seed,) for seed in BAD_SEEDS]
    for fine in (0, LARGEST_SEED):
        laws.check_errors(student, "set_seed", {"seed": calls}, fine=(fine,))


# --- fork_rng -------------------------------------------------------------------------------------


@pytest.mark.points(9)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("Keep the three states at entry, and put them back in a finally.")
def test_states_come_back(student: Student) -> None:
    """After the block the three states are exactly those at entry, whatever the block did."""
    endings = {"Stop": "raised", "KeyboardInterrupt": "was interrupted"}
    for inside in BLOCKS:
        for seed in (None, 0, new_seed()):
            block = Block(student, seed, inside)
            when = f"after a block of {block.call}"
            if inside:
                when += f" that {endings.get(inside, inside)}"
            block.check_not_mistaken(when)
            check_draws(entry(block.report, "after"), block.before, when)


@pytest.mark.points(3)
@pytest.mark.place("fork_rng")
@pytest.mark.word("the sandbox says which exception came out")
@pytest.mark.hint("try: yield, finally: ...; an __exit__ that returns something true swallows it.")
def test_exceptions_go_on(student: Student) -> None:
    """An exception in the block goes on."""
    for inside in BLOCKS:
        right = inside if inside in ("Stop", "KeyboardInterrupt") else None
        what = "the name of the exception that comes out of the block"
        for seed in (None, new_seed()):
            raised = entry(Block(student, seed, inside).report, "raised")
            assert_equal(raised, right, what=what)


@pytest.mark.points(9)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("if seed is not None: set_seed(seed), after the states are kept.")
def test_inside(student: Student) -> None:
    """In the block the generators are as after set_seed(seed), or go on where they were without one."""
    for inside in ("draws", ""):
        for seed in (0, LARGEST_SEED, new_seed()):
            block = Block(student, seed, inside)
            draws = entry(block.report, "inside")
            told = f"{block.call} does not seed: is that seed taken for none?"
            assert not laws.same(draws, block.before), told
            check_draws(draws, seeded(seed), f"in the block of {block.call}: call set_seed")
        block = Block(student, None, inside)
        when = "in the block of fork_rng() without a seed"
        check_draws(entry(block.report, "inside"), block.before, when)


@pytest.mark.points(3)
@pytest.mark.place("fork_rng")
@pytest.mark.hint("Each manager keeps its own states; nothing happens before the block is entered.")
def test_nested(student: Student) -> None:
    """Blocks nest, and making a manager changes nothing."""
    for seed in (None, new_seed()):
        block = Block(student, seed, "nests")
        outside = arranged(block.made)
        check_draws(entry(block.report, "made"), outside, "after a manager was made")
        inside = block.before if seed is None else seeded(seed)
        check_draws(entry(block.report, "inside"), inside, f"in an outer block, of {block.call}")
        nested = entry(block.report, "nested")
        check_draws(nested, seeded(block.inner), f"in an inner block, of fork_rng({block.inner})")
        # Once more has been drawn in the outer block since.
        outer = arranged(block.entered, draws=2) if seed is None else arranged(seed)
        after = entry(block.report, "outer after")
        check_draws(after, outer, "in the outer block after an inner one")


@pytest.mark.points(1)
@pytest.mark.place("fork_rng")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("set_seed checks the seed already.")
def test_fork_errors(student: Student) -> None:
    """A seed outside 0..2**32 - 1 is a ValueError that names it, when the block is entered at the latest."""
    calls = [(seed,) for seed in BAD_SEEDS]
    laws.check_errors(student, student.probe("fork_rng"), {"seed": calls}, fine=(LARGEST_SEED,))


# --- seed_worker ----------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("seed_worker")
@pytest.mark.hint("seed = torch.initial_seed() % 2**32, and that alone.")
def test_seed_worker(student: Student) -> None:
    """random and NumPy are as after seeding with torch.initial_seed() % 2**32; torch stays as it is."""
    for seed in (new_seed(), LARGEST_SEED, 2**32 + 4, 2**63 + 2**32 + random.randrange(99)):
        worker = random.randrange(100, 1000)  # no seed of these is as small
        report = student.run("worker_seeded", seed, worker, new_seed())
        draws = entry(report, "after")
        when = f"after seed_worker({worker}) where torch.initial_seed() is {seed}"
        added, alone = seeded((seed + worker) % 2**32), seeded(worker)
        for library in LIBRARIES[1:]:
            told = f"{library} is seeded with worker_id: torch.initial_seed() has it in it already."
            for wrong in (added, alone):
                assert not laws.same(entry(draws, library), wrong[library]), told
        right = {**seeded(seed % 2**32), "torch": torch_draws(generator_after_draws(seed))}
        check_draws(draws, right, when)
        what = "torch.initial_seed() after seed_worker"
        assert_equal(entry(report, "initial"), seed, what=what)


# --- seeded_loader --------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("DataLoader(dataset, batch_size, shuffle=shuffle, generator=...): no drop_last.")
def test_epochs(student: Student) -> None:
    """Each item comes once an epoch, in order or shuffled anew, in batches of default collation."""
    for length, size, shuffle in ((23, 5, None), (12, 4, True), (12, 4, False), (3, 8, False)):
        numbers = new_numbers(length)
        dataset = laws.dataset_of(student, numbers)
        options = {} if shuffle is None else {"shuffle": shuffle}
        loader = student.own("seeded_loader", dataset, size, new_seed(), **options)
        epochs, shuffled = laws.epochs_of(student, loader, 3), shuffle is not False
        laws.check_epochs(epochs, numbers, batch_size=size, shuffled=shuffled)
    report = Passes(student, [new_seed()], [0], shuffle=False, length=5, size=2).report
    assert_equal(entry(report, "kinds", 0), True, what="whether it is a DataLoader")
    told = "Without num_workers the items come from workers: it is 0."
    assert all(row[1] == -1 for table in tables(report) for row in table.tolist()), told


@pytest.mark.points(6)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("torch.Generator().manual_seed(seed), one for each loader and nothing else.")
def test_orders(student: Student) -> None:
    """The seed decides the orders of all epochs, whatever global generators and other loaders do."""
    drawn = new_seed()
    numbers = new_numbers(ITEMS)
    for seed, other in ((drawn, drawn + 1), (0, 1)):
        first = Passes(student, [seed], [0, 0, 0], numbers).orders()
        told = "The global generators decide the orders: give the loader a generator of its own."
        assert Passes(student, [seed], [0, 0, 0], numbers).orders() == first, told
        told = "Another loader changes the orders: each needs a generator of its own."
        mixed = Passes(student, [seed, seed, other], [0, 2, 1, 0, 2, 1, 0], numbers).orders()
        assert mixed[0::3] == first, told
        assert mixed[2::3] == first[:2], told
        assert mixed[1] != first[0], f"The seeds {seed} and {other} give the same order."
    # Not much further apart: torch takes 32 bits, and a loader may combine seed and epoch in them.
    one, second, third = Passes(student, [3, 11, 259], [0, 1, 2], numbers).orders()
    for seed, order in ((11, second), (259, third)):
        assert order != one, f"The seeds 3 and {seed} give the same order."


@pytest.mark.points(6)
@pytest.mark.place("seeded_loader")
@pytest.mark.hint("num_workers=num_workers and a generator: torch seeds each worker from it.")
def test_workers(student: Student) -> None:
    """There are num_workers processes, and seed, workers and epoch decide what their items draw."""
    worked, again = worked_passes(student)
    first = tables(worked.report)
    for table in first:
        workers = sorted(set(table[:, 1].tolist()))
        assert workers == [0.0, 1.0], "With num_workers=2, the items do not come from two workers."
        told = "Not every item comes once an epoch."
        assert sorted(table[:, 0].tolist()) == sorted(worked.numbers), told
    told = "With num_workers the first epoch has another order than without: seed alone decides."
    # Of the first two: with workers torch asks a sampler for its order twice, and one may count that.
    alone = Passes(student, worked.seeds[:1], [0, 0], worked.numbers, size=2)
    assert worked.orders()[0] in alone.orders(), told
    for i, library in enumerate(("Python's random", "NumPy", "torch"), start=2):
        draws = [[table[table[:, 1] == n][:, i].tolist() for n in (0, 1)] for table in first]
        epoch, next_epoch, other_seed = draws
        told = f"Both workers draw the same from {library}: seed each from torch.initial_seed()."
        assert not any(of_first == of_second for of_first, of_second in draws), told
        told = f"In each epoch the workers draw the same from {library}: is their seed a constant?"
        assert all(a[0] != b[0] for a, b in zip(epoch, next_epoch, strict=True)), told
        told = f"With another seed the workers draw the same from {library}."
        assert all(a[0] != b[0] for a, b in zip(epoch, other_seed, strict=True)), told
    told = "The same seed gives other draws in workers where the global generators differ."
    assert all(map(torch.equal, first, tables(again.report))), told


@pytest.mark.points(4)
@pytest.mark.place("seeded_loader")
@pytest.mark.word("a loader that is never made leaves the generators alone, too")
@pytest.mark.hint("A loader without a generator draws from the global one, without shuffle too.")
def test_global_state(student: Student) -> None:
    """Making and iterating a loader leaves the three global generators as they were."""
    seeds, plan = new_seeds(2), [0, 1, 0, 1, 0]
    shuffled = Passes(student, seeds, plan)
    in_order = Passes(student, seeds, plan, shuffle=False)
    worked, _ = worked_passes(student)
    for passes in (shuffled, in_order, worked):
        told = "A pass over the loader draws from a global generator, or seeds it"
        told += (
            ": even without shuffle it takes its base seed there." if passes is in_order else "."
        )
        made, *arrangements = passes.noises
        when = "after seeded_loader, which neither seeds the global generators nor draws from them"
        check_draws(entry(passes.report, "made"), arranged(made), when)
        count = len(arrangements)
        states = entry(passes.report, "after", kind=list, count=count)
        for state, noise in zip(states, arrangements, strict=True):
            assert laws.same(state, arranged(noise)), told


# --- what is drawn, and what is right -------------------------------------------------------------


def new_seed() -> int:
    return random.randrange(2, 2**31)


def new_seeds(count: int) -> list[int]:
    return random.sample(range(2, 2**31), count)


def new_numbers(length: int) -> list[int]:
    """Different numbers, by which the items of a dataset are known."""
    return random.sample(range(1000), length)


Generators = tuple[random.Random, np.random.RandomState, torch.Generator]


def generators_of(seed: int) -> Generators:
    """Generators that draw as the global ones do after seeding."""
    return random.Random(seed), np.random.RandomState(seed), torch.Generator().manual_seed(seed)


def draws_of(generators: Generators) -> dict[str, Any]:
    """What the probe's `draws` reports of generators like these."""
    own, legacy, generator = generators
    return {
        "Python's random": [[own.random() for _ in range(9)], own.gauss(0, 1)],
        "NumPy": [legacy.rand(9).tolist(), legacy.randn(2).tolist()],
        "torch": torch_draws(generator),
    }


def torch_draws(generator: torch.Generator) -> list[Any]:
    uniform = torch.rand(9, generator=generator).tolist()
    return [uniform, torch.randn(2, generator=generator).tolist()]


def seeded(seed: int) -> dict[str, Any]:
    """The draws right after seeding."""
    return draws_of(generators_of(seed))


def arranged(seed: int, draws: int = 1) -> dict[str, Any]:
    """The draws after the probe's `arrange`: one `draw`, or more, after seeding."""
    own, legacy, generator = generators_of(seed)
    for _ in range(draws):
        own.random(), own.gauss(0, 1)
        legacy.rand(), legacy.randn()
        torch.rand(3, generator=generator), torch.randn(1, generator=generator)
    return draws_of((own, legacy, generator))


def generator_after_draws(seed: int) -> torch.Generator:
    """torch's generator as it is in the probe's `worker_seeded`, where it went on from its seed."""
    generator = torch.Generator().manual_seed(seed)
    torch.rand(3, generator=generator), torch.randn(1, generator=generator)
    return generator


class Block:
    """A block of fork_rng in the probe: the numbers that arrange the generators, and what it reported."""

    def __init__(self, student: Student, seed: int | None, inside: str) -> None:
        self.seed, self.inside = seed, inside
        self.made, self.entered, self.inner = new_seeds(3)
        self.call = f"fork_rng({'' if seed is None else seed})"
        self.report = student.run("forked", seed, inside, self.made, self.entered, self.inner)
        # A block that seeds is entered without a normal number in hand: two are drawn at a time.
        self.before = arranged(self.entered, draws=2 if inside == "seeds" else 1)

    def check_not_mistaken(self, when: str) -> None:
        """The states that usual mistakes leave behind the block have names."""
        after, left = entry(self.report, "after"), entry(self.report, "left")
        wrong = {
            "is as it was when the manager was made, not the block entered": arranged(self.made),
            f"begins anew at its seed, {when}: put its state back, not a seed": seeded(
                self.entered
            ),
            f"goes on as the block left it, {when}: put its state back": left,
        }
        for library in LIBRARIES:
            draws = entry(after, library)
            if laws.same(draws, self.before[library]):
                continue
            for mistake, mistaken in wrong.items():
                assert not laws.same(draws, entry(mistaken, library)), f"{library} {mistake}."


class Passes:
    """Passes over loaders in the probe: the numbers of their items, the noises, and what it reported."""

    def __init__(
        self,
        student: Student,
        seeds: list[int],
        plan: list[int],
        numbers: list[int] | None = None,
        *,
        length: int = ITEMS,
        size: int = 8,
        **options: Any,
    ) -> None:
        self.seeds = seeds
        self.numbers = numbers or new_numbers(length)
        self.noises = new_seeds(len(plan) + 1)
        arguments = self.numbers, size, seeds, plan, self.noises
        self.report = student.run("passes", *arguments, **options)

    def orders(self) -> list[list[float]]:
        """The numbers of each epoch's items."""
        orders = [table[:, 0].tolist() for table in tables(self.report)]
        for order in orders:
            assert sorted(order) == sorted(self.numbers), "Not every item comes once an epoch."
        return orders


def worked_passes(student: Student) -> tuple[Passes, Passes]:
    """Two epochs of a loader with two workers, and one of another seed: few, as processes are dear."""

    def ask() -> tuple[Passes, Passes]:
        seeds, plan, numbers = new_seeds(2), [0, 0, 1], new_numbers(WORKED_ITEMS)
        first = Passes(student, seeds, plan, numbers, size=2, num_workers=2)
        return first, Passes(student, seeds, plan, numbers, size=2, num_workers=2)

    return student.once("workers", ask)


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


def check_draws(actual: Any, right: Any, when: str) -> None:
    """The generators draw what they should."""
    normal = "normal numbers: the one kept for the next call is part of the state"
    for library in LIBRARIES:
        for i, kind in enumerate(("numbers", normal)):
            same = laws.same(entry(actual, library, i), entry(right, library, i))
            assert same, f"{library} draws other {kind}, {when}."
