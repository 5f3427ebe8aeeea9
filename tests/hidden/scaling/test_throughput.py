"""Tests of throughput, with fake clocks and few launches."""

from __future__ import annotations

import math
import random
from typing import Any

from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, raises, within
from grader.judge.student import Student

Parameters = dict[str, Tensor]
BENCHMARK_STEPS = 3
# Ranks sum in another order than one process, and the difference grows over several steps.
TOLERANCE: Any = {"rtol": 1e-5, "atol": 1e-5}
DEFAULT_WARMUP = 5
# The additional seconds of a slow step, and of a call on the slowest rank.
SLOWER_STEP, SLOWER_CALL = 4.0, 2.0


# --- throughput ----------------------------------------------------------------------------------


@promise(
    "throughput",
    points=4,
    hint="Sum up the results of the timed steps, and divide by the seconds that they took.",
)
def test_throughput(code: Student, draw: Draw) -> Cases:
    """Throughput is the samples of the timed steps divided by their seconds; by default 20 steps after 5."""
    machine = new_machine(draw, 40)
    yield "the throughput", code.run("throughput", machine, {"steps": 3, "warmup": 2})
    yield "the throughput without steps and warmup", code.run("throughput", machine, {})


@promise(
    "throughput",
    points=4,
    hint="Warm-up steps, synchronize, clock, timed steps, synchronize, clock.",
)
def test_throughput_synchronize(code: Student, draw: Draw) -> Cases:
    """The clock is read twice, not in every step, each time right after synchronize."""
    # Each reading of the clock and each call of synchronize takes time.
    seconds = {"reading": draw.number(0.5, 1.0), "waiting": draw.number(2.0, 3.0)}
    machine = {**new_machine(draw, 5), **seconds}
    rate = code.run("throughput", machine, {"steps": 3, "warmup": 2})
    yield "the throughput of an asynchronous machine", rate


@promise(
    "throughput",
    hint="Check both arguments before the first step.",
    word="the sandbox says that it raised",
)
def test_throughput_refuses(student: Student) -> None:
    """Too few steps or a negative warm-up is a ValueError before any step runs."""
    bad = {
        "steps": [{"steps": 0, "warmup": 1}, {"steps": -1, "warmup": 0}],
        "warmup": [{"steps": 1, "warmup": -1}],
    }
    fine = {"steps": 1, "warmup": 0}
    probe = student.probe("checked_throughput")
    laws.check_errors(student, probe, bad, fine=fine, call="throughput")


@promise(
    "throughput",
    points=2,
    hint="Compare the two readings before you divide by their difference.",
    after="test_throughput",
    word="the sandbox says that it raised",
)
def test_throughput_clock(code: Student, draw: Draw) -> Cases:
    """A clock that stands still or runs backward is a ValueError."""
    for seconds, moves in ((0.0, "stands still"), (-1.0, "runs backward")):
        given = {"samples": [4], "seconds": [seconds]}, {"steps": 1, "warmup": 0}
        refused = raises(ValueError, "clock", code.run, "throughput", *given)
        yield f"throughput with a clock that {moves}", refused


# --- scaling_efficiency --------------------------------------------------------------------------


@promise(
    "scaling_efficiency",
    points=3,
    hint="T_n / (n * T_1), for each n in the order in which they come.",
)
def test_scaling_efficiency(code: Student, draw: Draw) -> Cases:
    """The efficiency is T_n / (n T_1), in the order given."""
    # The sizes are not sorted, and the throughput of 1 is neither the lowest nor the highest.
    factors, one = {4: 2.2, 1: 1.0, 16: 9.0, 2: 0.7}, draw.number(900.0, 1000.0)
    throughputs = {n: one * factor * draw.number(1.0, 1.1) for n, factor in factors.items()}
    yield from values_and_keys("efficiencies", code.function("scaling_efficiency")(throughputs))


@promise(
    "scaling_efficiency",
    points=2,
    hint="Look at every value, and ask math.isfinite.",
    word="the sandbox says that it raised",
)
def test_scaling_efficiency_refuses(student: Student) -> None:
    """Throughputs without an entry for 1, or that are not finite and positive, are a ValueError."""
    bad = [
        ({2: 10.0, 4: 20.0},),
        ({1: 0.0, 2: 10.0},),
        ({1: 10.0, 2: -5.0, 4: 30.0},),
        ({1: 10.0, 2: math.inf, 4: 30.0},),
        ({1: math.nan, 2: 10.0},),
    ]
    slow = ({1: 0.5, 2: 0.75},)
    laws.check_errors(student, "scaling_efficiency", {"throughputs": bad}, fine=slow)


# --- measure_overheads ---------------------------------------------------------------------------


