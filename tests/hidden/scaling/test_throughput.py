"""Tests of throughput: values and orders, with fake clocks and few launches."""

from __future__ import annotations

import math
import random
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise, promise
from grader.judge.student import Student

Parameters = dict[str, Tensor]
Batch = tuple[Tensor, Tensor]
BENCHMARK_LR = 0.01
BENCHMARK_STEPS = 3
# The ranks sum up in another order than one process, and several steps add that up.
TOLERANCE = 1e-5
DEFAULT_STEPS, DEFAULT_WARMUP = 20, 5
# How much longer than otherwise a slow step takes, and a call on the slowest rank, in seconds.
SLOWER_STEP, SLOWER_CALL = 4.0, 2.0
OVERHEADS = ["batch_splitting", "gradient_reduction", "parameter_synchronization"]


# --- throughput ----------------------------------------------------------------------------------


@promise(
    "throughput",
    points=4,
    hint="Sum up what the timed steps return, and divide by the seconds that they took.",
)
def test_throughput(student: Student) -> None:
    """Throughput is the timed steps' samples divided by their seconds, by default of 20 after 5."""
    samples, seconds = new_steps(40)
    result = throughput(student, samples, seconds, steps=3, warmup=2)
    assert_close(result, sum(samples[2:5]) / sum(seconds[2:5]), what="the throughput")
    result = throughput(student, samples, seconds)
    timed = slice(DEFAULT_WARMUP, DEFAULT_WARMUP + DEFAULT_STEPS)
    right = sum(samples[timed]) / sum(seconds[timed])
    assert_close(result, right, what="the throughput without steps and warmup")


@promise(
    "throughput",
    points=4,
    hint="Warm-up steps, synchronize, clock, timed steps, synchronize, clock.",
)
def test_throughput_synchronize(student: Student) -> None:
    """The clock is read twice, not in every step, each time right after synchronize."""
    samples, seconds = new_steps(5)
    # Both take time: each reading of the clock, and each call of synchronize.
    reading, waiting = random.uniform(0.5, 1.0), random.uniform(2.0, 3.0)
    result = throughput(
        student, samples, seconds, reading=reading, waiting=waiting, steps=3, warmup=2
    )
    right = sum(samples[2:]) / (sum(seconds[2:]) + waiting + reading)
    assert_close(result, right, what="the throughput of an asynchronous machine")


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
def test_throughput_clock(student: Student) -> None:
    """A clock that stands still or runs backward is a ValueError."""
    for seconds, moves in ((0.0, "stands still"), (-1.0, "runs backward")):
        call = f"throughput with a clock that {moves}"
        with must_raise(ValueError, mentions="clock", call=call):
            throughput(student, [4], [seconds], steps=1, warmup=0)


# --- scaling_efficiency --------------------------------------------------------------------------


@promise(
    "scaling_efficiency",
    points=3,
    hint="T_n / (n * T_1), for each n in the order in which they come.",
)
def test_scaling_efficiency(student: Student) -> None:
    """The efficiency is T_n / (n T_1), in the order given."""
    throughputs = new_throughputs()
    result = student.function("scaling_efficiency")(throughputs)
    right = {n: rate / (n * throughputs[1]) for n, rate in throughputs.items()}
    assert_close(result, right, what="the efficiencies")
    assert_equal(list(result), list(throughputs), what="the list of keys")


@promise(
    "scaling_efficiency",
    points=2,
    hint="Look at every value, and ask math.isfinite.",
    word="the sandbox says that it raised",
)
def test_scaling_efficiency_refuses(student: Student) -> None:
    """Throughputs without one of 1, or that are not finite and positive, are a ValueError."""
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
def test_overheads_splitting(student: Student) -> None:
    """Batch splitting is what 10 calls of the rank's own shard take on the slowest rank, by 10."""
    check_overhead(student, "batch_splitting")


@promise(
    "measure_overheads",
    points=2,
    hint="One untimed call, a barrier, the clock, 10 calls of average_gradients, the clock.",
)
def test_overheads_reduction(student: Student) -> None:
    """Gradient reduction is what 10 calls of average_gradients take, and no forward pass."""
    check_overhead(student, "gradient_reduction")


