"""Tests of data_parallel: values and orders, with fake clocks and few launches."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise
from grader.judge.student import Student

Parameters = dict[str, Tensor]
Batch = tuple[Tensor, Tensor]

RANKS = 3
LR = 0.0625
OLD_GRADIENT = 1.5
# Added to the gradients of each rank: they nearly cancel, so that float32 would lose their mean.
LARGE_GRADIENTS = (1e4, -1e4, 0.0)
BENCHMARK_LR = 0.01
BENCHMARK_STEPS = 3
# The ranks sum up in another order than one process, and several steps add that up.
TOLERANCE = 1e-5
DEFAULT_STEPS, DEFAULT_WARMUP = 20, 5
# How much longer than otherwise a slow step takes, and a call on the slowest rank, in seconds.
SLOWER_STEP, SLOWER_CALL = 4.0, 2.0
OVERHEADS = ["batch_splitting", "gradient_reduction", "parameter_synchronization"]
SCALING_HEAD = [
    "| world size | samples/s | speed-up | efficiency (%) |",
    "| --- | --- | --- | --- |",
]
OVERHEADS_HEAD = ["| overhead | ms | share (%) |", "| --- | --- | --- |"]


# --- shard ---------------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("shard")
@pytest.mark.hint(
    "divmod(rows, world_size): the size of the smaller parts, and how many are larger."
)
def test_shard(student: Student) -> None:
    """The parts are consecutive rows, and no two sizes differ by more than one."""
    shard = student.function("shard")
    for rows, world_size in [(10, 4), (8, 4), (5, 5)]:
        batch = torch.randn(rows, 2)
        parts = [shard(batch, rank, world_size) for rank in range(world_size)]
        what = f"the list of the parts of {rows} rows over {world_size} ranks"
        assert_close(parts, parts_of(batch, world_size), what=what)


@pytest.mark.requires("test_shard")
@pytest.mark.place("shard")
def test_shard_shapes(student: Student) -> None:
    """Batches of any dtype and any number of dimensions are cut along the first one."""
    shard = student.function("shard")
    for batch in (torch.arange(5), torch.randn(5, 2, 3).double()):
        parts = [shard(batch, rank, 3) for rank in range(3)]
        assert_close(parts, parts_of(batch, 3), what="the list of the parts")


@pytest.mark.points(2)
@pytest.mark.place("shard")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check world_size, rank and the number of rows before slicing.")
def test_shard_refuses(student: Student) -> None:
    """A rank, a size or a batch that does not fit is a ValueError that names the argument."""
    batch = torch.randn(4, 2)
    table = {
        "world_size": [(batch, 0, 0)],
        "rank": [(batch, -1, 2), (batch, 2, 2)],
        "batch": [(batch, 0, 5), (batch[:0], 0, 1)],
    }
    laws.check_errors(student, "shard", table, fine=(batch, 1, 2))


# --- wrap ----------------------------------------------------------------------------------------


@pytest.mark.place("wrap")
@pytest.mark.hint("torch.distributed.is_initialized() tells whether there is a process group.")
def test_wrap_alone(student: Student) -> None:
    """Without a process group the model is wrapped in DataParallel."""
    parameters, x = new_parameters(), torch.randn(4, 3)
    kind, output = entry(student.run("wrap_alone", parameters, x), kind=tuple, count=2)
    assert_equal(kind, "DataParallel", what="the kind of wrapper without a process group")
    expected = x @ parameters["weight"] + parameters["bias"]
    assert_close(output, expected, what="the output of the wrapped model")


@pytest.mark.points(2)
@pytest.mark.place("wrap")
@pytest.mark.word("the sandbox says what the wrapper is")
@pytest.mark.hint("torch.distributed.is_initialized() tells whether there is a process group.")
def test_wrap_in_group(student: Student) -> None:
    """In a process group it is DistributedDataParallel, which brings rank 0's weights to all ranks."""
    weights_of_rank_0 = in_group(student)["parameters"][0]
    right = {"kind": "DistributedDataParallel", "weights": weights_of_rank_0}
    wrappers = by_rank(student, "wrap")
    assert_close(wrappers, [right] * RANKS, what="the list of the ranks' wrappers")


# --- average_gradients ---------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("average_gradients")
@pytest.mark.hint("all_reduce sums over the ranks; divide by their number once.")
def test_average_gradients(student: Student) -> None:
    """Every rank ends up with the mean of the ranks' gradients."""
    check_average(student, "average")


