"""Tests of top_operators, profile_operators, profile_steps and train_step."""

from __future__ import annotations

from typing import Any

import torch

from grader.judge.checks import Cases, Draw, entry, exactly, laws, promise, unordered
from grader.judge.student import Student

SORT_BY = ("count", "self_cpu_time_total", "cpu_time_total")
DEFAULT_N = 10
ALL = 200  # more entries than any list here has
OPERATORS = ["sin", "cos", "tan", "exp", "neg", "ceil", "sign", "atan", "sinh", "sqrt", "floor"]
OPERATORS += ["trunc", "round", "frac"]
# Sorting this many elements takes longer than all calls of the other operators.
SLOW_SIZE = 20_000


# --- top_operators --------------------------------------------------------------------------------


@promise(
    "top_operators",
    points=6,
    hint="sorted(entries, key=lambda e: getattr(e, sort_by), reverse=True)[:n]",
)
def test_top(code: Student, draw: Draw) -> Cases:
    """The n largest by sort_by come in order, each with its name, calls, self time and total time."""
    rows = new_rows(draw, 15)
    for sort_by in SORT_BY:
        top = code.run("ranked", rows, 3, sort_by)
        yield f"the list for n = 3 and sort_by = {sort_by!r}", exactly(top)
    yield "the list of all by count", exactly(code.run("ranked", rows, ALL, "count"))
    yield "the list without n and sort_by", exactly(code.run("ranked", rows))


@promise(
    "top_operators",
    points=2,
    hint='Leave out key.startswith("ProfilerStep") first, and no more.',
    after="test_top",
)
def test_top_steps(code: Student, draw: Draw) -> Cases:
    """ProfilerStep entries are left out before the n are taken, and no others are."""
    rows: list[Any] = [
        ["ProfilerStep*", 900, 9e6, 9e7],
        ["ProfilerStep#2", 901, 9.1e6, 9.1e7],
        ["[memory]", 0, 0.0, 0.0],
        ["forward", 650, 4e6, 8e6],
        ["forward", 640, 3e6, 9e6],
        ["Optimizer.step", 60, 2.0, 7e6],
        *new_rows(draw, 6),
    ]
    rows = [rows[i] for i in draw.permutation(len(rows))]
    for n in (2, 5, ALL):
        top = code.run("ranked", rows, n, "self_cpu_time_total")
        yield f"the list for n = {n} with the profiler's steps", exactly(top)


