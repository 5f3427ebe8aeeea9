"""Hidden tests of data_parallel: all that the stub promises, with fake clocks and few launches."""

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import (
    assert_close,
    assert_equal,
    assert_tensor,
    entry,
    fields,
    laws,
    must_raise,
)
from grader.judge.student import Student

Parameters = dict[str, Tensor]


def _listed(seen: Any, name: str) -> list[Any]:
    return list(entry(seen, name, kind=list))


# ---- shard ---------------------------------------------------------------------------------------

_SPLITS = [(7, 3), (10, 4), (8, 4), (5, 5), (6, 1), (11, 4)]


def _parts(student: Student, batches: list[Tensor], sizes: list[int]) -> list[list[Any]]:
    shard = student.function("shard")
    return [
        [shard(batch, rank, world_size) for rank in range(world_size)]
        for batch, world_size in zip(batches, sizes, strict=True)
    ]


# What each rank gets, or the lengths of the parts, from a batch or its rows and the world size.
Parts = Callable[[Tensor, int], list[Tensor]]
Lengths = Callable[[int, int], list[int]]


def _cut(lengths: Lengths) -> Parts:
    """Consecutive parts of the lengths that `lengths(rows, world_size)` gives."""

    def parts(batch: Tensor, n: int) -> list[Tensor]:
        sizes = lengths(len(batch), n)
        return list(batch[: sum(sizes)].split(sizes))

    return parts


def _even(rows: int, world_size: int) -> list[int]:
    return [rows // world_size + (rank < rows % world_size) for rank in range(world_size)]


@pytest.mark.points(3)
@pytest.mark.place("shard")
@pytest.mark.hint(
    "divmod(rows, world_size) gives the size of the smaller parts, and how many are larger by one."
)
def test_shard(student: Student) -> None:
    """The parts are consecutive rows, and no two sizes differ by more than one."""
    sizes = [world_size for _, world_size in _SPLITS]
    batches = [torch.randn(rows, 2) for rows, _ in _SPLITS]

    def of_all(parts: Parts) -> list[list[Tensor]]:
        return [parts(batch, n) for batch, n in zip(batches, sizes, strict=True)]

    assert_close(
        _parts(student, batches, sizes),
        of_all(_cut(_even)),
        what="the list of all parts",
    )
    changed = ", ".join(student.mutated)
    assert not student.mutated, f"shard changed its argument in place: {changed}."


@pytest.mark.requires("test_shard")
@pytest.mark.place("shard")
def test_shard_shapes(student: Student) -> None:
    """Batches of any dtype and any number of dimensions are cut along the first one"""
    batches = [
        torch.arange(5),
        torch.randn(5, 2, 3, dtype=torch.float64),
        torch.rand(7, 2) > 0.5,
        torch.randn(3, 7).t(),
        torch.empty(4, 0),
    ]
    sizes = [2, 3, 3, 2, 3]
    right = [_cut(_even)(batch, n) for batch, n in zip(batches, sizes, strict=True)]
    assert_close(_parts(student, batches, sizes), right, what="the list of all parts")


@pytest.mark.points(2)
@pytest.mark.place("shard")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check world_size, rank and the number of rows before slicing.")
def test_shard_refuses(student: Student) -> None:
    """A rank, a size or a batch that does not fit is a ValueError that names the argument"""
    shard = student.function("shard")
    # A function that refuses everything proves nothing.
    assert_tensor(shard(torch.randn(4, 2), 1, 2), what="shard(batch, rank=1, world_size=2)")
    table = {
        "world_size": [(torch.randn(4, 2), 0, world_size) for world_size in (0, -2)],
        "rank": [(torch.randn(6, 2), rank, 2) for rank in (-1, 2, 5)],
        "batch": [(torch.randn(rows, 2), rank, 3) for rows, rank in ((2, 0), (2, 2), (0, 0))],
    }
    laws.check_errors(student, "shard", table)


# ---- wrap ----------------------------------------------------------------------------------------

_LR = 0.0625
_RANKS = 3
_ROWS = [slice(0, 2), slice(2, 4), slice(4, 6)]


def _eighths(*shape: int) -> Tensor:
    """Random numbers that float32 adds up exactly."""
    return torch.randint(-16, 17, shape) / 8


class _Problem:
    """A linear model and a batch of six rows, drawn anew for every seed."""

    def __init__(self) -> None:
        self.weight, self.bias = _eighths(3, 2), _eighths(2)
        self.x, self.y = _eighths(6, 3), _eighths(6, 2)

    @property
    def start(self) -> Parameters:
        return {"weight": self.weight, "bias": self.bias}


@pytest.mark.place("wrap")
@pytest.mark.hint("torch.distributed.is_initialized() tells whether there is a process group.")
def test_wrap_alone(student: Student) -> None:
    """Without a process group the model is wrapped in DataParallel"""
    given = _Problem()
    seen = student.run("wrap_alone", given.weight, given.bias, given.x)
    assert_equal(
        entry(seen, "kind"),
        "DataParallel",
        what="the kind of wrapper without a process group",
    )
    expected = given.x @ given.weight + given.bias
    assert_close(entry(seen, "output"), expected, what="the output of the wrapped model")


@pytest.mark.points(2)
@pytest.mark.place("wrap")
@pytest.mark.word("the sandbox says what the wrapper is")
@pytest.mark.hint("torch.distributed.is_initialized() tells whether there is a process group.")
def test_wrap_in_group(student: Student) -> None:
    """In a process group the model is wrapped in DistributedDataParallel"""
    for rank, attempt in enumerate(_group(student, "wrap")):
        value = _value(attempt, rank, "wrap")
        assert_equal(
            value.get("kind") if isinstance(value, dict) else None,
            "DistributedDataParallel",
            what="the kind of wrapper in a process group",
        )


def _in_group(student: Student) -> tuple[_Problem, list[dict[str, Any]], Any]:
    """What goes into the one launch that many tests share, and what the probe reports of it."""

    def ask() -> tuple[_Problem, list[dict[str, Any]], Any]:
        given, cases = _Problem(), _cases()
        batches = [(given.x[rows], given.y[rows]) for rows in _ROWS]
        step = {**given.start, "lr": _LR, "batches": batches}
        return given, cases, student.run("group", step, cases)

    return student.once("group", ask)


def _group(student: Student, wanted: str) -> list[Any]:
    """What the three ranks report of a part of it."""
    attempts = _listed(_in_group(student)[-1], wanted)
    assert len(attempts) == _RANKS, (
        f"launch returned {len(attempts)} results, not one for each of the {_RANKS} ranks."
    )
    for attempt in [a for rank in attempts for a in (rank if isinstance(rank, list) else [rank])]:
        error = attempt.get("error") if isinstance(attempt, dict) else None
        if isinstance(error, dict) and str(error.get("type")) == "NotImplementedError":
            # What is still to be written is that here, too, and no failure.
            student.run("unwritten", str(error.get("message")))
    return attempts


def _value(attempt: Any, rank: int, call: str) -> Any:
    """The value that a rank reports; what it raised instead is told."""
    assert isinstance(attempt, dict), f"{call} did not come to an end on rank {rank}."
    error = attempt.get("error")
    if isinstance(error, dict):
        said = f"{error.get('type')}: {error.get('message')}"[:300]
        waited = "Connection closed" in said or "Timed out" in said
        advice = (
            " It waited for the other ranks in vain: every rank calls the same collectives, in the "
            "same order."
        )
        raise AssertionError(f"On rank {rank}, {call} raised {said}{advice if waited else ''}")
    return attempt.get("value")


# ---- train_step ----------------------------------------------------------------------------------


def _gradients(values: Parameters, x: Tensor, y: Tensor) -> Parameters:
    """The gradients of the probe's loss, mean((outputs - 2 targets)²)."""
    leaves = {name: value.clone().requires_grad_() for name, value in values.items()}
    outputs = x @ leaves["weight"] + leaves["bias"]
    loss = (outputs - 2 * y).square().mean()
    found = torch.autograd.grad(loss, list(leaves.values()))
    return dict(zip(leaves, found, strict=True))


def _moved(values: Parameters, gradients: Parameters, lr: float) -> Parameters:
    return {name: value - lr * gradients[name] for name, value in values.items()}


def _training(
    values: Parameters,
    batches: list[tuple[Tensor, Tensor]],
    stale: float,
    times: Callable[[int], float] = lambda rows: 1.0,
) -> list[Parameters]:
    """The weights after each step."""
    weights = []
    for x, y in batches:
        values = _moved(values, _gradients(values, x, y), _LR)
        weights.append(values)
    return weights


def _check_moved(before: Any, after: Any) -> None:
    """Check that a step trains: where it does nothing, it leaves everything as it was."""
    known = isinstance(before, dict) and isinstance(after, dict)
    assert known, "What your code did cannot be read."
    pairs = [(value, after.get(name)) for name, value in before.items()]
    tensors = [(o, n) for o, n in pairs if isinstance(o, Tensor) and isinstance(n, Tensor)]
    assert any(o.shape == n.shape and bool((o != n).any()) for o, n in tensors), (
        "train_step does not change the weights: is there a backward, and optimizer.step() after it?"
    )


@pytest.mark.points(3)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, forward, loss, backward, step: in this order.")
def test_train_step(student: Student) -> None:
    """A train step moves the weights by this batch's gradient alone"""
    for dtype in (torch.float32, torch.float64):
        start = {"weight": torch.randn(3, 2, dtype=dtype), "bias": torch.randn(2, dtype=dtype)}
        batches = [
            (torch.randn(rows, 3, dtype=dtype), torch.randn(rows, 2, dtype=dtype))
            for rows in (5, 4, 6)
        ]
        seen = student.run("train", start["weight"], start["bias"], 1.5, _LR, batches)

        assert_close(
            entry(seen, "weights"),
            _training(start, batches, 1.5),
            what="the weights after each of 3 steps",
        )


@pytest.mark.place("train_step")
@pytest.mark.hint("inputs.shape[0] is the number of rows.")
def test_train_step_rows(student: Student) -> None:
    """A train step returns the number of rows of its inputs"""
    rows = random.sample(range(1, 20), 3)
    # One row of targets for all rows of inputs: the loss broadcasts.
    batches = [(torch.randn(n, 3), torch.randn(1, 2)) for n in rows]
    start = {"weight": torch.randn(3, 2), "bias": torch.randn(2)}
    seen = student.run("train", *start.values(), 0.0, _LR, batches)
    weights = entry(seen, "weights")
    _check_moved(start, weights[0] if isinstance(weights, list) and weights else None)
    returned = _listed(seen, "returned")
    numbers = [each.item() if _is_scalar(each) else each for each in returned]
    assert not any(isinstance(n, float) and n != int(n) for n in numbers if _is_finite(n)), (
        "train_step returned the loss, or another number with a fraction: return the number "
        "of rows of inputs, an int."
    )
    assert_equal(
        returned,
        rows,
        what="the list of returned numbers of rows",
    )


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Tensor) and value.numel() == 1


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _weights_in(model: Any) -> dict[str, Any]:
    facts = entry(model, "parameters", kind=dict)
    return {name: entry(fact, "values", default=None) for name, fact in facts.items()}


