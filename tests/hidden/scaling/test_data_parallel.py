"""Tests of data_parallel: values on ranks, with few launches."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise, promise
from grader.judge.student import Student

Parameters = dict[str, Tensor]
Batch = tuple[Tensor, Tensor]
RANKS = 3
LR = 0.0625
OLD_GRADIENT = 1.5
# Added to the gradients of each rank: they nearly cancel, so that float32 would lose their mean.
LARGE_GRADIENTS = (1e4, -1e4, 0.0)


# --- shard ---------------------------------------------------------------------------------------


@promise(
    "shard",
    points=3,
    hint="divmod(rows, world_size): the size of the smaller parts, and how many are larger.",
)
def test_shard(student: Student) -> None:
    """The parts are consecutive rows, and no two sizes differ by more than one."""
    shard = student.function("shard")
    for rows, world_size in [(10, 4), (8, 4), (5, 5)]:
        batch = torch.randn(rows, 2)
        parts = [shard(batch, rank, world_size) for rank in range(world_size)]
        what = f"the list of the parts of {rows} rows over {world_size} ranks"
        assert_close(parts, parts_of(batch, world_size), what=what)


@promise("shard", after="test_shard")
def test_shard_shapes(student: Student) -> None:
    """Batches of any dtype and any number of dimensions are cut along the first one."""
    shard = student.function("shard")
    for batch in (torch.arange(5), torch.randn(5, 2, 3).double()):
        parts = [shard(batch, rank, 3) for rank in range(3)]
        assert_close(parts, parts_of(batch, 3), what="the list of the parts")


@promise(
    "shard",
    points=2,
    hint="Check world_size, rank and the number of rows before slicing.",
    word="the sandbox says that it raised",
)
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


@promise("wrap", hint="torch.distributed.is_initialized() tells whether there is a process group.")
def test_wrap_alone(student: Student) -> None:
    """Without a process group the model is wrapped in DataParallel."""
    parameters, x = new_parameters(), torch.randn(4, 3)
    kind, output = entry(student.run("wrap_alone", parameters, x), kind=tuple, count=2)
    assert_equal(kind, "DataParallel", what="the kind of wrapper without a process group")
    expected = x @ parameters["weight"] + parameters["bias"]
    assert_close(output, expected, what="the output of the wrapped model")


@promise(
    "wrap",
    points=2,
    hint="torch.distributed.is_initialized() tells whether there is a process group.",
    word="the sandbox says what the wrapper is",
)
def test_wrap_in_group(student: Student) -> None:
    """In a process group it is DistributedDataParallel, which brings rank 0's weights to all ranks."""
    weights_of_rank_0 = in_group(student)["parameters"][0]
    right = {"kind": "DistributedDataParallel", "weights": weights_of_rank_0}
    wrappers = by_rank(student, "wrap")
    assert_close(wrappers, [right] * RANKS, what="the list of the ranks' wrappers")


# --- average_gradients ---------------------------------------------------------------------------


@promise(
    "average_gradients",
    points=3,
    hint="all_reduce sums over the ranks; divide by their number once.",
)
def test_average_gradients(student: Student) -> None:
    """Every rank ends up with the mean of the ranks' gradients."""
    check_average(student, "average")


@promise(
    "average_gradients",
    points=3,
    hint="Where .grad is None, put zeros there before the collective.",
    after="test_average_gradients",
)
def test_average_gradients_missing(student: Student) -> None:
    """A rank without a gradient takes part with zeros."""
    check_average(student, "average missing")


@promise(
    "average_gradients",
    hint="Skip parameters whose requires_grad is False.",
    after="test_average_gradients",
)
def test_average_gradients_frozen(student: Student) -> None:
    """The gradients of frozen parameters are not touched."""
    check_average(student, "average frozen")


@promise(
    "average_gradients",
    hint="Ask torch.distributed.is_initialized() first.",
    after="test_average_gradients",
    word="the sandbox says that it raised",
)
def test_average_gradients_alone(student: Student) -> None:
    """Without a process group average_gradients is a RuntimeError."""
    with must_raise(RuntimeError, call="average_gradients without a process group"):
        student.run("average_alone", new_parameters(), torch.randn(2, 3))


# --- train_step ----------------------------------------------------------------------------------


@promise("train_step", points=3, hint="zero_grad, forward, loss, backward, step: in this order.")
def test_train_step(student: Student) -> None:
    """A train step moves the weights by this batch's gradient alone."""
    training = trained(student)
    weights, right = training["parameters"], []
    for batch in training["batches"]:
        weights = stepped(weights, gradients_of(weights, batch), LR)
        right.append(weights)
    after_steps = entry(training["seen"], "weights")
    assert_close(after_steps, right, what="the list of the weights after each step")


@promise("train_step", hint="inputs.shape[0] is the number of rows.")
def test_train_step_rows(student: Student) -> None:
    """A train step returns the number of rows of its inputs."""
    training = trained(student)
    rows = [len(inputs) for inputs, _ in training["batches"]]
    returned = entry(training["seen"], "returned")
    assert_equal(returned, rows, what="the list of what the steps returned")


@promise(
    "train_step",
    hint="The caller of train_step decides on train() and eval().",
    after="test_train_step",
    word="the sandbox says which mode it is in",
)
def test_train_step_mode(student: Student) -> None:
    """A train step leaves every module in its mode."""
    training = trained(student)
    what = "the list of the modules' modes after the steps"
    assert_equal(entry(training["seen"], "modes"), training["modes"], what=what)


@promise(
    "train_step",
    points=2,
    hint="DistributedDataParallel averages during loss.backward() of its own output.",
    after="test_wrap_in_group",
)
def test_wrapped_step(student: Student) -> None:
    """A step of a wrapped model on equal shards is the step on the whole batch."""
    group = in_group(student)
    start = group["parameters"][0]
    inputs, targets = zip(*group["batches"], strict=True)
    whole_batch = torch.cat(inputs), torch.cat(targets)
    right = stepped(start, gradients_of(start, whole_batch), LR)
    assert_close(by_rank(student, "step"), [right] * RANKS, what="the list of the ranks' weights")


@promise(
    "train_step",
    hint="Averaging is the wrapper's part, or that of average_gradients.",
    after="test_train_step",
)
def test_plain_step_in_group(student: Student) -> None:
    """A step of a model that is not wrapped uses the rank's own gradient."""
    group = in_group(student)
    right = [
        stepped(own, gradients_of(own, batch), LR)
        for own, batch in zip(group["parameters"], group["batches"], strict=True)
    ]
    assert_close(by_rank(student, "plain"), right, what="the list of the ranks' weights")


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