@promise(
    "top_operators",
    hint="Sort a copy: sorted(averages, ...). Entries with one value are all there.",
    after="test_top",
)
def test_top_equals(code: Student, draw: Draw) -> Cases:
    """Entries with the same value may come in any order, and the list of averages stays as it is."""
    rows = [[f"aten::op{i}", int(i) % 3, float(i % 2), float(i // 4)] for i in draw.permutation(12)]
    yield "the list of all", unordered(code.run("ranked", rows, ALL, "count"))
    yield "the list of averages after the call", code.run("averages_left", rows)


@promise(
    "top_operators",
    points=2,
    hint='if sort_by not in ("count", "self_cpu_time_total", "cpu_time_total"): raise ...',
    word="the sandbox says that it raised",
)
def test_top_errors(student: Student) -> None:
    """Any other sort_by, or an n below 1, is a ValueError that names it."""
    rows = [["aten::add", 2, 3.0, 4.0]]
    bad: dict[str, Any] = {
        "sort_by": [(rows, 2, word) for word in ("self_cpu_time", "calls", "key")],
        "n": [(rows, 0), (rows, -1)],
    }
    laws.check_errors(student, student.probe("ranked"), bad, fine=(rows, 1), call="top_operators")


# --- profile_operators ----------------------------------------------------------------------------


@promise(
    "profile_operators",
    points=6,
    hint="Call f() in a with profile() as prof: block, then prof.key_averages().",
)
def test_operators(code: Student, draw: Draw) -> Cases:
    """Each operator that f runs has one entry, with all of its calls, whatever the shapes."""
    # More operators than n is by default.
    count = draw.size(DEFAULT_N + 1, len(OPERATORS) + 1)
    names = [OPERATORS[i] for i in draw.permutation(len(OPERATORS))[:count]]
    report = code.run("profiled", names, [3, 5, 7, 5], ALL)
    yield "the list of names and calls", unordered(entry(report, "own"))


@promise(
    "profile_operators",
    points=3,
    hint="f() once, nothing caught.",
    after="test_operators",
    word="the sandbox says how f ran",
)
def test_operators_run(code: Student, draw: Draw) -> Cases:
    """f runs once, as it would without the profiler, and its error comes out."""
    for gradients_on in (True, False):
        yield "the list of calls of f", code.run("called", draw.seed(), gradients_on)
    yield "the statement that an exception of f comes out", code.run("error_comes_out")


@promise(
    "profile_operators",
    points=2,
    hint="return top_operators(prof.key_averages(), n, sort_by)",
    after="test_operators",
)
def test_operators_top(code: Student, draw: Draw) -> Cases:
    """n and sort_by mean the same as for top_operators."""
    # Each operator is called a different number of times; sort, the slowest, is called once.
    numbers = 10 + draw.permutation(20)[: len(OPERATORS)]
    names = [name for name, n in zip(OPERATORS, numbers, strict=True) for _ in range(n)]
    work = ["sort", *names], [SLOW_SIZE]
    for n in (1, 6):
        report = code.run("profiled", *work, n, "count")
        yield f"the number of entries for n = {n}", entry(report, "number")
        # If memory is recorded, too, it has an entry of its own.
        own = entry(report, "own", kind=list)[: n - 1]
        yield f"the names and calls for n = {n} by count", own
    report = code.run("profiled", *work)
    yield "the number of entries without n", entry(report, "number")
    yield (
        "the statement that entries are in order of self time without sort_by",
        entry(report, "sorted"),
    )


# --- profile_steps --------------------------------------------------------------------------------


@promise(
    "profile_steps",
    points=8,
    hint="prof.step() after each step; the averages in on_trace_ready, once a cycle.",
)
def test_steps(code: Student, draw: Draw) -> Cases:
    """Each complete cycle gives the calls of its active steps, and of no others."""
    yield from stepped(code, draw, 8)
    yield from stepped(code, draw, 12, wait=2, warmup=1, active=1)
    yield from stepped(code, draw, 14, wait=1, warmup=1, active=12)


@promise(
    "profile_steps",
    points=7,
    hint="schedule(..., repeat=repeat); steps // (wait + warmup + active) are whole.",
    after="test_steps",
)
def test_steps_cut(code: Student, draw: Draw) -> Cases:
    """An incomplete last cycle is left out; there are at most `repeat` cycles, and later steps run, too."""
    for steps in (7, 6, 0):
        yield from stepped(code, draw, steps)
    yield from stepped(code, draw, 12, repeat=1)
    yield from stepped(code, draw, 8, repeat=5)
    yield from stepped(code, draw, 5, wait=0, warmup=0, active=2)


@promise(
    "profile_steps",
    points=3,
    hint="Check the arguments before the profile begins; schedule() only asserts.",
    word="the sandbox says that it raised",
)
def test_steps_errors(student: Student) -> None:
    """A bad wait, warmup, active or repeat is a ValueError that names it, before any step."""
    bad = {name: [{"steps": 4, name: -1}] for name in ("wait", "warmup", "repeat", "active")}
    bad["active"].append({"steps": 4, "active": 0})
    probe = student.probe("refused_before_a_step")
    laws.check_errors(student, probe, bad, fine={"steps": 4}, call="profile_steps")


# --- train_step -----------------------------------------------------------------------------------


@promise(
    "train_step",
    points=5,
    hint="zero_grad, the loss, backward, step; return loss.detach().",
)
def test_training(code: Student, draw: Draw) -> Cases:
    """Each step trains from cleared gradients, and returns the loss without its graph."""
    report = code.run("trained", *new_training(draw), training=True)
    yield "the losses of three steps", entry(report, "losses")
    yield "the weights after each step", entry(report, "weights")
    yield "the losses' requires_grad", entry(report, "graphs")
    yield "the modes in which the model runs, with its hooks,", entry(report, "modes")


@promise(
    "train_step",
    hint="Leave train() and eval() to the caller.",
    after="test_training",
    word="the sandbox says in which mode the model runs",
)
def test_training_mode(code: Student, draw: Draw) -> Cases:
    """The model runs in the mode in which it is."""
    report = code.run("trained", *new_training(draw), training=False)
    yield "the modes in which the model runs", entry(report, "modes")


@promise(
    "train_step",
    points=9,
    hint='with record_function("forward"): loss = loss_fn(model(inputs), targets)',
    word="the sandbox says when a label was set",
)
def test_labels(code: Student, draw: Draw) -> Cases:
    """Each part runs inside its label, and each label comes once, one after the other."""
    yield "the list of events in each of three steps", code.run("labeled", *new_training(draw))


# --- helpers of the tests -------------------------------------------------------------------------


def new_rows(draw: Draw, count: int) -> list[Any]:
    """Draw operators whose orders by calls, self time and total time are all different."""
    calls, self_times, more_times = (1 + draw.permutation(count) for _ in range(3))
    times = [
        (10.5 * int(own), 1e3 * int(more)) for own, more in zip(self_times, more_times, strict=True)
    ]
    return [[f"aten::op{i}", int(calls[i]), own, own + more] for i, (own, more) in enumerate(times)]


def stepped(code: Student, draw: Draw, steps: int, **schedule: int) -> Cases:
    """Yield the steps that run, and the counts of each cycle for the probe's own operators."""
    schedule = {"wait": 1, "warmup": 1, "active": 2, "repeat": 0, **schedule}
    report = code.run("stepped", draw.size(1, 31), steps, schedule)
    yield f"the steps that run of {steps}, {schedule}", entry(report, "ran")
    yield f"the list of counts for {steps} steps, {schedule}", entry(report, "cycles")


def new_training(draw: Draw) -> tuple[Any, list[Any]]:
    """Draw the first weight, and batches of inputs and targets."""
    shapes = [(rows, columns) for rows in (4, 2, 5) for columns in (3, 2)]
    start, *tensors = (draw.normal(*shape, dtype=torch.float64) for shape in [(2, 3), *shapes])
    return start, list(zip(tensors[::2], tensors[1::2], strict=True))
