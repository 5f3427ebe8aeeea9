"""Tests of CountingBackend, compilations, graph_breaks, clip_by_norm and first_and_later."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from grader.judge.checks import assert_close, assert_equal, assert_tensor, entry, laws
from grader.judge.student import Student

Call = tuple[Tensor, str]

# The steps of the probe's programs, each of which is one call.
STEPS = ["module", "method", "function", "attribute"]
# Names by which the probe's function tells how many breaks it has.
NAMES = ["first", "second", "third"]
# Sizes of 0 and 1 are special to torch.compile.
SIZES = range(2, 30)
MAX_NORM = 3.0
# An epsilon in the denominator, as clip_grad_norm_ has it, is fine.
CLIP_TOLERANCE: Any = {"rtol": 1e-5, "atol": 1e-7}
# A part of the first call's seconds, so small that it is lost where they are rounded.
TICK = 2.0**-12


# --- CountingBackend -----------------------------------------------------------------------------


@pytest.mark.points(12)
@pytest.mark.place("CountingBackend")
@pytest.mark.hint("node.op in ('call_function', 'call_method', 'call_module') for gm.graph.nodes")
def test_counts(student: Student) -> None:
    """It counts the graphs, and the calls of each: functions, methods and modules."""
    programs = [[], new_steps(), new_steps()]
    random.shuffle(programs)
    report = student.run("counted", programs, torch.randn(3), torch.randn(3))
    right = [len(steps) for steps in programs]
    for i, counts in enumerate(entry(report, "counts", kind=list, count=len(programs) + 1)):
        what = f"the list of graphs and operations after {i} graphs"
        assert_equal(counts, [i, right[:i]], what=what)


@pytest.mark.points(2)
@pytest.mark.place("CountingBackend.__init__")
@pytest.mark.word("0 and [] are the same for all programs")
@pytest.mark.hint("Set self.graphs and self.operations in __init__, not in the class.")
def test_counts_for_itself(student: Student) -> None:
    """Each backend counts for itself: another one has 0 graphs and no operations."""
    report = student.run("counted", [new_steps()], torch.randn(3), torch.randn(3))
    told = "Another backend does not begin with 0 and []: set them in __init__, not in the class."
    for counts in entry(report, "others", kind=list, count=2):
        assert laws.same(counts, [0, []]), told


@pytest.mark.points(5)
@pytest.mark.place("CountingBackend.__call__")
@pytest.mark.hint("return gm.forward, and count when the backend is called: once for each graph.")
def test_runs(student: Student) -> None:
    """It returns a callable that computes the graph for what it is given; runs are not counted."""
    steps, factor, inputs = new_steps(), torch.randn(3), [torch.randn(3), torch.randn(3)]
    report = student.run("ran", steps, factor, inputs)
    kind = str(entry(report, "class"))[:40]
    told = f"The backend returns an object of type {kind}: return a callable, as gm.forward."
    assert kind == "callable", told
    right = [[run_steps(steps, factor, x)] for x in inputs]
    assert_close(entry(report, "values"), right, what="what the callable gives for two inputs")
    counts = entry(report, "counts", 0)
    assert_equal(counts, 1, what="the number of graphs after one graph has run twice")


@pytest.mark.points(2)
@pytest.mark.requires("test_runs")
@pytest.mark.place("CountingBackend.__call__")
@pytest.mark.hint("Detach nothing, and leave the grad mode alone.")
def test_gradients_flow(student: Student) -> None:
    """Gradients flow through the compiled graph."""
    steps, factor, x = new_steps(), torch.randn(3), torch.randn(3)
    leaf = x.clone().requires_grad_()
    run_steps(steps, factor, leaf).sum().backward()
    value = student.run("gradient", steps, factor, x)
    assert_close(value, leaf.grad, what="the gradient of x in a compiled function")


# --- compilations --------------------------------------------------------------------------------


@pytest.mark.points(6)
@pytest.mark.place("compilations")
@pytest.mark.hint("before = backend.graphs; compiled(*arguments); backend.graphs - before")
def test_compilations(student: Student) -> None:
    """Each call has the number of graphs that it compiles, and 0 where it compiles none."""
    # All different: with equal numbers, what is compiled behind a break for one name fits the other.
    breaks = dict(zip(NAMES, random.sample(range(4), 3), strict=True))
    vectors = [torch.ones(size) for size in new_sizes(3)]
    first, second, third = zip(vectors, NAMES, strict=True)
    later = [third, *random.choices([first, second, third], k=3)]
    random.shuffle(later)
    # The last one has a size from before, and another name.
    calls = [first, second, *later, (first[0], NAMES[1])]
    right = compiled_anew(calls, breaks)
    what = f"compilations, dynamic=False, {shown(calls, breaks)},"
    f = student.made("function", breaks)
    value = student.run("apart_from_backend", "compilations", f, calls, False)
    assert_equal(value, right, what=what)


@pytest.mark.points(4)
@pytest.mark.requires("test_compilations")
@pytest.mark.place("compilations")
@pytest.mark.hint("torch.compile(f, backend=backend, dynamic=dynamic)")
def test_dynamic(student: Student) -> None:
    """With dynamic=True sizes are variables from the start."""
    breaks = {"f": random.randint(1, 4)}
    calls = [(torch.ones(n), "f") for n in new_sizes(2)]
    f = student.made("function", breaks)
    value = student.run("apart_from_backend", "compilations", f, calls, True)
    what = f"compilations, dynamic=True, {shown(calls, breaks)},"
    assert_equal(value, [breaks["f"] + 1, 0], what=what)


@pytest.mark.requires("test_compilations")
@pytest.mark.place("compilations")
@pytest.mark.hint("The list that you fill begins empty.")
def test_no_calls(student: Student) -> None:
    """No calls give []."""
    value = student.run("apart_from_backend", "compilations", student.made("function"), [])
    assert_equal(value, [], what="compilations without calls")


@pytest.mark.points(6)
@pytest.mark.requires("test_compilations")
@pytest.mark.place("compilations")
@pytest.mark.hint("torch._dynamo.reset(), once, before torch.compile.")
def test_fresh_start(student: Student) -> None:
    """It begins from a fresh start, and with dynamic=None the second size is compiled as a variable."""
    calls, breaks, right, report = compiled_afresh(student)
    what = f"compilations of an f that was compiled before, dynamic=None, {shown(calls, breaks)},"
    assert_equal(entry(report, "value"), right, what=what)


@pytest.mark.points(2)
@pytest.mark.requires("test_fresh_start")
@pytest.mark.place("compilations")
@pytest.mark.hint("Call the compiled function once for each tuple, and f itself never.")
def test_runs_once(student: Student) -> None:
    """The compiled function runs once for each tuple, and f itself does not run."""
    compiled = compiled_afresh(student)
    check_runs(compiled.report, len(compiled.calls))


# --- graph_breaks --------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("graph_breaks")
@pytest.mark.hint("Count the graphs of one call: each break adds one to the first.")
def test_breaks(student: Student) -> None:
    """It is the number of graphs of one call, minus one."""
    for breaks in (0, random.randint(2, 4)):
        f = student.made("function", {"f": breaks})
        value = student.run("apart_from_backend", "graph_breaks", f, torch.ones(3), "f")
        assert_equal(value, breaks, what=f"graph_breaks of a function with {breaks} breaks")


@pytest.mark.points(3)
@pytest.mark.requires("test_breaks")
@pytest.mark.place("graph_breaks")
@pytest.mark.hint("torch._dynamo.reset() before f runs, once, compiled.")
def test_breaks_fresh(student: Student) -> None:
    """It begins from a fresh start."""
    breaks, report = broken_afresh(student)
    assert_equal(entry(report, "value"), breaks, what="graph_breaks of an f compiled before")


@pytest.mark.requires("test_breaks_fresh")
@pytest.mark.place("graph_breaks")
@pytest.mark.word("the sandbox counts the runs")
@pytest.mark.hint("Compile f, and call what comes back once.")
def test_breaks_run_once(student: Student) -> None:
    """f runs once."""
    _, report = broken_afresh(student)
    check_runs(report, 1)


# --- clip_by_norm --------------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("torch.where(norm > max_norm, x * (max_norm / norm), x)")
def test_clip(student: Student) -> None:
    """Where the norm of all of x is above max_norm, x is scaled to it, else x has its values."""
    for shape in ((2, 3, 2), ()):
        for norm in (7.0, 0.3, 0.97 * MAX_NORM):
            x = of_norm(norm, shape)
            value = student.function("clip_by_norm")(x, MAX_NORM)
            what = f"clip_by_norm of an x of shape {shape} and norm {norm:g} to {MAX_NORM:g}"
            assert_close(value, clip(x, MAX_NORM), what=what, **CLIP_TOLERANCE)


@pytest.mark.points(4)
@pytest.mark.requires("test_clip")
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("0 / 0 is NaN: what does your formula divide by where the norm is 0?")
def test_clip_zeros(student: Student) -> None:
    """Zeros stay zeros."""
    x = torch.zeros(2, 3, dtype=torch.float64)
    value = student.function("clip_by_norm")(x, MAX_NORM)
    assert_close(assert_tensor(value, shape=(2, 3)), x, what="clip_by_norm of zeros")


@pytest.mark.requires("test_clip")
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("x * factor is a new tensor, x *= factor is not.")
def test_clip_leaves_x(student: Student) -> None:
    """x is left as it is."""
    laws.check_changes_nothing(student, "clip_by_norm", of_norm(7.0, (3, 4)), MAX_NORM)


@pytest.mark.requires("test_clip")
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("Name no dtype: factor has that of x.")
def test_clip_dtypes(student: Student) -> None:
    """The result has the dtype of x, and float64 is computed to float64's precision."""
    x = of_norm(7.0, (3, 4))
    laws.check_dtypes(student, "clip_by_norm", x, MAX_NORM)
    laws.check_float64(student.function("clip_by_norm")(1e4 * x, 1.0), clip(1e4 * x, 1.0))