@pytest.mark.place("train_step")
@pytest.mark.word("the sandbox says which mode it is in")
@pytest.mark.hint("Whoever calls train_step decides on train() and eval().")
def test_train_step_mode(student: Student) -> None:
    """A train step leaves every module in its mode"""
    # The model, its Linear, its Dropout, its Sequential, that one's Linear.
    names = ["", "0", "1", "2", "2.0"]
    for modes in ([False, False, True, False, False], [True, False, True, False, True]):
        call = student.made("moded", modes), student.made("loss")
        stepper = laws.shipped(student, "optimizer").made("SGD", call[0], lr=0.1)
        data = torch.ones(3, 2), torch.ones(3, 1)
        seen = laws.observe(student, "train_step", *call, stepper, *data).checked()
        _check_moved(*(_weights_in(model) for model in (seen.before(0), seen.after(0))))
        assert_equal(
            [entry(seen.after(0), "training", name, default=None) for name in names],
            modes,
            what="the list of modes after the step (True is train)",
        )


@pytest.mark.points(2)
@pytest.mark.requires("test_wrap_in_group")
@pytest.mark.place("train_step")
@pytest.mark.hint("DistributedDataParallel averages during loss.backward() of its own output.")
def test_wrapped_step(student: Student) -> None:
    """A step of a wrapped model on equal shards is the step on the whole batch"""
    attempts, given = _group(student, "step"), _in_group(student)[0]
    start = given.start

    def stepped(rows: slice) -> Parameters:
        return _moved(start, _gradients(start, given.x[rows], given.y[rows]), _LR)

    assert_close(
        [_value(attempt, rank, "train_step") for rank, attempt in enumerate(attempts)],
        [stepped(slice(None))] * _RANKS,
        what="the list of the ranks' weights",
    )


@pytest.mark.requires("test_train_step")
@pytest.mark.place("train_step")
@pytest.mark.hint("Averaging is the wrapper's part, or that of whoever calls average_gradients.")
def test_plain_step_in_group(student: Student) -> None:
    """A step of a model that is not wrapped uses the rank's own gradient"""
    attempts, given = _group(student, "plain"), _in_group(student)[0]
    start, x, y = given.start, given.x, given.y
    assert_close(
        [_value(each, rank, "train_step") for rank, each in enumerate(attempts)],
        [_moved(start, _gradients(start, x[rows], y[rows]), _LR) for rows in _ROWS],
        what="the list of the ranks' weights",
    )


# ---- average_gradients ---------------------------------------------------------------------------