@promise(
    "measure_overheads",
    hint="Between the last two readings stand 10 broadcasts of every parameter.",
)
def test_overheads_synchronization(student: Student) -> None:
    """Parameter synchronization is timed alone, and comes last of the three."""
    check_overhead(student, "parameter_synchronization")
    result = entry(watched_overheads(student)["seen"], "result", kind=dict)
    assert_equal(list(result), OVERHEADS, what="the list of keys")


@promise(
    "measure_overheads",
    hint="launch returns a list of as many results as there are ranks, one here.",
)
def test_overheads_of_one(student: Student) -> None:
    """One rank is measured under launch like several."""
    parameters, inputs, costs = new_parameters(), torch.randn(3, 3), [new_costs()]
    seen = student.run("overheads", parameters, [], inputs, costs)
    right = seconds_per_call(inputs, costs)
    assert_close(entry(seen, "result"), right, what="the overheads with one rank")


@promise(
    "measure_overheads",
    points=2,
    hint="model(part).sum().backward(), with the rank's part of inputs.",
)
def test_overheads_gradients(student: Student) -> None:
    """The gradients that are reduced are those of the sum of the model's output for the rank's part."""
    overheads = watched_overheads(student)
    right = []
    for part in parts_of(overheads["inputs"], 2):
        weight = part.sum(0)[:, None].expand(3, 2)
        right.append({"weight": weight, "bias": torch.full((2,), float(len(part))), "scale": None})
    gradients = [entry(overheads["seen"], "ranks", 2, rank, "gradients") for rank in range(2)]
    assert_close(gradients, right, what="the list of the ranks' gradients before they are reduced")


@promise(
    "measure_overheads",
    points=2,
    hint="torch.distributed.broadcast(parameter.data, src=0), for model.parameters().",
)
def test_overheads_broadcast(student: Student) -> None:
    """Every parameter is broadcast from rank 0, frozen ones too."""
    overheads = watched_overheads(student)
    parameters = [entry(overheads["seen"], "ranks", 2, rank, "parameters") for rank in range(2)]
    right = [overheads["parameters"]] * 2
    assert_close(parameters, right, what="the list of the ranks' parameters after the broadcasts")


@promise(
    "measure_overheads",
    hint="torch.distributed.barrier(), after the untimed call and before the clock.",
    after=("test_overheads_splitting", "test_overheads_reduction"),
    word="the sandbox says what was called, and when",
)
def test_overheads_barrier(student: Student) -> None:
    """The ranks wait for each other before the clock is read."""
    seen = watched_overheads(student)["seen"]
    told = (
        "Rank 0 read the clock while rank 1 was still in its untimed call: a barrier belongs "
        "between that call and the clock."
    )
    # Readings 0 and 1 are those of batch splitting, 2 and 3 those of gradient reduction.
    for reading, name in ((0, "shard"), (2, "average")):
        read_at = entry(seen, "ranks", 2, 0, "read_at", reading, kind=float)
        ended_at = entry(seen, "ranks", 2, 1, "ended_at", name, kind=float)
        assert read_at >= ended_at, told


@promise(
    "measure_overheads",
    hint="shard(inputs, 0, world_size) refuses what is to be refused: call it first.",
    after="test_overheads_of_one",
    word="the sandbox says that it raised",
)
def test_overheads_refuses(student: Student) -> None:
    """Inputs that cannot be sharded are a ValueError before anything is launched."""
    for rows, world_size in ((4, 0), (2, 3), (0, 1)):
        call = f"measure_overheads with {rows} rows and world_size={world_size}"
        with must_raise(ValueError, call=call):
            student.run("unlaunched_overheads", rows, world_size)


# --- benchmark -----------------------------------------------------------------------------------


@promise("benchmark", points=6, hint="sum(launch(worker, world_size, ...)), for each world size.")
def test_benchmark(student: Student) -> None:
    """The throughput of a world size is the sum over its ranks, in the order given."""
    benchmark = watched_benchmark(student)
    right = {n: sum(benchmark["rates"][n]) for n in benchmark["options"]["world_sizes"]}
    result = entry(benchmark["seen"], "result", kind=dict)
    assert_close(result, right, what="the throughputs")
    assert_equal(list(result), list(right), what="the list of keys")