@pytest.mark.points(2)
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("No .item(), no if, no print: comparisons and torch.where work on tensors.")
def test_clip_one_graph(student: Student) -> None:
    """Compiled with fullgraph=True, it is one graph, which fits a long and a short x."""
    inputs, report = clipped(student)
    check_one_graph(report, "compiled with fullgraph=True", [clip(x, MAX_NORM) for x in inputs])


@pytest.mark.points(18)
@pytest.mark.requires("test_clip")
@pytest.mark.place("clip_by_norm")
@pytest.mark.hint("No .item(), which fullgraph lets pass, and no decorator of torch.compile.")
def test_clip_inside(student: Student) -> None:
    """It breaks no graph of a compiled function that calls it."""
    inputs = long_and_short()
    report = student.run("clipped_inside", inputs, MAX_NORM)
    right = [clip(2 * x, MAX_NORM) + 1 for x in inputs]
    check_one_graph(report, "called by a compiled function", right)


@pytest.mark.requires("test_clip")
@pytest.mark.place("clip_by_norm")
@pytest.mark.word("code that prints nothing passes, whatever else it does")
@pytest.mark.hint("Leave the print of clip_by_norm_eager out.")
def test_clip_prints_nothing(student: Student) -> None:
    """It prints nothing."""
    _, report = clipped(student)
    assert_equal(entry(report, "printed"), "", what="what clip_by_norm prints")