def _case(
    shapes: dict[str, tuple[int, ...]],
    frozen: tuple[str, ...] = (),
    missing: dict[str, tuple[int, ...]] | None = None,
    dtype: torch.dtype = torch.float32,
    nested: bool = False,
) -> dict[str, Any]:
    """Gradients on three ranks, all different; `missing` says which ranks have none of a name.

    The parameters are the model's own, or those of a submodule (`nested`).
    """
    values = {name: torch.full(shape, 0.5, dtype=dtype) for name, shape in shapes.items()}
    gradients = []
    for rank in range(_RANKS):
        own: dict[str, Tensor | None] = {}
        for name, shape in shapes.items():
            gradient = torch.randn(shape, dtype=dtype)
            if dtype == torch.float64:
                gradient += (1e4, -1e4, 0.0)[rank]  # nearly cancels: float32 would lose the mean
            own[name] = None if rank in (missing or {}).get(name, ()) else gradient
        gradients.append(own)
    return {
        "parameters": values,
        "frozen": list(frozen),
        "gradients": gradients,
        "nested": nested,
    }


def _cases() -> list[dict[str, Any]]:
    """What average_gradients gets in the one launch, in this order."""
    square = {"weight": (2, 3), "bias": (3,)}
    everything = tuple(range(_RANKS))
    return [
        _case(square),
        _case(square, dtype=torch.float64, nested=True),
        _case(square | {"scale": (2,), "shift": (2,)}, ("scale", "shift"), {"shift": everything}),
        _case(square, missing={"bias": everything}),
        # Every rank lacks another one, so that skipping does not even deadlock.
        _case(
            {"a": (2,), "b": (2,), "c": (2,)},
            missing={"a": (0,), "b": (1,), "c": (2,)},
            dtype=torch.float64,
        ),
    ]


def _held(student: Student, which: int) -> tuple[dict[str, Any], list[Any], list[Any]]:
    """A case, and the gradients and parameters that each rank held after it."""
    values = []
    for rank, attempts in enumerate(_group(student, "averages")):
        complete = isinstance(attempts, list) and len(attempts) > which
        assert complete, f"Rank {rank} did not come to an end."
        values.append(_value(attempts[which], rank, "average_gradients"))
    gradients, parameters = zip(
        *(fields(v, "gradients", "parameters") for v in values), strict=True
    )
    return _in_group(student)[1][which], list(gradients), list(parameters)


def _column(case: dict[str, Any], name: str) -> list[Tensor]:
    """The gradients of one parameter on all ranks, None as zeros."""
    zero = torch.zeros_like(case["parameters"][name])
    return [zero if own[name] is None else own[name] for own in case["gradients"]]


def _mean(case: dict[str, Any], name: str) -> Tensor:
    return torch.stack(_column(case, name)).mean(0)


def _everywhere(case: dict[str, Any], value: Callable[[str], Any]) -> list[dict[str, Any]]:
    """The same gradients on every rank: `value(name)` for each name."""
    return [{name: value(name) for name in tuple(case["parameters"])}] * _RANKS


@pytest.mark.points(3)
@pytest.mark.place("average_gradients")
@pytest.mark.hint("all_reduce sums over the ranks; divide by their number once.")
def test_average_gradients(student: Student) -> None:
    """Every rank ends up with the mean of the ranks' gradients"""
    for which in (0, 1):
        case, gradients, parameters = _held(student, which)

        before = [
            {name: value + rank for name, value in case["parameters"].items()}
            for rank in range(_RANKS)
        ]
        assert_close(
            parameters,
            before,
            what="the list of the ranks' parameters after average_gradients",
        )
        assert_close(
            gradients,
            _everywhere(case, lambda name: _mean(case, name)),
            what="the list of the ranks' gradients",
        )


def _check_averages(case: dict[str, Any], gradients: list[Any]) -> None:
    """Check that trainable gradients change: what does nothing leaves frozen ones alone, too."""
    assert all(isinstance(held, dict) for held in gradients), "What your code did cannot be read."
    for own, held in zip(case["gradients"], gradients, strict=True):
        for name in ("weight", "bias"):
            new = held.get(name)
            if (
                isinstance(new, Tensor)
                and new.shape == own[name].shape
                and (new != own[name]).any()
            ):
                return
    raise AssertionError(
        "The gradients are each rank's own: nothing was averaged over the ranks, so that nothing "
        "could go wrong here."
    )


@pytest.mark.place("average_gradients")
@pytest.mark.hint("Skip parameters whose requires_grad is False.")
def test_average_gradients_frozen(student: Student) -> None:
    """The gradients of frozen parameters are not touched"""
    case, gradients, _ = _held(student, 2)
    names = ("scale", "shift")
    _check_averages(case, gradients)
    frozen = [{name: each.get(name) for name in names} for each in gradients]
    assert_close(
        frozen,
        [{name: own[name] for name in names} for own in case["gradients"]],
        what="the list of the ranks' frozen gradients",
    )


@pytest.mark.points(3)
@pytest.mark.requires("test_average_gradients")
@pytest.mark.place("average_gradients")
@pytest.mark.hint("Where .grad is None, put zeros there before the collective.")
def test_average_gradients_missing(student: Student) -> None:
    """A rank without a gradient takes part with zeros"""
    case, gradients, _ = _held(student, 4)
    assert_close(
        gradients,
        _everywhere(case, lambda name: _mean(case, name)),
        what="the list of the ranks' gradients, where each rank lacks one",
    )
    case, gradients, _ = _held(student, 3)
    assert_close(
        gradients,
        _everywhere(case, lambda name: _mean(case, name)),
        what="the list of the ranks' gradients, where no rank has one for bias",
    )


@pytest.mark.place("average_gradients")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Ask torch.distributed.is_initialized() first.")
def test_average_gradients_alone(student: Student) -> None:
    """Without a process group average_gradients is a RuntimeError"""
    # In one, it is none.
    case, held, _ = _held(student, 0)
    _check_averages(case, held)
    given = _Problem()
    for gradients in (True, False):
        state = "with" if gradients else "without"
        call = f"average_gradients of a model {state} gradients, without a process group,"
        with must_raise(RuntimeError, call=call):
            student.run("average_alone", given.weight, given.bias, gradients)


@pytest.mark.requires("test_shard")
@pytest.mark.place("launch")
@pytest.mark.hint("launch came complete: compare yours with the one you were given.")
def test_launch(student: Student) -> None:
    """Launch still returns results in the order of the ranks, and raises what a rank raises"""
    seen = _in_group(student)[-1]
    order = list(range(_RANKS))
    assert_equal(
        entry(seen, "order"), order, what="the list of ranks whose results launch returned"
    )
    raised = student.run("launched_error")
    assert raised is not None, (
        "A rank raised a ZeroDivisionError, and launch returned normally: it raises that, too."
    )
    text = str(raised)
    assert "ZeroDivisionError" in text and "in divide_by_zero" in text, (
        "A rank raised a ZeroDivisionError; what launch raised does not show its traceback."
    )


# ---- throughput ----------------------------------------------------------------------------------

_OPTIONS = {"steps": 3, "warmup": 2}


