"""Tests of data_parallel: values on ranks, with few launches."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, raises
from grader.judge.student import Student

Parameters = dict[str, Tensor]
Batch = tuple[Tensor, Tensor]
RANKS = 3
LR = 0.0625
OLD_GRADIENT = 1.5
# The modes of the probe's model and of the two modules in it.
MODES = [False, True, False]
# Added to the gradients of each rank. They nearly cancel, so that float32 would lose the mean.
LARGE_GRADIENTS = (1e4, -1e4, 0.0)


# --- shard ---------------------------------------------------------------------------------------


@promise(
    "shard",
    points=3,
    hint="divmod(rows, world_size): the size of the smaller parts, and how many are larger.",
)
def test_shard(code: Student, draw: Draw) -> Cases:
    """The parts are consecutive rows, and no two sizes differ by more than one."""
    for rows, world_size in [(10, 4), (8, 4), (5, 5)]:
        what = f"the list of the parts of {rows} rows over {world_size} ranks"
        yield what, parts_of(code, draw.normal(rows, 2), world_size)


@promise("shard", after="test_shard")
def test_shard_shapes(code: Student, draw: Draw) -> Cases:
    """Batches of any dtype and any number of dimensions are cut along the first one."""
    for batch in (draw.permutation(5), draw.normal(5, 2, 3, dtype=torch.float64)):
        yield f"the list of the parts of shape {tuple(batch.shape)}", parts_of(code, batch, 3)


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
def test_wrap_alone(code: Student, draw: Draw) -> Cases:
    """Without a process group the model is wrapped in DataParallel."""
    report = code.run("wrap_alone", new_parameters(draw), draw.normal(4, 3))
    yield "the kind of wrapper without a process group", entry(report, 0)
    yield "the output of the wrapped model", entry(report, 1)


@promise(
    "wrap",
    points=2,
    hint="torch.distributed.is_initialized() tells whether there is a process group.",
    word="the sandbox says what the wrapper is",
)
def test_wrap_in_group(code: Student, draw: Draw) -> Cases:
    """In a process group the wrapper is DistributedDataParallel, which brings rank 0's weights to all ranks."""
    yield "the list of the ranks' wrappers", by_rank(code, "wrap")


# --- average_gradients ---------------------------------------------------------------------------


@promise(
    "average_gradients",
    points=3,
    hint="all_reduce sums over the ranks; divide by their number once.",
)
def test_average_gradients(code: Student, draw: Draw) -> Cases:
    """Every rank ends up with the mean of the ranks' gradients."""
    yield "the list of the ranks' gradients", by_rank(code, "average")


@promise(
    "average_gradients",
    points=3,
    hint="Where .grad is None, put zeros there before the collective.",
    after="test_average_gradients",
)
def test_average_gradients_missing(code: Student, draw: Draw) -> Cases:
    """A rank without a gradient takes part with zeros."""
    yield "the list of the ranks' gradients", by_rank(code, "average missing")


@promise(
    "average_gradients",
    hint="Skip parameters whose requires_grad is False.",
    after="test_average_gradients",
)
def test_average_gradients_frozen(code: Student, draw: Draw) -> Cases:
    """The gradients of frozen parameters are not touched."""
    yield "the list of the ranks' gradients", by_rank(code, "average frozen")


@promise(
    "average_gradients",
    hint="Ask torch.distributed.is_initialized() first.",
    after="test_average_gradients",
    word="the sandbox says that it raised",
)
def test_average_gradients_alone(code: Student, draw: Draw) -> Cases:
    """Without a process group average_gradients is a RuntimeError."""
    given = new_parameters(draw), draw.normal(2, 3)
    refused = raises(RuntimeError, None, code.run, "average_alone", *given)
    yield "average_gradients without a process group", refused


# --- train_step ----------------------------------------------------------------------------------


@promise("train_step", points=3, hint="zero_grad, forward, loss, backward, step: in this order.")
def test_train_step(code: Student, draw: Draw) -> Cases:
    """A train step moves the weights only by this batch's gradient."""
    yield "the list of the weights after each step", entry(trained(code, draw), "weights")


@promise("train_step", hint="inputs.shape[0] is the number of rows.")
def test_train_step_rows(code: Student, draw: Draw) -> Cases:
    """A train step returns the number of rows of its inputs."""
    yield "the list of results of the steps", entry(trained(code, draw), "returned")