# --- first_and_later -----------------------------------------------------------------------------


@pytest.mark.points(8)
@pytest.mark.place("first_and_later")
@pytest.mark.hint("Read the clock before the first call, after it, and after the last one.")
def test_times(student: Student) -> None:
    """It gives the time of the first call, and the mean time of all others."""
    for count in (2, random.randrange(3, 8)):
        seconds = new_seconds(count)
        report = student.run("timed", seconds, [], {"calls": count})
        check_times(report, seconds)


@pytest.mark.points(2)
@pytest.mark.place("first_and_later")
@pytest.mark.hint("for _ in range(calls - 1): f(*args), as it is given, after the first call.")
def test_calls(student: Student) -> None:
    """f(*args), as it is given, is called `calls` times in all, 10 times by default."""
    arguments = [random.randrange(100), "b"]
    for count, options in ((10, {}), (3, {"calls": 3})):
        report = student.run("timed", new_seconds(count), arguments, options)
        calls = entry(report, "calls", kind=list)
        assert_equal(len(calls), count, what="the number of calls of f")
        assert_equal(calls, [arguments] * count, what="the arguments of each call of f")
        told = "first_and_later compiles f: call f as it is given."
        assert laws.same(entry(report, "compiled"), 0), told


@pytest.mark.requires("test_times")
@pytest.mark.place("first_and_later")
@pytest.mark.hint("Call f, and switch no mode of PyTorch.")
def test_timing_changes_nothing(student: Student) -> None:
    """Timing leaves the arguments of f and PyTorch's modes as they are."""
    f = student.made("function")
    laws.check_changes_nothing(student, "first_and_later", f, torch.ones(3), calls=2)