def _steps() -> tuple[list[int], list[float]]:
    """What two slow, large steps of the warm-up and three timed ones return and take."""
    large, small = torch.randint(300, 1000, (2,)), 3 + torch.randperm(9)[:3]
    # No number of samples can be divided by 31: a rounded throughput is never the right one.
    slow, fast = 4 + torch.rand(2).double(), torch.tensor([7, 11, 13])[torch.randperm(3)].double()
    fast /= 8 * random.randrange(1, 31)
    return [*large.tolist(), *small.tolist()], [*slow.tolist(), *fast.tolist()]


def _error_text(error: Any) -> str:
    if not isinstance(error, dict):
        return "what cannot be read"
    return f"{str(error.get('type'))[:80]}: {str(error.get('message'))[:400]}"


def _rate(seen: Any, how: str) -> Any:
    """The result of throughput, which must not have raised."""
    error = entry(seen, "error")
    if error is not None:
        done = ", ".join(map(str, _listed(seen, "events")[:20])) or "nothing"
        raise AssertionError(
            f"throughput with {how} raised {_error_text(error)}. What it did before: {done}."
        )
    return entry(seen, "result")


@pytest.mark.points(3)
@pytest.mark.place("throughput")
@pytest.mark.hint("Sum up what the timed steps return, and divide by the seconds that they took.")
def test_throughput(student: Student) -> None:
    """Throughput is the timed steps' samples divided by their seconds"""
    counts, seconds = _steps()
    seen = student.run("throughput", counts, seconds, _OPTIONS)
    rate = sum(counts[2:]) / sum(seconds[2:])
    assert_close(_rate(seen, "steps=3, warmup=2"), rate, what="the throughput")


@pytest.mark.points(2)
@pytest.mark.place("throughput")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("Warm-up steps, clock, timed steps, clock.")
def test_throughput_order(student: Student) -> None:
    """The clock is read twice: after the warm-up and after the last step"""
    runs: list[tuple[dict[str, int], int, int]] = [
        (_OPTIONS, 2, 3),
        ({"steps": 1, "warmup": 0}, 0, 1),
    ]
    for options, warmup, steps in [*runs, ({}, 5, 20)]:
        seen = student.run("throughput", [4], [0.5], options)
        given = ", ".join(f"{name}={value}" for name, value in options.items()) or "the defaults"
        _rate(seen, given)
        events = [str(event) for event in _listed(seen, "events")]
        readings = events.count("clock")
        assert readings == 2, (
            f"The clock was read {readings} times with {given}: it is read exactly twice, "
            "not in every step."
        )
        first, second = (i for i, event in enumerate(events) if event == "clock")
        counted = [first, second - first - 1, len(events) - second - 1]
        assert_equal(
            counted,
            [warmup, steps, 0],
            what=f"the list of steps before, between and after the readings, with {given},",
        )


@pytest.mark.points(2)
@pytest.mark.place("throughput")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("Each of the two readings: first synchronize, if it is given, then the clock.")
def test_throughput_synchronize(student: Student) -> None:
    """Synchronize is called right before each reading of the clock"""
    seen = student.run("throughput", *_steps(), _OPTIONS, asynchronous=True)
    events = [str(event) for event in _listed(seen, "events")]
    assert "synchronize" in events, "synchronize was never called."
    readings = [i for i, event in enumerate(events) if event == "clock"]
    assert readings, "The clock was never read."
    before = [i > 0 and events[i - 1] == "synchronize" for i in readings]
    assert before != [False, True], (
        "synchronize was not called right before the first reading: what is left of the warm-up's "
        "work is timed."
    )
    assert before != [True, False], (
        "synchronize was not called right before the second reading: the steps' work may still "
        "be running."
    )
    assert all(before), (
        "synchronize is not called right before each reading of the clock. What was done: "
        + ", ".join(events[:20])
    )
    between = events[readings[0] + 1 : readings[-1] - 1].count("synchronize")
    assert not between, (
        f"synchronize is called {between} times between the steps that are timed, which then wait for "
        "each other: call it right before the two readings alone."
    )


@pytest.mark.place("throughput")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check both arguments before the first step.")
def test_throughput_refuses(student: Student) -> None:
    """Too few steps or a negative warm-up is a ValueError before any step runs"""
    good = student.run("throughput", [4], [0.5], {"steps": 1, "warmup": 0})
    _rate(good, "steps=1, warmup=0")
    assert "step" in map(str, _listed(good, "events")), "With steps=1 and warmup=0, no step runs."
    for options, name in (
        ({"steps": 0, "warmup": 1}, "steps"),
        ({"steps": -1, "warmup": 0}, "steps"),
        ({"steps": 2, "warmup": -1}, "warmup"),
    ):
        seen = student.run("throughput", [4], [0.5], options)
        _check_refusal(entry(seen, "error"), name, f"throughput({name}={options[name]})")
        ran = "step" in map(str, _listed(seen, "events"))
        assert not ran, f"With {name}={options[name]} steps ran before the ValueError."


def _check_refusal(error: Any, name: str | None, call: str) -> None:
    """A ValueError, reported by a probe, that names the argument."""
    naming = "" if name is None else f" that names {name}"
    assert isinstance(error, dict), (
        f"{call} returned normally, it should raise a ValueError{naming}."
    )
    kind, text = str(error.get("type")), str(error.get("message"))
    ancestry = error.get("ancestry")
    assert isinstance(ancestry, list) and "ValueError" in ancestry, (
        f"{call} raised {kind}: {text[:200]}. It should raise a ValueError{naming}."
    )
    assert name is None or name in text.lower(), (
        f"{call} raised the message {text[:200]!r}, it should name {name}."
    )


@pytest.mark.points(2)
@pytest.mark.place("throughput")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Compare the two readings before you divide by their difference.")
def test_throughput_clock(student: Student) -> None:
    """A clock that does not advance is a ValueError; the default clock does"""
    for stuck in (0.0, -1.0):
        seen = student.run("throughput", [4], [0.5], _OPTIONS, stuck=stuck)
        moved = "stands still" if stuck == 0 else "runs backwards"
        _check_refusal(entry(seen, "error"), "clock", f"throughput with a clock that {moved}")
    result = student.run("real_throughput")
    sane = isinstance(result, float) and math.isfinite(result) and result > 0
    assert sane, "With the default clock, throughput did not return a finite positive float."


# ---- scaling_efficiency --------------------------------------------------------------------------


@pytest.mark.points(3)
@pytest.mark.place("scaling_efficiency")
@pytest.mark.hint("T_n / (n * T_1), for each n in the order in which they come.")
def test_scaling_efficiency(student: Student) -> None:
    """The efficiency is T_n / (n T_1), in the order given"""
    # More than perfect on two ranks, less on more.
    one, *jitter = (1 + torch.rand(4, dtype=torch.float64) / 10).tolist()
    one, two = 90.0 * one, 0.9 + jitter[0] / 5
    given = {4: 2.5 * one * jitter[1], 1: one, 8: 5.0 * one * jitter[2], 2: 2 * one * two}
    result = laws.check_changes_nothing(student, "scaling_efficiency", given)
    assert_close(
        result,
        {n: t / (n * one) for n, t in given.items()},
        what="the efficiencies",
    )
    assert_equal(
        list(result),
        list(given),
        what="the list of keys",
    )


