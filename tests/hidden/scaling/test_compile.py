"""Tests of CountingBackend, compilations, graph_breaks, clip_by_norm and first_and_later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from grader.judge.checks import Cases, Draw, entry, laws, promise, raises, within
from grader.judge.student import Student

T = TypeVar("T")
Call = tuple[Tensor, str]

# The steps of the probe's programs, each of which is one call.
STEPS = ["module", "method", "function", "attribute"]
# Names by which the probe's function looks up its number of breaks.
NAMES = ["first", "second", "third"]
MAX_NORM = 3.0
# A small number in the denominator, as in clip_grad_norm_, is fine.
CLIP_TOLERANCE: Any = {"rtol": 1e-5, "atol": 1e-7}
# A part of the first call's seconds that is so small that rounding them loses it.
TICK = 2.0**-12


# --- CountingBackend -----------------------------------------------------------------------------


@promise(
    "CountingBackend",
    points=12,
    hint="node.op in ('call_function', 'call_method', 'call_module') for gm.graph.nodes",
)
def test_counts(code: Student, draw: Draw) -> Cases:
    """A backend counts the graphs, and the calls in each: of functions, methods and modules."""
    programs = shuffled(draw, [[], new_steps(draw), new_steps(draw)])
    report = code.run("counted", programs, draw.normal(3), draw.normal(3))
    yield (
        "the list of graphs and operations, at first and after each graph",
        entry(report, "counts"),
    )


@promise(
    "CountingBackend.__init__",
    points=2,
    hint="Set self.graphs and self.operations in __init__, not in the class.",
    word="0 and [] are the same for all programs",
)
def test_counts_for_itself(code: Student, draw: Draw) -> Cases:
    """Each backend counts for itself: another backend has 0 graphs and no operations."""
    report = code.run("counted", [new_steps(draw)], draw.normal(3), draw.normal(3))
    yield "the list of counts of backends without a graph", entry(report, "others")


@promise(
    "CountingBackend.__call__",
    points=5,
    hint="return gm.forward, and count when the backend is called: once for each graph.",
)
def test_runs(code: Student, draw: Draw) -> Cases:
    """A backend returns a callable that computes the graph for its inputs; runs are not counted."""
    inputs = [draw.normal(3), draw.normal(3)]
    report = code.run("ran", new_steps(draw), draw.normal(3), inputs)
    yield "the list of the callable's results for two inputs", entry(report, "values")
    yield "the number of graphs after one graph has run twice", entry(report, "graphs")


@promise(
    "CountingBackend.__call__",
    points=2,
    hint="Detach nothing, and leave the grad mode alone.",
    after="test_runs",
)
def test_gradients_flow(code: Student, draw: Draw) -> Cases:
    """Gradients flow through the compiled graph."""
    gradient = code.run("gradient", new_steps(draw), draw.normal(3), draw.normal(3))
    yield "the gradient of x in a compiled function", gradient


# --- compilations --------------------------------------------------------------------------------


@promise(
    "compilations",
    points=6,
    hint="before = backend.graphs; compiled(*arguments); backend.graphs - before",
)
def test_compilations(code: Student, draw: Draw) -> Cases:
    """The list has, for each call, the number of graphs that it compiles, which may be 0."""
    # All different: with equal numbers, graphs compiled behind a break for one name would fit another.
    breaks = dict(zip(NAMES, draw.permutation(4)[:3].tolist(), strict=True))
    first, second, third = zip(new_vectors(draw, 3), NAMES, strict=True)
    later = [third, *(draw.choice([first, second, third]) for _ in range(3))]
    # The last call has an earlier size with another name.
    calls = [first, second, *shuffled(draw, later), (first[0], NAMES[1])]
    f = code.made("function", breaks)
    graphs = code.run("apart_from_backend", "compilations", f, calls, False)
    yield f"compilations with dynamic=False, {sizes_of(calls)},", graphs


@promise(
    "compilations",
    points=4,
    hint="torch.compile(f, backend=backend, dynamic=dynamic)",
    after="test_compilations",
)
def test_dynamic(code: Student, draw: Draw) -> Cases:
    """With dynamic=True sizes are variables from the start."""
    calls = [(x, "f") for x in new_vectors(draw, 2)]
    f = code.made("function", {"f": draw.size(1, 5)})
    graphs = code.run("apart_from_backend", "compilations", f, calls, True)
    yield f"compilations with dynamic=True, {sizes_of(calls)},", graphs


@promise("compilations", hint="The list that you fill begins empty.", after="test_compilations")
def test_no_calls(code: Student, draw: Draw) -> Cases:
    """No calls give []."""
    graphs = code.run("apart_from_backend", "compilations", code.made("function"), [])
    yield "compilations without calls", graphs


@promise(
    "compilations",
    points=6,
    hint="torch._dynamo.reset(), once, before torch.compile.",
    after="test_compilations",
)
def test_fresh_start(code: Student, draw: Draw) -> Cases:
    """compilations starts fresh, and with dynamic=None the second size is compiled as a variable."""
    first, second, third = new_vectors(draw, 3)
    vectors = draw.choice([[first, second, third, second], [first, first, second, third, second]])
    calls = [(x, "f") for x in vectors]
    graphs = code.run("afresh", "compilations", {"f": draw.size(1, 4)}, calls)
    yield f"compilations of an f that was compiled before, {sizes_of(calls)},", graphs


@promise(
    "compilations",
    hint="Call the function that torch.compile returns, never f itself.",
    after="test_fresh_start",
    word="the sandbox counts the runs",
)
def test_runs_compiled(code: Student, draw: Draw) -> Cases:
    """f itself does not run."""
    calls = [(x,) for x in new_vectors(draw, 2)]
    yield "the number of runs of f itself", code.run("own_runs", "compilations", calls)


# --- graph_breaks --------------------------------------------------------------------------------


@promise(
    "graph_breaks",
    points=8,
    hint="Count the graphs of one call: each break adds one to the first.",
)
def test_breaks(code: Student, draw: Draw) -> Cases:
    """The number of breaks is the number of graphs of one call, minus one."""
    for breaks in (0, draw.size(2, 5)):
        f = code.made("function", {"f": breaks})
        value = code.run("apart_from_backend", "graph_breaks", f, torch.ones(3), "f")
        yield f"graph_breaks of a function with {breaks} breaks", value


@promise(
    "graph_breaks",
    points=3,
    hint="torch._dynamo.reset() before f runs, compiled.",
    after="test_breaks",
)
def test_breaks_fresh(code: Student, draw: Draw) -> Cases:
    """graph_breaks starts fresh."""
    value = code.run("afresh", "graph_breaks", {"f": draw.size(1, 5)}, torch.ones(3), "f")
    yield "graph_breaks of an f compiled before", value


@promise(
    "graph_breaks",
    hint="Compile f, and call the compiled function.",
    after="test_breaks_fresh",
    word="the sandbox counts the runs",
)
def test_breaks_run_compiled(code: Student, draw: Draw) -> Cases:
    """f itself does not run."""
    yield "the number of runs of f itself", code.run("own_runs", "graph_breaks", torch.ones(3))


# --- clip_by_norm --------------------------------------------------------------------------------


@promise("clip_by_norm", points=8, hint="torch.where(norm > max_norm, x * (max_norm / norm), x)")
def test_clip(code: Student, draw: Draw) -> Cases:
    """If the norm of all of x is above max_norm, x is scaled to that norm, else it keeps its values."""
    for shape in ((2, 3, 2), ()):
        for norm in (7.0, 0.3, 0.97 * MAX_NORM):
            value = code.function("clip_by_norm")(of_norm(draw, norm, shape), MAX_NORM)
            what = f"clip_by_norm of an x of shape {shape} and norm {norm:g} to {MAX_NORM:g}"
            yield what, within(value, **CLIP_TOLERANCE)


@promise(
    "clip_by_norm",
    points=4,
    hint="0 / 0 is NaN: what does your formula divide by where the norm is 0?",
    after="test_clip",
)
def test_clip_zeros(code: Student, draw: Draw) -> Cases:
    """Zeros stay zeros."""
    zeros = torch.zeros(draw.size(2, 9), 3, dtype=torch.float64)
    yield "clip_by_norm of zeros", code.function("clip_by_norm")(zeros, MAX_NORM)


@promise("clip_by_norm", hint="x * factor is a new tensor, x *= factor is not.", after="test_clip")
def test_clip_leaves_x(student: Student) -> None:
    """x is left as it is."""
    x = of_norm(Draw(0), 7.0, (3, 4))
    laws.check_changes_nothing(student, "clip_by_norm", x, MAX_NORM)


@promise("clip_by_norm", hint="Name no dtype: factor has the dtype of x.", after="test_clip")
def test_clip_dtypes(code: Student, draw: Draw) -> Cases:
    """The result has the dtype of x, and float64 is computed to float64's precision."""
    x = of_norm(draw, 7.0, (3, 4))
    laws.check_dtypes(code, "clip_by_norm", x, MAX_NORM)
    # So large a norm that a small number in the denominator makes no difference.
    yield "clip_by_norm", code.function("clip_by_norm")(1e4 * x, 1.0)


