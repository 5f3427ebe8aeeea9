"""What CountingBackend, compilations, graph_breaks, clip_by_norm and first_and_later promise."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, fields, laws
from grader.judge.student import Student

ONCE = "Count what the backend is given when it is called: its __call__ is once for each graph."
RESET = "f was compiled before, and nothing was reset: torch._dynamo.reset() comes first."


@pytest.mark.points(12)
@pytest.mark.place("CountingBackend")
@pytest.mark.hint("node.op in ('call_function', 'call_method', 'call_module') for gm.graph.nodes")
def test_counts(student: Student) -> None:
    """It counts graphs, and the call nodes of each: functions, methods and modules."""
    names, right = ["net", "sine", "inputs", "net"], [3, 4, 0, 3]
    reports = student.run("counted", names, torch.randn(3, 2), torch.randn(3, 2))
    reports = entry(reports, kind=list, count=5)
    new = "A new backend does not begin with 0 and []: are they those of the class, for all?"
    assert laws.same(entry(reports[0], "counts"), [0, []]), new
    nodes = {
        "All nodes are counted, inputs, parameters and the output, too: calls only.": [7, 7, 3, 7],
        "Parameters (get_attr) are counted, too: calls only.": [4, 4, 0, 4],
        "The output is counted, too: calls only.": [4, 5, 1, 4],
        "call_function alone is counted: call_method and call_module are, too.": [1, 3, 0, 1],
        "call_module is left out: it is a call, too.": [2, 4, 0, 2],
        "call_method is left out: it is a call, too.": [2, 3, 0, 2],
        "A function that is called twice is counted once: count every call.": [3, 3, 0, 3],
        "operations is a running total: append the number of this graph.": [3, 7, 7, 10],
    }
    wrong: dict[str, Any] = {told: [4, numbers] for told, numbers in nodes.items()}
    wrong["graphs stays 1: it is for all graphs that were given."] = [1, right]
    wrong[f"graphs stays 0. {ONCE}"] = [0, right]
    wrong["operations holds the last graph only: append."] = [4, [3]]
    wrong["operations is a sum: it should be a list."] = [4, 10]
    what = "graphs and operations after 4 graphs"
    assert_equal(entry(reports[4], "counts"), [4, right], what=what, mistakes=wrong)
    for i, report in enumerate(reports[1:4], 1):
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
        same = {"Every run gives the same: use what the run is given.": outputs(x, y)}
        for run, given in zip(entry(runs, kind=list, count=2), ((x, y), (y, x)), strict=True):
            assert_close(run, outputs(*given), what="what the callable gives", mistakes=same)
        assert laws.same(later, counts), f"Runs change the counts. {ONCE}"
    x = torch.randn(4, dtype=torch.float64)
    values, grad, graphs = fields(student.run("compiled", x), "values", "grad", "graphs")
    assert_close(values, x.sin() * x, what="the compiled sin(x) * x")
    cut = {"No gradient passes through the compiled function: detach nothing.": None}
    assert_close(grad, x.cos() * x + x.sin(), what="the gradient of sin(x) * x", mistakes=cut)
    assert_equal(graphs, 2, what="graphs, one with a gradient and one without,")


def sizes(*numbers: int) -> list[tuple[Tensor]]:
    return [(torch.ones(n),) for n in numbers]


def mistaken(right: list[int]) -> dict[str, Any]:
    totals, anew = [sum(right[: i + 1]) for i in range(len(right))], [max(right)] * len(right)
    return {
        "These are running totals: give what each call adds.": totals,
        "Every call compiles anew (reset once, before all calls), or runs are counted, not graphs.": anew,
        "These are breaks: count the graphs, not the graphs minus one.": [n - 1 for n in right],
        "These are True and False: give numbers of graphs.": [n > 0 for n in right],
        "This is the sum over the calls: give a number for each.": sum(right),
    }


@pytest.mark.points(12)
@pytest.mark.place("compilations")
@pytest.mark.hint("before = backend.graphs; compiled(*arguments); backend.graphs - before")
def test_compilations(student: Student) -> None:
    """Each call has the number of graphs that it compiles, for fixed and for dynamic sizes."""
    x, z = torch.ones(3), torch.ones(4)
    whole, broken = student.made("function", 0), student.made("function", 1)
    dynamic = "dynamic does not arrive: torch.compile(f, backend=backend, dynamic=dynamic)."
    calls = [(x, 2), (x, 2), (z, 2), (torch.ones(5), 2), (torch.ones(5), 3)]
    what, right = "compilations, dynamic=False, for sizes 3, 3, 4, 5, 5,", [1, 0, 1, 1, 1]
    wrong: dict[str, Any] = {
        dynamic: [1, 0, 1, 0, 1],
        "Only the first argument arrives.": [1, 0, 1, 1, 0],
    }
    wrong |= mistaken(right)
    check_count(student, right, what, wrong, "compilations", whole, calls, False)
    what, right = "compilations, dynamic=True, with a break, for sizes 3, 3, 4, 5,", [2, 0, 0, 0]
    wrong = {dynamic: [2, 0, 1, 0], **mistaken(right)}
    wrong["A break adds a graph: count each graph of a call."] = [1, 0, 0, 0]
    args = ("compilations", broken, sizes(3, 3, 4, 5), True)
    check_count(student, right, what, wrong, *args)
    value = student.function("compilations")(whole, [])
    assert_equal(value, [], what="compilations without calls")


def check_count(
    student: Student, right: Any, what: str, wrong: dict[str, Any], name: str, *args: Any
) -> None:
    """The function is right with a plain backend, or with the student's own."""
    if laws.same(student.run("plainly", name, *args), right):
        return  # what is wrong with the student's backend is judged above
    assert_equal(student.function(name)(*args), right, what=what, mistakes=wrong)


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
    right = [1, 0, 1, 0]
    both = [right, right]
    answers, runs, plain = afresh(student, both, "compilations", 0, 2, sizes(3, 3, 4, 5))
    first, second = entry(answers, kind=list, count=2)
    what = "compilations of an f that was compiled before, for sizes 3, 3, 4, 5,"
    before = "Sizes that varied before are remembered: torch._dynamo.reset() forgets them, too."
    wrong = {
        RESET: [0] * 4,
        before: [1, 0, 0, 0],
        "dynamic=None is not the same as False.": [1, 0, 1, 1],
    }
    assert_equal(first, right, what=what, mistakes={**wrong, **mistaken(right)})
    still = "the second time: torch._dynamo.reset() comes first."
    wrong = {f"The size is a variable at once {still}": [1, 0, 0, 0]}
    wrong |= {f"Nothing is compiled {still}": [0] * 4}
    assert_equal(second, right, what="the same call once more", mistakes=wrong)
    check_runs(plain, runs, 8, 4)


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
    wrong = {
        "These are graphs: one break makes two of them.": 3,
        "Any number of breaks is reported as one, or the second argument is lost.": 1,
        "This is True or False: give a number.": True,
    }
    x, what = torch.ones(3), "graph_breaks of a function with 2 breaks"
    check_count(student, 2, what, wrong, "graph_breaks", student.made("function", 2), x, 5)
    what = "graph_breaks of a function in one piece"
    check_count(student, 0, what, {}, "graph_breaks", student.made("function", 0), x)