# From the world size, the speed-up and the throughput of 1.


@pytest.mark.points(2)
@pytest.mark.place("scaling_efficiency")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Look at every value, and ask math.isfinite.")
def test_scaling_efficiency_refuses(student: Student) -> None:
    """Throughputs that cannot be compared are a ValueError"""
    scaling_efficiency = student.function("scaling_efficiency")
    efficiencies = scaling_efficiency({1: 10.0, 2: 15.0})
    assert isinstance(efficiencies, dict) and set(efficiencies) == {1, 2}, (
        "For the throughputs {1: 10.0, 2: 15.0}, scaling_efficiency returned no dict of the two."
    )
    try:
        scaling_efficiency({1: 0.5, 2: 0.75})
    except ValueError as error:
        raise AssertionError(
            "scaling_efficiency refuses {1: 0.5, 2: 0.75}: a slow machine may take longer than a second "
            "for a sample."
        ) from error
    bad = [({2: 10.0, 4: 20.0},), ({},)]
    for rate in (0.0, -5.0, math.inf, -math.inf, math.nan):
        bad += [({1: 10.0, 2: rate, 4: 30.0},), ({1: rate, 2: 10.0},)]
    laws.check_errors(student, "scaling_efficiency", {"throughputs": bad})


# ---- measure_overheads ---------------------------------------------------------------------------

_NAMES = ["batch_splitting", "gradient_reduction", "parameter_synchronization"]
# Whose measurements are the slowest differs from one of the three to the next.
_TICKS = [[1.0, 0.4, 2.0, 1.5, 3.0, 0.25], [2.0, 0.9, 1.0, 0.7, 5.0, 0.65]]


class _Measured:
    """What measure_overheads gets, drawn anew for every seed."""

    def __init__(self) -> None:
        self.inputs = _eighths(4, 2)
        self.parts = [self.inputs[:2], self.inputs[2:]]
        self.model = {"weight": _eighths(2, 2), "bias": _eighths(2), "scale": _eighths(3)}
        # What each rank's clock moves by at each reading: every second one is a measurement.
        ticks = torch.tensor(_TICKS, dtype=torch.float64)
        self.ticks = (ticks * (1 + torch.rand_like(ticks) / 4)).tolist()


def _overheads(student: Student) -> tuple[_Measured, Any]:
    def ask() -> tuple[_Measured, Any]:
        given = _Measured()
        arguments = (given.model, ["scale"], given.inputs, given.ticks)
        return given, student.run("overheads", *arguments)

    return student.once("overheads", ask)


def _diary(seen: Any, kind: str, rank: int, world_size: int = 2) -> list[dict[str, Any]]:
    """What a rank wrote down, as far as it can be read."""
    return [
        note
        for note in _listed(seen, "diary")
        if isinstance(note, dict)
        and note.keys() >= {"kind", "rank", "world_size"}
        and [*map(type, (note["kind"], note["rank"], note["world_size"]))] == [str, int, int]
        and (note["kind"], note["rank"], note["world_size"]) == (kind, rank, world_size)
        and isinstance(note.get("at"), float)
    ]


def _readings(seen: Any) -> list[list[dict[str, Any]]]:
    """The six readings of each rank's clock."""
    return [_diary(seen, "reading", rank)[:6] for rank in range(2)]


def _counts(reading: dict[str, Any], what: str) -> int:
    """How often something was done since the reading before."""
    counts = reading.get("counts")
    count = counts.get(what, 0) if isinstance(counts, dict) else 0
    return count if isinstance(count, int) else 0


@pytest.mark.place("measure_overheads")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint(
    "launch(worker, world_size, ...), whose worker does for each of the three the same."
)
def test_overheads_clock(student: Student) -> None:
    """Every rank reads the clock before and after the calls of each of the three"""
    _, seen = _overheads(student)
    parent = len(_diary(seen, "reading", -1, 0))
    assert parent == 0, "The clock was read in the parent: it is read in the ranks, under launch."
    for rank in range(2):
        number = len(_diary(seen, "reading", rank))
        assert number == 6, (
            f"With world_size=2, rank {rank} read the clock {number} times: it is read six times, "
            "before and after the 10 calls of each of the three."
        )


@pytest.mark.points(3)
@pytest.mark.requires("test_overheads_clock")
@pytest.mark.place("measure_overheads")
@pytest.mark.hint("For each of the three: the slowest rank's seconds, divided by 10 calls.")
def test_overheads(student: Student) -> None:
    """Each overhead is the slowest rank's seconds for one call"""
    given, seen = _overheads(student)
    spent = [[ticks[1], ticks[3], ticks[5]] for ticks in given.ticks]

    def named(values: list[float]) -> dict[str, float]:
        return dict(zip(_NAMES, values, strict=True))

    def over_ranks(pick: Callable[[list[float]], float]) -> dict[str, float]:
        return named([pick(list(column)) / 10 for column in zip(*spent, strict=True)])

    assert_close(
        entry(seen, "result"),
        over_ranks(max),
        what="the overheads",
    )
    assert_equal(
        entry(seen, "keys"),
        _NAMES,
        what="the list of keys",
    )


@pytest.mark.requires("test_overheads_clock")
@pytest.mark.place("measure_overheads")
@pytest.mark.hint(
    "Ask for nothing of a second rank: launch returns a list of as many as there are."
)
def test_overheads_of_one(student: Student) -> None:
    """One rank is measured like several"""
    given = _Measured()
    ticks = given.ticks[0]
    seen = student.run("overheads", given.model, ["scale"], given.inputs, [ticks])
    expected = dict(zip(_NAMES, [ticks[1] / 10, ticks[3] / 10, ticks[5] / 10], strict=True))
    assert_close(entry(seen, "result"), expected, what="the overheads with world size 1")
    measured = [entry(student.run("real_overheads"), name) for name in _NAMES]
    assert all(_is_finite(seconds) and seconds >= 0 for seconds in measured), (
        f"By the default clock the overheads are {str(measured)[:200]}, expected are seconds."
    )