@promise(
    "clip_by_norm",
    points=2,
    hint="No .item(), no if, no print: comparisons and torch.where work on tensors.",
)
def test_clip_one_graph(code: Student, draw: Draw) -> Cases:
    """Compiled with fullgraph=True, clip_by_norm is one graph, which fits a long and a short x."""
    report = code.run("clipped", long_and_short(draw), MAX_NORM)
    yield from one_graph(report, "compiled with fullgraph=True")


@promise(
    "clip_by_norm",
    points=18,
    hint="No .item(), which fullgraph lets pass, and no decorator of torch.compile.",
    after="test_clip",
)
def test_clip_inside(code: Student, draw: Draw) -> Cases:
    """clip_by_norm breaks no graph of a compiled function that calls it."""
    report = code.run("clipped_inside", long_and_short(draw), MAX_NORM)
    yield from one_graph(report, "called by a compiled function")


@promise(
    "clip_by_norm",
    hint="Leave the print of clip_by_norm_eager out.",
    after="test_clip",
    word="code that prints nothing passes, whatever else it does",
)
def test_clip_prints_nothing(code: Student, draw: Draw) -> Cases:
    """clip_by_norm prints nothing."""
    report = code.run("clipped", long_and_short(draw), MAX_NORM)
    yield "the text that clip_by_norm prints", entry(report, "printed")


