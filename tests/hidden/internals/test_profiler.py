"""What top_operators, profile_operators, profile_steps and train_step promise, sentence by sentence."""

from __future__ import annotations

import collections
import itertools
import random
from typing import Any

import pytest
import torch

from grader.judge.checks import assert_close, assert_equal, entry, fields, laws, must_raise
from grader.judge.student import Student
from grader.sandbox.wire.values import Record

FIELDS = ("name", "calls", "self_cpu_time", "cpu_time")
SORTS = ("count", "self_cpu_time_total", "cpu_time_total")
STEP = "ProfilerStep"
WRONG_SORTS = ("self_cpu_time", "cpu_time", "calls", "key", "self_cuda_time_total", "")
OPERATORS = ["sin", "cos", "tan", "exp", "neg", "ceil", "sign", "atan", "sinh", "sqrt", "outer"]
Row = tuple[Any, ...]
DEFAULTS: Row = (10, "self_cpu_time_total")
# The marks of the probe, with the label around each.
MARKS = {"model": "forward", "loss": "forward", "backward pass": "backward", "step": "optimizer"}


@pytest.mark.points(6)
@pytest.mark.place("top_operators")
@pytest.mark.hint("sorted(entries, key=lambda e: getattr(e, sort_by), reverse=True)[:n]")
def test_top(student: Student) -> None:
    """The n largest by sort_by come in order, each with its name, calls, self time and total time."""
    for count in (15, 8):
        rows = averages(count)
        for n, sort_by in itertools.product((10, 3, 1, 40), SORTS):
            check_top(student, rows, n, sort_by)
    for count, *arguments in ((14,), (5, 4), (0, 10, "count")):
        check_top(student, averages(count), *arguments)
    report = student.run("top_operators", averages(3))
    for item in entry(report, "value", kind=list):
        kinds = [type(part) for part in fields(item, *FIELDS)]
        told = "OperatorStats holds a str, an int and two floats: take the entry's attributes as they are."
        assert kinds == [str, int, float, float], told