@pytest.mark.points(3)
@pytest.mark.requires("test_overheads_clock")
@pytest.mark.place("measure_overheads")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("For each of the three: call, barrier, clock, ten calls, clock.")
def test_overheads_calls(student: Student) -> None:
    """Each overhead is one untimed call and ten timed ones, of that alone"""
    for rank, readings in enumerate(_readings(_overheads(student)[1])):
        on = f"On rank {rank},"
        calls = (("shard", "shard"), ("average", "average_gradients"))
        for place, (what, call) in enumerate(calls):
            assert _counts(readings[2 * place], what) > 0, (
                f"{on} {call} was not called once, untimed, before the clock was read."
            )
            count = _counts(readings[2 * place + 1], what)
            assert count == 10, (
                f"{on} {call} was called {count} times between the two readings of the clock for "
                f'"{_NAMES[place]}", expected are 10.'
            )
        count = _counts(readings[2], "average")
        assert count == 1, (
            f"{on} average_gradients was called {count} times before it was timed, expected is one "
            "untimed call."
        )
        for place, what, told in _NEVER_TIMED:
            assert _counts(readings[place], what) == 0, f"{on} {told}"
        # The elements that were broadcast; none by a broadcast that goes by another name.
        once, often = _counts(readings[4], "broadcast"), _counts(readings[5], "broadcast")
        assert once > 0 or often == 0, (
            f"{on} the parameters were not broadcast once, untimed, before the clock was read."
        )
        assert often == 10 * once, (
            f"{on} the parameters were broadcast {often / max(once, 1):g} times between the two "
            f'readings of the clock for "{_NAMES[2]}", expected are 10.'
        )