# --- first_and_later -----------------------------------------------------------------------------


@promise(
    "first_and_later",
    points=8,
    hint="Read the clock before the first call, after it, and after the last one.",
)
def test_times(code: Student, draw: Draw) -> Cases:
    """The result is the time of the first call, and the mean time of all others."""
    for count in (2, draw.size(3, 8)):
        report = code.run("timed", new_seconds(draw, count), [], {"calls": count})
        yield "first_and_later", entry(report, "value")


@promise(
    "first_and_later",
    points=2,
    hint="for _ in range(calls - 1): f(*args), as it is given, after the first call.",
)
def test_calls(code: Student, draw: Draw) -> Cases:
    """f(*args), as it is given, is called `calls` times in all, 10 times by default."""
    arguments = [draw.size(0, 100), "b"]
    for count, options in ((10, {}), (3, {"calls": 3})):
        report = code.run("timed", new_seconds(draw, count), arguments, options)
        yield (
            f"the list of the arguments of each call of f, {count} in all,",
            entry(report, "calls"),
        )
        yield "the number of functions that first_and_later compiles", entry(report, "compiled")


@promise("first_and_later", hint="Call f, and switch no mode of PyTorch.", after="test_times")
def test_timing_changes_nothing(student: Student) -> None:
    """Timing leaves the arguments of f and PyTorch's modes as they are."""
    f = student.made("function")
    laws.check_changes_nothing(student, "first_and_later", f, torch.ones(3), calls=2)


@promise(
    "first_and_later",
    points=6,
    hint="Call synchronize() right before every clock(), including the first one.",
)
def test_synchronize(code: Student, draw: Draw) -> Cases:
    """synchronize is called right before each reading of the clock, the first one included."""
    seconds, earlier_work = new_seconds(draw, 4), float(draw.size(16, 32))
    report = code.run("timed_with_queue", seconds, earlier_work, {"calls": 4})
    yield "first_and_later", entry(report, "value")
    log = [str(event) for event in entry(report, "log", kind=list)]
    told = "synchronize is not called right before a reading of the clock."
    for i, event in enumerate(log):
        assert event != "clock" or log[i - 1 : i] == ["synchronize"], told


@promise(
    "first_and_later",
    hint="if calls < 2: raise ValueError that names calls, before anything else.",
    after="test_times",
    word="the sandbox says that it raised",
)
def test_calls_below_2(code: Student, draw: Draw) -> Cases:
    """Fewer than two calls are a ValueError that names calls, before f is called."""
    for calls in (1, 0):
        refused = raises(ValueError, "calls", code.run, "timed", [1.0], [], {"calls": calls})
        yield f"first_and_later with calls={calls}", refused


# --- helpers of the tests ------------------------------------------------------------------------


def shuffled(draw: Draw, items: Sequence[T]) -> list[T]:
    """The items in a drawn order."""
    return [items[place] for place in draw.permutation(len(items)).tolist()]


def new_steps(draw: Draw) -> list[str]:
    """The steps of a program: each kind of call once, and some again."""
    return shuffled(draw, [*STEPS, *(draw.choice(STEPS) for _ in range(draw.size(1, 4)))])


def new_vectors(draw: Draw, count: int) -> list[Tensor]:
    """Vectors of different sizes, without 0 and 1, which torch.compile treats specially."""
    return [torch.ones(2 + size) for size in draw.permutation(28)[:count].tolist()]


def sizes_of(calls: Sequence[Call]) -> str:
    return f"for sizes {', '.join(str(len(x)) for x, _ in calls)}"


def of_norm(draw: Draw, norm: float, shape: tuple[int, ...]) -> Tensor:
    x = draw.normal(*shape, dtype=torch.float64)
    scaled: Tensor = norm * x / x.norm()
    return scaled


def long_and_short(draw: Draw) -> list[Tensor]:
    """One x with a norm above MAX_NORM, and one below."""
    return [of_norm(draw, norm, (3, 4)) for norm in (5.0, 1.0)]


def one_graph(report: Any, how: str) -> Cases:
    """The graphs and the values of two calls of the compiled clip_by_norm."""
    error = entry(report, "error")
    assert error is None, f"clip_by_norm cannot be {how}: {error}"
    yield f"the number of graphs after each of two calls, {how},", entry(report, "graphs")
    what = f"clip_by_norm, {how}, of a long and a short x"
    yield what, within(entry(report, "values"), **CLIP_TOLERANCE)


def new_seconds(draw: Draw, count: int) -> list[float]:
    """Seconds of `count` calls, the first of which takes longest. Their sums are exact."""
    first, *later = draw.integers(count, low=1, high=64).tolist()
    return [4 + first / 32 + TICK, *(each / 32 for each in later)]
