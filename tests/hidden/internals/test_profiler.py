"""Tests of top_operators, profile_operators, profile_steps and train_step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws
from grader.judge.student import Student
from grader.sandbox.wire.values import Record

SORT_BY = ("count", "self_cpu_time_total", "cpu_time_total")
DEFAULT_N = 10
ALL = 200  # more entries than any list here has
OPERATORS = ["sin", "cos", "tan", "exp", "neg", "ceil", "sign", "atan", "sinh", "sqrt", "floor"]
OPERATORS += ["trunc", "round", "frac"]
# So many elements that sorting them takes longer than all calls of the other operators.
SLOW_SIZE = 20_000
LEARNING_RATE, MOMENTUM = 0.1, 0.5  # of the probe's optimizer


class Average(NamedTuple):
    """An entry of the averages, or the one that the student's OperatorStats was made of."""

    key: str
    count: Any
    self_cpu_time_total: Any
    cpu_time_total: Any


# --- top_operators --------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("top_operators")
@pytest.mark.hint("sorted(entries, key=lambda e: getattr(e, sort_by), reverse=True)[:n]")
def test_top(student: Student) -> None:
    """The n largest by sort_by come in order, each with its name, calls, self time and total time."""
    averages = new_averages(15)
    for sort_by in SORT_BY:
        check_top(student, averages, 3, sort_by)
    check_top(student, averages, ALL, "count")
    by_default = averages_of(student.run("ranked", averages))
    right = top(averages, DEFAULT_N, "self_cpu_time_total")
    assert_equal(by_default, right, what="the list without n and sort_by")


@pytest.mark.points(2)
@pytest.mark.requires("test_top")
@pytest.mark.place("top_operators")
@pytest.mark.hint('Leave out key.startswith("ProfilerStep") first, and no more.')
def test_top_steps(student: Student) -> None:
    """ProfilerStep is left out before the cut, and nothing else is."""
    averages = [
        Average("ProfilerStep*", 900, 9e6, 9e7),
        Average("ProfilerStep#2", 901, 9.1e6, 9.1e7),
        Average("[memory]", 0, 0.0, 0.0),
        Average("forward", 650, 4e6, 8e6),
        Average("forward", 640, 3e6, 9e6),
        Average("Optimizer.step", 60, 2.0, 7e6),
        *new_averages(6),
    ]
    random.shuffle(averages)
    for n in (2, 5, ALL):
        check_top(student, averages, n, "self_cpu_time_total")


