"""What CountingBackend, compilations, graph_breaks, clip_by_norm and first_and_later promise."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.student import Student

ONCE = "Count what the backend is given when it is called: its __call__ is once for each graph."


# The call nodes of the probe's graphs, and what is counted instead of them.
CALLS = {"net": 3, "sine": 4, "inputs": 0}


@pytest.mark.points(12)
@pytest.mark.place("CountingBackend")
@pytest.mark.hint("node.op in ('call_function', 'call_method', 'call_module') for gm.graph.nodes")
def test_counts(student: Student) -> None:
    """It counts graphs, and the call nodes of each: functions, methods and modules."""
    names = [*CALLS, *random.choices([*CALLS], k=4)]
    random.shuffle(names)
    right, count = [CALLS[name] for name in names], len(names)
    reports = student.run("counted", names, torch.randn(3, 2), torch.randn(3, 2))
    reports = entry(reports, kind=list, count=count + 1)
    new = "A new backend does not begin with 0 and []: are they those of the class, for all?"
    assert laws.same(entry(reports[0], "counts"), [0, []]), new
    what = f"graphs and operations after {count} graphs"
    assert_equal(entry(reports[count], "counts"), [count, right], what=what)
    for i, report in enumerate(reports[1:count], 1):
        counts, other = fields(report, "counts", "other")
        assert_equal(counts, [i, right[:i]], what=f"graphs and operations after graph {i}")
        assert laws.same(other, [0, []]), new


@pytest.mark.points(6)
@pytest.mark.place("CountingBackend.__call__")
@pytest.mark.hint("return gm.forward")
def test_runs(student: Student) -> None:
    """It returns a callable that computes the graph, gradients included; runs are not counted."""
    x, y = torch.randn(3, 2), torch.randn(3, 2)
    right: dict[str, Any] = {
        "net": lambda x, y: [2 * x + y + 1],
        "sine": lambda x, y: [x.sin() * y * x, x.sum()],
    }
    reports = entry(student.run("counted", [*right], x, y), kind=list, count=3)
    results = "results: return the callable that computes them, gm.forward."
    told = {"NoneType": "nothing: return gm.forward.", "tuple": results, "list": results}
    for report, outputs in zip(reports[1:], right.values(), strict=True):
        kind, runs, counts, later = fields(report, "kind", "runs", "counts", "later")
        returns = told.get(str(kind), f"a {str(kind)[:40]}: return a callable, as gm.forward.")
        assert kind == "callable", f"The backend returns {returns}"
        for run, given in zip(entry(runs, kind=list, count=2), ((x, y), (y, x)), strict=True):
            assert_close(run, outputs(*given), what="what the callable gives")
        assert laws.same(later, counts), f"Runs change the counts. {ONCE}"
    x = torch.randn(4, dtype=torch.float64)
    values, grad, graphs = fields(student.run("compiled", x), "values", "grad", "graphs")
    assert_close(values, x.sin() * x, what="the compiled sin(x) * x")
    assert_close(grad, x.cos() * x + x.sin(), what="the gradient of sin(x) * x")
    assert_equal(graphs, 2, what="graphs, one with a gradient and one without,")


def sizes(*numbers: int) -> list[tuple[Tensor]]:
    return [(torch.ones(n),) for n in numbers]


def new_sizes(count: int) -> list[int]:
    """Different sizes. Those of 0 and 1 are special to torch.compile."""
    return random.sample(range(2, 30), count)


def compiled_anew(calls: list[tuple[Any, ...]], dynamic: bool | None = False) -> list[int]:
    """1 for each call with a size, or another argument, for which nothing was compiled before.

    With `dynamic=None` the second size is compiled for all sizes.
    """
    known = set[Any]()
    right = []
    for x, *others in calls:
        size = x.shape
        if dynamic is None and any(other_size != size for other_size, *_ in known):
            size = None
        is_new = (size, *others) not in known
        right.append(int(is_new))
        if is_new:
            known.add((size, *others))
    return right


@pytest.mark.points(12)
@pytest.mark.place("compilations")
@pytest.mark.hint("before = backend.graphs; compiled(*arguments); backend.graphs - before")
def test_compilations(student: Student) -> None:
    """Each call has the number of graphs that it compiles, for fixed and for dynamic sizes."""
    whole, broken = student.made("function", 0), student.made("function", 1)
    calls: list[tuple[Any, ...]] = [(torch.ones(n), 2) for n in new_sizes(3)]
    again = random.choices(calls, k=3)
    # The last one has its size from before, and another factor.
    calls = [*calls, *again, (calls[0][0], 3)]
    random.shuffle(calls)
    shown = ", ".join(str(len(x)) for x, _ in calls)
    what, right = f"compilations, dynamic=False, for sizes {shown},", compiled_anew(calls)
    check_count(student, right, what, "compilations", whole, calls, False)
    first, second, third = new_sizes(3)
    varied = sizes(first, first, second, third)
    what, right = "compilations, dynamic=True, with a break, for four sizes", [2, 0, 0, 0]
    check_count(student, right, what, "compilations", broken, varied, True)
    value = student.function("compilations")(whole, [])
    assert_equal(value, [], what="compilations without calls")


def check_count(student: Student, right: Any, what: str, name: str, *args: Any) -> None:
    """The function is right with a plain backend, or with the student's own."""
    if laws.same(student.run("plainly", name, *args), right):
        return  # what is wrong with the student's backend is judged above
    assert_equal(student.function(name)(*args), right, what=what)