@promise(
    "train_step",
    hint="The caller of train_step decides on train() and eval().",
    after="test_train_step",
    word="the sandbox says which mode it is in",
)
def test_train_step_mode(code: Student, draw: Draw) -> Cases:
    """A train step leaves every module in its mode."""
    yield "the list of the modules' modes after the steps", entry(trained(code, draw), "modes")


@promise(
    "train_step",
    points=2,
    hint="DistributedDataParallel averages during loss.backward() of its own output.",
    after="test_wrap_in_group",
)
def test_wrapped_step(code: Student, draw: Draw) -> Cases:
    """A step of a wrapped model on equal shards is the step on the whole batch."""
    yield "the list of the ranks' weights", by_rank(code, "step")


@promise(
    "train_step",
    hint="Averaging is the job of the wrapper, or of average_gradients.",
    after="test_train_step",
)
def test_plain_step_in_group(code: Student, draw: Draw) -> Cases:
    """A step of a model that is not wrapped uses the rank's own gradient."""
    yield "the list of the ranks' weights", by_rank(code, "plain")


# --- helpers of the tests ------------------------------------------------------------------------


def parts_of(code: Student, batch: Tensor, world_size: int) -> list[Any]:
    return [code.function("shard")(batch, rank, world_size) for rank in range(world_size)]


def new_parameters(draw: Draw) -> Parameters:
    return {"weight": draw.normal(3, 2), "bias": draw.normal(2)}


def trained(code: Student, draw: Draw) -> Any:
    """The probe's report on three train steps."""
    # One row of targets, which the loss broadcasts: the rows to count are those of the inputs.
    batches = [(draw.normal(draw.size(2, 20), 3), draw.normal(1, 2)) for _ in range(3)]
    return code.run("train", new_parameters(draw), OLD_GRADIENT, LR, batches, MODES)


def new_gradients(draw: Draw, *names: str) -> list[dict[str, Tensor | None]]:
    """The gradients of each rank by name."""
    return [
        {name: large + draw.normal(2, 3, dtype=torch.float64) for name in names}
        for large in LARGE_GRADIENTS
    ]


def new_cases(draw: Draw) -> dict[str, Any]:
    """Cases of average_gradients: the gradients of each rank, and the names of frozen parameters."""
    # The gradient of d is missing on all ranks, and each other gradient on one rank. So every rank lacks two.
    # Code that skips missing gradients calls equally many collectives on all ranks, and no rank waits in vain.
    missing = new_gradients(draw, "a", "b", "c", "d")
    for own, name in zip(missing, ("a", "b", "c"), strict=True):
        own[name] = own["d"] = None
    # Both are frozen; scale has a gradient, and shift has none.
    frozen = new_gradients(draw, "weight", "scale", "shift")
    for own in frozen:
        own["shift"] = None
    return {
        "average": (new_gradients(draw, "weight", "bias"), []),
        "average missing": (missing, []),
        "average frozen": (frozen, ["scale", "shift"]),
    }


def by_rank(code: Student, part: str) -> list[Any]:
    """The results of one part of the shared launch, by rank. If it raised, the test fails and says so."""

    def ask() -> Any:
        draw = Draw(random.randrange(2**31))
        parameters = [new_parameters(draw) for _ in range(RANKS)]
        batches: list[Batch] = [(draw.normal(2, 3), draw.normal(2, 2)) for _ in range(RANKS)]
        return code.run("group", parameters, LR, batches, new_cases(draw))

    ranks, values = code.once("group", ask), []
    for rank in range(RANKS):
        told = f"On rank {rank} your code did not come to its end."
        attempt = entry(ranks, rank, part, kind=dict, told=told)
        error, message = str(attempt.get("error")), str(attempt.get("message"))
        if error == "NotImplementedError":
            code.run("raise_unwritten", message)
        assert not ("Connection closed" in message or "Timed out" in message), (
            f"Rank {rank} waited for the other ranks in vain: every rank has to call the same "
            "collectives, in the same order."
        )
        told = f"An exception ended rank {rank}: your code raised {error}: {message[:300]}"
        assert "error" not in attempt, told
        values.append(attempt.get("value"))
    return values