@promise(
    "measure_overheads",
    points=2,
    hint="One untimed call, a barrier, the clock, 10 calls of the rank's shard, the clock.",
)
def test_overheads_splitting(code: Student, draw: Draw) -> Cases:
    """Batch splitting is the time of 10 calls for the rank's own shard, on the slowest rank, divided by 10."""
    yield overhead(code, "batch_splitting")


@promise(
    "measure_overheads",
    points=2,
    hint="One untimed call, a barrier, the clock, 10 calls of average_gradients, the clock.",
)
def test_overheads_reduction(code: Student, draw: Draw) -> Cases:
    """Gradient reduction is the time of 10 calls of average_gradients, without a forward pass."""
    yield overhead(code, "gradient_reduction")


@promise(
    "measure_overheads",
    hint="Between the last two readings there are 10 broadcasts of every parameter.",
)
def test_overheads_synchronization(code: Student, draw: Draw) -> Cases:
    """Parameter synchronization is timed by itself, and comes last of the three."""
    yield overhead(code, "parameter_synchronization")
    yield "the list of keys", list(entry(watched_overheads(code), "result", kind=dict))


@promise(
    "measure_overheads",
    hint="launch returns a list of as many results as there are ranks, one here.",
)
def test_overheads_of_one(code: Student, draw: Draw) -> Cases:
    """With one rank, launch is used as with several."""
    inputs, costs = draw.normal(3, 3), [new_costs(draw)]
    seen = code.run("overheads", new_parameters(draw), [], inputs, costs)
    yield "the overheads with one rank", entry(seen, "result")


@promise(
    "measure_overheads",
    points=2,
    hint="model(part).sum().backward(), with the rank's part of inputs.",
)
def test_overheads_gradients(code: Student, draw: Draw) -> Cases:
    """The reduced gradients are those of the sum of the model's output for the rank's part."""
    gradients = by_rank(watched_overheads(code), "gradients")
    yield "the list of the ranks' gradients before they are reduced", gradients


@promise(
    "measure_overheads",
    points=2,
    hint="torch.distributed.broadcast(parameter.data, src=0), for model.parameters().",
)
def test_overheads_broadcast(code: Student, draw: Draw) -> Cases:
    """Every parameter is broadcast from rank 0, frozen ones too."""
    parameters = by_rank(watched_overheads(code), "parameters")
    yield "the list of the ranks' parameters after the broadcasts", parameters


@promise(
    "measure_overheads",
    hint="torch.distributed.barrier(), after the untimed call and before the clock.",
    after=("test_overheads_splitting", "test_overheads_reduction"),
    word="the sandbox says what was called, and when",
)
def test_overheads_barrier(student: Student) -> None:
    """The ranks wait for each other before the clock is read."""
    ranks = entry(watched_overheads(student), "ranks", 2)
    told = (
        "Rank 0 read the clock while rank 1 was still in its untimed call: a barrier belongs "
        "between that call and the clock."
    )
    # Readings 0 and 1 belong to batch splitting, 2 and 3 to gradient reduction.
    for reading, name in ((0, "shard"), (2, "average")):
        read_at = entry(ranks, 0, "read_at", reading, kind=float)
        assert read_at >= entry(ranks, 1, "ended_at", name, kind=float), told


@promise(
    "measure_overheads",
    hint="shard(inputs, 0, world_size) raises the errors: call it first.",
    after="test_overheads_of_one",
    word="the sandbox says that it raised",
)
def test_overheads_refuses(code: Student, draw: Draw) -> Cases:
    """Inputs that cannot be sharded are a ValueError before anything is launched."""
    for rows, world_size in ((4, 0), (2, 3), (0, 1)):
        refused = raises(ValueError, None, code.run, "unlaunched_overheads", rows, world_size)
        yield f"measure_overheads with {rows} rows and world_size={world_size}", refused


# --- benchmark -----------------------------------------------------------------------------------


@promise("benchmark", points=6, hint="sum(launch(worker, world_size, ...)), for each world size.")
def test_benchmark(code: Student, draw: Draw) -> Cases:
    """The throughput of a world size is the sum over its ranks, in the order given."""
    yield from values_and_keys("throughputs", entry(watched_benchmark(code), "result"))


@promise(
    "benchmark",
    points=6,
    hint="In each rank: wrap(build_model()), SGD(lr=0.01), train_step on the rank's shards.",
)
def test_benchmark_trains(code: Student, draw: Draw) -> Cases:
    """Every rank trains its own wrapped model on its shards by SGD at 0.01, and counts their rows."""
    seen = watched_benchmark(code)
    what = "the list of the weights with which each rank's steps began"
    yield what, within(by_rank(seen, "weights"), **TOLERANCE)
    yield "the list of results of each rank's steps", by_rank(seen, "returned")