@pytest.mark.points(4)
@pytest.mark.requires("test_breaks")
@pytest.mark.place("graph_breaks")
@pytest.mark.hint("torch._dynamo.reset() before f runs, once, compiled.")
def test_breaks_fresh(student: Student) -> None:
    """It begins from a fresh start, and the function runs once."""
    answers, runs, plain = afresh(student, [1], "graph_breaks", 1, 1, torch.ones(3))
    assert_equal(answers, [1], what="graph_breaks of an f compiled before", mistakes={RESET: [0]})
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
            row = torch.stack([clip(y, bound) for y in x.reshape(-1, *shape[-1:])])
            wrong = {
                "Short vectors are stretched, too: they stay as they are.": x * (bound / norm),
                "Long vectors stay as they are: they should be scaled to max_norm.": x,
                "Each row is clipped by its own norm: take that of all of x.": row.reshape(shape),
                "Each entry is clamped: scale all of x by one factor.": x.clamp(-bound, bound),
                "Long vectors are divided by their norm: times max_norm.": unit,
            }
            what = f"clip_by_norm of an x of shape {shape} and norm {norm:g} to {bound:g}"
            right = clip(x, bound)  # an epsilon in the denominator, as PyTorch has it, is fine
            assert_close(call(x, bound), right, what=what, mistakes=wrong, rtol=1e-5, atol=1e-7)
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
        nan = {"0 / 0 is NaN, and so is 0 * inf: zeros should stay zeros.": x * torch.nan}
        assert_close(value, x, what=what, mistakes=nan)


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
        wrong = {"A short x compiles another graph: a Python if chooses.": [1, 2]}
        assert_equal(counts, [1, 1], what=f"graphs after each call, {how},", mistakes=wrong)
        right = [clip(2 * y, 3.0) + 1 if inner else clip(y, 3.0) for y in (long, short)]
        assert_close(values, right, what=f"clip_by_norm, {how}, of a long and a short x")


