"""Tests of set_seed, fork_rng, seed_worker and seeded_loader."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import torch

from grader.judge.checks import (
    Cases,
    Draw,
    assert_equal,
    assert_tensor,
    entry,
    exactly,
    laws,
    promise,
    raises,
)
from grader.judge.student import Student

# The global generators, in the order in which the probe's items draw from them.
LIBRARIES = ("Python's random", "NumPy", "torch")
LARGEST_SEED = 2**32 - 1
BAD_SEEDS = (-1, 2**32, 2**40)
ITEMS = 64  # enough that two orders are not equal by chance
WORKED_ITEMS = 8


# --- set_seed ------------------------------------------------------------------------------------


@promise(
    "set_seed",
    points=6,
    hint="random.seed(seed), np.random.seed(seed), torch.manual_seed(seed).",
)
def test_set_seed(code: Student, draw: Draw) -> Cases:
    """Each call seeds the three global generators."""
    for seed in (0, LARGEST_SEED, draw.seed()):
        report = code.run("seeded", seed, seeds(draw, 2))
        for call in range(2):
            drawn = entry(report, "draws", call)
            yield f"the dict of numbers drawn after set_seed({seed})", exactly(drawn)


@promise(
    "set_seed",
    points=2,
    hint="Both flags are in torch.backends.cudnn, and either alone is not enough.",
    word="the sandbox says which flags are set",
)
def test_flags(code: Student, draw: Draw) -> Cases:
    """Each call sets cuDNN to deterministic algorithms, and turns its benchmark off."""
    report = code.run("seeded", draw.seed(), seeds(draw, 2))
    for call in range(2):
        for name in ("deterministic", "benchmark"):
            flag = entry(report, "flags", call, name)
            yield f"torch.backends.cudnn.{name} after set_seed", flag


@promise(
    "set_seed",
    points=2,
    hint="if not 0 <= seed < 2**32: raise ValueError(...), before torch takes it.",
    word="the sandbox says that it raised",
)
def test_seed_errors(code: Student, draw: Draw) -> Cases:
    """A seed outside 0..2**32 - 1 is a ValueError that names it."""
    for seed in BAD_SEEDS:
        yield f"set_seed({seed})", raises(ValueError, "seed", code.function("set_seed"), seed)


# --- fork_rng ------------------------------------------------------------------------------------


@promise(
    "fork_rng",
    points=9,
    hint="Keep the three states at entry, and put them back in a finally.",
)
def test_states_come_back(code: Student, draw: Draw) -> Cases:
    """After the block the three states are exactly those at entry, whatever the block did."""
    for ending in ("", "Stop", "KeyboardInterrupt"):
        # Normal numbers are made two at a time: after an even number of draws, none is kept for later.
        for draws in (1, 2):
            for given in ([], [draw.seed()]):
                report = code.run("forked", given, *seeds(draw, 2), draws, ending)
                what = f"the dict of numbers drawn after a block of {call_of(given)}"
                what += f" that ended by {ending}" if ending else ""
                yield what, exactly(entry(report, "after"))


@promise(
    "fork_rng",
    points=3,
    hint="try: yield, finally: ...; an __exit__ that returns something true swallows it.",
    word="the sandbox says which exception came out",
)
def test_exceptions_go_on(code: Student, draw: Draw) -> Cases:
    """An exception in the block passes through."""
    for given in ([], [draw.seed()]):
        for ending in ("Stop", "KeyboardInterrupt"):
            report = code.run("forked", given, *seeds(draw, 2), ending=ending)
            what = "the name of the exception that comes out of the block"
            yield what, entry(report, "raised")


@promise(
    "fork_rng",
    points=9,
    hint="if seed is not None: set_seed(seed), after the states are kept.",
)
def test_inside(code: Student, draw: Draw) -> Cases:
    """In the block the generators are as after set_seed(seed), or, without a seed, go on where they were."""
    for given in ([0], [LARGEST_SEED], [draw.seed()], []):
        report = code.run("forked", given, *seeds(draw, 2))
        what = f"the dict of numbers drawn in a block of {call_of(given)}"
        yield what, exactly(entry(report, "inside"))


@promise(
    "fork_rng",
    points=3,
    hint="Each manager keeps its own states; nothing happens before the block is entered.",
)
def test_nested(code: Student, draw: Draw) -> Cases:
    """Blocks may be nested, and making a manager changes nothing."""
    for given in ([], [draw.seed()]):
        entered, inner = seeds(draw, 2)
        report = code.run("nested", given, entered, inner)
        for when in ("inner", "after inner", "after outer"):
            what = (
                f"the dict of numbers drawn {when} block, of fork_rng({inner}) in {call_of(given)}"
            )
            yield what, exactly(entry(report, when))
        report = code.run("forked", given, *seeds(draw, 2))
        what = f"the dict of numbers drawn after {call_of(given)} was made"
        yield what, exactly(entry(report, "made"))


@promise(
    "fork_rng",
    hint="set_seed checks the seed already.",
    word="the sandbox says that it raised",
)
def test_fork_errors(code: Student, draw: Draw) -> Cases:
    """A seed outside 0..2**32 - 1 is a ValueError that names it, at the latest when the block is entered."""
    for seed in BAD_SEEDS:
        yield f"fork_rng({seed})", raises(ValueError, "seed", code.run, "fork_rng", seed)


# --- seed_worker ---------------------------------------------------------------------------------


@promise(
    "seed_worker",
    points=5,
    hint="seed = torch.initial_seed() % 2**32, and nothing else.",
)
def test_seed_worker(code: Student, draw: Draw) -> Cases:
    """random and NumPy are seeded with torch.initial_seed() % 2**32; torch stays as it is."""
    for seed in (draw.seed(), LARGEST_SEED, 2**63 + 2**32 + draw.size(0, 99)):
        worker = draw.size(100, 1000)
        report = code.run("worker_seeded", seed, worker, draw.seed())
        what = f"the dict of numbers drawn after seed_worker({worker}) where torch.initial_seed() is {seed}"
        yield what, exactly(entry(report, "after"))
        yield "torch.initial_seed() after seed_worker", entry(report, "initial")


# --- seeded_loader -------------------------------------------------------------------------------


@promise(
    "seeded_loader",
    points=4,
    hint="DataLoader(dataset, batch_size, shuffle=shuffle, generator=...): no drop_last.",
)
def test_epochs(student: Student) -> None:
    """Each item comes once per epoch, in order or shuffled anew, in batches from the default collation."""
    draw = Draw(student.draw_seed)
    for options, shuffled in (({}, True), ({"shuffle": True}, True), ({"shuffle": False}, False)):
        numbers = new_numbers(draw, 23)
        dataset = laws.dataset_of(student, numbers)
        loader = student.own("seeded_loader", dataset, 5, draw.seed(), **options)
        epochs = laws.epochs_of(student, loader, 3)
        laws.check_epochs(epochs, numbers, batch_size=5, shuffled=shuffled)


@promise(
    "seeded_loader",
    hint="return DataLoader(...), with num_workers=num_workers.",
    word="the sandbox says what the loader is",
)
def test_kind(student: Student) -> None:
    """The loader is a DataLoader, by default without workers."""
    passes = new_passes(student, Draw(student.draw_seed), [0], [0])
    assert_equal(
        entry(passes.report, "kinds", 0), True, what="the statement that it is a DataLoader"
    )
    told = "Without num_workers the items come from workers, but num_workers should be 0."
    assert set(epochs_of(passes)[0].workers) == {-1}, told


@promise(
    "seeded_loader",
    points=7,
    hint="torch.Generator().manual_seed(seed), one for each loader and nothing else.",
)
def test_orders(student: Student) -> None:
    """Only the seed decides the orders of all epochs, whatever global generators and other loaders do."""
    draw = Draw(student.draw_seed)
    new, numbers = draw.seed(), new_numbers(draw, ITEMS)
    for seed, other_seed in ((new, new + 1), (0, 1)):
        alone = orders(new_passes(student, draw, [seed], [0, 0, 0], numbers))
        plan = [0, 2, 1, 0, 2, 1, 0]
        mixed = orders(new_passes(student, draw, [seed, seed, other_seed], plan, numbers))
        what = f"the list of the orders of a loader with the seed {seed} among others"
        assert_equal(mixed[0::3], alone, what=what)
        assert_equal(mixed[2::3], alone[:2], what=what)
        assert mixed[1] != alone[0], f"The seeds {seed} and {other_seed} give the same order."


@promise(
    "seeded_loader",
    points=2,
    hint="Hand num_workers on to the DataLoader; the seed still decides the orders.",
)
def test_workers(student: Student) -> None:
    """The items come from num_workers processes, in the order that the seed decides."""
    worked, _ = worked_passes(student)
    for epoch in epochs_of(worked):
        told = "With num_workers=2 the items do not come from two workers."
        assert set(epoch.workers) == {0, 1}, told
    # Two epochs: with workers, torch asks a sampler for its order twice, so its second order is fine, too.
    draw = Draw(student.draw_seed)
    alone = orders(new_passes(student, draw, worked.seeds[:1], [0, 0], worked.numbers, size=2))
    told = "With num_workers the first epoch has another order than without: only seed decides."
    assert orders(worked)[0] in alone, told


@promise(
    "seeded_loader",
    points=3,
    hint="torch seeds each worker from the loader's generator: leave that to it.",
    after="test_workers",
)
def test_draws_differ(student: Student) -> None:
    """The draws of items differ between workers, between epochs and between seeds."""
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


@promise(
    "seeded_loader",
    hint="The generator decides the seeds of the workers, too, and not only the orders.",
    after="test_workers",
)
def test_draws_repeat(student: Student) -> None:
    """The same seed gives the same draws in workers, whatever the global random state."""
    worked, again = worked_passes(student)
    told = "The same seed gives other draws in workers where the global generators differ."
    assert epochs_of(worked) == epochs_of(again), told


@promise(
    "seeded_loader",
    points=4,
    hint="A loader without a generator draws from the global one, without shuffle too.",
    word="a loader that is never made leaves the generators alone, too",
)
def test_global_state(code: Student, draw: Draw) -> Cases:
    """Making and iterating a loader leaves the three global generators as they were."""
    plan = [0, 1, 0]
    shuffled = new_passes(code, draw, seeds(draw, 2), plan)
    in_order = new_passes(code, draw, seeds(draw, 2), plan, shuffle=False)
    worked, _ = worked_passes(code)
    for passes in (shuffled, in_order, worked):
        what = "the dict of numbers drawn after seeded_loader, which leaves them alone"
        yield what, exactly(entry(passes.report, "made"))
        for number in range(len(plan)):
            what = "the dict of numbers drawn after a pass over the loader, which leaves them alone"
            yield what, exactly(entry(passes.report, "after", number))


# --- helpers of the tests ------------------------------------------------------------------------


def seeds(draw: Draw, count: int) -> list[int]:
    return [draw.seed() for _ in range(count)]


def new_numbers(draw: Draw, length: int) -> list[int]:
    """Different numbers, which identify the items of a dataset."""
    return [int(number) for number in draw.permutation(1000)[:length]]


def call_of(given: list[int]) -> str:
    """A call of fork_rng, for messages."""
    return f"fork_rng({', '.join(map(str, given))})"


class Passes(NamedTuple):
    """Passes over loaders in the probe: their arguments, and the probe's report."""

    seeds: list[int]
    numbers: list[int]
    plan: list[int]
    report: Any