@pytest.mark.points(6)
@pytest.mark.place("first_and_later")
@pytest.mark.hint("synchronize() stands right before every clock(), the first one included.")
def test_synchronize(student: Student) -> None:
    """synchronize is called right before each reading of the clock, the first one included."""
    seconds, earlier_work = new_seconds(4), 16.0 + random.randrange(16)
    report = student.run("timed_with_queue", seconds, earlier_work, {"calls": 4})
    check_times(report, seconds)
    log = [str(event) for event in entry(report, "log", kind=list)]
    told = "synchronize is not called right before a reading of the clock."
    for i, event in enumerate(log):
        assert event != "clock" or log[i - 1 : i] == ["synchronize"], told


@pytest.mark.requires("test_times")
@pytest.mark.place("first_and_later")
@pytest.mark.word("the sandbox says that it raised")
@pytest.mark.hint("if calls < 2: raise ValueError that names calls, before anything else.")
def test_calls_below_2(student: Student) -> None:
    """Fewer than two calls are a ValueError that names calls, before f is called."""
    table: dict[str, Any] = {"calls": [([1.0], [], {"calls": calls}) for calls in (1, 0)]}
    laws.check_errors(student, student.probe("timed"), table, fine=([1.0, 1.0], [], {"calls": 2}))


# --- locally -------------------------------------------------------------------------------------


def new_steps() -> list[str]:
    """The steps of a program: each kind of call, and some of them again."""
    steps = [*STEPS, *random.choices(STEPS, k=random.randrange(1, 4))]
    random.shuffle(steps)
    return steps


def run_steps(steps: list[str], factor: Tensor, x: Tensor) -> Tensor:
    """What the probe's Program of these steps gives."""
    run = {
        "module": torch.tanh,
        "method": torch.neg,
        "function": torch.sin,
        "attribute": factor.mul,
    }
    for step in steps:
        x = run[step](x)
    return x


def new_sizes(count: int) -> list[int]:
    return random.sample(SIZES, count)


def shown(calls: list[Call], breaks: dict[str, int]) -> str:
    sizes = ", ".join(str(len(x)) for x, _ in calls)
    numbers = ", ".join(str(breaks[name]) for _, name in calls)
    return f"for sizes {sizes} and an f with {numbers} breaks"