def timed(student: Student, seconds: list[float], queued: Any = None, **options: Any) -> Any:
    report = student.run("timed", seconds, queued, options)
    error, log, given, frames = fields(report, "error", "log", "given", "frames")
    assert error is None, f"first_and_later raised ValueError for {options}: {str(error)[:100]}"
    assert laws.same(frames, 0), "first_and_later compiles f: call f as it is given."
    calls, count = options.get("calls", 10), len(entry(given, kind=list))
    untimed = {"There is a call too many: no call is untimed.": calls + 1}
    assert_equal(count, calls, what="the number of calls of f", mistakes=untimed)
    assert_equal(given, [[[3, "b"], {}]] * calls, what="the arguments of each call of f")
    return report, [str(event) for event in entry(log, kind=list)]


def assert_times(report: Any, times: list[float], queued: float = 0.0) -> None:
    later, n = times[1:], len(times)
    wrong = {
        "Both are exchanged.": (sum(later) / (n - 1), times[0]),
        "The mean has the first call in it.": (times[0], sum(times) / n),
        "The sum of the later calls is divided by all calls.": (times[0], sum(later) / n),
        "The later calls are not divided by their number.": (times[0], sum(later)),
        "These are times of the clock: take differences.": (100 + times[0], 100 + sum(times)),
        "The second is the time of the last call alone.": (times[0], times[-1]),
        "The second is the fastest of the later calls, not their mean.": (times[0], min(later)),
        "What was queued before counts for the first call: synchronize before it.": (
            queued + times[0], sum(later) / (n - 1)),
        "Only the calls themselves are timed, not the work that they queue: synchronize.": (0.0, 0.0),
    }  # fmt: skip
    right = (times[0], sum(later) / (n - 1))
    assert_close(entry(report, "value"), right, what="first_and_later", mistakes=wrong)


@pytest.mark.points(8)
@pytest.mark.place("first_and_later")
@pytest.mark.hint("Read the clock before the first call, after it, and after the last one.")
def test_times(student: Student) -> None:
    """It times the first call, and the mean of all others, in as many calls as are asked for."""
    made = student.made("function", 3)
    laws.check_changes_nothing(student, "first_and_later", made, torch.ones(3), calls=2)
    for times in ([4 + 2**-12, 0.5, 0.25, 1.5], [2.0, 0.75], [8.0, *[0.5, 0.125, 2.0] * 3]):
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
    times = [4.0, 0.5, 0.25, 1.5]
    report, log = timed(student, times, 16.0, calls=4)
    assert_times(report, times, 16.0)
    readings = [i for i, event in enumerate(log) if event == "clock"]
    for number, i in enumerate(readings, 1):
        told = f"synchronize is not called right before reading {number} of the clock."
        assert log[i - 1 : i] == ["synchronize"], told


@pytest.mark.points(2)
@pytest.mark.requires("test_times")
@pytest.mark.place("first_and_later")
@pytest.mark.hint("if calls < 2: raise ValueError that names calls, before anything else.")
def test_calls_below_2(student: Student) -> None:
    """Fewer than two calls are a ValueError that names calls, before f is called."""
    for calls in (1, 0, -3):
        report = student.run("timed", [1.0], None, {"calls": calls})
        error, log = fields(report, "error", "log")
        told = f"calls={calls} should raise a ValueError that names calls."
        assert isinstance(error, str) and "calls" in error.lower(), told
        assert "f" not in entry(log, kind=list), f"f is called before calls={calls} is refused."