@pytest.mark.requires("test_top")
@pytest.mark.place("top_operators")
@pytest.mark.hint("Sort a copy: sorted(averages, ...). Entries with one value are all there.")
def test_top_equals(student: Student) -> None:
    """Entries with the same value may come in any order, and the list of averages stays as it is."""
    averages = [Average(f"aten::op{i}", i % 3, float(i % 2), float(i // 4)) for i in range(12)]
    random.shuffle(averages)
    every = averages_of(student.run("ranked", averages, ALL, "count"))
    assert_equal(sorted(every), sorted(averages), what="the list of all, sorted by name")
    left = student.run("averages_left", averages)
    told = "The list of averages is changed: sort a copy, sorted(averages)."
    assert laws.same(left, [list(average) for average in averages]), told


@pytest.mark.points(2)
@pytest.mark.place("top_operators")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint('if sort_by not in ("count", "self_cpu_time_total", "cpu_time_total"): raise ...')
def test_top_errors(student: Student) -> None:
    """Any other sort_by, or an n below 1, is a ValueError that names it."""
    averages = [Average("aten::add", 2, 3.0, 4.0)]
    bad: dict[str, Any] = {
        "sort_by": [(averages, 2, word) for word in ("self_cpu_time", "calls", "key")],
        "n": [(averages, 0), (averages, -1)],
    }
    probe = student.probe("ranked")
    laws.check_errors(student, probe, bad, fine=(averages, 1), call="top_operators")


# --- profile_operators ----------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("profile_operators")
@pytest.mark.hint("Call f() in a with profile() as prof: block, then prof.key_averages().")
def test_operators(student: Student) -> None:
    """Each operator that f runs is there once, with all of its calls, whatever the shapes."""
    sizes = [3, 5, 7, 5]
    # More than there are without n.
    names = random.sample(OPERATORS, random.randint(DEFAULT_N + 1, len(OPERATORS)))
    averages = averages_of(student.run("profiled", names, sizes, ALL))
    own = {f"aten::{name}" for name in names}
    calls = sorted((average.key, average.count) for average in averages if average.key in own)
    right = sorted((name, len(sizes)) for name in own)
    assert_equal(calls, right, what="the list of names and calls")


@pytest.mark.points(3)
@pytest.mark.requires("test_operators")
@pytest.mark.place("profile_operators")
@pytest.mark.word("the sandbox says how f ran")
@pytest.mark.hint("f() once, nothing caught.")
def test_operators_run(student: Student) -> None:
    """f runs once, as by itself, and its error comes out."""
    for gradients_on in (True, False):
        seed = random.randrange(2**31)
        drawn = torch.rand(3, generator=torch.Generator().manual_seed(seed))
        calls = student.run("called", seed, gradients_on)
        right = [{"grad mode": gradients_on, "drawn": drawn}]
        assert_equal(calls, right, what="the list of calls of f")
    told = "The exception of f disappears: pass it on."
    assert student.run("error_comes_out") is True, told


@pytest.mark.points(2)
@pytest.mark.requires("test_operators")
@pytest.mark.place("profile_operators")
@pytest.mark.hint("return top_operators(prof.key_averages(), n, sort_by)")
def test_operators_top(student: Student) -> None:
    """n and sort_by are those of top_operators."""
    # Each operator is called another number of times, and sort, the slowest, once.
    numbers = random.sample(range(10, 30), len(OPERATORS))
    counts = Counter(dict(zip(OPERATORS, numbers, strict=True)))
    names = ["sort", *counts.elements()]
    right = [(f"aten::{name}", count) for name, count in counts.most_common()]
    for n in (1, 6):
        averages = averages_of(student.run("profiled", names, [SLOW_SIZE], n, "count"))
        assert_equal(len(averages), n, what=f"the number of entries for n = {n}")
        # Where memory is recorded, too, it has an entry of its own.
        averages = [average for average in averages if average.key != "[memory]"]
        calls = [(average.key, average.count) for average in averages]
        what = f"the list of names and calls for n = {n} by count"
        assert_equal(calls, right[: len(calls)], what=what)
    averages = averages_of(student.run("profiled", names, [SLOW_SIZE]))
    assert_equal(len(averages), DEFAULT_N, what="the number of entries without n")
    told = "Without sort_by the entries are not sorted by self time, the largest first."
    times = [average.self_cpu_time_total for average in averages]
    assert times == sorted(times, reverse=True), told


# --- profile_steps --------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("profile_steps")
@pytest.mark.hint("prof.step() after each step; the averages in on_trace_ready, once a cycle.")
def test_steps(student: Student) -> None:
    """Each complete cycle gives the calls of its active steps, and of no others."""
    check_steps(student, 8)
    check_steps(student, 12, wait=2, warmup=1, active=1)
    check_steps(student, 14, wait=1, warmup=1, active=12)


@pytest.mark.points(7)
@pytest.mark.requires("test_steps")
@pytest.mark.place("profile_steps")
@pytest.mark.hint("schedule(..., repeat=repeat); steps // (wait + warmup + active) are whole.")
def test_steps_cut(student: Student) -> None:
    """A cycle that the end cuts short is left out; there are at most `repeat`, and later steps run, too."""
    for steps in (7, 6, 0):
        check_steps(student, steps)
    check_steps(student, 12, repeat=1)
    check_steps(student, 8, repeat=5)
    check_steps(student, 5, wait=0, warmup=0, active=2)


@pytest.mark.points(3)
@pytest.mark.place("profile_steps")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check the arguments before the profile begins; schedule() only asserts.")
def test_steps_errors(student: Student) -> None:
    """A bad wait, warmup, active or repeat is a ValueError that names it, before any step."""
    bad = {
        "active": [{"steps": 4, "active": 0}, {"steps": 4, "active": -1}],
        "wait": [{"steps": 4, "wait": -1}],
        "warmup": [{"steps": 4, "warmup": -1}],
        "repeat": [{"steps": 4, "repeat": -1}],
    }
    probe = student.probe("refused_before_a_step")
    laws.check_errors(student, probe, bad, fine={"steps": 4}, call="profile_steps")


# --- train_step -----------------------------------------------------------------------------------


@pytest.mark.points(5)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, the loss, backward, step; return loss.detach().")
def test_training(student: Student) -> None:
    """Steps train as ever, from clear gradients; the loss comes back, without its graph."""
    start, batches = new_training()
    report = student.run("trained", start, batches)
    for i, (loss, weight) in enumerate(trained_here(start, batches)):
        assert_close(entry(report, "losses", i), loss, what=f"the loss of step {i}")
        assert_close(entry(report, "weights", i), weight, what=f"the weight after step {i}")
    graphs = [False] * len(batches)
    assert_equal(entry(report, "graphs"), graphs, what="the list of the losses' requires_grad")
    runs = len(batches)
    what = "the number of times that the model runs, with its hooks"
    assert_equal(entry(report, "runs"), runs, what=what)


@pytest.mark.points(9)
@pytest.mark.place("train_step")
@pytest.mark.word("the sandbox says when a label was set")
@pytest.mark.hint('with record_function("forward"): loss = loss_fn(model(inputs), targets)')
def test_labels(student: Student) -> None:
    """Each part runs inside its label, and the labels come once each, one after the other."""
    order = [
        "forward begins",
        "the model runs",
        "the loss runs",
        "forward ends",
        "backward begins",
        "the backward pass runs",
        "backward ends",
        "optimizer begins",
        "the step runs",
        "optimizer ends",
    ]
    steps = student.run("labeled", *new_training())
    for moments in entry(steps, kind=list, told="There is no profile of the steps."):
        assert_equal(moments, order, what="the list of what happens in a step")


# --- what is right --------------------------------------------------------------------------------


def new_averages(count: int) -> list[Average]:
    """Operators whose orders by calls, self time and total time are all different."""
    calls, self_times, more_times = (random.sample(range(1, count + 1), count) for _ in range(3))
    averages = []
    for i in range(count):
        self_time = 10.5 * self_times[i]
        total_time = self_time + 1e3 * more_times[i]
        averages.append(Average(f"aten::op{i}", calls[i], self_time, total_time))
    return averages


def averages_of(stats: Any) -> list[Average]:
    """The averages of which a list of OperatorStats was made."""
    told = "The result is not a list of OperatorStats."
    averages = []
    for item in entry(stats, kind=list, told=told):
        item = entry(item, kind=Record, told=told)
        name = entry(item, "name", kind=str, told=told)
        calls = entry(item, "calls", kind=(int, float), told=told)
        self_time = entry(item, "self_cpu_time", kind=(int, float), told=told)
        total_time = entry(item, "cpu_time", kind=(int, float), told=told)
        averages.append(Average(name, calls, self_time, total_time))
    return averages


def top(averages: list[Average], n: int, sort_by: str) -> list[Average]:
    """The n largest, without the profiler's steps."""
    kept = [average for average in averages if not average.key.startswith("ProfilerStep")]
    return sorted(kept, key=lambda average: -getattr(average, sort_by))[:n]


def check_top(student: Student, averages: list[Average], n: int, sort_by: str) -> None:
    """Compare the n largest, which have no equals."""
    value = averages_of(student.run("ranked", averages, n, sort_by))
    what = f"the list for n = {n} and sort_by = {sort_by!r}"
    assert_equal(value, top(averages, n, sort_by), what=what)


def cycles_of(steps: int, wait: int, warmup: int, active: int, repeat: int) -> list[range]:
    """The active steps of each complete cycle."""
    length = wait + warmup + active
    begins = range(0, steps - length + 1, length)
    cycles = [range(begin + wait + warmup, begin + length) for begin in begins]
    return cycles[:repeat] if repeat else cycles


def calls_of(steps: Iterable[int], more: int) -> dict[str, int]:
    """What the probe's steps call, each `more` times sin than its number."""
    calls: Counter[str] = Counter()
    for i in steps:
        calls.update({f"work {i}": 1, "aten::ones": 1, "aten::sin": i + more})
    return dict(calls)


def check_steps(
    student: Student,
    steps: int,
    *,
    wait: int = 1,
    warmup: int = 1,
    active: int = 2,
    repeat: int = 0,
) -> None:
    """Compare the steps that run, and the counts of each cycle, those of the probe's own operators."""
    more = random.randint(1, 30)
    report = student.run("stepped", more, steps, wait, warmup, active, repeat)
    schedule = f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}"
    what = f"the list of the steps that run for {steps} steps"
    assert_equal(entry(report, "ran"), list(range(steps)), what=what)

    counts = []
    told = "The result is not a list of dicts."
    for cycle in entry(report, "cycles", kind=list, told=told):
        counts.append(own_calls(entry(cycle, kind=dict, told=told)))
    right = [calls_of(cycle, more) for cycle in cycles_of(steps, wait, warmup, active, repeat)]
    what = f"the list of counts for {steps} steps with {schedule}"
    assert_equal(counts, right, what=what, ordered=False)


def own_calls(calls: dict[Any, Any]) -> dict[Any, Any]:
    """The calls that the probe's steps make, and the profiler's own entries, which do not belong there."""
    own = ("aten::sin", "aten::ones", "work ", "ProfilerStep")
    return {name: count for name, count in calls.items() if str(name).startswith(own)}


def new_training() -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """The first weight, and batches of inputs and targets."""
    start = torch.randn(2, 3, dtype=torch.float64)
    batches = []
    for rows in (4, 2, 5):
        inputs = torch.randn(rows, 3, dtype=torch.float64)
        targets = torch.randn(rows, 2, dtype=torch.float64)
        batches.append((inputs, targets))
    return start, batches


def trained_here(start: Tensor, batches: list[tuple[Tensor, Tensor]]) -> Iterator[Any]:
    """The loss and the weight of each step."""
    weight, velocity = start, torch.zeros_like(start)
    for inputs, targets in batches:
        leaf = weight.detach().requires_grad_()
        loss = (inputs @ leaf.T - 2 * targets).square().mean()
        (gradient,) = torch.autograd.grad(loss, leaf)
        velocity = MOMENTUM * velocity + gradient
        weight = weight - LEARNING_RATE * velocity
        yield loss.detach(), weight