def afresh(student: Student, right: Any, *args: Any) -> list[Any]:
    report = student.run("afresh", True, *args)
    if not laws.same(entry(report, "answers"), right):
        report = student.run("afresh", False, *args)
    return fields(report, "answers", "runs", "plain")


@pytest.mark.points(8)
@pytest.mark.place("compilations")
@pytest.mark.hint("torch._dynamo.reset(), once, before torch.compile.")
def test_fresh_start(student: Student) -> None:
    """It begins from a fresh start, so that the same call twice gives the same, and runs f once a call."""
    first_size, *others = new_sizes(3)
    calls = sizes(*random.choice(([first_size, first_size], [first_size])), *others, others[0])
    count = len(calls)
    right = compiled_anew(calls, dynamic=None)
    answers, runs, plain = afresh(student, [right, right], "compilations", 0, 2, calls)
    first, second = entry(answers, kind=list, count=2)
    shown = ", ".join(str(len(x)) for (x,) in calls)
    what = f"compilations of an f that was compiled before, for sizes {shown},"
    assert_equal(first, right, what=what)
    assert_equal(second, right, what="the same call once more")
    check_runs(plain, runs, 2 * count, count)


def check_runs(plain: Any, runs: Any, calls: int, graphs: int) -> None:
    """A backend may run a graph once for itself."""
    assert laws.same(plain, 0), "f itself runs, too: call the compiled function only."
    told = f"The compiled function runs {str(runs)[:20]} times where {calls} are right: once for each call."
    assert entry(runs, kind=int) in range(calls, calls + graphs + 1), told


@pytest.mark.points(8)
@pytest.mark.place("graph_breaks")
@pytest.mark.hint("Count the graphs of one call: each break adds one to the first.")
def test_breaks(student: Student) -> None:
    """It is the number of graphs of one call, minus one."""
    for breaks in random.sample((2, 3, 4, 5), 2):
        # The second argument says how many: one more.
        arguments = student.made("function", 2), torch.ones(3), breaks + 1
        what = f"graph_breaks of a function with {breaks} breaks"
        check_count(student, breaks, what, "graph_breaks", *arguments)
    what = "graph_breaks of a function in one piece"
    whole = student.made("function", 0)
    check_count(student, 0, what, "graph_breaks", whole, torch.ones(3))


@pytest.mark.points(4)
@pytest.mark.requires("test_breaks")
@pytest.mark.place("graph_breaks")
@pytest.mark.word("one break is always the same")
@pytest.mark.hint("torch._dynamo.reset() before f runs, once, compiled.")
def test_breaks_fresh(student: Student) -> None:
    """It begins from a fresh start, and the function runs once."""
    answers, runs, plain = afresh(student, [1], "graph_breaks", 1, 1, torch.ones(3))
    assert_equal(answers, [1], what="graph_breaks of an f compiled before")
    check_runs(plain, runs, 1, 0)


def clip(x: Tensor, max_norm: float) -> Tensor:
    norm = x.pow(2).sum().sqrt()
    return x * (max_norm / norm) if norm > max_norm else x


@pytest.mark.points(8)
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("torch.where(norm > max_norm, x * (max_norm / norm), x)")
def test_clip(student: Student) -> None:
    """Where the norm of all of x is above max_norm, x is scaled to it, else x has its values."""
    call = student.function("clip_by_norm")
    for shape in ((5,), (3, 4), (2, 3, 2), (), (1,)):
        unit = torch.randn(shape, dtype=torch.float64)
        unit = unit / unit.norm()
        for norm, bound in ((7.0, 2.0), (0.3, 2.0), (1.9, 2.0), (70.0, 3.0)):
            x = norm * unit
            what = f"clip_by_norm of an x of shape {shape} and norm {norm:g} to {bound:g}"
            right = clip(x, bound)  # an epsilon in the denominator, as PyTorch has it, is fine
            assert_close(call(x, bound), right, what=what, rtol=1e-5, atol=1e-7)
    x = torch.tensor([[3.0, 0.0], [0.0, -4.0]])
    assert_close(call(x, 5.0), x, what="clip_by_norm of x, whose norm is max_norm,")


@pytest.mark.points(4)
@pytest.mark.requires("test_clip")
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("0 / 0 is NaN: what does your formula divide by where the norm is 0?")
def test_clip_zeros(student: Student) -> None:
    """Zeros stay zeros."""
    for shape in ((3,), (2, 3), ()):
        x, what = torch.zeros(shape, dtype=torch.float64), f"clip_by_norm of zeros of shape {shape}"
        value = assert_tensor(student.function("clip_by_norm")(x, 2.0), shape=shape, what=what)
        assert_close(value, x, what=what)