def new_passes(
    code: Student,
    draw: Draw,
    seeds_of_loaders: list[int],
    plan: list[int],
    numbers: list[int] | None = None,
    size: int = 8,
    **options: Any,
) -> Passes:
    """Iterate loaders with these seeds in the order of the plan, each time in another random state."""
    numbers = numbers or new_numbers(draw, ITEMS)
    noises = seeds(draw, len(plan) + 1)
    report = code.run("passes", numbers, size, seeds_of_loaders, plan, noises, **options)
    return Passes(seeds_of_loaders, numbers, plan, report)


def worked_passes(code: Student) -> list[Passes]:
    """Two epochs of a loader with two workers and one epoch with another seed, all of it twice.

    Processes take time, so several tests share these passes.
    """

    def ask() -> list[Passes]:
        draw = Draw(random.randrange(2**31))
        given = seeds(draw, 2), [0, 0, 1], new_numbers(draw, WORKED_ITEMS), 2
        return [new_passes(code, draw, *given, num_workers=2) for _ in range(2)]

    return code.once("workers", ask)


class Epoch(NamedTuple):
    """The items of a pass: their numbers, their workers (-1 without workers), and their three draws."""

    numbers: list[float]
    workers: list[float]
    draws: dict[str, list[float]]

    def draws_of(self, worker: int, library: str) -> list[float]:
        """The numbers that the items of this worker drew from a library."""
        pairs = zip(self.workers, self.draws[library], strict=True)
        return [draw for own, draw in pairs if own == worker]


def epochs_of(passes: Passes) -> list[Epoch]:
    """The items of each pass, in their order."""
    epochs, what = [], "a batch of items (5,)"
    for batches in entry(passes.report, "epochs", kind=list, count=len(passes.plan)):
        rows = []
        for batch in entry(batches, kind=list):
            batch = assert_tensor(batch, dtype=torch.float64, what=what)
            shape = (*batch.shape[:1], 5)
            rows += assert_tensor(batch, shape=shape, what=what).tolist()
        numbers, workers, *draws = [[row[column] for row in rows] for column in range(5)]
        epochs.append(Epoch(numbers, workers, dict(zip(LIBRARIES, draws, strict=True))))
    return epochs


def orders(passes: Passes) -> list[list[float]]:
    """The numbers of each epoch's items. All items have to be there."""
    found = [epoch.numbers for epoch in epochs_of(passes)]
    for order in found:
        assert sorted(order) == sorted(passes.numbers), "Not every item comes once an epoch."
    return found