@pytest.mark.points(3)
@pytest.mark.requires("test_average_gradients")
@pytest.mark.place("average_gradients")
@pytest.mark.hint("Where .grad is None, put zeros there before the collective.")
def test_average_gradients_missing(student: Student) -> None:
    """A rank without a gradient takes part with zeros."""
    check_average(student, "average missing")


@pytest.mark.requires("test_average_gradients")
@pytest.mark.place("average_gradients")
@pytest.mark.hint("Skip parameters whose requires_grad is False.")
def test_average_gradients_frozen(student: Student) -> None:
    """The gradients of frozen parameters are not touched."""
    check_average(student, "average frozen")


@pytest.mark.requires("test_average_gradients")
@pytest.mark.place("average_gradients")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Ask torch.distributed.is_initialized() first.")
def test_average_gradients_alone(student: Student) -> None:
    """Without a process group average_gradients is a RuntimeError."""
    with must_raise(RuntimeError, call="average_gradients without a process group"):
        student.run("average_alone", new_parameters(), torch.randn(2, 3))


# --- train_step ----------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, forward, loss, backward, step: in this order.")
def test_train_step(student: Student) -> None:
    """A train step moves the weights by this batch's gradient alone."""
    training = trained(student)
    weights, right = training["parameters"], []
    for batch in training["batches"]:
        weights = stepped(weights, gradients_of(weights, batch), LR)
        right.append(weights)
    after_steps = entry(training["seen"], "weights")
    assert_close(after_steps, right, what="the list of the weights after each step")


@pytest.mark.place("train_step")
@pytest.mark.hint("inputs.shape[0] is the number of rows.")
def test_train_step_rows(student: Student) -> None:
    """A train step returns the number of rows of its inputs."""
    training = trained(student)
    rows = [len(inputs) for inputs, _ in training["batches"]]
    returned = entry(training["seen"], "returned")
    assert_equal(returned, rows, what="the list of what the steps returned")


