"""What top_operators, profile_operators, profile_steps and train_step promise, sentence by sentence."""

from __future__ import annotations

import collections
import itertools
import random
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, entry, laws, must_raise
from grader.judge.student import Student
from grader.sandbox.wire.values import Record

FIELDS = ("name", "calls", "self_cpu_time", "cpu_time")
ATTRIBUTES = ("key", "count", "self_cpu_time_total", "cpu_time_total")
SORTS = ATTRIBUTES[1:]
STEP = "ProfilerStep"
WRONG_SORTS = ("self_cpu_time", "cpu_time", "calls", "key", "self_cuda_time_total", "")
Row = tuple[Any, ...]


@pytest.mark.points(6)
@pytest.mark.place("top_operators")
@pytest.mark.hint("sorted(entries, key=lambda e: getattr(e, sort_by), reverse=True)[:n]")
def test_top(student: Student) -> None:
    """The n largest by sort_by come first, each with its name, calls, self and total time."""
    for count in (15, 8):
        rows = averages(count)
        for n, sort_by in itertools.product((10, 3, 1, 40), SORTS):
            check_top(student, rows, n, sort_by)
    check_top(student, averages(14), 10, SORTS[1], short=True)
    check_top(student, averages(5), 4, SORTS[1], short=True)
    check_top(student, [], 10, "count")


@pytest.mark.points(2)
@pytest.mark.requires("test_top")
@pytest.mark.place("top_operators")
@pytest.mark.hint('Leave out key.startswith("ProfilerStep") before you take n, and nothing else.')
def test_top_steps(student: Student) -> None:
    """Entries that begin with ProfilerStep are left out before the n are taken; nothing else is."""
    rows = averages(6)
    steps = [(f"{STEP}{end}", 900 + i, 9e6 + i, 9e7 + i) for i, end in enumerate(("*", "#2", ""))]
    others = [
        (f"my {STEP}*", 70, 5e6, 6e6),
        ("profiler::step", 800, 0.25, 0.5),
        ("", 700, 1.0, 2.0),
    ]
    others += [
        ("[memory]", 0, 0.0, 0.0),
        ("forward", 650, 4e6, 8e6),
        ("Optimizer.step", 60, 2.0, 7e6),
    ]
    rows = random.sample([*rows, *steps, *others], 15)
    for n, sort_by in itertools.product((2, 5, 40), SORTS):
        check_top(student, rows, n, sort_by)
    check_top(student, steps, 3, "count")