@pytest.mark.points(3)
@pytest.mark.requires("test_top")
@pytest.mark.place("top_operators")
@pytest.mark.hint('Leave out key.startswith("ProfilerStep") first, and no more; sort a copy.')
def test_top_steps(student: Student) -> None:
    """ProfilerStep is left out before the cut, and nothing else is; the list of averages stays as it is."""
    steps = [(f"{STEP}{end}", 900 + i, 9e6 + i, 9e7 + i) for i, end in enumerate(("*", "#2", ""))]
    others = [("[memory]", 0, 0.0, 0.0), ("forward", 650, 4e6, 8e6)]
    others += [("Optimizer.step", 60, 2.0, 7e6), ("forward", 640, 3e6, 9e6)]
    rows = random.sample([*averages(6), *steps, *others], 13)
    for n, sort_by in itertools.product((2, 5, 40), SORTS):
        check_top(student, rows, n, sort_by)
    check_top(student, steps, 3, "count")
    rows = [(f"aten::op{i}", i % 3, float(i % 2), float(i // 4)) for i in range(12)]
    for n, (column, sort_by) in itertools.product((1, 5, 12), enumerate(SORTS, 1)):
        given = random.sample(rows, 12)
        report = student.run("top_operators", given, n, sort_by)
        value = rows_of(entry(report, "value"))
        right = sorted((row[column] for row in rows), reverse=True)[:n]
        what = f"the list of the values by {sort_by}"
        assert_equal([row[column] for row in value], right, what=what)
        assert len({*value} & {*rows}) == n, (
            "An entry is there twice, or is not one of the averages."
        )
        left = [tuple(entry(row, kind=list)) for row in entry(report, "left", kind=list)]
        assert left == given, "The list of averages is changed: sort a copy, sorted(averages)."


@pytest.mark.points(2)
@pytest.mark.place("top_operators")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint('if sort_by not in ("count", "self_cpu_time_total", "cpu_time_total"): raise ...')
def test_top_errors(student: Student) -> None:
    """Any other sort_by, or an n below 1, is a ValueError that names it."""
    rows, ranked = [("aten::add", 2, 3.0, 4.0)], student.probe("top_operators")
    table: dict[str, Any] = {
        "sort_by": [(rows, 2, word) for word in WRONG_SORTS] + [([], 2, "time")],
        "n": [(rows, 0), (rows, -1), ([], 0, "count")],
    }
    laws.check_errors(student, ranked, table, fine=(rows, 1))


@pytest.mark.points(6)
@pytest.mark.place("profile_operators")
@pytest.mark.hint("Call f() in a with profile() as prof: block, then prof.key_averages().")
def test_operators(student: Student) -> None:
    """Each operator that f runs is there once, with all of its calls, whatever the shapes."""
    for sizes in ([3, 5, 7, 5], [2], [4, 4]):
        operators = random.sample(OPERATORS, random.randint(5, 9))
        value = profiled(student, sizes, 200, operators=operators)
        names, count = [row[0] for row in value], len(sizes)
        several = ", ".join(sorted({name for name in names if names.count(name) > 1}))[:180]
        told = f"There are several entries of {several}: one for each shape of its inputs, or "
        assert not several, f"{told}name them once."
        right, _twice = ({f"aten::{name}": n for name in operators} for n in (count, 2 * count))
        seen = {name: calls for name, calls, *_ in value if name in right}
        assert_equal(seen, right, what="the dict of calls", ordered=False)


@pytest.mark.points(5)
@pytest.mark.requires("test_operators")
@pytest.mark.place("profile_operators")
@pytest.mark.word("the sandbox says how f ran")
@pytest.mark.hint("f() once, nothing caught; return top_operators(prof.key_averages(), n, sort_by)")
def test_operators_run(student: Student) -> None:
    """f runs once, as by itself, and its error comes out; n and sort_by are those of top_operators."""
    for grad, fails in itertools.product((True, False), repeat=2):
        report = student.run("profiled", OPERATORS, [3], grad, fails, 5)
        modes = entry(report, "modes", kind=list)
        assert len(modes) == 1, f"f runs {len(modes)} times, it should run once."
        assert modes == [grad], "f does not run in the grad mode of the caller."
        told = "f finds another random state than by itself: neither seed nor draw before it."
        assert laws.same(*entry(report, "states", kind=list, count=2)), told
        assert entry(report, "raised") is fails, "The exception of f disappears: pass it on."
    for n, (column, sort_by) in itertools.product((1, 4, 200), enumerate(SORTS, 1)):
        value = profiled(student, [30, 5, 30], n, sort_by)
        told = f"With n = {n} there are {len(value)} entries."
        assert len(value) == n or (n == 200 and 5 < len(value) < n), told
        told = f"With sort_by={sort_by!r} the entries are not sorted, the largest first."
        assert value == sorted(value, key=lambda row: -row[column]), told
        told = "A self time is above the total time of its operator, or below 0."
        assert all(0 <= row[2] <= row[3] + 1e-3 for row in value), told
    value = profiled(student, [30, 5, 30])
    told = "Without n and sort_by it is not the ten largest self times."
    assert len(value) == 10 and value == sorted(value, key=lambda row: -row[2]), told
    for call in ("n=0", "sort_by='time'"):
        name, given = call.split("=")[0], (0,) if call == "n=0" else (10, "time")
        with must_raise(ValueError, mentions=name, call=f"profile_operators(f, {call})"):
            profiled(student, [2], *given)


@pytest.mark.points(8)
@pytest.mark.place("profile_steps")
@pytest.mark.hint("prof.step() after each step; the averages in on_trace_ready, once a cycle.")
def test_steps(student: Student) -> None:
    """Each complete cycle gives the calls of its active steps, and of no others."""
    table = [(8,), (12, 2, 1, 1), (9, 1, 0, 2), (6, 0, 1, 2), (10, 1, 2, 2, 0), (14, 1, 1, 12)]
    for steps, *numbers in table:
        check_steps(student, steps, *numbers)
    check_steps(student, 5, wait=0, warmup=0, active=1)
    check_steps(student, 6, wait=0, warmup=0, active=3)


@pytest.mark.points(7)
@pytest.mark.requires("test_steps")
@pytest.mark.place("profile_steps")
@pytest.mark.hint("schedule(..., repeat=repeat); steps // (wait + warmup + active) are whole.")
def test_steps_cut(student: Student) -> None:
    """A cycle that the end cuts short is left out; there are at most `repeat`, and later steps run, too."""
    table = [(steps, 1, 1, 2, n) for steps, n in ((12, 1), (9, 2), (4, 1), (6, 2), (8, 5))]
    table += [(5, 0, 0, 1, 3), (5, 0, 0, 2, 1), (5, 0, 0, 2, 0), (3, 0, 1, 3, 0)]
    for steps, *numbers in (*table, *((steps,) for steps in (7, 6, 11, 3, 2, 1, 0))):
        check_steps(student, steps, *numbers)
    check_steps(student, 9, repeat=1)


@pytest.mark.points(3)
@pytest.mark.place("profile_steps")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("Check the arguments before the profile begins; schedule() only asserts.")
def test_steps_errors(student: Student) -> None:
    """A bad wait, warmup, active or repeat is a ValueError that names it, before any step."""
    check_steps(student, 4, 0, 0, 1, 0)
    table = [("active", 0), *((name, -1) for name in ("active", "wait", "warmup", "repeat"))]
    for (name, number), steps in itertools.product(table, (4, 0)):
        report = student.run("stepped", 1, steps, **{name: number})
        text = entry(report, "text")
        told = f"{name}={number} does not raise a ValueError whose message names {name}."
        assert isinstance(text, str) and name in text.lower(), told
        told = f"Steps have run before the ValueError for {name}={number}: check first."
        assert laws.same(entry(report, "calls"), []), told


@pytest.mark.points(5)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, the loss, backward, step; return loss.detach().")
def test_training(student: Student) -> None:
    """Steps train as ever, from clear gradients; the loss comes back, with and without a profiler."""
    for watched in (False, True):
        start, batches, report = trained(student, watched)
        for i, (loss, weight) in enumerate(steps_of(start, batches)):
            value, graph = entry(report, "losses", i, kind=list, count=2)
            assert_close(value, loss, what=f"the loss of step {i}")
            assert graph is False, "The loss has a graph: return loss.detach()."
            what = f"the weight after step {i}"
            assert_close(entry(report, "weights", i), weight, what=what)
        runs = entry(report, "runs", kind=int)
        told = f"In 3 steps the model runs {runs} times: call model(inputs) once, which also "
        assert runs == 3, f"{told}runs its hooks."


@pytest.mark.points(9)
@pytest.mark.place("train_step")
@pytest.mark.word("the sandbox says when a label was set")
@pytest.mark.hint('with record_function("forward"): loss = loss_fn(model(inputs), targets)')
def test_labels(student: Student) -> None:
    """Each part runs inside its label, and the labels come once each, one after the other."""
    for spans in entry(trained(student, True)[-1], "spans", kind=list, count=3):
        names = [entry(span, 0, kind=str) for span in spans]
        pairs = [[entry(span, i, kind=float) for i in (1, 2)] for span in spans]
        times = dict(zip(names, pairs, strict=True))
        for mark, label in MARKS.items():
            told = f"The label {label!r} is set {names.count(label)} times in a step, not once."
            assert names.count(label) == 1, told
            first, last = times.get(f"mark {mark}", (-1.0, -1.0))
            told = f"The {mark} runs outside of the label {label!r}: put it into the with block."
            assert times[label][0] <= first and last <= times[label][1], told
        told = "The labels overlap: close each one before the next."
        ends = [times[label] for label in ("forward", "backward", "optimizer")]
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends)), told


def averages(count: int) -> list[Row]:
    """Operators whose orders by calls, self time and total time are all different."""
    orders = (random.sample(range(1, count + 1), count) for _ in range(3))
    rows = enumerate(zip(*orders, strict=True))
    return [(f"aten::op{i}", n, 10.5 * own, 10.5 * own + 1e3 * more) for i, (n, own, more) in rows]


def rows_of(value: Any) -> list[Row]:
    """The fields of a list of OperatorStats."""
    told, rows = "The result is not a list of OperatorStats.", []
    for item in entry(value, kind=list, told=told):
        name, calls, *times = fields(entry(item, kind=Record, told=told), *FIELDS, told=told)
        assert type(calls) in (int, float), "The number of calls in OperatorStats is not an int."
        rows.append((name, int(calls), *times))
    return rows


def check_top(student: Student, rows: list[Row], *arguments: Any) -> None:
    """The n largest, which have no equals; n and sort_by are the arguments or their defaults."""
    n, sort_by = (*arguments, *DEFAULTS[len(arguments) :])
    column = 1 + SORTS.index(sort_by)

    def top(column: int = column, sign: int = -1) -> list[Row]:
        kept = (row for row in rows if not row[0].startswith(STEP))
        return sorted(kept, key=lambda row: sign * row[column])

    value = rows_of(entry(student.run("top_operators", rows, *arguments), "value"))
    what = f"the list for n = {n} and sort_by = {sort_by!r}"
    assert_equal(value, top()[:n], what=what)


def profiled(
    student: Student, sizes: list[int], *arguments: Any, operators: list[str] = OPERATORS
) -> list[Row]:
    """What profile_operators gives for these operators, each on tensors of these sizes."""
    report = student.run("profiled", operators, sizes, True, False, *arguments)
    return rows_of(entry(report, "value"))


def calls_of(steps: Any, more: int) -> dict[str, int]:
    """What the probe's steps call, each `more` times sin than its number."""
    calls: collections.Counter[str] = collections.Counter()
    for i in steps:
        calls.update({f"work {i}": 1, "aten::ones": 1, "aten::sin": i + more})
        calls.update({"aten::cos": 1} if i % 3 else {})
    return dict(calls)


def check_steps(student: Student, steps: int, *arguments: int, **keywords: int) -> None:
    """The steps that run, and the counts of each cycle, those of the probe's own operators."""
    given = {"wait": 1, "warmup": 1, "active": 2, "repeat": 0}
    given |= dict(zip(given, arguments, strict=False)) | keywords
    wait, warmup, active, repeat = given.values()
    cycle, begin, more = wait + warmup + active, wait + warmup, random.randint(1, 30)
    begins = list(range(0, steps, cycle))
    limited = begins[:repeat] if repeat else begins

    def windows(first: int, last: int, begins: list[int] = limited) -> Any:
        """The calls of the steps from first to last of each cycle."""
        whole = [b for b in begins if b + cycle <= steps]
        spans = [range(max(b + first, 0), min(b + last, steps)) for b in whole]
        return [calls_of(span, more) for span in spans if span]

    report = student.run("stepped", more, steps, *arguments, **keywords)
    assert entry(report, "text") is None, f"profile_steps raises a ValueError for {given}."
    what = f"the list of the steps that run for {steps} steps"
    assert_equal(entry(report, "calls"), [*range(steps)], what=what)
    told = "The result is not a list of dicts."
    cycles = entry(report, "value", kind=list, told=told)
    counts = [entry(calls, kind=dict, told=told) for calls in cycles]
    told = "There are keys that begin with ProfilerStep: leave them out."
    assert not any(str(key).startswith(STEP) for calls in counts for key in calls), told
    own = ("aten::sin", "aten::cos", "aten::ones", "work ")
    counts = [{k: n for k, n in calls.items() if str(k).startswith(own)} for calls in counts]
    right = windows(begin, cycle)
    what = f"the list of counts for {steps} steps with {given}"
    assert_equal(counts, right, what=what, ordered=False)


def trained(student: Student, watched: bool) -> tuple[Any, Any, Any]:
    """The weight, three batches, and the probe's report of a step on each."""
    start = torch.randn(2, 3).double()
    batches = [(torch.randn(n, 3).double(), torch.randn(n, 2).double()) for n in (4, 2, 5)]
    return start, batches, student.run("trained", start, batches, watched)


def steps_of(start: Any, batches: Any) -> Any:
    """Loss and weight of each step."""
    weight, speed = start, 0 * start
    for x, y in batches:
        leaf = weight.detach().requires_grad_()
        outputs = x @ leaf.T
        loss = (outputs - 2 * y).square().mean()
        speed = 0.5 * speed + torch.autograd.grad(loss, leaf)[0]
        weight = weight - 0.1 * speed
        yield loss.detach(), weight