@pytest.mark.requires("test_train_step")
@pytest.mark.place("train_step")
@pytest.mark.word("the sandbox says which mode it is in")
@pytest.mark.hint("The caller of train_step decides on train() and eval().")
def test_train_step_mode(student: Student) -> None:
    """A train step leaves every module in its mode."""
    training = trained(student)
    what = "the list of the modules' modes after the steps"
    assert_equal(entry(training["seen"], "modes"), training["modes"], what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_wrap_in_group")
@pytest.mark.place("train_step")
@pytest.mark.hint("DistributedDataParallel averages during loss.backward() of its own output.")
def test_wrapped_step(student: Student) -> None:
    """A step of a wrapped model on equal shards is the step on the whole batch."""
    group = in_group(student)
    start = group["parameters"][0]
    inputs, targets = zip(*group["batches"], strict=True)
    whole_batch = torch.cat(inputs), torch.cat(targets)
    right = stepped(start, gradients_of(start, whole_batch), LR)
    assert_close(by_rank(student, "step"), [right] * RANKS, what="the list of the ranks' weights")


@pytest.mark.requires("test_train_step")
@pytest.mark.place("train_step")
@pytest.mark.hint("Averaging is the wrapper's part, or that of average_gradients.")
def test_plain_step_in_group(student: Student) -> None:
    """A step of a model that is not wrapped uses the rank's own gradient."""
    group = in_group(student)
    right = [
        stepped(own, gradients_of(own, batch), LR)
        for own, batch in zip(group["parameters"], group["batches"], strict=True)
    ]
    assert_close(by_rank(student, "plain"), right, what="the list of the ranks' weights")


# --- throughput ----------------------------------------------------------------------------------


@pytest.mark.points(4)
@pytest.mark.place("throughput")
@pytest.mark.hint("Sum up what the timed steps return, and divide by the seconds that they took.")
def test_throughput(student: Student) -> None:
    """Throughput is the timed steps' samples divided by their seconds, by default of 20 after 5."""
    samples, seconds = new_steps(40)
    result = throughput(student, samples, seconds, steps=3, warmup=2)
    assert_close(result, sum(samples[2:5]) / sum(seconds[2:5]), what="the throughput")
    result = throughput(student, samples, seconds)
    timed = slice(DEFAULT_WARMUP, DEFAULT_WARMUP + DEFAULT_STEPS)
    right = sum(samples[timed]) / sum(seconds[timed])
    assert_close(result, right, what="the throughput without steps and warmup")


@pytest.mark.points(4)
@pytest.mark.place("throughput")
@pytest.mark.hint("Warm-up steps, synchronize, clock, timed steps, synchronize, clock.")
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


@pytest.mark.place("throughput")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check both arguments before the first step.")
def test_throughput_refuses(student: Student) -> None:
    """Too few steps or a negative warm-up is a ValueError before any step runs."""
    bad = {
        "steps": [{"steps": 0, "warmup": 1}, {"steps": -1, "warmup": 0}],
        "warmup": [{"steps": 1, "warmup": -1}],
    }
    fine = {"steps": 1, "warmup": 0}
    probe = student.probe("checked_throughput")
    laws.check_errors(student, probe, bad, fine=fine, call="throughput")


@pytest.mark.points(2)
@pytest.mark.requires("test_throughput")
@pytest.mark.place("throughput")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Compare the two readings before you divide by their difference.")
def test_throughput_clock(student: Student) -> None:
    """A clock that stands still or runs backward is a ValueError."""
    for seconds, moves in ((0.0, "stands still"), (-1.0, "runs backward")):
        call = f"throughput with a clock that {moves}"
        with must_raise(ValueError, mentions="clock", call=call):
            throughput(student, [4], [seconds], steps=1, warmup=0)


# --- scaling_efficiency --------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("scaling_efficiency")
@pytest.mark.hint("T_n / (n * T_1), for each n in the order in which they come.")
def test_scaling_efficiency(student: Student) -> None:
    """The efficiency is T_n / (n T_1), in the order given."""
    throughputs = new_throughputs()
    result = student.function("scaling_efficiency")(throughputs)
    right = {n: rate / (n * throughputs[1]) for n, rate in throughputs.items()}
    assert_close(result, right, what="the efficiencies")
    assert_equal(list(result), list(throughputs), what="the list of keys")


@pytest.mark.points(2)
@pytest.mark.place("scaling_efficiency")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look at every value, and ask math.isfinite.")
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


@pytest.mark.points(2)
@pytest.mark.place("measure_overheads")
@pytest.mark.hint(
    "One untimed call, a barrier, the clock, 10 calls of the rank's shard, the clock."
)
def test_overheads_splitting(student: Student) -> None:
    """Batch splitting is what 10 calls of the rank's own shard take on the slowest rank, by 10."""
    check_overhead(student, "batch_splitting")


@pytest.mark.points(2)
@pytest.mark.place("measure_overheads")
@pytest.mark.hint(
    "One untimed call, a barrier, the clock, 10 calls of average_gradients, the clock."
)
def test_overheads_reduction(student: Student) -> None:
    """Gradient reduction is what 10 calls of average_gradients take, and no forward pass."""
    check_overhead(student, "gradient_reduction")


@pytest.mark.place("measure_overheads")
@pytest.mark.hint("Between the last two readings stand 10 broadcasts of every parameter.")
def test_overheads_synchronization(student: Student) -> None:
    """Parameter synchronization is timed alone, and comes last of the three."""
    check_overhead(student, "parameter_synchronization")
    result = entry(watched_overheads(student)["seen"], "result", kind=dict)
    assert_equal(list(result), OVERHEADS, what="the list of keys")


@pytest.mark.place("measure_overheads")
@pytest.mark.hint("launch returns a list of as many results as there are ranks, one here.")
def test_overheads_of_one(student: Student) -> None:
    """One rank is measured under launch like several."""
    parameters, inputs, costs = new_parameters(), torch.randn(3, 3), [new_costs()]
    seen = student.run("overheads", parameters, [], inputs, costs)
    right = seconds_per_call(inputs, costs)
    assert_close(entry(seen, "result"), right, what="the overheads with one rank")


@pytest.mark.points(2)
@pytest.mark.place("measure_overheads")
@pytest.mark.hint("model(part).sum().backward(), with the rank's part of inputs.")
def test_overheads_gradients(student: Student) -> None:
    """The gradients that are reduced are those of the sum of the model's output for the rank's part."""
    overheads = watched_overheads(student)
    right = []
    for part in parts_of(overheads["inputs"], 2):
        weight = part.sum(0)[:, None].expand(3, 2)
        right.append({"weight": weight, "bias": torch.full((2,), float(len(part))), "scale": None})
    gradients = [entry(overheads["seen"], "ranks", 2, rank, "gradients") for rank in range(2)]
    assert_close(gradients, right, what="the list of the ranks' gradients before they are reduced")


@pytest.mark.points(2)
@pytest.mark.place("measure_overheads")
@pytest.mark.hint("torch.distributed.broadcast(parameter.data, src=0), for model.parameters().")
def test_overheads_broadcast(student: Student) -> None:
    """Every parameter is broadcast from rank 0, frozen ones too."""
    overheads = watched_overheads(student)
    parameters = [entry(overheads["seen"], "ranks", 2, rank, "parameters") for rank in range(2)]
    right = [overheads["parameters"]] * 2
    assert_close(parameters, right, what="the list of the ranks' parameters after the broadcasts")


@pytest.mark.requires("test_overheads_splitting", "test_overheads_reduction")
@pytest.mark.place("measure_overheads")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("torch.distributed.barrier(), after the untimed call and before the clock.")
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


@pytest.mark.requires("test_overheads_of_one")
@pytest.mark.place("measure_overheads")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("shard(inputs, 0, world_size) refuses what is to be refused: call it first.")
def test_overheads_refuses(student: Student) -> None:
    """Inputs that cannot be sharded are a ValueError before anything is launched."""
    for rows, world_size in ((4, 0), (2, 3), (0, 1)):
        call = f"measure_overheads with {rows} rows and world_size={world_size}"
        with must_raise(ValueError, call=call):
            student.run("unlaunched_overheads", rows, world_size)


# --- benchmark -----------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("benchmark")
@pytest.mark.hint("sum(launch(worker, world_size, ...)), for each world size.")
def test_benchmark(student: Student) -> None:
    """The throughput of a world size is the sum over its ranks, in the order given."""
    benchmark = watched_benchmark(student)
    right = {n: sum(benchmark["rates"][n]) for n in benchmark["options"]["world_sizes"]}
    result = entry(benchmark["seen"], "result", kind=dict)
    assert_close(result, right, what="the throughputs")
    assert_equal(list(result), list(right), what="the list of keys")


@pytest.mark.points(6)
@pytest.mark.requires("test_train_step", "test_train_step_rows", "test_wrap_in_group")
@pytest.mark.place("benchmark")
@pytest.mark.hint(
    "In each rank: wrap(build_model()), SGD(lr=0.01), train_step on the rank's shards."
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


@pytest.mark.points(2)
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("throughput(step, steps, warmup); the defaults are those of the stub.")
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


@pytest.mark.requires("test_benchmark")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("torch.distributed.barrier(), right before throughput.")
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


@pytest.mark.points(2)
@pytest.mark.requires("test_benchmark")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check steps, warmup and every world size before the first launch.")
def test_benchmark_refuses(student: Student) -> None:
    """Bad arguments of the benchmark are a ValueError before anything is launched."""
    for sizes, steps, warmup in [([1, 2], 0, 1), ([1, 2], 2, -1), ([1, 0], 2, 1), ([1, 5], 2, 1)]:
        call = f"benchmark with 4 rows, world_sizes={sizes}, steps={steps}, warmup={warmup}"
        with must_raise(ValueError, call=call):
            student.run("unlaunched_benchmark", 4, sizes, steps, warmup)


# --- report --------------------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("report")
@pytest.mark.hint("Compare with the example in the docstring, line by line.")
def test_report(student: Student) -> None:
    """The report is two tables of Markdown, by world size and by overhead."""
    costs = {name: random.uniform(0.0001, 0.1) for name in ("zeta", "alpha", "gradient_reduction")}
    check_report(student, new_throughputs(), costs)


@pytest.mark.requires("test_report")
@pytest.mark.place("report")
@pytest.mark.hint("Check whether the sum is 0 before you divide by it.")
def test_report_of_nothing(student: Student) -> None:
    """Where all overheads are 0, their shares are 0.0."""
    check_report(student, new_throughputs(), {"batch_splitting": 0.0, "other": 0.0})


@pytest.mark.place("report")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Let scaling_efficiency do the checking.")
def test_report_refuses(student: Student) -> None:
    """What scaling_efficiency refuses, report refuses."""
    bad = [({1: 10.0, 2: math.nan}, {"only": 0.5}), ({2: 10.0, 4: 20.0}, {"only": 0.5})]
    fine = ({1: 10.0, 2: 15.0}, {"only": 0.5})
    laws.check_errors(student, "report", {"throughputs": bad}, fine=fine)


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


def trained(student: Student) -> dict[str, Any]:
    """The arguments of some train steps, and what the probe has seen of them."""

    def ask() -> dict[str, Any]:
        parameters, modes = new_parameters(), [False, True, False]
        # One row of targets, which the loss broadcasts: rows are counted in the inputs.
        batches = [(torch.randn(n, 3), torch.randn(1, 2)) for n in random.sample(range(2, 20), 3)]
        seen = student.run("train", parameters, OLD_GRADIENT, LR, batches, modes)
        return {"parameters": parameters, "batches": batches, "modes": modes, "seen": seen}

    return student.once("train", ask)


def new_gradients(*names: str) -> list[dict[str, Tensor | None]]:
    """The gradients of each rank by name."""
    return [
        {name: large + torch.randn(2, 3, dtype=torch.float64) for name in names}
        for large in LARGE_GRADIENTS
    ]


def new_cases() -> dict[str, Any]:
    """Cases of average_gradients: the gradients of each rank, and the names of frozen parameters."""
    # The gradient of d is missing on all ranks, and each of the others on one rank. So all ranks lack two:
    # those that skip them call as many collectives as the others, and no rank waits in vain.
    missing = new_gradients("a", "b", "c", "d")
    for own, name in zip(missing, ("a", "b", "c"), strict=True):
        own[name] = None
        own["d"] = None
    # The frozen scale has a gradient, the frozen shift has none.
    frozen = new_gradients("weight", "scale", "shift")
    for own in frozen:
        own["shift"] = None
    return {
        "average": (new_gradients("weight", "bias"), []),
        "average missing": (missing, []),
        "average frozen": (frozen, ["scale", "shift"]),
    }


def in_group(student: Student) -> dict[str, Any]:
    """The arguments of the one launch that many tests share, and what its ranks report."""

    def ask() -> dict[str, Any]:
        parameters = [new_parameters() for _ in range(RANKS)]
        batches, cases = [new_batch(2) for _ in range(RANKS)], new_cases()
        ranks = student.run("group", parameters, LR, batches, cases)
        return {"parameters": parameters, "batches": batches, "cases": cases, "ranks": ranks}

    return student.once("group", ask)


def by_rank(student: Student, part: str) -> list[Any]:
    """What a part of the launch returned on each rank; if it raised, the test fails and says so."""
    ranks, values = in_group(student)["ranks"], []
    for rank in range(RANKS):
        told = f"On rank {rank} your code did not come to its end."
        attempt = entry(ranks, rank, part, kind=dict, told=told)
        error, message = str(attempt.get("error")), str(attempt.get("message"))
        if error == "NotImplementedError":
            student.run("raise_unwritten", message)
        assert not ("Connection closed" in message or "Timed out" in message), (
            f"Rank {rank} waited for the other ranks in vain: every rank has to call the same "
            "collectives, in the same order."
        )
        assert "error" not in attempt, f"On rank {rank} your code raised {error}: {message[:300]}"
        values.append(attempt.get("value"))
    return values


def check_average(student: Student, name: str) -> None:
    """Every rank holds the mean over the ranks, where zeros stand for None; frozen gradients stay."""
    gradients, frozen = in_group(student)["cases"][name]
    averaged = {}
    for parameter in gradients[0].keys() - frozen:
        present = [own[parameter] for own in gradients if own[parameter] is not None]
        averaged[parameter] = sum(present, torch.zeros(2, 3, dtype=torch.float64)) / RANKS
    right = [{**own, **averaged} for own in gradients]
    assert_close(by_rank(student, name), right, what="the list of the ranks' gradients")


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


def check_report(
    student: Student, throughputs: dict[int, float], overheads: dict[str, float]
) -> None:
    """Compare the lines of the report, but for line breaks around it."""
    lines = list(SCALING_HEAD)
    for n, rate in sorted(throughputs.items()):
        speed_up = rate / throughputs[1]
        lines.append(f"| {n} | {rate:.1f} | {speed_up:.2f} | {100 * speed_up / n:.1f} |")
    lines += ["", *OVERHEADS_HEAD]
    total = sum(overheads.values())
    for name, seconds in overheads.items():
        share = 100 * seconds / total if total else 0.0
        lines.append(f"| {name} | {1000 * seconds:.3f} | {share:.1f} |")
    text = entry(student.function("report")(throughputs, overheads), kind=str)
    assert_equal(text.strip("\n"), "\n".join(lines), what="the report")