@pytest.mark.points(1)
@pytest.mark.requires("test_top")
@pytest.mark.place("top_operators")
@pytest.mark.hint("Any order of equal entries is fine; sorted() makes a new list, sort() does not.")
def test_top_ties(student: Student) -> None:
    """Entries with the same value may come in any order, each once; the list stays as it was."""
    rows = [(f"aten::op{i}", i % 3, float(i % 2), float(i // 4)) for i in range(12)]
    for n, (column, sort_by) in itertools.product((1, 5, 12), enumerate(SORTS, 1)):
        given = random.sample(rows, 12)
        report = student.run("top_operators", given, n, sort_by)
        value = rows_of(entry(report, "value"))
        right = sorted((row[column] for row in rows), reverse=True)[:n]
        what = f"the list of the values by {sort_by}"
        assert_equal([row[column] for row in value], right, what=what)
        assert len({*value} & {*rows}) == n, "An entry is there twice, or is none of the averages."
        left = [tuple(row) for row in entry(report, "left", kind=list)]
        assert left == given, "The list of averages is changed: sort a copy, sorted(averages)."


@pytest.mark.points(2)
@pytest.mark.place("top_operators")
@pytest.mark.hint('if sort_by not in ("count", "self_cpu_time_total", "cpu_time_total"): raise ...')
def test_top_errors(student: Student) -> None:
    """Any other sort_by, or an n below 1, is a ValueError that names it."""
    rows = averages(4)
    ranked = student.probe("top_operators")
    bad: dict[str, Any] = {
        "sort_by": [(rows, 2, word) for word in WRONG_SORTS],
        "n": [(rows, 0), (rows, -1)],
    }
    laws.check_errors(student, ranked, bad, fine=(rows, 1))
    laws.check_errors(student, ranked, {"sort_by": [([], 2, "time")], "n": [([], 0, "count")]})


@pytest.mark.points(6)
@pytest.mark.place("profile_operators")
@pytest.mark.hint(
    "with profile(activities=[ProfilerActivity.CPU]) as prof: f(), then prof.key_averages()"
)
def test_operators(student: Student) -> None:
    """Each operator that f runs is there once, with all of its calls, whatever the shapes."""
    for sizes in ([3, 5, 7, 5], [2], [4, 4]):
        value = profiled(student, sizes, n=200)
        names, count = [row[0] for row in value], len(sizes)
        several = sorted({name for name in names if names.count(name) > 1})
        told = (
            "There are several entries of {}: one for each shape of its inputs, or name them once."
        )
        assert not several, told.format(quoted(several))
        calls = {row[0]: row[1] for row in value}
        right = dict.fromkeys(("aten::sin", "aten::exp", "aten::outer", "aten::cos"), count)
        seen = {name: calls[name] for name in right if name in calls}
        what, twice = "the dict of calls of four operators", {k: 2 * n for k, n in right.items()}
        named = {"f runs twice, or its calls count twice: once is enough.": twice}
        assert_equal(seen, right, what=what, mistakes=named, ordered=False)


@pytest.mark.points(3)
@pytest.mark.requires("test_operators")
@pytest.mark.place("profile_operators")
@pytest.mark.hint("return top_operators(prof.key_averages(), n, sort_by)")
def test_operators_sorted(student: Student) -> None:
    """n and sort_by are those of top_operators; self times are at most total times."""
    for n, (column, sort_by) in itertools.product((1, 4, 200), enumerate(SORTS, 1)):
        value = profiled(student, [30, 5, 30], n=n, sort_by=sort_by)
        told = f"With n = {n} there are {len(value)} entries."
        assert len(value) == n or (n == 200 and 5 < len(value) < n), told
        numbers = [row[column] for row in value]
        told = f"With sort_by={sort_by!r} the entries are not sorted, the largest first."
        assert numbers == sorted(numbers, reverse=True), told
        told = "A self time is above the total time of its operator, or below 0."
        assert all(0 <= row[2] <= row[3] + 1e-3 for row in value), told
    defaults = profiled(student, [30, 5, 30])
    times = [row[2] for row in defaults]
    told = "Without n and sort_by it is not the ten largest self times."
    assert len(times) == 10 and times == sorted(times, reverse=True), told


@pytest.mark.points(2)
@pytest.mark.requires("test_operators")
@pytest.mark.place("profile_operators")
@pytest.mark.hint("Call f() once inside the block, and catch nothing.")
def test_operators_run(student: Student) -> None:
    """f runs once, in the grad mode of the caller; its exception comes out."""
    for grad, fails in itertools.product((True, False), repeat=2):
        report = student.run("profiled", [3], grad, fails, 5)
        modes = entry(report, "modes", kind=list)
        assert len(modes) == 1, f"f runs {len(modes)} times, it should run once."
        assert modes == [grad], "f does not run in the grad mode of the caller."
        told = "The exception of f disappears: pass it on."
        assert entry(report, "raised") is fails, told
    for error in ({"n": 0}, {"sort_by": "time"}):
        (name,) = error
        with must_raise(ValueError, mentions=name, call=f"profile_operators with {error}"):
            profiled(student, [2], **error)


@pytest.mark.points(8)
@pytest.mark.place("profile_steps")
@pytest.mark.hint("prof.step() after each step; the averages in on_trace_ready, once a cycle.")
def test_steps(student: Student) -> None:
    """Each complete cycle gives the calls of its active steps, and of no others."""
    for steps, arguments in (
        (8, ()),
        (12, (2, 1, 1)),
        (9, (1, 0, 2)),
        (6, (0, 1, 2)),
        (10, (1, 2, 2, 0)),
    ):
        check_steps(student, steps, *arguments)
    check_steps(student, 5, wait=0, warmup=0, active=1)
    check_steps(student, 6, wait=0, warmup=0, active=3)


@pytest.mark.points(4)
@pytest.mark.requires("test_steps")
@pytest.mark.place("profile_steps")
@pytest.mark.hint("There are steps // (wait + warmup + active) complete cycles, or fewer.")
def test_steps_cut(student: Student) -> None:
    """A cycle that the end cuts short is left out; with no complete one the list is empty."""
    for steps in (7, 6, 11, 3, 2, 1, 0):
        check_steps(student, steps)
    check_steps(student, 5, wait=0, warmup=0, active=2)
    check_steps(student, 3, wait=0, warmup=1, active=3)


@pytest.mark.points(3)
@pytest.mark.requires("test_steps")
@pytest.mark.place("profile_steps")
@pytest.mark.hint("schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)")
def test_steps_repeat(student: Student) -> None:
    """There are at most `repeat` cycles, and the steps after them run all the same."""
    for steps, repeat in ((12, 1), (9, 2), (4, 1), (6, 2), (8, 5)):
        check_steps(student, steps, repeat=repeat)
    check_steps(student, 5, 0, 0, 1, 3)
    check_steps(student, 5, 0, 0, 2, 1)


@pytest.mark.points(3)
@pytest.mark.place("profile_steps")
@pytest.mark.hint("Check the arguments before the profile begins; schedule() only asserts.")
def test_steps_errors(student: Student) -> None:
    """A bad wait, warmup, active or repeat is a ValueError that names it, before any step."""
    check_steps(student, 4, 0, 0, 1, 0)
    for name, number in (
        ("active", 0),
        ("active", -1),
        ("wait", -1),
        ("warmup", -1),
        ("repeat", -1),
    ):
        for steps in (4, 0):
            report = student.run("stepped", steps, **{name: number})
            text = entry(report, "text")
            told = f"{name}={number} is no ValueError whose message names {name}."
            assert isinstance(text, str) and name in text, told
            told = f"Steps have run before the ValueError for {name}={number}: check first."
            assert entry(report, "calls") == [], told


@pytest.mark.points(5)
@pytest.mark.place("train_step")
@pytest.mark.hint("zero_grad, the loss, backward, step; return loss.detach().")
def test_training(student: Student) -> None:
    """Steps train as ever, from clear gradients; the loss comes back, with and without a profiler."""
    for watched, training in itertools.product((False, True), repeat=2):
        report, losses, weights, stale = trained(student, watched, training)
        values = entry(report, "losses", kind=list, count=len(losses))
        for i, (loss, weight) in enumerate(zip(losses, weights, strict=True)):
            assert_close(entry(values, i, 0), loss, what=f"the loss of step {i}")
            assert entry(values, i, 1) is False, "The loss has a graph: return loss.detach()."
            what = f"the weight after step {i}"
            named = {"Old gradients are added: clear them before the backward pass.": stale[i]}
            assert_close(entry(report, "weights", i), weight, what=what, mistakes=named)
        assert_equal(entry(report, "runs"), len(losses), what="the number of calls of the model")
        told = "The mode of the model is changed."
        assert entry(report, "modes") == [training] * len(losses), told


@pytest.mark.points(9)
@pytest.mark.requires("test_training")
@pytest.mark.place("train_step")
@pytest.mark.hint('with record_function("forward"): loss = loss_fn(model(inputs), targets)')
def test_labels(student: Student) -> None:
    """Each part is inside of its label, and the labels come once, one after the other."""
    report, losses, *_ = trained(student, True, True)
    events = entry(report, "spans", kind=list, count=len(losses))
    labels = {
        "forward": ("mark model", "mark loss"),
        "backward": ("mark gradient",),
        "optimizer": ("mark step",),
    }
    for spans in events:
        names = [entry(span, 0) for span in spans]
        for label, marks in labels.items():
            told = f"The label {label!r} is set {names.count(label)} times in a step, not once."
            assert names.count(label) == 1, told
            begin, end = span_of(spans, label)
            for mark in marks:
                first, last = span_of(spans, mark)
                part = PARTS[mark]
                told = f"{part} runs outside of the label {label!r}: put it into the with block."
                assert begin <= first and last <= end, told
        ends = [span_of(spans, label) for label in labels]
        told = "The labels overlap: close each one before the next."
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ends)), told


PARTS = {
    "mark model": "The model",
    "mark loss": "The loss function",
    "mark gradient": "The backward pass",
    "mark step": "The optimizer's step",
}


def quoted(names: list[str]) -> str:
    return ", ".join(str(name)[:60] for name in names[:3])


def span_of(spans: Any, name: str) -> tuple[float, float]:
    """Begin and end of the event of this name."""
    for span in spans:
        if entry(span, 0) == name:
            return entry(span, 1, kind=float), entry(span, 2, kind=float)
    return -1.0, -1.0


def averages(count: int) -> list[Row]:
    """Operators whose orders by calls, self time and total time are all different."""
    orders = [random.sample(range(1, count + 1), count) for _ in range(3)]
    return [
        (f"aten::op{i}", calls, 10.5 * own, 10.5 * own + 1000.25 * rest)
        for i, (calls, own, rest) in enumerate(zip(*orders, strict=True))
    ]


def rows_of(value: Any) -> list[Row]:
    """The fields of a list of OperatorStats."""
    told = "The result is no list of OperatorStats."
    stats = entry(value, kind=list, told=told)
    rows = []
    for item in stats:
        parts = [entry(entry(item, kind=Record, told=told), field, told=told) for field in FIELDS]
        name, calls, own, total = parts
        right = type(name) is str and type(calls) is int
        numbers = all(type(time) in (int, float) for time in (own, total))
        assert right and numbers, f"{told} It has other types."
        rows.append((name, calls, float(own), float(total)))
    return rows


def check_top(student: Student, rows: list[Row], n: int, sort_by: str, short: bool = False) -> None:
    """The n largest, which have no equals; `short` leaves out the arguments that have defaults."""
    column = ATTRIBUTES.index(sort_by)

    def top(column: int = column, steps: bool = False, sign: int = -1) -> list[Row]:
        return sorted(
            (row for row in rows if steps or not row[0].startswith(STEP)),
            key=lambda row: sign * row[column],
        )

    arguments = () if short and n == 10 else (n,) if short else (n, sort_by)
    value = rows_of(entry(student.run("top_operators", rows, *arguments), "value"))
    first = sorted(rows[:n], key=lambda row: -row[column])
    mistakes: dict[str, list[Row]] = {
        "The smallest come first: sort with reverse=True.": top(sign=1)[:n],
        "The n are taken before they are sorted: sort all, then cut.": first,
        "ProfilerStep is among them: leave out keys that begin with it.": top(steps=True)[:n],
        "ProfilerStep is left out after the n are taken: leave it out first.": [
            row for row in top(steps=True)[:n] if not row[0].startswith(STEP)
        ],
        "Self and total time are exchanged.": [(a, b, d, c) for a, b, c, d in top()[:n]],
        **{
            f"It is always sorted by {SORTS[i - 1]}: look at sort_by.": top(i)[:n]
            for i in (1, 2, 3)
        },
        "All entries come: take the first n.": top(),
    }
    what = f"the list for n = {n} and sort_by = {sort_by!r}"
    assert_equal(value, top()[:n], what=what, mistakes=mistakes)


def profiled(student: Student, sizes: list[int], **arguments: Any) -> list[Row]:
    given = [arguments[key] for key in ("n", "sort_by") if key in arguments]
    if "sort_by" in arguments and "n" not in arguments:
        given.insert(0, 10)
    return rows_of(entry(student.run("profiled", sizes, True, False, *given), "value"))


def calls_of(steps: Any) -> dict[str, int]:
    """What the probe's steps call."""
    calls: collections.Counter[str] = collections.Counter()
    for i in steps:
        calls.update({f"work {i}": 1, "aten::ones": 1, "aten::sin": i + 1})
        calls.update({"aten::cos": 1} if i % 3 else {})
    return dict(calls)


def check_steps(student: Student, steps: int, *arguments: int, **keywords: int) -> None:
    names = ("wait", "warmup", "active", "repeat")
    given = dict(zip(names, (1, 1, 2, 0), strict=True))
    given |= dict(zip(names, arguments, strict=False)) | keywords
    wait, warmup, active, repeat = given.values()
    cycle = wait + warmup + active
    begins = list(range(0, steps, cycle))
    limited = begins[:repeat] if repeat else begins

    def windows(first: int, last: int, begins: list[int] = limited, cut: bool = False) -> Any:
        """The calls of the steps from first to last of each cycle."""
        spans = [
            range(b + first, min(b + last, steps)) for b in begins if cut or b + cycle <= steps
        ]
        return [calls_of(i for i in span if i >= 0) for span in spans if span]

    report = student.run("stepped", steps, *arguments, **keywords)
    assert entry(report, "text") is None, f"It raises a ValueError for {given}."
    what = f"the list of the steps that run for {steps} steps"
    assert_equal(entry(report, "calls"), list(range(steps)), what=what)
    cycles = entry(report, "value", kind=list, told="The result is no list of dicts.")
    own = ("aten::sin", "aten::cos", "aten::ones", "work ")
    counts = [entry(calls, kind=dict, told="The result is no list of dicts.") for calls in cycles]
    told = "There are keys that begin with ProfilerStep: leave them out."
    assert not any(str(key).startswith(STEP) for calls in counts for key in calls), told
    counts = [{k: n for k, n in calls.items() if str(k).startswith(own)} for calls in counts]
    right = windows(wait + warmup, cycle)
    sums = [
        dict(sum((collections.Counter(w) for w in right[: i + 1]), collections.Counter()))
        for i in range(len(right))
    ]
    mistakes: dict[str, Any] = {
        "Nothing is recorded: call prof.step() after each step.": [],
        "prof.step() comes before the work: call it after step(i).": windows(
            wait + warmup - 1, cycle - 1
        ),
        "Steps that warm up are in it: only the active ones belong there.": windows(wait, cycle),
        "All steps of a cycle are in it: only the active ones belong there.": windows(0, cycle),
        "Only the last cycle is there: read the averages in on_trace_ready.": right[-1:],
        "A cycle that the end cuts short is there: leave it out.": windows(
            wait + warmup, cycle, cut=True
        ),
        "The counts of earlier cycles are in the later ones.": sums,
        "There are more than `repeat` cycles.": windows(wait + warmup, cycle, begins),
    }
    what = f"the list of counts for {steps} steps with {given}"
    assert_equal(counts, right, what=what, mistakes=mistakes, ordered=False)


def trained(student: Student, watched: bool, training: bool) -> tuple[Any, ...]:
    """The probe's report; losses and weights of SGD with momentum, and weights of added gradients."""
    start = torch.randn(3, 2, dtype=torch.float64)
    batches = [(torch.randn(n, 3).double(), torch.randn(n, 2).double()) for n in (4, 2, 5)]
    model = student.made("network", start, training)
    optimizer = student.made("optimizer", model, 0.1)
    report = student.run("trained", model, optimizer, batches, watched)

    def train(old: float) -> tuple[list[Tensor], list[Tensor]]:
        weight, total, speed, losses, weights = (
            start,
            torch.full_like(start, 3.0),
            0 * start,
            [],
            [],
        )
        for x, y in batches:
            weight = weight.detach().requires_grad_()
            losses.append((x @ weight - y).square().mean())
            total = old * total + torch.autograd.grad(losses[-1], weight)[0]
            speed = 0.5 * speed + total
            weight = weight - 0.1 * speed
            weights.append(weight.detach())
        return [loss.detach() for loss in losses], weights

    return report, *train(0.0), train(1.0)[1]