@promise(
    "benchmark",
    points=6,
    hint="In each rank: wrap(build_model()), SGD(lr=0.01), train_step on the rank's shards.",
)
def test_benchmark_trains(student: Student) -> None:
    """Every rank trains its own wrapped model on its shards by SGD at 0.01, and counts their rows."""
    benchmark = watched_benchmark(student)
    inputs, targets = parts_of(benchmark["inputs"], 2), parts_of(benchmark["targets"], 2)
    batches = list(zip(inputs, targets, strict=True))
    # DistributedDataParallel begins with the weights of rank 0, and averages the gradients.
    weights, right = benchmark["parameters"][0], []
    for _ in range(BENCHMARK_STEPS):
        right.append(weights)
        first, second = (gradients_of(weights, batch) for batch in batches)
        mean = {name: (first[name] + second[name]) / 2 for name in weights}
        weights = stepped(weights, mean, BENCHMARK_LR)
    begun_with = [entry(benchmark["seen"], "ranks", 2, rank, "weights") for rank in range(2)]
    what = "the list of the weights with which each rank's steps began"
    assert_close(begun_with, [right, right], what=what, rtol=TOLERANCE, atol=TOLERANCE)
    returned = [entry(benchmark["seen"], "ranks", 2, rank, "returned") for rank in range(2)]
    rows = [[len(part)] * BENCHMARK_STEPS for part in inputs]
    assert_equal(returned, rows, what="the list of what each rank's steps returned")


@promise(
    "benchmark",
    points=2,
    hint="throughput(step, steps, warmup); the defaults are those of the stub.",
    word="the sandbox says what was called, and when",
)
def test_benchmark_steps(student: Student) -> None:
    """The steps and the warm-up asked for are those of throughput; by default 1 and 2 ranks take 20 after 5."""
    benchmark = watched_benchmark(student)
    asked = entry(benchmark["seen"], "ranks", 2, 0, "asked")
    right = [benchmark["options"]["steps"], benchmark["options"]["warmup"]]
    assert_equal(asked, right, what="the list of the steps and the warm-up that throughput got")
    by_default = entry(student.run("default_benchmark"), kind=dict)
    assert_equal(list(by_default), [1, 2], what="the list of world sizes by default")
    what = "the throughput of one rank, which the probe makes 1000 * steps + warmup,"
    assert_close(by_default[1], 1000.0 * DEFAULT_STEPS + DEFAULT_WARMUP, what=what)


@promise(
    "benchmark",
    hint="torch.distributed.barrier(), right before throughput.",
    after="test_benchmark",
    word="the sandbox says what was called, and when",
)
def test_benchmark_barrier(student: Student) -> None:
    """The ranks wait for each other before they measure."""
    seen = watched_benchmark(student)["seen"]
    measured_at = entry(seen, "ranks", 2, 0, "measured_at", kind=float)
    wrapped_at = entry(seen, "ranks", 2, 1, "wrapped_at", kind=float)
    told = (
        "Rank 0 began to measure while rank 1 was still getting ready: a barrier belongs before "
        "throughput."
    )
    assert measured_at >= wrapped_at, told


@promise(
    "benchmark",
    points=2,
    hint="Check steps, warmup and every world size before the first launch.",
    after="test_benchmark",
    word="the sandbox says that it raised",
)
def test_benchmark_refuses(student: Student) -> None:
    """Bad arguments of the benchmark are a ValueError before anything is launched."""
    for sizes, steps, warmup in [([1, 2], 0, 1), ([1, 2], 2, -1), ([1, 0], 2, 1), ([1, 5], 2, 1)]:
        call = f"benchmark with 4 rows, world_sizes={sizes}, steps={steps}, warmup={warmup}"
        with must_raise(ValueError, call=call):
            student.run("unlaunched_benchmark", 4, sizes, steps, warmup)


# --- locally -------------------------------------------------------------------------------------


def parts_of(batch: Tensor, world_size: int) -> list[Tensor]:
    """The parts of a batch by rank: the first ones have a row more, where some are left over."""
    size, larger = divmod(len(batch), world_size)
    sizes = [size + 1] * larger + [size] * (world_size - larger)
    return list(batch.split(sizes))


def new_parameters() -> Parameters:
    return {"weight": torch.randn(3, 2), "bias": torch.randn(2)}


def new_batch(rows: int) -> Batch:
    return torch.randn(rows, 3), torch.randn(rows, 2)