def compiled_anew(calls: list[Call], breaks: dict[str, int]) -> list[int]:
    """The graphs of each call, without dynamic sizes: 0 where such a call came before."""
    compiled = set[tuple[int, str]]()
    graphs = []
    for x, name in calls:
        call = len(x), name
        graphs.append(0 if call in compiled else breaks[name] + 1)
        compiled.add(call)
    return graphs


class CompiledAfresh(NamedTuple):
    """Calls with dynamic=None of a function that torch.compile gave up before."""

    calls: list[Call]
    breaks: dict[str, int]
    right: list[int]  # the graphs that each call compiles
    report: Any


def compiled_afresh(student: Student) -> CompiledAfresh:
    def ask() -> CompiledAfresh:
        first, second, third = new_sizes(3)
        breaks = {"f": random.randrange(1, 4)}
        # The first size is compiled as it is, and the second one for all sizes.
        graphs = breaks["f"] + 1
        sizes, right = [first, second, third, second], [graphs, graphs, 0, 0]
        if random.random() < 0.5:
            sizes.insert(1, first)
            right.insert(1, 0)
        calls = [(torch.ones(size), "f") for size in sizes]
        report = student.run("afresh", "compilations", breaks, calls)
        return CompiledAfresh(calls, breaks, right, report)

    return student.once("compilations", ask)


def broken_afresh(student: Student) -> tuple[int, Any]:
    """A number of breaks, and the report of graph_breaks of a function that has so many."""

    def ask() -> tuple[int, Any]:
        breaks = random.randrange(1, 5)
        return breaks, student.run("afresh", "graph_breaks", {"f": breaks}, torch.ones(3), "f")

    return student.once("graph_breaks", ask)


def clipped(student: Student) -> tuple[list[Tensor], Any]:
    """A long and a short x, and the report of the compiled clip_by_norm."""

    def ask() -> tuple[list[Tensor], Any]:
        inputs = long_and_short()
        return inputs, student.run("clipped", inputs, MAX_NORM)

    return student.once("clip_by_norm", ask)


def check_runs(report: Any, calls: int) -> None:
    """The function ran once, compiled, for each call."""
    assert laws.same(entry(report, "plain"), 0), "f itself runs, too: call what is compiled only."
    assert_equal(entry(report, "compiled"), calls, what="how often the compiled function runs")


def of_norm(norm: float, shape: tuple[int, ...]) -> Tensor:
    x = torch.randn(shape, dtype=torch.float64)
    scaled: Tensor = norm * x / x.norm()
    return scaled


def long_and_short() -> list[Tensor]:
    """An x that is to be clipped to MAX_NORM, and one that is not."""
    return [of_norm(5.0, (3, 4)), of_norm(1.0, (3, 4))]


def clip(x: Tensor, max_norm: float) -> Tensor:
    """What clip_by_norm_eager gives."""
    norm = x.pow(2).sum().sqrt()
    return x * (max_norm / norm) if norm > max_norm else x


def check_one_graph(report: Any, how: str, right: list[Tensor]) -> None:
    """Two calls were compiled to one graph, and gave these values."""
    error = entry(report, "error")
    assert error is None, f"clip_by_norm cannot be {how}: {error}"
    what = f"the number of graphs after two calls, {how},"
    assert_equal(entry(report, "graphs"), [1, 1], what=what)
    what = f"clip_by_norm, {how}, of a long and a short x"
    assert_close(entry(report, "values"), right, what=what, **CLIP_TOLERANCE)


def new_seconds(count: int) -> list[float]:
    """Seconds of so many calls, the first of which takes longest; their sums are exact."""
    later = [random.randrange(1, 64) / 32 for _ in range(count - 1)]
    return [4 + random.randrange(64) / 32 + TICK, *later]


def check_times(report: Any, seconds: list[float]) -> None:
    first, *later = seconds
    right = (first, sum(later) / len(later))
    assert_close(entry(report, "value"), right, what="first_and_later")