@promise(
    "benchmark",
    points=2,
    hint="throughput(step, steps, warmup); keep the defaults of the stub.",
    word="the sandbox says what was called, and when",
)
def test_benchmark_steps(code: Student, draw: Draw) -> Cases:
    """throughput gets the given steps and warm-up; by default, 1 and 2 ranks take 20 steps after 5."""
    asked = by_rank(watched_benchmark(code), "asked")
    yield "the list of the steps and the warm-up that throughput got on each rank", asked
    by_default = entry(code.run("default_benchmark"), kind=dict)
    yield "the list of world sizes by default", list(by_default)
    what = "the throughput of one rank, which the probe makes 1000 * steps + warmup,"
    yield what, entry(by_default, 1)


@promise(
    "benchmark",
    hint="torch.distributed.barrier(), right before throughput.",
    after="test_benchmark",
    word="the sandbox says what was called, and when",
)
def test_benchmark_barrier(student: Student) -> None:
    """The ranks wait for each other before they measure."""
    ranks = entry(watched_benchmark(student), "ranks", 2)
    measured_at = entry(ranks, 0, "measured_at", kind=float)
    told = (
        "Rank 0 began to measure while rank 1 was still getting ready: a barrier belongs before "
        "throughput."
    )
    assert measured_at >= entry(ranks, 1, "wrapped_at", kind=float), told


@promise(
    "benchmark",
    points=2,
    hint="Check steps, warmup and every world size before the first launch.",
    after="test_benchmark",
    word="the sandbox says that it raised",
)
def test_benchmark_refuses(code: Student, draw: Draw) -> Cases:
    """Bad arguments of the benchmark are a ValueError before anything is launched."""
    for given in [([1, 2], 0, 1), ([1, 2], 2, -1), ([1, 0], 2, 1), ([1, 5], 2, 1)]:
        what = "benchmark with 4 rows, world_sizes={}, steps={}, warmup={}".format(*given)
        yield what, raises(ValueError, None, code.run, "unlaunched_benchmark", 4, *given)


# --- helpers of the tests ------------------------------------------------------------------------


def values_and_keys(what: str, result: Any) -> Cases:
    """A dict by world size, and its keys, because their order counts."""
    yield f"the {what}", result
    yield f"the list of keys of the {what}", list(result)


def new_parameters(draw: Draw) -> Parameters:
    return {"weight": draw.normal(3, 2), "bias": draw.normal(2)}


def new_machine(draw: Draw, steps: int) -> dict[str, Any]:
    """The samples and seconds of steps for the probe's Machine. The first DEFAULT_WARMUP steps are slow."""
    seconds = [draw.number(1.0, 2.0) for _ in range(steps)]
    for i in range(DEFAULT_WARMUP):
        seconds[i] += SLOWER_STEP
    return {"samples": draw.integers(steps, low=10, high=100).tolist(), "seconds": seconds}


def new_costs(draw: Draw) -> dict[str, float]:
    """The costs that advance a rank's clock (see the probe's Watch)."""
    names = ("row", "average", "forward", "reading", "first")
    return {name: draw.number(0.1, 1.0) for name in names}


def by_rank(seen: Any, what: str) -> list[Any]:
    """The notes of two ranks under this name."""
    return [entry(seen, "ranks", 2, rank, what) for rank in range(2)]


def watched_overheads(code: Student) -> Any:
    """The probe's report on measure_overheads with two ranks, made once for all tests."""

    def ask() -> Any:
        draw = Draw(random.randrange(2**31))
        parameters = {**new_parameters(draw), "scale": draw.normal(4)}
        costs = [new_costs(draw), new_costs(draw)]
        # Rank 0 is slower at reducing gradients. Rank 1 is slower at splitting, although it has fewer rows.
        costs[0]["average"] += SLOWER_CALL
        costs[1]["row"] += SLOWER_CALL
        return code.run("overheads", parameters, ["scale"], draw.normal(5, 3), costs)

    return code.once("overheads", ask)


def overhead(code: Student, name: str) -> tuple[str, Any]:
    return f"the seconds of {name}", entry(watched_overheads(code), "result", name)


def watched_benchmark(code: Student) -> Any:
    """The probe's report on benchmark with two ranks and with one, made once for all tests."""

    def ask() -> Any:
        draw = Draw(random.randrange(2**31))
        # For rank 0, for rank 1, and for the launching process.
        parameters = [new_parameters(draw) for _ in range(3)]
        inputs, targets = draw.normal(7, 3), draw.normal(7, 2)
        # The throughput of each rank, by world size.
        rates = {n: [draw.number(10.0, 90.0) for _ in range(n)] for n in (1, 2)}
        steps, warmup = (1 + draw.permutation(8)[:2]).tolist()
        options = {"world_sizes": [2, 1], "steps": steps, "warmup": warmup}
        return code.run("benchmark", parameters, inputs, targets, rates, BENCHMARK_STEPS, options)

    return code.once("benchmark", ask)