def gradients_of(weights: Parameters, batch: Batch) -> Parameters:
    """The gradients of the probe's loss, mean((outputs - 2 targets)²)."""
    x, targets = batch
    rest = x @ weights["weight"] + weights["bias"] - 2 * targets
    outer = 2 * rest / rest.numel()
    return {"weight": x.t() @ outer, "bias": outer.sum(0)}


def stepped(weights: Parameters, gradients: Parameters, lr: float) -> Parameters:
    return {name: value - lr * gradients[name] for name, value in weights.items()}


def new_steps(number: int) -> tuple[list[int], list[float]]:
    """What so many steps return and take: as many as are warm-up by default are slow."""
    samples = random.sample(range(10, 100), number)
    seconds = [random.uniform(1.0, 2.0) for _ in range(number)]
    for i in range(DEFAULT_WARMUP):
        seconds[i] += SLOWER_STEP
    return samples, seconds


def throughput(
    student: Student,
    samples: list[int],
    seconds: list[float],
    *,
    reading: float = 0.0,
    waiting: float | None = None,
    **options: int,
) -> Any:
    """What throughput measures of the probe's Machine, with these steps and this warm-up."""
    machine = {"samples": samples, "seconds": seconds, "reading": reading, "waiting": waiting}
    return student.run("throughput", machine, options)


def new_throughputs() -> dict[int, float]:
    """Throughputs in no order of sizes; that of 1 is neither the lowest nor the highest."""
    one = random.uniform(900.0, 1000.0)
    factors = {4: 2.2, 1: 1.0, 16: 9.0, 2: 0.7}
    return {n: one * factor * random.uniform(1.0, 1.1) for n, factor in factors.items()}


def new_costs() -> dict[str, float]:
    """What a rank's clock moves by: see the probe's Watch."""
    names = ("row", "average", "forward", "reading", "first")
    return {name: random.uniform(0.1, 1.0) for name in names}


def seconds_per_call(inputs: Tensor, costs: list[dict[str, float]]) -> dict[str, float]:
    """The slowest rank's seconds for one of 10 calls, between two readings of the clock."""
    ranks = []
    for own, part in zip(costs, parts_of(inputs, len(costs)), strict=True):
        reading = own["reading"] / 10
        splitting, reduction = own["row"] * len(part), own["average"]
        ranks.append([splitting + reading, reduction + reading, reading])
    slowest = [max(column) for column in zip(*ranks, strict=True)]
    return dict(zip(OVERHEADS, slowest, strict=True))


def watched_overheads(student: Student) -> dict[str, Any]:
    """The arguments of measure_overheads on two ranks, and what was seen there."""

    def ask() -> dict[str, Any]:
        parameters = {**new_parameters(), "scale": torch.randn(4)}
        inputs, costs = torch.randn(5, 3), [new_costs(), new_costs()]
        # Rank 0 is slower at reducing gradients, and rank 1 at splitting, although it has fewer rows.
        costs[0]["average"] += SLOWER_CALL
        costs[1]["row"] += SLOWER_CALL
        seen = student.run("overheads", parameters, ["scale"], inputs, costs)
        return {"parameters": parameters, "inputs": inputs, "costs": costs, "seen": seen}

    return student.once("overheads", ask)


def check_overhead(student: Student, name: str) -> None:
    overheads = watched_overheads(student)
    right = seconds_per_call(overheads["inputs"], overheads["costs"])[name]
    assert_close(entry(overheads["seen"], "result", name), right, what=f"the seconds of {name}")


def watched_benchmark(student: Student) -> dict[str, Any]:
    """The arguments of benchmark on two ranks and on one, and what was seen there."""

    def ask() -> dict[str, Any]:
        # Those of rank 0, of rank 1, and of the process that launches them.
        parameters = [new_parameters() for _ in range(3)]
        inputs, targets = new_batch(7)
        # The throughput that each rank measures, by world size.
        rates = {n: [random.uniform(10.0, 90.0) for _ in range(n)] for n in (1, 2)}
        steps, warmup = random.sample(range(1, 9), 2)
        options = {"world_sizes": [2, 1], "steps": steps, "warmup": warmup}
        arguments = parameters, inputs, targets, rates, BENCHMARK_STEPS, options
        return {
            "parameters": parameters,
            "inputs": inputs,
            "targets": targets,
            "rates": rates,
            "options": options,
            "seen": student.run("benchmark", *arguments),
        }

    return student.once("benchmark", ask)