_OTHER_SHARD = (
    "the shard of another rank was timed: it is shard(inputs, rank, world_size), for this rank."
)
_FORWARD = 'the model ran while "{}" was timed: forward and backward are not timed.'
_BARRIER = (
    'a barrier was called while "{}" was timed: only the 10 calls stand between the two readings.'
)
# At which reading, what must not have been done since the one before, and what to say.
_NEVER_TIMED = [
    (1, "shard of another rank", _OTHER_SHARD),
    (3, "shard", 'shard was called while "gradient_reduction" was timed.'),
    (5, "average", 'average_gradients was called while "parameter_synchronization" was timed.'),
    *((place, "forward", _FORWARD.format(_NAMES[place // 2])) for place in (1, 3, 5)),
    *((place, "barrier", _BARRIER.format(_NAMES[place // 2])) for place in (1, 3, 5)),
]


@pytest.mark.points(2)
@pytest.mark.requires("test_overheads_clock")
@pytest.mark.place("measure_overheads")
@pytest.mark.hint("model(part).sum().backward(), with the rank's part of inputs.")
def test_overheads_gradients(student: Student) -> None:
    """The gradients that are reduced are those of the rank's part"""
    given, seen = _overheads(student)
    parts = given.parts
    fed, held = [], []
    for rank in range(2):
        passes = [note.get("x") for note in _diary(seen, "forward", rank)]
        # More than one pass is no mistake, as long as they are alike.
        alike = all(laws.same(given_to, passes[0]) for given_to in passes)
        fed.append(passes[:1] if alike else passes)
        first = _diary(seen, "gradients", rank)[:1]
        gradients = first[0].get("gradients") if first else None
        assert isinstance(gradients, dict), f"On rank {rank}, average_gradients got no model."
        held.append({name: gradients.get(name) for name in ("weight", "bias")})
    assert_equal(
        entry(seen, "gradients"),
        dict.fromkeys(given.model),
        what="the dict of the caller's gradients after measure_overheads",
    )
    assert_equal(
        fed,
        [[part.tolist()] for part in parts],
        what="the list of what the model ran on, by rank,",
    )

    def summed(scale: Callable[[Tensor], float]) -> list[dict[str, Any]]:
        return [
            {
                "weight": (scale(part) * part.sum(0)[:, None].expand(2, 2)).tolist(),
                "bias": [scale(part) * len(part)] * 2,
            }
            for part in parts
        ]

    assert_close(
        held,
        summed(lambda part: 1.0),
        what="the list of the ranks' gradients before they are reduced",
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_overheads_clock")
@pytest.mark.place("measure_overheads")
@pytest.mark.hint("torch.distributed.broadcast(parameter.data, src=0), for model.parameters().")
def test_overheads_broadcast(student: Student) -> None:
    """Every parameter is broadcast from rank 0, frozen ones too"""
    given, seen = _overheads(student)
    values = [readings[5].get("values") for readings in _readings(seen)]

    def drifted(by: float) -> dict[str, Any]:
        return {name: (value + by).tolist() for name, value in given.model.items()}

    # Rank 1 had drifted away from rank 0 by 1 before the untimed call, and again after it.
    start = drifted(0)
    assert_close(
        values,
        [start, start],
        what="the list of the ranks' parameters, which differed before the broadcasts,",
    )


@pytest.mark.points(2)
@pytest.mark.requires("test_overheads_clock")
@pytest.mark.place("measure_overheads")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("torch.distributed.barrier(), after the untimed call and before the clock.")
def test_overheads_barrier(student: Student) -> None:
    """The ranks wait for each other before the clock is read"""
    ahead, behind = _readings(_overheads(student)[1])
    for place, what in enumerate(("shard", "average", "broadcast")):
        late = behind[2 * place].get("late")
        ended = late.get(what) if isinstance(late, dict) else None
        if not isinstance(ended, float):
            continue  # a broadcast by another name, which could not be delayed
        assert ahead[2 * place]["at"] >= ended, (
            f'For "{_NAMES[place]}", rank 0 read the clock while rank 1 was still in its untimed '
            "call: a barrier belongs between that call and the clock."
        )


def _check_refused(
    student: Student, function: str, options: dict[str, Any], name: str | None
) -> None:
    """A ValueError before anything is launched; `function(options)` is called in the sandbox."""
    shown = ", ".join(f"{key}={value}" for key, value in options.items() if key != "rows")
    call = f"{function}({shown}) with {options['rows']} rows of inputs"
    seen = student.run("refused", function, options)
    assert laws.same(entry(seen, "launched"), 0), (
        f"{call} launched ranks: it should raise a ValueError before anything is launched."
    )
    _check_refusal(entry(seen, "error"), name, call)


def _check_launched(student: Student, function: str, options: dict[str, Any]) -> None:
    """Good arguments are not refused: they are launched, which ends there."""
    shown = ", ".join(f"{key}={value}" for key, value in options.items() if key != "rows")
    seen = student.run("refused", function, options)
    error = entry(seen, "error")
    told = f", it raised {error.get('type')}" if isinstance(error, dict) else ""
    launched = entry(seen, "launched")
    assert isinstance(launched, int) and launched > 0, (
        f"With valid arguments ({shown}), {function} launched nothing{told}."
    )
    sizes = options.get("world_sizes", [options.get("world_size")])
    # Where a rank's launch was reached under another name, it is not seen.
    reached = _listed(seen, "sizes")
    assert not reached or (type(reached[0]) is int and reached[0] == sizes[0]), (
        f"{function} ({shown}) launched {str(reached[0])[:20]} ranks: under launch work as many "
        "as were asked for."
    )


@pytest.mark.place("measure_overheads")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("shard(inputs, 0, world_size) refuses what is to be refused: call it first.")
def test_overheads_refuses(student: Student) -> None:
    """Inputs that cannot be sharded are a ValueError before anything is launched"""
    for world_size in (2, 1, 3):  # one rank is measured under launch like two
        _check_launched(student, "measure_overheads", {"rows": 4, "world_size": world_size})
    for rows, world_size in ((4, 0), (4, -1), (2, 3), (0, 1)):
        _check_refused(student, "measure_overheads", {"rows": rows, "world_size": world_size}, None)


# ---- benchmark -----------------------------------------------------------------------------------

_TAKEN = 3
_RATE = 0.01


class _Benchmarked(_Problem):
    """What benchmark gets, and the throughputs that the ranks then return."""

    def __init__(self) -> None:
        super().__init__()
        # Neither half nor a third of the first is the second: mistakes give different numbers.
        alone, first, second = (torch.tensor([70, 90, 35]) + torch.randint(0, 10, (3,))).tolist()
        self.rates = {1: [float(alone)], 2: [float(first), float(second)]}


def _benchmark(student: Student) -> tuple[_Benchmarked, Any]:
    def ask() -> tuple[_Benchmarked, Any]:
        given = _Benchmarked()
        options = {"world_sizes": [2, 1], "steps": 4, "warmup": 3}
        return given, _benchmark_with(student, given, options, _TAKEN)

    return student.once("benchmark", ask)


def _benchmark_with(
    student: Student, given: _Benchmarked, options: dict[str, Any], taken: int
) -> Any:
    arguments = (given.weight, given.bias, given.x, given.y, given.rates, taken, options)
    observed = laws.observe(student, student.probe("benchmark"), *arguments)
    changed = [change.words for change in observed.changes() if change.part == "random"]
    return {**entry(observed.checked().value, kind=dict), "random": changed}


@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("launch(worker, world_size, ...), whose worker ends by calling throughput.")
def test_benchmark_launches(student: Student) -> None:
    """Every rank measures its own throughput"""
    _, seen = _benchmark(student)
    for rank in range(2):
        measured = _diary(seen, "throughput", rank)
        parent = _diary(seen, "throughput", -1, 0)
        assert measured or not parent, (
            f"With world size 2, rank {rank} did not call throughput: it was called in the parent, "
            "outside of launch."
        )
        assert measured, (
            f"With world size 2, rank {rank} did not call this module's throughput: each rank "
            "measures its own by it."
        )


@pytest.mark.requires("test_benchmark_launches")
@pytest.mark.place("benchmark")
@pytest.mark.hint("No seed outside of the ranks: build_model may set one of its own.")
def test_benchmark_random_state(student: Student) -> None:
    """The caller's random state is left as it was"""
    changed = _benchmark(student)[1]["random"]
    assert not changed, (
        f"benchmark changed {', '.join(changed)}: it neither seeds nor draws in the caller's process."
    )


@pytest.mark.requires("test_benchmark_launches")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("throughput(step, steps, warmup): both are the caller's to choose.")
def test_benchmark_steps(student: Student) -> None:
    """The steps and the warm-up asked for are those of throughput"""
    measured = _diary(_benchmark(student)[1], "throughput", 0)
    assert_equal(
        [[note.get("steps"), note.get("warmup")] for note in measured],
        [[4, 3]],
        what="the list of [steps, warmup] that rank 0 called throughput with",
    )


@pytest.mark.requires("test_benchmark_launches")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("def benchmark(..., world_sizes=(1, 2), steps=20, warmup=5), as in the stub.")
def test_benchmark_defaults(student: Student) -> None:
    """By default it tries world sizes 1 and 2, with 20 steps after 5"""
    seen = _benchmark_with(student, _Benchmarked(), {}, 1)
    assert_equal(
        entry(seen, "keys"), [1, 2], what="the list of keys of benchmark without world_sizes"
    )
    asked = _diary(seen, "throughput", 0)
    assert asked, "Rank 0 did not call throughput."
    for name, default in (("steps", 20), ("warmup", 5)):
        value = asked[0].get(name)
        # Not handed on, it is what throughput itself has.
        assert value is None or (type(value) is int and value == default), (
            f"benchmark without {name} calls throughput with {name}={str(value)[:20]}, expected "
            f"is {default}."
        )


@pytest.mark.points(14)
@pytest.mark.requires("test_benchmark_launches")
@pytest.mark.place("benchmark")
@pytest.mark.hint("sum(launch(worker, world_size, ...)), for each world size.")
def test_benchmark(student: Student) -> None:
    """The throughput of a world size is the sum over its ranks, in the order given"""
    given, seen = _benchmark(student)
    # What throughput returned: in the one rank alone; on each of two ranks.
    (alone,), (first, second) = given.rates[1], given.rates[2]

    def told(two: Any) -> dict[int, Any]:
        return {2: two, 1: alone}

    assert_close(
        entry(seen, "result"),
        told(first + second),
        what="the throughputs",
    )
    assert_equal(
        entry(seen, "keys"),
        [2, 1],
        what="the list of keys",
    )


@pytest.mark.requires("test_benchmark_launches")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("wrap(build_model()) stands in the worker that launch runs.")
def test_benchmark_models(student: Student) -> None:
    """Every rank builds its own model"""
    _, seen = _benchmark(student)
    for rank in range(2):
        built, parent = len(_diary(seen, "build", rank)), _diary(seen, "build", -1, 0)
        assert built or not parent, (
            f"With world size 2, rank {rank} did not build its model: it was built in the parent, "
            "before launch."
        )
        assert built == 1, (
            f"With world size 2, rank {rank} called build_model {built} times, expected is once."
        )


@pytest.mark.requires("test_benchmark_launches", "test_wrap_in_group")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("Nothing is special about world size 1: launch it like the others.")
def test_benchmark_of_one(student: Student) -> None:
    """World size 1 is launched and wrapped like every other"""
    _, seen = _benchmark(student)
    assert _diary(seen, "throughput", 0, 1), (
        "World size 1 is launched like the others: its throughput was not measured in a rank."
    )
    for note in _diary(seen, "wrap", 0, 1):
        assert_equal(
            note.get("wrapper"),
            "DistributedDataParallel",
            what="the kind of wrapper in a process group of one rank",
        )


@pytest.mark.points(3)
@pytest.mark.requires("test_benchmark_launches", "test_train_step", "test_wrap_in_group")
@pytest.mark.place("benchmark")
@pytest.mark.hint("wrap(build_model()), SGD(lr=0.01), train_step on this rank's shards.")
def test_benchmark_trains(student: Student) -> None:
    """The benchmark's steps train a wrapped model on the rank's shards by SGD at 0.01"""
    given, seen = _benchmark(student)
    x, y = given.x, given.y
    shards = [(x[:3], y[:3]), (x[3:], y[3:])]
    forward = [_diary(seen, "forward", rank) for rank in range(2)]
    losses = [_diary(seen, "loss", rank) for rank in range(2)]
    for notes, key, which in ((forward, "x", 0), (losses, "targets", 1)):
        name = ("inputs", "targets")[which]
        assert_equal(
            [[note.get(key) for note in own] for own in notes],
            [[shard[which].tolist()] * _TAKEN for shard in shards],
            what=f"the list of the {name} of each rank's steps",
        )
    _check_training(forward, given, shards)


def _check_training(
    forward: list[list[dict[str, Any]]],
    given: _Problem,
    shards: list[tuple[Tensor, Tensor]],
) -> None:
    """The weights that each rank's steps began with are those of SGD on the whole batch."""
    ranks = range(len(forward))

    def descent(rate: float = _RATE) -> list[dict[str, Any]]:
        values = {"weight": given.weight, "bias": given.bias}
        x, y = given.x, given.y
        began = []
        for _ in range(_TAKEN):
            began.append({name: value.tolist() for name, value in values.items()})
            values = _moved(values, _gradients(values, x, y), rate)
        return began

    assert_close(
        [[note.get("values") for note in notes] for notes in forward],
        [descent() for _ in ranks],
        what="the list of the weights with which each rank's steps began",
        rtol=1e-5,
        atol=1e-5,
    )


@pytest.mark.requires("test_benchmark_launches", "test_train_step_rows")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("The step that throughput gets returns what train_step returns.")
def test_benchmark_rows(student: Student) -> None:
    """Each rank counts the rows of its own shard"""
    _, seen = _benchmark(student)
    steps = [_diary(seen, "step", rank) for rank in range(2)]
    assert_equal(
        [[note.get("rows") for note in notes] for notes in steps],
        [[3] * _TAKEN] * 2,
        what="the list of what each rank's steps returned",
    )


@pytest.mark.requires("test_benchmark_launches")
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says what was called, and when")
@pytest.mark.hint("torch.distributed.barrier(), right before throughput.")
def test_benchmark_barrier(student: Student) -> None:
    """The ranks wait for each other before they measure"""
    _, seen = _benchmark(student)
    ahead, behind = _diary(seen, "throughput", 0), _diary(seen, "wrap", 1)
    if ahead and behind:
        assert ahead[0]["at"] >= behind[0]["at"], (
            "Rank 0 began to measure while rank 1 was still getting ready: a barrier belongs "
            "before throughput."
        )


@pytest.mark.points(2)
@pytest.mark.place("benchmark")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check steps, warmup and every world size before the first launch.")
def test_benchmark_refuses(student: Student) -> None:
    """Bad arguments of the benchmark are a ValueError before anything is launched"""
    good = {"rows": 4, "world_sizes": [1, 2], "steps": 2, "warmup": 1}
    _check_launched(student, "benchmark", good)
    for bad, name in (
        ({"steps": 0}, "steps"),
        ({"warmup": -1}, "warmup"),
        ({"world_sizes": [1, 0]}, None),
        ({"world_sizes": [1, -2]}, None),
        ({"world_sizes": [1, 5]}, None),
        ({"rows": 1}, None),
    ):
        _check_refused(student, "benchmark", {**good, **bad}, name)


# ---- report --------------------------------------------------------------------------------------

_SCALING = "| world size | samples/s | speed-up | efficiency (%) |"
_COSTS = "| overhead | ms | share (%) |"


def _lines(
    throughputs: dict[int, float],
    overheads: dict[str, float],
    *,
    by_size: Callable[[int], Any] | None = int,
    base: float | None = None,
    total: float | None = None,
) -> list[str]:
    """The lines of the report; the options are mistakes."""
    lines = [_SCALING, "| --- | --- | --- | --- |"]
    one = throughputs[1]
    base = one if base is None else base
    for n in throughputs if by_size is None else sorted(throughputs, key=by_size):
        rate = throughputs[n]
        efficiency = rate / (n * one) * 100
        cells = (f"{n:d}", f"{rate:{'.1f'}}", f"{rate / base:{'.2f'}}", f"{efficiency:{'.1f'}}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", _COSTS, "| --- | --- | --- |"]
    total = sum(overheads.values()) if total is None else total
    names = list(overheads)
    for name in names:
        cost = overheads[name]
        share = (cost / total if total else 0.0) * 100
        lines.append(f"| {name} | {cost * 1000:{'.3f'}} | {share:.1f} |")
    return lines


def _check_report(
    student: Student, throughputs: dict[int, float], overheads: dict[str, float]
) -> None:
    text = student.function("report")(throughputs, overheads)
    assert isinstance(text, str), f"report returned a {type(text).__name__}, not a str."

    right = _lines(throughputs, overheads)
    assert_equal(
        text.strip("\n"),
        "\n".join(right),
        what="the report",
    )


def _drawn(throughputs: dict[int, float], overheads: dict[str, float]) -> tuple[Any, Any]:
    """About these numbers, none of them near the middle of two roundings, which may fall either way."""
    for _ in range(1000):
        near = [1 + torch.rand(()).item() / 10 for _ in range(len(throughputs) + len(overheads))]
        drawn = {n: rate * by for (n, rate), by in zip(throughputs.items(), near, strict=False)}
        rest = near[len(throughputs) :]
        costs = {name: s * by for (name, s), by in zip(overheads.items(), rest, strict=True)}
        one, total = drawn[1], sum(costs.values())
        tenths = [*drawn.values(), *(100 * rate / (n * one) for n, rate in drawn.items())]
        tenths += [100 * cost / total for cost in costs.values()] if total else []
        exact = [(10, each) for each in tenths] + [(100, rate / one) for rate in drawn.values()]
        exact += [(1000, 1000 * cost) for cost in costs.values()]
        if all(abs(each * scale % 1 - 0.5) > 1e-3 for scale, each in exact):
            return drawn, costs
    raise ValueError("a thousand draws, and all of them lie near the middle of two roundings")


_COST = {"batch_splitting": 0.0005, "gradient_reduction": 0.004, "broadcast": 0.0031}


@pytest.mark.points(3)
@pytest.mark.place("report")
@pytest.mark.hint("Compare with the example in the docstring, line by line.")
def test_report(student: Student) -> None:
    """The report is two tables of Markdown, by world size and by overhead"""
    _check_report(student, *_drawn({4: 2222.4, 1: 1000.0, 16: 9000.9, 2: 1800.6}, _COST))
    _check_report(student, *_drawn({2: 45.5, 1: 60.25}, {"zeta": 0.25, "alpha": 0.75}))
    _check_report(student, *_drawn({1: 123.44}, {"only": 0.0123}))


@pytest.mark.requires("test_report")
@pytest.mark.place("report")
@pytest.mark.hint("Check whether the sum is 0 before you divide by it.")
def test_report_of_nothing(student: Student) -> None:
    """Where all overheads are 0, their shares are 0.0"""
    _check_report(student, *_drawn({1: 10.0, 2: 15.0}, {"batch_splitting": 0.0, "other": 0.0}))


@pytest.mark.place("report")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Let scaling_efficiency do the checking.")
def test_report_refuses(student: Student) -> None:
    """What scaling_efficiency refuses, report refuses"""
    report = student.function("report")
    text = report({1: 10.0, 2: 15.0}, {"only": 0.5})
    assert isinstance(text, str) and text, "For valid throughputs, report returned no text."
    bad = [({1: 10.0, 2: rate}, {"only": 0.5}) for rate in (0.0, -1.0, math.inf, math.nan)]
    bad.append(({2: 10.0, 4: 20.0}, {"only": 0.5}))
    laws.check_errors(student, "report", {"throughputs": bad})