@pytest.mark.points(3)
@pytest.mark.requires("test_clip")
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("x * factor is a new tensor, x *= factor is not; factor has the dtype of x.")
def test_clip_laws(student: Student) -> None:
    """x is left as it is, with any strides, and its dtype is kept."""
    x = 3 * torch.randn(3, 4)
    for bound in (1.0, 100.0):
        laws.check_changes_nothing(student, "clip_by_norm", x, bound)
        laws.check_dtypes(student, "clip_by_norm", x, bound)
    laws.check_layouts(student, "clip_by_norm", x, 1.0)
    x = 1e4 * x.double()
    laws.check_float64(student.function("clip_by_norm")(x, 1.0), clip(x, 1.0))


@pytest.mark.points(18)
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("No .item(), no if, no print: comparisons and torch.where work on tensors.")
def test_clip_one_graph(student: Student) -> None:
    """Compiled, it is one graph for a long and a short x, by itself and inside another function."""
    x = torch.randn(3, 4)
    long, short = 5 * x / x.norm(), x / x.norm()
    for inner in (True, False):
        report = student.run("clipped", inner, [long, short], 3.0)
        how = "called by a compiled function" if inner else "compiled with fullgraph=True"
        error = entry(report, "error", default=None)
        assert error is None, f"clip_by_norm cannot be {how}: {error}"
        assert laws.same(entry(report, "printed"), ""), "clip_by_norm prints: it should not."
        counts, values = fields(report, "graphs", "values")
        graphs = entry(counts, 0, kind=int)
        told = f"clip_by_norm, {how}, is {graphs} graphs: a value in Python (.item(), if) or a print breaks it."
        assert graphs == 1, told
        assert_equal(counts, [1, 1], what=f"graphs after each call, {how},")
        right = [clip(2 * y, 3.0) + 1 if inner else clip(y, 3.0) for y in (long, short)]
        assert_close(values, right, what=f"clip_by_norm, {how}, of a long and a short x")


def new_times(count: int) -> list[float]:
    """Seconds of so many calls, the first of which takes longest, as sums are exact."""
    later = [random.randrange(1, 64) / 32 for _ in range(count - 1)]
    return [4 + random.randrange(64) / 32 + 2**-12, *later]


def timed(student: Student, seconds: list[float], queued: Any = None, **options: Any) -> Any:
    report = student.run("timed", seconds, queued, options)
    error, log, given, frames = fields(report, "error", "log", "given", "frames")
    assert error is None, f"first_and_later raised ValueError for {options}: {str(error)[:100]}"
    assert laws.same(frames, 0), "first_and_later compiles f: call f as it is given."
    calls, count = options.get("calls", 10), len(entry(given, kind=list))
    assert_equal(count, calls, what="the number of calls of f")
    assert_equal(given, [[[3, "b"], {}]] * calls, what="the arguments of each call of f")
    return report, [str(event) for event in entry(log, kind=list)]


def assert_times(report: Any, times: list[float]) -> None:
    later, n = times[1:], len(times)
    right = (times[0], sum(later) / (n - 1))
    assert_close(entry(report, "value"), right, what="first_and_later")


@pytest.mark.points(8)
@pytest.mark.place("first_and_later")
@pytest.mark.hint("Read the clock before the first call, after it, and after the last one.")
def test_times(student: Student) -> None:
    """It times the first call, and the mean of all others, in as many calls as are asked for."""
    made = student.made("function", 3)
    laws.check_changes_nothing(student, "first_and_later", made, torch.ones(3), calls=2)
    for count in (4, 2, 10):
        times = new_times(count)
        options = {"calls": len(times)} if len(times) < 10 else {}
        report, _ = timed(student, times, **options)
        assert_times(report, times)
    report, _ = timed(student, [0.0], real=True, calls=2)
    for value in entry(report, "value", kind=(tuple, list), count=2):
        assert isinstance(value, float), "Without a clock the result is not two floats."


@pytest.mark.points(6)
@pytest.mark.place("first_and_later")
@pytest.mark.hint("synchronize() stands right before every clock(), the first one included.")
def test_synchronize(student: Student) -> None:
    """synchronize is called right before each reading of the clock, the first one included."""
    times, queued = new_times(4), 16.0 + random.randrange(16)
    report, log = timed(student, times, queued, calls=4)
    assert_times(report, times)
    readings = [i for i, event in enumerate(log) if event == "clock"]
    for number, i in enumerate(readings, 1):
        told = f"synchronize is not called right before reading {number} of the clock."
        assert log[i - 1 : i] == ["synchronize"], told


@pytest.mark.points(2)
@pytest.mark.requires("test_times")
@pytest.mark.place("first_and_later")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if calls < 2: raise ValueError that names calls, before anything else.")
def test_calls_below_2(student: Student) -> None:
    """Fewer than two calls are a ValueError that names calls, before f is called."""
    for calls in (1, 0, -3):
        report = student.run("timed", [1.0], None, {"calls": calls})
        error, log = fields(report, "error", "log")
        told = f"calls={calls} should raise a ValueError that names calls."
        assert isinstance(error, str) and "calls" in error.lower(), told
        assert "f" not in entry(log, kind=list), f"f is called before calls={calls} is refused."
